"""requirements.lock is complete, holds hashes, and names no server."""

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.packaging.layout import ROOT, needs_repository

pytestmark = needs_repository

PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;]+)(?:.*?)(?=^[A-Za-z0-9]|\Z)", re.M | re.S)


def lock_text() -> str:
    return (ROOT / "requirements.lock").read_text()


def requirements() -> list[Requirement]:
    """What the project asks for, with the extras that scripts/setup installs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    optional = [line for name in ("local", "onnx", "dev") for line in extras[name]]
    return [Requirement(line) for line in project["dependencies"] + optional]


@pytest.mark.parametrize("requirement", requirements() if ROOT.joinpath("domain").is_dir() else [])
def test_every_requirement_is_locked_at_an_allowed_version(requirement: Requirement) -> None:
    """The locked version of each dependency is one that pyproject.toml allows."""
    locked = [
        match[2]
        for match in PINNED.finditer(lock_text())
        if canonicalize_name(match[1]) == canonicalize_name(requirement.name)
    ]
    assert locked
    assert [version for version in locked if version not in requirement.specifier] == []


def test_every_locked_package_has_hashes() -> None:
    """An installer can verify every file that it receives."""
    packages = list(PINNED.finditer(lock_text()))
    assert len(packages) > 50
    assert [match[1] for match in packages if "--hash=sha256:" not in match[0]] == []


def test_the_lock_names_no_server() -> None:
    """Where packages come from is the choice of whoever installs them."""
    assert "://" not in lock_text()
    assert "index-url" not in lock_text()
