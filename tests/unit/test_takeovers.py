"""Taking over: after its events a memory is as the branch has it."""

from dataclasses import replace
from uuid import UUID, uuid4

from hypothesis import given
from hypothesis import strategies as st

from memoriale.domain.branches import NO_LIMIT
from memoriale.domain.decisions import Stamp
from memoriale.domain.events import RecordedEvent
from memoriale.domain.memory import MemoryState, Status, project_memory
from memoriale.domain.merging import amendable
from memoriale.domain.record import Recorded
from memoriale.domain.slices import fold_slice
from memoriale.domain.takeovers import Place, decide_takeover
from tests.fixtures.events import LOG_ID, History
from tests.unit.test_diffs import change

ACTIONS = ("correct", "amend", "restate", "invalidate", "reinstate")


@st.composite
def sides(draw: st.DrawFn) -> tuple[MemoryState, MemoryState | None]:
    """One memory as a branch and its parent have it, after random changes on both."""
    history = History()
    on_main = draw(st.booleans())
    memory = history.remembered("at the fork") if on_main else None
    branch = history.forked("side", at=history.head() - 1)
    if memory is None:
        memory = history.remembered("on the branch", branch=branch)
    for number, action in enumerate(draw(st.lists(st.sampled_from(ACTIONS), max_size=8))):
        where = branch if not on_main or draw(st.booleans()) else LOG_ID
        if action == "restate":
            history.restated(memory, f"r{number}", branch=where)
        else:
            change(history, action, memory, where, number)
    found = [
        fold_slice(history.events(), history.lineage(b, NO_LIMIT)).get(memory)
        for b in (branch, LOG_ID)
    ]
    assert found[0] is not None
    return found[0], found[1]


def stamp() -> Stamp:
    return Stamp(
        actor=uuid4(), actor_kind="user", authentication="asserted", correlation_id=uuid4()
    )


def after(source: MemoryState, target: MemoryState | None) -> MemoryState | None:
    """The target once the events of the takeover have happened to it."""
    place = Place(
        memory_id=source.memory_id,
        branch=LOG_ID,
        stream_id=UUID(int=7),
        owner=source.columns.owner,
        owner_type=source.columns.owner_type,
        aspect=source.aspect,
        replaced_by=source.replaced_by,
    )
    versions = []
    for number, draft in enumerate(decide_takeover(source, target, place, stamp(), "why")):
        recorded = Recorded(
            tenant="t",
            log_id=LOG_ID,
            index=1_000 + number,
            append_first=1_000,
            append_last=1_010,
            recorded_at=source.changed_at,
            state_hash=b"",
            leaf_hash=b"",
        )
        versions.append(draft.columns.stream_version)
        target = project_memory(target, [RecordedEvent(draft.event, draft.columns, recorded)])
    assert versions == sorted(set(versions))
    return target


@given(sides())
def test_the_parent_has_it_as_the_branch_has_it(
    found: tuple[MemoryState, MemoryState | None],
) -> None:
    """Content, what can be amended, and whether it is current, are the branch's; a second
    takeover has nothing to do. What ended on both sides, or never was above, stays as it is."""
    source, target = found
    result = after(source, target)
    ended = source.status is not Status.CURRENT
    if ended and (target is None or target.status is not Status.CURRENT):
        assert result is None or result.status is not Status.CURRENT
        return
    assert result is not None
    assert (result.payload, result.status) == (source.payload, source.status)
    assert amendable(result) == amendable(source)
    assert result.memory_id == source.memory_id
    assert after(source, replace(result)) == result
