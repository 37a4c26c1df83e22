"""What a conversation looks back on: its newest turns, within a number and a budget of tokens."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from memoriale.domain.chat import ChatMessage, ToolCall
from memoriale.domain.memory import MemoryState
from memoriale.domain.payloads import Message

MESSAGE: Final = "message"
MAX_MESSAGES: Final = 50
_ROLES: Final = ("system", "user", "assistant", "tool")

Cost = Callable[[ChatMessage], int]
"""How many tokens a turn takes."""


class Session(BaseModel):
    """
    A conversation: its history as far as it is looked back on, and its state. ``user_id`` is
    whom it belongs to; None for an anonymous one. ``updated_at`` is when a message was added or
    the state changed.
    """

    model_config = ConfigDict(frozen=True)

    session_id: str
    user_id: str | None = None
    messages: tuple[ChatMessage, ...] = ()
    state: dict[str, JsonValue] = Field(default_factory=dict)
    created_at: datetime
    updated_at: datetime


class SessionEntry(BaseModel):
    """
    A session in a list: without its messages. ``index`` is where it was opened; ``updated_at``
    is when it was opened or its state changed.
    """

    model_config = ConfigDict(frozen=True)

    session_id: str
    user_id: str | None = None
    state: dict[str, JsonValue] = Field(default_factory=dict)
    created_at: datetime
    updated_at: datetime
    index: int


class Window:
    """
    Which turns the history shows: the newest ones, at most so many, that take at most so many
    tokens together. An answer of a tool goes when the call that it answers goes, so no call is
    told without its answer, and none is answered that was not made. A turn that alone takes more
    tokens than there may be is not shown, nor what came before it.

    Once out, a turn never comes back in by turns being added: each falls out exactly once.

    Args:
        most: Turns at most.
        max_tokens: Tokens at most; None for no limit.
        cost: Counts them.
    """

    def __init__(self, most: int, max_tokens: int | None, cost: Cost) -> None:
        self.most, self._max_tokens, self._cost = most, max_tokens, cost

    def start(self, turns: Sequence[ChatMessage]) -> int:
        """The place of the first turn that fits, calls and answers aside."""
        first, spent = len(turns), 0
        for place in range(len(turns) - 1, max(-1, len(turns) - 1 - self.most), -1):
            if self._max_tokens is not None:
                spent += self._cost(turns[place])
                if spent > self._max_tokens:
                    break
            first = place
        return first

    def places(self, turns: Sequence[ChatMessage]) -> list[int]:
        """The places of the turns that the history shows, oldest first."""
        return answered(turns, self.start(turns))


def answered(turns: Sequence[ChatMessage], start: int) -> list[int]:
    """
    The places from ``start`` on, without the answers whose call stands before it. An answer
    belongs to the last call of its id before it; one without id to the last turn that calls.
    """
    made: set[str | None] = set()
    kept = []
    for place in range(start, len(turns)):
        turn = turns[place]
        if turn.role != "tool" or turn.tool_call_id in made:
            kept.append(place)
        if turn.tool_calls:
            made |= {None, *(call.id for call in turn.tool_calls)}
    return kept


def fallen_out(window: Window, turns: Sequence[ChatMessage], before: int) -> list[int]:
    """
    The places of the turns that an append pushed out of the history.

    Args:
        window: What the history shows.
        turns: The newest turns up to the append, as many as the window may show before it and
            those of the append.
        before: How many of them stood before the append.
    """
    shown = {*window.places(turns[:before]), *range(before, len(turns))}
    return sorted(shown - {*window.places(turns)})


def content_of(message: ChatMessage) -> str:
    """The text that recall searches; for a turn without words what it does instead."""
    text = message.text()
    if text.strip():
        return text
    names = ", ".join(call.name for call in message.tool_calls)
    return f"[calls {names}]" if names else "[no text]"


def fields_of(message: ChatMessage) -> dict[str, Any]:
    """The fields of a memory of kind message besides its content."""
    details: dict[str, Any] = {
        "tool_calls": [call.model_dump(mode="json") for call in message.tool_calls],
        "tool_call_id": message.tool_call_id,
        "parts": [] if isinstance(message.content, str | None) else [*message.content],
    }
    if isinstance(message.content, str | None) and not (message.content or "").strip():
        details["silent"] = True
        if message.content is not None:
            details["parts"] = [{"type": "text", "text": message.content}]
    return {
        "role": message.role,
        "speaker": message.name,
        "details": {name: value for name, value in details.items() if value},
    }


def turn_of(state: MemoryState) -> ChatMessage | None:
    """A message as it was given; None when its text was erased."""
    payload = state.payload
    if not isinstance(payload, Message):
        return None
    content: str | tuple[dict[str, JsonValue], ...] | None = payload.parts or payload.content
    if payload.silent:
        content = str(payload.parts[0]["text"]) if payload.parts else None
    return ChatMessage(
        role=payload.role if payload.role in _ROLES else "user",  # type: ignore[arg-type]
        content=content,
        name=payload.speaker,
        tool_calls=tuple(ToolCall.model_validate(call) for call in payload.tool_calls),
        tool_call_id=payload.tool_call_id,
    )
