"""One fact is current for each subject of an owner, kind and branch."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from uuid import UUID

import pytest

from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.domain.errors import InputError

CONTACT = {"kind": "fact", "subject": "preference:contact"}


def test_a_fact_of_equal_subject_is_replaced_in_the_same_append(
    alice: Memory, shared_ledger: Ledger, tenant: str
) -> None:
    """The old fact ends in the append that makes the new one, and names it."""
    old = alice.remember("e-mail", **CONTACT)  # type: ignore[arg-type]
    new = alice.remember("phone", **CONTACT)  # type: ignore[arg-type]
    assert new.superseded == (old.memory_id,)
    ended = alice.show(old.memory_id)
    assert (ended.status, ended.reason_code) == ("invalidated", "superseded")
    assert ended.replaced_by == new.memory_id
    made, invalidated = shared_ledger.events(tenant=tenant, after=old.index)
    assert made.row.recorded.append_first == invalidated.row.recorded.append_first
    assert made.row.recorded.append_last == invalidated.index


def test_the_subject_is_compared_within_owner_kind_and_branch(
    as_user: Callable[[str], Memory], alice: Memory
) -> None:
    """Another owner's fact, one on another branch, and one of another subject stay."""
    kept = alice.remember("e-mail", **CONTACT)  # type: ignore[arg-type]
    as_user("bob").remember("fax", **CONTACT)  # type: ignore[arg-type]
    alice.remember("vegan", kind="fact", subject="preference:food")
    branch = alice.fork("elsewhere")
    branch.remember("pigeon", **CONTACT)  # type: ignore[arg-type]
    assert alice.show(kept.memory_id).status == "current"
    assert branch.show(kept.memory_id).status == "invalidated"


def test_writers_racing_for_a_subject_leave_one_current_fact(alice: Memory) -> None:
    """Of 16 threads that set one subject at once each succeeds, and the last append stands."""
    start = Barrier(16)

    def write(number: int) -> int:
        start.wait()
        return alice.remember(f"contact {number}", **CONTACT).index  # type: ignore[arg-type]

    with ThreadPoolExecutor(16) as pool:
        indices = list(pool.map(write, range(16)))
    page = alice.list(kinds=["fact"])
    assert len(set(indices)) == 16
    assert [record.index for record in page.memories] == [max(indices)]


def test_named_memories_are_replaced(alice: Memory) -> None:
    """``supersedes`` ends the memories that it names, whatever their subject."""
    first, second = alice.remember("one"), alice.remember("two")
    new = alice.remember("both", supersedes=[first.memory_id, str(second.memory_id)])
    assert set(new.superseded) == {first.memory_id, second.memory_id}
    assert [record.content for record in alice.list().memories] == ["both"]


@pytest.mark.parametrize("case", ["unknown", "other owner", "other kind", "ended"])
def test_only_own_current_memories_of_the_kind_can_be_replaced(
    case: str, as_user: Callable[[str], Memory], alice: Memory, shared_ledger: Ledger, tenant: str
) -> None:
    """A memory that is unknown, another's, of another kind or ended is refused, and nothing is
    stored."""
    makers: dict[str, Callable[[], UUID]] = {
        "unknown": lambda: UUID("0b0c7c1e-3d55-4f0b-9f6e-6f0f2a3f8c11"),
        "other owner": lambda: as_user("bob").remember("his").memory_id,
        "other kind": lambda: alice.remember("a fact", kind="fact").memory_id,
        "ended": lambda: alice.invalidate(alice.remember("gone").memory_id).memory_id,
    }
    target = makers[case]()
    before = shared_ledger.tenant(tenant).log.head()
    with pytest.raises(InputError):
        alice.remember("new", supersedes=[target])
    assert shared_ledger.tenant(tenant).log.head() == before


def test_reinstating_a_fact_replaces_its_successor(alice: Memory) -> None:
    """Of two facts of one subject the reinstated one is current."""
    old = alice.remember("e-mail", **CONTACT)  # type: ignore[arg-type]
    new = alice.remember("phone", **CONTACT)  # type: ignore[arg-type]
    alice.reinstate(old.memory_id, reason="a misunderstanding")
    assert alice.show(old.memory_id).status == "current"
    assert alice.show(new.memory_id).replaced_by == old.memory_id


def test_a_retry_with_the_same_key_returns_the_same_receipt(
    alice: Memory, shared_ledger: Ledger, tenant: str
) -> None:
    """The same call with the same idempotency key stores nothing and answers as the first."""
    given = {**CONTACT, "idempotency_key": "k", "tags": ["a"], "importance": 0.5}
    first = alice.remember("e-mail", **given)  # type: ignore[arg-type]
    again = alice.remember("e-mail", **given)  # type: ignore[arg-type]
    assert first.created
    assert not again.created
    assert (again.memory_id, again.index, again.leaf_hash) == (
        first.memory_id,
        first.index,
        first.leaf_hash,
    )
    assert shared_ledger.tenant(tenant).log.head() == 1


def test_a_retry_answers_as_the_first_call_whatever_happened_since(alice: Memory) -> None:
    """A fact is sent again after it was replaced, and its successor after that: the receipts are
    the first ones, although another append would now have other events."""
    first = alice.remember("e-mail", idempotency_key="1", **CONTACT)  # type: ignore[arg-type]
    second = alice.remember("phone", idempotency_key="2", **CONTACT)  # type: ignore[arg-type]
    for content, key, receipt in (("e-mail", "1", first), ("phone", "2", second)):
        again = alice.remember(content, idempotency_key=key, **CONTACT)  # type: ignore[arg-type]
        assert not again.created
        assert (again.memory_id, again.event_id, again.index) == (
            receipt.memory_id,
            receipt.event_id,
            receipt.index,
        )


def test_the_same_key_with_other_content_is_an_error(alice: Memory) -> None:
    """A key that stands for another request is refused, whatever differs in it."""
    alice.remember("e-mail", idempotency_key="k")
    for content, given in (("phone", {}), ("e-mail", {"tags": ["x"]})):
        with pytest.raises(InputError) as refused:
            alice.remember(content, idempotency_key="k", **given)  # type: ignore[arg-type]
        assert refused.value.field == "idempotency_key"


def test_the_same_key_of_two_owners_is_two_memories(as_user: Callable[[str], Memory]) -> None:
    """Idempotency is per owner, so no key tells one owner of another's."""
    one = as_user("alice").remember("same", idempotency_key="k")
    two = as_user("bob").remember("same", idempotency_key="k")
    assert one.created
    assert two.created
    assert one.memory_id != two.memory_id


def test_two_callers_with_one_key_store_one_memory(alice: Memory) -> None:
    """Eight threads that send the same request at once get the same receipt."""
    start = Barrier(8)

    def write(_: int) -> tuple[int, bool]:
        start.wait()
        receipt = alice.remember("once", idempotency_key="k")
        return receipt.index, receipt.created

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(write, range(8)))
    assert len({index for index, _ in answers}) == 1
    assert sum(created for _, created in answers) == 1
