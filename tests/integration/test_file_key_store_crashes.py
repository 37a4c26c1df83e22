"""The embedded key store when its process is killed, and when several processes use it at once."""

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from memoriale.adapters.keys.file_store import FileKeyStore
from memoriale.domain.keys import PersonKey, Subject
from tests.contracts.key_store import ALICE, BOB, person

Process = subprocess.Popen[str]
Start = Callable[..., Process]

PATIENCE = 60
MANY = [Subject("user", f"user-{number}") for number in range(500)]

CREATE_UNTIL_KILLED = """
import sys
from pathlib import Path
from memoriale.adapters.keys.file_store import FileKeyStore
from memoriale.domain.keys import Subject
folder, turn = Path(sys.argv[1]), sys.argv[2]
with FileKeyStore(folder) as store:
    for number in range(1_000_000):
        size = 1 + number % 7
        subjects = [Subject("user", f"{turn}-{number}-{n}") for n in range(size)]
        for key in store.get_or_create("acme", subjects):
            print(key.subject.id, key.pseudonym.hex, key.key_id.hex(), flush=False)
        if number % 5 == 4:
            (team,) = store.get_or_create("acme", [Subject("team", f"{turn}-{number}")])
            store.destroy(team.key_id)
        sys.stdout.flush()
"""

ASK_FOR_200 = """
import sys
from pathlib import Path
from memoriale.adapters.keys.file_store import FileKeyStore
from memoriale.domain.keys import Subject
with FileKeyStore(Path(sys.argv[1])) as store:
    print("ready", flush=True)
    sys.stdin.readline()
    for number in map(int, sys.argv[2].split(",")):
        (key,) = store.get_or_create("acme", [Subject("user", f"user-{number}")])
        print(number, key.pseudonym.hex, key.key_id.hex())
"""


class Killed(BaseException):
    """Stands for the end of the process: nothing that it would still write is written."""


