"""Counting memories of a kind by the topics of their events, without opening anything."""

from typing import Final

from memoriale.adapters.postgres.reading import LedgerReader

_COUNT: Final = (
    "SELECT count(*) FILTER (WHERE e.topic IN ('memory.remembered', 'memory.reinstated'))"
    " - count(*) FILTER (WHERE e.topic = 'memory.invalidated')"
    " FROM ledger.ledger_events e"
    " WHERE e.tenant = %(tenant)s AND e.log_id = %(log_id)s AND e.branch = %(log_id)s"
    " AND e.kind = %(kind)s AND e.index > %(after)s AND e.index <= %(last)s"
)


def counted(reader: LedgerReader, kind: str, after: int) -> tuple[int, int]:
    """
    By how many the memories of a kind on ``main`` that have not ended became more.

    Args:
        reader: Of the log.
        kind: Which.
        after: The index up to which they were counted before; -1 for none.

    Returns:
        The index up to which they are counted now, and the difference.
    """
    last, log = reader.head() - 1, reader.log
    if last <= after:
        return after, 0
    arguments = {
        "tenant": log.tenant,
        "log_id": log.log_id,
        "kind": kind,
        "after": after,
        "last": last,
    }
    ((change,),) = reader.datastore.fetch(log.tenant, _COUNT, arguments)
    return last, change
