"""Batches of a log for views: what the server writes as a table is what the rows say."""

from dataclasses import replace

import pytest

from memoriale.adapters.postgres.append import Append
from memoriale.adapters.postgres.log_batches import clear_table, log_batches
from memoriale.adapters.postgres.reading import LedgerReader
from memoriale.adapters.postgres.roles import Role
from memoriale.domain.errors import UnavailableError
from tests.contracts.ledger import TOPIC, Rows, append, event
from tests.fixtures.batches import clear_table_of
from tests.fixtures.postgres import Database, Ledger, opened


def posting(ledger: Ledger) -> LedgerReader:
    return LedgerReader(ledger.datastore, ledger.log, Role.PROJECT)


@pytest.mark.time
@pytest.mark.parametrize("seed", range(3))
def test_the_table_says_what_the_rows_say(fresh_database: Database, seed: int) -> None:
    """For events of every shape, whatever zone and style the database is set to."""
    generated = Rows(seed)
    with opened(fresh_database) as ledger:
        for _ in range(60):
            row = generated.event()
            columns = replace(row.columns, topic=TOPIC)
            ledger.committer.submit(Append((replace(row, columns=columns),)))
        with fresh_database.connect() as connection:
            name = connection.info.dbname
            connection.execute(f"ALTER DATABASE {name} SET TimeZone = 'America/St_Johns'".encode())
            connection.execute(f"ALTER DATABASE {name} SET DateStyle = 'German'".encode())
            connection.execute(f"ALTER DATABASE {name} SET bytea_output = 'escape'".encode())
        with opened(fresh_database, ledger.log.tenant) as again:
            reader = posting(again)
            rows = reader.rows()
            table, wanted = clear_table(reader, 0, len(rows)), clear_table_of(rows)
    assert table.column_names == wanted.column_names
    for name in wanted.column_names:
        found, told = table[name].to_pylist(), wanted[name].to_pylist()
        if name.endswith(("_at", "valid_from", "valid_until")):
            found = [value and value.replace("+00", "+00:00") for value in found]
            found = [value and _whole(value) for value in found]
            told = [value and _whole(value) for value in told]
        assert found == told, name


def test_batches_hold_whole_appends(ledger: Ledger) -> None:
    """A batch ends with an append, says where, and knows its last leaf without reading rows."""
    for size in (1, 3, 2, 4):
        ledger.committer.submit(append(*(event() for _ in range(size))))
    reader = posting(ledger)
    rows = reader.rows()
    for size in (1, 2, 5, 100):
        batches = list(log_batches(reader, lambda rows: [], 0, len(rows), size))
        assert [row for batch in batches for row in batch.rows] == rows
        assert [batch.position for batch in batches[1:]] == [batch.end for batch in batches[:-1]]
        for batch in batches:
            last = batch.rows[-1].recorded
            assert (batch.end, batch.leaf_hash) == (last.index + 1, last.leaf_hash)
            assert last.index == last.append_last
            assert batch.table.num_rows == len(batch.rows)


@pytest.mark.parametrize("missing", [0, 2, 3])
def test_a_hole_is_told(fresh_database: Database, missing: int) -> None:
    """An event that is gone is no smaller table but an error that names it."""
    with opened(fresh_database) as ledger:
        for _ in range(4):
            ledger.committer.submit(append(event()))
        with fresh_database.connect() as connection:
            connection.execute("ALTER TABLE ledger.ledger_events DISABLE TRIGGER ALL")
            connection.execute("DELETE FROM ledger.ledger_events WHERE index = %s", [missing])
        with pytest.raises(UnavailableError) as caught:
            clear_table(posting(ledger), 0, 4)
        assert (caught.value.code, caught.value.value) == ("hole", missing)


def _whole(time: str) -> str:
    """With all six digits of the second."""
    head, dot, rest = time.partition(".")
    digits = rest.partition("+")[0] if dot else ""
    return f"{head.partition('+')[0]}.{digits:0<6}"
