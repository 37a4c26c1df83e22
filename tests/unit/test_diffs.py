"""What a branch changed since it and another parted."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from memoriale.domain.branches import NO_LIMIT, Line, Lineage
from memoriale.domain.diffs import (
    Difference,
    MemoryChange,
    Stretch,
    common_lineage,
    memory_changes,
    own_stretches,
)
from memoriale.domain.events import RecordedEvent
from memoriale.domain.memory import MemoryState, Status
from memoriale.domain.slices import fold_slice
from tests.fixtures.events import History

ACTIONS = ("remember", "correct", "amend", "invalidate", "reinstate", "fork")


@st.composite
def histories(draw: st.DrawFn) -> History:
    """A history over some branches, in which inherited memories are changed everywhere."""
    history = History()
    for number, action in enumerate(draw(st.lists(st.sampled_from(ACTIONS), max_size=24))):
        branch = draw(st.sampled_from([*history.branches]))
        known = [m for m in history.memories if history.sees(m, branch)]
        if action == "fork":
            at = draw(st.integers(-1, history.head() - 1))
            history.forked(f"b{number}", parent=branch, at=at)
        elif action == "remember" or not known:
            history.remembered(f"c{number}", branch=branch)
        else:
            change(history, action, draw(st.sampled_from(known)), branch, number)
    return history


def change(history: History, action: str, memory: UUID, branch: UUID, number: int) -> None:
    if action == "correct":
        history.corrected(memory, f"c{number}", branch=branch)
    elif action == "amend":
        history.amended(memory, branch=branch, importance=number / 1000)
    elif action == "invalidate":
        history.invalidated(memory, branch=branch)
    else:
        history.reinstated(memory, branch=branch)


def changes(history: History, a: UUID, b: UUID, as_of: int = NO_LIMIT) -> list[MemoryChange]:
    lineage = history.lineage(b, as_of)
    common = common_lineage(lineage, history.lineage(a, as_of))
    return [
        found
        for memory in history.memories
        for found in memory_changes(of(history, memory), lineage, common)
    ]


def of(history: History, memory: UUID) -> list[RecordedEvent]:
    return [event for event in history.events() if event.columns.memory_id == memory]


def plain(before: MemoryState | None, after: MemoryState) -> set[Difference]:
    """The differences of two folds, told without looking at events."""
    if before is None:
        return {Difference.ADDED} if after.status is Status.CURRENT else set()
    found = set()
    if before.payload != after.payload:
        found.add(Difference.CORRECTED)
    if before.importance != after.importance:
        found.add(Difference.AMENDED)
    if before.status is not after.status:
        ended = after.status is Status.INVALIDATED
        found.add(Difference.INVALIDATED if ended else Difference.REINSTATED)
    return found


def folded(history: History, lines: Lineage) -> dict[UUID, MemoryState]:
    return fold_slice(history.events(), lines)


@given(histories(), st.data())
def test_a_diff_is_the_difference_of_two_folds(history: History, data: st.DataObject) -> None:
    """For any two branches as of any index it names what the fold of one has and that of their
    common part has not, with both states."""
    a, b = (data.draw(st.sampled_from([*history.branches])) for _ in range(2))
    as_of = data.draw(st.integers(0, history.head()) | st.just(NO_LIMIT))
    lineage = history.lineage(b, as_of)
    common = common_lineage(lineage, history.lineage(a, as_of))
    before, after = folded(history, common), folded(history, lineage)
    expected = {
        (memory, difference)
        for memory, state in after.items()
        for difference in plain(before.get(memory), state)
    }
    found = changes(history, a, b, as_of)
    assert {(c.after.memory_id, c.difference) for c in found} == expected
    assert len(found) == len(expected)
    for c in found:
        assert (c.before, c.after) == (before.get(c.after.memory_id), after[c.after.memory_id])


@given(histories(), st.data())
def test_every_change_lies_in_a_stretch(history: History, data: st.DataObject) -> None:
    """The stretches hold the event of each change, and no event that the other branch sees."""
    a, b = (data.draw(st.sampled_from([*history.branches])) for _ in range(2))
    lineage, other = history.lineage(b), history.lineage(a)
    stretches = own_stretches(lineage, common_lineage(lineage, other))
    for found in changes(history, a, b):
        assert any(holds(s, found.event.columns.branch, found.event.index) for s in stretches)
    for event in history.events():
        seen_by_a = any(
            line.branch == event.columns.branch and event.index <= line.limit for line in other
        )
        if seen_by_a and event.columns.memory_id is not None:
            assert not any(holds(s, event.columns.branch, event.index) for s in stretches)


def holds(stretch: Stretch, branch: UUID | None, index: int) -> bool:
    return stretch.branch == branch and stretch.after < index <= stretch.limit


@given(histories())
def test_a_branch_does_not_differ_from_itself(history: History) -> None:
    """Nothing is its own change."""
    for branch in history.branches:
        assert changes(history, branch, branch) == []


def test_branches_part_where_the_first_of_them_left() -> None:
    """Two forks of one branch at different points share it up to the lower point."""
    history = History()
    for number in range(4):
        history.remembered(f"c{number}")
    early, late = history.forked("early", at=1), history.forked("late", at=3)
    lineage = history.lineage(late)
    common = common_lineage(lineage, history.lineage(early))
    assert common == (Line(history.main, 1),)
    assert own_stretches(lineage, common) == (
        Stretch(late, 1, NO_LIMIT),
        Stretch(history.main, 1, 3),
    )
    added = [c.after.first_index for c in changes(history, early, late)]
    assert added == [2, 3]


def test_a_change_taken_back_is_none() -> None:
    """Content that was corrected and corrected back differs in nothing; neither does a memory
    that was made and ended since."""
    history = History()
    memory = history.remembered("first")
    side = history.forked("side")
    history.corrected(memory, "second", branch=side)
    history.corrected(memory, "first", branch=side)
    short = history.remembered("short-lived", branch=side)
    history.invalidated(short, branch=side)
    assert changes(history, history.main, side) == []


def test_one_memory_can_differ_in_several_ways() -> None:
    """A memory that was corrected, amended and ended stands in three lists, each with the last
    event that made that difference."""
    history = History()
    memory = history.remembered("first")
    side = history.forked("side")
    history.corrected(memory, "second", branch=side)
    corrected = history.corrected(memory, "third", branch=side)
    amended = history.amended(memory, branch=side, importance=0.9)
    ended = history.invalidated(memory, branch=side)
    assert {c.difference: c.event.index for c in changes(history, history.main, side)} == {
        Difference.CORRECTED: corrected,
        Difference.AMENDED: amended,
        Difference.INVALIDATED: ended,
    }


def test_what_was_erased_is_in_no_list() -> None:
    """A memory whose key was destroyed shows neither its content nor that it was changed."""
    history = History()
    memory = history.remembered("first")
    side = history.forked("side")
    history.corrected(memory, "second", branch=side)
    made = history.remembered("made on the side", branch=side)
    history.erase(memory)
    history.erase(made)
    assert changes(history, history.main, side) == []
