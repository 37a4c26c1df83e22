"""Forks of resources' memory on the ledger: exact, within a team, and found by every process."""

from typing import Any
from uuid import uuid4

import pytest

from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.resources.ledger_semantic import LedgerSemanticMemory
from memoriale.adapters.library.resources.ledger_working import LedgerWorkingMemory
from memoriale.adapters.library.resources.places import FORKED, Place, Places
from memoriale.adapters.library.stores.working import WorkingStore
from memoriale.domain.errors import ConflictError, InputError, MissingRightError, RefusedError
from memoriale.domain.principal import Right
from memoriale.domain.resources.facts import MemoryFact
from memoriale.domain.resources.ref import ResourceRef

PARENT, CHILD = ResourceRef("parent", "blue"), ResourceRef("child", "blue")


@pytest.fixture
def keys(shared_ledger: Ledger, tenant: str) -> LedgerWorkingMemory:
    return LedgerWorkingMemory(shared_ledger, tenant=tenant)


@pytest.fixture
def facts(shared_ledger: Ledger, tenant: str) -> LedgerSemanticMemory:
    return LedgerSemanticMemory(shared_ledger, tenant=tenant)


def fact(text: str) -> MemoryFact:
    return MemoryFact(content=text)


def contents(facts: LedgerSemanticMemory, ref: ResourceRef) -> list[str]:
    return [found.content for found in facts.list_all(ref)]


def head(ledger: Ledger, tenant: str) -> int:
    return ledger.tenant(tenant).log.head()


def test_a_fork_is_one_event_for_keys_and_facts(
    keys: LedgerWorkingMemory, facts: LedgerSemanticMemory, shared_ledger: Ledger, tenant: str
) -> None:
    """Both are forked by one call, which stores one event however much there is."""
    keys.set(PARENT, "plan", 1)
    facts.remember_many(PARENT, [fact(f"fact {n}") for n in range(50)])
    before = head(shared_ledger, tenant)
    assert keys.forked_with == facts.forked_with
    facts.fork(PARENT, CHILD)
    assert head(shared_ledger, tenant) == before + 1
    assert (keys.inherited(PARENT, CHILD), facts.inherited(PARENT, CHILD)) == (1, 50)
    assert keys.get(CHILD, "plan") == 1


def test_what_is_inherited_is_counted_as_it_is_now(
    keys: LedgerWorkingMemory, facts: LedgerSemanticMemory
) -> None:
    """What the child changed, deleted or added does not count, nor what its parent did later;
    of a resource that is not the parent nothing is inherited."""
    for key in "abc":
        keys.set(PARENT, key, 1)
    made = facts.remember_many(PARENT, [fact("one"), fact("two")])
    keys.fork(PARENT, CHILD)
    keys.set(PARENT, "d", 1)
    keys.set(CHILD, "a", 2)
    keys.delete(CHILD, "b")
    keys.set(CHILD, "e", 1)
    facts.forget(CHILD, [made[0].id])
    facts.remember(CHILD, fact("own"))
    assert (keys.inherited(PARENT, CHILD), facts.inherited(PARENT, CHILD)) == (1, 1)
    assert keys.inherited(ResourceRef("other", "blue"), CHILD) == 0
    assert keys.inherited(CHILD, PARENT) == 0


@pytest.mark.parametrize("child", [ResourceRef("child"), ResourceRef("child", "red")])
def test_memory_is_forked_within_a_team_alone(
    keys: LedgerWorkingMemory, shared_ledger: Ledger, tenant: str, child: ResourceRef
) -> None:
    """A child of another team, or of none, is refused, and nothing is stored."""
    keys.set(PARENT, "plan", 1)
    before = head(shared_ledger, tenant)
    with pytest.raises(RefusedError) as refused:
        keys.fork(PARENT, child)
    assert refused.value.exit_code == 3
    assert head(shared_ledger, tenant) == before
    assert dict(keys.list(child)) == {}


def test_a_fork_takes_the_rights_of_both(shared_ledger: Ledger, tenant: str) -> None:
    """Who may not act for another resource is refused, and so is who may not read."""
    for rights, missing in (((Right.USE,), Right.OPERATE), ((Right.OPERATE,), Right.USE)):
        weak = LedgerWorkingMemory(shared_ledger, tenant=tenant, rights=rights)
        with pytest.raises(MissingRightError) as refused:
            weak.fork(PARENT, CHILD)
        assert refused.value.allowed == missing