class KillAt:
    """
    Ends the process at the n-th call that changes a file.

    Args:
        count: Which call, from 1.
        torn: Let the first half of a last write through.
    """

    CALLS = ("pwrite", "fdatasync", "fsync", "ftruncate", "replace", "unlink")

    def __init__(self, patch: pytest.MonkeyPatch, count: int, *, torn: bool) -> None:
        self.left = count
        self._torn = torn
        for name in filter(partial(hasattr, os), self.CALLS):
            patch.setattr(os, name, self._counting(name, getattr(os, name)))

    def _counting(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.left -= 1
            if self.left == 0 and self._torn and name == "pwrite":
                call(args[0], args[1][: len(args[1]) // 2], args[2])
            if self.left <= 0:
                raise Killed
            return call(*args, **kwargs)

        return counted


def kill_at_every_call(
    folder: Path, work: Callable[[Path], object], check: Callable[[Path, bool], None]
) -> int:
    """
    Do ``work`` on copies of ``folder``, killed at its first, second, … call, and check each.

    ``check`` is told whether the work had come to its end. Returns the number of calls.
    """
    for count in range(1, 1000):
        for torn in (False, True):
            copy = folder.with_name(f"killed-{count}-{torn}")
            if folder.exists():
                shutil.copytree(folder, copy)
            done = False
            with pytest.MonkeyPatch.context() as patch:
                KillAt(patch, count, torn=torn)
                try:
                    work(copy)
                    done = True
                except Killed:
                    pass
            check(copy, done)
            shutil.rmtree(copy)
        if done:
            return count - 1
    raise AssertionError("the work never came to its end")


def test_killed_while_the_store_is_made(tmp_path: Path) -> None:
    """Killed at any moment of its first opening, a store opens the next time, and is whole."""

    def check(folder: Path, done: bool) -> None:
        with FileKeyStore(folder) as store:
            alice = person(store, ALICE)
        with FileKeyStore(folder) as store:
            assert store.find("acme", ALICE) == alice
            assert store.stats() == (1, 0, 0)

    assert kill_at_every_call(tmp_path / "keys", lambda f: FileKeyStore(f).close(), check) > 8


@pytest.mark.parametrize("size", [1, 400])
def test_killed_while_keys_are_made(tmp_path: Path, size: int) -> None:
    """Killed at any moment, a batch leaves old keys alone; each new one is there whole or not."""
    with FileKeyStore(tmp_path / "keys") as store:
        old = store.get_or_create("acme", MANY[:20])
    new = MANY[20 : 20 + size]

    def create(folder: Path) -> None:
        with FileKeyStore(folder) as store:
            store.get_or_create("acme", new)

    def check(folder: Path, done: bool) -> None:
        with FileKeyStore(folder) as store:
            assert store.get_or_create("acme", MANY[:20]) == old
            there = [key for subject in new if (key := store.find("acme", subject))]
            assert not done or len(there) == size
            made = store.get_or_create("acme", new)
            assert made[: len(there)] == there
            assert store.stats() == (20 + size, 0, 0)
        assert_whole(folder, old + made)

    assert kill_at_every_call(tmp_path / "keys", create, check) >= 3


def test_killed_while_a_key_is_destroyed(tmp_path: Path) -> None:
    """Killed at any moment, a destruction has not begun or is finished by the next opening."""
    with FileKeyStore(tmp_path / "keys") as store:
        keys = store.get_or_create("acme", [*MANY[:5], ALICE, *MANY[5:10]])
        alice = keys.pop(5)
    data = (tmp_path / "keys" / "store.keys").read_bytes()
    place = data.index(alice.key_id, 12288) - 8
    wrapped, sealed = data[place + 40 : place + 80], data[place + 92 : place + 192]

    def destroy(folder: Path) -> None:
        with FileKeyStore(folder) as store:
            store.destroy(alice.key_id)

    def check(folder: Path, done: bool) -> None:
        with FileKeyStore(folder) as store:
            found = store.find("acme", ALICE)
            assert found in ((None,) if done else (None, alice))
            assert store.generation() == (0 if found else 1)
        if found is None:
            stored = [path.read_bytes() for path in folder.iterdir()]
            assert not any(wrapped in data or sealed in data for data in stored)
            with FileKeyStore(folder) as store:
                assert person(store, ALICE).pseudonym != alice.pseudonym
        assert_whole(folder, keys)

    assert kill_at_every_call(tmp_path / "keys", destroy, check) >= 6


def test_killed_while_the_master_key_is_rotated(tmp_path: Path) -> None:
    """Killed at any moment of a rotation, the store opens with the files that are there."""
    with FileKeyStore(tmp_path / "keys") as store:
        keys = store.get_or_create("acme", MANY[:10])
    old = (tmp_path / "keys" / "master.key").read_bytes()

    def rotate(folder: Path) -> None:
        with FileKeyStore(folder) as store:
            store.rotate_master_key()

    def check(folder: Path, done: bool) -> None:
        assert_whole(folder, keys)
        assert not (folder / "master.key.new").exists()
        assert not done or (folder / "master.key").read_bytes() != old

    assert kill_at_every_call(tmp_path / "keys", rotate, check) >= 8


def test_killed_while_recovering(tmp_path: Path) -> None:
    """A process killed while it repairs what another left behind leaves it repairable."""
    with FileKeyStore(tmp_path / "keys") as store:
        keys = store.get_or_create("acme", [*MANY[:10], ALICE])
        alice = keys.pop()
    with FileKeyStore(tmp_path / "keys") as store, pytest.MonkeyPatch.context() as patch:
        # The destruction has said what it is going to do and has begun to forget.
        KillAt(patch, 4, torn=True)
        with pytest.raises(Killed):
            store.destroy(alice.key_id)
    with (tmp_path / "keys" / "store.keys").open("ab") as file:
        file.write(b"\x00\x00\x00\xc0" + b"torn" * 20)
    (tmp_path / "keys" / "store.index").unlink()

    def check(folder: Path, done: bool) -> None:
        assert_whole(folder, keys)
        with FileKeyStore(folder) as store:
            assert store.find("acme", ALICE) is None
            assert store.stats() == (10, 0, 1)

    assert kill_at_every_call(tmp_path / "keys", lambda f: FileKeyStore(f).close(), check) >= 8


def test_sigkill_loses_and_doubles_nothing(tmp_path: Path, start: Start) -> None:
    """After each of twelve kills, every acknowledged key is there once, with its pseudonym."""
    chance = random.Random(11)
    acknowledged: dict[str, tuple[str, str]] = {}
    for turn in range(12):
        process = start(CREATE_UNTIL_KILLED, str(tmp_path), str(turn))
        lines = [read_line(process) for _ in range(chance.randrange(1, 150))]
        process.kill()
        # A line that is cut in the middle was not printed yet when the process ended.
        lines += [line for line in rest_of(process) if line.endswith("\n")]
        for line in lines:
            name, pseudonym, key_id = line.split()
            acknowledged[name] = (pseudonym, key_id)
        with FileKeyStore(tmp_path) as store:
            check_acknowledged(store, acknowledged)
    (tmp_path / "store.index").unlink()
    with FileKeyStore(tmp_path) as store:
        check_acknowledged(store, acknowledged)


def test_processes_agree(tmp_path: Path, start: Start) -> None:
    """Two processes that ask for the same 200 new persons at once get the same keys."""
    order = [str(number) for number in range(200)]
    processes = [
        start(ASK_FOR_200, str(tmp_path), ",".join(names)) for names in (order, order[::-1])
    ]
    for process in processes:
        assert read_line(process) == "ready\n"
    for process in processes:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
    first, second = ({tuple(line.split()) for line in rest_of(process)} for process in processes)
    assert [process.returncode for process in processes] == [0, 0]
    assert first == second
    assert len(first) == 200
    with FileKeyStore(tmp_path) as store:
        assert store.stats() == (200, 0, 0)


def test_a_handle_survives_that_another_process_grows_the_index(tmp_path: Path) -> None:
    """A handle opened before the index was replaced goes on finding, making and destroying."""
    with FileKeyStore(tmp_path) as early, FileKeyStore(tmp_path) as other:
        alice = person(early, ALICE)
        keys = other.get_or_create("acme", MANY)
        assert early.get_or_create("acme", MANY) == keys
        assert other.destroy(alice.key_id)
        assert early.find("acme", ALICE) is None
        bob = person(early, BOB)
        assert other.find("acme", BOB) == bob


def check_acknowledged(store: FileKeyStore, acknowledged: dict[str, tuple[str, str]]) -> None:
    """See that the store has every acknowledged person, and the pseudonym leads back."""
    subjects = [Subject("user", name) for name in acknowledged]
    found = [store.find("acme", subject) for subject in subjects]
    assert [(key.pseudonym.hex, key.key_id.hex()) if key else None for key in found] == list(
        acknowledged.values()
    )
    names = store.names("acme", [key.pseudonym for key in found if key])
    assert sorted(names.values()) == sorted(subjects)
    assert store.stats().persons >= len(acknowledged)


def assert_whole(folder: Path, keys: list[PersonKey]) -> None:
    """See that these persons have these keys, with the index as it is and with a new one."""
    for lost in ("nothing", "store.index"):
        (folder / lost).unlink(missing_ok=True)
        with FileKeyStore(folder) as store:
            assert [store.find(key.tenant, key.subject) for key in keys] == keys
            fetched = store.get_many([key.key_id for key in keys])
            assert fetched == {key.key_id: key.key for key in keys}
            names = store.names("acme", [key.pseudonym for key in keys])
            assert names == {key.pseudonym: key.subject for key in keys}


@pytest.fixture
def start() -> Iterator[Start]:
    """Start Python processes that are given code and arguments; none outlives the test."""
    with ExitStack() as started:

        def start_process(code: str, *arguments: str) -> Process:
            process = subprocess.Popen(
                [sys.executable, "-c", code, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            started.enter_context(process)
            started.callback(process.kill)
            return process

        yield start_process


def read_line(process: Process) -> str:
    """Read one line; a process that ended instead fails the test."""
    assert process.stdout
    line = process.stdout.readline()
    assert line.endswith("\n"), "the process ended early"
    return line


def rest_of(process: Process) -> list[str]:
    """Read the lines that are left and wait for the end of the process."""
    assert process.stdout
    lines = process.stdout.readlines()
    process.wait(PATIENCE)
    return lines
