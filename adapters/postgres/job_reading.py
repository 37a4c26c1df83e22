"""Reading the events of jobs, which have an index of their own."""

from typing import Final

from memoriale.adapters.postgres.reading import LedgerReader
from memoriale.adapters.postgres.rows import row_of, select_list
from memoriale.domain.record import Row

# A range in the full order of the key that serves it, as in reading.py.
_JOBS: Final = (
    f"SELECT {select_list('e')} FROM ledger.ledger_events e"
    " WHERE e.tenant = %(tenant)s AND e.log_id = %(log_id)s AND e.kind = 'job'"
    " AND e.index > %(after)s AND e.index < %(before)s ORDER BY e.kind {order}, e.index {order}"
    " LIMIT %(limit)s"
)


def job_rows(
    reader: LedgerReader,
    *,
    after: int = -1,
    before: int = 2**63 - 1,
    limit: int | None = None,
    newest_first: bool = False,
) -> list[Row]:
    """
    Events of jobs, oldest first.

    Args:
        reader: Of the log.
        after: The index before the first one.
        before: The index after the last one.
        limit: How many at most; None for all.
        newest_first: The other way round.
    """
    statement = _JOBS.format(order="DESC" if newest_first else "ASC")
    log = reader.log
    arguments = {
        "tenant": log.tenant,
        "log_id": log.log_id,
        "after": after,
        "before": before,
        "limit": limit,
    }
    return [row_of(values) for values in reader.datastore.fetch(log.tenant, statement, arguments)]
