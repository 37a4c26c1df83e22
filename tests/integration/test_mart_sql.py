"""SQL of analysts on a ledger: values, limits, freshness, rights, and whose data it is."""

import json
import shutil
from pathlib import Path
from typing import Any, Final

import pytest

from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.domain.errors import InputError, MissingRightError, UnavailableError
from memoriale.domain.principal import ALL_RIGHTS, Right
from memoriale.projections.stats.dictionary import RELATIONS
from memoriale.projections.stats.snapshots import Snapshots
from tests.integration.test_mart_star import rows

VALUES: Final[dict[str, Any]] = {
    "NULL": None,
    "true": True,
    "1.50::DECIMAL(5, 2)": "1.50",
    "12345678901234567.123456789::DECIMAL(38, 9)": "12345678901234567.123456789",
    "9223372036854775807": 9223372036854775807,
    "170141183460469231731687303715884105727::HUGEINT": 170141183460469231731687303715884105727,
    "0.1::DOUBLE": 0.1,
    "'nan'::DOUBLE": "nan",
    "'-inf'::DOUBLE": "-inf",
    "'\\xAA\\x00'::BLOB": "aa00",
    "'ä\u200f😀'": "ä\u200f😀",
    "TIMESTAMPTZ '2026-03-01 12:00:00.25+02'": "2026-03-01T10:00:00.250000+00:00",
    "TIMESTAMP '2026-03-01 12:00:00'": "2026-03-01T12:00:00+00:00",
    "TIMESTAMP '290000-01-01'": "290000-01-01 00:00:00",
    "DATE '2026-03-01'": "2026-03-01",
    "TIME '10:00:01'": "10:00:01",
    "INTERVAL '1 day 2 hours'": "1 day, 2:00:00",
    "'00000000-0000-0000-0000-000000000001'::UUID": "00000000-0000-0000-0000-000000000001",
    "[1.5, NULL]": ["1.5", None],
    "{'a': DATE '2026-03-01', 'b': [1]}": {"a": "2026-03-01", "b": [1]},
    "MAP {1: 'x'}": {"1": "x"},
    "'{\"a\": 1}'::JSON": '{"a": 1}',
    "'10'::BIT": "10",
    "[TIMESTAMPTZ '2026-03-01 12:00:00+00']": ["2026-03-01T12:00:00+00:00"],
    "TIMESTAMPTZ '2026-03-01 12:00+00' AT TIME ZONE 'Europe/Rome'": "2026-03-01T13:00:00+00:00",
}


@pytest.mark.time
def test_values(shared_ledger: Ledger, tenant: str) -> None:
    """Each type comes out as JSON without a loss, whatever the zone of this process."""
    columns = ", ".join(f"{sql} AS c{i}" for i, sql in enumerate(VALUES))
    found = shared_ledger.sql(f"SELECT {columns}", tenant=tenant)
    (row,) = found.rows
    assert list(row.values()) == list(VALUES.values())
    assert json.loads(json.dumps(found.as_dict()))["rows"] == found.rows


def test_columns(shared_ledger: Ledger, tenant: str) -> None:
    """Columns have names, made different where they are not, and the types of DuckDB."""
    found = shared_ledger.sql("SELECT 1 AS a, 'x' AS a, 2::BIGINT AS a_1", tenant=tenant)
    assert found.columns == [
        {"name": "a", "type": "INTEGER"},
        {"name": "a_1", "type": "VARCHAR"},
        {"name": "a_1_1", "type": "BIGINT"},
    ]
    assert found.rows == [{"a": 1, "a_1": "x", "a_1_1": 2}]


def test_every_relation_can_be_asked(shared_ledger: Ledger, alice: Memory, tenant: str) -> None:
    """Each table and view of the dictionary answers with the described columns."""
    alice.remember("stays", source_run="run 1")
    memory = alice.remember("x").memory_id
    alice.correct(memory, "y")
    alice.invalidate(memory)
    for name, relation in RELATIONS.items():
        found = shared_ledger.sql(f"FROM {name}", tenant=tenant)
        assert [c["name"] for c in found.columns] == [c.name for c in relation.columns]
        assert found.rows, name


def test_fresh(shared_ledger: Ledger, alice: Memory, tenant: str) -> None:
    """A query answers from the newest snapshot and says how far that is behind; with `fresh` it
    sees everything recorded before the call."""
    count = "SELECT count(*) AS n FROM events"
    alice.remember("one")
    first = shared_ledger.sql(count, tenant=tenant)
    alice.remember("two")
    again = shared_ledger.sql(count, tenant=tenant)
    fresh = shared_ledger.sql(count, tenant=tenant, fresh=True)
    assert [found.rows for found in (first, again, fresh)] == [[{"n": 1}], [{"n": 1}], [{"n": 2}]]
    assert [found.behind for found in (first, again, fresh)] == [0, 1, 0]
    assert (again.as_dict()["index"], fresh.as_dict()["index"]) == (0, 1)
    assert fresh.as_dict()["root"] == shared_ledger.verify(tenant=tenant)[0].root


