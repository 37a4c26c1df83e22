"""The stats view counts what the log holds, keeps no content, and says what its columns mean."""

import json
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from memoriale.domain.errors import ConflictError, CorruptViewError, UnavailableError
from memoriale.projections.stats.connection import FILE
from memoriale.projections.stats.schema import TABLES
from memoriale.projections.stats.view import StatsView
from tests.fixtures.batches import batch_of
from tests.fixtures.events import ALICE, BOB, History


def mixed_history(rounds: int = 4) -> History:
    """Five events a round: every topic of memories, two owners, appends of two, three branches."""
    history = History()
    branches, first = [history.main], None
    for number in range(rounds):
        owner = ALICE if number % 2 else BOB
        with history.together():
            note = history.remembered(f"secret {number}", owner=owner, importance=0.25)
            fact = history.remembered(f"fact {number}", kind="fact", owner=owner)
        first = first or note
        history.corrected(first, f"better secret {number}", branch=branches[number % len(branches)])
        if number < 2:
            branches.append(history.forked(f"try {number}", parent=branches[-1]))
        else:
            history.invalidated(fact)
        history.amended(note, importance=0.5, valid_from=history.time(number))
    return history


def posted(folder: Path, history: History, size: int = 7) -> StatsView:
    folder.mkdir(exist_ok=True)
    view = StatsView.create(folder)
    for batch in history.batches(0, history.head(), size):
        view.apply(batch, batch.position)
    return view


def clean_digest(folder: Path, history: History) -> str:
    view = posted(folder, history, 1000)
    value = view.digest().value
    view.close()
    return value


def test_new_view_is_empty(tmp_path: Path) -> None:
    """A view begins at position 0 and holds nothing."""
    view = StatsView.create(tmp_path)
    totals = view.totals()
    assert (view.position(), totals.events, totals.memories, totals.branches) == (0, {}, {}, 0)
    view.close()


def test_totals(tmp_path: Path) -> None:
    """Events are counted by topic, current memories by kind, and branches with main."""
    view = posted(tmp_path, mixed_history(4))
    totals = view.totals()
    assert totals.position == 20
    assert totals.events == {
        "branch.forked": 2,
        "memory.amended": 4,
        "memory.corrected": 4,
        "memory.invalidated": 2,
        "memory.remembered": 8,
    }
    assert totals.memories == {"fact": 2, "note": 4}
    assert totals.branches == 3
    view.close()


def test_position_survives_closing(tmp_path: Path) -> None:
    """A view that is opened again stands where it stood and holds what it held."""
    view = posted(tmp_path, mixed_history())
    before = view.digest()
    view.close()
    again = StatsView.open(tmp_path)
    assert (again.position(), again.digest()) == (20, before)
    again.close()


@pytest.mark.parametrize("size", [1, 2, 3, 19])
def test_batches_do_not_matter(tmp_path: Path, size: int) -> None:
    """However the log is cut into batches, the view is the same."""
    history = mixed_history()
    view = posted(tmp_path / "cut", history, size)
    assert view.digest().value == clean_digest(tmp_path / "whole", history)
    view.close()


def test_wrong_position_is_refused(tmp_path: Path) -> None:
    """A batch that does not begin where the view stands changes nothing."""
    history = mixed_history()
    view = posted(tmp_path, history)
    before = view.digest()
    batch = history.batch(0, 7)
    for expected in (0, 20, 7):
        with pytest.raises(ConflictError):
            view.apply(batch, expected)
    assert view.digest() == before
    view.close()


def test_bodies_are_never_opened(tmp_path: Path) -> None:
    """The view is posted without decoding bodies, and the same when payloads were removed."""
    history = mixed_history()

    def refuse(rows: object) -> Any:
        raise AssertionError("a body was opened")

    view = StatsView.create(tmp_path)
    view.apply(batch_of([replace(row, state=None) for row in history.rows], refuse), 0)
    (tmp_path / "whole").mkdir()
    assert view.digest().value == clean_digest(tmp_path / "whole", history)
    view.close()


def test_no_content_on_disk(tmp_path: Path) -> None:
    """No text of a body is in any file of the view."""
    posted(tmp_path, mixed_history()).close()
    for path in tmp_path.rglob("*"):
        assert b"secret" not in path.read_bytes()


