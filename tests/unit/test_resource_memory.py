"""``ResourceMemory``: what is written once over providers of any make."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from memoriale import (
    AutoCompactOptions,
    CompactionResult,
    InputError,
    MemoryCapabilityError,
    MemoryFact,
    RememberedFact,
    ResourceMemory,
    ResourceRef,
)
from tests.fixtures.resource_memory import (
    REF,
    PlainSemantic,
    PlainWorking,
    PrunableSemantic,
    memory,
    semantic,
    working,
)

FACT = MemoryFact(content="a fact")


@pytest.mark.parametrize(
    ("call", "capability"),
    [
        (lambda m: m.remember(REF, FACT), "semantic"),
        (lambda m: m.remember_many(REF, [FACT]), "semantic"),
        (lambda m: m.recall(REF, "a"), "semantic"),
        (lambda m: m.list_all(REF), "semantic"),
        (lambda m: m.list_recent(REF), "semantic"),
        (lambda m: m.forget(REF, ["a"]), "semantic"),
        (lambda m: m.compact_semantic_memory(REF, max_facts=1), "semantic"),
    ],
)
def test_without_facts_calls_about_facts_are_refused(
    call: Callable[[ResourceMemory], object], capability: str
) -> None:
    """The error names the capability, working memory works, and a fork copies no fact."""
    keys = memory(semantic=None)
    assert not keys.has_semantic_memory
    with pytest.raises(MemoryCapabilityError) as refused:
        call(keys)
    assert refused.value.capability == capability
    keys.working.set(REF, "a", 1)
    assert keys.fork(REF, "child").semantic_facts == 0


@pytest.mark.parametrize(
    ("call", "capability"),
    [
        (lambda m: m.remember_many(REF, [FACT]), "bulk"),
        (lambda m: m.list_all(REF), "prunable"),
        (lambda m: m.list_recent(REF), "prunable"),
        (lambda m: m.forget(REF, ["a"]), "prunable"),
        (lambda m: m.compact_semantic_memory(REF, max_facts=1), "prunable"),
        (lambda m: m.fork(REF, "child"), "prunable"),
    ],
)
def test_what_a_provider_cannot_do_is_named(
    call: Callable[[ResourceMemory], object], capability: str
) -> None:
    """A provider of two methods remembers and recalls; the rest is refused by name."""
    plain = memory(semantic=PlainSemantic())
    plain.working.set(REF, "key", 1)
    plain.remember(REF, FACT)
    assert plain.recall(REF, "a fact")[0].content == "a fact"
    with pytest.raises(MemoryCapabilityError) as refused:
        call(plain)
    assert refused.value.capability == capability
    assert dict(plain.working.list(ResourceRef("child"))) == {}


def test_a_provider_of_another_tenant_is_refused() -> None:
    """A tenant is given, and providers that name another do not fit."""
    for part in ({"working_memory": working()}, {"semantic": semantic()}):
        given: dict[str, Any] = {"working_memory": PlainWorking(), **part}
        with pytest.raises(InputError) as refused:
            ResourceMemory(tenant="other", **given)
        assert refused.value.code == "other_tenant"
    for tenant in ("", "_global", None):
        with pytest.raises(InputError):
            ResourceMemory(tenant=tenant, working_memory=PlainWorking())  # type: ignore[arg-type]


@pytest.mark.parametrize("part", ["working_memory", "semantic"])
def test_what_is_no_provider_is_refused(part: str) -> None:
    """At once, not at the first call."""
    with pytest.raises(InputError) as refused:
        memory(**{part: object()})
    assert refused.value.field == part


def test_rules_hold_over_providers_that_check_nothing() -> None:
    """Keys, values, pages and resources are checked before a provider of one's own is asked."""
    held = PlainWorking()
    keys = memory(working_memory=held).working_memory
    wrong: Any = "build-7"
    calls: list[Callable[[], object]] = [
        lambda: keys.set(REF, "", 1),
        lambda: keys.set(REF, "k" * 257, 1),
        lambda: keys.set(REF, "key", object()),  # type: ignore[arg-type]
        lambda: keys.set(REF, "key", "x" * 65_536),
        lambda: keys.set(wrong, "key", 1),
        lambda: keys.list(REF, limit=1_001),
        lambda: keys.get(REF, " "),
        lambda: keys.delete(REF, "a\0"),
    ]
    for call in calls:
        with pytest.raises(InputError):
            call()
    assert held.values == {}
    held.values[REF.key, "__last"] = 1
    assert memory(working_memory=held).working is not None
    assert dict(keys.list(REF)) == {}


