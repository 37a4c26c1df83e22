"""Commands while the disk of the views and snapshots is full: told, survived, and over."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures.cli import COMMAND, CommandLine, Run
from tests.fixtures.file_systems import file_system, fill


@pytest.fixture
def disk() -> Iterator[Path]:
    with file_system("size=24m") as place:
        yield place


@pytest.fixture
def full(cli: CommandLine, disk: Path) -> CommandLine:
    """The command line with posted views and a snapshot, on a disk that is full by now."""
    moved = cli.under(
        {"MEMORIALE_VIEWS_URI": str(disk / "v"), "MEMORIALE_SNAPSHOTS_URI": str(disk / "s")}
    )
    moved.remember("Alice keeps a red kite")
    assert recalled(moved, "kite")["behind"] == 0
    assert moved("snapshot", "--json").code == 0
    assert moved("stats", "--json").code == 0
    fill(disk / "filler")
    return moved


def recalled(cli: CommandLine, question: str) -> dict[str, object]:
    found = cli("recall", question, "--user", "alice", "--json").json()
    return {**found, "texts": [hit["content"] for hit in found["hits"]]}


def unavailable(run: Run, *named: Path) -> None:
    """Exit code 5; the message names the place and what to do."""
    error = run.error()
    assert (run.code, error["code"], error["retry"]) == (5, "disk_full", True)
    assert any(str(place) in error["message"] for place in named)
    assert "free some space" in error["message"]


def files(folder: Path) -> set[str]:
    """Every generation and snapshot, by name."""
    return {str(path.relative_to(folder)) for path in folder.glob("*/*/*")} | {
        str(path.relative_to(folder)) for path in folder.glob("*/*")
    }


@pytest.mark.slow
def test_commands_on_a_full_disk(full: CommandLine, disk: Path) -> None:
    """`remember` stores, `recall` answers and says why it is behind, what must write the disk is
    code 5 and leaves nothing; with space everything goes on and replay finds both views equal."""
    before = files(disk)
    events = full.events()
    made = full.remember("Alice keeps a blue boat")
    assert full.events() > events

    found = recalled(full, "kite boat")
    assert found["texts"] == ["Alice keeps a red kite"]
    assert found["behind"] == 1
    assert found["degraded"] == ["behind", "disk"]
    shown = full("recall", "kite", "--user", "alice")
    assert shown.code == 0
    assert b"because its disk is full" in shown.out
    unavailable(full("recall", "boat", "--user", "alice", "--strict", "--json"), disk)
    assert full("show", made["memory_id"], "--user", "alice", "--json").json()["content"]

    unavailable(full("wait", str(made["index"]), "--json"), disk)
    unavailable(full("replay", "--verify", "--json"), disk)
    unavailable(full("replay", "--view", "stats", "--json"), disk)
    unavailable(full("reconcile", "--repair", "--json"), disk)
    unavailable(full("snapshot", "--json"), disk)
    unavailable(full("sql", "SELECT 1", "--fresh", "--json"), disk)
    assert full("sql", "SELECT count(*) FROM events", "--json").json()["behind"] > 0
    assert full("stats", "--json").json()["behind"] > 0
    assert full("status", "--json").code == 0
    doctor = full("doctor", "--json")
    (views,) = [c for c in json.loads(doctor.out)["checks"] if c["name"] == "views"]
    assert (doctor.code, views["ok"]) == (1, False)
    assert str(disk) in views["detail"]
    assert files(disk) == before

    (disk / "filler").unlink()
    assert recalled(full, "kite boat")["degraded"] == []
    rebuilt = full("replay", "--verify", "--json").json()["views"]
    assert {(view["view"], view["equal"]) for view in rebuilt} == {
        ("recall", True),
        ("stats", True),
        ("proofs", True),
    }
    assert full("snapshot", "--json").code == 0
    assert full("verify", "--json").code == 0
    assert all(check["ok"] for check in full("doctor", "--json").json()["checks"])


@pytest.mark.slow
def test_a_limit_of_file_sizes(cli: CommandLine) -> None:
    """Under ``ulimit -f`` replay ends with code 5 too, without root; without it it goes through."""
    cli.remember("Alice keeps a green bicycle")
    limited = subprocess.run(
        ["/bin/sh", "-c", 'ulimit -f 2 && exec "$@"', "sh", *COMMAND, "replay", "--json"],
        env=cli.variables(),
        cwd=cli.home,
        capture_output=True,
        timeout=120,
        check=False,
    )
    unavailable(Run(limited.returncode, limited.stdout, limited.stderr), cli.home)
    assert all(view["equal"] for view in cli("replay", "--json").json()["views"])
