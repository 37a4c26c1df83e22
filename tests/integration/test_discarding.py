"""Discarding: a branch ends, and what happened on it stays."""

from collections.abc import Callable
from typing import Any

import pytest

from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.domain.errors import InputError, MissingRightError, RefusedError
from memoriale.domain.principal import ALL_RIGHTS, Right


def contents(memory: Memory, **given: Any) -> list[str | None]:
    return [record.content for record in memory.list(limit=1000, **given).memories]


def head(memory: Memory) -> int:
    return memory.services.log.head()


def rebuilt_equal(ledger: Ledger, tenant: str) -> bool:
    return all(report.equal for report in ledger.replay(tenant=tenant, verify=True))


def test_a_discarded_branch_is_history(alice: Memory, shared_ledger: Ledger, tenant: str) -> None:
    """It is not listed, takes no writes and answers no question as of now or later; as of a
    point before and in its history it stays, and its name is not used again."""
    side = alice.fork("side")
    receipt = side.remember("was here")
    ended = alice.discard("side", reason="done")
    assert ended.discarded == head(alice) - 1
    assert [b.name for b in alice.branches()] == ["main"]
    assert [b.name for b in alice.branches(discarded=True)] == ["main", "side"]
    assert [node.branch for node in alice.tree()] == ["main"]
    refused: list[Callable[[], object]] = [
        lambda: side.remember("x"),
        lambda: side.correct(receipt.memory_id, "x"),
        lambda: side.facts.add_facts(None, ["x"]),
        lambda: side.recall("was here"),
        lambda: side.recall("was here", as_of=ended.discarded),
        lambda: side.list(),
        lambda: side.facts.get_active_facts(),
        lambda: side.fork("grandchild"),
        lambda: alice.merge("side"),
        lambda: alice.discard("side"),
    ]
    for call in refused:
        with pytest.raises(RefusedError) as error:
            call()
        assert error.value.code == "discarded"
    assert [h.content for h in side.recall("was here", as_of=receipt.index)] == ["was here"]
    assert contents(side, as_of=receipt.index) == ["was here"]
    assert len(side.history(receipt.memory_id)) == 1
    with pytest.raises(InputError) as taken:
        alice.fork("side")
    assert taken.value.code == "taken"
    assert rebuilt_equal(shared_ledger, tenant)


def test_a_branch_with_children_is_not_discarded(alice: Memory) -> None:
    """Children first; then their parent goes too."""
    alice.fork("one").fork("two")
    with pytest.raises(RefusedError) as refused:
        alice.discard("one")
    assert refused.value.code == "has_children"
    alice.discard("two")
    alice.discard("one")
    assert [b.name for b in alice.branches()] == ["main"]


def test_whose_branch_may_be_discarded(shared_ledger: Ledger, tenant: str) -> None:
    """Another owner's is unknown, the tenant's takes ``review``, a child's ``operate``."""
    alice = shared_ledger.memory(tenant=tenant, user="alice")
    alice.fork("hers")
    shared_ledger.memory(tenant=tenant).fork("everybody's")
    with pytest.raises(InputError) as unknown:
        shared_ledger.memory(tenant=tenant, user="bob").discard("hers")
    assert unknown.value.code == "unknown_branch"
    rights = ALL_RIGHTS - {Right.REVIEW}
    with pytest.raises(MissingRightError):
        shared_ledger.memory(tenant=tenant, user="alice", rights=rights).discard("everybody's")
    shared_ledger.memory(tenant=tenant, resource="p").fork("task", resource="c")
    rights = ALL_RIGHTS - {Right.OPERATE}
    with pytest.raises(MissingRightError):
        shared_ledger.memory(tenant=tenant, resource="p", rights=rights).discard("task")
    shared_ledger.memory(tenant=tenant, resource="p").discard("task")


def test_what_was_merged_stays_when_the_branch_is_discarded(alice: Memory) -> None:
    """Merging and then discarding is how work on a branch ends."""
    alice.fork("side").remember("kept")
    alice.merge("side")
    alice.discard("side")
    assert contents(alice) == ["kept"]
