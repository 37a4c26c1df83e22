"""Folding a slice of the log as a branch sees it, against a model that copies everything."""

from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from memoriale.domain.branches import NO_LIMIT
from memoriale.domain.memory import MemoryState
from memoriale.domain.slices import current, fold_slice, on_lineage
from tests.fixtures.events import START, History

MAX_BRANCHES = 4
ACTIONS = ("remember", "remember", "correct", "amend", "invalidate", "reinstate", "fork", "deny")


@dataclass(frozen=True)
class Known:
    """What the model knows of one memory."""

    content: str
    importance: int | None
    status: str
    version: int
    index: int


Picture = dict[UUID, Known]


@dataclass
class Model:
    """
    Branches as full copies: a fork copies its parent's picture, a write changes its own branch.

    ``pictures`` holds, for each branch, the picture after each index at which it changed.
    """

    pictures: dict[UUID, list[tuple[int, Picture]]]
    forks: dict[UUID, tuple[UUID, int]] = field(default_factory=dict)

    def at(self, branch: UUID, as_of: int) -> Picture:
        own = [picture for index, picture in self.pictures[branch] if index <= as_of]
        if own:
            return own[-1]
        if branch not in self.forks:
            return {}
        parent, at = self.forks[branch]
        return self.at(parent, min(as_of, at))

    def write(self, branch: UUID, index: int, memory: UUID, known: Known) -> None:
        picture = {**self.at(branch, index), memory: known}
        self.pictures[branch].append((index, picture))


@dataclass
class Told:
    """A random history and the model of it."""

    history: History
    model: Model

    @property
    def branches(self) -> list[UUID]:
        return list(self.model.pictures)


@st.composite
def told(draw: st.DrawFn) -> Told:
    """A history over up to four branches, in which inherited memories are changed everywhere."""
    history = History()
    story = Told(history, Model({history.main: []}))
    for number, action in enumerate(draw(st.lists(st.sampled_from(ACTIONS), max_size=20))):
        branch = draw(st.sampled_from(story.branches))
        if action == "deny":
            history.denied()
        elif action == "fork":
            _fork(draw, story, branch)
        elif action == "remember":
            memory = history.remembered(f"c{number}", branch=branch, importance=0.5)
            index = history.head() - 1
            story.model.write(branch, index, memory, Known(f"c{number}", 500, "current", 1, index))
        else:
            _change(draw, story, branch, action, number)
    return story


def _fork(draw: st.DrawFn, story: Told, parent: UUID) -> None:
    if len(story.branches) == MAX_BRANCHES:
        return
    at = draw(st.integers(-1, story.history.head() - 1))
    made = story.history.forked(f"b{len(story.branches)}", parent=parent, at=at)
    story.model.pictures[made] = []
    story.model.forks[made] = (parent, at)


def _change(draw: st.DrawFn, story: Told, branch: UUID, action: str, number: int) -> None:
    known = story.model.at(branch, NO_LIMIT)
    if not known:
        return
    memory = draw(st.sampled_from(sorted(known)))
    old, history = known[memory], story.history
    content, importance, status = old.content, old.importance, old.status
    if action == "correct":
        content = f"c{number}"
        index = history.corrected(memory, content, branch=branch)
    elif action == "amend":
        importance = number
        index = history.amended(memory, branch=branch, importance=number / 1000)
    elif action == "invalidate":
        status = "invalidated"
        index = history.invalidated(memory, branch=branch)
    else:
        status = "current"
        index = history.reinstated(memory, branch=branch)
    new = Known(content, importance, status, old.version + 1, index)
    story.model.write(branch, index, memory, new)


def picture(states: dict[UUID, MemoryState]) -> Picture:
    """Folded states in the words of the model."""
    return {
        memory: Known(
            state.payload.content if state.payload else "",
            state.importance,
            state.status.value,
            state.version,
            state.index,
        )
        for memory, state in states.items()
    }


@given(told(), st.data())
def test_a_slice_folds_to_what_its_branch_would_hold_as_a_copy(
    story: Told, data: st.DataObject
) -> None:
    """On every branch and as of every index, a fold equals a branch that copied its parent."""
    events = story.history.events()
    as_of = data.draw(st.integers(-1, len(events)) | st.just(NO_LIMIT))
    for branch in story.branches:
        folded = fold_slice(events, story.history.lineage(branch, as_of))
        assert picture(folded) == story.model.at(branch, as_of)


