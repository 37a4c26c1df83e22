"""No operation reaches another owner or tenant, and none goes without its right."""

from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest

from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.operations.agent_memory import AgentMemory
from memoriale.adapters.library.operations.making import agent_memory
from memoriale.domain.errors import InputError, MissingRightError
from memoriale.domain.operations.scopes import Scope
from memoriale.domain.principal import ALL_RIGHTS, Right
from memoriale.domain.subscriptions import MemoryEvent
from tests.fixtures.embedded import eventually
from tests.fixtures.operations import ALICE, BOB, Make, Saying, said

SECRET = "The vault opens with swordfish"


@pytest.fixture
def secret(remembering: Make) -> UUID:
    """An item of Alice's."""
    scope: Scope = {"user_id": "alice", "agent_id": "desk", "tags": ["vault"]}
    return remembering().add(said(SECRET), scope).result(30).stored_ids[0]


@pytest.fixture
def elsewhere(shared_ledger: Ledger, tenant: str) -> Iterator[AgentMemory]:
    """The memory of another tenant, whose name begins alike."""
    with agent_memory(shared_ledger, tenant=f"{tenant}-2", llm=Saying()) as memory:
        yield memory


OTHERS: list[Scope] = [
    BOB,
    {"user_id": "bob", "agent_id": "desk", "tags": ["vault"]},
    {"agent_id": "desk"},
    {"agent_id": "alice"},
    {"tags": ["vault"]},
    {"tags": ["user:alice"]},
    {"tags": ["scope:user:alice"]},
    {"user_id": "Alice"},
    {"user_id": "alice "},
    {"user_id": "alice%"},
    {"user_id": "alice' OR '1'='1"},
    {"user_id": "bob", "tags": ["x') OR TRUE OR array_has(tags, 'x"]},
]


@pytest.mark.parametrize("scope", OTHERS, ids=str)
def test_no_other_scope_finds_what_is_somebodys(
    remembering: Make, secret: UUID, scope: Scope
) -> None:
    """Neither by its agent, its tags, nor by a name that looks like the user's; and what is added
    there changes nothing of it."""
    memory = remembering(dedup_threshold=0.01)
    assert memory.get_all(scope) == []
    assert memory.search(SECRET, scope).result(30) == ()
    memory.add(said(SECRET.upper()), scope).result(30)
    (node,) = memory.get_all(ALICE)
    assert (node.id, node.content) == (secret, SECRET)


def test_another_tenant_reaches_nothing(
    remembering: Make, elsewhere: AgentMemory, secret: UUID
) -> None:
    """Not with the same user's name, not by the id of the item, not by the events or the size."""
    told: list[Any] = []
    elsewhere.events.subscribe(told.append)
    assert elsewhere.get_all(ALICE) == []
    assert elsewhere.search(SECRET, ALICE).result(30) == ()
    assert elsewhere.delete(secret) is False
    with pytest.raises(InputError, match="no item"):
        elsewhere.update(secret, "x")
    assert (elsewhere.size.get(), told) == (0, [])
    assert [node.content for node in remembering().get_all(ALICE)] == [SECRET]


def test_a_job_of_another_tenant_is_not_found(
    shared_ledger: Ledger, remembering: Make, elsewhere: AgentMemory, tenant: str
) -> None:
    """Nor is its idempotency key."""
    first = remembering().add(said("x"), ALICE, idempotency_key="k")
    other = elsewhere.add(said("y"), ALICE, idempotency_key="k")
    assert other.job_id != first.job_id
    other.result(30)
    with pytest.raises(InputError, match="no job"):
        shared_ledger.jobs.cancel(first.job_id, tenant=f"{tenant}-2")


CALLS: dict[str, Callable[[AgentMemory], Any]] = {
    "add": lambda memory: memory.add(said("x"), ALICE),
    "search": lambda memory: memory.search("x", ALICE),
    "get_all": lambda memory: memory.get_all(ALICE),
    "update": lambda memory: memory.update(UUID(int=1), "x"),
    "delete": lambda memory: memory.delete(UUID(int=1)),
}


@pytest.mark.parametrize("name", CALLS)
def test_an_operation_needs_the_right_use_and_no_other(
    shared_ledger: Ledger, tenant: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A refused call begins nothing."""
    with agent_memory(shared_ledger, tenant=tenant, llm=Saying()) as memory:
        monkeypatch.setattr(shared_ledger, "rights", ALL_RIGHTS - {Right.USE})
        with pytest.raises(MissingRightError, match="use"):
            CALLS[name](memory)
        monkeypatch.setattr(shared_ledger, "rights", frozenset({Right.USE}))
        if name == "update":
            with pytest.raises(InputError, match="no item"):
                CALLS[name](memory)
        else:
            CALLS[name](memory)
    monkeypatch.setattr(shared_ledger, "rights", ALL_RIGHTS)
    assert len(shared_ledger.jobs.list(tenant=tenant)) == (1 if name == "add" else 0)


def test_sharing_the_events_of_all_owners_needs_audit_and_their_words_content(
    shared_ledger: Ledger, remembering: Make, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the first nothing is shared, without the second no words and no tags are."""
    told: list[MemoryEvent] = []
    with monkeypatch.context() as patched:
        patched.setattr(shared_ledger, "rights", frozenset({Right.USE}))
        with pytest.raises(MissingRightError, match="audit"):
            agent_memory(shared_ledger, tenant=tenant, llm=Saying(), shared={})
        patched.setattr(shared_ledger, "rights", frozenset({Right.USE, Right.AUDIT}))
        other = agent_memory(shared_ledger, tenant=tenant, llm=Saying(), shared={})
    with other:
        other.events.subscribe(told.append)
        remembering().add(said(SECRET), {"user_id": "alice", "tags": ["t"]}).result(30)
        assert eventually(lambda: bool(told))
    (event,) = told
    assert (event.type, event.content, event.scope_tags) == ("add", None, ("scope:user:alice",))


def test_what_was_found_is_on_record(
    shared_ledger: Ledger, remembering: Make, secret: UUID, tenant: str
) -> None:
    """An auditor can ask who was given an item, by searches and by lists."""
    memory = remembering()
    memory.search("vault", ALICE).result(30)
    memory.get_all(ALICE)
    seen = shared_ledger.access.who_saw(secret, tenant=tenant)
    commands = {access.command for access in seen}
    assert commands == {"items.search", "items.list"}
