"""Who may write global memories, and that nothing else crosses from tenant to tenant."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest

from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.stores.learnings import LearnedKnowledge
from memoriale.domain.access import GLOBAL_TENANT
from memoriale.domain.errors import InputError, MissingRightError
from memoriale.domain.events import NewEvent
from tests.fixtures.global_memories import QUESTION, for_all

CORRECTION = {
    "kind": "correction",
    "details": {"original_value": "six", "corrected_value": "seven", "scope": "agent"},
}


def test_only_admin_writes_for_all(ledger_of_all: Ledger, ann: Memory, bob: Memory) -> None:
    """Without the right nothing is stored; use and refusal stand in the caller's access log."""
    receipt = for_all(ann, "harbour lantern regulations")
    calls: list[Callable[[], object]] = [
        lambda: for_all(bob, "bob's word for all"),
        lambda: bob.correct(receipt.memory_id, "bob's word"),
        lambda: bob.amend(receipt.memory_id, importance=0.1),
        lambda: bob.invalidate(receipt.memory_id),
        lambda: LearnedKnowledge(bob).save_learning(
            {"title": "t", "content": "c", "scope": "global"}
        ),
    ]
    for call in calls:
        with pytest.raises(MissingRightError) as refused:
            call()
        assert refused.value.allowed == "admin"
    assert [a.memories for a in ledger_of_all.access.by("bob", tenant="beta", denied=True)] == [
        ()
    ] * len(calls)
    (answer,) = bob.store_many([{"content": "for all", "visibility": "global"}])
    assert isinstance(answer, MissingRightError)
    assert [hit.content for hit in bob.recall(QUESTION)] == ["harbour lantern regulations"]
    used = [
        a for a in ledger_of_all.access.by("ann", tenant="acme") if a.event == "access.right_used"
    ]
    assert [(a.command, a.details["rights"]) for a in used] == [("remember", ["admin"])]


def test_a_global_memory_changes_through_any_tenant(ledger_of_all: Ledger, ann: Memory) -> None:
    """An admin of another tenant corrects, amends, ends and reinstates it; history tells all."""
    made = for_all(ann, "the pier opens at six").memory_id
    cat = ledger_of_all.memory(tenant="gamma", user="cat")
    assert cat.correct(made, "the pier opens at seven").tenant == GLOBAL_TENANT
    cat.amend(made, tags=["pier"])
    cat.invalidate(made)
    assert cat.show(made).status == "invalidated"
    cat.reinstate(made)
    assert [e.event.rpartition(".")[2] for e in ann.history(made)] == [
        "remembered",
        "corrected",
        "amended",
        "invalidated",
        "reinstated",
    ]
    assert ann.show(made).content == "the pier opens at seven"


def test_authors_are_named_within_their_tenant_alone(ledger_of_all: Ledger, ann: Memory) -> None:
    """In history a tenant reads its own people's names and nobody else's; the log has none."""
    made = for_all(ann, "the pier opens at six").memory_id
    cat = ledger_of_all.memory(tenant="gamma", user="cat")
    cat.correct(made, "the pier opens at seven")
    seen = [[e.actor and e.actor.id for e in m.history(made)] for m in (ann, cat)]
    assert seen == [["ann", None], [None, "cat"]]
    services = ledger_of_all._tenants.get(GLOBAL_TENANT)
    rows = services.log.reader.rows(after=-1, stop=2)
    people = ("principal_user", "principal_agent", "principal_session", "on_behalf_of")
    assert {getattr(row.columns, name) for row in rows for name in people} == {None}
    names = services.log.identities.names(row.columns.actor for row in rows)
    assert all("ann" not in name.id and "cat" not in name.id for name in names.values())


def test_nothing_else_leaves_the_log_of_all(
    ledger_of_all: Ledger, ann: Memory, bob: Memory
) -> None:
    """A row of ``_global`` with another visibility is shown to nobody, however it got there."""
    kept = for_all(ann, "harbour lantern regulations").memory_id
    services = ledger_of_all._tenants.get(GLOBAL_TENANT)
    (row,) = services.log.reader.rows(after=-1, stop=1)
    (recorded,) = services.log.mapper.decode([row])
    owner = services.log.identities.tenant()
    smuggled: list[UUID] = []
    for visibility in ("tenant", "owner", "user"):
        smuggled.append(uuid4())
        columns = replace(
            recorded.columns,
            event_id=uuid4(),
            stream_id=uuid4(),
            memory_id=smuggled[-1],
            visibility=visibility,
            request_tag=None,
        )
        services.log.save([NewEvent(recorded.event, columns, (owner,))])
    assert [hit.memory_id for hit in bob.recall(QUESTION)] == [kept]
    assert [m.memory_id for m in bob.list().memories] == [kept]
    for memory_id in smuggled:
        with pytest.raises(InputError, match="no memory"):
            bob.show(memory_id)
        with pytest.raises(InputError, match="no memory"):
            ann.correct(memory_id, "changed")