def test_a_resource_is_forked_into_once_and_only_while_it_is_empty(
    keys: LedgerWorkingMemory, facts: LedgerSemanticMemory, shared_ledger: Ledger, tenant: str
) -> None:
    """A child with a key, with a fact, or with a fork already is refused and keeps what it has;
    bookkeeping, and what was forgotten, are in nobody's way."""
    keys.set(PARENT, "plan", 1)
    with_key, with_fact = ResourceRef("with a key", "blue"), ResourceRef("with a fact", "blue")
    keys.set(with_key, "own", 1)
    facts.remember(with_fact, fact("own"))
    keys.fork(PARENT, CHILD)
    before = head(shared_ledger, tenant)
    for child in (with_key, with_fact, CHILD):
        with pytest.raises(ConflictError) as refused:
            keys.fork(PARENT, child)
        assert refused.value.code == "not_empty"
    with pytest.raises(InputError):
        keys.fork(PARENT, PARENT)
    assert head(shared_ledger, tenant) == before
    assert dict(keys.list(with_key)) == {"own": 1}
    keys.set(with_key, "__session", 1)
    keys.delete(with_key, "own")
    keys.fork(PARENT, with_key)
    assert dict(keys.list(with_key)) == {"plan": 1}


def test_every_process_finds_the_fork(
    keys: LedgerWorkingMemory, shared_ledger: Ledger, tenant: str
) -> None:
    """Who has used the child before it was forked reads and writes its branch afterwards."""
    other = LedgerWorkingMemory(shared_ledger, tenant=tenant)
    keys.set(PARENT, "plan", 1)
    assert dict(other.list(CHILD)) == {}
    keys.fork(PARENT, CHILD)
    assert dict(other.list(CHILD)) == {"plan": 1}
    other.set(CHILD, "plan", 2)
    assert keys.get(CHILD, "plan") == 2
    handle = shared_ledger.memory(tenant=tenant, resource="child", team="blue", branch=FORKED)
    assert handle.working.get("plan") == 2


def test_a_write_that_a_fork_overtakes_is_stored_on_the_branch(
    keys: LedgerWorkingMemory, facts: LedgerSemanticMemory, shared_ledger: Ledger, tenant: str
) -> None:
    """Where a resource's memory lies is settled by the append: nothing is written beside it."""
    keys.set(PARENT, "plan", 1)
    places = Places(shared_ledger, tenant, {})
    tried: list[str] = []

    def overtaken(place: Place) -> None:
        tried.append(place.memory.branch_name)
        if len(tried) == 1:
            keys.fork(PARENT, CHILD)
        WorkingStore(place.memory, guards=place.guards).set("late", 1)

    places.change(CHILD, "working.set", overtaken)
    assert tried == ["main", FORKED]
    assert dict(keys.list(CHILD)) == {"plan": 1, "late": 1}


def test_a_fact_that_ends_in_a_child_goes_on_in_its_parent(
    keys: LedgerWorkingMemory, facts: LedgerSemanticMemory
) -> None:
    """Forgetting, replacing and correcting an inherited fact changes the child's branch alone;
    a sibling and the parent keep it, and recall follows."""
    made = facts.remember_many(PARENT, [fact("the harbour opens at nine"), fact("Ada has a cat")])
    sibling = ResourceRef("sibling", "blue")
    facts.fork(PARENT, CHILD)
    facts.fork(PARENT, sibling)
    better = facts.correct(CHILD, made[0].id, "the harbour opens at ten", reason="said so")
    assert facts.forget(CHILD, [made[1].id]) == 1
    assert contents(facts, CHILD) == ["the harbour opens at ten"]
    assert [f.id for f in facts.recall(CHILD, "when does the harbour open")] == [better.id]
    for ref in (PARENT, sibling):
        assert contents(facts, ref) == ["the harbour opens at nine", "Ada has a cat"]
        assert facts.recall(ref, "harbour", top_k=1)[0].id == made[0].id
    versions = [(v.event, v.content, v.reason) for v in facts.history(CHILD, better.id)]
    assert versions == [
        ("remembered", "the harbour opens at nine", None),
        ("remembered", "the harbour opens at ten", None),
        ("replaced", None, "said so"),
    ]


