"""A bundle made on the command line is checked by the other command, on what it printed."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import memoriale_verify
from tests.fixtures.cli import CommandLine

MADE = {"path", "bytes", "states", "logs", "verifiers"}


def checked(*arguments: str | Path) -> tuple[int, dict[str, Any], str]:
    """Exit code, report and errors of memoriale-verify, run as a file of its own."""
    command = [sys.executable, "-I", memoriale_verify.__file__, "--json", *map(str, arguments)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return run.returncode, json.loads(run.stdout or "{}"), run.stderr


def test_a_bundle_is_made_and_checked(cli: CommandLine, tmp_path: Path) -> None:
    """One command makes it, the other one checks it with the key and a checkpoint kept before."""
    for text in ("one", "two"):
        cli.remember(text, "--tenant", "bundled")
    kept = tmp_path / "kept"
    cli("checkpoint", "--tenant", "bundled", "--out", str(kept), "--json").json()
    cli.remember("three", "--tenant", "bundled")
    out = tmp_path / "bundle.zip"
    made = cli("bundle", "--out", str(out), "--tenant", "bundled", "--json").json()
    assert set(made) == MADE
    assert (made["path"], made["states"], made["bytes"]) == (str(out), True, out.stat().st_size)
    assert (made["logs"][0]["log"], made["logs"][0]["events"]) == ("memory", 3)
    key = [option for text in made["verifiers"] for option in ("--verifier", text)]
    code, report, errors = checked(out, *key, "--checkpoint", kept)
    assert (code, report["ok"], report["keys"], errors) == (0, True, "given", "")
    assert [log["root"] for log in report["logs"]] == [log["root"] for log in made["logs"]]


def test_a_bundle_goes_into_a_folder(cli: CommandLine, tmp_path: Path) -> None:
    """It is named by tenant and last index; without bodies the check is incomplete, code 6."""
    cli.remember("one", "--tenant", "folder")
    run = cli("bundle", "--out", str(tmp_path), "--tenant", "folder", "--no-states")
    assert run.code == 0
    (path,) = tmp_path.iterdir()
    assert path.name == "folder-0.zip"
    assert b"verifier key: memoriale+" in run.out
    assert checked(path)[0] == 6


def test_a_changed_bundle_ends_with_code_1(cli: CommandLine, tmp_path: Path) -> None:
    """And one that is none with code 2."""
    cli.remember("one", "--tenant", "changed")
    out = tmp_path / "bundle.zip"
    cli("bundle", "--out", str(out), "--tenant", "changed", "--json").json()
    content = bytearray(out.read_bytes())
    content[content.index(b"This is a bundle")] ^= 1
    out.write_bytes(content)
    assert checked(out)[0] == 1
    out.write_bytes(b"nothing")
    code, _, errors = checked(out)
    assert (code, errors.startswith("memoriale-verify: ")) == (2, True)


def test_a_place_that_cannot_be_a_file_is_bad_input(cli: CommandLine) -> None:
    """Code 2, naming the argument."""
    run = cli("bundle", "--out", "/no/such/folder/b.zip", "--tenant", "t", "--json")
    assert (run.code, run.error()["field"]) == (2, "out")
