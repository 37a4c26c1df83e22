"""Summaries of a session: each is made from the earlier ones, so that none of it is forgotten."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from pydantic import BaseModel, ConfigDict

from memoriale.domain.chat import ChatMessage
from memoriale.domain.commands import Remember
from memoriale.domain.events import ReasonCode
from memoriale.domain.memory import MemoryState
from memoriale.domain.payloads import Summary
from memoriale.domain.steps import End, Make, Slice, Step
from memoriale.domain.stores.sessions import content_of
from memoriale.domain.text import canonical_text_v1

SUMMARY: Final = "summary"
SUMMARIZE_JOB: Final = "summaries.summarize"
MAX_SUMMARIES: Final = 10
MAX_SUMMARY_TOKENS: Final = 2_000
LEAST_TOKENS: Final = 50
SEPARATOR: Final = " | "
_CUTS: Final = (400, 200, 120, 80, 60, 40)
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")

Fits = Callable[[str], bool]
"""Whether a text is short enough for one summary."""


class SummaryConfig(BaseModel):
    """How many summaries of a session are current, and the tokens they may take in a prompt."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_count: int = MAX_SUMMARIES
    max_tokens: int = MAX_SUMMARY_TOKENS


class SummaryEntry(BaseModel):
    """A summary; ``excerpts`` says that it was put together without a model."""

    model_config = ConfigDict(frozen=True)

    id: UUID
    summary: str
    excerpts: bool = False
    created_at: datetime


def entry_of(state: MemoryState) -> SummaryEntry | None:
    """A summary as folded; None when its text was erased."""
    if not isinstance(state.payload, Summary):
        return None
    return SummaryEntry(
        id=state.memory_id,
        summary=state.payload.content,
        excerpts=state.payload.excerpts,
        created_at=state.created_at,
    )


def summaries_of(seen: Slice | None) -> list[MemoryState]:
    """The current summaries, oldest first."""
    found = [] if seen is None else seen.current(SUMMARY)
    return [state for state in found if isinstance(state.payload, Summary)]


def unabsorbed(states: Sequence[MemoryState]) -> list[MemoryState]:
    """The summaries from which no other one was made yet: together they know all of it."""
    absorbed = {i for s in states if isinstance(s.payload, Summary) for i in s.payload.made_from}
    return [state for state in states if state.memory_id not in absorbed]


CommandOf = Callable[[str, tuple[UUID, ...], bool], Remember]
"""A checked command from a text, the summaries it was made from, and whether it is excerpts."""


@dataclass(frozen=True, slots=True)
class AddSummary:
    """
    The decision to add a summary.

    1. It is made from the earlier ones that no other one was made from, and from the messages:
       by a model, else of excerpts of both. An earlier one that the model was not shown, because
       it came meanwhile, is added as excerpts.
    2. Beyond ``most`` the oldest ones end as ``compacted``; none under a legal hold.

    Args:
        written: What a model wrote; None when none did.
        shown: The earlier summaries that it was shown.
        messages: What was said since.
        fits: Whether a text is short enough.
        command_of: Makes the command.
        most: Current summaries of the session at most.
    """

    written: str | None
    shown: frozenset[UUID]
    messages: Sequence[ChatMessage]
    fits: Fits
    command_of: CommandOf
    most: int = MAX_SUMMARIES

    def __call__(self, seen: Slice) -> list[Step]:
        """The steps; see ``Decision``."""
        current = summaries_of(seen)
        earlier = unabsorbed(current)
        told = said(self.messages) if self.written is None else pieces(self.written)
        known = [] if self.written is None else self.shown
        missing = [p for s in earlier if s.memory_id not in known for p in pieces(_text(s))]
        text = self.written
        if text is None or missing or not self.fits(text):
            text = shortened([*missing, *told], self.fits)
        made_from = tuple(state.memory_id for state in earlier)
        made = Make(command=self.command_of(text, made_from, self.written is None))
        too_many = len(current) + 1 - self.most
        if too_many <= 0 or seen.held():
            return [made]
        because = ReasonCode.COMPACTED
        return [
            made,
            *(
                End(memory_id=state.memory_id, because=because, replaced_by=made.memory_id)
                for state in current[:too_many]
            ),
        ]


def said(messages: Sequence[ChatMessage]) -> list[str]:
    """Messages as pieces of a summary: who said what."""
    return [f"{m.name or m.role}: {' '.join(content_of(m).split())}" for m in messages]


def pieces(text: str) -> list[str]:
    """A summary in its pieces: what stands between separators, by sentence."""
    found = (piece for part in text.split(SEPARATOR) for piece in _SENTENCE.split(part))
    return [piece.strip() for piece in found if piece.strip()]


def shortened(parts: Sequence[str], fits: Fits) -> str:
    """
    Pieces as one text that fits: each once; then the long ones are cut, all at the same length;
    then some are left out from the middle, which the text says.
    """
    parts = list({canonical_text_v1(part): part for part in parts}.values())
    text = SEPARATOR.join(parts)
    for length in _CUTS:
        if fits(text):
            return text
        parts = [_cut(part, length) for part in parts]
        text = SEPARATOR.join(parts)
    kept = len(parts)
    while not fits(text) and kept > 2:
        kept = max(2, kept * 3 // 4)
        first, last = parts[: kept - kept // 2], parts[len(parts) - kept // 2 :]
        text = SEPARATOR.join([*first, f"({len(parts) - kept} left out)", *last])
    return text


def chosen(
    states: Sequence[MemoryState],
    shared: Callable[[str], int],
    cost: Callable[[str], int],
    budget: int,
) -> list[MemoryState]:
    """
    The summaries for a prompt, newest first, within a budget of tokens. The newest come first;
    each word that one shares with the input lifts it by one place. One that does not fit is
    passed over for the next.

    Args:
        states: Oldest first.
        shared: How many words of the input a text has.
        cost: How many tokens the line of a text takes.
        budget: Tokens.
    """
    scores = [(place + shared(_text(state)), place) for place, state in enumerate(states)]
    kept: set[int] = set()
    for _, place in sorted(scores, reverse=True):
        tokens = cost(_text(states[place]))
        if tokens <= budget:
            kept.add(place)
            budget -= tokens
    return [states[place] for place in sorted(kept, reverse=True)]


def _text(state: MemoryState) -> str:
    assert state.payload is not None
    return state.payload.content


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"
