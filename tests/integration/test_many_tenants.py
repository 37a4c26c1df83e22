"""A process that serves many tenants holds a bounded number of connections."""

from pathlib import Path
from uuid import uuid4

import memoriale
from memoriale.adapters.postgres.datastore import MAX_APPENDERS, MAX_READERS
from tests.fixtures.ledger import HASHING
from tests.fixtures.postgres import Database

TENANTS = 130


def test_connections_do_not_grow_with_tenants(fresh_database: Database, tmp_path: Path) -> None:
    """More tenants than the server has connections are written and read in one process, and none
    sees another's memories."""
    names = [f"t-{number}-{uuid4().hex[:6]}" for number in range(TENANTS)]
    with memoriale.open(
        home=tmp_path, database_url=fresh_database.app_url, embedder=HASHING
    ) as ledger:
        receipts = {
            name: ledger.memory(tenant=name, user="alice").remember(f"of {name}") for name in names
        }
        with fresh_database.connect() as connection:
            row = connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'memoriale'"
                " AND datname = current_database()"
            ).fetchone()
        assert row is not None
        assert 0 < row[0] <= MAX_APPENDERS + MAX_READERS
        for name, receipt in receipts.items():
            memory = ledger.memory(tenant=name, user="alice")
            assert memory.show(receipt.memory_id).content == f"of {name}"
