"""A posted view catches up before it is read and heals whatever happens to its files."""

import json
import logging
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from memoriale.domain.errors import ConflictError, CorruptViewError, UnavailableError
from memoriale.projections.generations import Generations
from memoriale.projections.posted import PostedView, Reading, ViewKind
from memoriale.projections.stats.connection import FILE
from memoriale.projections.stats.view import StatsView, stats_kind
from memoriale.projections.view import Batch, Digest
from tests.fixtures.events import History
from tests.integration.test_stats_view import clean_digest, mixed_history

ROOT: Final = Path(__file__).parents[2]


class TopicFile:
    """A small view that readers need no lock for: all topics in one file, swapped atomically."""

    name = "topics"

    def __init__(self, folder: Path) -> None:
        self.file = folder / "topics.json"
        self.closed = False

    @classmethod
    def create(cls, folder: Path) -> "TopicFile":
        view = cls(folder)
        view._write([])
        return view

    @classmethod
    def open(cls, folder: Path) -> "TopicFile":
        view = cls(folder)
        view.topics()
        return view

    def topics(self) -> list[str]:
        assert not self.closed, "a closed view was used"
        try:
            topics = json.loads(self.file.read_bytes())
        except (OSError, ValueError) as error:
            raise CorruptViewError(str(error)) from error
        assert isinstance(topics, list)
        return topics

    def position(self) -> int:
        return len(self.topics())

    def apply(self, batch: Batch, expected_position: int) -> None:
        topics = self.topics()
        if not len(topics) == expected_position == batch.position:
            raise ConflictError("it stands elsewhere")
        self._write(topics + [row.columns.topic for row in batch.rows])

    def digest(self) -> Digest:
        return Digest("\n".join(self.topics()), self.position())

    def close(self) -> None:
        self.closed = True

    def _write(self, topics: Sequence[str]) -> None:
        draft = self.file.with_suffix(f".{threading.get_ident()}")
        try:
            draft.write_text(json.dumps(topics))
            draft.rename(self.file)
        except OSError as error:
            raise CorruptViewError(str(error)) from error


def topics_kind(fingerprint: str = "topics/1", batch: int = 7) -> ViewKind[TopicFile]:
    create, open_ = TopicFile.create, TopicFile.open
    return ViewKind("topics", fingerprint, create, open_, exclusive=False, batch=batch)


