"""Extraction by a store itself: at once, without a job."""

from collections.abc import Mapping, Sequence
from typing import Any

from memoriale.adapters.library.memory import Memory
from memoriale.domain.chat import ChatMessage, ModelProvider

Messages = Sequence[ChatMessage | Mapping[str, Any]]


def extract_now(
    extractor: Any,
    memory: Memory,
    messages: Messages,
    model: ModelProvider | None,
    timezone: str | None,
    **config: Any,
) -> dict[str, Any]:
    """
    Has a model look through a conversation, and stores what it answers. ``MemoryManager`` does so
    in the background, and tries again what failed; here the caller is told.

    Args:
        extractor: The extractor, or its name.
        memory: A handle with a user.
        messages: What was said.
        model: The language model; None is that of ``MEMORIALE_MODEL``.
        timezone: The user's, an IANA name, for dates such as tomorrow; None for UTC.
        **config: Arguments of the store.

    Returns:
        ``stored``: ids of what was made or changed (of a profile: fields), what was left out by
        count, and ``reply``, ``model`` and ``prompt``.

    Raises:
        BadReplyError: The reply cannot be used.
        UnavailableError: The model gave none.
        InputError: No user, no model, no such time zone.
    """
    # Extractors know the stores, so a store asks for them late.
    from memoriale.adapters.extraction.extractors import extract

    return extract(extractor, memory, messages, model, timezone, config)