@given(told())
def test_one_memory_s_slice_folds_like_all(story: Told) -> None:
    """Folding the events of one memory gives what folding the owner's slice gives for it."""
    events = story.history.events()
    for branch in story.branches:
        line = story.history.lineage(branch)
        everything = fold_slice(events, line)
        for memory in story.history.memories:
            own = [event for event in events if event.columns.memory_id == memory]
            alone = {memory: everything[memory]} if memory in everything else {}
            assert fold_slice(own, line) == alone


@given(told())
def test_the_events_that_a_branch_sees_are_one_history(story: Told) -> None:
    """Seen events stand in index order, and count up to the version that they fold to."""
    events = story.history.events()
    for branch in story.branches:
        line = story.history.lineage(branch)
        for memory, state in fold_slice(events, line).items():
            own = [event for event in events if event.columns.memory_id == memory]
            indices = [event.index for event in on_lineage(own, line)]
            assert indices == sorted(set(indices))
            assert (len(indices), indices[-1]) == (state.version, state.index)


@given(told())
def test_an_erased_memory_is_erased_on_every_branch(story: Told) -> None:
    """Destroying a memory's key empties it wherever it was inherited, and no other memory."""
    history = story.history
    before = {b: fold_slice(history.events(), history.lineage(b)) for b in story.branches}
    for memory in list(history.memories)[:1]:
        history.erase(memory)
        for branch in story.branches:
            after = fold_slice(history.events(), history.lineage(branch))
            assert after.keys() == before[branch].keys()
            for other, state in after.items():
                gone = other == memory
                assert (state.status == "erased", state.payload is None) == (gone, gone)


def content(history: History, memory: UUID, branch: UUID, as_of: int = NO_LIMIT) -> str | None:
    """A memory's content as a branch sees it."""
    state = fold_slice(history.events(), history.lineage(branch, as_of)).get(memory)
    return None if state is None or state.payload is None else state.payload.content


def test_later_events_of_the_parent_are_not_seen() -> None:
    """A branch sees neither what its parent did after the fork nor what it overrode itself."""
    history = History()
    memory = history.remembered("first")
    child = history.forked("child")
    history.corrected(memory, "parent's")
    assert content(history, memory, history.main) == "parent's"
    assert content(history, memory, child) == "first"
    history.corrected(memory, "child's", branch=child)
    history.corrected(memory, "parent's second")
    assert content(history, memory, history.main) == "parent's second"
    assert content(history, memory, child) == "child's"
    assert content(history, memory, child, history.head() - 3) == "first"


def test_what_a_branch_continues_is_a_ceiling_for_its_ancestors() -> None:
    """Even where its fork lies ahead, a branch sees nothing that came after what it continues."""
    history = History()
    memory = history.remembered("first")
    child = history.forked("child", at=100)
    history.corrected(memory, "second")
    assert content(history, memory, child) == "second"
    history.amended(memory, branch=child, importance=0.9)
    history.amended(memory, branch=child, importance=0.8)
    history.corrected(memory, "third")
    state = fold_slice(history.events(), history.lineage(child))[memory]
    assert content(history, memory, child) == "second"
    assert (state.importance, state.version) == (800, 4)


def test_a_grandchild_sees_no_more_than_its_parent_did() -> None:
    """What a branch does not see of its parent, a branch of it does not see either."""
    history = History()
    memory = history.remembered("first")
    history.corrected(memory, "second")
    child = history.forked("child", at=0)
    grandchild = history.forked("grandchild", parent=child)
    history.amended(memory, branch=grandchild, importance=0.9)
    state = fold_slice(history.events(), history.lineage(grandchild))[memory]
    assert content(history, memory, grandchild) == "first"
    assert (state.importance, state.version) == (900, 2)


def test_current_memories_are_valid_unexpired_and_in_order() -> None:
    """Current are the memories neither ended nor expired that are true at the time asked for."""
    history, day = History(), timedelta(days=1)
    kept = history.remembered("kept")
    gone = history.remembered("gone")
    history.remembered("expired", expires_at=START + day)
    history.remembered("not yet", valid_from=START + 9 * day)
    past = history.remembered("past", valid_until=START + 2 * day)
    history.corrected(kept, "kept, corrected")
    history.invalidated(gone)
    states = fold_slice(history.events(), history.lineage())
    now = START + 3 * day
    assert [s.memory_id for s in current(states, now, now)] == [kept]
    assert [s.memory_id for s in current(states, now, START + day)] == [kept, past]


def test_events_that_are_no_memory_s_fold_to_nothing() -> None:
    """Forks and refusals in a slice are no memories."""
    history = History()
    history.denied()
    history.forked("b")
    assert fold_slice(history.events(), history.lineage()) == {}
