"""Reading what happened on branches: changed memories, their events, and how many there are."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any, Final
from uuid import UUID

from memoriale.adapters.postgres.datastore import Datastore
from memoriale.adapters.postgres.logs import Log
from memoriale.adapters.postgres.rows import row_of, select_list
from memoriale.domain.access import AccessScope
from memoriale.domain.diffs import Stretch
from memoriale.domain.record import Row

_HERE: Final = "WHERE e.tenant = %(tenant)s AND e.log_id = %(log_id)s "
# Owner and visibility stand on every event of a memory.
_CHANGED: Final = (
    "SELECT e.memory_id FROM ledger.ledger_events e " + _HERE + "AND e.index > %(after)s"
    " AND e.index <= %(limit)s AND e.branch = %(branch)s AND e.memory_id IS NOT NULL"
    " AND (%(owners)s::uuid[] IS NULL OR e.owner = ANY (%(owners)s::uuid[])"
    " OR e.visibility <> 'owner') ORDER BY e.index"
)
# A range in the full order of the key that serves it, as in reading.py.
_BRANCHES: Final = (
    f"SELECT {select_list('e')} FROM ledger.ledger_events e "
    + _HERE
    + "AND e.kind = 'branch' AND e.index >= 0 ORDER BY e.kind, e.index"
)
_OF_MEMORIES: Final = (
    f"SELECT {select_list('e')} FROM unnest(%(memories)s::uuid[]) AS m (id) CROSS JOIN LATERAL ("
    " SELECT * FROM ledger.ledger_events e " + _HERE + "AND e.memory_id >= m.id"
    " AND e.memory_id <= m.id AND e.branch = ANY (%(branches)s::uuid[])"
    " ORDER BY e.memory_id, e.index) AS e"
)
# ``AccessScope.allows``. Later events name who acted in the columns of the principal, so these
# are taken from the memory's first event; the look-up runs only where they decide. Like every
# look-up it asks in the order of its key, so that no other one is taken.
_MADE: Final = (
    "(SELECT {} FROM ledger.ledger_events m WHERE m.tenant = %(tenant)s"
    " AND m.log_id = %(log_id)s AND m.memory_id >= e.memory_id AND m.memory_id <= e.memory_id"
    " ORDER BY m.memory_id, m.index LIMIT 1)"
)
_OWN: Final = (
    "(e.owner = ANY (%(owners)s::uuid[]) AND (e.owner_type <> 'session' OR "
    + _MADE.format("(m.principal_user IS NULL OR m.principal_user = %(user)s)")
    + "))"
)
_NAMED: Final = "(e.visibility IN ('user', 'agent', 'team') AND " + _MADE.format(
    "(CASE e.visibility WHEN 'user' THEN m.principal_user = %(user)s"
    " WHEN 'agent' THEN m.principal_agent = %(agent)s"
    " ELSE m.principal_team = ANY (%(teams)s::uuid[]) END)"
)
_COUNTS: Final = (
    "SELECT e.branch, count(*) FROM ledger.ledger_events e "
    + _HERE
    + "AND e.memory_id IS NOT NULL AND (e.visibility = 'tenant' OR "
    + _OWN
    + " OR "
    + _NAMED
    + ")) GROUP BY e.branch"
)


class BranchReader:
    """
    What happened on the branches of one log.

    Args:
        datastore: The database.
        log: The log to read.
    """

    def __init__(self, datastore: Datastore, log: Log) -> None:
        self._datastore = datastore
        self._log = log

    def changed(self, stretch: Stretch, owners: Collection[UUID] | None) -> list[UUID]:
        """
        The memories with an event in a stretch, by their first one in it. It leaves out what
        is visible to its owner alone and is not of these owners; of the rest it returns more
        than a caller may see.

        Args:
            stretch: A branch and a range of indices.
            owners: Pseudonyms of the owners that the caller is; None for everybody's.
        """
        found = self._fetch(
            _CHANGED,
            branch=stretch.branch,
            after=stretch.after,
            limit=stretch.limit,
            owners=None if owners is None else list(owners),
        )
        return list(dict.fromkeys(row[0] for row in found))

    def branches(self) -> list[Row]:
        """The events of all branches, whosever they are, in index order."""
        return [row_of(values) for values in self._fetch(_BRANCHES)]

    def of_memories(
        self, memory_ids: Sequence[UUID], branches: Sequence[UUID]
    ) -> dict[UUID, list[Row]]:
        """
        The events of memories on some branches, each memory's in index order.

        Args:
            memory_ids: The memories.
            branches: The branches.
        """
        rows: dict[UUID, list[Row]] = defaultdict(list)
        for values in self._fetch(_OF_MEMORIES, memories=list(memory_ids), branches=list(branches)):
            row = row_of(values)
            assert row.columns.memory_id is not None
            rows[row.columns.memory_id].append(row)
        return rows

    def counts(self, scope: AccessScope) -> dict[UUID, int]:
        """
        How many events of memories that a caller may see stand on each branch.

        Args:
            scope: The caller.
        """
        found = self._fetch(
            _COUNTS,
            owners=list(scope.owners),
            user=scope.user,
            agent=scope.agent,
            teams=list(scope.teams),
        )
        return dict(found)

    def _fetch(self, statement: str, **arguments: Any) -> list[tuple[Any, ...]]:
        place = {"tenant": self._log.tenant, "log_id": self._log.log_id}
        return self._datastore.fetch(self._log.tenant, statement, place | arguments)
