"""Reading what a resource and its sessions did from one end of a range, by their own indexes."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from memoriale.adapters.postgres.reading import LedgerReader
from memoriale.adapters.postgres.rows import row_of, select_list
from memoriale.domain.branches import Line
from memoriale.domain.record import Row

_FEWEST: Final = 4
"""Events of each source that tell how far to look."""
_HERE: Final = "WHERE e.tenant = %(tenant)s AND e.log_id = %(log_id)s "
# Ranges in the full order of the key that serves them, as in reading.py. The ends are found in
# the indexes alone, and only the events that are wanted are read.
_SOURCES: Final = (
    "SELECT found.index FROM unnest(%(owners)s::uuid[]) AS o (id) CROSS JOIN LATERAL ("
    " SELECT e.index FROM ledger.ledger_events e "
    + _HERE
    + "AND e.owner_type IN ('resource', 'session') AND e.owner >= o.id AND e.owner <= o.id {range}"
    "ORDER BY e.owner {order}, e.index {order} LIMIT {share}) AS found"
    " UNION "
    "SELECT found.index FROM unnest(%(sessions)s::uuid[]) AS s (id) CROSS JOIN LATERAL ("
    " SELECT e.index FROM ledger.ledger_events e "
    + _HERE
    + "AND e.principal_session >= s.id AND e.principal_session <= s.id {range}"
    "ORDER BY e.principal_session {order}, e.index {order} LIMIT {share}) AS found"
)
_RANGE: Final = (
    "AND e.index > {after} AND e.index < {before} AND EXISTS (SELECT FROM"
    " unnest(%(branches)s::uuid[], %(limits)s::bigint[]) AS line (branch, last)"
    " WHERE line.branch = e.branch AND e.index <= line.last) "
)


def _episodes(order: str, after: str, before: str) -> str:
    """
    The statement for one end. A few of each source tell how far one has to look: as many events
    as are wanted lie before that point, so of no source more is read.
    """
    few = _SOURCES.format(
        order=order, share="%(few)s", range=_RANGE.format(after="%(after)s", before="%(before)s")
    )
    ends = _SOURCES.format(
        order=order, share="%(limit)s", range=_RANGE.format(after=after, before=before)
    )
    return (
        f"WITH few AS MATERIALIZED ({few}), edge AS MATERIALIZED (SELECT (SELECT few.index FROM few"
        f" ORDER BY few.index {order} OFFSET %(limit)s - 1 LIMIT 1) AS at), ends AS ({ends})"
        f" SELECT {select_list('e')} FROM (SELECT ends.index FROM ends ORDER BY ends.index {order}"
        " LIMIT %(limit)s) AS wanted CROSS JOIN LATERAL (SELECT * FROM ledger.ledger_events e "
        + _HERE
        + "AND e.index >= wanted.index AND e.index <= wanted.index ORDER BY e.index LIMIT 1) AS e"
    )


_NEWEST: Final = _episodes(
    "DESC", "greatest(%(after)s, (SELECT edge.at - 1 FROM edge))", "%(before)s"
)
_OLDEST: Final = _episodes("ASC", "%(after)s", "least(%(before)s, (SELECT edge.at + 1 FROM edge))")
# A session is whose it was when it was opened first, on whatever branch.
_SESSIONS: Final = (
    "SELECT DISTINCT e.owner FROM ledger.ledger_events e "
    + _HERE
    + "AND e.topic = 'session.opened' AND e.principal_resource = %(resource)s AND e.index >= 0"
    " AND e.index = (SELECT f.index FROM ledger.ledger_events f WHERE f.tenant = %(tenant)s"
    " AND f.log_id = %(log_id)s AND (f.owner, f.kind, f.index) >= (e.owner, 'session', 0)"
    " AND (f.owner, f.kind) <= (e.owner, 'session') ORDER BY f.owner, f.kind, f.index LIMIT 1)"
)
_FIRST: Final = (
    f"SELECT {select_list('e')} FROM unnest(%(memories)s::uuid[]) AS m (id) CROSS JOIN LATERAL ("
    " SELECT * FROM ledger.ledger_events e "
    + _HERE
    + "AND e.memory_id >= m.id AND e.memory_id <= m.id ORDER BY e.memory_id, e.index LIMIT 1) AS e"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """
    Which events are meant.

    Args:
        owners: Resources and sessions whose events count.
        sessions: Sessions in which whatever was recorded counts.
        lines: Branches, each up to an index.
        after: Only events after this index.
        before: Only events before this one.
    """

    owners: Collection[UUID]
    sessions: Collection[UUID]
    lines: Sequence[Line]
    after: int
    before: int


class EpisodeReader:
    """
    The episodes of one log.

    Args:
        reader: Of the log.
    """

    def __init__(self, reader: LedgerReader) -> None:
        self._reader = reader

    def rows(self, wanted: Wanted, limit: int, *, newest_first: bool) -> list[Row]:
        """
        The first events from one end.

        Args:
            wanted: Which.
            limit: How many at most.
            newest_first: From which end.
        """
        sources = len(wanted.owners) + len(wanted.sessions)
        found = self._fetch(
            _NEWEST if newest_first else _OLDEST,
            owners=[*wanted.owners],
            sessions=[*wanted.sessions],
            branches=[line.branch for line in wanted.lines],
            limits=[line.limit for line in wanted.lines],
            after=wanted.after,
            before=wanted.before,
            few=max(_FEWEST, 2 * limit // max(1, sources)),
            limit=limit,
        )
        rows = [row_of(values) for values in found]
        return sorted(rows, key=lambda row: row.recorded.index, reverse=newest_first)

    def sessions(self, resource: UUID) -> list[UUID]:
        """The sessions that were opened for a resource."""
        return [row[0] for row in self._fetch(_SESSIONS, resource=resource)]

    def first(self, memory_ids: Collection[UUID]) -> dict[UUID, Row]:
        """The event that made each memory, which says who may see it."""
        if not memory_ids:
            return {}
        rows = [row_of(values) for values in self._fetch(_FIRST, memories=[*memory_ids])]
        return {row.columns.memory_id: row for row in rows if row.columns.memory_id is not None}

    def _fetch(self, statement: str, **arguments: Any) -> list[tuple[Any, ...]]:
        log = self._reader.log
        place = {"tenant": log.tenant, "log_id": log.log_id}
        return self._reader.datastore.fetch(log.tenant, statement, place | arguments)
