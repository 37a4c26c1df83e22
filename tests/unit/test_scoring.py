"""Scores: recency halves with each half-life, and the composite is a weighted mean in 0..1."""

import json
import math
from datetime import UTC, datetime, timedelta, timezone, tzinfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memoriale.domain.errors import InputError
from memoriale.domain.scoring import DEFAULT_WEIGHTS, compute_composite_score, recency_decay

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
AGES = st.floats(-40_000, 40_000)
HALF_LIVES = st.floats(min_value=5e-324, max_value=1e9) | st.just(math.inf)
NUMBERS = st.floats() | st.none()
WEIGHTS = st.floats(0, 1e300)


class NoOffset(tzinfo):
    """A zone that does not know its offset, which makes a time naive."""

    def utcoffset(self, when: datetime | None) -> timedelta | None:
        return None

    def dst(self, when: datetime | None) -> timedelta | None:
        return None

    def tzname(self, when: datetime | None) -> str:
        return "unknown"


def days_ago(days: float) -> datetime:
    return NOW - timedelta(days=days)


@pytest.mark.parametrize(
    ("age", "value"), [(0, 1.0), (30, 0.5), (60, 0.25), (15, 2**-0.5), (-30, 1.0)]
)
def test_recency_halves_every_30_days(age: float, value: float) -> None:
    """Recency is 2 to the power of minus age over 30 days, and 1 for the future."""
    assert recency_decay(days_ago(age), NOW) == pytest.approx(value)


@given(AGES, HALF_LIVES)
def test_recency_lies_in_0_to_1(age: float, half_life: float) -> None:
    """Recency lies in 0..1 for every age and half-life."""
    assert 0.0 <= recency_decay(days_ago(age), NOW, half_life) <= 1.0


@given(AGES, AGES, HALF_LIVES)
def test_recency_never_grows_with_age(age: float, other: float, half_life: float) -> None:
    """The older of two memories is never the more recent one."""
    young, old = sorted((age, other))
    newer = recency_decay(days_ago(young), NOW, half_life)
    assert newer >= recency_decay(days_ago(old), NOW, half_life)


@given(AGES, HALF_LIVES, HALF_LIVES)
def test_recency_never_shrinks_with_the_half_life(age: float, one: float, other: float) -> None:
    """A longer half-life never makes a memory less recent."""
    short, long = sorted((one, other))
    created_at = days_ago(age)
    assert recency_decay(created_at, NOW, long) >= recency_decay(created_at, NOW, short)


def test_recency_counts_instants_not_clock_faces() -> None:
    """Two spellings of one instant have the same recency."""
    tokyo = timezone(timedelta(hours=9))
    created_at = days_ago(3)
    assert recency_decay(created_at.astimezone(tokyo), NOW) == recency_decay(created_at, NOW)


@pytest.mark.parametrize(
    "half_life", [0, -1, -math.inf, math.nan, "30", None, pytest.param(10**400, id="huge")]
)
def test_a_half_life_is_a_number_above_0(half_life: float) -> None:
    """A half-life that is no number above 0 is refused by name, and the error is valid JSON."""
    with pytest.raises(InputError) as refused:
        recency_decay(NOW, NOW, half_life)
    assert (refused.value.code, refused.value.field) == ("out_of_range", "half_life_days")
    assert json.dumps(refused.value.as_dict(), allow_nan=False)


@pytest.mark.parametrize("zone", [None, NoOffset()])
@pytest.mark.parametrize("field", ["created_at", "now"])
def test_naive_times_are_refused(field: str, zone: tzinfo | None) -> None:
    """A time without an offset is refused under the name of its argument."""
    times = {"created_at": NOW, "now": NOW, field: NOW.replace(tzinfo=zone)}
    with pytest.raises(InputError) as refused:
        recency_decay(times["created_at"], times["now"])
    assert (refused.value.code, refused.value.field) == ("naive_datetime", field)


def test_a_fresh_memory_of_which_nothing_is_known_scores_065() -> None:
    """Unknown similarity and importance count 0.5, so a fresh memory scores 0.65."""
    assert compute_composite_score(created_at=NOW, now=NOW) == pytest.approx(0.65)


def test_the_default_weights_are_those_of_the_reference() -> None:
    """Similarity counts 0.4, recency and importance 0.3 each."""
    assert DEFAULT_WEIGHTS == {"semantic": 0.4, "recency": 0.3, "importance": 0.3}
    score = compute_composite_score(
        created_at=days_ago(30), now=NOW, semantic_similarity=1.0, importance=0.2
    )
    assert score == pytest.approx(0.4 + 0.3 * 0.5 + 0.3 * 0.2)


def test_given_weights_are_merged_over_the_defaults() -> None:
    """A weight that is not given keeps its default, and the sum is divided out."""
    score = compute_composite_score(
        created_at=NOW, now=NOW, semantic_similarity=0.0, importance=1.0, weights={"semantic": 1}
    )
    assert score == pytest.approx(0.6 / 1.6)


@given(AGES, NUMBERS, NUMBERS, WEIGHTS, WEIGHTS, WEIGHTS)
@example(0.0, 1.0, 1.0, 0.1, 0.2, 0.3)
@example(0.0, 1.0, 1.0, 0.4, 0.3, 0.3)
@example(0.0, 1.0, 1.0, 5e-324, 5e-324, 5e-324)
def test_a_composite_lies_in_0_to_1(
    age: float,
    similarity: float | None,
    importance: float | None,
    semantic: float,
    recency: float,
    weight: float,
) -> None:
    """Whatever goes in, not-a-number included, the composite lies in 0..1."""
    weights = {"semantic": semantic, "recency": recency, "importance": weight}
    if not any(weights.values()):
        return
    score = compute_composite_score(
        created_at=days_ago(age),
        now=NOW,
        semantic_similarity=similarity,
        importance=importance,
        weights=weights,
    )
    assert 0.0 <= score <= 1.0


@given(st.floats(-1, 2), st.floats(-1, 2))
def test_a_composite_never_falls_with_similarity_or_importance(one: float, other: float) -> None:
    """More similar or more important never scores lower."""
    low, high = sorted((one, other))
    for name in ("semantic_similarity", "importance"):
        scores = [
            compute_composite_score(created_at=NOW, now=NOW, **{name: value})  # type: ignore[arg-type]
            for value in (low, high)
        ]
        assert scores == sorted(scores)


@pytest.mark.parametrize(
    "weights",
    [
        {"similarity": 1.0},
        {"semantic": -0.1},
        {"semantic": math.nan},
        {"recency": math.inf},
        {"semantic": 0, "recency": 0, "importance": 0},
        {"semantic": "1"},
        {"semantic": None},
    ],
)
def test_weights_that_mean_nothing_are_refused(weights: dict[str, float]) -> None:
    """Unknown, negative, infinite and non-numeric weights, and a sum of 0, are refused by name."""
    with pytest.raises(InputError) as refused:
        compute_composite_score(created_at=NOW, now=NOW, weights=weights)
    error = refused.value
    assert (error.code, error.field) == ("out_of_range", "weights")
    assert error.allowed == ["importance", "recency", "semantic"]
    assert json.dumps(error.as_dict(), allow_nan=False)
