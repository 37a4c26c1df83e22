"""A log in batches for views: first where each ends, and what it holds when a view asks for it."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Final

from psycopg import sql

from memoriale.adapters.postgres.errors import hole
from memoriale.adapters.postgres.reading import LedgerReader
from memoriale.adapters.postgres.roles import Role
from memoriale.domain.events import RecordedEvent
from memoriale.domain.record import Row
from memoriale.projections.stats.incoming import CLEAR, COLUMNS, HEADER
from memoriale.projections.view import Batch

if TYPE_CHECKING:
    import pyarrow as pa

_QUERY: Final = (
    "COPY (SELECT {columns} FROM ledger.ledger_events e WHERE e.tenant = {tenant}"
    " AND e.log_id = {log_id} AND e.index >= {start} AND e.index < {stop} ORDER BY e.index)"
    " TO STDOUT (FORMAT csv, HEADER)"
)
_APPEND_END: Final = (
    "SELECT e.index, e.leaf_hash FROM ledger.ledger_events e WHERE e.tenant = %(tenant)s"
    " AND e.log_id = %(log_id)s AND e.index >= %(index)s AND e.index = e.append_last"
    " ORDER BY e.index LIMIT 1"
)
_WRITTEN: Final = {
    "leaf_hash": "pg_catalog.encode(e.leaf_hash, 'hex') AS leaf_hash",
    "namespace_tags": (
        "CASE WHEN pg_catalog.cardinality(e.namespace_tags) = 0 THEN '{}' ELSE (SELECT"
        " '{' || pg_catalog.string_agg(pg_catalog.encode(t.tag, 'hex'), ',' ORDER BY t.place)"
        " || '}' FROM pg_catalog.unnest(e.namespace_tags) WITH ORDINALITY AS t (tag, place)) END"
        " AS namespace_tags"
    ),
}


def log_batches(
    reader: LedgerReader,
    decode: Callable[[Sequence[Row]], list[RecordedEvent]],
    position: int,
    stop: int,
    size: int,
) -> Iterator[Batch]:
    """
    A log from an index on; see ``EventSource.batches``.

    Args:
        reader: Reads the log as who posts views.
        decode: Opens bodies.
        position: The first index.
        stop: The first index that is not wanted.
        size: Events of a batch, more only where an append would be cut.

    Raises:
        UnavailableError: An event is missing (``hole``), or the database cannot be used.
    """
    stop = min(stop, reader.head())
    while position < stop:
        end, leaf_hash = _append_end(reader, min(position + size, stop) - 1)
        yield Batch(
            log_id=reader.log.log_id,
            position=position,
            end=end,
            leaf_hash=leaf_hash,
            load=partial(reader.rows, after=position - 1, stop=end),
            decode=decode,
            load_table=partial(clear_table, reader, position, end),
        )
        position = end


def clear_table(reader: LedgerReader, start: int, stop: int) -> "pa.Table":
    """
    What stands in clear of some events, as ``projections.stats.incoming`` describes it. The
    server writes it and Arrow reads it, so that no event is touched one by one.

    Args:
        reader: As for ``log_batches``.
        start: Index of the first event.
        stop: The index after the last one.

    Raises:
        UnavailableError: An event is missing (``hole``), or the database cannot be used.
    """
    import pyarrow as pa
    from pyarrow import compute, csv

    log = reader.log
    chosen = [
        sql.SQL(_WRITTEN[name]) if name in _WRITTEN else sql.SQL("e.") + sql.Identifier(name)
        for name in (*CLEAR, HEADER)
    ]
    query = sql.SQL(_QUERY).format(
        columns=sql.SQL(", ").join(chosen),
        tenant=sql.Literal(log.tenant),
        log_id=sql.Literal(str(log.log_id)),
        start=sql.Literal(start),
        stop=sql.Literal(stop),
    )
    with (
        reader.datastore.read(log.tenant, Role.PROJECT) as connection,
        connection.cursor().copy(query) as copy,
    ):
        data = b"".join(bytes(part) for part in copy)
    table = csv.read_csv(
        BytesIO(data),
        parse_options=csv.ParseOptions(newlines_in_values=True),
        convert_options=csv.ConvertOptions(
            column_types={name: pa.string() for name in COLUMNS},
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    indices = compute.cast(table["index"], pa.int64()).to_pylist()
    if indices != list(range(start, stop)):
        raise hole(next(i for i, found in enumerate([*indices, None], start) if found != i))
    return table


def _append_end(reader: LedgerReader, index: int) -> tuple[int, bytes]:
    """The index after the append that an index belongs to, and the leaf hash of its last event."""
    place = {"tenant": reader.log.tenant, "log_id": reader.log.log_id, "index": index}
    found = reader.datastore.fetch(reader.log.tenant, _APPEND_END, place, Role.PROJECT)
    if not found:
        raise hole(index)
    last, leaf_hash = found[0]
    return last + 1, leaf_hash