@pytest.mark.parametrize("top_k", [0, 101, True, "5"])
def test_a_wrong_recall_asks_no_provider(top_k: Any) -> None:
    """The number and the question are checked first."""
    with pytest.raises(InputError):
        memory(semantic=PlainSemantic()).recall(REF, "a", top_k=top_k)
    with pytest.raises(InputError):
        memory().recall(REF, "")
    with pytest.raises(InputError):
        memory().recall("build-7", "a")  # type: ignore[arg-type]


def test_a_fork_gives_the_child_what_the_parent_has() -> None:
    """Keys and facts, in the parent's team, with true counts; bookkeeping stays behind."""
    both, parent = memory(), ResourceRef("build-7", "red")
    both.working.set(parent, "branch", "main")
    both.working.set(parent, "__last", "x")
    both.remember_many(parent, [FACT, MemoryFact(content="another")])
    fork = both.fork(parent, "build-8")
    assert fork.ref == ResourceRef("build-8", "red")
    assert (fork.working_keys, fork.semantic_facts) == (1, 2)
    assert dict(both.working.list(fork.ref)) == {"branch": "main"}
    assert both.working.get(fork.ref, "__last") is None
    assert [fact.content for fact in both.list_all(fork.ref)] == ["a fact", "another"]
    assert [fact.content for fact in both.list_all(ResourceRef("build-8"))] == []


def test_counts_of_a_fork_are_those_of_what_is_inherited() -> None:
    """They are counted when they are read, and leave out what the child has of its own."""
    both = memory()
    for key in ("a", "b", "c"):
        both.working.set(REF, key, key)
    both.remember_many(REF, [FACT, MemoryFact(content="another")])
    fork = both.fork(REF, "child")
    both.working.set(fork.ref, "own", 1)
    both.working.set(fork.ref, "a", "changed")
    both.working.delete(fork.ref, "b")
    both.remember(fork.ref, MemoryFact(content="own"))
    both.forget(fork.ref, [both.list_all(fork.ref)[0].id])
    both.working.set(REF, "d", "later")
    assert (fork.working_keys, fork.semantic_facts) == (1, 1)


@pytest.mark.parametrize("facts", [semantic, PrunableSemantic], ids=["forking", "plain"])
@pytest.mark.parametrize("keys", [working, PlainWorking], ids=["forking", "plain"])
def test_providers_of_any_make_are_forked(keys: Any, facts: Any) -> None:
    """Those that fork by themselves do; of others everything is copied, more than a page too."""
    both = memory(working_memory=keys(), semantic=facts())
    for number in range(1_001):
        both.working.set(REF, f"k{number:04}", number)
    both.remember(REF, FACT)
    both.remember(REF, MemoryFact(content="another"))
    fork = both.fork(REF, "child")
    assert (fork.working_keys, fork.semantic_facts) == (1_001, 2)
    both.working.set(fork.ref, "k0000", "changed")
    assert fork.working_keys == 1_000
    assert both.working.get(REF, "k0000") == 0


def test_a_fork_overwrites_nothing() -> None:
    """A child that is the parent, or that has a key or a fact, is refused and stays as it was."""
    both = memory()
    both.working.set(REF, "a", 1)
    both.remember(REF, FACT)
    both.working.set(ResourceRef("keyed"), "a", 2)
    both.remember(ResourceRef("told"), FACT)
    for child, code in (
        ("build-7", "same_resource"),
        ("keyed", "not_empty"),
        ("told", "not_empty"),
    ):
        with pytest.raises(InputError) as refused:
            both.fork(REF, child)
        assert refused.value.code == code
    assert both.working.get(ResourceRef("keyed"), "a") == 2
    assert len(both.list_all(REF)) == len(both.list_all(ResourceRef("told"))) == 1
    assert dict(both.working.list(ResourceRef("told"))) == {}
    with pytest.raises(InputError):
        both.fork(REF, "")


def test_bookkeeping_alone_is_no_memory() -> None:
    """A child of which only a hook noted something can be forked to, and keeps the note."""
    both, child = memory(), ResourceRef("child")
    both.working.set(REF, "a", 1)
    both.working.set(child, "__last", "x")
    assert both.fork(REF, "child").working_keys == 1
    assert both.working.get(child, "__last") == "x"


@pytest.mark.parametrize("facts", [semantic, PrunableSemantic], ids=["forking", "plain"])
def test_a_fork_that_fails_half_way_leaves_nothing(facts: Any) -> None:
    """Keys and facts that were given are taken back, and the fork can be tried again."""
    held = PlainWorking()
    both, child = memory(working_memory=held, semantic=facts()), ResourceRef("child")
    for key in ("a", "b", "c"):
        both.working.set(REF, key, key)
    both.remember(REF, FACT)
    held.failing = "c"
    with pytest.raises(OSError, match="full"):
        both.fork(REF, "child")
    assert dict(both.working.list(child)) == {}
    assert list(both.list_all(child)) == []
    held.failing = None
    assert both.fork(REF, "child").working_keys == 3


