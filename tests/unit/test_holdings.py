"""What is kept of an owner answers as a look at all of it would, through every change."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from memoriale.domain.access import AccessScope
from memoriale.domain.holdings import Holding, Holdings
from memoriale.domain.memory import MemoryState, Status
from tests.fixtures.events import START
from tests.unit.test_memory import REMEMBERED, folded

ALICE, BOB = UUID(int=1), UUID(int=2)
SCOPES = (AccessScope(owners=frozenset({ALICE})), AccessScope(owners=frozenset({BOB})))
NOW = START + timedelta(days=10)


def a_state(
    number: int, place: int, status: Status, aspect: str | None, ends: int | None, owner: UUID
) -> MemoryState:
    """A memory that was made at a place."""
    state = folded(REMEMBERED)
    until = None if ends is None else START + timedelta(days=ends)
    columns = replace(state.columns, owner=owner, visibility="owner", valid_until=until)
    return replace(
        state,
        memory_id=UUID(int=number),
        first_index=place,
        index=place,
        status=status,
        aspect=aspect,
        columns=columns,
    )


def by_aspect(state: MemoryState) -> str | None:
    """A key that some have."""
    return state.aspect


changes = st.lists(
    st.tuples(
        st.integers(1, 8),
        st.sampled_from(Status),
        st.sampled_from(["a", "b", None]),
        st.sampled_from([None, 5, 15]),
        st.sampled_from([ALICE, BOB]),
    ),
    max_size=25,
)


@given(changes)
def test_every_answer_is_that_of_a_look_at_everything(
    steps: list[tuple[int, Status, str | None, int | None, UUID]],
) -> None:
    """Whatever changed in whatever order: current ones, groups, and what each caller sees."""
    plain: dict[UUID, MemoryState] = {}
    holding = Holding()
    for number, status, aspect, ends, owner in steps:
        known = plain.get(UUID(int=number))
        place = len(plain) if known is None else known.first_index
        state = a_state(number, place, status, aspect, ends, owner)
        before, plain_before = holding, dict(plain)
        check(before, plain_before)
        plain[state.memory_id] = state
        holding = before.changed({state.memory_id: state})
        check(holding, plain)
        check(before, plain_before)
        for scope in SCOPES:
            seen = {i: s for i, s in plain.items() if scope.allows(s.columns)}
            check(holding.visible(scope), seen)


def check(holding: Holding, plain: Mapping[UUID, MemoryState]) -> None:
    """Compares a holding with a plain mapping."""
    assert list(holding.items()) == list(plain.items())
    assert holding.current(NOW) == [
        s for s in plain.values() if s.is_current(NOW) and s.is_valid(NOW)
    ]
    groups = holding.grouped(by_aspect)
    for value in ("a", "b"):
        assert list(groups.get(value, ())) == [s for s in plain.values() if s.aspect == value]
    assert None not in groups


def test_kinds_are_one_after_the_other_by_age() -> None:
    """What is there of several kinds comes oldest first, and each is found by its id."""
    states = [a_state(n, n, Status.CURRENT, None, None, ALICE) for n in range(1, 7)]
    even = Holding({s.memory_id: s for s in states if s.first_index % 2 == 0})
    odd = Holding({s.memory_id: s for s in states if s.first_index % 2})
    both = Holdings({"even": even, "odd": odd})
    assert both.all() == both.current(NOW) == list(both.values()) == states
    assert [both[s.memory_id] for s in states] == states
    assert (len(both), UUID(int=99) in both, both.get(UUID(int=99))) == (6, False, None)
    assert both.of_kind("odd") is odd
    assert len(both.of_kind("other")) == 0
