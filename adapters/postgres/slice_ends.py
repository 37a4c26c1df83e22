"""Reading a slice of the log from one of its ends, as far as is needed."""

from typing import Final
from uuid import UUID

from memoriale.adapters.postgres.reading import LedgerReader
from memoriale.adapters.postgres.rows import row_of, select_list
from memoriale.domain.record import Row

# A range in the full order of the key that serves it, as in reading.py.
_END: Final = (
    f"SELECT {select_list('e')} FROM ledger.ledger_events e"
    " WHERE e.tenant = %(tenant)s AND e.log_id = %(log_id)s"
    " AND (e.owner, e.kind, e.index) > (%(owner)s, %(kind)s, %(after)s)"
    " AND (e.owner, e.kind, e.index) < (%(owner)s, %(kind)s, %(before)s)"
    " ORDER BY e.owner {order}, e.kind {order}, e.index {order} LIMIT %(limit)s"
)


def oldest_rows(
    reader: LedgerReader, owner: UUID, kind: str, *, after: int, limit: int
) -> list[Row]:
    """The first events of an owner and kind after an index, oldest first."""
    return _rows(reader, owner, kind, after, 2**63 - 1, limit, "ASC")


def newest_rows(
    reader: LedgerReader, owner: UUID, kind: str, *, before: int, limit: int
) -> list[Row]:
    """The last events of an owner and kind before an index, newest first."""
    return _rows(reader, owner, kind, -1, before, limit, "DESC")


def _rows(
    reader: LedgerReader, owner: UUID, kind: str, after: int, before: int, limit: int, order: str
) -> list[Row]:
    arguments = {
        "tenant": reader.log.tenant,
        "log_id": reader.log.log_id,
        "owner": owner,
        "kind": kind,
        "after": after,
        "before": before,
        "limit": limit,
    }
    found = reader.datastore.fetch(reader.log.tenant, _END.format(order=order), arguments)
    return [row_of(values) for values in found]
