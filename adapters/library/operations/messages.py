"""The messages of an add, checked."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from memoriale.adapters.library.stores.parsing import parsed_messages
from memoriale.domain.chat import ChatMessage
from memoriale.domain.errors import InputError
from memoriale.domain.values import check_whole

MOST_MESSAGES: Final = 10_000
Messages = Sequence[ChatMessage | Mapping[str, Any]]


def parse_messages(messages: object) -> list[ChatMessage]:
    """
    Messages from what a caller gives.

    Raises:
        InputError: No list, a wrong message, more than 10,000, or none that has text.
    """
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Sequence):
        raise InputError(
            "messages must be a list of messages; put a single one into a list.",
            code="bad_value",
            field="messages",
            value=type(messages).__name__,
            allowed="a list",
        )
    check_whole("messages", len(messages), 1, MOST_MESSAGES)
    turns = parsed_messages(messages)
    if not any(turn.text().strip() for turn in turns):
        raise InputError(
            "messages say nothing; at least one must have text.",
            code="empty",
            field="messages",
            value="no text",
            allowed="text",
        )
    return turns