def test_every_table_and_column_is_explained(tmp_path: Path) -> None:
    """Each table and column has a comment, and the view has exactly the described ones."""
    view = StatsView.create(tmp_path)
    tables = view.query("SELECT table_name, comment FROM duckdb_tables() ORDER BY ALL")
    assert tables == sorted((table.name, table.meaning) for table in TABLES)
    columns = view.query(
        "SELECT table_name, column_name, comment FROM duckdb_columns() WHERE NOT internal"
    )
    assert {c[:2] for c in columns} == {(t.name, c.name) for t in TABLES for c in t.columns}
    assert all(comment for _, _, comment in columns)
    view.close()


@pytest.mark.time
def test_times_are_utc(tmp_path: Path) -> None:
    """Times come back as the same instants whatever the zone of the process."""
    history = mixed_history()
    view = posted(tmp_path, history)
    rows = view.query('SELECT recorded_at, recorded_at::VARCHAR FROM events ORDER BY "index"')
    assert [time for time, _ in rows] == [row.recorded.recorded_at for row in history.rows]
    assert all(time.utcoffset() == timedelta() for time, _ in rows)
    assert rows[0][1] == "2026-01-05 09:00:00+00"
    view.close()


def test_reads_no_files_and_no_network(tmp_path: Path) -> None:
    """The connection reaches no other file, and no extension can be fetched."""
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    (tmp_path / "view").mkdir()
    view = StatsView.create(tmp_path / "view")
    for sql in (f"FROM read_csv('{secret}')", f"ATTACH '{tmp_path}/x.db'", "INSTALL httpfs"):
        with pytest.raises(CorruptViewError):
            view.query(sql)
    view.close()


def test_lists_and_tags(tmp_path: Path) -> None:
    """Lists come back as lists, and the namespace of a version is its last tag."""
    history = History()
    history.remembered("x", about=(ALICE, BOB), namespace_tags=(b"\x01\x02", b"\x0a\x0b"))
    view = posted(tmp_path, history)
    assert view.query("SELECT about, namespace_tags, changed FROM events") == [
        ([ALICE, BOB], ["0102", "0a0b"], None)
    ]
    assert view.query("SELECT namespace FROM memory_versions") == [("0a0b",)]
    view.close()


def test_unknown_topics_are_counted(tmp_path: Path) -> None:
    """An event of a topic that this version does not know is counted and changes no memory."""
    history = History()
    history.remembered("x")
    history.denied()
    row = history.rows[1]
    columns = replace(row.columns, topic="memory.shared", memory_id=UUID(int=1))
    history.rows[1] = replace(row, columns=columns)
    view = posted(tmp_path, history)
    assert view.totals().events == {"memory.remembered": 1, "memory.shared": 1}
    assert view.totals().memories == {"note": 1}
    view.close()


@pytest.mark.parametrize(
    "header",
    [
        "",
        "[]",
        "{",
        '{"changed": null}',
        '{"changed": ["importance"], "importance": "much"}',
        '{"changed": [], "replaced_by": "x"}',
    ],
)
def test_changed_header(tmp_path: Path, header: str) -> None:
    """A header that no writer makes is refused with its place, and the view stays as it was."""
    history = History()
    memory = history.remembered("x")
    history.amended(memory, importance=0.1)
    history.rows[1] = replace(history.rows[1], header=header)
    view = StatsView.create(tmp_path)
    with pytest.raises(UnavailableError) as caught:
        view.apply(history.batch(0, 2), 0)
    assert caught.value.code == "bad_header"
    assert view.position() == 0
    view.close()


