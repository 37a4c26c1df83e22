"""How many tokens a text takes: the port of tokenizers, and an estimate without one."""

import json
from typing import Final, Protocol, runtime_checkable

from memoriale.domain.chat import ChatMessage

CHARACTERS_A_TOKEN: Final = 3
"""Of the estimate, as in the reference."""
TURN_TOKENS: Final = 4
"""What models add to each turn for its role and its ends."""
PART_TOKENS: Final = 1_000
"""What an image, a sound or a file counts: about an image of a million pixels."""


@runtime_checkable
class TokenCounter(Protocol):
    """Counts the tokens of a text."""

    def count(self, text: str) -> int:
        """How many tokens a text takes; 0 for an empty one."""


class CharacterCounter:
    """Characters divided by 3, rounded up: for when no tokenizer is installed."""

    def count(self, text: str) -> int:
        """See ``TokenCounter``."""
        return -(-len(text) // CHARACTERS_A_TOKEN)


def turn_tokens(message: ChatMessage, counter: TokenCounter) -> int:
    """
    How many tokens a turn takes: its words, its calls of tools as JSON, 4 for the turn itself,
    and 1,000 for each image, sound or file.
    """
    parts = message.content if isinstance(message.content, tuple) else ()
    heavy = sum(not isinstance(part.get("text"), str) for part in parts)
    calls = [call.model_dump(mode="json") for call in message.tool_calls]
    told = message.text() + (json.dumps(calls, ensure_ascii=False) if calls else "")
    return counter.count(told) + TURN_TOKENS + PART_TOKENS * heavy