def test_tenants_see_nothing_else_of_each_other(ann: Memory, bob: Memory) -> None:
    """What one tenant shows all its own callers stays there, with and without global memories."""
    for_all(ann, "harbour lantern regulations")
    inside = ann.remember("harbour lantern regulations of acme", visibility="tenant").memory_id
    assert inside not in [hit.memory_id for hit in bob.recall(QUESTION)]
    with pytest.raises(InputError, match="no memory"):
        bob.show(inside)


@pytest.mark.parametrize("name", ["_global", "_deployment"])
def test_the_reserved_tenant_is_refused_at_every_call(ledger_of_all: Ledger, name: str) -> None:
    """Nobody acts as the reserved tenant, also when its log exists."""
    for_all(ledger_of_all.memory(tenant="acme", user="ann"), "something")
    calls: list[Callable[[], object]] = [
        lambda: ledger_of_all.memory(tenant=name, user="x"),
        lambda: ledger_of_all.replay(tenant=name),
        lambda: ledger_of_all.verify(tenant=name),
        lambda: list(ledger_of_all.events(tenant=name)),
        lambda: ledger_of_all.wait(0, tenant=name),
        lambda: list(ledger_of_all.access.by(tenant=name)),
        lambda: ledger_of_all.checkpoint(tenant=name),
    ]
    for call in calls:
        with pytest.raises(InputError) as refused:
            call()
        assert refused.value.code == "reserved"


@pytest.mark.parametrize(
    ("given", "field"),
    [({"owner": "user"}, "owner"), ({"about": ["ann"]}, "about"), (CORRECTION, "kind")],
)
def test_what_a_memory_for_all_cannot_have_is_refused(
    ann: Memory, given: dict[str, Any], field: str
) -> None:
    """An owner, persons and follow-up work belong to a tenant; nothing was stored."""
    with pytest.raises(InputError) as refused:
        for_all(ann, "something", **given)
    assert refused.value.field == field
    assert ann.recall("something").global_index is None


def test_from_a_branch_nothing_is_written_for_all(ann: Memory, bob: Memory) -> None:
    """A branch sees global memories, and writes none: what is tried there would reach everyone."""
    made = for_all(ann, "harbour lantern regulations").memory_id
    trial = ann.fork("trial")
    assert [hit.memory_id for hit in trial.recall(QUESTION)] == [made]
    for call in (lambda: for_all(trial, "x"), lambda: trial.correct(made, "x")):
        with pytest.raises(InputError) as refused:
            call()
        assert refused.value.field == "branch"
    assert bob.show(made).version == 1


def test_a_retried_write_is_stored_once_and_keys_are_the_tenants(
    ledger_of_all: Ledger, ann: Memory
) -> None:
    """The same idempotency key means the same memory within a tenant, and another in another."""
    first = for_all(ann, "one", idempotency_key="k")
    again = for_all(ann, "one", idempotency_key="k")
    other = for_all(ledger_of_all.memory(tenant="gamma", user="cat"), "two", idempotency_key="k")
    assert (again.memory_id, again.created) == (first.memory_id, False)
    assert other.created
    assert other.memory_id != first.memory_id


def test_who_saw_a_global_memory_is_told_per_tenant(
    ledger_of_all: Ledger, ann: Memory, bob: Memory
) -> None:
    """Each tenant's access log says who got a global memory, marked, and what became of it."""
    made = for_all(ann, "harbour lantern regulations").memory_id
    reader = ledger_of_all.memory(tenant="beta", user="bob", session="s-1")
    own = reader.remember("harbour lantern of bob", owner="user").memory_id
    reader.recall(QUESTION)
    reader.show(made)
    seen = list(ledger_of_all.access.who_saw(made, tenant="beta"))
    assert [(a.command, a.memories[0].is_global) for a in seen] == [
        ("recall", True),
        ("show", True),
    ]
    assert seen[0].details["global_index"] == 0
    assert [a.memories[0].is_global for a in ledger_of_all.access.who_saw(own, tenant="beta")] == [
        False
    ]
    assert not list(ledger_of_all.access.who_saw(made, tenant="acme"))
    ann.correct(made, "harbour lantern regulations of June")
    told = list(ledger_of_all.access.what_was_told("s-1", tenant="beta", content=True))
    assert {(t.memory_id, t.current) for t in told} == {(made, False), (own, True)}
    assert {t.content for t in told if t.memory_id == made} == {"harbour lantern regulations"}


def test_what_a_model_extracted_is_not_for_all(ann: Memory) -> None:
    """A tool call cannot reach other tenants, whatever rights its handle has."""
    tool = next(t for t in LearnedKnowledge(ann).get_tools() if t.name == "save_learning")
    with pytest.raises(InputError) as refused:
        tool.handler({"title": "t", "content": "c", "context": "x", "scope": "global"})
    assert refused.value.field == "scope"
