"""Checks of the machine: Python, packages, files, the embedder. They need no database."""

import os
import shutil
import sys
from pathlib import Path
from typing import Final

from memoriale.adapters.doctor.checks import Check
from memoriale.adapters.settings import Settings
from memoriale.domain.errors import MemorialeError

LEAST_FREE_BYTES: Final = 512 * 1024 * 1024
PACKAGES: Final = (
    "memoriale",
    "eventsourcing",
    "psycopg",
    "lancedb",
    "duckdb",
    "pyarrow",
    "cryptography",
    "pydantic",
)


def python() -> Check:
    """The version of Python."""
    version = ".".join(str(part) for part in sys.version_info[:3])
    return Check.of("python", sys.version_info >= (3, 11), version)


def packages() -> Check:
    """The packages that the project stands on."""
    from importlib.metadata import PackageNotFoundError, version

    found, missing = [], []
    for name in PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(f"{name} is missing")
    return Check.of("packages", not missing, ", ".join(missing + found))


def home(settings: Settings) -> Check:
    """The folders that hold keys and views in clear are their owner's alone."""
    folder = settings.home
    if not folder.is_dir():
        return Check.failed("home", f"{folder} does not exist; run memoriale init")
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return Check.failed("home", f"{folder} cannot be written by this user")
    private = (folder, settings.keys_folder, settings.views_folder)
    loose = [f"{path} is {mode(path):04o}" for path in private if mode(path) & 0o077]
    if loose:
        return Check.failed("home", f"{'; '.join(loose)}; chmod 700 keeps others out")
    return Check.passed("home", f"{folder}, for its owner alone")


def disk(settings: Settings) -> Check:
    """Room on the disk of the home."""
    place = settings.home
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    return Check.of("disk space", free >= LEAST_FREE_BYTES, f"{free // 2**20} MiB free at {place}")


def embedder(settings: Settings) -> Check:
    """The embedder answers."""
    from memoriale.adapters.application.posting import configured_embedder
    from memoriale.projections.embedding import embed_query

    try:
        found = configured_embedder(settings)
        embed_query(found, "Does this embedder work?")
    except MemorialeError as error:
        return Check.failed("embedder", error.message)
    return Check.passed("embedder", f"{found.model}, {found.width} dimensions")


def mode(path: Path) -> int:
    """Permissions of a file; 0 for none."""
    return path.stat().st_mode & 0o777 if path.exists() else 0
