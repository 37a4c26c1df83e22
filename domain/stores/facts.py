"""Facts of a user: what replaces what, what stays forgotten, and what goes when there are many."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from heapq import nsmallest
from typing import Any, Final, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict

from memoriale.domain.commands import Amend, Remember
from memoriale.domain.errors import InputError
from memoriale.domain.events import ReasonCode, SourceTier
from memoriale.domain.holdings import KeyOf
from memoriale.domain.memory import MemoryState, Status
from memoriale.domain.payloads import Fact
from memoriale.domain.steps import Adjust, End, Make, Replace, Revive, Slice, Step
from memoriale.domain.text import canonical_text_v1, shown

FACT: Final = "fact"
MAX_FACTS: Final = 100
SHOWN_FACTS: Final = 20
UNKNOWN_IMPORTANCE: Final = 400
"""Thousandths that a fact without importance counts as, as in the reference."""
_END_MARKS: Final = " .!?。！？"
HUMAN: Final = frozenset({SourceTier.MANUAL, SourceTier.HUMAN_CORRECTION})

Source = Literal["auto", "manual"]


class UserFact(BaseModel):
    """
    A fact about a user.

    ``invalidation_reason`` is ``superseded``, ``forgotten``, ``retracted`` or ``pruned``; both
    it and ``invalidated_at`` are None while the fact is current. ``source`` is ``manual`` for
    what people said, and ``auto`` for what a model extracted. Importance is in 0..1.
    """

    model_config = ConfigDict(frozen=True)

    id: UUID
    fact: str
    topics: tuple[str, ...] = ()
    subject: str | None = None
    input: str | None = None
    importance: float | None = None
    valid_from: datetime
    invalidated_at: datetime | None = None
    invalidation_reason: ReasonCode | None = None
    created_at: datetime
    source: Source


class NewFact(BaseModel):
    """A fact to be added; ``supersedes`` is the text of the fact that it replaces."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    fact: str
    subject: str | None = None
    topics: tuple[str, ...] = ()
    importance: float | None = None
    supersedes: str | None = None


def canonical_fact(text: str) -> str:
    """The form in which facts are compared everywhere: canonical text without its end mark."""
    return canonical_text_v1(text).rstrip(_END_MARKS)


def fact_of(state: MemoryState) -> UserFact | None:
    """A fact as folded; None when its text was erased."""
    payload = state.payload
    if payload is None:
        return None
    ended = state.status is not Status.CURRENT
    return UserFact(
        id=state.memory_id,
        fact=payload.content,
        topics=state.tags,
        subject=payload.subject if isinstance(payload, Fact) else None,
        input=payload.input if isinstance(payload, Fact) else None,
        importance=None if state.importance is None else state.importance / 1000,
        valid_from=state.columns.valid_from or state.created_at,
        invalidated_at=state.changed_at if ended else None,
        invalidation_reason=state.reason_code if ended else None,
        created_at=state.created_at,
        source="manual" if state.source_tier in HUMAN else "auto",
    )


def by_weight(state: MemoryState) -> tuple[int, datetime]:
    """How much a fact counts: by importance, then by how new it is."""
    importance = UNKNOWN_IMPORTANCE if state.importance is None else state.importance
    return importance, state.created_at


