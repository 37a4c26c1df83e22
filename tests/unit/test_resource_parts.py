"""What those get who bring a provider of their own: names, rows, vectors, capabilities."""

import math
from datetime import UTC, datetime
from typing import Any

import pytest

from memoriale import (
    MemoryFact,
    RememberedFact,
    ResourceRef,
    SourceRef,
    Verification,
    cosine_similarity,
    fact_from_row,
    is_bulk_rememberable,
    is_prunable,
    scope_key,
)
from memoriale.domain.errors import InputError

ROW = {"id": 7, "content": "Ada owns billing", "remembered_at": 1_700_000_000_000}
THEN = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


def test_a_resource_is_named_by_ids_and_an_empty_team_is_none() -> None:
    """Its key is its ``scope_key``; what cannot be an id is refused by its field."""
    assert ResourceRef("a:b", "red").key == scope_key("a:b", "red")
    assert ResourceRef("a", "") == ResourceRef("a") != ResourceRef("a", "red")
    wrong: list[tuple[Any, Any, str]] = [
        ("", None, "resource_id"),
        (" ", None, "resource_id"),
        (7, None, "resource_id"),
        ("a", " ", "team_id"),
        ("a", 7, "team_id"),
        ("x" * 257, None, "resource_id"),
        ("x" * 200, "y" * 200, "resource_id"),
    ]
    for resource, team, field in wrong:
        with pytest.raises(InputError) as refused:
            ResourceRef(resource, team)
        assert refused.value.field == field


def test_the_cosine_tells_how_near_two_vectors_are() -> None:
    """1 for one direction whatever the lengths, -1 for the opposite, 0 for a right angle and for
    a vector that says nothing."""
    tiny, huge = 1e-200, 1e200
    assert cosine_similarity([tiny, 0.0], [huge, 0.0]) == 1.0
    assert cosine_similarity([0.0, 1.0], [0.0, -2.0]) == -1.0
    assert cosine_similarity([1.0, 0.0], [0.0, 5.0]) == 0.0
    assert cosine_similarity([0.0, 0.0], [1.0, 1.0]) == 0.0
    assert cosine_similarity([1.0, 0.0], [1.0, 1.0]) == pytest.approx(math.sqrt(0.5))


@pytest.mark.parametrize(
    ("a", "b", "field"),
    [
        ([1.0], [1.0, 0.0], "b"),
        ([math.nan, 0.0], [1.0, 0.0], "a"),
        ([1.0, 0.0], [math.inf, 0.0], "b"),
    ],
)
def test_vectors_that_cannot_be_compared_are_refused(
    a: list[float], b: list[float], field: str
) -> None:
    """Two widths, NaN and infinity give an error and no number."""
    with pytest.raises(InputError) as refused:
        cosine_similarity(a, b)
    assert (refused.value.code, refused.value.field) == ("bad_vectors", field)


@pytest.mark.parametrize(
    "time", [1_700_000_000_000, "2023-11-14T22:13:20Z", "2023-11-14T23:13:20+01:00", THEN]
)
def test_a_row_becomes_a_fact_that_nobody_has_looked_up(time: object) -> None:
    """With a source it is ``unchecked``, not verified, whatever else the row says of it."""
    bare = fact_from_row({**ROW, "remembered_at": time}, score=0.5)
    assert (bare.id, bare.content, bare.remembered_at) == ("7", "Ada owns billing", THEN)
    assert (bare.score, bare.source_ref, bare.verified) == (0.5, None, False)
    assert bare.verification is Verification.UNSOURCED
    named = {"source_sandbox_id": "run-1", "source_entry_index": 4, "evidence": "Ada"}
    sourced = fact_from_row({**ROW, **named, "verified": True, "more": 1})
    assert (sourced.source_ref, sourced.evidence) == (SourceRef("run-1", 4), "Ada")
    assert (sourced.verification, sourced.verified) == (Verification.UNCHECKED, False)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"id": None}, "id"),
        ({"content": None}, "content"),
        ({"remembered_at": None}, "remembered_at"),
        ({"remembered_at": datetime(2023, 11, 14)}, "remembered_at"),
        ({"remembered_at": 1e30}, "remembered_at"),
        ({"source_sandbox_id": "run-1"}, "source_entry_index"),
        ({"source_entry_index": 4}, "source_sandbox_id"),
    ],
)
def test_a_row_that_is_no_fact_is_refused_by_its_column(
    change: dict[str, object], field: str
) -> None:
    """A column that is missing, holds something else, or is half a source."""
    row = {k: v for k, v in {**ROW, **change}.items() if v is not None}
    with pytest.raises(InputError) as refused:
        fact_from_row(row)
    assert refused.value.field == field


class Remembering:
    """The two methods that every provider of facts has."""

    def remember(self, ref: ResourceRef, fact: MemoryFact) -> RememberedFact:
        raise NotImplementedError

    def recall(self, ref: ResourceRef, query: str, *, top_k: int = 5) -> list[RememberedFact]:
        raise NotImplementedError


class Pruning(Remembering):
    """Lists and forgets besides."""

    def list_all(self, ref: ResourceRef) -> list[RememberedFact]:
        raise NotImplementedError

    def list_recent(self, ref: ResourceRef, limit: int = 100) -> list[RememberedFact]:
        raise NotImplementedError

    def forget(self, ref: ResourceRef, ids: list[str]) -> int:
        raise NotImplementedError


class Bulk(Remembering):
    """Stores many at once besides."""

    def remember_many(self, ref: ResourceRef, facts: list[MemoryFact]) -> list[RememberedFact]:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("provider", "prunable", "bulk"),
    [
        (Remembering(), False, False),
        (Pruning(), True, False),
        (Bulk(), False, True),
        (object(), False, False),
        (None, False, False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_a_provider_can_do_is_told_by_its_methods(
    provider: object, prunable: bool, bulk: bool
) -> None:
    """Nothing has to be inherited or declared."""
    assert (is_prunable(provider), is_bulk_rememberable(provider)) == (prunable, bulk)
