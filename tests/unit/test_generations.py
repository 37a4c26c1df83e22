"""Generations of a view on disk: one is live, garbage goes, and nothing in use is removed."""

import errno
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from memoriale.domain.errors import CorruptViewError, UnavailableError
from memoriale.projections.generations import FileLock, Generation, Generations, disk_errors

ROOT = Path(__file__).parents[2]


@pytest.fixture
def generations(tmp_path: Path) -> Generations:
    return Generations(tmp_path / "views" / "0a" / "stats")


def made(generations: Generations, fingerprint: str = "stats/1") -> Generation:
    generation = generations.begin(fingerprint)
    (generation.folder / "data").write_text(generation.folder.name)
    generations.publish(generation)
    return generation


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@contextmanager
def other_process(code: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Runs code in which ``generations`` is open on the folder, up to its first line of output."""
    start = (
        "import sys, time; from pathlib import Path\n"
        "from memoriale.projections.generations import Generations\n"
        "generations = Generations(Path(sys.argv[1]))\n"
    )
    command = [sys.executable, "-c", start + code, str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout is not None
    try:
        process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_nothing_is_live_at_first(generations: Generations) -> None:
    """Before the first publish there is no live generation, and no folder is made by asking."""
    assert generations.current() is None
    assert not generations.folder.exists()


def test_published_generation_is_live(generations: Generations) -> None:
    """A published generation is live with the fingerprint that it was begun with."""
    generation = made(generations, "recall/1 model:256")
    live = generations.current()
    assert live == generation
    assert live is not None
    assert live.fingerprint == "recall/1 model:256"


def test_begun_generation_is_not_live(generations: Generations) -> None:
    """A generation that is still being built is nobody's live one."""
    old = made(generations)
    generations.begin("stats/2")
    assert generations.current() == old


def test_publish_removes_the_old_one(generations: Generations) -> None:
    """After a swap only the live folder, the pointer and nothing of the old one is left."""
    old, new = made(generations), made(generations)
    assert not old.folder.exists()
    assert {path.name for path in generations.folder.iterdir()} == {new.folder.name, "CURRENT"}


def test_folders_are_private(generations: Generations) -> None:
    """Every folder that is made has mode 0700; one that was there keeps its mode."""
    above = generations.folder.parents[2]
    above.chmod(0o755)
    folder = made(generations).folder
    assert [mode(p) for p in (folder, *folder.parents[:3])] == [0o700] * 4
    assert mode(above) == 0o755


def test_names_are_ordered_by_time(generations: Generations) -> None:
    """A later generation has a name that sorts later."""
    names = [generations.begin("x").folder.name for _ in range(5)]
    assert names == sorted(names)


@pytest.mark.parametrize(
    "pointer",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"generation": "../../elsewhere", "fingerprint": "x"}',
        b'{"generation": "0000000000000000-00000000", "fingerprint": "x"}',
        b'{"fingerprint": "x"}',
    ],
)
def test_unreadable_pointer(generations: Generations, pointer: bytes) -> None:
    """A pointer that is damaged, or points elsewhere or to a missing folder, is no pointer."""
    made(generations)
    (generations.folder / "CURRENT").write_bytes(pointer)
    assert generations.current() is None


def test_missing_folder(generations: Generations) -> None:
    """A pointer to a removed folder is no pointer."""
    shutil.rmtree(made(generations).folder)
    assert generations.current() is None


def test_sweep_keeps_the_live_and_the_unfinished(generations: Generations) -> None:
    """A sweep removes neither the live generation nor one that is being built."""
    live, building = made(generations), generations.begin("x")
    assert generations.sweep() == []
    assert live.folder.is_dir()
    assert building.folder.is_dir()


def test_sweep_removes_what_a_killed_builder_left(generations: Generations) -> None:
    """The folder of a builder that was killed goes, with its lock; a living one's stays."""
    live = made(generations)
    code = "print(generations.begin('x').folder.name, flush=True); time.sleep(600)"
    with other_process(code, generations.folder) as process:
        assert generations.sweep() == []
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert len(generations.sweep()) == 1
    left = {path.name for path in generations.folder.iterdir()}
    assert left == {live.folder.name, "CURRENT"}


