"""What one branch changed since it and another one parted."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from uuid import UUID

from memoriale.domain.branches import Line, Lineage
from memoriale.domain.events import (
    Amended,
    Corrected,
    Event,
    Invalidated,
    RecordedEvent,
    Reinstated,
    Remembered,
    Restated,
)
from memoriale.domain.memory import MemoryState, Status, project_memory
from memoriale.domain.slices import on_lineage


class Difference(StrEnum):
    """In what a memory differs from how it stood where the branches parted."""

    ADDED = "added"
    CORRECTED = "corrected"
    AMENDED = "amended"
    INVALIDATED = "invalidated"
    REINSTATED = "reinstated"


@dataclass(frozen=True, slots=True)
class Stretch:
    """The events of one branch after an index (excluded) up to a limit (included)."""

    branch: UUID
    after: int
    limit: int


@dataclass(frozen=True, slots=True)
class MemoryChange:
    """
    One difference of one memory.

    Args:
        difference: What kind.
        before: The memory where the branches parted; None if there was none.
        after: The memory as the branch sees it.
        event: The last event of the branch that made this difference.
    """

    difference: Difference
    before: MemoryState | None
    after: MemoryState
    event: RecordedEvent


def common_lineage(one: Lineage, other: Lineage) -> Lineage:
    """
    What two branches both see: from the nearest branch that both have on, each up to the lower
    of both limits. Its first line is where they parted.
    """
    limits = {line.branch: line.limit for line in other}
    return tuple(
        Line(line.branch, min(line.limit, limits[line.branch]))
        for line in one
        if line.branch in limits
    )


def own_stretches(lineage: Lineage, common: Lineage) -> tuple[Stretch, ...]:
    """
    The parts of a lineage beyond what it has in common with another, nearest first.

    Args:
        lineage: From ``lineage``.
        common: From ``common_lineage``.
    """
    # No event of a branch that left from the common part is older than the point it left from.
    parted = {line.branch: line.limit for line in common}
    lowest = common[0].limit
    stretches = (Stretch(s.branch, parted.get(s.branch, lowest), s.limit) for s in lineage)
    return tuple(s for s in stretches if s.after < s.limit)


def memory_changes(
    events: Sequence[RecordedEvent], lineage: Lineage, common: Lineage
) -> list[MemoryChange]:
    """
    In what one memory differs on a branch from how it stood where the branches parted.

    A memory that was made and ended since then differs in nothing, and so does one whose content
    was erased. One memory can differ in several ways, such as corrected and then invalidated.

    Args:
        events: All events of the memory, in index order.
        lineage: The branch.
        common: What it has in common with the branch that it is compared with.
    """
    seen, shared = on_lineage([*events], lineage), on_lineage([*events], common)
    known = {recorded.index for recorded in shared}
    new = [recorded for recorded in seen if recorded.index not in known]
    before, after = project_memory(None, shared), project_memory(None, seen)
    if not new or after is None or after.status is Status.ERASED:
        return []
    found = []
    for difference, (topics, differs) in _RULES.items():
        causes = [recorded for recorded in new if isinstance(recorded.event, topics)]
        if causes and differs(before, after):
            found.append(MemoryChange(difference, before, after, causes[-1]))
    return found


def _added(before: MemoryState | None, after: MemoryState) -> bool:
    return before is None and after.status is Status.CURRENT


def _corrected(before: MemoryState | None, after: MemoryState) -> bool:
    return before is not None and before.payload != after.payload


def _amended(before: MemoryState | None, after: MemoryState) -> bool:
    return before is not None and _amendable(before) != _amendable(after)


def _invalidated(before: MemoryState | None, after: MemoryState) -> bool:
    return _were(before, after, Status.CURRENT, Status.INVALIDATED)


def _reinstated(before: MemoryState | None, after: MemoryState) -> bool:
    return _were(before, after, Status.INVALIDATED, Status.CURRENT)


def _were(before: MemoryState | None, after: MemoryState, old: Status, new: Status) -> bool:
    return before is not None and (before.status, after.status) == (old, new)


def _amendable(state: MemoryState) -> tuple[object, ...]:
    columns = state.columns
    spans = (columns.valid_from, columns.valid_until, columns.expires_at)
    return (state.importance, state.tags, state.metadata, *spans)


_Differs = Callable[[MemoryState | None, MemoryState], bool]
_Causes = tuple[type[Event], ...]
_RULES: Final[dict[Difference, tuple[_Causes, _Differs]]] = {
    Difference.ADDED: ((Remembered,), _added),
    Difference.CORRECTED: ((Corrected, Restated), _corrected),
    Difference.AMENDED: ((Amended, Restated), _amended),
    Difference.INVALIDATED: ((Invalidated,), _invalidated),
    Difference.REINSTATED: ((Reinstated,), _reinstated),
}
