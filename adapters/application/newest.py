"""The newest memories of owners, read from the end of the log as far as they go."""

from collections.abc import Iterable
from datetime import datetime
from typing import Final
from uuid import UUID

from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.adapters.postgres.slice_ends import newest_rows
from memoriale.domain.access import AccessScope
from memoriale.domain.branches import Lineage
from memoriale.domain.events import RecordedEvent
from memoriale.domain.memory import MemoryState
from memoriale.domain.slices import fold_slice

_MORE: Final = 100
"""Events that are read besides one for each memory: some ended, or changed since."""


def newest_current(
    log: TenantLog,
    owners: Iterable[UUID],
    kind: str,
    lineage: Lineage,
    scope: AccessScope,
    now: datetime,
    count: int,
) -> list[MemoryState]:
    """
    The memories of owners that are current, those that were made last first. It costs what was
    recorded since the last of them was made, not what the owners ever had.

    Args:
        log: The memory log.
        owners: Whose, by pseudonym.
        kind: Of which kind.
        lineage: As which branch sees them; the limit of its first line is the last index that
            counts.
        scope: What the caller may see.
        now: The time at which they are current.
        count: How many at most.
    """
    found = [
        state
        for owner in owners
        for state in _of_owner(log, owner, kind, lineage, scope, now, count)
    ]
    found.sort(key=lambda state: state.first_index, reverse=True)
    return found[:count]


def _of_owner(
    log: TenantLog,
    owner: UUID,
    kind: str,
    lineage: Lineage,
    scope: AccessScope,
    now: datetime,
    count: int,
) -> list[MemoryState]:
    events: list[RecordedEvent] = []
    before, page = lineage[0].limit + 1, count + _MORE
    while True:
        rows = newest_rows(log.reader, owner, kind, before=before, limit=page)
        events = [*log.mapper.decode(rows[::-1]), *events]
        # What happened to a memory stands after it was made, so this end of the log has all
        # events of those that were made in it; of older ones nothing comes out.
        found = [
            state
            for state in fold_slice(events, lineage).values()
            if state.is_current(now) and state.is_valid(now) and scope.allows(state.columns)
        ]
        if len(found) >= count or len(rows) < page:
            found.sort(key=lambda state: state.first_index, reverse=True)
            return found[:count]
        before, page = rows[-1].recorded.index, page * 2
