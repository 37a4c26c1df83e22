"""The rules of maintenance (R12, R13), each with the reference's behaviour planted."""

import json
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import pytest

from memoriale.adapters.extraction.replies import BadReplyError
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.stores import curator as surface
from memoriale.adapters.library.stores.curator import Curator
from memoriale.adapters.library.stores.decisions import DecisionLog
from memoriale.adapters.library.stores.facts import UserFacts
from memoriale.adapters.library.stores.files import FileMemory
from memoriale.adapters.library.stores.learnings import LearnedKnowledge
from memoriale.domain.events import ReasonCode, SourceTier
from memoriale.domain.memory import MemoryState
from memoriale.domain.steps import Slice
from memoriale.domain.stores import curation as rules
from memoriale.domain.stores.curation import Curated
from tests.fixtures.holds import hold
from tests.fixtures.scripted import Scripted
from tests.rules.planting import Planted


@pytest.fixture
def handle(alice: Memory) -> Memory:
    """Alice with an agent."""
    return alice.rebound(alice.principal.with_(agent="clerk"))


def fill(memory: Memory) -> None:
    """Something of several kinds that models wrote, and something that a person said."""
    UserFacts(memory).add_facts(facts=["extracted"], source="auto")
    UserFacts(memory).add_facts(facts=["said"])
    LearnedKnowledge(memory).save_learning(
        {"title": "hint", "content": "x", "source": "llm-extracted", "scope": "agent"}
    )
    memory.remember(
        "old decision",
        kind="decision",
        owner="agent",
        source_tier="llm-extracted",
        details={"reasoning": "x", "decision_type": "y"},
    )
    FileMemory(memory).add("memory", None, "note")


def r12_every_store(memory: Memory) -> None:
    """Pruning covers every kind of every owner, and leaves what people said."""
    fill(memory)
    report = Curator(memory).prune(0)
    assert report.changed == 3
    assert {one.reason for one in report.skipped} == {"said by people"}
    assert [f.fact for f in UserFacts(memory).get_active_facts()] == ["said"]
    assert DecisionLog(memory).get_decisions() == []


def r12_holds(memory: Memory) -> None:
    """Under a legal hold nothing is pruned, and the report says so; others' is."""
    fill(memory)
    hold(memory)
    report = Curator(memory).prune(0)
    assert report.changed == 2
    assert "legal hold" in {one.reason for one in report.skipped}
    assert len(UserFacts(memory).get_active_facts()) == 2


def r12_no_orphans(memory: Memory) -> None:
    """An entity stays while anything said of it stays, and a node while an edge of it does; what
    nothing rests on goes."""
    by_model = "llm-extracted"
    for name in ("acme", "beta", "gone"):
        details = {"entity_id": name, "name": name, "entity_type": "company"}
        memory.remember(name, kind="entity", details=details, source_tier=by_model)
        memory.remember(
            "old", kind="entity_fact", details={"entity_id": name}, source_tier=by_model
        )
    relation = {"entity_id": "acme", "target_entity_id": "beta", "type": "buys"}
    memory.remember("acme buys beta", kind="relationship", details=relation)
    for name in "abc":
        details = {"node_id": name, "type": "t", "name": name}
        memory.remember(name, kind="node", details=details, source_tier=by_model)
    memory.remember("a b", kind="edge", details={"source_id": "a", "target_id": "b", "type": "to"})
    report = Curator(memory).prune(0)
    left = sorted(one.content for one in memory.list().memories if one.content)
    assert left == sorted(["acme", "beta", "acme buys beta", "a", "b", "a b"])
    rests = [one for one in report.skipped if one.reason == "what stays rests on it"]
    assert (report.changed, len(rests)) == (5, 4)


def merging(asked: str) -> str:
    """Proposes to merge everything in each group."""
    groups = json.loads(asked[asked.index("[\n") :])
    merges = [
        {"merged": f"merged {n}", "original_ids": [fact["id"] for fact in group]}
        for n, group in enumerate(groups)
    ]
    return json.dumps({"merges": merges})


def r13_keeps_originals(memory: Memory) -> None:
    """The merged fact is there, the originals are in history, and importance is the highest."""
    facts = UserFacts(memory)
    facts.add_facts(
        facts=[
            {"fact": "likes dark mode a lot", "importance": 0.9, "topics": ["ui"]},
            {"fact": "likes dark mode a lot too", "importance": 0.2},
        ]
    )
    report = Curator(memory).consolidate(Scripted(merging), similarity_threshold=0.5)
    assert report.changed == 2
    (fact,) = facts.get_active_facts()
    assert (fact.fact, fact.importance, fact.topics) == ("merged 0", 0.9, ("ui",))
    ended = [f.invalidation_reason for f in facts.get_facts() if f.invalidated_at]
    assert ended == ["consolidated", "consolidated"]


