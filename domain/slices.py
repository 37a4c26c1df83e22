"""Folding events into the memories that a branch holds, as of an index and valid at a time."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from uuid import UUID

from memoriale.domain.branches import Lineage
from memoriale.domain.events import RecordedEvent
from memoriale.domain.memory import MemoryState, project_memory


def fold_slice(events: Iterable[RecordedEvent], lineage: Lineage) -> dict[UUID, MemoryState]:
    """
    The memories in a set of events as a branch sees them.

    A branch sees its own events and those of each ancestor up to the point where it left; from
    an ancestor's later events, and from those after the index that the branch's own first event
    of a memory continues, it sees nothing.

    Args:
        events: Events in index order, of any branches: one owner's, or one memory's.
        lineage: The branch with its ancestors; the limit of its first line is the as-of index.
    """
    by_memory: dict[UUID, list[RecordedEvent]] = defaultdict(list)
    for recorded in events:
        if recorded.columns.memory_id is not None:
            by_memory[recorded.columns.memory_id].append(recorded)
    folded = {
        memory_id: project_memory(None, on_lineage(own, lineage))
        for memory_id, own in by_memory.items()
    }
    return {memory_id: state for memory_id, state in folded.items() if state is not None}


def current(
    states: Mapping[UUID, MemoryState], now: datetime, valid_at: datetime
) -> list[MemoryState]:
    """
    The memories that are current at ``now`` and true in the world at ``valid_at``, by the index
    of their first event.
    """
    chosen = (s for s in states.values() if s.is_current(now) and s.is_valid(valid_at))
    return sorted(chosen, key=lambda state: state.first_index)


def on_lineage(events: list[RecordedEvent], lineage: Lineage) -> list[RecordedEvent]:
    """The events of one memory that a branch sees, in index order."""
    kept: list[RecordedEvent] = []
    ceiling: int | None = None
    for line in lineage:
        limit = line.limit if ceiling is None else min(line.limit, ceiling)
        own = [e for e in events if e.columns.branch == line.branch and e.index <= limit]
        kept = own + kept
        if own and own[0].columns.continues is not None:
            ceiling = own[0].columns.continues
    return kept
