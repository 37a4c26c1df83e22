"""Reading which sessions were opened for a user, which has an index of its own."""

from typing import Final
from uuid import UUID

from memoriale.adapters.postgres.reading import LedgerReader
from memoriale.adapters.postgres.rows import row_of, select_list
from memoriale.domain.record import Row

# A range in the full order of the key that serves it, as in reading.py.
_OPENED: Final = (
    f"SELECT {select_list('e')} FROM ledger.ledger_events e"
    " WHERE e.tenant = %(tenant)s AND e.log_id = %(log_id)s AND e.topic = 'session.opened'"
    " AND e.principal_user = %(user)s AND e.index < %(before)s"
    " ORDER BY e.principal_user DESC, e.index DESC LIMIT %(limit)s"
)


def opened_rows(reader: LedgerReader, user: UUID, *, before: int, limit: int) -> list[Row]:
    """
    The events that opened a user's sessions, on whatever branch, newest first.

    Args:
        reader: Of the log.
        user: The user's pseudonym.
        before: The index after the last one.
        limit: How many at most.
    """
    log = reader.log
    arguments = {
        "tenant": log.tenant,
        "log_id": log.log_id,
        "user": user,
        "before": before,
        "limit": limit,
    }
    return [row_of(values) for values in reader.datastore.fetch(log.tenant, _OPENED, arguments)]