def r13_trust(memory: Memory) -> None:
    """What people said is never merged with what a model extracted, and stays as trusted."""
    facts = UserFacts(memory)
    facts.add_facts(facts=["likes dark mode a lot"])
    facts.add_facts(facts=["likes dark mode a lot too"], source="auto")
    report = Curator(memory).consolidate(Scripted(merging), similarity_threshold=0.5)
    assert report.changed == 0
    assert {one.reason for one in report.skipped} == {"not equally trusted"}
    facts.add_facts(facts=["likes dark mode a lot indeed"])
    Curator(memory).consolidate(Scripted(said_only), similarity_threshold=0.5)
    assert sorted(f.source for f in facts.get_active_facts()) == ["auto", "manual"]


def said_only(asked: str) -> str:
    """Proposes to merge the first and the last of the first group."""
    group = json.loads(asked[asked.index("[\n") :])[0]
    ids = [group[0]["id"], group[-1]["id"]]
    return json.dumps({"merges": [{"merged": "dark mode", "original_ids": ids}]})


def r13_threshold(memory: Memory) -> None:
    """Facts below the similarity are neither shown to the model nor merged on its word."""
    facts = UserFacts(memory)
    facts.add_facts(facts=["likes dark mode", "owns two cats", "likes dark modes"])
    ids = [str(f.id) for f in facts.get_active_facts()]
    everything = json.dumps({"merges": [{"merged": "x", "original_ids": ids}]})
    Curator(memory).consolidate(Scripted(lambda asked: everything), similarity_threshold=0.6)
    assert len(facts.get_active_facts()) == 3


RULES: dict[str, Callable[[Memory], None]] = {
    rule.__name__: rule
    for rule in (
        r12_every_store,
        r12_holds,
        r12_no_orphans,
        r13_keeps_originals,
        r13_trust,
        r13_threshold,
    )
}


def facts_alone(seen: Slice, max_age_days: float, tiers: frozenset[SourceTier]) -> Curated:
    """As the reference, which prunes facts whoever said them, and little else."""
    current = seen.current("fact")
    steps = [rules._end(state, ReasonCode.RETRACTED) for state in current]
    return Curated(tuple(steps), rules.CurationReport(changed=len(steps)))


def nothing_carries(seen: Slice, going: Any) -> list[Any]:
    """As the reference, which ends each memory by itself."""
    return []


def added_as_extracted(
    self: Curator,
    memory: Memory,
    merge: rules.Merge,
    originals: Sequence[MemoryState],
    model: str,
    prompt_version: str,
) -> Any:
    """As the reference: the merged fact loses trust, importance and topics."""
    return self._command(memory, merge.merged, kind="fact", source_tier=SourceTier.LLM_EXTRACTED)


def whatever_fits(ids: Sequence[UUID], originals: Sequence[MemoryState], allowed: Any) -> None:
    """As the reference, which looks at neither trust nor threshold."""


PLANTED = {
    "r12_every_store": Planted(surface, "prune", facts_alone),
    "r12_holds": Planted(surface, "prune", facts_alone),
    "r12_no_orphans": Planted(rules, "_carrying", nothing_carries),
    "r13_keeps_originals": Planted(Curator, "_merged", added_as_extracted),
    "r13_trust": Planted(rules, "_unfit", whatever_fits),
    "r13_threshold": Planted(rules, "_unfit", whatever_fits),
}


@pytest.mark.parametrize("name", RULES)
def test_rule(name: str, handle: Memory) -> None:
    """Each rule holds."""
    RULES[name](handle)


@pytest.mark.parametrize("name", PLANTED)
def test_the_planted_reference_behaviour_breaks_the_rule(
    name: str, handle: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the reference's behaviour in its place each rule's check turns red."""
    PLANTED[name].put(monkeypatch)
    with pytest.raises(AssertionError):
        RULES[name](handle)


def test_doubles_end_and_the_best_one_stays(handle: Memory) -> None:
    """Of facts that say the same the most trusted stays; a dry run only tells."""
    for tier in ("llm-extracted", "manual"):
        for text in ("Likes tea", "likes TEA."):
            handle.remember(text, kind="fact", source_tier=tier)
    curator = Curator(handle)
    assert curator.deduplicate(dry_run=True).changed == 3
    assert len(UserFacts(handle).get_active_facts()) == 4
    assert curator.deduplicate().changed == 3
    assert [f.source for f in UserFacts(handle).get_active_facts()] == ["manual"]
    assert curator.deduplicate().changed == 0


@pytest.mark.parametrize("reply", ["", "no", '{"merges": [{"merged": "x"', '{"merge": []}'])
def test_a_bad_reply_stores_nothing(reply: str, handle: Memory) -> None:
    """A reply that is cut off or no such object is an error, and every fact is still there."""
    facts = UserFacts(handle)
    facts.add_facts(facts=["likes dark mode a lot", "likes dark mode a lot too"])
    with pytest.raises(BadReplyError):
        Curator(handle).consolidate(Scripted(lambda asked: reply), similarity_threshold=0.5)
    assert len(facts.get_active_facts()) == 2


def test_clearing_ends_every_kind_and_counts(handle: Memory) -> None:
    """Everything of the user and the agent ends, once, and history keeps it."""
    fill(handle)
    assert Curator(handle).clear_all(dry_run=True).changed == 5
    assert Curator(handle).clear_all().changed == 5
    assert Curator(handle).clear_all().changed == 0
    assert len(UserFacts(handle).get_facts()) == 2
