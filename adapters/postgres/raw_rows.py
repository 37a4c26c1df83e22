"""Rows as PostgreSQL sends them, undecoded, for whoever hashes every one of them."""

from collections.abc import Iterator
from typing import Final

from psycopg import sql

from memoriale.adapters.postgres.datastore import Datastore
from memoriale.adapters.postgres.logs import Log
from memoriale.domain.record import LEAF_COLUMNS

_FIRST: Final = ("state", "leaf_hash", "recorded_at", "topic")
_QUERY: Final = (
    "COPY (SELECT {columns} FROM ledger.ledger_events e"
    " WHERE e.tenant = {tenant} AND e.log_id = {log_id}"
    " AND e.index >= {start} AND e.index < {stop} ORDER BY e.index) TO STDOUT (FORMAT binary)"
)
_SIGNATURE: Final = b"PGCOPY\n\xff\r\n\0"
_END: Final = b"\xff\xff"


def raw_rows(
    datastore: Datastore, log: Log, start: int = 0, stop: int = 2**63 - 1
) -> Iterator[bytes]:
    """
    The rows of a log by index, in one snapshot, as fields of 32-bit length and bytes after a
    16-bit count: state, leaf hash, recorded time, topic, then every column under the leaf.

    Args:
        datastore: The database.
        log: The log.
        start: Index of the first.
        stop: Index after the last.

    Raises:
        UnavailableError: The database cannot be used.
    """
    names = [*_FIRST, *(column.name for column in LEAF_COLUMNS)]
    columns = sql.SQL(", ").join(sql.SQL("e.") + sql.Identifier(name) for name in names)
    query = sql.SQL(_QUERY).format(
        columns=columns,
        tenant=sql.Literal(log.tenant),
        log_id=sql.Literal(str(log.log_id)),
        start=sql.Literal(start),
        stop=sql.Literal(stop),
    )
    with datastore.read(log.tenant) as connection, connection.cursor().copy(query) as copy:
        for data in copy:
            row = bytes(data)
            # The signature comes with the first row, and two bytes after the last one.
            if row.startswith(_SIGNATURE):
                row = row[19:]
            if row and row != _END:
                yield row
