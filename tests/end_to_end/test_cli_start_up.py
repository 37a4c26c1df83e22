"""The command starts fast: help loads nothing that only the work needs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from memoriale.adapters.command_line.app import app
from tests.fixtures.cli import SECONDS, CommandLine

# Prints the packages that are loaded after a command has run.
LOADED = """
import sys
from memoriale.adapters.command_line.running import run
code = run(sys.argv[1:])
print(code, *sorted(sys.modules), file=sys.stderr)
"""
ALWAYS_HEAVY = {"lancedb", "pyarrow", "duckdb", "numpy", "wordllama"}
HEAVY = ALWAYS_HEAVY | {"psycopg", "eventsourcing", "cryptography", "rich", "pydantic_settings"}
RIGHTS = {"use", "audit", "analyse", "content", "privacy", "review", "operate", "admin", "none"}
COMMANDS = sorted(
    [c.name or str(c.callback.__name__) for c in app.registered_commands if c.callback]
)
PROMISED = {
    *("init", "status", "stop", "version", "migrate", "remember", "recall", "correct", "amend"),
    *("invalidate", "reinstate", "show", "history", "list", "wait", "log", "fork", "branches"),
    *("tree", "diff"),
    *("sql", "stats", "snapshot", "describe"),
    *("import", "export", "replay", "reconcile", "verify", "doctor", "demo"),
    *("checkpoint", "consistency", "receipt", "receipt-check", "restored", "bundle", "anchors"),
    *("who-saw", "what-was-told", "accesses"),
    *("context", "explain", "summarize", "tools"),
    *("add", "subscribe", "merge", "approve", "discard", "episodic", "episodic-tree", "compact"),
}


def loaded(cli: CommandLine, *arguments: str) -> tuple[int, set[str]]:
    """Exit code of a command, and the names of the modules that it loaded."""
    run = subprocess.run(
        [sys.executable, "-c", LOADED, *arguments],
        env=cli.variables(),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    code, *modules = run.stderr.splitlines()[-1].split()
    return int(code), set(modules)


def test_help_loads_nothing_heavy(bare: CommandLine) -> None:
    """`memoriale --help` loads typer and the commands, no settings, database or terminal."""
    code, modules = loaded(bare, "--help")
    assert code == 0
    assert not modules & (HEAVY | {"pydantic", "asyncio"})
    assert "memoriale.adapters.settings" not in modules
    assert "memoriale.adapters.composition" not in modules
    for command in ("remember", "recall", "replay"):
        assert not loaded(bare, command, "--help")[1] & HEAVY


def test_remembering_loads_no_view(cli: CommandLine) -> None:
    """A write needs neither the views' libraries nor, with --json, the terminal's."""
    code, modules = loaded(cli, "remember", "x", "--user", "a", "--json")
    assert code == 0
    assert not modules & (ALWAYS_HEAVY | {"rich"})


def test_every_promised_command_is_there() -> None:
    """Each command of this release is registered."""
    assert set(COMMANDS) == PROMISED


@pytest.mark.parametrize("command", [*([name] for name in COMMANDS), ["config", "show"]])
def test_help_names_the_right(bare: CommandLine, command: list[str]) -> None:
    """Each command's help says what it does, which right it needs, and has --json and --home."""
    run = bare(*command, "--help")
    assert run.code == 0
    text = run.out.decode()
    (right,) = re.findall(r"Right: (\w+)", " ".join(text.split("Options:")[0].split()))
    assert right in RIGHTS
    assert "--json" in text
    assert "--home" in text
    assert "-h, --help" in text


def test_a_command_alone_shows_the_help(bare: CommandLine) -> None:
    """Without a command the help goes to standard error, with exit code 2."""
    run = bare()
    assert (run.code, run.out) == (2, b"")
    assert b"remember" in run.errors
    assert bare("config").code == 2


def test_the_installed_command_is_the_same(cli: CommandLine) -> None:
    """The console script runs the same program and gives the same exit codes."""
    script = Path(sys.executable).with_name("memoriale")
    if not script.exists():
        pytest.skip("the package is not installed in this environment")
    for arguments, code in ((["version"], 0), (["show", "x"], 2), (["status"], 0)):
        run = subprocess.run(
            [script, *arguments],
            env=cli.variables(),
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
        assert run.returncode == code, run.stderr


def test_a_command_ends_and_leaves_no_process(bare: CommandLine) -> None:
    """After a command on a home of its own no process of it is left once the server idles out."""
    assert bare("remember", "x", "--user", "a").code == 0
    assert bare("stop", "--json").code == 0
    proc = Path("/proc")
    if not proc.is_dir():
        pytest.skip("this system has no /proc")
    mine = []
    for entry in proc.iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                words = (entry / "environ").read_bytes()
            except OSError:
                continue
            if f"MEMORIALE_HOME={bare.home}\0".encode() in words:
                mine.append((entry / "cmdline").read_bytes())
    assert [line for line in mine if b"command_line" in line] == []
