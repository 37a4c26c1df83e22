"""Leaves computed by the append function: the same bytes as in Python, for all columns."""

import re
from typing import Final

import pytest

from memoriale.adapters.postgres.migrate import migrations
from memoriale.domain.leaf import leaf_hash, state_hash
from memoriale.domain.record import COLUMNS, LEAF_COLUMNS
from tests.contracts.ledger import Rows, append
from tests.fixtures.postgres import Database, Ledger

GENERATED: Final = 10_000


@pytest.mark.parametrize("seed", [1])
def test_server_and_python_compute_equal_leaves(ledger: Ledger, seed: int) -> None:
    """For 10,000 generated rows the server's leaf and state hash are those of Python."""
    rows = Rows(seed)
    events = [rows.event() for _ in range(GENERATED)]
    answers = ledger.committer.submit_many(
        append(*events[start : start + 250]) for start in range(0, GENERATED, 250)
    )
    assert not [answer for answer in answers if isinstance(answer, Exception)]
    stored = ledger.reader.rows()
    assert len(stored) == GENERATED
    for event, row in zip(events, stored, strict=True):
        assert (row.columns, row.header, row.state) == (event.columns, event.header, event.state)
        assert row.recorded.state_hash == state_hash(event.state)
        assert row.recorded.leaf_hash == leaf_hash(row)


def test_generated_rows_reach_every_column() -> None:
    """Each column that may be null is null in some generated rows and set in others."""
    rows = Rows(1)
    columns = [rows.event().columns for _ in range(500)]
    names = [c.name for c in COLUMNS if c.name in type(columns[0]).__dataclass_fields__]
    for name in names:
        values = [getattr(each, name) for each in columns]
        assert len(set(values)) > 1, name


def leaf_terms(sql: str) -> list[str]:
    """The columns in the leaf's expression, in order."""
    expression = sql.partition("sha256(v_prefix")[2].partition("'\\x000000020001'")[0]
    names = re.findall(r"\be\.(\w+)", expression)
    return list(dict.fromkeys(names))


def missing_from_leaf(database: Database, sql: str) -> list[str]:
    """Columns of the stored table that the leaf's expression lacks."""
    with database.connect() as connection:
        found = connection.execute(
            "SELECT attname FROM pg_attribute WHERE attrelid = 'ledger.ledger_events'::regclass"
            " AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
        ).fetchall()
    # The prefix holds the first two, a constant the version, and two are not covered.
    outside = {"tenant", "log_id", "leaf_version", "state", "leaf_hash"}
    terms = leaf_terms(sql)
    return [name for (name,) in found if name not in outside and name not in terms]


def append_sql() -> str:
    """The migration with the append function."""
    return next(step.sql for step in migrations() if step.name == "append")


def test_leaf_covers_every_stored_column(database: Database) -> None:
    """Every column of the catalogue is in the server's leaf, in declared order."""
    assert missing_from_leaf(database, append_sql()) == []
    covered = [column.name for column in LEAF_COLUMNS]
    assert leaf_terms(append_sql()) == covered[2:-1]


def test_column_missing_from_the_leaf_is_found(fresh_database: Database) -> None:
    """A column that is added to the table but not to the leaf does not go unnoticed."""
    with fresh_database.connect() as connection:
        connection.execute("ALTER TABLE ledger.ledger_events ADD COLUMN extra text")
    assert missing_from_leaf(fresh_database, append_sql()) == ["extra"]
