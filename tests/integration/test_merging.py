"""Merging: what a branch changed becomes the parent's, once, and never over a change unseen."""

from collections.abc import Callable
from typing import Any

import pytest

from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.domain.errors import InputError, MissingRightError
from memoriale.domain.principal import ALL_RIGHTS, Right


def contents(memory: Memory, **given: Any) -> list[str | None]:
    return [record.content for record in memory.list(limit=1000, **given).memories]


def head(memory: Memory) -> int:
    return memory.services.log.head()


def rebuilt_equal(ledger: Ledger, tenant: str) -> bool:
    return all(report.equal for report in ledger.replay(tenant=tenant, verify=True))


def test_a_merge_takes_over_every_kind_of_change(
    alice: Memory, shared_ledger: Ledger, tenant: str
) -> None:
    """Added, corrected, amended, ended and reinstated memories are on the parent as the branch
    has them, under the same ids, and every view equals its rebuild."""
    wrong, plain, stale, ended = (alice.remember(f"on main {n}").memory_id for n in range(4))
    alice.invalidate(ended)
    side = alice.fork("side")
    new = side.remember("new", tags=["x"], importance=0.7, metadata={"a": 1}).memory_id
    side.correct(new, "new and better", reason="second thought")
    side.correct(wrong, "right")
    side.amend(plain, importance=0.9, tags=["y"])
    side.invalidate(stale, because="contradicted", reason="not so")
    side.reinstate(ended)
    gone = side.remember("made and ended").memory_id
    side.invalidate(gone)
    result = alice.merge("side")
    assert (result.status, result.into, result.appends) == ("merged", "main", 1)
    counts = (result.added, result.corrected, result.amended, result.invalidated, result.reinstated)
    assert counts == (1, 1, 1, 1, 1)
    assert set(result.memory_ids) == {new, wrong, plain, stale, ended}
    assert sorted(filter(None, contents(alice))) == sorted(filter(None, contents(side)))
    shown = alice.show(new)
    assert (shown.content, shown.importance, shown.metadata) == ("new and better", 0.7, {"a": 1})
    assert alice.show(plain).tags == ("y",)
    assert alice.show(stale).reason_code == "contradicted"
    with pytest.raises(InputError):
        alice.show(gone)
    assert [h.memory_id for h in alice.recall("new and better", top_k=1)] == [new]
    assert rebuilt_equal(shared_ledger, tenant)


def test_what_is_merged_names_the_event_that_it_follows(alice: Memory) -> None:
    """Each event on the parent is caused by the branch's own event and gives its reason; one
    append holds them all."""
    memory_id = alice.remember("wrong").memory_id
    side = alice.fork("side")
    receipt = side.correct(memory_id, "right", reason="said so", actor="bob")
    result = alice.merge("side", reason="looked at it")
    last = alice.history(memory_id)[-1]
    assert (last.causation_id, last.reason, last.branch) == (receipt.event_id, "said so", "main")
    rows = alice.services.log.reader.rows(after=receipt.index)
    assert [row.columns.topic for row in rows] == ["branch.merged", "memory.corrected"]
    assert {row.recorded.append_last for row in rows} == {result.index}
    assert {row.columns.correlation_id for row in rows} == {last.correlation_id}


def test_merging_twice_stores_nothing_twice(alice: Memory) -> None:
    """A second merge stores nothing; a third takes over only what is new on the branch."""
    side = alice.fork("side")
    side.remember("one")
    alice.merge("side")
    before = head(alice)
    assert alice.merge("side").status == "unchanged"
    assert head(alice) == before
    two = side.remember("two").memory_id
    again = alice.merge("side")
    assert (again.memory_ids, contents(alice)) == ((two,), ["one", "two"])


def test_an_empty_branch_merges_to_nothing(alice: Memory) -> None:
    """A branch that changed nothing leaves the log as it is."""
    alice.remember("kept")
    alice.fork("side")
    before = head(alice)
    assert alice.merge("side").status == "unchanged"
    assert head(alice) == before


def test_a_conflict_stores_nothing_and_tells_both_sides(alice: Memory) -> None:
    """Both sides changed one memory: nothing of the branch is merged, not even what does not
    clash, and the report holds both contents."""
    both = alice.remember("at the fork").memory_id
    side = alice.fork("side")
    side.correct(both, "the branch's", reason="b")
    side.remember("harmless")
    alice.correct(both, "the parent's", reason="p")
    before = head(alice)
    result = alice.merge("side")
    assert (result.status, result.index, head(alice)) == ("conflict", None, before)
    (conflict,) = result.conflicts
    (child,), (parent,) = conflict.child, conflict.parent
    assert (child.memory_id, child.content, child.reason) == (both, "the branch's", "b")
    assert (parent.memory_id, parent.content, parent.reason) == (both, "the parent's", "p")
    assert contents(alice) == ["the parent's"]


