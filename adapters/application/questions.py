"""What recall is asked by a caller, checked, and what it answers."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final
from uuid import UUID

from memoriale.adapters.application.reading import AsOf, pin_text
from memoriale.domain.errors import InputError
from memoriale.domain.kinds import KINDS
from memoriale.domain.memory import MemoryState
from memoriale.domain.text import check_query, check_text, shown
from memoriale.domain.values import check_seconds, check_unit, check_whole

if TYPE_CHECKING:
    from memoriale.projections.recall.query import Hit

MAX_TOP_K: Final = 1_000
RANKS: Final = ("relevance", "composite")
LEGS: Final = ("hybrid", "keyword", "vector")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What to recall; see ``Memory.recall`` for the meaning of each field."""

    query: str
    top_k: int = 5
    kinds: tuple[str, ...] = ()
    namespace: str | None = None
    tags: tuple[str, ...] = ()
    owner: UUID | None = None
    """Pseudonym of whose memories alone are wanted; for surfaces of this package."""
    agent: UUID | None = None
    """Pseudonym of the agent that they were recorded through; likewise."""
    min_score: float | None = None
    min_rank_score: float | None = None
    as_of: AsOf = None
    valid_at: datetime | str | None = None
    rank: str = "relevance"
    legs: str = "hybrid"
    explain: bool = False
    wait: float = 2.0
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Recall:
    """
    The hits, best first, with what the answer rests on; to be used like a list of them.

    Args:
        hits: At most ``top_k``.
        index: Index of the last event seen; ask as of it to get the same answer again.
        now: To when ages, expiry and the default valid time were counted.
        degraded: Why the answer may miss something: ``behind``; ``embedder``: it failed or was
            too slow, so that the question or some memories could be compared by keyword only;
            ``rebuilding``: another model was configured and the view is still that of the
            former one; ``disk``: the view cannot be posted, because its disk is full or may not
            be written.
        behind: Events that the view had not posted yet.
        rebuilt: Whether the view was damaged or missing and was rebuilt for this answer.
        global_index: Index of the last event seen of the log of global memories; None when they
            play no part.
    """

    hits: tuple["Hit", ...]
    index: int
    now: datetime
    degraded: tuple[str, ...]
    behind: int
    rebuilt: bool
    global_index: int | None = None

    @property
    def pin(self) -> str:
        """What to ask as of to get the same answer again: ``i``, or ``i@g``."""
        return pin_text(self.index, self.global_index)

    def __len__(self) -> int:
        return len(self.hits)

    def __iter__(self) -> Iterator["Hit"]:
        return iter(self.hits)

    def __getitem__(self, place: int) -> "Hit":
        return self.hits[place]


@dataclass(frozen=True, slots=True)
class Page:
    """
    Memories in the order in which they were made.

    Args:
        states: At most as many as were asked for.
        next: What to ask for after; None when there are no more.
        index: Index of the last event seen.
        behind: Events that the view had not posted yet.
        shared: Global memories, after the others.
        global_index: As in ``Recall``.
    """

    states: list[MemoryState]
    next: int | None
    index: int
    behind: int
    shared: list[MemoryState] = field(default_factory=list)
    global_index: int | None = None


def check_question(question: Question) -> None:
    """
    Refuses a question that cannot be asked.

    Raises:
        InputError: Names the field.
    """
    check_query(question.query)
    check_whole("top_k", question.top_k, 1, MAX_TOP_K)
    check_seconds("wait", question.wait)
    if question.rank not in RANKS:
        raise _out_of("rank", question.rank, ", ".join(RANKS))
    if question.legs not in LEGS:
        raise _out_of("legs", question.legs, ", ".join(LEGS))
    for kind in question.kinds:
        KINDS.require(kind)
    for tag in question.tags:
        check_text("tags", tag)
    for name in ("min_score", "min_rank_score"):
        if getattr(question, name) is not None:
            check_unit(name, getattr(question, name))


def _out_of(field: str, value: object, allowed: str) -> InputError:
    return InputError(
        f"{field} is {shown(value)}; allowed is {allowed}.",
        code="out_of_range",
        field=field,
        value=shown(value),
        allowed=allowed,
    )
