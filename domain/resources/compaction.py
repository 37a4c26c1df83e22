"""Keeping a resource's facts few and fresh: which are retired, and what came of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from memoriale.domain.errors import InputError
from memoriale.domain.resources.facts import MemoryFact, RememberedFact
from memoriale.domain.text import shown
from memoriale.domain.values import check_whole

Summarize = Callable[[Sequence[RememberedFact]], Sequence[str]]
"""From the facts that are to be retired, oldest first, to the texts that take their place."""

_MOST = 2**53 - 1
_LONGEST_MS = 1_000 * 366 * 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionOptions:
    """
    What is to be retired. Without a limit nothing is.

    Args:
        max_facts: How many facts may be left, replacements included.
        max_age: Facts that are strictly older are retired.
        summarize: Makes the texts that take their place; None: nothing does.

    Raises:
        InputError: A limit that is negative or of another type, or a summary that could have no
            place.
    """

    max_facts: int | None = None
    max_age: timedelta | None = None
    summarize: Summarize | None = None

    def __post_init__(self) -> None:
        if self.max_facts is not None:
            # A summary needs a place of its own.
            check_whole("max_facts", self.max_facts, 1 if self.summarize else 0, _MOST)
        age = self.max_age
        if age is not None and (not isinstance(age, timedelta) or age < timedelta(0)):
            raise InputError(
                f"max_age is {shown(age)}; give a timedelta from 0.",
                code="out_of_range",
                field="max_age",
                value=shown(age),
                allowed="a timedelta from 0",
            )
        if self.summarize is not None and not callable(self.summarize):
            raise InputError(
                "summarize is not callable; give a function from facts to texts.",
                code="bad_value",
                field="summarize",
                value=type(self.summarize).__name__,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoCompactOptions:
    """
    When a resource is compacted by itself, in the background (reference system C,
    ``AutoCompactOptions``).

    Args:
        max_facts: As for compaction.
        max_age_ms: Milliseconds: older facts are retired.
        summarize: As for compaction.
        check_every: Once in so many facts that were remembered of a resource.

    Raises:
        InputError: A number that is too small, or no limit at all.
    """

    max_facts: int | None = None
    max_age_ms: int | None = None
    summarize: Summarize | None = None
    check_every: int = 1

    def __post_init__(self) -> None:
        check_whole("check_every", self.check_every, 1, _MOST)
        if self.max_age_ms is not None:
            check_whole("max_age_ms", self.max_age_ms, 0, _LONGEST_MS)
        if self.max_facts is None and self.max_age_ms is None:
            raise InputError(
                "auto_compact has no limit; give max_facts or max_age_ms.",
                code="missing",
                field="auto_compact",
                allowed=["max_facts", "max_age_ms"],
            )
        self.compaction()

    def compaction(self) -> CompactionOptions:
        """The limits."""
        age = None if self.max_age_ms is None else timedelta(milliseconds=self.max_age_ms)
        return CompactionOptions(max_facts=self.max_facts, max_age=age, summarize=self.summarize)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionResult:
    """
    What came of it: what there was before is ``removed + remaining - summarized`` (reference
    system C, ``CompactionResult``).

    Args:
        removed: Facts that were retired.
        remaining: Facts that there are now, replacements included.
        summarized: Replacements.
    """

    removed: int
    remaining: int
    summarized: int


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """
    Args:
        retired: Facts that go, oldest first.
        kept: Facts that stay, oldest first.
        replacements: What takes the place of those that go.
    """

    retired: Sequence[RememberedFact]
    kept: Sequence[RememberedFact]
    replacements: Sequence[MemoryFact] = ()

    def result(self) -> CompactionResult:
        """What comes of it when it is carried out."""
        made = len(self.replacements)
        return CompactionResult(
            removed=len(self.retired), remaining=len(self.kept) + made, summarized=made
        )


def plan_compaction(
    facts: Sequence[RememberedFact], options: CompactionOptions, now: datetime
) -> CompactionPlan:
    """
    What is to be retired, without replacements: first what is too old, then the oldest of the
    rest until there are ``max_facts``; one fewer when a summary is to be made.
    """
    ordered = sorted(facts, key=lambda fact: fact.remembered_at)
    age = options.max_age
    expired = 0 if age is None else sum(now - fact.remembered_at > age for fact in ordered)
    count = expired
    if options.max_facts is not None:
        count = max(expired, len(ordered) - options.max_facts)
        if count and options.summarize:
            count = max(count, len(ordered) - options.max_facts + 1)
    return CompactionPlan(ordered[:count], ordered[count:])


def with_summaries(plan: CompactionPlan, options: CompactionOptions) -> CompactionPlan:
    """
    The plan with what ``summarize`` makes of the facts that go. When it gives more texts than
    there is room for, the oldest of those that would stay go too, and all that go are summarized
    anew.

    Raises:
        InputError: It gives something else than texts, or more than ``max_facts`` of them.
    """
    if options.summarize is None or not plan.retired:
        return plan
    while True:
        made = _summaries(options.summarize(plan.retired))
        most = options.max_facts
        excess = 0 if most is None else len(plan.kept) + len(made) - most
        if excess <= 0:
            return CompactionPlan(plan.retired, plan.kept, made)
        if not plan.kept:
            raise InputError(
                f"summarize gave {len(made)} texts, and max_facts is {most}; nothing was changed.",
                code="too_many",
                field="summarize",
                value=len(made),
                allowed=f"at most {most} texts",
            )
        plan = CompactionPlan([*plan.retired, *plan.kept[:excess]], plan.kept[excess:])


def _summaries(texts: object) -> list[MemoryFact]:
    if isinstance(texts, str | bytes) or not isinstance(texts, Sequence):
        raise InputError(
            f"summarize gave {type(texts).__name__}; let it give a list of texts.",
            code="bad_value",
            field="summarize",
            value=type(texts).__name__,
            allowed="a list of texts",
        )
    return [MemoryFact(content=text) for text in texts]