@pytest.mark.parametrize(
    ("prefer", "expected"),
    [("parent", ["the parent's", "harmless"]), ("child", ["the branch's", "harmless"])],
)
def test_the_preferred_side_wins(alice: Memory, prefer: str, expected: list[str]) -> None:
    """With a preference the merge goes through, reports the conflict, and is not asked again."""
    both = alice.remember("at the fork").memory_id
    side = alice.fork("side")
    side.correct(both, "the branch's")
    side.remember("harmless")
    alice.correct(both, "the parent's")
    result = alice.merge("side", prefer=prefer)
    assert result.status == "merged"
    assert len(result.conflicts) == 1
    assert contents(alice) == expected
    before = head(alice)
    assert alice.merge("side").status == "unchanged"
    assert head(alice) == before


@pytest.mark.parametrize("parent_ends", [True, False])
def test_one_side_ends_what_the_other_corrects(alice: Memory, parent_ends: bool) -> None:
    """Ending and correcting one memory clash; the branch's outcome stands if it is preferred."""
    both = alice.remember("at the fork").memory_id
    side = alice.fork("side")
    ending, correcting = (alice, side) if parent_ends else (side, alice)
    ending.invalidate(both)
    correcting.correct(both, "corrected")
    assert alice.merge("side").status == "conflict"
    alice.merge("side", prefer="child")
    assert contents(alice) == (["corrected"] if parent_ends else [])


def test_two_facts_of_one_subject_clash(alice: Memory, shared_ledger: Ledger, tenant: str) -> None:
    """Both sides said something new of one subject: a conflict, and never two current facts."""
    alice.remember("e-mail", kind="fact", subject="contact")
    side = alice.fork("side")
    side.remember("phone", kind="fact", subject="contact")
    alice.remember("letter", kind="fact", subject="contact")
    result = alice.merge("side")
    (conflict,) = result.conflicts
    assert (result.status, conflict.subject, conflict.kind) == ("conflict", "contact", "fact")
    assert {s.content for s in conflict.child} == {"phone"}
    assert "letter" in {s.content for s in conflict.parent}
    alice.merge("side", prefer="child")
    assert contents(alice) == ["phone"]
    assert rebuilt_equal(shared_ledger, tenant)


def test_the_parents_fact_stays_when_it_is_preferred(alice: Memory) -> None:
    """The branch's fact of that subject stays on the branch; other subjects are merged."""
    side = alice.fork("side")
    side.remember("phone", kind="fact", subject="contact")
    side.remember("tea", kind="fact", subject="drink")
    alice.remember("letter", kind="fact", subject="contact")
    alice.merge("side", prefer="parent")
    assert contents(alice) == ["letter", "tea"]
    assert contents(side) == ["phone", "tea"]


def test_the_same_change_on_both_sides_is_no_conflict(alice: Memory) -> None:
    """Where both sides ended up alike there is nothing to decide and nothing to store."""
    memory_id = alice.remember("at the fork").memory_id
    side = alice.fork("side")
    for handle in (alice, side):
        handle.correct(memory_id, "both say so")
    assert alice.merge("side").status == "unchanged"


def test_the_parent_moves_on_after_a_merge(alice: Memory) -> None:
    """A change of the parent after a merge clashes with one of the branch after it."""
    memory_id = alice.remember("at the fork").memory_id
    side = alice.fork("side")
    side.correct(memory_id, "first")
    alice.merge("side")
    side.correct(memory_id, "second")
    assert alice.merge("side").status == "merged"
    assert contents(alice) == ["second"]
    alice.correct(memory_id, "the parent's")
    assert alice.merge("side").status == "unchanged"
    side.correct(memory_id, "third")
    assert alice.merge("side").status == "conflict"
    assert contents(alice) == ["the parent's"]


def test_a_branch_of_a_branch_merges_into_either(alice: Memory) -> None:
    """Into the one that it left, or further up with what that one had given it; into a branch
    that it does not come from it cannot be merged."""
    one = alice.fork("one")
    first = one.remember("on one").memory_id
    two = one.fork("two")
    two.correct(first, "corrected on two")
    two.remember("on two")
    alice.fork("other")
    assert alice.merge("two").into == "one"
    assert contents(one) == ["corrected on two", "on two"]
    alice.merge("two", into="main")
    assert contents(alice) == ["corrected on two", "on two"]
    alice.merge("one")
    assert contents(alice) == ["corrected on two", "on two"]
    with pytest.raises(InputError) as refused:
        alice.merge("two", into="other")
    assert (refused.value.code, refused.value.allowed) == ("not_an_ancestor", ["one", "main"])


