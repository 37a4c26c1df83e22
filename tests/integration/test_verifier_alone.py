"""``memoriale-verify`` works on a machine that has nothing of memoriale."""

import ast
import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import memoriale_verify
from tests.fixtures.bundles import Logs, access, history, verifier

SOURCE = Path(memoriale_verify.__file__)
PACKAGES = ("cryptography", "cffi", "_cffi_backend", "pycparser")
"""The package cryptography and what it needs to be imported."""


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder with the one file, a bundle, and the packages that it may use."""
    folder = tmp_path / "elsewhere"
    packages = folder / "packages"
    packages.mkdir(parents=True)
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            continue
        origin = Path(spec.origin)
        if spec.submodule_search_locations:
            shutil.copytree(origin.parent, packages / name)
        else:
            shutil.copy(origin, packages)
    shutil.copy(SOURCE, folder / "check.py")
    bundle = Logs(tmp_path / "logs", history(300), access()).bundle()
    (folder / "bundle.zip").write_bytes(bundle)
    return folder


def run(machine: Path, *arguments: str) -> tuple[int, dict[str, Any], str]:
    """Runs the file without site packages, environment and working folder on its path."""
    program = (
        "import runpy, sys; sys.path.append('packages');"
        " sys.argv[0] = 'memoriale-verify'; runpy.run_path('check.py', run_name='__main__')"
    )
    command = [sys.executable, "-I", "-S", "-c", program, "bundle.zip", "--json", *arguments]
    ended = subprocess.run(
        command, cwd=machine, env={}, capture_output=True, text=True, timeout=60, check=False
    )
    return ended.returncode, json.loads(ended.stdout or "{}"), ended.stderr


def test_it_needs_the_standard_library_and_cryptography_alone() -> None:
    """Whoever reads the file sees all that it does."""
    tree = ast.parse(SOURCE.read_text())
    names = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert names - set(sys.stdlib_module_names) == {"cryptography"}


def test_a_bundle_holds_where_nothing_is_installed(machine: Path) -> None:
    """Copied alone beside a bundle, with cryptography and no more, it gives its verdict."""
    code, report, errors = run(machine, "--verifier", verifier())
    assert (code, report.get("ok"), errors) == (0, True, "")
    assert [log["leaves"] for log in report["logs"]] == [300, 3]


def test_a_changed_bundle_does_not_hold_there_either(machine: Path) -> None:
    """The same planted change is found."""
    path = machine / "bundle.zip"
    content = bytearray(path.read_bytes())
    content[content.index(b"number 7")] ^= 1
    path.write_bytes(content)
    code, report, _ = run(machine, "--verifier", verifier())
    assert (code, report["first_bad_index"]) == (1, 0)


def test_it_fits_on_a_few_pages() -> None:
    """An auditor can read it in one sitting."""
    assert len(SOURCE.read_text().splitlines()) <= 420
