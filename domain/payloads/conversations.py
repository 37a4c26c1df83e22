"""What is remembered of conversations: their messages and summaries, and an agent's notebook."""

from typing import ClassVar
from uuid import UUID

from pydantic import JsonValue

from memoriale.domain.payloads.base import Payload, register_payload


class Message(Payload):
    """One turn of a conversation, by ``speaker`` in ``role``; ``caption`` tells an image."""

    FORMAT: ClassVar[int] = 3

    speaker: str | None = None
    role: str | None = None
    caption: str | None = None
    tool_calls: tuple[dict[str, JsonValue], ...] = ()
    """Calls that the turn asks for: ``id``, ``name`` and ``arguments`` of each."""
    tool_call_id: str | None = None
    """The call that this turn answers."""
    parts: tuple[dict[str, JsonValue], ...] = ()
    """The turn as it was given when it was more than a text: texts, images and files."""
    silent: bool = False
    """Whether the turn had no words; ``content`` then tells what it did instead."""


class Summary(Payload):
    """What an older part of a conversation said."""

    first_index: int | None = None
    last_index: int | None = None
    """Indices of the first and last message that it covers."""
    made_from: tuple[UUID, ...] = ()
    """The earlier summaries that it was made from, and so what they knew."""
    excerpts: bool = False
    """Whether it is put together from excerpts, because no model wrote it."""


class FileEntry(Payload):
    """One entry of the small always-shown notebook ``target``: ``memory`` or ``user``."""

    target: str


register_payload("message", Message)
register_payload("summary", Summary)
register_payload("file_entry", FileEntry)
