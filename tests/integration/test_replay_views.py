"""Replay builds a view again beside the live one, tells whether both are equal, and swaps."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from memoriale.domain.errors import UnavailableError
from memoriale.projections.generations import Generations
from memoriale.projections.posted import PostedView, ViewKind
from memoriale.projections.replay import replay
from memoriale.projections.stats.connection import FILE
from memoriale.projections.stats.view import StatsView, stats_kind
from memoriale.projections.view import Batch, View
from tests.fixtures.announced import Announced
from tests.fixtures.events import History
from tests.integration.test_posted_views import Log, TopicFile, live_folder, summary, topics_kind
from tests.integration.test_stats_view import clean_digest, mixed_history

ROOT: Final = Path(__file__).parents[2]
ROUNDS: Final = 100


@pytest.fixture
def log() -> Log:
    return Log(mixed_history(10))


@pytest.fixture
def stats(tmp_path: Path, log: Log) -> PostedView[StatsView]:
    return PostedView(stats_kind(), Generations(tmp_path / "stats"), log)


@pytest.fixture
def topics(tmp_path: Path, log: Log) -> PostedView[TopicFile]:
    return PostedView(topics_kind(), Generations(tmp_path / "topics"), log)


def left(posted: PostedView[Any]) -> set[str]:
    return {path.name for path in posted.generations.folder.iterdir()}


def only_live(posted: PostedView[Any]) -> set[str]:
    return {live_folder(posted).name, "CURRENT", "writer.lock", "writer.turn"}


def test_equal(stats: PostedView[StatsView], log: Log, tmp_path: Path) -> None:
    """A view that was posted batch by batch equals its rebuild, which replaces it."""
    stats.run(summary)
    old = live_folder(stats)
    report = replay(stats, log)
    assert (report.view, report.events, report.equal) == ("stats", 50, True)
    assert report.digest_live == report.digest_rebuilt == clean_digest(tmp_path / "c", log.history)
    assert report.differences == []
    assert report.events_per_second > 0
    assert report.vectors_recomputed == 0
    assert live_folder(stats) != old
    assert left(stats) == only_live(stats)
    assert stats.run(summary) == (50, 0, False)


def test_live_view_is_caught_up_first(stats: PostedView[StatsView], log: Log) -> None:
    """A live view that is behind, or missing, is no difference."""
    assert replay(stats, log).equal
    log.history.denied()
    report = replay(stats, log)
    assert (report.events, report.equal) == (51, True)


def test_empty_log(tmp_path: Path) -> None:
    """The replay of an empty log is an empty view."""
    empty = Log(History())
    report = replay(PostedView(stats_kind(), Generations(tmp_path), empty), empty)
    assert (report.events, report.equal) == (0, True)


TAMPERING: Final = {
    "changed number": "UPDATE memory_versions SET importance = 999 WHERE recorded_from = 0",
    "deleted row": "DELETE FROM memory_versions WHERE recorded_from = 0",
    "added row": "INSERT INTO events SELECT * FROM events WHERE topic = 'branch.forked'",
    "changed branch": "UPDATE branches SET fork_index = 1 - fork_index",
}


@pytest.mark.parametrize("name", TAMPERING)
def test_changed_view(stats: PostedView[StatsView], log: Log, name: str) -> None:
    """A value that somebody changed in the view is found, shown, and gone after the swap."""
    stats.run(summary)
    stats.run(lambda reading: reading.view.query(TAMPERING[name]))
    report = replay(stats, log)
    assert not report.equal
    assert report.digest_live != report.digest_rebuilt
    assert 1 <= len(report.differences) <= 10
    assert replay(stats, log).equal


def remove(folder: Path) -> None:
    (folder / FILE).unlink()


def empty(folder: Path) -> None:
    (folder / FILE).write_bytes(b"")


@pytest.mark.parametrize("damage", [remove, empty])
def test_damaged_view(
    stats: PostedView[StatsView], log: Log, damage: Callable[[Path], None], tmp_path: Path
) -> None:
    """A live view that cannot be read has no digest, is not equal, and is replaced."""
    stats.run(summary)
    damage(live_folder(stats))
    report = replay(stats, log)
    assert (report.digest_live, report.equal) == (None, False)
    assert report.digest_rebuilt == clean_digest(tmp_path / "clean", log.history)
    assert stats.run(summary) == (50, 0, False)
    assert replay(stats, log).equal


def test_damage_that_only_the_comparison_meets(stats: PostedView[StatsView], log: Log) -> None:
    """A view that opens but cannot be read to its end counts as unreadable."""
    stats.run(summary)
    stats.run(lambda reading: reading.view.query("ALTER TABLE branches DROP COLUMN scope"))
    report = replay(stats, log)
    assert (report.digest_live, report.equal) == (None, False)
    assert replay(stats, log).equal


def test_view_of_another_format(topics: PostedView[TopicFile], log: Log) -> None:
    """A live view of another format has no digest to compare and is replaced."""
    topics.run(summary)
    newer = PostedView(topics_kind("topics/2"), topics.generations, log)
    report = replay(newer, log)
    assert (report.digest_live, report.equal) == (None, False)
    assert newer.run(summary) == (50, 0, False)


def test_progress(topics: PostedView[TopicFile], log: Log) -> None:
    """Progress counts up to the number of events."""
    told = list[tuple[int, int]]()
    replay(topics, log, progress=lambda done, total: told.append((done, total)))
    assert told == sorted(told)
    assert told[-1] == (50, 50)


class VectorFile(TopicFile):
    """A view with vectors: compared apart from the digest."""

    moved = 0

    def vectors(self) -> Iterator[tuple[int, str | None, Any]]:
        yield from ((key, "m", None if key % 2 else [0.5]) for key in range(self.position()))

    def compare_vectors(self, other: View) -> int:
        return self.moved


@pytest.mark.parametrize("moved", [0, 3])
def test_vectors(tmp_path: Path, log: Log, monkeypatch: pytest.MonkeyPatch, moved: int) -> None:
    """Recomputed vectors are counted; ones that differ make the views unequal with verify."""
    monkeypatch.setattr(VectorFile, "moved", moved)
    open_ = VectorFile.open
    kind = ViewKind[TopicFile]("topics", "v/1", made, open_, exclusive=False, batch=7)
    report = replay(PostedView(kind, Generations(tmp_path), log), log)
    assert (report.vectors_recomputed, report.equal) == (25, not moved)
    assert report.differences == ([f"{moved} vectors differ"] if moved else [])
    without = replay(PostedView(kind, Generations(tmp_path), log), log, verify=False)
    assert without.equal


def made(folder: Path) -> TopicFile:
    view = VectorFile(folder)
    view._write([])
    return view


def test_failure_leaves_the_live_view(topics: PostedView[TopicFile], log: Log) -> None:
    """When the log cannot be read to its end the live view stays and nothing else is left."""
    topics.run(summary)
    old = live_folder(topics)

    def fail(batch: Batch) -> None:
        raise UnavailableError("the database is down")

    log.before = fail
    with pytest.raises(UnavailableError, match="down"):
        replay(topics, log)
    assert live_folder(topics) == old
    assert left(topics) == only_live(topics)
    assert topics.run(summary) == (50, 0, False)


def test_writers_and_readers_go_on(
    stats: PostedView[StatsView], topics: PostedView[TopicFile], log: Log
) -> None:
    """While replay runs others append, post and read; both generations end up equal."""
    stop, seen = threading.Event(), list[tuple[int, bool]]()

    def use() -> None:
        while not stop.is_set():
            log.history.denied()
            position, _, rebuilt = topics.run(summary, wait=60)
            seen.append((position, rebuilt))

    thread = threading.Thread(target=use)
    thread.start()
    try:
        reports = [
            replay(topics, log),
            replay(stats, log),
            replay(topics, log),
            replay(stats, log),
        ]
    finally:
        stop.set()
        thread.join()
    assert all(report.equal for report in reports)
    assert seen == sorted(seen)
    assert not any(rebuilt for _, rebuilt in seen)


def work(folder: str) -> None:
    """What the worker process does: replays the view."""
    source = Announced(mixed_history(ROUNDS))
    report = replay(PostedView(stats_kind(), Generations(Path(folder)), source), source)
    print("equal", report.equal, flush=True)


def started(folder: Path) -> subprocess.Popen[str]:
    code = f"from {__name__} import work; import sys; work(sys.argv[1])"
    command = [sys.executable, "-c", code, str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def test_killed_replay(tmp_path: Path) -> None:
    """A killed replay leaves the live view as it was, and the next one goes on and tidies up."""
    log = Log(mixed_history(ROUNDS))
    stats = PostedView(stats_kind(), Generations(tmp_path / "stats"), log)
    stats.run(summary)
    old = live_folder(stats)
    for batches in (3, 10, 10):
        process = started(tmp_path / "stats")
        assert process.stdout is not None
        for _ in range(batches):
            assert process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        assert live_folder(stats) == old
        assert stats.run(summary) == (500, 0, False)
    assert left(stats) > only_live(stats)
    report = replay(stats, log)
    assert report.equal
    assert 0 < report.resumed_at < report.events == 500
    assert left(stats) == only_live(stats)


def test_readers_in_other_processes(tmp_path: Path) -> None:
    """A reader in this process reads on while another process swaps the generation."""
    log = Log(mixed_history(ROUNDS))
    topics = PostedView(topics_kind(), Generations(tmp_path / "topics"), log)
    stats = PostedView(stats_kind(), Generations(tmp_path / "stats"), log)
    before = stats.run(lambda reading: reading.view.digest())
    topics.run(summary)
    old = live_folder(stats)
    process = started(tmp_path / "stats")
    try:
        deadline = time.monotonic() + 60
        while live_folder(stats) == old and time.monotonic() < deadline:
            assert stats.run(summary, wait=60) == (500, 0, False)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert output.splitlines()[-1] == "equal True"
    assert live_folder(stats) != old
    assert stats.run(lambda reading: reading.view.digest()) == before
