"""Every module has one name, and the facade exports what it says."""

import subprocess
import sys

import memoriale
from tests.packaging.layout import PACKAGES, ROOT, needs_repository

# Fails when two modules of one process were loaded from one file of the given folders.
LOAD_EVERY_MODULE = """
import collections, importlib, os, pkgutil, sys
import memoriale
for module in pkgutil.walk_packages(memoriale.__path__, "memoriale."):
    importlib.import_module(module.name)
folders = tuple(os.path.join(os.path.realpath(folder), "") for folder in sys.argv[1:])
names = collections.defaultdict(list)
for name, module in list(sys.modules.items()):
    file = os.path.realpath(getattr(module, "__file__", None) or os.devnull)
    if file.startswith(folders):
        names[file].append(name)
assert len(names) > 3, names
twice = {file: found for file, found in names.items() if len(found) > 1}
assert not twice, twice
"""


def test_no_module_was_imported_under_a_second_name() -> None:
    """A second import path would make second classes, and their names would reach the ledger."""
    assert not set(PACKAGES) & set(sys.modules)


@needs_repository
def test_each_file_is_loaded_as_one_module() -> None:
    """All modules import together with the locked packages alone, each file exactly once."""
    folders = [str(ROOT / package) for package in PACKAGES]
    run = subprocess.run(
        [sys.executable, "-c", LOAD_EVERY_MODULE, *folders],
        cwd=ROOT / "tests",
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr


def export_order(name: str) -> tuple[bool, bool, str]:
    """Constants, then classes, then the rest: the order that the linter keeps."""
    return (not name.isupper(), not name[0].isupper(), name)


def test_the_facade_exports_each_name_once_and_in_order() -> None:
    """`memoriale.__all__` is sorted, without repetition, and every name in it exists."""
    exported = list(getattr(memoriale, "__all__", []))
    assert exported == sorted(set(exported), key=export_order)
    assert [name for name in exported if not hasattr(memoriale, name)] == []


def test_the_version_is_that_of_the_installed_distribution() -> None:
    """`memoriale.__version__` is read from the distribution, so it is written in one place."""
    from importlib.metadata import version

    assert memoriale.__version__ == version("memoriale")
