"""Branch diffs: complete, current, and limited to what the caller may see."""

from collections.abc import Callable
from uuid import UUID

import pytest

from memoriale.adapters.application.comparing import BranchDiff, DiffEntry
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.domain.errors import InputError
from memoriale.domain.keys import Subject


def ids(entries: tuple[DiffEntry, ...]) -> list[UUID]:
    return [entry.memory_id for entry in entries]


def texts(entries: tuple[DiffEntry, ...]) -> list[tuple[str | None, str | None]]:
    return [(entry.before, entry.after) for entry in entries]


def sizes(diff: BranchDiff) -> dict[str, int]:
    return {name: len(entries) for name, entries in diff.entries.items() if entries}


def test_a_diff_lists_each_difference_with_who_and_why(alice: Memory) -> None:
    """Every list holds content before and after, the index, the actor and the reason."""
    wrong, stale, plain, ended = (alice.remember(f"on main {n}").memory_id for n in range(4))
    alice.invalidate(ended)
    side = alice.fork("side")
    corrected = side.correct(wrong, "right", reason="said so", actor="bob")
    invalidated = side.invalidate(stale, because="contradicted", reason="not so")
    amended = side.amend(plain, importance=0.9, tags=["x"])
    reinstated = side.reinstate(ended, reason="it was right")
    added = side.remember("new", reason="why not")
    diff = alice.diff("main", "side")
    assert (diff.a, diff.b, diff.base) == ("main", "side", "main")
    assert diff.index == added.index
    assert texts(diff.corrected) == [("on main 0", "right")]
    assert texts(diff.invalidated) == [("on main 1", None)]
    assert texts(diff.amended) == [("on main 2", "on main 2")]
    assert texts(diff.reinstated) == [(None, "on main 3")]
    assert texts(diff.added) == [(None, "new")]
    (entry,) = diff.corrected
    assert (entry.actor, entry.reason) == (Subject("user", "bob"), "said so")
    assert (entry.index, entry.branch, entry.kind) == (corrected.index, "side", "note")
    assert (diff.invalidated[0].reason_code, diff.invalidated[0].reason) == (
        "contradicted",
        "not so",
    )
    assert diff.amended[0].changed == ("importance", "tags")
    found = [e.index for e in (diff.invalidated + diff.amended + diff.reinstated + diff.added)]
    assert found == [invalidated.index, amended.index, reinstated.index, added.index]


def test_a_diff_works_in_both_directions_and_marks_what_both_changed(alice: Memory) -> None:
    """Each direction lists the changes of its second branch alone; a memory that both sides
    changed is marked in both."""
    both, one = (alice.remember(f"on main {n}").memory_id for n in range(2))
    side = alice.fork("side")
    side.correct(both, "the side's")
    side.correct(one, "the side's too")
    alice.correct(both, "main's")
    alice.remember("later on main")
    there, back = alice.diff("main", "side"), alice.diff("side", "main")
    assert {e.memory_id: e.also_changed for e in there.corrected} == {both: True, one: False}
    assert texts(back.corrected) == [("on main 0", "main's")]
    assert back.corrected[0].also_changed
    assert texts(back.added) == [(None, "later on main")]
    assert sizes(alice.diff("side", "side")) == {}


def test_cousins_part_at_the_earlier_fork(alice: Memory) -> None:
    """Two branches of main share it up to the earlier fork; what main added between the two
    forks is a difference of the later one."""
    alice.remember("shared")
    early = alice.fork("early")
    alice.remember("between")
    late = alice.fork("late").fork("later")
    late.remember("on the leaf")
    early.remember("early's own")
    diff = alice.diff("early", "later")
    assert texts(diff.added) == [(None, "between"), (None, "on the leaf")]
    assert [e.branch for e in diff.added] == ["main", "later"]
    assert texts(alice.diff("later", "early").added) == [(None, "early's own")]


def test_a_diff_holds_what_was_written_just_before(alice: Memory) -> None:
    """It is folded from the log: no view is made or read for it."""
    side = alice.fork("side")
    side.remember("new")
    assert texts(alice.diff("main", "side").added) == [(None, "new")]
    assert not (alice.services.views_folder / "recall").exists()


