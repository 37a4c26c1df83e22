"""The questions that a LoCoMo conversation brings, with the turns that answer them."""

import re
from dataclasses import dataclass
from typing import Any, Final

from memoriale.adapters.importing.locomo import Conversation

_TURN: Final = re.compile(r"D:?([0-9]+):([0-9]+)")


@dataclass(frozen=True, slots=True)
class Question:
    """
    One question.

    ``evidence`` holds the ids of turns that exist, each once. ``category`` is 1 multi-hop,
    2 temporal, 3 commonsense, 4 single-hop, 5 without an answer; 0 when the file has none.
    """

    question: str
    evidence: tuple[str, ...]
    category: int


def questions_of(conversation: Conversation) -> list[Question]:
    """
    The questions in the order of the file; entries that are no questions are left out.

    Evidence is often malformed, such as ``D8:6; D9:17`` in one text or ``D:11:26``: every turn
    id in it counts if the turn exists.

    Args:
        conversation: From ``parse_conversations``.
    """
    if not isinstance(conversation.qa, list):
        return []
    known = {turn.dia_id for turn in conversation.turns}
    return [
        Question(entry["question"], _evidence(entry.get("evidence"), known), _category(entry))
        for entry in conversation.qa
        if isinstance(entry, dict) and isinstance(entry.get("question"), str)
    ]


def _evidence(given: Any, known: set[str]) -> tuple[str, ...]:
    texts = given if isinstance(given, list) else [given]
    found = (match for text in texts if isinstance(text, str) for match in _TURN.finditer(text))
    ids = (f"D{int(match[1])}:{int(match[2])}" for match in found)
    return tuple(dict.fromkeys(dia_id for dia_id in ids if dia_id in known))


def _category(entry: dict[str, Any]) -> int:
    category = entry.get("category")
    return category if isinstance(category, int) else 0