def test_siblings_clash_with_each_other(alice: Memory) -> None:
    """What one branch merged is for another one a change of the parent that it never saw."""
    memory_id = alice.remember("at the fork").memory_id
    one, two = alice.fork("one"), alice.fork("two")
    one.correct(memory_id, "one's")
    two.correct(memory_id, "two's")
    alice.merge("one")
    assert alice.merge("two").status == "conflict"
    assert contents(alice) == ["one's"]


def test_as_of_and_forks_before_a_merge_do_not_see_it(alice: Memory) -> None:
    """The parent as of a point before the merge, and a branch that left before, are as they
    were; one that leaves afterwards has it."""
    before = alice.remember("root").index
    side, early = alice.fork("side"), alice.fork("early")
    side.remember("merged")
    alice.merge("side")
    assert contents(alice, as_of=before) == ["root"]
    assert contents(early) == ["root"]
    assert contents(alice.fork("late")) == ["root", "merged"]


def test_a_merge_needs_review_and_a_proposal_does_not(shared_ledger: Ledger, tenant: str) -> None:
    """Without ``review`` merging is refused; what was proposed is carried out by who has it,
    once, and without what the branch changed afterwards."""
    alice = shared_ledger.memory(tenant=tenant, user="alice", rights=ALL_RIGHTS - {Right.REVIEW})
    reviewer = shared_ledger.memory(tenant=tenant, user="rose")
    side = alice.fork("side")
    side.remember("proposed")
    with pytest.raises(MissingRightError):
        alice.merge("side")
    proposed = alice.merge("side", propose=True)
    assert (proposed.status, contents(alice)) == ("proposed", [])
    assert proposed.proposal is not None
    side.remember("later")
    with pytest.raises(MissingRightError):
        alice.approve(proposed.proposal)
    approved = reviewer.approve(str(proposed.proposal))
    assert (approved.status, approved.memory_ids) == ("merged", ())
    assert contents(alice) == ["proposed"]
    before = head(alice)
    assert reviewer.approve(proposed.proposal).status == "unchanged"
    assert head(alice) == before
    (branch,) = [b for b in alice.branches() if b.name == "side"]
    assert [p.approved for p in branch.proposals] == [True]


@pytest.mark.parametrize("prefer", ["none", "child"])
def test_an_approval_reports_what_clashes_since(alice: Memory, prefer: str) -> None:
    """A change of the parent after the proposal was not known to who proposed: whatever was
    preferred, it is reported and nothing is stored."""
    memory_id = alice.remember("at the fork").memory_id
    side = alice.fork("side")
    side.correct(memory_id, "the branch's")
    proposal = alice.merge("side", propose=True, prefer=prefer).proposal
    assert proposal is not None
    alice.correct(memory_id, "since")
    before = head(alice)
    result = alice.approve(proposal)
    assert (result.status, len(result.conflicts), head(alice)) == ("conflict", 1, before)


def test_a_proposal_with_a_conflict_is_not_stored(alice: Memory) -> None:
    """Nobody is asked to approve what cannot be carried out; an unknown proposal is an error."""
    memory_id = alice.remember("at the fork").memory_id
    side = alice.fork("side")
    side.correct(memory_id, "the branch's")
    alice.correct(memory_id, "the parent's")
    before = head(alice)
    assert alice.merge("side", propose=True).status == "conflict"
    assert head(alice) == before
    with pytest.raises(InputError) as refused:
        alice.approve(memory_id)
    assert refused.value.code == "unknown_proposal"


def test_what_another_resource_made_becomes_the_parents(shared_ledger: Ledger, tenant: str) -> None:
    """A branch that left for another resource is merged by the parent under its name: the
    child's memories become the parent's, under new ids, and the child keeps its own."""
    parent = shared_ledger.memory(tenant=tenant, resource="parent")
    old = parent.remember("inherited").memory_id
    child = parent.fork("task", resource="child")
    made = child.remember("found out", kind="semantic").memory_id
    child.correct(old, "inherited and corrected")
    result = parent.merge("task")
    assert (result.status, result.added, result.corrected) == ("merged", 1, 1)
    assert contents(parent) == ["inherited and corrected", "found out"]
    (theirs,) = [r for r in parent.list().memories if r.content == "found out"]
    assert theirs.memory_id != made
    assert theirs.owner is not None
    assert theirs.owner.id == "parent"
    assert [h.memory_id for h in parent.recall("found out", top_k=1)] == [theirs.memory_id]
    child.correct(made, "found out more")
    parent.merge("task")
    assert parent.show(theirs.memory_id).content == "found out more"
    assert contents(child) == ["inherited and corrected", "found out more"]
    assert rebuilt_equal(shared_ledger, tenant)


