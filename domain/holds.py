"""Legal holds: while one is in force on an owner, nothing of that owner is pruned or expired."""

from collections.abc import Iterable
from typing import ClassVar, Final
from uuid import UUID

from memoriale.domain.errors import RefusedError
from memoriale.domain.events import Body, Event, Header, ReasonCode, RecordedEvent
from memoriale.domain.guards import NoEvent

HOLD_KIND: Final = "hold"
HELD_REASONS: Final = frozenset(
    {ReasonCode.EXPIRED, ReasonCode.PRUNED, ReasonCode.COMPACTED, ReasonCode.CONSOLIDATED}
)
"""Reasons of housekeeping, which a hold forbids. A person may still correct or retract."""


class HoldPlaced(Event):
    """A hold begins on the event's owner; its stream is the hold."""

    TOPIC: ClassVar[str] = "hold.placed"
    header: Header
    body: Body | None


class HoldReleased(Event):
    """A hold ends."""

    TOPIC: ClassVar[str] = "hold.released"
    header: Header
    body: Body | None


HOLD_TOPICS: Final[dict[str, type[Event]]] = {cls.TOPIC: cls for cls in (HoldPlaced, HoldReleased)}
"""Provisional: this release reads holds but has no command that writes one."""


def active_holds(events: Iterable[RecordedEvent]) -> list[UUID]:
    """
    Ids of the holds in force, oldest first.

    Args:
        events: Events of kind ``hold`` of one owner, in index order.
    """
    active: dict[UUID, None] = {}
    for recorded in events:
        if isinstance(recorded.event, HoldPlaced):
            active[recorded.columns.stream_id] = None
        elif isinstance(recorded.event, HoldReleased):
            active.pop(recorded.columns.stream_id, None)
    return list(active)


def refuse_if_held(holds: list[UUID], reason_code: ReasonCode) -> None:
    """
    Refuses housekeeping of an owner under hold.

    Raises:
        RefusedError: Names the holds.
    """
    if holds and reason_code in HELD_REASONS:
        names = [str(hold) for hold in holds]
        raise RefusedError(
            f"the owner is under legal hold, so nothing may be {reason_code.value}.",
            code="held",
            field="because",
            value=reason_code.value,
            allowed=names,
        )


def no_new_hold(owner: UUID, after: int) -> NoEvent:
    """The guard for a decision that folded the owner's holds up to an index."""
    return NoEvent(topics=(HoldPlaced.TOPIC,), after=after, owner=owner)