def test_nobody_ends_another_ones_facts(facts: LedgerSemanticMemory) -> None:
    """A resource's ids are no other one's: not the child's for the parent, nor those of a team
    or of a neighbour."""
    made = facts.remember(PARENT, fact("of the parent"))
    facts.fork(PARENT, CHILD)
    own = facts.remember(CHILD, fact("of the child"))
    for ref, id_ in ((PARENT, own.id), (ResourceRef("parent"), made.id), (PARENT, "no id")):
        assert facts.forget(ref, [id_]) == 0
        with pytest.raises(ConflictError):
            facts.replace(ref, [id_], [fact("never")])
        with pytest.raises(InputError) as refused:
            facts.history(ref, id_)
        assert refused.value.code == "not_found"
    assert contents(facts, PARENT) == ["of the parent"]
    assert contents(facts, CHILD) == ["of the parent", "of the child"]


def test_the_rules_of_the_parent_hold_for_the_child(shared_ledger: Ledger, tenant: str) -> None:
    """What a parent could not see its child does not see either: a session's memories that were
    recorded for another user stay that user's."""
    run: dict[str, Any] = {"tenant": tenant, "session": "s"}
    hers = shared_ledger.memory(**run, user="alice").remember("hers", owner="session")
    shared = shared_ledger.memory(**run).remember("of the session", owner="session")
    child = shared_ledger.memory(**run).fork("given", resource="kid")
    assert [memory.memory_id for memory in child.list().memories] == [shared.memory_id]
    with pytest.raises(InputError):
        child.show(hers.memory_id)
    grandchild = child.fork("given on", resource="grandkid")
    assert [memory.memory_id for memory in grandchild.list().memories] == [shared.memory_id]


