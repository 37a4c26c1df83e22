"""What the demo asks and changes: written out for the shipped history, picked for any other."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from typing import Final

from memoriale.adapters.evaluation.questions import Question, questions_of
from memoriale.adapters.importing.locomo import Conversation, Turn
from memoriale.domain.errors import InputError

ASKED: Final = 4
_LONGEST_QUESTION: Final = 300
_GOOD_LENGTH: Final = 120


@dataclass(frozen=True, slots=True)
class Change:
    """
    A change of one turn's memory, and the question that shows it.

    ``content`` is what the memory says afterwards, None when it is invalidated.
    """

    dia_id: str
    question: str
    content: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class Script:
    """The questions to begin with, the changes, and who makes them."""

    questions: tuple[str, ...]
    correction: Change
    retraction: Change
    what_if: Change
    actor: str


SHIPPED: Final = Script(
    questions=(
        "What is Tarek allergic to?",
        "When did Bruno come home with Imke?",
        "Who was the R in R. Trevold?",
        "When did the cellar flood?",
    ),
    correction=Change(
        "D1:16",
        "What is Tarek allergic to?",
        "Tarek is allergic to hazelnuts. Walnuts are harmless for him, as the allergy clinic "
        "found on 24 July 2025.",
        "allergy test, told in D8:3",
    ),
    retraction=Change(
        "D9:13", "Is Leila expecting a baby?", None, "said in confidence, not to be kept"
    ),
    what_if=Change(
        "D1:2",
        "How much rent do they pay for the house?",
        "The lease was signed on Friday: five years at a rent of 1,200 euros a month.",
        "what if the rent had been higher",
    ),
    actor="Tarek",
)


def script_for(conversation: Conversation) -> Script:
    """
    A script for any conversation: the first questions that it brings, of different categories,
    and changes of turns that say something, asked about in their own words.

    Args:
        conversation: From ``parse_conversations``.

    Raises:
        InputError: No turn of it can be recalled now.
    """
    turns = _told_by_now(conversation.turns)
    first, second, third = _telling(turns, 3)
    return Script(
        questions=_asked(conversation, turns),
        correction=Change(
            first.dia_id,
            _words(first),
            f"{first.speaker} was misheard and never said: {first.content}",
            "misheard, as the recording shows",
        ),
        retraction=Change(second.dia_id, _words(second), None, "not meant to be kept"),
        what_if=Change(
            third.dia_id,
            _words(third),
            f"Suppose that {third.speaker} had never said: {third.content}",
            "what if this had never been said",
        ),
        actor="visitor",
    )


def _asked(conversation: Conversation, turns: Sequence[Turn]) -> tuple[str, ...]:
    found = [q for q in questions_of(conversation) if q.evidence and q.question.strip()]
    ordered = _first_of_each(found) if found else []
    texts = [q.question for q in ordered] or [_words(turn) for turn in _telling(turns, ASKED)]
    return tuple(dict.fromkeys(text[:_LONGEST_QUESTION] for text in texts))[:ASKED]


def _first_of_each(questions: Sequence[Question]) -> list[Question]:
    categories = dict.fromkeys(question.category for question in questions)
    firsts = [next(q for q in questions if q.category == category) for category in categories]
    return list(dict.fromkeys(chain(firsts, questions)))


def _told_by_now(turns: Sequence[Turn]) -> list[Turn]:
    now = datetime.now(UTC)
    told = [t for t in turns if t.content.strip() and (t.time is None or t.time <= now)]
    if not told:
        raise InputError(
            "the conversation has no turn with words and a date before now, so there is nothing "
            "to ask about; take another file.",
            code="nothing_to_show",
            field="file",
        )
    return told


def _telling(turns: Sequence[Turn], count: int) -> list[Turn]:
    """Turns of about ``_GOOD_LENGTH``, in their order; repeated when there are too few."""
    places = sorted(
        range(len(turns)), key=lambda place: abs(len(turns[place].content) - _GOOD_LENGTH)
    )
    chosen = [turns[place] for place in sorted(places[:count])]
    return [chosen[place % len(chosen)] for place in range(count)]


def _words(turn: Turn) -> str:
    return turn.content.strip()[:_LONGEST_QUESTION]
