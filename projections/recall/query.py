"""What recall is asked and what it answers."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from memoriale.domain.access import AccessScope
from memoriale.domain.branches import Line
from memoriale.domain.errors import InputError
from memoriale.domain.text import shown

RANKS: Final = ("relevance", "composite")
MOST_HITS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallQuery:
    """
    A question to the recall view.

    Args:
        text: The question as the caller wrote it; searched as words, never as an expression.
        lines: The branch that is read and its ancestors, nearest first, each with the index up
            to which it is seen and with whom its memories are visible to.
        now: When it is asked; memories that expired before are not found.
        valid_at: Time at which a memory must be true in the world.
        top_k: Most hits to return, 1 to 1,000.
        kinds: Kinds to find; empty: every kind that recall finds at all.
        namespaces: Tags (hexadecimal) of the namespaces that the caller sees from where it
            stands; None: all. A memory without a namespace is always found.
        tags: Tags that a memory must all have.
        owner: Whose memories alone; None: of everybody whose the caller sees.
        agent: The agent that they were recorded through; None: any, or none.
        min_score: Least similarity, 0..1; a hit whose similarity is not known is left out.
        min_rank_score: Least score, 0..1.
        rank: ``relevance``, or ``composite`` of similarity, recency and importance.
        vector_leg: Whether to search by vector; without, only by keyword.
        keyword_leg: Whether to search by keyword; without, only by vector.
        explain: Whether hits say what their score is made of.

    Raises:
        InputError: Another rank or ``top_k`` than allowed.
    """

    text: str
    lines: tuple[tuple[Line, AccessScope], ...]
    now: datetime
    valid_at: datetime
    top_k: int = 5
    kinds: tuple[str, ...] = ()
    namespaces: tuple[str, ...] | None = None
    tags: tuple[str, ...] = ()
    owner: UUID | None = None
    agent: UUID | None = None
    min_score: float | None = None
    min_rank_score: float | None = None
    rank: str = "relevance"
    vector_leg: bool = True
    keyword_leg: bool = True
    explain: bool = False

    def __post_init__(self) -> None:
        if self.rank not in RANKS:
            raise _refused("rank", self.rank, " or ".join(RANKS))
        if not 1 <= self.top_k <= MOST_HITS:
            raise _refused("top_k", self.top_k, f"1 to {MOST_HITS}")


@dataclass(frozen=True, slots=True)
class Explanation:
    """
    What a score is made of.

    Args:
        parts: Each part's value for the hit, 0..1: keyword, context, session, speaker, vector,
            near_vector; those that ran.
        weights: What each counts.
        ranks: The hit's place by each part alone, from 1; without those in which it is not found.
    """

    parts: dict[str, float]
    weights: dict[str, float]
    ranks: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """
    One memory that was found.

    Args:
        memory_id: Which memory.
        content: Its text as given.
        score: What hits are ordered by, 0..1.
        similarity: Cosine of question and content, 0..1; None when the vector leg did not run
            or the content has no vector.
        keyword: Keyword score divided by the best one of the answer, 0..1; 0 for no match.
        recency: 2 to the power of minus age over 30 days, 0..1.
        importance: 0..1, as given.
        kind: Kind of memory.
        source: Where it comes from, as given.
        index: Index of the event that the version begins with.
        recorded_at: When that event was recorded.
        created_at: When the memory's first event was recorded.
        branch: Branch that the version was recorded on.
        valid_from: Since when it is true in the world.
        valid_until: Until when, exclusive.
        tags: As given.
        metadata: As given.
        speaker: Who said it, of a message.
        explanation: What the score is made of, when asked for.
        is_global: Whether it is a memory of all tenants; its indices are then of their log.
    """

    memory_id: UUID
    content: str
    score: float
    similarity: float | None
    keyword: float
    recency: float
    importance: float | None
    kind: str
    source: str | None
    index: int
    recorded_at: datetime
    created_at: datetime
    branch: UUID
    valid_from: datetime | None
    valid_until: datetime | None
    tags: tuple[str, ...]
    metadata: dict[str, Any]
    speaker: str | None
    explanation: Explanation | None = None
    is_global: bool = False


def _refused(field: str, value: object, allowed: str) -> InputError:
    return InputError(
        f"{field} is {shown(value)}; allowed is {allowed}.",
        code="out_of_range",
        field=field,
        value=shown(value),
        allowed=allowed,
    )
