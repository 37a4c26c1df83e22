"""Text comes out as it went in; terminals, pipes and signals are treated well."""

import json
import os
import pty
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from tests.fixtures.cli import COMMAND, SECONDS, CommandLine
from tests.fixtures.embedded import eventually

TEXTS = [
    "日本語の記憶、漢字とかな",
    "한국어 기억",
    "زبان فارسی و العربية \u200f",
    "עברית עם ניקוד: שָׁלוֹם",
    "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽",
    "e\u0301 is not é, and A\u030a is not Å",
    "tab\tand\r\nline\n\ntrailing space \n",
    "quotes ' \" ` \\ $HOME %s {} [red]markup[/red]",
    "\u202eright to left override\u202c, \ufeffmark, \u2028 separator",
    "-",
]


@pytest.mark.parametrize("text", TEXTS)
def test_text_comes_back_byte_for_byte(cli: CommandLine, text: str) -> None:
    """What standard input gave is what `show`, `history` and `recall` print, in any locale."""
    run = cli("remember", "-", "--user", "poly", "--json", stdin=text.encode())
    memory_id = run.json()["memory_id"]
    ask = ("--user", "poly", "--json")
    locales: list[dict[str, str]] = [
        {},
        {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
    ]
    for variables in locales:
        shown = cli.under(variables)("show", memory_id, *ask)
        assert shown.json()["content"] == text
        shown.out.decode("utf-8")
    assert cli("history", memory_id, *ask).json()["versions"][0]["content"] == text
    listed = cli("list", *ask, "--limit", "1000").json()["memories"]
    assert text in [memory["content"] for memory in listed]


def test_text_of_an_argument_comes_back_byte_for_byte(cli: CommandLine) -> None:
    """Arguments are UTF-8 as the shell gave them, in content, tags, metadata and reason."""
    text = "汉字 ع 🙂 e\u0301"
    options = ("--tag", text, "--metadata", json.dumps({text: [text]}), "--reason", text)
    memory_id = cli.remember(text, *options)["memory_id"]
    shown = cli("show", memory_id, "--user", "alice", "--json").json()
    assert (shown["content"], shown["tags"]) == (text, [text])
    assert shown["metadata"] == {text: [text]}
    told = cli("history", memory_id, "--user", "alice", "--json").json()["versions"][0]
    assert told["reason"] == text
    (hit,) = cli("recall", text, "--user", "alice", "--tag", text, "--json").json()["hits"]
    assert hit["content"] == text


def test_a_memory_cannot_change_the_terminal(cli: CommandLine) -> None:
    """For people control characters and changes of direction are escapes, markup is text."""
    evil = "\x1b[31mred\x1b]0;title\x07 \x9b1m [red]markup[/red] \u202ereversed \x08\x7f"
    run = cli("remember", "-", "--user", "mallory", "--json", stdin=evil.encode())
    memory_id = run.json()["memory_id"]
    cli("correct", memory_id, "x", "--user", "mallory", "--reason", "\x1b[2J")
    for command in (
        ["show", memory_id, "--as-of", str(run.json()["index"])],
        ["history", memory_id],
        ["list", "--as-of", str(run.json()["index"])],
        ["recall", "markup", "--as-of", str(run.json()["index"])],
    ):
        shown = cli(*command, "--user", "mallory").out.decode()
        assert "[red]markup[/red]" in shown
        assert r"\x1b[31mred\x1b]0;title\x07 \x9b1m" in shown
        assert r"\u202ereversed \x08\x7f" in shown
        assert not set("\x1b\x07\x9b\x08\x7f\u202e") & set(shown)
    logged = cli("log", "--content").out
    assert b"\x1b" not in logged
    assert rb"\x1b[31mred" in logged


def test_a_terminal_gets_colours_but_no_foreign_escapes(cli: CommandLine) -> None:
    """On a terminal headings are bold; a memory's own escape sequences still are text."""
    told = cli("remember", "-", "--user", "term", "--json", stdin=b"\x1b[31mred").json()
    shown, code = _on_terminal(cli, "show", told["memory_id"], "--user", "term")
    assert code == 0
    assert b"\x1b[1m" in shown
    assert b"\x1b[31m" not in shown
    assert rb"\x1b[31mred" in shown


def test_nothing_but_json_is_on_standard_output(cli: CommandLine, tmp_path: Path) -> None:
    """With --json standard output is JSON lines whatever happens, also on a terminal."""
    cli.remember("json")
    file = tmp_path / "two.jsonl"
    file.write_text('{"content": "a"}\n{"content": "b"}\n')
    for command in (
        ["verify"],
        ["replay"],
        ["status"],
        ["doctor"],
        ["import", str(file), "--user", "alice"],
        ["recall", "a", "--user", "alice"],
    ):
        shown, _ = _on_terminal(cli, *command, "--json", stderr=subprocess.DEVNULL)
        assert [json.loads(line) for line in shown.splitlines()]


def test_a_reader_that_leaves_ends_the_command_quietly(cli: CommandLine) -> None:
    """As with `| head`: exit code 0, nothing on standard error."""
    told = [f'{{"content": "line {n}"}}' for n in range(3_000)]
    made = cli("import", "-", "--tenant", "pipe", "--user", "u", stdin="\n".join(told).encode())
    assert made.code == 0
    for command in (["log", "--json"], ["log"], ["verify"], ["status"]):
        process = cli.start(*command, "--tenant", "pipe")
        assert process.stdout is not None
        if command[0] == "log":
            process.stdout.readline()
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
        process.stderr.close()
        assert process.wait(SECONDS) == 0


def test_a_full_disk_under_standard_output_is_said(cli: CommandLine) -> None:
    """When the result cannot be written the exit code is 5 and the reason one line."""
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    with open("/dev/full", "wb") as full:
        run = subprocess.run(
            [*COMMAND, "branches", "--user", "alice", "--json"],
            env=cli.variables(),
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=SECONDS,
            check=False,
        )
    assert run.returncode == 5
    assert json.loads(run.stderr)["error"]["code"] == "output_failed"


def test_following_the_log_prints_what_is_recorded_and_ends_on_interrupt(cli: CommandLine) -> None:
    """`log --follow` prints an event soon after it is recorded; Ctrl-C ends it with code 130."""
    cli.remember("before", "--tenant", "followed")
    process = cli.start("log", "--follow", "--content", "--json", "--tenant", "followed")
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["body"]["payload"]["content"] == "before"
    cli.remember("after", "--tenant", "followed")
    assert json.loads(process.stdout.readline())["body"]["payload"]["content"] == "after"
    errors = _interrupted(process)
    assert process.returncode == 130
    assert errors == b""


def _interrupted(process: "subprocess.Popen[bytes]") -> bytes:
    """What a process still said after Ctrl-C, pressed again when the first came to nothing."""
    for _ in range(3):
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=30)[1]
    process.kill()
    return process.communicate()[1] + b"it had to be killed"