class Log:
    """A log that counts how it is read and can call back before each batch."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.before: Callable[[Batch], None] = lambda batch: None
        self.posted = 0

    def head(self) -> int:
        return self.history.head()

    def batches(self, position: int, stop: int, size: int) -> Iterator[Batch]:
        for batch in self.history.batches(position, stop, size):
            self.before(batch)
            self.posted += len(batch.rows)
            yield batch


@pytest.fixture
def log() -> Log:
    return Log(mixed_history(10))


@pytest.fixture
def stats(tmp_path: Path, log: Log) -> PostedView[StatsView]:
    return PostedView(stats_kind(), Generations(tmp_path / "views" / "0a" / "stats"), log)


@pytest.fixture
def topics(tmp_path: Path, log: Log) -> PostedView[TopicFile]:
    return PostedView(topics_kind(), Generations(tmp_path / "views" / "0a" / "topics"), log)


def summary(reading: Reading[Any]) -> tuple[int, int, bool]:
    return reading.position, reading.behind, reading.rebuilt


def live_folder(posted: PostedView[Any]) -> Path:
    live = posted.generations.current()
    assert live is not None
    return live.folder


@pytest.fixture(params=["stats", "topics"])
def posted(
    request: pytest.FixtureRequest, stats: PostedView[StatsView], topics: PostedView[TopicFile]
) -> PostedView[Any]:
    """The same rules for a view with exclusive files and for one that readers share."""
    return stats if request.param == "stats" else topics


def test_first_read_posts_everything(posted: PostedView[Any]) -> None:
    """A missing view is made in place and caught up; that is no rebuild."""
    assert posted.position() == 0
    assert posted.run(summary) == (50, 0, False)
    assert posted.position() == 50


def test_read_your_writes(posted: PostedView[Any], log: Log) -> None:
    """A read sees what was appended before it, posting only what is new."""
    posted.run(summary)
    log.posted = 0
    log.history.denied()
    assert posted.run(summary) == (51, 0, False)
    assert log.posted == 1


def test_caught_up_view_reads_nothing_from_the_log(posted: PostedView[Any], log: Log) -> None:
    """When nothing is new no batch is asked for."""
    posted.run(summary)
    log.posted = 0
    assert posted.run(summary) == (50, 0, False)
    assert log.posted == 0


def test_at_least(posted: PostedView[Any], log: Log) -> None:
    """A position that the view has reached already is enough when it is all that is asked for."""
    posted.run(summary)
    log.history.denied()
    assert posted.run(summary, at_least=50) == (50, 1, False)
    assert posted.run(summary, at_least=51) == (51, 0, False)


def test_wait_ends(topics: PostedView[TopicFile], log: Log) -> None:
    """When time is up the answer comes from what there is and says how far it is behind."""
    topics.run(summary, wait=0)
    first = topics.position()
    assert 0 < first < 50
    assert topics.run(summary, wait=0) == (first, 50 - first, False)
    assert topics.run(summary, wait=60) == (50, 0, False)


def test_wait_ends_with_exclusive_files(
    stats: PostedView[StatsView], log: Log, tmp_path: Path
) -> None:
    """Each read posts a batch at least, so even impatient readers bring the view to the head."""
    kind = ViewKind("stats", "stats/1", StatsView.create, StatsView.open, exclusive=True, batch=20)
    posted = PostedView(kind, stats.generations, log)
    answers = [posted.run(summary, wait=0)[:2] for _ in range(3)]
    assert answers == [(20, 30), (40, 10), (50, 0)]


def test_beyond_the_head(topics: PostedView[TopicFile]) -> None:
    """Asking for more than the log holds waits no longer than allowed and tells the position."""
    topics.run(summary)
    assert topics.run(summary, at_least=60, wait=0.05) == (50, 0, False)


def test_waits_for_an_append(topics: PostedView[TopicFile], log: Log) -> None:
    """A read that asks for an event which is appended meanwhile gets it."""
    topics.run(summary)
    thread = threading.Timer(0.05, log.history.denied)
    thread.start()
    assert topics.run(summary, at_least=51, wait=60) == (51, 0, False)
    thread.join()


def write(name: str, content: bytes) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        (folder / name).write_bytes(content)

    return damage


def cut(name: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: len(content) // 2])

    return damage


def garble(folder: Path) -> None:
    """Overwrites all blocks of the DuckDB file behind its three headers."""
    content = bytearray((folder / FILE).read_bytes())
    for place in range(3 * 4096, len(content), 1000):
        content[place] ^= 0x55
    (folder / FILE).write_bytes(content)


def drop(name: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        (folder / name).unlink()

    return damage


def of_log_with_more_events(folder: Path) -> None:
    view = StatsView.open(folder)
    history = mixed_history(10)
    history.denied()
    view.apply(history.batch(50, 51), 50)
    view.close()


STATS_DAMAGE: Final[dict[str, Callable[[Path], None]]] = {
    "empty": write(FILE, b""),
    "text": write(FILE, b"hello"),
    "half": cut(FILE),
    "garbled": garble,
    "missing": drop(FILE),
    "ahead of the log": of_log_with_more_events,
}


@pytest.mark.parametrize("name", STATS_DAMAGE)
def test_damaged_stats(
    stats: PostedView[StatsView],
    name: str,
    tmp_path: Path,
    log: Log,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A damaged file is rebuilt from the log, with a warning in the log of the program."""
    stats.run(summary)
    old = live_folder(stats)
    STATS_DAMAGE[name](old)
    with caplog.at_level(logging.WARNING):
        digest, rebuilt = stats.run(lambda reading: (reading.view.digest().value, reading.rebuilt))
    assert rebuilt
    assert "rebuilding view stats" in caplog.text
    assert digest == clean_digest(tmp_path / "clean", log.history)
    assert not old.exists()
    assert stats.run(summary) == (50, 0, False)


@pytest.mark.parametrize("damage", [write("topics.json", b"["), drop("topics.json")])
def test_damaged_shared_view(topics: PostedView[TopicFile], damage: Callable[[Path], None]) -> None:
    """A view that readers share is rebuilt too, by whoever meets the damage."""
    topics.run(summary)
    damage(live_folder(topics))
    assert topics.run(summary) == (50, 0, True)
    assert topics.run(summary) == (50, 0, False)


