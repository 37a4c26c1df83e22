"""The distributions hold every file of every package, once and under its import name."""

import os
import subprocess
import sys
import tarfile
import zipfile
from configparser import ConfigParser
from pathlib import Path

import pytest

from tests.packaging.layout import PACKAGES, ROOT, needs_repository

pytestmark = needs_repository


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel built from it, made without a network."""
    folder = tmp_path_factory.mktemp("distributions")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=180)
    assert run.returncode == 0, run.stdout + run.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(distributions: Path) -> Path:
    """The wheel built from the sdist."""
    (path,) = distributions.glob("*.whl")
    return path


VERIFIER = "memoriale_verify.py"


def files_of_memoriale() -> set[str]:
    """Every file below src/memoriale, links followed, as the wheel should name it, and the
    verifier, which stands alone."""
    source = ROOT / "src"
    return {VERIFIER} | {
        str((Path(folder) / name).relative_to(source))
        for folder, _, names in os.walk(source / "memoriale", followlinks=True)
        for name in names
        if "__pycache__" not in folder and not name.startswith(".")
    }


def test_the_wheel_holds_every_file_and_nothing_else(wheel: Path) -> None:
    """The wheel built from the sdist holds modules, SQL and other files of every package."""
    names = zipfile.ZipFile(wheel).namelist()
    packed = {name for name in names if ".dist-info/" not in name}
    assert packed == files_of_memoriale()
    assert {f"memoriale/{package}/__init__.py" for package in PACKAGES} <= packed


def test_the_wheel_brings_the_commands(wheel: Path) -> None:
    """Installing the wheel makes the commands `memoriale` and `memoriale-verify`."""
    archive = zipfile.ZipFile(wheel)
    (name,) = (name for name in archive.namelist() if name.endswith("/entry_points.txt"))
    entry_points = ConfigParser()
    entry_points.read_string(archive.read(name).decode())
    assert dict(entry_points["console_scripts"]) == {
        "memoriale": "memoriale.adapters.command_line:main",
        "memoriale-verify": "memoriale_verify:main",
    }


def test_the_wheel_imports_without_the_repository(wheel: Path) -> None:
    """The linked packages are importable from the wheel itself."""
    program = "import memoriale.domain.errors as errors; print(errors.__file__)"
    run = subprocess.run(
        [sys.executable, "-c", program],
        cwd=wheel.parent,
        env={**os.environ, "PYTHONPATH": str(wheel)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.stdout.startswith(str(wheel)), run.stderr


def test_the_sdist_holds_files_in_place_of_links(distributions: Path) -> None:
    """An sdist unpacks on a system without links, and holds each package only once."""
    (path,) = distributions.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        members = archive.getmembers()
    assert all(member.isfile() for member in members)
    tops = {member.name.split("/")[1] for member in members}
    assert {"LICENSE", "pyproject.toml", "src", "tests"} <= tops
    assert not tops & set(PACKAGES)


def test_every_package_folder_is_linked() -> None:
    """Each top-level package has its link in src/memoriale, and no link leads elsewhere."""
    links = {path for path in (ROOT / "src" / "memoriale").iterdir() if path.is_symlink()}
    assert {link.name: link.resolve() for link in links} == {
        name: ROOT.resolve() / name for name in PACKAGES
    }
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert folders - {"tests"} == set(PACKAGES)
