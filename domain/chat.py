"""Conversations as callers hand them over, and the port of language models."""

from typing import Any, Literal, Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict, JsonValue

Role = Literal["system", "user", "assistant", "tool"]


class ToolCall(BaseModel):
    """A call of a tool that a message asks for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    name: str
    arguments: JsonValue = None


class ChatMessage(BaseModel):
    """
    One turn of a conversation.

    ``content`` is a text, None (for a turn that only calls tools), or parts as model providers
    name them: objects with a ``type`` such as ``text`` (with ``text``) or ``image``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    role: Role
    content: str | tuple[dict[str, JsonValue], ...] | None = None
    name: str | None = None
    """Who speaks, where there are several."""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    """The call that this turn, of role ``tool``, answers."""

    def text(self) -> str:
        """What it says in words; parts without words are named in brackets."""
        if self.content is None or isinstance(self.content, str):
            return self.content or ""
        return "\n".join(_words(part) for part in self.content)


class ModelReply(BaseModel):
    """What a model answered: its text as it came, and which model it was."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str
    model: str


@runtime_checkable
class ModelProvider(Protocol):
    """A language model. Implementations raise ``UnavailableError`` when it cannot be reached."""

    @property
    def model_id(self) -> str:
        """Name of the model, stored in clear as provenance: a code of at most 64 characters."""

    def generate(
        self,
        messages: list[ChatMessage],
        *,
        schema: dict[str, Any],
        temperature: float = 0.0,
        max_tokens: int = 800,
        timeout: float = 60.0,
    ) -> ModelReply:
        """
        One reply.

        Args:
            messages: The conversation.
            schema: JSON schema that the reply shall satisfy; the caller validates.
            temperature: 0 for the likeliest reply.
            max_tokens: Longest reply.
            timeout: Seconds.
        """


def model_code(name: str) -> str:
    """A model's name as it may stand in clear: at most 64 letters, digits and ``_.:/-``."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "_.:/-") else "-" for c in name)[:64]


def _words(part: dict[str, JsonValue]) -> str:
    text = part.get("text")
    return text if isinstance(text, str) else f"[{part.get('type', 'part')}]"
