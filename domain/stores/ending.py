"""Ending memories: one, those that fit, or all of a kind."""

from collections.abc import Callable
from uuid import UUID

from memoriale.domain.events import ReasonCode
from memoriale.domain.memory import MemoryState, Status
from memoriale.domain.steps import End, Slice, Step


def end_all(
    seen: Slice,
    kind: str,
    because: ReasonCode,
    fits: Callable[[MemoryState], bool] = lambda state: True,
) -> list[Step]:
    """The end of every memory of a kind that fits and is not ended yet."""
    return [
        End(memory_id=state.memory_id, because=because)
        for state in seen.states.values()
        if state.kind == kind and state.status is Status.CURRENT and fits(state)
    ]


def end_one(
    seen: Slice, memory_id: UUID, because: ReasonCode, replaced_by: UUID | None = None
) -> list[Step]:
    """The end of one memory; nothing when it is not there or not current."""
    state = seen.states.get(memory_id)
    if state is None or state.status is not Status.CURRENT:
        return []
    return [End(memory_id=memory_id, because=because, replaced_by=replaced_by)]