def test_second_process_is_told_to_wait(tmp_path: Path) -> None:
    """While one process has the file open another one gets `busy`, which may be tried again."""
    view = posted(tmp_path, mixed_history())
    code = (
        "import sys; from pathlib import Path\n"
        "from memoriale.domain.errors import UnavailableError\n"
        "from memoriale.projections.stats.view import StatsView\n"
        "try:\n    StatsView.open(Path(sys.argv[1]))\n"
        "except UnavailableError as error:\n    print(error.code)"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout.strip() == "busy"
    view.close()


def test_missing_file(tmp_path: Path) -> None:
    """A missing file is a damaged view, and is not made by opening it."""
    with pytest.raises(CorruptViewError):
        StatsView.open(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_missing_table(tmp_path: Path) -> None:
    """A file without its tables is a damaged view."""
    view = posted(tmp_path, mixed_history())
    view.query("DROP TABLE memory_versions")
    with pytest.raises(CorruptViewError):
        view.totals()
    view.query("DROP TABLE position")
    view.close()
    with pytest.raises(CorruptViewError):
        StatsView.open(tmp_path)


@pytest.mark.parametrize("content", [b"", b"no database", b"\0" * 40_000])
def test_no_database(tmp_path: Path, content: bytes) -> None:
    """A file that is no DuckDB file is a damaged view."""
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(CorruptViewError):
        StatsView.open(tmp_path)


TAMPERING = [
    "UPDATE memory_versions SET importance = importance + 1 WHERE recorded_from = 0",
    "UPDATE memory_versions SET recorded_until = recorded_until - 1 WHERE recorded_from = 0",
    "UPDATE memory_versions SET created_at = created_at + INTERVAL 1 MICROSECOND",
    "UPDATE memory_versions SET namespace = 'x'",
    "UPDATE memory_versions SET visibility = NULL",
    "DELETE FROM memory_versions WHERE recorded_from = 5",
    "INSERT INTO memory_versions SELECT * FROM memory_versions WHERE recorded_from = 5",
    'DELETE FROM events WHERE "index" = 3',
    "UPDATE events SET about = [owner]",
    "UPDATE events SET has_evidence = true",
    "DELETE FROM branches WHERE parent IS NULL",
    "UPDATE branches SET fork_index = 1",
    "UPDATE position SET position = 19",
    "UPDATE position SET position = 4611686018427387904",
]


@pytest.mark.parametrize("sql", TAMPERING)
def test_digest_covers_everything(tmp_path: Path, sql: str) -> None:
    """A changed, added or deleted value of any table changes the digest and is shown."""
    history = mixed_history()
    view, other = posted(tmp_path / "a", history), posted(tmp_path / "b", history)
    assert view.digest() == other.digest()
    assert view.differences(other) == []
    view.query(sql)
    assert view.digest().value != other.digest().value
    assert 1 <= len(view.differences(other)) <= 10
    view.close()
    other.close()


def test_digest_covers_every_column(tmp_path: Path) -> None:
    """Setting any column of any table to another value changes the digest."""
    history = mixed_history(2)
    view = posted(tmp_path, history)
    seen = {view.digest().value}
    others = {
        "BIGINT": "77",
        "INTEGER": "77",
        "BLOB": "'\\x77'::BLOB",
        "VARCHAR": "'other'",
        "UUID": "'00000000-0000-0000-0000-000000000077'",
        "BOOLEAN": "NOT coalesce({name}, false)",
        "TIMESTAMPTZ": "TIMESTAMPTZ '2001-01-01 00:00:00+00'",
        "UUID[]": "['00000000-0000-0000-0000-000000000077'::UUID]",
        "VARCHAR[]": "['other']",
    }
    columns = [(table, column) for table in TABLES for column in table.columns]
    for table, column in columns:
        value = others[column.type.removesuffix(" NOT NULL")].format(name=f'"{column.name}"')
        view.query(f'UPDATE {table.name} SET "{column.name}" = {value}')
        seen.add(view.digest().value)
    assert len(seen) == len(columns) + 1
    view.close()


def test_what_a_correction_replaces(tmp_path: Path) -> None:
    """A correction replaces what was said about the content; evidence and the rest stay."""
    history = History()
    memory = history.remembered("x", importance=0.5)
    history.corrected(memory, "yy")
    headers = (
        {"content_length": 1, "importance": 500, "confidence": 7, "source_tier": "manual"}
        | {"aspect": "aa", "model": "m/1", "prompt_version": "p", "language": "en"}
        | {"has_evidence": True},
        {"content_length": 2, "confidence": 9, "aspect": "bb", "model": "m/2"},
    )
    for index, header in enumerate(headers):
        history.rows[index] = replace(history.rows[index], header=json.dumps(header))
    view = posted(tmp_path, history)
    columns = "content_length, importance, confidence, source_tier, aspect, model, prompt_version"
    sql = f"SELECT {columns}, language, has_evidence FROM memory_versions ORDER BY recorded_from"
    assert view.query(sql) == [
        (1, 500, 7, "manual", "aa", "m/1", "p", "en", True),
        (2, 500, 9, "manual", "bb", "m/2", None, None, True),
    ]
    assert view.query("SELECT has_evidence FROM events") == [(True,), (False,)]
    view.close()