@dataclass(slots=True)
class AddFacts:
    """
    The decision to add facts, one after the other, each seeing those before it.

    1. A fact that is current already changes nothing.
    2. One that was forgotten stays so when a model extracted it; a person may restate it.
    3. One that is no longer current is made current again, with what is said of it now.
    4. What it replaces ends as ``superseded``: the fact of the given text, else those of the
       same subject, also when it is made current again and within one batch.
    5. Beyond ``most`` the least important ones go, then the oldest, those of people last, as
       ``pruned``; nothing goes under a legal hold.

    Args:
        facts: What to add.
        command_of: A checked command from a new fact.
        source: ``manual`` or ``auto``.
        most: Current facts at most.
    """

    facts: Sequence[NewFact]
    command_of: Callable[[NewFact], Remember]
    source: Source
    most: int = MAX_FACTS
    blocked: list[str] = field(default_factory=list)
    _steps: list[Step] = field(default_factory=list)
    _made: dict[UUID, "_Made"] = field(default_factory=dict)
    _gone: set[UUID] = field(default_factory=set)

    def __call__(self, seen: Slice) -> list[Step]:
        """The steps; see ``Decision``."""
        self.blocked, self._steps, self._made, self._gone = [], [], {}, set()
        for fact in self.facts:
            self._add(seen, fact)
        if self._steps:
            self._prune(seen)
        return self._steps

    def _add(self, seen: Slice, new: NewFact) -> None:
        text = canonical_fact(new.fact)
        if self._with_text(seen, text):
            return
        former = _former(seen, text, new.fact)
        if self.source == "auto" and any(s.reason_code is ReasonCode.FORGOTTEN for s in former):
            self.blocked.append(new.fact)
            return
        command = self.command_of(new)
        revived = next((s for s in former if s.payload is not None), None)
        memory_id = self._make(command) if revived is None else self._revive(revived, command)
        self._supersede(seen, new, memory_id)
        self._made[memory_id] = _Made.of(command, text, seen.now)

    def _make(self, command: Remember) -> UUID:
        step = Make(command=command)
        self._steps.append(step)
        return step.memory_id

    def _revive(self, state: MemoryState, command: Remember) -> UUID:
        self._steps.append(Revive(memory_id=state.memory_id))
        self._steps.append(Replace(memory_id=state.memory_id, command=command))
        if command.tags != state.tags:
            amend = Amend(memory_id=state.memory_id, tags=command.tags)
            self._steps.append(Adjust(command=amend))
        return state.memory_id

    def _supersede(self, seen: Slice, new: NewFact, by: UUID) -> None:
        for memory_id in self._replaced(seen, new):
            self._end(memory_id, ReasonCode.SUPERSEDED, by)

    def _replaced(self, seen: Slice, new: NewFact) -> list[UUID]:
        if new.supersedes is not None:
            named = self._with_text(seen, canonical_fact(new.supersedes))
            if named:
                return named
        if new.subject is None:
            return []
        subject = canonical_text_v1(new.subject)
        made = [i for i, one in self._made.items() if one.subject == subject]
        return self._still_there(seen, fact_subject, subject) + made

    def _with_text(self, seen: Slice, text: str) -> list[UUID]:
        made = [i for i, one in self._made.items() if one.text == text]
        return self._still_there(seen, fact_text, text) + made

    def _still_there(self, seen: Slice, key: KeyOf, value: str) -> list[UUID]:
        return [
            state.memory_id
            for state in seen.grouped(FACT, key).get(value, ())
            if seen.is_current(state) and state.memory_id not in self._gone
        ]

    def _end(self, memory_id: UUID, because: ReasonCode, by: UUID | None = None) -> None:
        if self._made.pop(memory_id, None) is None:
            self._gone.add(memory_id)
        self._steps.append(End(memory_id=memory_id, because=because, replaced_by=by))

    def _prune(self, seen: Slice) -> None:
        left = [state for state in seen.current(FACT) if state.memory_id not in self._gone]
        too_many = len(left) + len(self._made) - self.most
        if too_many <= 0 or seen.held():
            return
        weights = [(_weight(state), state.memory_id) for state in left]
        weights += [(one.weight, memory_id) for memory_id, one in self._made.items()]
        for _, memory_id in nsmallest(too_many, weights, key=lambda pair: pair[0]):
            self._end(memory_id, ReasonCode.PRUNED)


@dataclass(frozen=True, slots=True)
class _Made:
    text: str
    subject: str | None
    weight: tuple[bool, int, datetime]

    @classmethod
    def of(cls, command: Remember, text: str, now: datetime) -> "_Made":
        importance = command.importance
        counted = UNKNOWN_IMPORTANCE if importance is None else round(importance * 1000)
        return cls(
            text=text,
            subject=None if command.subject is None else canonical_text_v1(command.subject),
            weight=(command.source_tier in HUMAN, counted, now),
        )


def fact_text(state: MemoryState) -> str | None:
    """What facts are compared by; None when the text was erased."""
    return None if state.payload is None else canonical_fact(state.payload.content)


def fact_subject(state: MemoryState) -> str | None:
    """The subject of a fact in canonical form, if it has one."""
    subject = getattr(state.payload, "subject", None)
    return None if subject is None else canonical_text_v1(subject)


def _weight(state: MemoryState) -> tuple[bool, int, datetime]:
    return state.source_tier in HUMAN, *by_weight(state)


def _erased_tag(state: MemoryState) -> bytes | None:
    return state.columns.content_tag if state.payload is None else None


def forget_texts(seen: Slice, texts: Sequence[str]) -> list[Step]:
    """The end of every current fact that has one of the texts, as ``forgotten``."""
    by_text = seen.grouped(FACT, fact_text)
    wanted = dict.fromkeys(canonical_fact(text) for text in texts)
    found = [s for text in wanted for s in by_text.get(text, ()) if seen.is_current(s)]
    return [End(memory_id=state.memory_id, because=ReasonCode.FORGOTTEN) for state in found]


def parse_facts(facts: Sequence[NewFact | Mapping[str, Any] | str]) -> list[NewFact]:
    """
    Facts to be added, from what a caller gave.

    Raises:
        InputError: One of them is no fact; the field names its place.
    """
    return [_parsed(place, fact) for place, fact in enumerate(facts)]


def _parsed(place: int, fact: NewFact | Mapping[str, Any] | str) -> NewFact:
    if isinstance(fact, NewFact):
        return fact
    given = {"fact": fact} if isinstance(fact, str) else dict(fact)
    try:
        return NewFact.model_validate(given)
    except ValueError as error:
        raise InputError(
            f"facts[{place}] is not a fact: {shown(str(error).splitlines()[-2].strip())}.",
            code="bad_value",
            field=f"facts[{place}]",
            value=type(fact).__name__,
            allowed=list(NewFact.model_fields),
        ) from None


def _former(seen: Slice, text: str, given: str) -> list[MemoryState]:
    """Facts of this text that are no longer current, the newest first."""
    found = list(seen.grouped(FACT, fact_text).get(text, ()))
    erased = seen.grouped(FACT, _erased_tag)
    if erased:
        for tag in {seen.content_tag(given), seen.content_tag(text)}:
            found += erased.get(tag, ())
    former = (state for state in found if state.status is not Status.CURRENT)
    return sorted(former, key=lambda state: state.index, reverse=True)