def test_an_interrupt_in_the_middle_leaves_what_was_stored(cli: CommandLine) -> None:
    """Ctrl-C during an import gives code 130 without a traceback; stored lines stay stored."""
    process = subprocess.Popen(
        [*COMMAND, "import", "-", "--tenant", "cut", "--user", "u"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=cli.variables(),
    )
    assert process.stdin is not None
    process.stdin.write(b"".join(b'{"content": "line %d"}\n' % n for n in range(600)))
    process.stdin.flush()
    assert eventually(lambda: cli.events("cut") >= 500, SECONDS)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 130
    assert (out, errors) == (b"", b"")
    assert cli.events("cut") >= 500


def test_a_defect_is_one_line_and_a_traceback_only_on_request(cli: CommandLine) -> None:
    """An unexpected exception has the code `internal` and exit code 5; debugging shows where."""
    broken = {"MEMORIALE_EMBEDDER": "no.such.module:factory"}
    refused = cli.under(broken)("recall", "x", "--user", "a", "--json")
    assert refused.error()["code"] == "bad_embedder"
    program = (
        "import sys; from memoriale.adapters.command_line import installation, running\n"
        "import memoriale; memoriale.__dict__['__version__'] = object()\n"
        "sys.exit(running.run(['version', *sys.argv[1:]]))"
    )
    for level, traceback in (("warning", False), ("debug", True)):
        run = subprocess.run(
            [COMMAND[0], "-c", program, "--json"],
            env=cli.variables(MEMORIALE_LOG_LEVEL=level),
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
        assert run.returncode == 5
        assert json.loads(run.stderr.splitlines()[-1])["error"]["code"] == "internal"
        assert (b"Traceback" in run.stderr) is traceback


def _on_terminal(cli: CommandLine, *arguments: str, stderr: int | None = None) -> tuple[bytes, int]:
    """What a command writes to a terminal, and its exit code."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=follower,
        stderr=follower if stderr is None else stderr,
        env=cli.variables(TERM="xterm", COLUMNS="100"),
    )
    os.close(follower)
    parts = []
    while True:
        try:
            part = os.read(leader, 65_536)
        except OSError:
            break
        if not part:
            break
        parts.append(part)
    os.close(leader)
    return b"".join(parts), process.wait(SECONDS)
