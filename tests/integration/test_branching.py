"""Branches copy nothing, keep to their owner, and see their parent up to where they left it."""

from collections.abc import Callable

import pytest

from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.domain.errors import InputError, MissingRightError, RefusedError
from memoriale.domain.principal import ALL_RIGHTS, Right


def contents(memory: Memory) -> list[str | None]:
    return [record.content for record in memory.list().memories]


def test_a_fork_is_one_event(alice: Memory, shared_ledger: Ledger, tenant: str) -> None:
    """However much the parent holds, forking appends one event and nothing else."""
    for number in range(20):
        alice.remember(f"note {number}")
    log = shared_ledger.tenant(tenant).log
    before = log.head()
    branch = alice.fork("copy")
    assert log.head() == before + 1
    assert contents(branch) == contents(alice)


def test_a_branch_sees_its_parent_up_to_the_fork(alice: Memory) -> None:
    """What happens on either side after the fork is not seen from the other."""
    kept = alice.remember("kept")
    ended = alice.remember("ended later")
    branch = alice.fork("side")
    alice.invalidate(ended.memory_id)
    alice.remember("later")
    branch.correct(kept.memory_id, "changed on the side")
    branch.remember("side only")
    assert contents(alice) == ["kept", "later"]
    assert contents(branch) == ["changed on the side", "ended later", "side only"]


def test_a_fork_from_a_point_inside_an_append_takes_the_whole_append(alice: Memory) -> None:
    """The index is rounded up, so a branch never sees half of an append."""
    alice.remember("e-mail", kind="fact", subject="contact")
    new = alice.remember("phone", kind="fact", subject="contact")
    branch = alice.fork("then", at=new.index)
    (info,) = [b for b in alice.branches() if b.name == "then"]
    assert info.at == new.index + 1
    assert contents(branch) == ["phone"]


def test_branches_of_branches_follow_the_lineage(alice: Memory) -> None:
    """Three deep, each level overrides what it changed and inherits the rest."""
    memory_id = alice.remember("root").memory_id
    handle = alice
    for depth in range(3):
        handle = handle.fork(f"level {depth}")
        handle.correct(memory_id, f"changed at {depth}")
    assert [contents(alice.branch(f"level {d}")) for d in range(3)] == [
        ["changed at 0"],
        ["changed at 1"],
        ["changed at 2"],
    ]
    assert [h.content for h in handle.recall("changed")] == ["changed at 2"]


def test_writes_on_different_branches_do_not_conflict(alice: Memory) -> None:
    """Versions are counted per branch."""
    memory_id = alice.remember("root").memory_id
    one, two = alice.fork("one"), alice.fork("two")
    for number in range(3):
        for handle in (alice, one, two):
            handle.correct(memory_id, f"{handle.branch_name} {number}")
    assert [contents(h) for h in (alice, one, two)] == [["main 2"], ["one 2"], ["two 2"]]


def test_a_name_belongs_to_its_owner_for_ever(as_user: Callable[[str], Memory]) -> None:
    """Two owners may use one name; one owner may not use it twice, nor ``main``."""
    as_user("alice").fork("draft")
    as_user("bob").fork("draft")
    for name in ("draft", "main"):
        with pytest.raises(InputError) as refused:
            as_user("alice").fork(name)
        assert refused.value.code == "taken"


def test_another_owners_branch_is_unknown(as_user: Callable[[str], Memory]) -> None:
    """A branch of one owner does not exist for others, and the error lists none of them."""
    as_user("alice").fork("private")
    with pytest.raises(InputError) as refused:
        as_user("bob").branch("private")
    assert refused.value.code == "unknown_branch"
    assert "private" not in (refused.value.allowed or [])


def test_a_branch_of_one_owner_takes_no_others_memories(shared_ledger: Ledger, tenant: str) -> None:
    """On a branch of a user a memory of the agent is refused."""
    both = shared_ledger.memory(tenant=tenant, user="alice", agent="support")
    branch = both.fork("alice only")
    with pytest.raises(RefusedError) as refused:
        branch.remember("of the agent", owner="agent")
    assert refused.value.code == "wrong_branch"


def test_a_fork_of_the_whole_tenant_needs_review(shared_ledger: Ledger, tenant: str) -> None:
    """It holds everybody's memories, each still visible to its own owner alone."""
    shared_ledger.memory(tenant=tenant, user="alice").remember("hers")
    shared_ledger.memory(tenant=tenant, user="bob").remember("his")
    lacking = shared_ledger.memory(tenant=tenant, rights=ALL_RIGHTS - {Right.REVIEW})
    with pytest.raises(MissingRightError):
        lacking.fork("what-if")
    shared_ledger.memory(tenant=tenant).fork("what-if")
    assert contents(shared_ledger.memory(tenant=tenant, user="bob", branch="what-if")) == ["his"]


def test_a_child_owner_inherits_up_to_the_fork(shared_ledger: Ledger, tenant: str) -> None:
    """A fork for another resource shows it the parent's memories of then beside its own, and the
    parent sees none of the child's."""
    parent = shared_ledger.memory(tenant=tenant, resource="parent")
    parent.remember("inherited")
    child = parent.fork("for the child", resource="child")
    parent.remember("after the fork")
    child.remember("the child's own")
    assert contents(child) == ["inherited", "the child's own"]
    again = shared_ledger.memory(tenant=tenant, resource="child", branch="for the child")
    assert contents(again) == ["inherited", "the child's own"]
    assert contents(parent) == ["inherited", "after the fork"]
    with pytest.raises(InputError):
        parent.branch("for the child")


def test_a_branch_of_two_is_followed_by_the_one_whose_it_is(
    shared_ledger: Ledger, tenant: str
) -> None:
    """Forked by a user with an agent from the agent's branch, it is the user's: the user alone
    uses it, without the agent's memories and without the name of the agent's branch."""
    bot = shared_ledger.memory(tenant=tenant, agent="bot")
    bot.remember("of the bot")
    bot.fork("bots").remember("of the bot on its branch")
    both = shared_ledger.memory(tenant=tenant, user="alice", agent="bot", branch="bots")
    assert contents(both.fork("ours")) == ["of the bot", "of the bot on its branch"]
    alone = shared_ledger.memory(tenant=tenant, user="alice", branch="ours")
    assert contents(alone) == []
    alone.remember("of alice")
    assert contents(alone) == ["of alice"]
    assert [hit.content for hit in alone.recall("of the bot")] == ["of alice"]
    assert len(alone.diff("main", "ours").added) == 1
    assert [node.branch for node in alone.tree()] == ["main", "ours"]
    with pytest.raises(InputError, match="unknown branch 'ours'"):
        shared_ledger.memory(tenant=tenant, agent="bot", branch="ours").list()
