"""The ledger on PostgreSQL 15, the oldest server that it supports."""

from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest

from memoriale.adapters.postgres.migrate import current, migrate, migrations
from memoriale.domain.leaf import leaf_hash
from memoriale.domain.record import AppendReceipt
from tests.contracts.ledger import Rows, append, event
from tests.fixtures.postgres import Database, Server, opened, temporary_database
from tests.integration.test_ledger_partitions import use


@pytest.fixture
def older(older_server: Server) -> Iterator[Database]:
    """A migrated database of PostgreSQL 15."""
    with temporary_database(older_server) as database:
        migrate(database.superuser_url)
        yield database


def test_ledger_works_on_the_oldest_server(older: Database) -> None:
    """Migrations, appends with guards and all reads work on PostgreSQL 15."""
    assert current(older.superuser_url) == len(migrations())
    with opened(older) as ledger:
        use(ledger)


def test_leaves_are_equal_on_the_oldest_server(older: Database) -> None:
    """PostgreSQL 15 computes the same leaves."""
    rows = Rows(15)
    with opened(older) as ledger:
        answers = ledger.committer.submit_many(
            append(*(rows.event() for _ in range(50))) for _ in range(20)
        )
        assert [type(answer) for answer in answers] == [AppendReceipt] * 20
        stored = ledger.reader.rows()
        assert [leaf_hash(row) for row in stored] == [row.recorded.leaf_hash for row in stored]


def test_many_refusals_on_the_oldest_server(older: Database) -> None:
    """Sorting many appends works under the older planner too."""
    stream = uuid4()
    with opened(older) as ledger:
        old = [append(event(), event()) for _ in range(200)]
        ledger.committer.submit_many([*old, append(event(stream, 1))])
        answers = ledger.committer.submit_many([append(event(stream, 1)), *old, append()])
        assert sum(isinstance(a, AppendReceipt) and not a.created for a in answers) == 200
        assert ledger.reader.head() == 402


def test_stored_rows_are_protected_on_the_oldest_server(older: Database) -> None:
    """The triggers refuse there as well."""
    with opened(older) as ledger:
        ledger.committer.submit(append())
    with older.connect() as connection, pytest.raises(psycopg.Error) as caught:
        connection.execute("DELETE FROM ledger.ledger_events")
    assert caught.value.sqlstate == "ML003"