def test_sweep_without_a_pointer(generations: Generations) -> None:
    """Without a readable pointer every generation that nobody builds is garbage."""
    old = made(generations)
    (generations.folder / "CURRENT").unlink()
    assert generations.sweep() == [old.folder.name]
    assert not old.folder.exists()


class PublishedLate(Generations):
    """Generations of which one is published just after a sweep has read the pointer."""

    late: Generation | None = None

    def current(self) -> Generation | None:
        live, late, self.late = super().current(), self.late, None
        if late is not None:
            self.publish(late)
        return live


def test_sweep_beside_a_publisher(tmp_path: Path) -> None:
    """A generation that is published while a sweep runs is kept."""
    generations = PublishedLate(tmp_path)
    made(generations)
    building = generations.begin("x")
    generations.late = building
    generations.sweep()
    assert generations.current() == building


def test_sweep_leaves_other_files_alone(generations: Generations) -> None:
    """A sweep touches only what generations are called."""
    made(generations)
    other = generations.folder / "notes"
    other.mkdir()
    generations.sweep()
    assert other.is_dir()


def test_discard(generations: Generations) -> None:
    """A discarded generation is gone and the live one is as before."""
    live, building = made(generations), generations.begin("x")
    generations.discard(building)
    assert not building.folder.exists()
    assert generations.current() == live
    assert {p.name for p in generations.folder.iterdir()} == {live.folder.name, "CURRENT"}


def test_publish_after_the_folder_was_removed(generations: Generations) -> None:
    """A generation whose folder was removed is not published; the caller builds another."""
    building = generations.begin("x")
    shutil.rmtree(generations.folder.parent)
    with pytest.raises(CorruptViewError):
        generations.publish(building)
    assert generations.current() is None
    again = made(generations)
    assert generations.current() == again


def test_reading_beside_publishing(generations: Generations) -> None:
    """Readers beside a publisher and a sweeper always find a live generation with its data."""
    made(generations)
    stop, misses = threading.Event(), list[str]()

    def publish() -> None:
        while not stop.is_set():
            made(generations)
            generations.sweep()

    publishers = [threading.Thread(target=publish) for _ in range(2)]
    for thread in publishers:
        thread.start()
    try:
        for _ in range(400):
            live = generations.current()
            if live is None:
                # The folder can go between reading the pointer and looking at the folder; the
                # pointer itself is always whole.
                json.loads((generations.folder / "CURRENT").read_bytes())
                continue
            data = live.folder / "data"
            try:
                assert data.read_text() == live.folder.name
            except FileNotFoundError:
                if generations.current() == live:
                    misses.append(live.folder.name)
    finally:
        stop.set()
        for thread in publishers:
            thread.join()
    assert misses == []
    generations.sweep()
    live = generations.current()
    assert live is not None
    assert {p.name for p in generations.folder.iterdir()} == {live.folder.name, "CURRENT"}


def test_writer_lock_keeps_threads_out(generations: Generations) -> None:
    """While one thread holds the lock another one gets False at its deadline."""
    answers = list[bool]()

    def try_it() -> None:
        with generations.writer_lock(time.monotonic()) as held:
            answers.append(held)

    with generations.writer_lock(time.monotonic()) as held:
        assert held
        thread = threading.Thread(target=try_it)
        thread.start()
        thread.join()
    try_it()
    assert answers == [False, True]


def test_who_waits_is_next(generations: Generations) -> None:
    """A holder that wants the lock back at once lets the waiting one in first."""
    stop, waiting = threading.Event(), threading.Event()

    def hog() -> None:
        while not stop.is_set():
            with generations.writer_lock(time.monotonic() + 60) as held:
                assert held
                waiting.set()
                time.sleep(0.002)

    thread = threading.Thread(target=hog)
    thread.start()
    try:
        waiting.wait()
        for _ in range(20):
            with generations.writer_lock(time.monotonic() + 60) as held:
                assert held
    finally:
        stop.set()
        thread.join()


def test_writer_lock_keeps_processes_out(generations: Generations) -> None:
    """Another process holds the lock until it is killed."""
    code = (
        "with generations.writer_lock(time.monotonic()):\n"
        "    print('held', flush=True); time.sleep(600)"
    )
    with other_process(code, generations.folder) as process:
        with generations.writer_lock(time.monotonic()) as held:
            assert not held
        process.send_signal(signal.SIGKILL)
        with generations.writer_lock(time.monotonic() + 60) as held:
            assert held


