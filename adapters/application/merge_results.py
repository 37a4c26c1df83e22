"""What a merge did or why it did not, as its caller may see it."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from memoriale.adapters.application.merging import Outcome
from memoriale.adapters.application.presenting import as_json
from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.domain.access import AccessScope
from memoriale.domain.events import RecordedEvent
from memoriale.domain.keys import Subject
from memoriale.domain.memory import MemoryState, Status
from memoriale.domain.merging import Meeting, Prefer, Unit, amendable, spoken

_KINDS_OF_CHANGE: Final = ("added", "corrected", "amended", "invalidated", "reinstated")


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeSide:
    """
    A memory as one side of a conflict has it.

    Args:
        memory_id: Which.
        status: Whether it is current there.
        content: Its content there; None if it is not current.
        index: Index of the last event there that the other side does not know.
        recorded_at: When that was recorded.
        actor: Who did it; None if the name was erased.
        reason: Why, as given.
    """

    memory_id: UUID
    status: str
    content: str | None
    index: int
    recorded_at: datetime
    actor: Subject | None
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeConflict:
    """
    Changes of both sides that clash: of one memory, or of one aspect or key of an owner.

    Args:
        kind: The kind of memory.
        subject: The aspect or key that they are about; None where it is one memory alone.
        child: What the branch changed; what the caller may not see is left out, here and below.
        parent: What the other side changed.
        hidden: How many changes the caller may not see.
    """

    kind: str
    subject: str | None
    child: tuple[MergeSide, ...]
    parent: tuple[MergeSide, ...]
    hidden: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeResult:
    """
    What became of a merge.

    Args:
        status: ``merged``; ``unchanged``: there was nothing to take over; ``conflict``: nothing
            more was stored, see ``conflicts``; ``proposed``: ``proposal`` waits for approval.
        child: Name of the branch that was merged.
        into: Name of the branch that it was merged into; its id where that is another owner's.
        prefer: Who wins where both changed the same.
        index: Index of the last event stored; None when nothing was.
        recorded_at: When that was.
        appends: How many appends hold it; more than one where it has over 1,000 events.
        added, corrected, amended, invalidated, reinstated: How many memories on ``into``.
        memory_ids: Their ids there, of those that the caller may see.
        conflicts: What clashed: undecided, or decided for the preferred side.
        proposal: What to approve it by.
    """

    status: str
    child: str
    into: str
    prefer: str
    index: int | None
    recorded_at: datetime | None
    appends: int
    added: int
    corrected: int
    amended: int
    invalidated: int
    reinstated: int
    memory_ids: tuple[UUID, ...]
    conflicts: tuple[MergeConflict, ...]
    proposal: UUID | None

    def as_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {f.name: as_json(getattr(self, f.name)) for f in fields(self)}


def merge_result(
    log: TenantLog, scope: AccessScope, outcome: Outcome, child: str, into: str, prefer: Prefer
) -> MergeResult:
    """
    An outcome for its caller.

    Args:
        log: The memory log.
        scope: What the caller may see on the branch.
        outcome: What became of the merge.
        child: What the caller calls the branch.
        into: What it calls the other one.
        prefer: Who won.
    """
    taken = [meeting for unit in outcome.taken for meeting in unit.changes]
    kinds = [kind for meeting in taken for kind in _changes(meeting)]
    decided = [*outcome.left, *(unit for unit in outcome.taken if unit.against)]
    seen = [m.target for m in taken if m.child is not None and scope.allows(m.child.columns)]
    return MergeResult(
        status=_status(outcome),
        child=child,
        into=into,
        prefer=prefer.value,
        index=outcome.index,
        recorded_at=outcome.recorded_at,
        appends=outcome.appends,
        **{kind: kinds.count(kind) for kind in _KINDS_OF_CHANGE},
        memory_ids=tuple(seen),
        conflicts=_conflicts(log, scope, outcome.clashes or decided),
        proposal=outcome.proposal,
    )


def _status(outcome: Outcome) -> str:
    if outcome.clashes:
        return "conflict"
    if outcome.proposal is not None:
        return "proposed"
    return "unchanged" if outcome.index is None else "merged"


def _changes(meeting: Meeting) -> list[str]:
    child, parent = meeting.child, meeting.parent
    assert child is not None
    if parent is None:
        return ["added"] if child.status is Status.CURRENT else []
    found = []
    if child.payload != parent.payload:
        found.append("corrected")
    if amendable(child) != amendable(parent):
        found.append("amended")
    if child.status is not parent.status:
        found.append("reinstated" if child.status is Status.CURRENT else "invalidated")
    return found


def _conflicts(
    log: TenantLog, scope: AccessScope, clashing: Iterable[Unit]
) -> tuple[MergeConflict, ...]:
    found = []
    for unit in clashing:
        below = [(m, m.child, m.child_event) for m in unit.changes]
        above = [(m, m.parent, m.parent_event) for m in unit.against]
        actors = log.identities.names([e.columns.actor for _, _, e in (*below, *above) if e])
        shown = [_sides(side, scope, actors) for side in (below, above)]
        first = unit.changes[0].child
        assert first is not None
        found.append(
            MergeConflict(
                kind=first.kind,
                subject=_subject(unit, scope),
                child=shown[0],
                parent=shown[1],
                hidden=len(below) + len(above) - len(shown[0]) - len(shown[1]),
            )
        )
    return tuple(found)


def _subject(unit: Unit, scope: AccessScope) -> str | None:
    """What both sides are about, where the caller may see it."""
    states = [m.child for m in unit.changes] + [m.parent for m in unit.against]
    seen = (state for state in states if state is not None and scope.allows(state.columns))
    return next((text for state in seen if (text := spoken(state)) is not None), None)


def _sides(
    side: Iterable[tuple[Meeting, MemoryState | None, RecordedEvent | None]],
    scope: AccessScope,
    actors: dict[UUID, Subject],
) -> tuple[MergeSide, ...]:
    found = []
    for meeting, state, event in side:
        if state is None or event is None or not scope.allows(state.columns):
            continue
        current = state.status is Status.CURRENT and state.payload is not None
        found.append(
            MergeSide(
                memory_id=meeting.target,
                status=state.status.value,
                content=state.payload.content if current and state.payload else None,
                index=event.index,
                recorded_at=event.recorded.recorded_at,
                actor=actors.get(event.columns.actor),
                reason=None if event.event.body is None else event.event.body.reason,
            )
        )
    return tuple(found)