def test_compaction_comes_by_itself() -> None:
    """After a fact over the cap the oldest goes, without the caller waiting for it."""
    with memory(auto_compact=AutoCompactOptions(max_facts=2)) as both:
        for number in range(4):
            both.remember(REF, MemoryFact(content=f"fact {number}"))
        assert both.wait_for_compaction(30)
        assert [fact.content for fact in both.list_all(REF)] == ["fact 2", "fact 3"]
        assert both.compaction_error is None
        assert both.last_compaction is not None
        assert both.last_compaction.remaining == 2


def test_it_comes_once_in_so_many_facts() -> None:
    """Facts are counted for each resource, those that were stored together one by one."""
    other = ResourceRef("other")
    with memory(auto_compact=AutoCompactOptions(max_facts=1, check_every=3)) as both:
        both.remember_many(REF, [FACT, FACT])
        both.remember(other, FACT)
        assert both.wait_for_compaction(30)
        assert (len(both.list_all(REF)), both.last_compaction) == (2, None)
        both.remember(REF, FACT)
        assert both.wait_for_compaction(30)
        assert len(both.list_all(REF)) == 1
        both.remember_many(other, [FACT] * 2)
        assert both.wait_for_compaction(30)
        assert len(both.list_all(other)) == 1


def test_remembering_does_not_wait_for_a_summary() -> None:
    """While ``summarize`` runs, facts are remembered and recalled; closing waits for it."""
    begun, go_on = threading.Event(), threading.Event()

    def summarize(facts: Sequence[RememberedFact]) -> list[str]:
        begun.set()
        assert go_on.wait(60)
        return ["summary"]

    both = memory(auto_compact=AutoCompactOptions(max_facts=3, summarize=summarize))
    for number in range(4):
        both.remember(REF, MemoryFact(content=f"fact {number}"))
    assert begun.wait(60)
    both.remember(REF, MemoryFact(content="meanwhile"))
    assert both.recall(REF, "meanwhile")[0].content == "meanwhile"
    assert not both.wait_for_compaction(0.01)
    go_on.set()
    both.close()
    assert len(both.list_all(REF)) == 3
    assert "meanwhile" in [fact.content for fact in both.list_all(REF)]


def test_a_compaction_that_fails_fails_no_remember() -> None:
    """What went wrong can be asked for until one goes right; the facts are all there."""
    broken = [True]

    def summarize(facts: Sequence[RememberedFact]) -> list[str]:
        if broken[0]:
            raise TimeoutError("the model is away")
        return ["summary"]

    with memory(auto_compact=AutoCompactOptions(max_facts=1, summarize=summarize)) as both:
        both.remember(REF, FACT)
        both.remember(REF, FACT)
        assert both.wait_for_compaction(30)
        assert isinstance(both.compaction_error, TimeoutError)
        assert len(both.list_all(REF)) == 2
        broken[0] = False
        both.remember(REF, FACT)
        assert both.wait_for_compaction(30)
        assert both.compaction_error is None
        assert both.last_compaction == CompactionResult(removed=3, remaining=1, summarized=1)


def test_nothing_is_compacted_after_closing() -> None:
    """Facts can still be remembered; no thread is left behind."""
    both = memory(auto_compact=AutoCompactOptions(max_facts=1))
    both.close()
    before = set(threading.enumerate())
    both.remember_many(REF, [FACT] * 3)
    both.close()
    assert len(both.list_all(REF)) == 3
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"max_facts": 1, "check_every": 0},
        {"max_facts": -1},
        {"max_age_ms": -1},
        {"max_age_ms": 1.5},
        {"max_facts": 0, "summarize": lambda facts: []},
    ],
)
def test_wrong_options_of_compaction_are_refused(options: dict[str, Any]) -> None:
    """No limit at all is no compaction, and every number has its least."""
    with pytest.raises(InputError):
        AutoCompactOptions(**options)


@pytest.mark.parametrize(
    ("facts", "capability"), [(None, "semantic"), (PlainSemantic(), "prunable")]
)
def test_compaction_of_facts_that_cannot_be_forgotten_is_refused(
    facts: Any, capability: str
) -> None:
    """When the memory is made, not later and not in silence."""
    with pytest.raises(MemoryCapabilityError) as refused:
        memory(semantic=facts, auto_compact=AutoCompactOptions(max_facts=1))
    assert refused.value.capability == capability


def test_ages_of_options_are_milliseconds() -> None:
    """A fact is kept for so many milliseconds."""
    limits = AutoCompactOptions(max_age_ms=1_500).compaction()
    assert limits.max_age is not None
    assert limits.max_age.total_seconds() == 1.5
