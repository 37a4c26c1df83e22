"""Where a memory comes from, and what a handle tells a model, from every store."""

from collections.abc import Callable

import pytest

from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.domain.errors import InputError, MissingRightError
from memoriale.domain.keys import Subject
from memoriale.domain.principal import ALL_RIGHTS, Right


@pytest.fixture
def desk(shared_ledger: Ledger, tenant: str) -> Memory:
    """Alice with an agent, in a session."""
    return shared_ledger.memory(tenant=tenant, user="alice", agent="clerk", session="s")


def test_a_memory_says_where_it_comes_from(desk: Memory) -> None:
    """Source, evidence, model, prompt and run are told, and for each version who made it, why and
    in which append."""
    receipt = desk.remember(
        "Lives in Oslo",
        kind="fact",
        source="call 7",
        source_tier="llm-extracted",
        evidence=["I moved to Oslo"],
        model="some-model",
        prompt_version="facts/1",
        source_run="run-1",
    )
    desk.correct(receipt.memory_id, "Lives in Bergen", reason="she said so", actor="bob")
    found = desk.explain(receipt.memory_id)
    assert (found.kind, found.status, found.content) == ("fact", "current", "Lives in Bergen")
    assert (found.owner, found.run) == (Subject("user", "alice"), "run-1")
    assert (found.source, found.evidence) == ("call 7", ("I moved to Oslo",))
    first, second = found.versions
    assert (first.source_tier, first.model, first.prompt_version) == (
        "llm-extracted",
        "some-model",
        "facts/1",
    )
    assert (second.actor, second.reason) == (Subject("user", "bob"), "she said so")
    assert found.source_tier == second.source_tier
    assert [v.append for v in found.versions] == [(v.index, v.index) for v in found.versions]
    then = desk.explain(receipt.memory_id, as_of=receipt.index)
    assert (then.content, len(then.versions)) == ("Lives in Oslo", 1)
    assert (then.model, then.prompt_version) == ("some-model", "facts/1")


def test_what_took_its_place_is_told_from_both_sides(desk: Memory) -> None:
    """A memory names those whose place it took, in its own append or later and of whatever kind,
    and each of them names it."""
    old = desk.remember("tea", kind="fact", subject="drink").memory_id
    new = desk.remember("coffee", kind="fact", subject="drink").memory_id
    assert [(s.memory_id, s.reason_code) for s in desk.explain(new).superseded] == [
        (old, "superseded")
    ]
    ended = desk.explain(old)
    assert (ended.superseded_by, ended.reason_code) == (new, "superseded")
    assert ended.versions[-1].append[0] < ended.versions[-1].append[1]
    one = desk.learnings.save_learning({"title": "a", "content": "first"}).id
    other = desk.learnings.save_learning({"title": "b", "content": "second"}).id
    desk.learnings.invalidate_learning(one, other)
    assert [s.memory_id for s in desk.explain(other).superseded] == [one]
    assert desk.explain(one).superseded_by == other


def test_a_summary_says_what_it_was_made_from(desk: Memory) -> None:
    """The earlier summary that a later one knows is named."""
    desk.sessions.get_or_create_session()
    said = [{"role": "user", "content": "tea, please"}]
    first, second = (desk.summaries.summarize(None, said) for _ in range(2))
    assert first is not None
    assert second is not None
    found = desk.explain(second.id)
    assert found.made_from == (first.id,)
    assert found.source_tier == "summary"
    assert found.versions[0].event == "memory.remembered"


def test_explanations_keep_to_what_the_caller_may_see(
    desk: Memory, shared_ledger: Ledger, tenant: str
) -> None:
    """Another user is told that there is no such memory; an auditor sees headers, and the text
    only with the right to content; what was told is on record."""
    memory_id = desk.remember("secret", source="call 7", evidence=["e"], reason="r").memory_id
    bob = shared_ledger.memory(tenant=tenant, user="bob")
    with pytest.raises(InputError) as refused:
        bob.explain(memory_id)
    assert refused.value.code == "unknown_memory"
    auditor = shared_ledger.memory(tenant=tenant, user="bob", rights=[Right.AUDIT])
    headers = auditor.explain(memory_id, all_owners=True)
    assert (headers.content, headers.source, headers.evidence) == (None, None, ())
    assert headers.versions[0].reason is None
    assert headers.versions[0].actor == Subject("agent", "clerk")
    with pytest.raises(MissingRightError):
        auditor.explain(memory_id)
    reader = shared_ledger.memory(tenant=tenant, user="bob", rights=ALL_RIGHTS)
    assert reader.explain(memory_id, all_owners=True).content == "secret"
    seen = shared_ledger.access.who_saw(memory_id, tenant=tenant)
    assert [access.command for access in seen] == ["explain"]


def test_the_stores_of_a_handle_are_its_own(desk: Memory) -> None:
    """Each is there once, for the handle's caller and branch, and a branch has its own."""
    assert desk.facts is desk.facts
    branch = desk.fork("side")
    branch.facts.add_facts(None, ["only here"])
    assert [fact.fact for fact in branch.facts.get_facts()] == ["only here"]
    assert desk.facts.get_facts() == []
    assert desk.entities.storage is desk


def test_a_handle_tells_a_model_what_every_store_knows(
    desk: Memory, shared_ledger: Ledger, tenant: str
) -> None:
    """Facts, profile, entities, graph, decisions, learnings and procedures come as sections of one
    block within the budget; weights decide, and the access log keeps what was told."""
    desk.facts.add_facts(None, ["Alice drinks tea"])
    desk.profile.update_profile(None, {"role": "nurse"})
    desk.entities.upsert_entity(None, {"name": "Tea Shop", "entity_type": "shop"})
    desk.graph.add([{"id": "tea", "type": "drink"}])
    desk.decisions.log_decision(
        None, {"decision": "bought tea", "reasoning": "asked", "decision_type": "purchase"}
    )
    desk.procedures.save_procedure({"trigger": "buy tea", "description": "Buys tea"})
    found = desk.context("buy tea for Alice")
    for section in ("user_facts", "user_profile", "entities", "graph", "decisions", "procedures"):
        assert f'<section name="{section}"' in found.text
    small = desk.context("buy tea", max_tokens=110, priorities={"decisions": 0})
    assert small.tokens <= 110
    assert small.left_out
    assert 'name="decisions"' not in small.text
    (fact,) = desk.facts.get_facts()
    seen = shared_ledger.access.who_saw(fact.id, tenant=tenant)
    assert "context" in {access.command for access in seen}
    before = desk.context("tea", as_of=0)
    assert "nurse" not in before.text
    calls: list[tuple[str, Callable[[], object]]] = [
        ("max_tokens", lambda: desk.context("x", max_tokens=0)),
        ("priorities", lambda: desk.context("x", priorities={"x": 1})),
        ("priorities", lambda: desk.context("x", priorities=3)),  # type: ignore[arg-type]
        ("priorities.graph", lambda: desk.context("x", priorities={"graph": -1})),
    ]
    for field, wrong in calls:
        with pytest.raises(InputError) as refused:
            wrong()
        assert refused.value.field == field
    names = {tool.name for tool in desk.get_tools()}
    assert {"recall_procedure", "query_graph"} <= names
