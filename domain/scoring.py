"""How memories are scored: recency decay and the composite of similarity, recency, importance."""

import sys
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, TypedDict

from memoriale.domain.errors import InputError
from memoriale.domain.text import shown

DEFAULT_WEIGHTS: Final[Mapping[str, float]] = {
    "semantic": 0.4,
    "recency": 0.3,
    "importance": 0.3,
}
DEFAULT_HALF_LIFE_DAYS: Final = 30.0
NEUTRAL: Final = 0.5
_SECONDS_PER_DAY: Final = 86_400.0


class ScoringWeights(TypedDict, total=False):
    """How much each part of a composite score counts; a part that is left out has its default."""

    semantic: float
    recency: float
    importance: float


def recency_decay(
    created_at: datetime, now: datetime, half_life_days: float = DEFAULT_HALF_LIFE_DAYS
) -> float:
    """
    2 to the power of minus age over half-life, as in reference system A, but never above 1:
    there a time in the future scored more than the present.

    Args:
        created_at: When the memory was made; an aware time.
        now: When it is asked for; an aware time.
        half_life_days: Days after which the value is 0.5; above 0.

    Raises:
        InputError: A naive time or a half-life that is not above 0.
    """
    if not _is_number(half_life_days) or not half_life_days > 0:
        raise InputError(
            f"half_life_days is {shown(half_life_days)}; give a number above 0.",
            code="out_of_range",
            field="half_life_days",
            value=shown(half_life_days),
            allowed="> 0",
        )
    for field, time in (("created_at", created_at), ("now", now)):
        if time.utcoffset() is None:
            raise InputError(
                f"{field} has no UTC offset; give an aware time.",
                code="naive_datetime",
                field=field,
                value=time.isoformat(),
                allowed="a time with an offset",
            )
    age_days = max(0.0, (now - created_at).total_seconds() / _SECONDS_PER_DAY)
    return float(2.0 ** (-age_days / half_life_days))


def compute_composite_score(
    *,
    created_at: datetime,
    now: datetime,
    semantic_similarity: float | None = None,
    importance: float | None = None,
    weights: ScoringWeights | Mapping[str, float] | None = None,
    half_life_days: float = DEFAULT_HALF_LIFE_DAYS,
) -> float:
    """
    Weighted mean of similarity, recency and importance in 0..1, as in reference system A.

    Args:
        created_at: When the memory was made; an aware time.
        now: When it is asked for; an aware time.
        semantic_similarity: Cosine in 0..1; clamped; 0.5 when not known.
        importance: 0..1; clamped; 0.5 when not known.
        weights: Overrides of the defaults 0.4 semantic, 0.3 recency, 0.3 importance; the
            merged weights are divided by their sum.
        half_life_days: Days after which recency is 0.5.

    Raises:
        InputError: An unknown weight, a negative one, or weights that sum to 0.
    """
    merged = _merged(weights or {})
    total = sum(merged.values())
    score = (
        merged["semantic"] * _clamped(semantic_similarity)
        + merged["recency"] * recency_decay(created_at, now, half_life_days)
        + merged["importance"] * _clamped(importance)
    ) / total
    return min(1.0, score)


def _merged(weights: Mapping[str, Any]) -> dict[str, float]:
    merged = {**DEFAULT_WEIGHTS, **weights}
    wrong = set(merged) - set(DEFAULT_WEIGHTS)
    numbers = all(_is_number(weight) and weight >= 0 for weight in merged.values())
    if wrong or not numbers or not 0 < sum(merged.values()) < float("inf"):
        raise InputError(
            "weights must be numbers of 0 or more for semantic, recency and importance, "
            "not all of them 0.",
            code="out_of_range",
            field="weights",
            value=shown(weights),
            allowed=sorted(DEFAULT_WEIGHTS),
        )
    return merged


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    # An integer beyond the largest float cannot be reckoned with; infinity can.
    return value == value and (isinstance(value, float) or abs(value) <= sys.float_info.max)


def _clamped(value: float | None) -> float:
    return NEUTRAL if value is None else min(1.0, max(0.0, value))