def test_a_parent_that_is_forked_meanwhile_is_forked_where_it_lies(
    keys: LedgerWorkingMemory, shared_ledger: Ledger, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fork that another one overtakes at its parent begins from the parent's branch."""
    first = ResourceRef("first", "blue")
    keys.set(first, "plan", 1)
    places, found = Places(shared_ledger, tenant, {}), Places._empty

    def overtaken(self: Places, child: ResourceRef) -> Any:
        monkeypatch.setattr(Places, "_empty", found)
        keys.fork(first, PARENT)
        return found(self, child)

    monkeypatch.setattr(Places, "_empty", overtaken)
    places.fork(PARENT, CHILD)
    assert dict(keys.list(CHILD)) == {"plan": 1}


@pytest.mark.parametrize("who", [{"user": "alice"}, {"resource": "other"}, {"team": "red"}])
def test_a_provider_acts_as_the_resource_and_nobody_else(
    shared_ledger: Ledger, tenant: str, who: dict[str, str]
) -> None:
    """Whose memory it is says the ref alone."""
    with pytest.raises(InputError):
        LedgerWorkingMemory(shared_ledger, tenant=tenant, **who)


@pytest.mark.parametrize("ref", [None, "bot", ("bot", None)])
def test_what_is_no_ref_is_refused(
    keys: LedgerWorkingMemory, facts: LedgerSemanticMemory, ref: Any
) -> None:
    """By every method, and a fork says which of both it was."""
    calls = (
        lambda: keys.get(ref, "a"),
        lambda: keys.set(ref, "a", 1),
        lambda: facts.list_all(ref),
        lambda: facts.remember(ref, fact("x")),
        lambda: keys.fork(ref, CHILD),
        lambda: keys.fork(PARENT, ref),
    )
    fields = []
    for call in calls:
        with pytest.raises(InputError) as refused:
            call()
        fields.append(refused.value.field)
    assert fields == ["ref", "ref", "ref", "ref", "parent", "child"]


def test_who_may_not_use_memory_leaves_nothing_behind(shared_ledger: Ledger, tenant: str) -> None:
    """Every method asks for the right, by that name, and a refused call stores nothing."""
    denied = LedgerWorkingMemory(shared_ledger, tenant=tenant, rights=())
    also = LedgerSemanticMemory(shared_ledger, tenant=tenant, rights=())
    calls = (
        lambda: denied.get(PARENT, "a"),
        lambda: denied.set(PARENT, "a", 1),
        lambda: denied.delete(PARENT, "a"),
        lambda: denied.list(PARENT),
        lambda: denied.fork(PARENT, CHILD),
        lambda: denied.inherited(PARENT, CHILD),
        lambda: also.remember(PARENT, fact("x")),
        lambda: also.recall(PARENT, "x"),
        lambda: also.list_all(PARENT),
        lambda: also.list_recent(PARENT),
        lambda: also.forget(PARENT, [str(uuid4())]),
        lambda: also.history(PARENT, str(uuid4())),
    )
    log = shared_ledger.tenant(tenant).log
    for call in calls:
        with pytest.raises(MissingRightError) as refused:
            call()
        assert refused.value.allowed == Right.USE
    assert log.head() == 0


def test_the_name_of_the_branch_is_reserved(
    keys: LedgerWorkingMemory, shared_ledger: Ledger, tenant: str
) -> None:
    """Nobody makes the branch by hand that providers look for."""
    keys.set(PARENT, "plan", 1)
    handle = shared_ledger.memory(tenant=tenant, resource="parent", team="blue")
    with pytest.raises(InputError) as refused:
        handle.fork(FORKED)
    assert refused.value.code == "reserved"
    keys.set(PARENT, "plan", 2)
    assert handle.working.get("plan") == 2


def test_the_branch_of_a_fork_is_not_discarded_by_hand(
    keys: LedgerWorkingMemory, facts: LedgerSemanticMemory, shared_ledger: Ledger, tenant: str
) -> None:
    """Neither the child nor the parent ends it, by its name or its id: the child would have no
    memory any more. The refusal says what to do instead."""
    keys.set(PARENT, "plan", 1)
    keys.fork(PARENT, CHILD)
    child = shared_ledger.memory(tenant=tenant, resource="child", team="blue")
    parent = shared_ledger.memory(tenant=tenant, resource="parent", team="blue")
    (branch,) = [one for one in child.branches() if one.name == FORKED]
    before = head(shared_ledger, tenant)
    for memory in (child, parent, child.branch(FORKED)):
        for name in (FORKED, str(branch.id)):
            with pytest.raises(RefusedError) as refused:
                memory.discard(name)
            assert (refused.value.code, refused.value.exit_code) == ("reserved", 3)
            assert "fork the parent to another resource" in refused.value.message
    assert head(shared_ledger, tenant) == before
    facts.remember(CHILD, fact("goes on"))
    assert (keys.get(CHILD, "plan"), contents(facts, CHILD)) == (1, ["goes on"])


def test_what_else_is_done_with_the_branch_of_a_fork_leaves_it_usable(
    keys: LedgerWorkingMemory, facts: LedgerSemanticMemory, shared_ledger: Ledger, tenant: str
) -> None:
    """It is forked for a trial, merged with it, and merged into the parent; then parent and child
    go on, and can be forked further."""
    keys.set(PARENT, "plan", 1)
    keys.fork(PARENT, CHILD)
    handle = shared_ledger.memory(tenant=tenant, resource="child", team="blue", branch=FORKED)
    trial = handle.fork("trial")
    trial.working.set("plan", 2)
    assert keys.get(CHILD, "plan") == 1
    assert handle.merge("trial", into=FORKED).status == "merged"
    handle.discard("trial")
    assert (keys.get(CHILD, "plan"), keys.get(PARENT, "plan")) == (2, 1)
    facts.remember(CHILD, fact("the child's"))
    parent = shared_ledger.memory(tenant=tenant, resource="parent", team="blue")
    assert parent.merge(FORKED).status == "merged"
    assert (keys.get(PARENT, "plan"), contents(facts, PARENT)) == (2, ["the child's"])
    keys.set(CHILD, "plan", 3)
    keys.set(PARENT, "plan", 4)
    keys.fork(CHILD, ResourceRef("grandchild", "blue"))
    found = [keys.get(ref, "plan") for ref in (PARENT, CHILD, ResourceRef("grandchild", "blue"))]
    assert found == [4, 3, 3]
