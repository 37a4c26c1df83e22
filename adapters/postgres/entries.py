"""Reading single entries of a log by their index, many at once."""

from collections.abc import Sequence
from typing import Final

from memoriale.adapters.postgres.reading import LedgerReader
from memoriale.adapters.postgres.rows import row_of, select_list
from memoriale.domain.record import Row

# A range in the full order of the key that serves it, as in reading.py.
_AT: Final = (
    f"SELECT {select_list('e')} FROM unnest(%(indices)s::bigint[]) AS i (index)"
    " CROSS JOIN LATERAL (SELECT * FROM ledger.ledger_events e"
    " WHERE e.tenant = %(tenant)s AND e.log_id = %(log_id)s"
    " AND e.index >= i.index AND e.index <= i.index ORDER BY e.index LIMIT 1) AS e"
)


def rows_at(reader: LedgerReader, indices: Sequence[int]) -> dict[int, Row]:
    """The entries at some indices, by index; those that the log does not have are left out."""
    if not indices:
        return {}
    arguments = {
        "tenant": reader.log.tenant,
        "log_id": reader.log.log_id,
        "indices": list(dict.fromkeys(indices)),
    }
    found = reader.datastore.fetch(reader.log.tenant, _AT, arguments)
    rows = [row_of(values) for values in found]
    return {row.recorded.index: row for row in rows}
