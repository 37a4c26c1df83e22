"""`subscribe` on the command line, and how commands end on Ctrl-C."""

import json
import random
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from tests.fixtures.cli import SECONDS, CommandLine
from tests.fixtures.embedded import eventually


def line(process: "subprocess.Popen[bytes]") -> dict[str, Any]:
    """The next line that a process prints."""
    assert process.stdout is not None
    found: dict[str, Any] = json.loads(process.stdout.readline())
    return found


def said(event: dict[str, Any]) -> str:
    """The content of a printed event."""
    return str(event["body"]["payload"]["content"])


def interrupted(process: "subprocess.Popen[bytes]") -> bytes:
    """What a process says on standard error after Ctrl-C."""
    process.send_signal(signal.SIGINT)
    return process.communicate(timeout=SECONDS)[1]


def test_events_are_printed_at_once_and_ctrl_c_is_the_end(cli: CommandLine) -> None:
    """A user's own events come as JSON lines, opened, each soon after it is recorded; Ctrl-C ends
    the command with code 130 and not a word."""
    cli.remember("before", "--tenant", "subscribed")
    cli("remember", "bob's", "--user", "bob", "--tenant", "subscribed")
    ask = ("--tenant", "subscribed", "--user", "alice", "--json")
    process = cli.start("subscribe", *ask)
    assert said(line(process)) == "before"
    cli.remember("after", "--tenant", "subscribed")
    after = line(process)
    assert (after["index"], after["topic"], said(after)) == (2, "memory.remembered", "after")
    assert interrupted(process) == b""
    assert process.returncode == 130


def test_a_neighbour_is_printed_nothing(cli: CommandLine) -> None:
    """Neither another user of the tenant nor the same user of another one is shown an event."""
    cli.remember("secret", "--tenant", "quiet")
    for caller in (
        ("--tenant", "quiet", "--user", "eve"),
        ("--tenant", "quiet-2", "--user", "alice"),
    ):
        process = cli.start("subscribe", *caller, "--json")
        cli("remember", "own", *caller)
        assert said(line(process)) == "own"
        assert interrupted(process) == b""


def test_options_say_what_is_wanted(cli: CommandLine) -> None:
    """--after, --topic, --kind, --owner, --key and --limit choose; without a caller it is every
    event as stored, sealed but for --content."""
    tenant = ("--tenant", "chosen")
    one = cli.remember("one", *tenant)
    cli.remember("fact", "--kind", "fact", *tenant)
    cli("correct", one["memory_id"], "uno", "--user", "alice", "--reason", "r", *tenant)
    cli("remember", "bob's", "--user", "bob", *tenant)
    for options, expected in (
        (("--user", "alice", "--limit", "2"), [0, 1]),
        (("--user", "alice", "--after", "0", "--limit", "2"), [1, 2]),
        (("--user", "alice", "--kind", "fact", "--limit", "1"), [1]),
        (("--user", "alice", "--key", one["memory_id"], "--limit", "2"), [0, 2]),
        (("--topic", "memory.corrected", "--limit", "1"), [2]),
        (("--owner", "user:bob", "--limit", "1"), [3]),
        (("--user", "bob", "--all-owners", "--limit", "4"), [0, 1, 2, 3]),
    ):
        shown = cli("subscribe", *options, *tenant, "--json").lines()
        assert [event["index"] for event in shown] == expected
        assert all(
            ("body" in event) is ("--user" in options and "bob" not in options) for event in shown
        )
    opened = cli("subscribe", "--content", "--limit", "1", *tenant, "--json").lines()
    assert said(opened[0]) == "one"


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--topic", "memory.rememberd"), "unknown_topic"),
        (("--kind", "nonsense"), "unknown_kind"),
        (("--owner", "person:alice"), "bad_value"),
        (("--key", "x"), "bad_id"),
    ],
)
def test_a_slip_is_refused(cli: CommandLine, options: tuple[str, ...], code: str) -> None:
    """What nothing can match ends with code 2 and says what there is."""
    refused = cli("subscribe", *options, "--user", "alice", "--json")
    assert (refused.code, refused.error()["code"]) == (2, code)


@pytest.mark.parametrize("command", ["subscribe", "log"])
def test_one_ctrl_c_ends_a_follower_whenever_it_comes(cli: CommandLine, command: str) -> None:
    """At whatever moment: the first is enough, and every command says 130."""
    moments = random.Random(7)
    cli.remember("before", "--tenant", "whenever")
    options = ("--user", "alice") if command == "subscribe" else ("--follow",)
    for _ in range(4):
        process = cli.start(command, *options, "--tenant", "whenever", "--json")
        line(process)
        time.sleep(moments.random() * 0.5)
        assert interrupted(process) == b""
        assert process.returncode == 130


def test_a_discarded_branch_ends_the_command(cli: CommandLine) -> None:
    """It prints what there was up to the discard and ends with code 0: when the branch was
    discarded before, when it is discarded meanwhile, and for an auditor of the tenant's."""
    name = "side"
    for tenant in (("--tenant", "ended"), ("--tenant", "ended-for-all")):
        alice = (*tenant, "--user", "alice")
        caller = alice if tenant[1] == "ended" else tenant
        assert cli("fork", name, *caller).code == 0
        cli("remember", "there", *alice, "--branch", name)
        process = cli.start("subscribe", *caller, "--branch", name, "--kind", "note", "--json")
        assert line(process)["topic"] == "memory.remembered"
        assert cli("discard", name, *caller).code == 0
        cli("remember", "elsewhere", *alice)
        assert process.communicate(timeout=SECONDS) == (b"", b"")
        assert process.returncode == 0
        again = cli("subscribe", *caller, "--branch", name, "--json")
        assert again.code == 0
        assert [event["topic"] for event in again.lines()][-1] == "branch.discarded"


STUBBORN = """
import signal, sys, threading, time
from memoriale.adapters.command_line import interrupts, main, running
interrupts.AGAIN, losing = float(sys.argv[1]), int(sys.argv[2])
sys.argv[1:] = ["never"]
def never(*arguments):
    lock = threading.Lock()
    lock.acquire()
    for _ in range(losing):
        try:
            print("ready", flush=True)
            lock.acquire()
        except KeyboardInterrupt:
            print("lost", flush=True)
    lock.acquire()
running.app.command("never")(lambda: never())
main()
"""


def stubborn(cli: CommandLine, again: float, losing: int) -> "subprocess.Popen[bytes]":
    """A command that waits for ever and loses some interrupts."""
    return subprocess.Popen(
        [sys.executable, "-c", STUBBORN, str(again), str(losing)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=cli.variables(),
    )


def test_an_interrupt_that_was_lost_comes_again(cli: CommandLine) -> None:
    """A command that swallowed the exception, or waits for a lock that it left taken, is
    interrupted again until it ends."""
    process = stubborn(cli, 0.3, 2)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    assert interrupted(process) == b""
    assert process.returncode == 130


def test_a_second_ctrl_c_kills_at_once(cli: CommandLine) -> None:
    """Whatever the command is waiting for."""
    process = stubborn(cli, 600, 1)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == b"lost\n"
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert eventually(lambda: process.poll() is not None, SECONDS)
    assert process.communicate()[1] == b""
    assert process.returncode == -signal.SIGINT
