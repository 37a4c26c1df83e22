"""Vectors of facts: wrong ones are refused before anything is written, and models kept apart."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memoriale import (
    InMemorySemanticMemoryProvider,
    InputError,
    MemoryFact,
    ResourceRef,
    SQLiteSemanticMemoryProvider,
    UnavailableError,
    load_embeddings,
)
from tests.fixtures.embeddings import NotingEmbeddings

REF = ResourceRef("build-7")
Make = Callable[[Any], Any]


@pytest.fixture(params=["in memory", "with extension", "without extension"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """Makes a provider over embeddings; in SQLite all of a test have one file."""
    made: list[Any] = []

    def making(embeddings: Any) -> Any:
        if request.param == "in memory":
            return InMemorySemanticMemoryProvider(embeddings, tenant="acme")
        index = request.param == "with extension"
        made.append(
            SQLiteSemanticMemoryProvider(
                tmp_path / "m.db", embeddings, tenant="acme", vector_index=index
            )
        )
        return made[-1]

    yield making
    for provider in made:
        provider.close()


def facts(*texts: str) -> list[MemoryFact]:
    return [MemoryFact(content=text) for text in texts]


def boom(vectors: Any) -> Any:
    raise ConnectionError("no route to the model")


def with_number(number: float) -> Callable[[Any], Any]:
    return lambda vectors: [[*vector[:-1], number] for vector in vectors]


WRONG: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda vectors: None,
    "an empty list": lambda vectors: [],
    "empty vectors": lambda vectors: [[] for _ in vectors],
    "too few": lambda vectors: vectors[:-1],
    "too many": lambda vectors: [*vectors, vectors[0]],
    "one flat vector": lambda vectors: vectors[0],
    "several widths": lambda vectors: [vectors[0][:-1], *vectors[1:]],
    "too wide": lambda vectors: [[*vector, 0.5] for vector in vectors],
    "too narrow": lambda vectors: [vector[:-1] for vector in vectors],
    "NaN": with_number(math.nan),
    "infinity": with_number(math.inf),
    "text": lambda vectors: ["vector" for _ in vectors],
    "None inside": lambda vectors: [[None, *vector[1:]] for vector in vectors],
    "an error": boom,
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_vectors_are_refused_before_anything_is_written(make: Make, wrong: str) -> None:
    """By every call that asks the model; afterwards everything is as it was and goes on."""
    embeddings = NotingEmbeddings()
    provider = make(embeddings)
    [kept, _] = provider.remember_many(REF, facts("the first fact", "another"))
    embeddings.change = WRONG[wrong]
    calls: list[Callable[[], Any]] = [
        lambda: provider.remember_many(REF, facts("one", "two")),
        lambda: provider.replace(REF, [kept.id], facts("three", "four")),
    ]
    if wrong != "several widths":
        calls += [
            lambda: provider.recall(REF, "the first fact"),
            lambda: provider.remember(REF, facts("five")[0]),
        ]
    for call in calls:
        with pytest.raises(UnavailableError) as refused:
            call()
        assert refused.value.code == ("embedder_failed" if wrong == "an error" else "bad_vectors")
        assert refused.value.field == "embeddings"
    embeddings.change = None
    assert [fact.content for fact in provider.list_all(REF)] == ["the first fact", "another"]
    assert provider.recall(REF, "the first fact", top_k=1)[0].id == kept.id


@pytest.mark.parametrize("wrong", [w for w in WRONG if w not in ("too wide", "too narrow")])
def test_a_first_wrong_vector_fixes_nothing(make: Make, wrong: str) -> None:
    """A model whose first answer was no good is asked again as if nothing had been."""
    embeddings = NotingEmbeddings(change=WRONG[wrong])
    provider = make(embeddings)
    with pytest.raises(UnavailableError):
        provider.remember_many(REF, facts("one", "two"))
    embeddings.change = None
    provider.remember_many(REF, facts("one", "two"))
    assert len(provider.list_all(REF)) == 2


def test_the_model_is_told_what_it_embeds(make: Make) -> None:
    """Passages when facts are stored, all in one call; a query when they are asked."""
    embeddings = NotingEmbeddings()
    provider = make(embeddings)
    provider.remember_many(REF, facts("one", "two", "three"))
    provider.recall(REF, "one")
    assert embeddings.asked == [("passage", 3), ("query", 1)]


def test_the_model_is_not_asked_for_nothing(make: Make) -> None:
    """No fact to store, no fact to find and a fork call no model."""
    embeddings = NotingEmbeddings()
    provider = make(embeddings)
    provider.remember_many(REF, [])
    provider.recall(REF, "one")
    assert embeddings.asked == []
    provider.remember_many(REF, facts("one", "two"))
    provider.fork(REF, ResourceRef("child"))
    assert embeddings.asked == [("passage", 2)]


@pytest.mark.parametrize("size", [1e-300, 1e-30, 1e30, 1e300])
def test_vectors_of_any_length_are_compared_by_direction(make: Make, size: float) -> None:
    """Neither very small nor very large numbers lose the nearest fact or its score."""
    embeddings = NotingEmbeddings(change=lambda vectors: [[x * size for x in v] for v in vectors])
    provider = make(embeddings)
    provider.remember_many(REF, facts("the harbour", "a mooring", "the lighthouse keeper"))
    best = provider.recall(REF, "a mooring", top_k=1)[0]
    assert best.content == "a mooring"
    assert best.score == pytest.approx(1, abs=1e-5)


def test_a_text_that_the_model_knows_nothing_of_is_kept(make: Make) -> None:
    """Its vector of zeros is as near to everything as to nothing: score 0, and it is found."""
    provider = make(NotingEmbeddings())
    provider.remember_many(REF, facts("…", "the harbour", "—"))
    found = provider.recall(REF, "the harbour", top_k=3)
    assert [(fact.content, round(fact.score, 5)) for fact in found] == [
        ("the harbour", 1.0),
        ("…", 0.0),
        ("—", 0.0),
    ]
    assert [fact.content for fact in provider.recall(REF, "?!", top_k=2)] == ["…", "the harbour"]


@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize("width", [64, 32])
def test_vectors_of_two_models_are_never_compared(tmp_path: Path, index: bool, width: int) -> None:
    """Under a new id facts are embedded anew when they are asked, once; the old goes on too."""
    old, new = NotingEmbeddings("old"), NotingEmbeddings("new", width, lambda v: v[:])
    path = tmp_path / "m.db"
    with SQLiteSemanticMemoryProvider(path, old, tenant="acme", vector_index=index) as provider:
        provider.remember_many(REF, facts("the harbour", "a mooring"))
    with SQLiteSemanticMemoryProvider(path, new, tenant="acme", vector_index=index) as provider:
        assert provider.recall(REF, "a mooring", top_k=1)[0].content == "a mooring"
        assert new.asked == [("query", 1), ("passage", 2)]
        provider.remember(REF, facts("the lighthouse")[0])
        provider.recall(REF, "the lighthouse")
        assert new.asked == [("query", 1), ("passage", 2), ("passage", 1), ("query", 1)]
        assert provider.has_vector_index is index
    old.asked.clear()
    with SQLiteSemanticMemoryProvider(path, old, tenant="acme", vector_index=index) as provider:
        assert provider.recall(REF, "the lighthouse", top_k=1)[0].content == "the lighthouse"
        assert old.asked == [("query", 1), ("passage", 1)]
        provider.forget(REF, [fact.id for fact in provider.list_all(REF)])
    with SQLiteSemanticMemoryProvider(path, new, tenant="acme", vector_index=index) as provider:
        provider.remember(REF, facts("a new one")[0])
        assert [f.content for f in provider.recall(REF, "the harbour")] == ["a new one"]


def test_a_width_is_kept_in_the_file(tmp_path: Path) -> None:
    """The same id with another width is refused after a restart too, and nothing is written."""
    path = tmp_path / "m.db"
    with SQLiteSemanticMemoryProvider(path, NotingEmbeddings(), tenant="acme") as provider:
        provider.remember(REF, facts("one")[0])
    wrong = NotingEmbeddings(width=32)
    with SQLiteSemanticMemoryProvider(path, wrong, tenant="acme") as provider:
        with pytest.raises(UnavailableError, match="64"):
            provider.remember(REF, facts("two")[0])
        with pytest.raises(UnavailableError, match="64"):
            provider.recall(REF, "one")
        assert [fact.content for fact in provider.list_all(REF)] == ["one"]


@pytest.mark.parametrize("wrong", [None, object(), "wordllama"])
def test_what_makes_no_vectors_is_refused(tmp_path: Path, wrong: Any) -> None:
    """When the provider is made."""
    with pytest.raises(InputError) as refused:
        InMemorySemanticMemoryProvider(wrong, tenant="acme")
    assert refused.value.field == "embeddings"
    with pytest.raises(InputError):
        SQLiteSemanticMemoryProvider(tmp_path / "m.db", wrong, tenant="acme")
    with pytest.raises(InputError):
        InMemorySemanticMemoryProvider(NotingEmbeddings(id=""), tenant="acme")


def test_the_ledgers_models_make_vectors_for_providers() -> None:
    """Meaning, not words alone: with the default model."""
    provider = InMemorySemanticMemoryProvider(load_embeddings(), tenant="acme")
    provider.remember_many(
        REF, facts("The cat is asleep", "Stock prices fell sharply", "We sail from the harbour")
    )
    assert provider.recall(REF, "shares on the market", top_k=1)[0].content.startswith("Stock")
    assert "wordllama" in load_embeddings().id
    with pytest.raises(InputError):
        load_embeddings("nothing of the kind")