def test_lock_is_not_kept_by_a_forked_child(generations: Generations) -> None:
    """A child that was forked while the lock was held does not keep it after release."""
    lock = FileLock(generations.folder / "writer.lock")
    assert lock.acquire(time.monotonic())
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(reader, 1)
        os._exit(0)
    try:
        lock.release()
        with generations.writer_lock(time.monotonic()) as held:
            assert held
    finally:
        os.write(writer, b"x")
        os.waitpid(child, 0)
        os.close(reader)
        os.close(writer)


def test_lock_survives_removal_of_its_folder(generations: Generations) -> None:
    """After the folder was removed under a holder, the lock is a new one and can be had."""
    with generations.writer_lock(time.monotonic()) as held:
        assert held
        shutil.rmtree(generations.folder)
        with generations.writer_lock(time.monotonic()) as again:
            assert again


@pytest.mark.parametrize(
    ("number", "code"),
    [(errno.ENOSPC, "disk_full"), (errno.EROFS, "read_only"), (errno.EIO, "unavailable")],
)
def test_disk_errors(tmp_path: Path, number: int, code: str) -> None:
    """An error of the disk becomes one of ours, which names the path."""
    expected = pytest.raises(UnavailableError, match=re.escape(str(tmp_path)))
    with expected as caught, disk_errors(tmp_path):
        raise OSError(number, os.strerror(number))
    assert caught.value.code == code


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_folder(tmp_path: Path) -> None:
    """A folder that cannot be written gives an error that names it."""
    tmp_path.chmod(0o500)
    with pytest.raises(UnavailableError) as caught:
        Generations(tmp_path / "stats").begin("x")
    assert caught.value.code == "read_only"
    assert str(tmp_path) in caught.value.message


def test_path_that_cannot_be_a_folder(tmp_path: Path) -> None:
    """A file where a folder should be gives an error that names it."""
    (tmp_path / "views").write_text("a file")
    generations = Generations(tmp_path / "views" / "stats")
    with pytest.raises(UnavailableError, match="views"):
        generations.begin("x")
    with pytest.raises(UnavailableError, match="views"), generations.writer_lock(0.0):
        pass


def half_built(generations: Generations, fingerprint: str = "stats/1") -> Generation:
    generation = generations.begin(fingerprint)
    (generation.folder / "data").write_text("half")
    generations.leave(generation)
    return generation


def test_left_generation_is_adopted(generations: Generations) -> None:
    """What a builder left is taken over as it is, and belongs to who took it."""
    left = half_built(generations)
    adopted = generations.adopt("stats/1", lambda folder: True)
    assert adopted == left
    assert adopted is not None
    assert (adopted.folder / "data").read_text() == "half"
    assert generations.adopt("stats/1", lambda folder: True) is None
    assert generations.sweep() == []
    generations.publish(adopted)
    assert generations.current() == adopted
    assert {path.name for path in generations.folder.iterdir()} == {adopted.folder.name, "CURRENT"}


def test_latest_that_fits_is_adopted(generations: Generations) -> None:
    """The newest generation that fits is taken; live ones and those in building never are."""
    live, first, second = made(generations), half_built(generations), half_built(generations)
    building = generations.begin("stats/1")
    asked = list[str]()

    def fits(folder: Path) -> bool:
        asked.append(folder.name)
        return folder == first.folder

    assert generations.adopt("stats/1", fits) == first
    assert asked == [second.folder.name, first.folder.name]
    assert generations.sweep() == [second.folder.name]
    assert live.folder.is_dir()
    assert building.folder.is_dir()


def test_failure_while_asking_whether_it_fits(generations: Generations) -> None:
    """When that cannot be told now, the generation stays for the next one."""
    left = half_built(generations)

    def fail(folder: Path) -> bool:
        raise UnavailableError("the database is down")

    with pytest.raises(UnavailableError, match="down"):
        generations.adopt("stats/1", fail)
    assert generations.adopt("stats/1", lambda folder: True) == left
