"""Whatever is planted in a recall view is found by reconcile, named, and gone after a repair."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy
import pyarrow
import pytest

from memoriale.adapters.embeddings.hashing import HashEmbedder
from memoriale.domain.access import AccessScope
from memoriale.domain.errors import ConflictError
from memoriale.projections.generations import Generations
from memoriale.projections.kind import ViewKind
from memoriale.projections.posted import PostedView
from memoriale.projections.recall.reconciling import discrepancies, holds_rows_beyond, tidy
from memoriale.projections.recall.schema import OPEN, PASSAGES, VECTOR, arrow_schema
from memoriale.projections.recall.view import RecallView
from memoriale.projections.reconcile import ReconcileReport, reconcile
from tests.fixtures.events import BOB
from tests.integration.test_posted_views import Log, live_folder, summary
from tests.integration.test_recall_search import ask
from tests.integration.test_stats_view import mixed_history

EMBEDDER: Final = HashEmbedder()
SECRET: Final = "Bob keeps bees"


def recall_kind(embedder: HashEmbedder = EMBEDDER) -> ViewKind[RecallView]:
    return ViewKind(
        "recall",
        f"recall/{embedder.model}",
        lambda folder: RecallView.create(folder, embedder),
        lambda folder: RecallView.open(folder, embedder),
        exclusive=False,
        compare=discrepancies,
        beyond=holds_rows_beyond,
        maintain=tidy,
    )


@pytest.fixture
def log() -> Log:
    history = mixed_history(10)
    history.remembered(" ".join(f"word{number} walks by the river." for number in range(900)))
    history.remembered(SECRET, owner=BOB)
    return Log(history)


@pytest.fixture
def recall(tmp_path: Path, log: Log) -> PostedView[RecallView]:
    posted = PostedView(recall_kind(), Generations(tmp_path / "recall"), log)
    assert posted.run(summary, wait=60) == (52, 0, False)
    return posted


def table_of(posted: PostedView[RecallView]) -> Any:
    return RecallView.open(live_folder(posted), EMBEDDER).table._table


def row(table: Any, key: int) -> Any:
    return table.search().where(f"key = {key}").select(arrow_schema(64).names).to_arrow()


def counts(report: ReconcileReport) -> dict[str, int]:
    names = ("missing", "orphaned", "stale", "duplicated", "vectors")
    return {name: getattr(report, name) for name in names if getattr(report, name)}


def delete_row(table: Any) -> None:
    table.delete("key = 0")


def add_row(table: Any) -> None:
    extra = row(table, 0)
    key = extra.schema.get_field_index("key")
    table.add(extra.set_column(key, extra.schema.field(key), [[2]]))


def add_row_beyond_the_log(table: Any) -> None:
    extra = row(table, 0)
    for name in ("key", "recorded_from", "seq"):
        place = extra.schema.get_field_index(name)
        extra = extra.set_column(place, extra.schema.field(place), [[70_000]])
    table.add(extra)


def change_text(table: Any) -> None:
    table.update("key = 0", {"text": "something else"})


def reopen(table: Any) -> None:
    table.update("key = 0", {"recorded_until": OPEN})


def change_seq(table: Any) -> None:
    table.update("key = 0", {"seq": 51})


def flip_vector(table: Any) -> None:
    vector = numpy.array(row(table, 0)[VECTOR][0].as_py(), dtype=numpy.float32)
    place = int(numpy.abs(vector).argmax())
    flipped = bytearray(vector.tobytes())
    flipped[4 * place + 3] ^= 0x80
    table.update(
        "key = 0", {VECTOR: numpy.frombuffer(bytes(flipped), dtype=numpy.float32).tolist()}
    )


def drop_vector(table: Any) -> None:
    lacking = row(table, 0)
    place = lacking.schema.get_field_index(VECTOR)
    nulls = pyarrow.nulls(1, lacking.schema.field(place).type)
    table.delete("key = 0")
    table.add(lacking.set_column(place, lacking.schema.field(place), nulls), on_bad_vectors="null")


def change_model(table: Any) -> None:
    table.update("key = 0", {"model": "another/1"})


def damage_passage(table: Any) -> None:
    found = table.search().where(f"{PASSAGES} IS NOT NULL").select(["key", PASSAGES]).to_list()
    assert len(found) == 1
    vectors = found[0][PASSAGES]
    assert len(vectors) > 2 * 64
    vectors[-64:] = [-value for value in vectors[-64:]]
    table.update(f"key = {found[0]['key']}", {PASSAGES: vectors})


def double_row(table: Any) -> None:
    table.add(row(table, 0))


PLANTS: Final[dict[str, tuple[Callable[[Any], None], dict[str, int], str]]] = {
    "deleted row": (delete_row, {"missing": 1}, "version 0: missing"),
    "added row": (add_row, {"duplicated": 1}, "version 2: duplicated"),
    "added row beyond": (add_row_beyond_the_log, {"orphaned": 1}, "version 70000: orphaned"),
    "changed text": (change_text, {"stale": 1}, "version 0: stale (text)"),
    "reopened": (reopen, {"stale": 1}, "version 0: stale (recorded_until)"),
    "changed order": (change_seq, {"stale": 1}, "version 0: stale (seq)"),
    "flipped vector byte": (flip_vector, {"vectors": 1}, "version 0: vectors (vector)"),
    "missing vector": (drop_vector, {"vectors": 1}, "version 0: vectors (vector)"),
    "other model": (change_model, {"vectors": 1}, "version 0: vectors (model)"),
    "damaged passage": (damage_passage, {"vectors": 1}, "version 50: vectors (passages)"),
    "doubled row": (double_row, {"duplicated": 1}, "version 0: duplicated"),
}


def test_clean(recall: PostedView[RecallView], log: Log) -> None:
    """A view that was posted as it should be has nothing to find, and is left as it was."""
    folder = live_folder(recall)
    report = reconcile(recall, log, repair=True)
    assert (report.ok, report.settled, report.repaired, report.position) == (True, True, 0, 52)
    assert counts(report) == {}
    assert live_folder(recall) == folder
    assert [p.name for p in recall.generations.folder.iterdir() if p.is_dir()] == [folder.name]


@pytest.mark.parametrize("name", PLANTS)
def test_planted(recall: PostedView[RecallView], log: Log, name: str) -> None:
    """What was planted is counted and named without its content, repaired, and then gone."""
    plant, expected, finding = PLANTS[name]
    digest = recall.run(lambda reading: reading.view.digest())
    plant(table_of(recall))
    found = reconcile(recall, log)
    assert counts(found) == expected
    assert finding in found.findings
    assert (found.ok, found.settled, found.repaired) == (False, False, 0)
    again = reconcile(recall, log, repair=True)
    assert counts(again) == expected
    assert (again.ok, again.settled, again.repaired) == (False, True, sum(expected.values()))
    after = reconcile(recall, log)
    assert (after.ok, counts(after)) == (True, {})
    assert recall.run(lambda reading: reading.view.digest()) == digest


@pytest.mark.parametrize("position", [0, 20, 60])
def test_wrong_position(recall: PostedView[RecallView], log: Log, position: int) -> None:
    """A position that is not where the rows end, or beyond the log, is found and repaired."""
    table_of(recall).update("key = -1", {"seq": position})
    report = reconcile(recall, log, repair=True)
    assert counts(report) == {"stale": 1}
    assert report.findings == ["the position: stale (seq)"]
    assert reconcile(recall, log).ok
    assert recall.run(summary) == (52, 0, False)


def test_lost_position(recall: PostedView[RecallView], log: Log) -> None:
    """A view without a position cannot be read; it is replaced."""
    table_of(recall).delete("key = -1")
    found = reconcile(recall, log)
    assert not found.settled
    assert found.unreadable is not None
    assert "lost its position" in found.unreadable
    assert reconcile(recall, log, repair=True).settled
    assert reconcile(recall, log).ok


def test_view_that_is_behind(recall: PostedView[RecallView], log: Log) -> None:
    """What the view has not applied yet is posted, not reported."""
    log.history.remembered("later")
    report = reconcile(recall, log)
    assert (report.ok, report.position) == (True, 53)


def test_missing_view(tmp_path: Path, log: Log) -> None:
    """A view that does not exist has no wrong rows; the next read makes it."""
    posted = PostedView(recall_kind(), Generations(tmp_path / "none"), log)
    assert reconcile(posted, log, repair=True).ok
    assert posted.run(summary, wait=60) == (52, 0, False)


def test_erased_row_put_back(recall: PostedView[RecallView], log: Log) -> None:
    """A row with the text of a memory whose key is destroyed is found, and its text is gone."""
    before = row(table_of(recall), 51)
    log.history.erase(list(log.history.memories)[-1])
    assert reconcile(recall, log, repair=True).stale == 1
    assert reconcile(recall, log).ok
    assert row(table_of(recall), 51)["text"].to_pylist() == [None]
    table = table_of(recall)
    table.delete("key = 51")
    table.add(before)
    found = reconcile(recall, log, repair=True)
    assert (found.stale, found.settled) == (1, True)
    assert "text" in found.findings[0]
    assert SECRET not in str(found)
    assert reconcile(recall, log).ok
    assert row(table_of(recall), 51)["text"].to_pylist() == [None]


def test_stale_writer(recall: PostedView[RecallView], log: Log) -> None:
    """A writer that lost its lock is refused by its position; rows that it forces in go no
    way back, and what it adds is found."""
    stale = RecallView.open(live_folder(recall), EMBEDDER)
    old = row(stale.table._table, 0)
    batch = log.history.batch(0, 2)
    with pytest.raises(ConflictError):
        stale.apply(batch, 0)
    log.history.corrected(min(log.history.memories), "the newest text")
    recall.run(summary, wait=60)
    merge = stale.table._table.merge_insert("key")
    merge = merge.when_matched_update_all(where="target.seq < source.seq")
    merge.when_not_matched_insert_all().execute(old)
    assert reconcile(recall, log).ok
    stale.table._table.add(old)
    report = reconcile(recall, log, repair=True)
    assert counts(report) == {"duplicated": 1}
    assert reconcile(recall, log).ok


def test_readers_see_the_repair(recall: PostedView[RecallView], log: Log) -> None:
    """A reader that has the rows in memory answers from the repaired ones afterwards."""
    reader = PostedView(recall_kind(), recall.generations, log)
    table_of(recall).update("key = 51", {"text": "Bob keeps wasps", "search_text": "wasps"})
    his = AccessScope(owners=frozenset({BOB}), user=BOB)

    def first() -> str:
        return reader.run(lambda r: ask(r.view, log.history, "bees wasps", scope=his))[0].content

    assert first() == "Bob keeps wasps"
    reconcile(recall, log, repair=True)
    assert first() == SECRET


def test_progress(recall: PostedView[RecallView], log: Log) -> None:
    """Progress counts up to the number of events."""
    told = list[tuple[int, int]]()
    reconcile(recall, log, progress=lambda done, total: told.append((done, total)))
    assert told == sorted(told)
    assert told[-1] == (52, 52)