def test_other_tenants_are_absent(shared_ledger: Ledger, alice: Memory, tenant: str) -> None:
    """A snapshot has the events of its tenant alone, and no name and no content of anybody."""
    other = shared_ledger.memory(tenant=f"{tenant}-other", user="mallory-canary")
    theirs = other.remember("canary of another tenant")
    alice.remember("canary of mine", source_run="run-canary")
    snapshot = shared_ledger.snapshot(tenant=tenant).snapshot
    assert rows(snapshot, "SELECT count(*) FROM events") == [(1,)]
    for name in RELATIONS:
        text = repr(rows(snapshot, f"FROM {name}"))
        assert str(theirs.memory_id) not in text
        assert "canary" not in text
    stored = snapshot.path.read_bytes()
    for word in (tenant, "canary", "mallory", "alice"):
        assert word.encode() not in stored
    assert tenant not in str(snapshot.path)


def test_the_right_is_needed(shared_ledger: Ledger, tenant: str) -> None:
    """Without `analyse` nothing is answered or published; with it the use is on record."""
    lacking = Ledger(shared_ledger.infrastructure, ALL_RIGHTS - {Right.ANALYSE})
    folder = shared_ledger.settings.snapshots_folder / lacking.tenant(tenant).log.log_id.hex
    for call in (
        lambda: lacking.sql("SELECT 1", tenant=tenant),
        lambda: lacking.snapshot(tenant=tenant),
        lambda: lacking.stats(tenant=tenant),
    ):
        with pytest.raises(MissingRightError):
            call()
    assert not folder.exists()
    shared_ledger.sql("SELECT 1", tenant=tenant)
    (*_, last) = shared_ledger.tenant(tenant).access.reader.rows()
    assert (last.columns.topic, json.loads(last.header)) == (
        "access.right_used",
        {"command": "sql", "rights": ["analyse"]},
    )


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("", "empty"),
        ("  \n", "empty"),
        ("SELECT \0", "bad_character"),
        ("SELECT '\ud800'", "bad_character"),
        ("SELECT " + "1," * 60_000 + "1", "too_long"),
        ("SELEC 1", "bad_query"),
        ("SELECT missing FROM events", "bad_query"),
        ("FROM nowhere", "bad_query"),
        ("SELECT 1 / 'x'", "bad_query"),
        ("SELECT error('own text')", "bad_query"),
        ("DROP TABLE events", "refused_query"),
    ],
)
def test_a_bad_query(shared_ledger: Ledger, tenant: str, query: str, code: str) -> None:
    """A query that cannot be run is an input error on field `query`, in DuckDB's words."""
    with pytest.raises(InputError) as caught:
        shared_ledger.sql(query, tenant=tenant)
    assert (caught.value.field, caught.value.code) == ("query", code)
    assert str(shared_ledger.settings.home) not in json.dumps(caught.value.as_dict())


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("limit", value) for value in (0, -1, 100_001, 1.5, True, "5")),
        *(("timeout", value) for value in (-1, 601, float("nan"), "5")),
    ],
)
def test_a_bad_argument(shared_ledger: Ledger, tenant: str, field: str, value: Any) -> None:
    """Limits outside their range are input errors, before anything is published or recorded."""
    arguments: dict[str, Any] = {field: value}
    with pytest.raises(InputError) as caught:
        shared_ledger.sql("SELECT 1", tenant=tenant, **arguments)
    assert (caught.value.field, caught.value.code) == (field, "out_of_range")
    assert shared_ledger.tenant(tenant).access.head() == 0


def test_truncated(shared_ledger: Ledger, tenant: str) -> None:
    """More rows than the limit are cut off, and the answer says so."""
    found = shared_ledger.sql("FROM range(10)", tenant=tenant, limit=3)
    assert (len(found.rows), found.truncated) == (3, True)
    assert not shared_ledger.sql("FROM range(3)", tenant=tenant, limit=3).truncated


def test_time_limit(shared_ledger: Ledger, tenant: str) -> None:
    """A query that takes longer than allowed is ended, and says how long that was."""
    endless = (
        "WITH RECURSIVE t AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM t) SELECT max(i) FROM t"
    )
    with pytest.raises(InputError) as caught:
        shared_ledger.sql(endless, tenant=tenant, timeout=1)
    assert (caught.value.code, caught.value.allowed) == ("time_limit", "1 s")