def test_keys_of_working_memory_merge_as_keys(shared_ledger: Ledger, tenant: str) -> None:
    """What a child set replaces the parent's value of the key; a key that both set clashes by its
    name; bookkeeping is of one branch alone and stays there."""
    parent = shared_ledger.memory(tenant=tenant, resource="parent")
    parent.working.set("plan", "of the parent")
    parent.working.set("both", 1)
    parent.working.set("gone", True)
    child = parent.fork("task", resource="child")
    child.working.set("plan", "of the child")
    child.working.set("both", 2)
    child.working.set("new", [])
    child.working.set("__checkpoint", "child's")
    child.working.delete("gone")
    parent.working.set("both", 3)
    result = parent.merge("task")
    assert [(c.kind, c.subject) for c in result.conflicts] == [("working", "both")]
    parent.merge("task", prefer="child")
    assert dict(parent.working.list()) == {"both": 2, "new": [], "plan": "of the child"}
    assert parent.working.get("__checkpoint") is None
    again = parent.merge("task")
    assert again.status == "unchanged"
    child.working.set("both", 4)
    parent.merge("task")
    assert parent.working.get("both") == 4


def test_another_owners_branch_takes_operate(shared_ledger: Ledger, tenant: str) -> None:
    """Where memories get another owner the right ``operate`` is needed beside ``review``."""
    shared_ledger.memory(tenant=tenant, resource="parent").fork("task", resource="child")
    for whose in ("parent", "child"):
        lacking = shared_ledger.memory(
            tenant=tenant, resource=whose, rights=ALL_RIGHTS - {Right.OPERATE}
        )
        with pytest.raises(MissingRightError):
            lacking.merge("task")


def test_two_childrens_branches_of_one_name_are_told_apart_by_id(
    shared_ledger: Ledger, tenant: str
) -> None:
    """A name that two children use is refused with the ids, and each id works."""
    parent = shared_ledger.memory(tenant=tenant, resource="parent")
    for name in ("one", "two"):
        parent.fork("task", resource=name).remember(f"of {name}")
    with pytest.raises(InputError) as refused:
        parent.merge("task")
    assert refused.value.code == "ambiguous"
    for branch_id in refused.value.allowed:
        assert parent.merge(branch_id).added == 1
    assert sorted(filter(None, contents(parent))) == ["of one", "of two"]


def test_a_branch_of_the_whole_tenant_merges_everybodys(
    shared_ledger: Ledger, tenant: str, as_user: Callable[[str], Memory]
) -> None:
    """Each memory stays its owner's; who merges is told of none that it may not see."""
    nobody = shared_ledger.memory(tenant=tenant)
    alices = as_user("alice").remember("at the fork").memory_id
    nobody.fork("what-if")
    for user in ("alice", "bob"):
        shared_ledger.memory(tenant=tenant, user=user, branch="what-if").remember(f"{user}'s")
    result = nobody.merge("what-if")
    assert (result.added, result.memory_ids) == (2, ())
    assert contents(as_user("alice")) == ["at the fork", "alice's"]
    assert contents(as_user("bob")) == ["bob's"]
    shared_ledger.memory(tenant=tenant, user="alice", branch="what-if").correct(alices, "secret")
    as_user("alice").correct(alices, "secret too")
    (conflict,) = nobody.merge("what-if").conflicts
    assert (conflict.child, conflict.parent, conflict.hidden) == ((), (), 2)


@pytest.mark.parametrize(
    ("name", "given", "field"),
    [
        ("main", {}, "branch"),
        ("unknown", {}, "branch"),
        ("", {}, "branch"),
        ("side", {"prefer": "mine"}, "prefer"),
        ("side", {"into": "side"}, "into"),
        ("side", {"reason": ""}, "reason"),
    ],
)
def test_bad_input_of_a_merge_stores_nothing(
    alice: Memory, name: str, given: dict[str, str], field: str
) -> None:
    """A wrong argument is named, and nothing is stored."""
    alice.fork("side").remember("x")
    before = head(alice)
    with pytest.raises(InputError) as refused:
        alice.merge(name, **given)  # type: ignore[arg-type]
    assert (refused.value.field, head(alice)) == (field, before)
