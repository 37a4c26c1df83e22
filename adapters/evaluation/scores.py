"""Recall at k and latencies."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, Final

CUTOFFS: Final = (1, 5, 10, 20)
SCORED_CATEGORIES: Final = (1, 2, 3, 4)
CATEGORY_NAMES: Final = {1: "multi-hop", 2: "temporal", 3: "commonsense", 4: "single-hop"}


@dataclass(frozen=True, slots=True)
class Answered:
    """
    One question with what was recalled for it.

    Args:
        category: 1 to 4.
        evidence: Ids of the turns that answer it; at least one.
        recalled: Ids of the turns that were recalled, best first.
        seconds: How long that took.
    """

    category: int
    evidence: tuple[str, ...]
    recalled: tuple[str, ...]
    seconds: float

    def recall_at(self, k: int) -> float:
        """The share of the evidence among the first ``k``, 0..1."""
        return len(set(self.evidence) & set(self.recalled[:k])) / len(set(self.evidence))


def cutoffs(top_k: int) -> tuple[int, ...]:
    """Those of 1, 5, 10 and 20 that are at most ``top_k``."""
    return tuple(k for k in CUTOFFS if k <= top_k)


def summary(answered: Sequence[Answered], top_k: int) -> dict[str, Any]:
    """
    Mean recall at each cut-off over all questions, the same by category, and latencies in
    milliseconds.

    Args:
        answered: At least one question.
        top_k: How many were recalled for each.
    """
    seconds = sorted(answer.seconds for answer in answered)
    return {
        **_means(answered, top_k),
        "by_category": {
            CATEGORY_NAMES[category]: _means(chosen, top_k)
            for category in SCORED_CATEGORIES
            if (chosen := [a for a in answered if a.category == category])
        },
        "p50_ms": round(_percentile(seconds, 0.50) * 1000, 3),
        "p95_ms": round(_percentile(seconds, 0.95) * 1000, 3),
    }


def _means(answered: Iterable[Answered], top_k: int) -> dict[str, Any]:
    answers = list(answered)
    scores = {
        f"recall@{k}": round(sum(a.recall_at(k) for a in answers) / len(answers), 4)
        for k in cutoffs(top_k)
    }
    return {"questions": len(answers), **scores}


def _percentile(ordered: Sequence[float], share: float) -> float:
    # Nearest rank: a value that was measured, not one between two.
    return ordered[max(0, ceil(len(ordered) * share) - 1)]