def test_a_diff_as_of_an_index_ends_there(alice: Memory) -> None:
    """As of an index it lists what had been recorded by then, also before the fork."""
    memory_id = alice.remember("first").memory_id
    side = alice.fork("side")
    second = side.correct(memory_id, "second")
    side.correct(memory_id, "third")
    assert texts(alice.diff("main", "side", as_of=second.index).corrected) == [("first", "second")]
    assert sizes(alice.diff("main", "side", as_of=0)) == {}


def test_a_replaced_fact_is_invalidated_by_its_replacement(alice: Memory) -> None:
    """A fact that replaces another on the branch shows as one added and one invalidated."""
    old = alice.remember("e-mail", kind="fact", subject="contact").memory_id
    new = alice.fork("side").remember("phone", kind="fact", subject="contact").memory_id
    diff = alice.diff("main", "side")
    assert (ids(diff.added), ids(diff.invalidated)) == ([new], [old])
    assert diff.invalidated[0].replaced_by == new


def test_a_diff_shows_nothing_of_others(
    shared_ledger: Ledger, tenant: str, as_user: Callable[[str], Memory]
) -> None:
    """On a branch of the whole tenant everyone sees the changes of what they may see."""
    his = as_user("bob").remember("his").memory_id
    shared_ledger.memory(tenant=tenant).fork("what-if")
    for user in ("alice", "bob"):
        on = shared_ledger.memory(tenant=tenant, user=user, branch="what-if")
        on.remember(f"of {user}")
        on.remember(f"of {user} for all", visibility="tenant")
    shared_ledger.memory(tenant=tenant, user="bob", branch="what-if").correct(his, "his, changed")
    diff = as_user("alice").diff("main", "what-if")
    assert [e.after for e in diff.added] == ["of alice", "of alice for all", "of bob for all"]
    assert diff.corrected == ()
    assert len(as_user("bob").diff("main", "what-if").corrected) == 1
    with pytest.raises(InputError) as refused:
        as_user("bob").diff("main", "nowhere")
    assert refused.value.code == "unknown_branch"


def test_a_child_sees_of_its_parent_only_what_it_inherited(
    shared_ledger: Ledger, tenant: str
) -> None:
    """What the parent owner changes after the fork is no difference that the child may see, nor
    is it marked as changed on both sides."""
    parent = shared_ledger.memory(tenant=tenant, resource="parent")
    inherited = parent.remember("inherited").memory_id
    child = parent.fork("for the child", resource="child")
    parent.correct(inherited, "changed by the parent")
    parent.remember("after the fork")
    child.remember("the child's own")
    diff = child.diff("main", "for the child")
    assert [e.after for e in diff.added] == ["the child's own"]
    assert sizes(child.diff("for the child", "main")) == {}


def test_questions_show_which_hits_differ(alice: Memory) -> None:
    """For each question: what each branch answers, what one alone finds, and what both find in
    different versions."""
    kept = alice.remember("alice drinks tea").memory_id
    gone = alice.remember("alice drinks coffee").memory_id
    side = alice.fork("side")
    side.correct(kept, "alice drinks green tea")
    side.invalidate(gone)
    new = side.remember("alice drinks water").memory_id
    diff = alice.diff("main", "side", questions=["what alice drinks", "who drinks green tea"])
    first, second = diff.questions
    assert (first.question, second.question) == ("what alice drinks", "who drinks green tea")
    assert (first.only_a, first.only_b, first.changed) == ((gone,), (new,), (kept,))
    assert {hit.content for hit in first.hits_b} == {"alice drinks green tea", "alice drinks water"}
    assert first.hits_a.index == first.hits_b.index == diff.index


def test_a_diff_of_an_empty_log_is_empty(alice: Memory) -> None:
    """Nothing was recorded, so nothing differs, and questions find nothing."""
    diff = alice.diff("main", "main", questions=["anything"])
    assert (sizes(diff), diff.index, len(diff.questions[0].hits_a)) == ({}, -1, 0)


@pytest.mark.parametrize("questions", ["one text", ["fine", " "], ["x" * 20_000]])
def test_questions_that_cannot_be_asked_are_refused(alice: Memory, questions: list[str]) -> None:
    """A bare text, a blank question and one that is too long name what is wrong."""
    with pytest.raises(InputError):
        alice.diff("main", "main", questions=questions)
