"""What every provider of semantic memory must do."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from memoriale.domain.errors import ConflictError, InputError
from memoriale.domain.resources.facts import MemoryFact, SourceRef, Verification
from memoriale.domain.resources.providers import (
    BulkSemanticMemoryProvider,
    ForkingProvider,
    PrunableSemanticMemoryProvider,
    ReplacingSemanticMemoryProvider,
    SemanticMemoryProvider,
    is_bulk_rememberable,
    is_prunable,
)
from memoriale.domain.resources.ref import ResourceRef

REF = ResourceRef("build-7")
TEXTS = [
    "The deployment runs on Tuesdays",
    "Ada owns the billing service",
    "The staging database is in Oslo",
    "Tests need two processors",
]


def facts(*texts: str) -> list[MemoryFact]:
    """Facts without a source."""
    return [MemoryFact(content=text) for text in texts]


def contents(found: Sequence[MemoryFact]) -> list[str]:
    """What facts say, in their order."""
    return [fact.content for fact in found]


class SemanticMemoryContract:
    """
    Subclass it as ``class TestMine(SemanticMemoryContract)``, with a fixture ``provider`` that
    gives a new, empty provider. What the provider cannot do is skipped, and said.
    """

    @pytest.fixture
    def provider(self) -> SemanticMemoryProvider | Iterator[SemanticMemoryProvider]:
        """The provider to be held against the contract."""
        raise NotImplementedError("give a fixture `provider`")

    def test_a_fact_is_stored_with_its_source(self, provider: SemanticMemoryProvider) -> None:
        """It gets an id and a time, and comes back with source and evidence."""
        before = datetime.now(UTC) - timedelta(minutes=1)
        fact = MemoryFact(content=TEXTS[0], source_ref=SourceRef("s1", 3), evidence="Tuesdays")
        made = provider.remember(REF, fact)
        [found] = provider.recall(REF, TEXTS[0])
        assert (found.id, found.content) == (made.id, TEXTS[0])
        assert (found.source_ref, found.evidence) == (SourceRef("s1", 3), "Tuesdays")
        assert found.remembered_at.utcoffset() == timedelta(0)
        assert before < found.remembered_at < datetime.now(UTC) + timedelta(minutes=1)

    def test_a_source_is_not_believed(self, provider: SemanticMemoryProvider) -> None:
        """A fact with a source that nobody looked up, or that is not there, is not verified."""
        provider.remember(REF, MemoryFact(content="a", source_ref=SourceRef("nobody", 9_999_999)))
        provider.remember(REF, MemoryFact(content="b"))
        found = {f.content: f for f in provider.recall(REF, "a b")}
        assert found["a"].verification in (Verification.UNCHECKED, Verification.NOT_FOUND)
        assert found["b"].verification is Verification.UNSOURCED
        assert not any(fact.verified for fact in found.values())

    def test_the_fact_itself_is_found_first(self, provider: SemanticMemoryProvider) -> None:
        """Asked with its own words each fact comes first; scores fall and are 0..1."""
        for fact in facts(*TEXTS):
            provider.remember(REF, fact)
        for text in TEXTS:
            found = provider.recall(REF, text)
            scores = [fact.score for fact in found]
            assert found[0].content == text
            assert all(score is not None and 0 <= score <= 1 for score in scores)
            assert scores == sorted(scores, reverse=True, key=lambda score: score or 0)

    def test_a_recall_gives_as_many_as_asked_for(self, provider: SemanticMemoryProvider) -> None:
        """5 unless told otherwise, 1 to 100 at most."""
        for number in range(7):
            provider.remember(REF, MemoryFact(content=f"note {number} about the harbour"))
        assert len(provider.recall(REF, "harbour")) == 5
        assert len(provider.recall(REF, "harbour", top_k=2)) == 2
        assert len(provider.recall(REF, "harbour", top_k=100)) == 7
        for wrong in (0, 101):
            with pytest.raises(InputError):
                provider.recall(REF, "harbour", top_k=wrong)

    def test_nothing_is_recalled_of_nothing(self, provider: SemanticMemoryProvider) -> None:
        """A resource without facts answers with none; an empty question is refused."""
        assert list(provider.recall(REF, "anything")) == []
        with pytest.raises(InputError):
            provider.recall(REF, " ")

    def test_a_small_resource_among_many_gets_all_its_facts(
        self, provider: SemanticMemoryProvider
    ) -> None:
        """Hundreds of nearer facts of other resources take no place of a resource's own."""
        bulk = _bulk(provider)
        for number in range(3):
            near = facts(*(f"the harbour, copy {number} {i}" for i in range(100)))
            bulk.remember_many(ResourceRef(f"other-{number}"), near)
        bulk.remember_many(REF, facts(*TEXTS, "a mooring in the harbour"))
        bulk.remember_many(ResourceRef("build-7", "red"), facts("the harbour"))
        found = provider.recall(REF, "the harbour", top_k=5)
        assert sorted(contents(found)) == sorted([*TEXTS, "a mooring in the harbour"])
        assert len(provider.recall(ResourceRef("other-1"), "the harbour", top_k=100)) == 100

    def test_all_or_none_are_stored(self, provider: SemanticMemoryProvider) -> None:
        """Many facts are stored in their order; with a wrong one among them none is."""
        bulk, prunable = _bulk(provider), _prunable(provider)
        made = bulk.remember_many(REF, facts(*TEXTS))
        assert contents(made) == TEXTS
        assert [fact.id for fact in prunable.list_all(REF)] == [fact.id for fact in made]
        assert list(bulk.remember_many(REF, [])) == []
        wrong: Any = [*facts("new"), "no fact"]
        with pytest.raises(InputError):
            bulk.remember_many(REF, wrong)
        assert contents(prunable.list_all(REF)) == TEXTS

    def test_facts_are_listed_by_age(self, provider: SemanticMemoryProvider) -> None:
        """All from the oldest on; the recent ones from the newest on."""
        prunable = _prunable(provider)
        for fact in facts(*TEXTS):
            provider.remember(REF, fact)
        assert contents(prunable.list_all(REF)) == TEXTS
        assert contents(prunable.list_recent(REF)) == TEXTS[::-1]
        assert contents(prunable.list_recent(REF, 2)) == TEXTS[:1:-1]
        for wrong in (0, 1_001):
            with pytest.raises(InputError):
                prunable.list_recent(REF, wrong)

    def test_the_same_text_twice_is_two_facts(self, provider: SemanticMemoryProvider) -> None:
        """Nothing is merged by itself."""
        first, second = (provider.remember(REF, MemoryFact(content="same")) for _ in range(2))
        assert first.id != second.id
        assert [fact.id for fact in provider.recall(REF, "same")] == [first.id, second.id]

    def test_forgetting_counts_what_was_there(self, provider: SemanticMemoryProvider) -> None:
        """What is forgotten is found no more; an unknown id, or one twice, counts once or not."""
        prunable = _prunable(provider)
        assert prunable.forget(REF, [_ID]) == 0
        made = [provider.remember(REF, fact) for fact in facts(*TEXTS)]
        assert prunable.forget(ResourceRef("other"), [made[0].id]) == 0
        assert prunable.forget(REF, [made[0].id, made[0].id, _ID, made[2].id]) == 2
        assert prunable.forget(REF, [made[0].id]) == 0
        assert contents(prunable.list_all(REF)) == [TEXTS[1], TEXTS[3]]
        assert sorted(contents(provider.recall(REF, TEXTS[0]))) == [TEXTS[1], TEXTS[3]]
        provider.remember(REF, MemoryFact(content=TEXTS[0]))
        assert contents(provider.recall(REF, TEXTS[0], top_k=1)) == [TEXTS[0]]

    def test_replacing_is_one_step(self, provider: SemanticMemoryProvider) -> None:
        """The new facts stand in the place of the old; with one gone nothing is changed."""
        replacing, prunable = _replacing(provider), _prunable(provider)
        made = [provider.remember(REF, fact) for fact in facts(*TEXTS)]
        count, new = replacing.replace(REF, [made[0].id, made[1].id], facts("both in one"))
        assert (count, contents(new)) == (2, ["both in one"])
        expected = [*TEXTS[2:], "both in one"]
        assert contents(prunable.list_all(REF)) == expected
        with pytest.raises(ConflictError):
            replacing.replace(REF, [made[0].id, made[2].id], facts("never"))
        wrong: Any = [*facts("never"), 1]
        with pytest.raises(InputError):
            replacing.replace(REF, [made[2].id], wrong)
        assert contents(prunable.list_all(REF)) == expected
        assert contents(provider.recall(REF, "both in one", top_k=1)) == ["both in one"]

    def test_a_fork_has_what_the_parent_had(self, provider: SemanticMemoryProvider) -> None:
        """The child recalls the parent's facts with their times; each goes its way from then."""
        forking, prunable, child = _forking(provider), _prunable(provider), ResourceRef("child")
        made = [provider.remember(REF, fact) for fact in facts(*TEXTS)]
        forking.fork(REF, child)
        provider.remember(REF, MemoryFact(content="only the parent"))
        prunable.forget(REF, [made[0].id])
        inherited = prunable.list_all(child)
        assert contents(inherited) == TEXTS
        assert [f.remembered_at for f in inherited] == [f.remembered_at for f in made]
        assert contents(provider.recall(child, TEXTS[0], top_k=1)) == TEXTS[:1]
        assert forking.inherited(REF, child) == 4
        provider.remember(child, MemoryFact(content="only the child"))
        assert prunable.forget(child, [inherited[1].id]) == 1
        assert forking.inherited(REF, child) == 3
        assert "only the child" not in contents(prunable.list_all(REF))
        assert TEXTS[1] in contents(prunable.list_all(REF))

    def test_forks_of_forks_recall_correctly(self, provider: SemanticMemoryProvider) -> None:
        """A grandchild has what the child had, and nothing that came later."""
        forking, child, grandchild = _forking(provider), ResourceRef("c"), ResourceRef("g")
        provider.remember(REF, MemoryFact(content="from the parent"))
        forking.fork(REF, child)
        provider.remember(child, MemoryFact(content="from the child"))
        provider.remember(REF, MemoryFact(content="too late"))
        forking.fork(child, grandchild)
        found = contents(provider.recall(grandchild, "from the parent child late"))
        assert sorted(found) == ["from the child", "from the parent"]
        assert forking.inherited(child, grandchild) == 2

    def test_a_fork_overwrites_nothing(self, provider: SemanticMemoryProvider) -> None:
        """A child that has a fact is refused, and keeps what it has."""
        forking, child = _forking(provider), ResourceRef("child")
        provider.remember(REF, MemoryFact(content="a"))
        provider.remember(child, MemoryFact(content="b"))
        with pytest.raises(ConflictError):
            forking.fork(REF, child)
        assert contents(provider.recall(child, "a b")) == ["b"]

    @pytest.mark.parametrize("fact", ["text", None, {"content": "a"}])
    def test_what_is_no_fact_is_refused(self, provider: SemanticMemoryProvider, fact: Any) -> None:
        """Nothing is stored."""
        with pytest.raises(InputError):
            provider.remember(REF, fact)
        assert list(provider.recall(REF, "text a")) == []


_ID = "00000000-0000-4000-8000-000000000000"


def _prunable(provider: object) -> PrunableSemanticMemoryProvider:
    if not is_prunable(provider):
        pytest.skip("the provider lists and forgets nothing")
    return provider


def _bulk(provider: object) -> BulkSemanticMemoryProvider:
    if not is_bulk_rememberable(provider):
        pytest.skip("the provider stores one fact at a time")
    return provider


def _replacing(provider: object) -> ReplacingSemanticMemoryProvider:
    if not isinstance(provider, ReplacingSemanticMemoryProvider):
        pytest.skip("the provider replaces nothing in one step")
    return provider


def _forking(provider: object) -> ForkingProvider:
    if not isinstance(provider, ForkingProvider):
        pytest.skip("the provider does not fork by itself")
    return provider
