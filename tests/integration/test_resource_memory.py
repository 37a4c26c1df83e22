"""``ResourceMemory`` over the ledger: one append each, provenance, branches, looked-up sources."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from memoriale import (
    AutoCompactOptions,
    CompactionResult,
    InputError,
    Ledger,
    MemoryAccessDeniedError,
    MemoryFact,
    MissingRightError,
    RememberedFact,
    ResourceMemory,
    ResourceRef,
    SourceRef,
    Verification,
    build_context_snippet,
    create_memory_lifecycle_hooks,
    create_memory_tools,
    with_team_access_control,
    with_team_access_control_semantic,
)

REF = ResourceRef("build-7", "red")


@pytest.fixture
def memory(shared_ledger: Ledger, tenant: str) -> Iterator[ResourceMemory]:
    """Of a tenant that nobody else uses."""
    with ResourceMemory.of(shared_ledger, tenant=tenant) as made:
        yield made


def facts(*texts: str) -> list[MemoryFact]:
    return [MemoryFact(content=text) for text in texts]


def contents(found: Sequence[RememberedFact]) -> list[str]:
    return [fact.content for fact in found]


def events(ledger: Ledger, tenant: str) -> list[Any]:
    return list(ledger.events(tenant=tenant))


def call(memory: ResourceMemory, name: str, **given: Any) -> Any:
    [tool] = [tool for tool in create_memory_tools(memory, REF) if tool.name == name]
    return tool.handler(given)


def test_a_fork_is_one_event_and_copies_nothing(
    memory: ResourceMemory, shared_ledger: Ledger, tenant: str
) -> None:
    """Keys and facts are forked by one call; what the child has is counted when it is asked."""
    for key in ("a", "b"):
        memory.working.set(REF, key, key)
    memory.working.set(REF, "__last", "x")
    memory.remember_many(REF, facts("the harbour", "a mooring", "a lighthouse"))
    before = len(events(shared_ledger, tenant))
    fork = memory.fork(REF, "build-8")
    assert len(events(shared_ledger, tenant)) == before + 1
    memory.working.set(REF, "a", "later")
    memory.remember(REF, facts("later")[0])
    assert (fork.working_keys, fork.semantic_facts) == (2, 3)
    assert dict(memory.working.list(fork.ref)) == {"a": "a", "b": "b"}
    assert contents(memory.list_all(fork.ref)) == ["the harbour", "a mooring", "a lighthouse"]
    memory.working.delete(fork.ref, "a")
    memory.forget(fork.ref, [memory.list_all(fork.ref)[0].id])
    assert (fork.working_keys, fork.semantic_facts) == (1, 2)
    for child in ("build-8", "build-7"):
        with pytest.raises(InputError):
            memory.fork(REF, child)


def test_a_fork_needs_the_right_to_it(shared_ledger: Ledger, tenant: str) -> None:
    """Who may only use memory forks none, and nothing is stored."""
    weak = ResourceMemory.of(shared_ledger, tenant=tenant, rights={"use"})
    weak.working.set(REF, "a", 1)
    before = len(events(shared_ledger, tenant))
    with pytest.raises(MissingRightError):
        weak.fork(REF, "build-8")
    assert len(events(shared_ledger, tenant)) == before


def test_a_compaction_is_one_append_with_provenance(
    memory: ResourceMemory, shared_ledger: Ledger, tenant: str
) -> None:
    """Summary and retired facts stand in one append, and history leads from one to the other."""
    made = memory.remember_many(REF, facts("one", "two", "three", "four"))
    before = events(shared_ledger, tenant)
    result = memory.compact_semantic_memory(
        REF, max_facts=2, summarize=lambda old: ["sum of " + " ".join(contents(old))]
    )
    assert result == CompactionResult(removed=3, remaining=2, summarized=1)
    new = events(shared_ledger, tenant)[len(before) :]
    assert len(new) == 4
    assert len({event.row.recorded.append_first for event in new}) == 1
    assert contents(memory.list_all(REF)) == ["four", "sum of one two three"]
    summary = memory.list_all(REF)[1]
    told = call(memory, "fact_history", id=summary.id)["versions"]
    assert {fact.id for fact in made[:3]} < {version["id"] for version in told}
    again = call(memory, "fact_history", id=made[0].id)["versions"]
    assert "sum of one two three" in [version["content"] for version in again]


def test_compaction_comes_by_itself_over_the_ledger(shared_ledger: Ledger, tenant: str) -> None:
    """In the background, with counts that add up."""
    options = AutoCompactOptions(max_facts=3, check_every=2)
    with ResourceMemory.of(shared_ledger, tenant=tenant, auto_compact=options) as memory:
        for number in range(6):
            memory.remember(REF, MemoryFact(content=f"fact {number}"))
        assert memory.wait_for_compaction(60)
        assert memory.compaction_error is None
        assert contents(memory.list_all(REF)) == ["fact 3", "fact 4", "fact 5"]


def test_a_model_corrects_with_a_reason(memory: ResourceMemory) -> None:
    """The better fact is in the place of the old one, which history keeps with the reason."""
    made = call(memory, "remember_fact", content="Ada lives in Rome")["fact"]
    new = call(memory, "correct_fact", id=made["id"], content="Ada lives in Oslo", reason="moved")
    assert contents(memory.list_all(REF)) == ["Ada lives in Oslo"]
    told = call(memory, "fact_history", id=new["fact"]["id"])["versions"]
    assert [version["content"] for version in told if version["content"]] == [
        "Ada lives in Rome",
        "Ada lives in Oslo",
    ]
    assert "moved" in [version["reason"] for version in told]
    with pytest.raises(InputError) as refused:
        call(memory, "correct_fact", id=made["id"], content="again")
    assert refused.value.code == "not_found"


def test_a_prompt_shows_what_was_verified(
    memory: ResourceMemory, shared_ledger: Ledger, tenant: str
) -> None:
    """A source that is there and says so is verified; one that does not is not."""
    handle = shared_ledger.memory(
        tenant=tenant, resource=REF.resource_id, team=REF.team_id, session="s1"
    )
    entry = handle.remember("Ada said that she lives in Rome", kind="message", owner="resource")
    for content, evidence in (("Ada lives in Rome", "lives in Rome"), ("Ada lives", "in Oslo")):
        source = SourceRef("s1", entry.index)
        memory.remember(REF, MemoryFact(content=content, source_ref=source, evidence=evidence))
    states = {fact.content: fact.verification for fact in memory.list_all(REF)}
    assert states == {
        "Ada lives in Rome": Verification.VERIFIED,
        "Ada lives": Verification.EVIDENCE_ABSENT,
    }
    told = build_context_snippet(memory, REF, query="where does Ada live")
    assert "- [verified] Ada lives in Rome" in told
    assert "- [unverified: its source does not say so] Ada lives" in told


def test_hooks_note_in_the_ledger(memory: ResourceMemory) -> None:
    """What was noted is in no list and in no fork."""
    hooks = create_memory_lifecycle_hooks(memory, REF)
    hooks.on_created("s1")
    hooks.on_checkpoint("s1", "p1", "before")
    memory.working.set(REF, "a", 1)
    assert hooks.last_session() == "s1"
    assert dict(memory.working.list(REF)) == {"a": 1}
    child = memory.fork(REF, "build-8").ref
    assert create_memory_lifecycle_hooks(memory, child).last_session() is None


def test_a_door_stands_before_the_ledger(
    memory: ResourceMemory, shared_ledger: Ledger, tenant: str
) -> None:
    """Another team, and no team, are refused; forks, history and compaction are kept."""

    class OnlyRed:
        def can_access(self, team_id: str | None) -> bool:
            return team_id == "red"

    assert memory.semantic is not None
    closed = ResourceMemory(
        tenant=tenant,
        working_memory=with_team_access_control(memory.working.provider, OnlyRed()),
        semantic=with_team_access_control_semantic(memory.semantic, OnlyRed()),
    )
    closed.working.set(REF, "a", 1)
    made = closed.remember_many(REF, facts("one", "two"))
    before = len(events(shared_ledger, tenant))
    assert closed.fork(REF, "build-8").semantic_facts == 2
    assert len(events(shared_ledger, tenant)) == before + 1
    assert call(closed, "fact_history", id=made[0].id)["versions"][0]["content"] == "one"
    assert closed.compact_semantic_memory(REF, max_facts=1).removed == 1
    for ref in (ResourceRef("build-7"), ResourceRef("build-7", "blue")):
        with pytest.raises(MemoryAccessDeniedError) as denied:
            closed.recall(ref, "one")
        assert denied.value.team_id == ref.team_id
        with pytest.raises(MemoryAccessDeniedError):
            closed.working.set(ref, "a", 2)
