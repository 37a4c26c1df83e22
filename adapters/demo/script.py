"""What the demo asks and changes: written out for the shipped history, picked for any other."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from memoriale.adapters.evaluation.questions import Question, questions_of
from memoriale.adapters.importing.locomo import Conversation, Turn

ASKED: Final = 4
_LONGEST_QUESTION: Final = 300


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
    and changes of turns that say much, asked about in their own words.

    Args:
        conversation: With at least one turn.
    """
    first, second, third = _telling(conversation.turns, 3)
    return Script(
        questions=_asked(conversation),
        correction=Change(
            first.dia_id,
            _words(first),
            f"{first.content} (Corrected: this was misheard.)",
            "misheard, as the recording shows",
        ),
        retraction=Change(second.dia_id, _words(second), None, "not meant to be kept"),
        what_if=Change(
            third.dia_id,
            _words(third),
            f"{third.content} (What if this had not been so?)",
            "what if this had not been so",
        ),
        actor="visitor",
    )


def _asked(conversation: Conversation) -> tuple[str, ...]:
    found = [q for q in questions_of(conversation) if q.evidence and q.question.strip()]
    ordered = _first_of_each(found) if found else []
    texts = [q.question for q in ordered] or [
        _words(turn) for turn in _telling(conversation.turns, ASKED)
    ]
    return tuple(dict.fromkeys(text[:_LONGEST_QUESTION] for text in texts))[:ASKED]


def _first_of_each(questions: Sequence[Question]) -> list[Question]:
    categories = dict.fromkeys(question.category for question in questions)
    firsts = [next(q for q in questions if q.category == category) for category in categories]
    return list(dict.fromkeys(chain(firsts, questions)))


def _telling(turns: Sequence[Turn], count: int) -> list[Turn]:
    """Turns with the longest contents, in the order of the conversation; repeated if too few."""
    said = [turn for turn in turns if turn.content.strip()] or list(turns)
    longest = sorted(said, key=lambda turn: len(turn.content), reverse=True)[:count]
    chosen = sorted(longest, key=said.index)
    return [chosen[place % len(chosen)] for place in range(count)]


def _words(turn: Turn) -> str:
    return turn.content.strip()[:_LONGEST_QUESTION]
