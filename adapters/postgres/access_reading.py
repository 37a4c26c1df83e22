"""Looking through an access log, and at what became of the memories that it names."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from memoriale.adapters.postgres.datastore import Datastore
from memoriale.adapters.postgres.logs import Log
from memoriale.adapters.postgres.rows import row_of, select_list
from memoriale.domain.record import Row

_HERE: Final = "WHERE e.tenant = %(tenant)s AND e.log_id = %(log_id)s "
# In the order of the primary key, so a page reads the log only up to its last entry.
_ENTRIES: Final = (
    f"SELECT {select_list('e')} FROM ledger.ledger_events e "
    + _HERE
    + "AND e.index > %(after)s AND e.index < %(stop)s"
    " AND (%(topics)s::text[] IS NULL OR e.topic = ANY (%(topics)s::text[]))"
    " AND (%(within)s::text IS NULL OR strpos(e.header, %(within)s::text) > 0)"
    " AND (%(sessions)s::uuid[] IS NULL OR e.principal_session = ANY (%(sessions)s::uuid[]))"
    " AND (%(persons)s::uuid[] IS NULL OR e.actor = ANY (%(persons)s::uuid[])"
    " OR e.on_behalf_of = ANY (%(persons)s::uuid[])"
    " OR e.principal_user = ANY (%(persons)s::uuid[])"
    " OR e.principal_agent = ANY (%(persons)s::uuid[])"
    " OR e.principal_resource = ANY (%(persons)s::uuid[])"
    " OR e.principal_session = ANY (%(persons)s::uuid[])"
    " OR e.principal_team = ANY (%(persons)s::uuid[]))"
    " ORDER BY e.index LIMIT %(limit)s"
)
_CHANGES: Final = (
    "SELECT e.memory_id, e.branch, e.index, e.topic, e.recorded_at, e.header"
    " FROM unnest(%(memories)s::uuid[], %(after)s::bigint[]) AS m (id, after)"
    " CROSS JOIN LATERAL (SELECT * FROM ledger.ledger_events e "
    + _HERE
    + "AND e.memory_id >= m.id AND e.memory_id <= m.id AND e.index > m.after"
    " ORDER BY e.memory_id, e.index) AS e"
)


@dataclass(frozen=True, slots=True)
class Change:
    """An event of a memory, without what people wrote."""

    memory_id: UUID
    branch: UUID
    index: int
    topic: str
    recorded_at: datetime
    header: str


class AccessReader:
    """
    Entries of one tenant's access log.

    Args:
        datastore: The database.
        access: The access log.
    """

    def __init__(self, datastore: Datastore, access: Log) -> None:
        self._datastore, self._access = datastore, access

    def entries(
        self,
        *,
        after: int,
        stop: int,
        limit: int,
        topics: Sequence[str] | None = None,
        within: str | None = None,
        sessions: Collection[UUID] | None = None,
        persons: Collection[UUID] | None = None,
    ) -> list[Row]:
        """
        The next entries, in order.

        Args:
            after: The index before the first one.
            stop: The first index that is not wanted.
            limit: How many at most.
            topics: Only these; None: all.
            within: Only those whose header holds this text.
            sessions: Only those made in one of these sessions (pseudonyms).
            persons: Only those in which one of these acted, or was acted for, in whatever part.
        """
        found = self._fetch(
            self._access,
            _ENTRIES,
            after=after,
            stop=stop,
            limit=limit,
            topics=None if topics is None else list(topics),
            within=within,
            sessions=None if sessions is None else list(sessions),
            persons=None if persons is None else list(persons),
        )
        return [row_of(values) for values in found]

    def changes(self, after: dict[UUID, int], memory: Log) -> list[Change]:
        """
        Events of memories, on whatever branch, by memory and index.

        Args:
            after: For each memory the index after which its events are wanted.
            memory: The memory log that they are in.
        """
        found = self._fetch(memory, _CHANGES, memories=list(after), after=list(after.values()))
        return [Change(*values) for values in found]

    def _fetch(self, log: Log, statement: str, **arguments: Any) -> list[tuple[Any, ...]]:
        place = {"tenant": log.tenant, "log_id": log.log_id}
        return self._datastore.fetch(log.tenant, statement, place | arguments)