@pytest.mark.parametrize("damage", [b"", b"no database" * 1_000, "half", "flipped"])
def test_a_damaged_snapshot(
    shared_ledger: Ledger, alice: Memory, tenant: str, damage: bytes | str
) -> None:
    """A snapshot that cannot be read is a typed error that may be tried again, and the next
    question is answered from a new one."""
    for number in range(3):
        alice.remember_many([{"content": f"{number} {i}", "user": "alice"} for i in range(500)])
    path = shared_ledger.snapshot(tenant=tenant).snapshot.path
    whole = path.read_bytes()
    if damage == "half":
        path.write_bytes(whole[: len(whole) // 2])
    elif damage == "flipped":
        # Blocks begin after three headers of 4 KiB; each has a checksum.
        path.write_bytes(whole[:12_288] + bytes(b ^ 0xFF for b in whole[12_288:]))
    else:
        assert isinstance(damage, bytes)
        path.write_bytes(damage)
    sql = "SELECT count(*) AS n, max(leaf_hash) FROM events"
    with pytest.raises(UnavailableError) as caught:
        shared_ledger.sql(sql, tenant=tenant)
    assert (caught.value.code, caught.value.retry) == ("snapshot_lost", True)
    assert shared_ledger.sql(sql, tenant=tenant).rows[0]["n"] == 1_500


def test_the_folder_is_removed(shared_ledger: Ledger, alice: Memory, tenant: str) -> None:
    """Without its folder the next question publishes a snapshot again."""
    alice.remember("x")
    path = shared_ledger.snapshot(tenant=tenant).snapshot.path
    shutil.rmtree(path.parent)
    assert shared_ledger.sql("SELECT count(*) AS n FROM events", tenant=tenant).rows == [{"n": 1}]


def test_a_log_that_was_cut(shared_ledger: Ledger, alice: Memory, tenant: str) -> None:
    """A snapshot with more events than the log holds is not used."""
    alice.remember("x")
    log = shared_ledger.tenant(tenant).log
    first = shared_ledger.snapshot(tenant=tenant).snapshot
    pointer = first.path.parent / "CURRENT"
    pointer.write_text(json.dumps({**json.loads(pointer.read_text()), "position": 7}))
    found = shared_ledger.sql("SELECT 1", tenant=tenant)
    assert found.snapshot.position == 1
    assert Snapshots(first.path.parent, log.log_id).current() == found.snapshot


def test_stats(shared_ledger: Ledger, alice: Memory, tenant: str) -> None:
    """Counts by topic, kind, branch and day are those of the log, up to the last event."""
    one = alice.remember("one").memory_id
    alice.remember("two", kind="fact")
    alice.correct(one, "better")
    branch = alice.fork("what-if")
    branch.invalidate(one)
    found = shared_ledger.stats(tenant=tenant).as_dict()
    assert (found["position"], found["index"], found["behind"]) == (5, 4, 0)
    tables = found["tables"]
    assert {row["topic"]: row["events"] for row in tables["topics"]} == {
        "memory.remembered": 2,
        "memory.corrected": 1,
        "memory.invalidated": 1,
        "branch.forked": 1,
    }
    assert {row["kind"]: row["current_memories"] for row in tables["kinds"]} == {
        "note": 1,
        "fact": 1,
    }
    assert [(row["events"], row["current_memories"]) for row in tables["branches"]] == [
        (3, 2),
        (2, 0),
    ]
    assert [row["fork_index"] for row in tables["branches"]] == [None, 2]
    assert sum(row["events"] for row in tables["days"]) == 5
    assert tables["reasons"] == [{"reason_code": "forgotten", "invalidations": 1}]
    json.dumps(found)


def test_describe(shared_ledger: Ledger) -> None:
    """One relation or all of them; an unknown one is an input error with the list."""
    assert [relation.name for relation in shared_ledger.describe()] == list(RELATIONS)
    (events,) = shared_ledger.describe("events")
    assert events.columns[0].name == "index"
    with pytest.raises(InputError) as caught:
        shared_ledger.describe("event")
    assert (caught.value.code, caught.value.allowed) == ("unknown_view", list(RELATIONS))


def test_snapshots_lie_outside_the_views(
    shared_ledger: Ledger, tenant: str, tmp_path: Path
) -> None:
    """Snapshots have a folder of their own, by setting or in the home, never that of the views."""
    settings = shared_ledger.settings
    path = shared_ledger.snapshot(tenant=tenant).snapshot.path
    assert path.is_relative_to(settings.home / "snapshots")
    assert not path.is_relative_to(settings.views_folder)
    moved = settings.model_copy(update={"snapshots_uri": tmp_path})
    assert moved.snapshots_folder == tmp_path