REMOVALS: Final[dict[str, Callable[[Path], None]]] = {
    "generation": shutil.rmtree,
    "view": lambda folder: shutil.rmtree(folder.parent),
    "all views": lambda folder: shutil.rmtree(folder.parents[2]),
    "pointer": lambda folder: (folder.parent / "CURRENT").unlink(),
    "garbled pointer": lambda folder: write("CURRENT", b"{")(folder.parent),
}


@pytest.mark.parametrize("name", REMOVALS)
def test_removed_folders(posted: PostedView[Any], name: str) -> None:
    """Whatever part of the views folder is removed, the next read makes it again."""
    posted.run(summary)
    REMOVALS[name](live_folder(posted))
    assert posted.run(summary) == (50, 0, False)
    assert posted.position() == 50


def test_other_fingerprint(posted: PostedView[Any], log: Log) -> None:
    """A view of another format or model is rebuilt beside and swapped."""
    posted.run(summary)
    old, kind = live_folder(posted), posted.kind
    newer = ViewKind(kind.name, "x/2", kind.create, kind.open, exclusive=kind.exclusive)
    other = PostedView(newer, posted.generations, log)
    assert other.position() == 0
    assert other.run(summary, wait=0) == (50, 0, True)
    assert live_folder(other) != old
    assert not old.exists()


def test_failed_rebuild_leaves_the_old_one(topics: PostedView[TopicFile], log: Log) -> None:
    """When a rebuild fails the live generation stays, and nothing half-built is left."""
    topics.run(summary)
    newer = PostedView(topics_kind("topics/2"), topics.generations, log)

    def fail(batch: Batch) -> None:
        if batch.position > 20:
            raise UnavailableError("the database is down")

    log.before = fail
    with pytest.raises(UnavailableError, match="down"):
        newer.run(summary)
    assert topics.run(summary) == (50, 0, False)
    assert {p.name for p in topics.generations.folder.iterdir()} == {
        live_folder(topics).name,
        "CURRENT",
        "writer.lock",
        "writer.turn",
    }


def test_damage_while_reading(posted: PostedView[Any]) -> None:
    """Damage that its reader meets is repaired once, and the reader is called again."""
    readings = list[Reading[Any]]()

    def use(reading: Reading[Any]) -> str:
        readings.append(reading)
        if len(readings) == 1:
            raise CorruptViewError("a page is torn")
        return "answer"

    posted.run(summary)
    assert posted.run(use) == "answer"
    assert [reading.rebuilt for reading in readings] == [False, True]


def test_lasting_damage(posted: PostedView[Any]) -> None:
    """A view that stays damaged after its rebuild is an error, not a loop."""
    calls = list[int]()

    def use(reading: Reading[Any]) -> None:
        calls.append(reading.position)
        raise CorruptViewError("the disk is dying")

    with pytest.raises(CorruptViewError, match="dying"):
        posted.run(use)
    assert calls == [50, 50]


def test_damage_reported_by_a_context(posted: PostedView[Any]) -> None:
    """Damage met inside ``read`` reaches the caller, and the next read rebuilds."""
    with pytest.raises(CorruptViewError), posted.read():
        raise CorruptViewError("torn")
    with posted.read() as reading:
        assert summary(reading) == (50, 0, True)


def test_hole_in_the_log(topics: PostedView[TopicFile], log: Log) -> None:
    """A source that leaves out events is refused, and the view stays where it was."""
    topics.run(summary, at_least=7, wait=0)
    position = topics.position()
    broken = PostedView(topics_kind(), topics.generations, Gap(log.history))
    with pytest.raises(UnavailableError) as caught:
        broken.run(summary)
    assert caught.value.code == "hole"
    assert topics.position() == position


class Gap:
    """A log that lost the event at the position it is asked for."""

    def __init__(self, history: History) -> None:
        self.history = history

    def head(self) -> int:
        return self.history.head()

    def batches(self, position: int, stop: int, size: int) -> Iterator[Batch]:
        yield self.history.batch(position + 1, stop)
