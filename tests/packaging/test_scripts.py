"""The scripts start anywhere, stay short, and report every failure in their exit code."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.packaging.layout import ROOT, needs_repository

pytestmark = needs_repository

ZONES = ["America/St_Johns", "Asia/Kathmandu", "UTC"]

# Stands for pytest: notes zone and arguments, and fails in the zone that it is told to.
PYTEST = """#!/bin/sh
echo "$TZ $*" >> "$LOG"
case "$TZ $*" in $FAILS) exit "$CODE" ;; esac
"""

# Stands for uv: notes what it is asked for and makes an environment that borrows this one.
UV = """#!/bin/sh
echo "$1" >> "$LOG"
[ "$1" = venv ] || exit 0
mkdir -p .venv/bin
printf '#!/bin/sh\\nexec "$PYTHON" "$@"\\n' > .venv/bin/python
chmod +x .venv/bin/python
"""


def write_program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def copy_script(name: str, tree: Path) -> Path:
    target = tree / "scripts" / name
    target.parent.mkdir(exist_ok=True)
    shutil.copy(ROOT / "scripts" / name, target)
    return target


def shell_scripts() -> list[Path]:
    candidates = [path for path in (ROOT / "scripts").iterdir() if path.is_file()]
    shells = ("#!/bin/sh\n", "#!/usr/bin/env bash\n")
    return [
        path
        for path in [*candidates, ROOT / ".ci" / "run"]
        if path.suffix != ".py" and path.read_text().startswith(shells)
    ]


def test_shell_scripts_are_short_and_executable() -> None:
    """A script can be started as it is and read at one sight."""
    scripts = shell_scripts()
    assert {"check", "long-files", "run", "setup", "test"} <= {path.name for path in scripts}
    assert [path.name for path in scripts if not os.access(path, os.X_OK)] == []
    assert [path.name for path in scripts if len(path.read_text().splitlines()) >= 40] == []


def test_no_source_file_is_long() -> None:
    """Every source file stays within the limit that scripts/long-files holds."""
    run = subprocess.run(
        [ROOT / "scripts" / "long-files"], capture_output=True, text=True, timeout=60
    )
    assert run.stdout == ""
    assert run.returncode == 0, run.stderr


class ZoneRun:
    """A tree with scripts/test and a recorder in place of pytest."""

    def __init__(self, tree: Path) -> None:
        self.log = tree / "log"
        self.script = copy_script("test", tree)
        write_program(tree / "scripts" / "setup", "#!/bin/sh\n")
        write_program(tree / ".venv" / "bin" / "pytest", PYTEST)

    def __call__(
        self, *arguments: str, zone: str | None = None, fails: str = "none", code: int = 1
    ) -> tuple[int, list[str]]:
        """Exit code, and zone and arguments of each pytest run in order."""
        self.log.write_text("")
        environment = {"PATH": os.environ["PATH"], "LOG": str(self.log)}
        environment |= {"FAILS": fails, "CODE": str(code)}
        environment |= {"TZ": zone} if zone else {}
        run = subprocess.run(
            [self.script, *arguments], env=environment, cwd="/", capture_output=True, timeout=60
        )
        return run.returncode, self.log.read_text().splitlines()


@pytest.fixture
def run_tests(tmp_path: Path) -> ZoneRun:
    """scripts/test with a recorder in place of pytest."""
    return ZoneRun(tmp_path)


def test_marked_tests_run_in_the_zones_that_the_suite_does_not(run_tests: ZoneRun) -> None:
    """One zone sees the whole suite, last; the other two see the tests marked `time`."""
    code, runs = run_tests("tests/unit")
    assert code == 0
    assert sorted(run.split()[0] for run in runs) == ZONES
    assert [run.split(maxsplit=1)[1] for run in runs] == [
        "tests/unit -m time",
        "tests/unit -m time",
        "tests/unit",
    ]


def test_the_callers_zone_is_kept_for_the_suite(run_tests: ZoneRun) -> None:
    """An exported TZ decides about the whole suite; the three zones are tried beside it."""
    _, runs = run_tests("-x", zone="Asia/Tokyo")
    assert sorted(runs[:-1]) == [f"{zone} -x -m time" for zone in ZONES]
    assert runs[-1] == "Asia/Tokyo -x"


def test_zones_runs_everything_in_each_zone(run_tests: ZoneRun) -> None:
    """`--zones` runs the whole suite three times."""
    code, runs = run_tests("--zones", "-x")
    assert code == 0
    assert sorted(runs) == [f"{zone} -x" for zone in ZONES]


@pytest.mark.parametrize("zone", ZONES)
def test_a_failure_in_any_zone_fails_the_script(run_tests: ZoneRun, zone: str) -> None:
    """The last run cannot hide that an earlier one failed, and every zone is still tried."""
    for arguments in ([], ["--zones"]):
        code, runs = run_tests(*arguments, fails=f"{zone}*")
        assert code != 0
        assert len(runs) == 3


def test_only_the_marked_runs_may_find_no_test(run_tests: ZoneRun) -> None:
    """A selection without marked tests is no failure; a selection of nothing at all is one."""
    assert run_tests("-k", "fork", fails="*time", code=5)[0] == 0
    assert run_tests("-k", "frok", fails="*frok", code=5)[0] == 5


@pytest.fixture
def fresh_tree(tmp_path: Path) -> Path:
    """A tree with scripts/setup, an empty lock, and a recorder in place of uv."""
    tree = tmp_path / "a folder"
    tree.mkdir()
    copy_script("setup", tree)
    (tree / "requirements.lock").touch()
    (tree / "pyproject.toml").touch()
    write_program(tree / "bin" / "uv", UV)
    return tree


def setup_environment(tree: Path, **changes: str) -> Mapping[str, str]:
    path = f"{tree / 'bin'}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}/usr/bin:/bin"
    return {"PATH": path, "LOG": str(tree / "log"), "PYTHON": sys.executable} | changes


def set_up(tree: Path, **changes: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [tree / "scripts" / "setup"],
        env=setup_environment(tree, **changes),
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    out, error = process.communicate(timeout=60)
    return process.returncode, out, error


def steps(tree: Path) -> list[str]:
    return (tree / "log").read_text().split()


def test_setups_at_once_install_once(fresh_tree: Path) -> None:
    """Scripts started together in a fresh clone wait for one installation."""
    processes = [set_up(fresh_tree) for _ in range(6)]
    results = [finish(process) for process in processes]
    assert [code for code, _, _ in results] == [0] * 6, results
    assert "".join(out for _, out, _ in results) == ""
    assert steps(fresh_tree) == ["venv", "pip", "pip"]


def test_setup_installs_again_only_what_changed(fresh_tree: Path) -> None:
    """A ready environment is kept, a changed project reinstalled, a changed lock rebuilt."""
    finish(set_up(fresh_tree))
    assert finish(set_up(fresh_tree)) == (0, "", "")
    assert steps(fresh_tree) == ["venv", "pip", "pip"]
    (fresh_tree / "pyproject.toml").write_text("# changed")
    finish(set_up(fresh_tree))
    assert steps(fresh_tree)[3:] == ["pip"]
    (fresh_tree / "requirements.lock").write_text("# changed")
    finish(set_up(fresh_tree))
    assert steps(fresh_tree)[4:] == ["venv", "pip", "pip"]


def test_setup_replaces_an_environment_that_moved_or_broke(fresh_tree: Path) -> None:
    """An environment copied from elsewhere, or without a working Python, is made anew."""
    finish(set_up(fresh_tree))
    moved = fresh_tree.rename(fresh_tree.with_name("moved"))
    finish(set_up(moved))
    (moved / ".venv" / "bin" / "python").unlink()
    finish(set_up(moved))
    assert steps(moved) == ["venv", "pip", "pip"] * 3


def test_setup_names_the_python_that_it_needs(fresh_tree: Path) -> None:
    """With an older Python alone, nothing is installed and the message says what to do."""
    for name in ("python3", "python3.11", "python3.12", "python3.13"):
        write_program(fresh_tree / "bin" / name, "#!/bin/sh\nexit 1\n")
    code, _, error = finish(set_up(fresh_tree))
    assert code == 1
    assert "Python 3.11 or newer" in error
    assert not (fresh_tree / ".venv").exists()
