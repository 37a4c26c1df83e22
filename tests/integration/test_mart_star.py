"""The star schema of a snapshot: every column is explained, and the views say what happened."""

import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
from hypothesis import HealthCheck, given, settings

from memoriale.domain.branches import NO_LIMIT
from memoriale.domain.memory import MemoryState
from memoriale.domain.slices import fold_slice
from memoriale.projections.generations import Generations
from memoriale.projections.posted import PostedView
from memoriale.projections.stats.dictionary import RELATIONS, markdown
from memoriale.projections.stats.snapshots import Snapshot, Snapshots
from memoriale.projections.stats.view import StatsView, stats_kind
from tests.contracts.view import eventful_history
from tests.fixtures.events import ALICE, BOB, History
from tests.integration.test_stats_fold import histories
from tests.integration.test_stats_view import mixed_history

DOCUMENT = Path(__file__).parents[2] / "docs" / "mart.md"
TYPES = {"TIMESTAMP WITH TIME ZONE": "TIMESTAMPTZ"}


def view_of(folder: Path, history: History) -> PostedView[StatsView]:
    """The stats view of a history."""
    return PostedView(stats_kind(), Generations(folder / "view"), history)


def published(folder: Path, history: History) -> Snapshot:
    """A snapshot of all of a history."""
    posted = view_of(folder, history)
    snapshot = Snapshots(folder / "snapshots", history.log_id).publish(posted)
    posted.close()
    return snapshot


@contextmanager
def opened(snapshot: Snapshot) -> Iterator[duckdb.DuckDBPyConnection]:
    """A snapshot as an analyst opens it."""
    with duckdb.connect(str(snapshot.path), read_only=True) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


def rows(snapshot: Snapshot, sql: str) -> list[tuple[Any, ...]]:
    """What a query finds in a snapshot."""
    with opened(snapshot) as connection:
        return connection.execute(sql).fetchall()


def states(history: History, branch: UUID, as_of: int = NO_LIMIT) -> dict[UUID, MemoryState]:
    """The memories of a branch by the domain's own fold."""
    return fold_slice(history.events(), history.lineage(branch, as_of))


def test_every_relation_and_column_is_explained(tmp_path: Path) -> None:
    """A snapshot has exactly the tables, views and columns of the dictionary, in its order, with
    its types, and each of them has a comment that says its meaning and unit."""
    snapshot = published(tmp_path, mixed_history())
    with opened(snapshot) as connection:
        relations = connection.execute(
            "SELECT table_name, 'table', comment FROM duckdb_tables() UNION ALL "
            "SELECT view_name, 'view', comment FROM duckdb_views() WHERE NOT internal"
        ).fetchall()
        columns = connection.execute(
            "SELECT table_name, column_name, data_type, comment FROM duckdb_columns()"
            " WHERE NOT internal ORDER BY table_name, column_index"
        ).fetchall()
    assert set(relations) == {(r.name, r.kind, r.meaning) for r in RELATIONS.values()}
    assert [
        (t, c, TYPES.get(k, k).replace("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ"))
        for t, c, k, _ in columns
    ] == [
        (relation.name, column.name, column.type)
        for relation in sorted(RELATIONS.values(), key=lambda r: r.name)
        for column in relation.columns
    ]
    for table, name, _, comment in columns:
        column = next(c for c in RELATIONS[table].columns if c.name == name)
        assert comment.startswith(column.meaning)
        assert column.unit in comment


def test_every_meaning_is_a_sentence() -> None:
    """Meanings in the dictionary are sentences, and no column of a table is said twice."""
    for relation in RELATIONS.values():
        assert relation.meaning.endswith(".")
        names = [column.name for column in relation.columns]
        assert len(names) == len(set(names)) > 0
        assert all(column.meaning.endswith(".") for column in relation.columns)


def test_the_document_has_the_dictionary() -> None:
    """docs/mart.md holds the dictionary as ``markdown()`` writes it."""
    assert markdown().strip() in DOCUMENT.read_text(encoding="utf-8")


def check_spans(history: History, snapshot: Snapshot) -> None:
    """Reading memory_versions as of each index gives what the domain folds as of it."""
    found = rows(
        snapshot,
        "SELECT recorded_from, recorded_until, memory_id, branch, version, status, importance"
        " FROM memory_versions",
    )
    for as_of in range(history.head()):
        state = states(history, history.main, as_of)
        at_index = {
            memory: (start, version, status, importance)
            for start, until, memory, branch, version, status, importance in found
            if branch == history.main and start <= as_of < until
        }
        assert at_index == {
            memory: (s.index, s.version, s.status.value, s.importance)
            for memory, s in state.items()
        }


