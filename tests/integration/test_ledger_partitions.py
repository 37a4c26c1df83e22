"""The same statements on tables that are partitioned by tenant."""

from uuid import uuid4

import pytest

from memoriale.adapters.postgres.append import StreamConflictError
from memoriale.domain.guards import NoEvent, NothingNew, StreamAt
from memoriale.domain.leaf import leaf_hash
from memoriale.domain.record import AppendReceipt
from tests.contracts.ledger import KIND, append, event
from tests.fixtures.postgres import Database, Ledger, opened

PARTITIONS = 4


@pytest.fixture
def partitioned(fresh_database: Database) -> Database:
    """A database whose events lie in hash partitions by tenant."""
    parts = "".join(
        f"CREATE TABLE ledger.ledger_events_{n} PARTITION OF ledger.ledger_events"
        f" FOR VALUES WITH (MODULUS {PARTITIONS}, REMAINDER {n});"
        for n in range(PARTITIONS)
    )
    statements = (
        "SET ROLE memoriale_owner;"
        "ALTER TABLE ledger.ledger_events RENAME TO single;"
        "CREATE TABLE ledger.ledger_events (LIKE ledger.single INCLUDING ALL)"
        " PARTITION BY HASH (tenant);"
        f"{parts}"
        "ALTER TABLE ledger.ledger_events ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;"
        "CREATE POLICY tenant_only ON ledger.ledger_events"
        " USING (tenant = current_setting('ledger.tenant', true) AND tenant <> '');"
        "GRANT SELECT ON ledger.ledger_events TO memoriale_read;"
        "RESET ROLE"
    )
    with fresh_database.connect() as connection:
        connection.execute(statements.encode())
    return fresh_database


def use(ledger: Ledger) -> None:
    """Append and read in every way."""
    stream, owner = uuid4(), uuid4()
    row = event(stream, 1, owner=owner, memory_id=uuid4())
    guards = (StreamAt(stream, 0), NothingNew(owner, KIND, -1), NoEvent(("x",), -1))
    first = append(row, event(), guards=guards)
    answers = ledger.committer.submit_many([first, append(event(stream, 1)), append(), first])
    assert [type(answer) for answer in answers] == [
        AppendReceipt,
        StreamConflictError,
        AppendReceipt,
        AppendReceipt,
    ]
    reader = ledger.reader
    rows = reader.rows()
    assert [leaf_hash(each) for each in rows] == [each.recorded.leaf_hash for each in rows]
    assert len(rows) == reader.head() == 3
    assert row.columns.memory_id is not None
    assert reader.stream(stream) == reader.memory(row.columns.memory_id) == rows[:1]
    assert reader.slice(owner, KIND) == rows[:1]
    assert reader.by_event_id(row.columns.event_id) == rows[0]
    assert reader.pin_index(0) == 1
    assert reader.pin_time(rows[0].recorded.recorded_at) == 1


def test_partitioned_table_runs_the_same_statements(partitioned: Database) -> None:
    """Every append and every read works unchanged on hash partitions, for several tenants."""
    for _ in range(PARTITIONS):
        with opened(partitioned) as ledger:
            use(ledger)
    with partitioned.connect() as connection:
        found = connection.execute("SELECT count(DISTINCT tableoid) FROM ledger.ledger_events")
        assert (found.fetchone() or (0,))[0] >= 1
