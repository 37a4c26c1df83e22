"""Compaction: which facts go, what takes their place, and counts that add up."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoriale.adapters.library.resources.compaction import compact_semantic_memory
from memoriale.domain.errors import ConflictError, InputError, MemoryCapabilityError
from memoriale.domain.resources.compaction import (
    CompactionOptions,
    CompactionResult,
    plan_compaction,
    with_summaries,
)
from memoriale.domain.resources.facts import MemoryFact, RememberedFact
from tests.fixtures.resource_memory import REF, PlainSemantic, PrunableSemantic, aged, semantic

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def planted(provider: Any, count: int) -> list[RememberedFact]:
    return [provider.remember(REF, MemoryFact(content=f"fact {i}")) for i in range(count)]


def texts(provider: Any) -> list[str]:
    return [fact.content for fact in provider.list_all(REF)]


def days(*ages: float) -> list[RememberedFact]:
    """Facts of so many days, oldest first."""
    return [aged(f"{age}", NOW - timedelta(days=age)) for age in sorted(ages, reverse=True)]


def test_without_a_limit_nothing_goes() -> None:
    """Nothing is retired, and ``summarize`` is not called."""
    provider = semantic()
    planted(provider, 3)
    result = compact_semantic_memory(provider, REF, summarize=lambda facts: 1 / 0)  # type: ignore[arg-type,return-value]
    assert result == CompactionResult(removed=0, remaining=3, summarized=0)


def test_the_oldest_go() -> None:
    """Of five facts the newest two are left when two may be."""
    provider = semantic()
    planted(provider, 5)
    result = compact_semantic_memory(provider, REF, max_facts=2)
    assert result == CompactionResult(removed=3, remaining=2, summarized=0)
    assert texts(provider) == ["fact 3", "fact 4"]


def test_age_comes_first_and_then_the_cap() -> None:
    """What is strictly older goes; a fact of exactly the age stays; the cap is for the rest."""
    plan = plan_compaction(days(1, 2, 3, 4, 5), CompactionOptions(max_age=timedelta(days=3)), NOW)
    assert [fact.content for fact in plan.retired] == ["5", "4"]
    both = CompactionOptions(max_age=timedelta(days=3), max_facts=2)
    plan = plan_compaction(days(1, 2, 3, 4, 5), both, NOW)
    assert [fact.content for fact in plan.kept] == ["2", "1"]


def test_ages_are_counted_to_now() -> None:
    """``now`` is what ages are counted to, as a time or as text."""
    provider = semantic()
    planted(provider, 2)
    later = datetime.now(UTC) + timedelta(days=8)
    week = timedelta(days=7)
    assert compact_semantic_memory(provider, REF, max_age=week).removed == 0
    told = compact_semantic_memory(provider, REF, max_age=week, now=later.isoformat())
    assert told == CompactionResult(removed=2, remaining=0, summarized=0)


def test_a_summary_takes_the_place_of_what_goes() -> None:
    """It counts against the cap, and is given what goes from the oldest on."""
    provider, seen = semantic(), []

    def summarize(facts: Sequence[RememberedFact]) -> list[str]:
        seen.append([fact.content for fact in facts])
        return ["summary of " + ", ".join(fact.content for fact in facts)]

    planted(provider, 5)
    result = compact_semantic_memory(provider, REF, max_facts=3, summarize=summarize)
    assert result == CompactionResult(removed=3, remaining=3, summarized=1)
    assert seen == [["fact 0", "fact 1", "fact 2"]]
    assert texts(provider) == ["fact 3", "fact 4", "summary of fact 0, fact 1, fact 2"]


def test_more_texts_than_fit_take_more_facts_with_them() -> None:
    """All that go are summarized anew, so no fact is lost unsummarized and the cap holds."""
    provider, calls = semantic(), []

    def summarize(facts: Sequence[RememberedFact]) -> list[str]:
        calls.append(len(facts))
        return ["one", "two", "three"]

    planted(provider, 10)
    result = compact_semantic_memory(provider, REF, max_facts=5, summarize=summarize)
    assert result == CompactionResult(removed=8, remaining=5, summarized=3)
    assert calls == [6, 8]
    assert texts(provider) == ["fact 8", "fact 9", "one", "two", "three"]


def test_a_summary_that_raises_changes_nothing() -> None:
    """The error comes through, and every fact is there."""
    provider = semantic()
    planted(provider, 3)

    def summarize(facts: Sequence[RememberedFact]) -> list[str]:
        raise TimeoutError("the model is away")

    with pytest.raises(TimeoutError):
        compact_semantic_memory(provider, REF, max_facts=1, summarize=summarize)
    assert texts(provider) == ["fact 0", "fact 1", "fact 2"]


@pytest.mark.parametrize("made", ["text", None, [""], [1], ["a"] * 4, ["a", "  "]])
def test_what_is_no_list_of_texts_changes_nothing(made: Any) -> None:
    """A text alone, a blank one, or more texts than facts may be left is refused."""
    provider = semantic()
    planted(provider, 5)
    with pytest.raises(InputError):
        compact_semantic_memory(provider, REF, max_facts=3, summarize=lambda facts: made)
    assert len(texts(provider)) == 5


@pytest.mark.parametrize(
    "limits",
    [
        {"max_facts": -1},
        {"max_facts": True},
        {"max_facts": 0, "summarize": lambda facts: []},
        {"max_age": timedelta(seconds=-1)},
        {"max_age": 5},
        {"summarize": "me"},
        {"now": datetime(2030, 1, 1)},
    ],
)
def test_a_wrong_limit_is_refused(limits: dict[str, Any]) -> None:
    """Before anything is read."""
    with pytest.raises(InputError):
        compact_semantic_memory(semantic(), REF, **limits)


def test_a_dry_run_changes_nothing() -> None:
    """It says what would go, and calls no model."""
    provider = semantic()
    planted(provider, 3)
    told = compact_semantic_memory(
        provider,
        REF,
        max_facts=2,
        summarize=lambda facts: 1 / 0,  # type: ignore[arg-type,return-value]
        dry_run=True,
    )
    assert told.removed == 2
    assert len(texts(provider)) == 3


def test_a_provider_that_cannot_forget_is_refused() -> None:
    """The error names the capability."""
    with pytest.raises(MemoryCapabilityError) as refused:
        compact_semantic_memory(PlainSemantic(), REF, max_facts=1)
    assert refused.value.capability == "prunable"


def test_a_provider_that_replaces_nothing_is_compacted_too() -> None:
    """What is new is stored first, then the others are forgotten."""
    provider = PrunableSemantic()
    planted(provider, 4)
    result = compact_semantic_memory(provider, REF, max_facts=2, summarize=lambda facts: ["s"])
    assert result == CompactionResult(removed=3, remaining=2, summarized=1)
    assert texts(provider) == ["fact 3", "s"]


def test_facts_that_others_retired_meanwhile_are_looked_at_again() -> None:
    """Two compactions at once leave one summary: the slower one begins anew."""
    provider, calls = semantic(), []
    made = planted(provider, 4)

    def summarize(facts: Sequence[RememberedFact]) -> list[str]:
        calls.append([fact.content for fact in facts])
        if len(calls) == 1:
            provider.forget(REF, [made[0].id])
        return ["summary"]

    result = compact_semantic_memory(provider, REF, max_facts=2, summarize=summarize)
    assert calls == [["fact 0", "fact 1", "fact 2"], ["fact 1", "fact 2"]]
    assert result == CompactionResult(removed=2, remaining=2, summarized=1)
    assert texts(provider) == ["fact 3", "summary"]


def test_it_gives_up_when_others_are_always_faster() -> None:
    """After five tries the conflict comes through; nothing was changed."""
    provider, tries = semantic(), []
    planted(provider, 20)

    def summarize(facts: Sequence[RememberedFact]) -> list[str]:
        tries.append(1)
        provider.forget(REF, [facts[0].id])
        return ["never"]

    with pytest.raises(ConflictError):
        compact_semantic_memory(provider, REF, max_facts=2, summarize=summarize)
    assert len(tries) == 5
    assert "never" not in texts(provider)


@given(
    ages=st.lists(st.integers(0, 20), max_size=12),
    most=st.none() | st.integers(1, 10),
    age=st.none() | st.integers(0, 20),
    made=st.integers(0, 4),
)
def test_counts_add_up(ages: list[int], most: int | None, age: int | None, made: int) -> None:
    """Before = removed + remaining − summarized; the cap holds; nothing too old is left."""
    options = CompactionOptions(
        max_facts=most,
        max_age=None if age is None else timedelta(days=age),
        summarize=lambda facts: ["s"] * min(made, most or made),
    )
    plan = with_summaries(plan_compaction(days(*ages), options, NOW), options)
    result = plan.result()
    assert len(ages) == result.removed + result.remaining - result.summarized
    assert most is None or result.remaining <= most
    assert age is None or all(NOW - fact.remembered_at <= timedelta(age) for fact in plan.kept)
    assert bool(plan.replacements) <= bool(plan.retired)