def check_branches(history: History, snapshot: Snapshot) -> None:
    """branch_memories is what the domain folds for each branch, inherited memories included."""
    found: dict[UUID, dict[UUID, tuple[Any, ...]]] = {b: {} for b in history.branches}
    for branch, memory, *rest in rows(
        snapshot, 'SELECT branch, memory_id, "index", status, importance FROM branch_memories'
    ):
        assert memory not in found[branch]
        found[branch][memory] = tuple(rest)
    for branch in history.branches:
        assert found[branch] == {
            memory: (state.index, state.status.value, state.importance)
            for memory, state in states(history, branch).items()
        }


def test_known_histories(tmp_path: Path) -> None:
    """Spans and branches of histories on branches of branches equal the domain's fold."""
    for name, history in (("a", eventful_history()), ("b", mixed_history())):
        snapshot = published(tmp_path / name, history)
        check_spans(history, snapshot)
        check_branches(history, snapshot)


@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(histories())
def test_spans_and_branches_equal_a_fold(history: History) -> None:
    """Whatever happened, as of every index and on every branch, the rows equal the fold."""
    with tempfile.TemporaryDirectory() as folder:
        snapshot = published(Path(folder), history)
        if history.head():
            check_spans(history, snapshot)
            check_branches(history, snapshot)


def test_corrections(tmp_path: Path) -> None:
    """A correction stands beside the version that it corrected, on a branch the parent's."""
    history = History()
    memory = history.remembered("four", importance=0.5)
    history.corrected(memory, "fourteen chars")
    branch = history.forked("b")
    history.corrected(memory, "six...", branch=branch)
    found = rows(
        published(tmp_path, history),
        'SELECT "index", branch, previous_index, content_length, previous_content_length,'
        ' stood_seconds, actor FROM corrections ORDER BY "index"',
    )
    assert found == [
        (1, history.main, 0, 14, 4, 60, ALICE),
        (3, branch, 1, 6, 14, 120, ALICE),
    ]


def test_invalidations(tmp_path: Path) -> None:
    """An invalidation says why, after how long, and whether it was taken back."""
    history = History()
    one, two = history.remembered("one"), history.remembered("two")
    history.invalidated(one)
    history.invalidated(two, replaced_by=one)
    history.reinstated(one)
    snapshot = published(tmp_path, history)
    found = rows(
        snapshot,
        'SELECT "index", memory_id, reason_code, replaced_by, lived_seconds, reinstated_index'
        ' FROM invalidations ORDER BY "index"',
    )
    assert found == [(2, one, "forgotten", None, 120, 4), (3, two, "forgotten", one, 120, None)]
    assert rows(snapshot, "SELECT memory_id FROM memories_current") == [(one,)]


def test_runs(tmp_path: Path) -> None:
    """A run is the events with its pseudonym: where they lie, and what is left of them."""
    history, run = History(), UUID(int=77)
    first = history.remembered("a", source_run=run)
    history.remembered("b")
    history.remembered("c", source_run=run)
    history.invalidated(first)
    found = rows(published(tmp_path, history), "FROM import_runs")
    assert found == [(run, 0, 2, 2, 2, 1, history.time(0), history.time(2))]


def test_counts(tmp_path: Path) -> None:
    """Days, owners, actors and kinds count every event once."""
    history = mixed_history()
    snapshot = published(tmp_path, history)
    topics = Counter(row.columns.topic for row in history.rows)
    assert dict(rows(snapshot, "SELECT topic, events FROM daily_activity")) == topics
    owners = rows(snapshot, "SELECT owner, owner_type, events, memories FROM owners ORDER BY ALL")
    made = [row.columns.owner for row in history.rows]
    assert owners == [(o, "user", made.count(o), 4) for o in sorted((ALICE, BOB))]
    assert rows(snapshot, "SELECT sum(events) FROM actors") == [(history.head(),)]
    assert rows(snapshot, "FROM kinds ORDER BY kind") == [
        ("fact", 4, 2, 0, 2),
        ("note", 4, 4, 4, 0),
    ]


def test_an_empty_log(tmp_path: Path) -> None:
    """A snapshot of a log without events has no rows and the root of an empty tree."""
    snapshot = published(tmp_path, History())
    assert (snapshot.position, snapshot.index) == (0, -1)
    assert snapshot.root.startswith("e3b0c44298fc1c14")
    for name in RELATIONS:
        expected = 1 if name in ("snapshot", "position") else 0
        assert rows(snapshot, f"SELECT count(*) FROM {name}") == [(expected,)]
