"""Asking a language model about a conversation, and keeping what its answer rests on."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Final, Generic, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel

from memoriale.adapters.extraction.prompting import Prompt
from memoriale.adapters.extraction.replies import read_reply
from memoriale.domain.chat import ChatMessage, ModelProvider
from memoriale.domain.errors import InputError
from memoriale.domain.text import shown

M = TypeVar("M", bound=BaseModel)

MAX_REPLY_TOKENS: Final = 4_000


@dataclass(frozen=True, slots=True)
class Answer(Generic[M]):
    """
    What a model answered.

    Args:
        value: As read.
        raw: As it came.
        model: Which model.
        prompt: Name and version of the prompt.
    """

    value: M
    raw: str
    model: str
    prompt: str

    def provenance(self) -> dict[str, str]:
        """What is kept of it, so that the same can be asked again and compared."""
        return {"reply": self.raw, "model": self.model, "prompt": self.prompt}


def ask(
    model: ModelProvider,
    asked: Prompt,
    reply: type[M],
    messages: Sequence[ChatMessage],
    **values: str,
) -> Answer[M]:
    """
    Asks about a conversation.

    Args:
        model: The language model.
        asked: The prompt; its ``$conversation`` is filled in here.
        reply: What the answer must be.
        messages: The conversation.
        **values: The other names of the prompt.

    Raises:
        BadReplyError: The answer cannot be used.
        UnavailableError: The model cannot be reached.
    """
    text = asked.filled(conversation=as_json(messages), **values)
    found = model.generate(
        [ChatMessage(role="user", content=text)],
        schema=reply.model_json_schema(),
        max_tokens=MAX_REPLY_TOKENS,
    )
    return Answer(read_reply(found.text, reply), found.text, found.model, asked.code)


def as_json(messages: Sequence[ChatMessage]) -> str:
    """A conversation as a JSON list of role and text; no text of it can end the list."""
    told = [{"role": m.role, "content": m.text()} for m in messages if m.text().strip()]
    return json.dumps(told, ensure_ascii=False)


def date_in(timezone: str | None, now: datetime) -> str:
    """
    The date of a time in a zone, such as ``Monday, 2026-11-30``.

    Args:
        timezone: IANA name; None for UTC.
        now: Aware.

    Raises:
        InputError: There is no such zone.
    """
    return now.astimezone(zone_of(timezone)).strftime("%A, %Y-%m-%d")


def zone_of(timezone: str | None) -> tzinfo:
    """
    The time zone of an IANA name; None for UTC.

    Raises:
        InputError: There is no such zone.
    """
    try:
        return UTC if timezone is None else ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InputError(
            f"timezone is {shown(timezone)!r}; give a name such as Europe/Rome.",
            code="bad_value",
            field="timezone",
            value=shown(timezone),
            allowed="an IANA time zone",
        ) from None
