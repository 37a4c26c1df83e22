"""Legal holds: in force from placed to released, and stronger than housekeeping."""

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoriale.domain.errors import RefusedError
from memoriale.domain.events import Body, Event, Header, ReasonCode, RecordedEvent
from memoriale.domain.guards import NoEvent
from memoriale.domain.holds import (
    HELD_REASONS,
    HoldPlaced,
    HoldReleased,
    active_holds,
    no_new_hold,
    refuse_if_held,
)
from tests.fixtures.events import ALICE, History

HOLDS = [UUID(int=n) for n in range(1, 5)]
STEPS = st.lists(st.tuples(st.sampled_from(["place", "release"]), st.sampled_from(HOLDS)))


def recorded(steps: Sequence[tuple[str, UUID]], body: Body | None = None) -> list[RecordedEvent]:
    """Events of holds, in order, each at its own index."""
    history = History()
    for _ in steps:
        history.denied()
    classes: dict[str, type[Event]] = {"place": HoldPlaced, "release": HoldReleased}
    return [
        RecordedEvent(
            classes[step](header=Header(), body=body),
            replace(at.columns, stream_id=hold, topic=classes[step].TOPIC, kind="hold"),
            at.recorded,
        )
        for (step, hold), at in zip(steps, history.events(), strict=True)
    ]


@given(STEPS)
def test_a_hold_is_in_force_from_placed_to_released(steps: list[tuple[str, UUID]]) -> None:
    """In force are the holds placed and not released since, in the order of their placing."""
    model: list[UUID] = []
    for step, hold in steps:
        if step == "place" and hold not in model:
            model.append(hold)
        elif step == "release" and hold in model:
            model.remove(hold)
    assert active_holds(recorded(steps)) == model


@given(STEPS)
def test_a_hold_whose_reason_was_erased_is_still_in_force(steps: list[tuple[str, UUID]]) -> None:
    """Holds are folded from what stands in clear, so a tombstone changes nothing."""
    assert active_holds(recorded(steps)) == active_holds(recorded(steps, Body(reason="case 7")))


def test_other_events_are_no_holds() -> None:
    """Events that are about something else neither place nor release a hold."""
    history = History()
    history.remembered("x")
    history.denied()
    assert active_holds(history.events()) == []


@pytest.mark.parametrize("reason_code", list(ReasonCode))
def test_housekeeping_is_refused_under_hold_and_people_are_not(reason_code: ReasonCode) -> None:
    """A hold forbids to prune, expire, compact and consolidate, and leaves the rest to people."""
    housekeeping = {"expired", "pruned", "compacted", "consolidated"}
    assert {reason.value for reason in HELD_REASONS} == housekeeping
    if reason_code.value not in housekeeping:
        refuse_if_held(HOLDS, reason_code)
        return
    with pytest.raises(RefusedError) as refused:
        refuse_if_held(HOLDS[:2], reason_code)
    error = refused.value
    assert (error.exit_code, error.code, error.field) == (3, "held", "because")
    assert error.value == reason_code.value
    assert all(str(hold) in str(error.as_dict()) for hold in HOLDS[:2])


@pytest.mark.parametrize("reason_code", list(ReasonCode))
def test_without_a_hold_everything_is_allowed(reason_code: ReasonCode) -> None:
    """An owner that is not under hold may be tidied up."""
    refuse_if_held([], reason_code)


def test_a_decision_is_guarded_against_a_hold_placed_meanwhile() -> None:
    """The guard refuses an append when a hold of the owner was placed after the fold."""
    assert no_new_hold(ALICE, 7) == NoEvent(topics=("hold.placed",), after=7, owner=ALICE)
