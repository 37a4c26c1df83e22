"""The recall view in LanceDB is kept posted, healed and replayed like any other."""

import shutil
import threading
from pathlib import Path
from typing import Final

import pytest

from memoriale.adapters.embeddings.hashing import HashEmbedder
from memoriale.projections.generations import Generations
from memoriale.projections.posted import PostedView, ViewKind
from memoriale.projections.recall.view import RecallView
from memoriale.projections.replay import replay
from tests.integration.test_posted_views import Log, live_folder, summary
from tests.integration.test_stats_view import mixed_history

EMBEDDER: Final = HashEmbedder()
KIND: Final = ViewKind(
    "recall",
    "recall/test",
    lambda folder: RecallView.create(folder, EMBEDDER),
    lambda folder: RecallView.open(folder, EMBEDDER),
    exclusive=False,
)


@pytest.fixture
def log() -> Log:
    return Log(mixed_history(10))


@pytest.fixture
def recall(tmp_path: Path, log: Log) -> PostedView[RecallView]:
    return PostedView(KIND, Generations(tmp_path / "recall"), log)


def test_posted(recall: PostedView[RecallView], log: Log) -> None:
    """A first read posts everything, a second one what is new."""
    assert recall.run(summary, wait=60) == (50, 0, False)
    log.history.remembered("another")
    assert recall.run(summary, wait=60) == (51, 0, False)
    assert recall.position() == 51


def test_replay(recall: PostedView[RecallView], log: Log) -> None:
    """The rebuild is equal, and every vector was recomputed and compared."""
    recall.run(summary, wait=60)
    old = live_folder(recall)
    report = replay(recall, log)
    assert (report.view, report.events, report.equal) == ("recall", 50, True)
    assert report.vectors_recomputed > 20
    assert report.differences == []
    assert not old.exists()
    assert recall.run(summary, wait=60) == (50, 0, False)


def test_deleted_data(recall: PostedView[RecallView], log: Log) -> None:
    """Data files that somebody deleted are damage: the view is rebuilt from the log."""
    digest = recall.run(lambda reading: reading.view.digest(), wait=60)
    for path in live_folder(recall).rglob("*.lance"):
        if path.is_file():
            path.unlink()
    recall.forget()
    found = recall.run(lambda reading: (reading.view.digest(), reading.rebuilt), wait=60)
    assert found == (digest, True)


def test_deleted_folder(recall: PostedView[RecallView]) -> None:
    """A removed folder is made again and filled."""
    digest = recall.run(lambda reading: reading.view.digest(), wait=60)
    shutil.rmtree(recall.generations.folder)
    assert recall.run(lambda reading: reading.view.digest(), wait=60) == digest


def test_readers_during_a_swap(recall: PostedView[RecallView], log: Log) -> None:
    """Readers in other threads read on while generations are swapped under them."""
    rows = recall.run(lambda reading: reading.view.rows_count(), wait=60)
    stop, seen = threading.Event(), set[tuple[int, bool]]()

    def use() -> None:
        while not stop.is_set():
            answer = recall.run(
                lambda reading: (reading.view.rows_count(), reading.rebuilt), wait=60
            )
            seen.add(answer)

    thread = threading.Thread(target=use)
    thread.start()
    try:
        assert all(replay(recall, log).equal for _ in range(3))
    finally:
        stop.set()
        thread.join()
    assert seen == {(rows, False)}
