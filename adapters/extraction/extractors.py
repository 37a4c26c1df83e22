"""The extractors by the name of their job, and extraction at once."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from memoriale.adapters.extraction.experience import LEARNINGS, PROCEDURES
from memoriale.adapters.extraction.extractor import Config, Conversation, Extractor
from memoriale.adapters.extraction.graphs import GRAPH
from memoriale.adapters.extraction.items import ITEMS
from memoriale.adapters.extraction.people import ENTITIES, FACTS, PROFILE
from memoriale.adapters.language_models.factory import make_model
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.stores.parsing import parsed_messages
from memoriale.domain.chat import ChatMessage, ModelProvider
from memoriale.domain.errors import InputError
from memoriale.domain.keys import Subject
from memoriale.domain.principal import Right

EXTRACTORS: Final[dict[str, Extractor[Any]]] = {
    one.name: one for one in (FACTS, PROFILE, ENTITIES, LEARNINGS, GRAPH, PROCEDURES, ITEMS)
}


def extract(
    extractor: Extractor[Any] | str,
    memory: Memory,
    messages: Sequence[ChatMessage | Mapping[str, Any]],
    model: ModelProvider | None,
    timezone: str | None = None,
    config: Config | None = None,
) -> dict[str, Any]:
    """
    Extracts at once, without a job: what fails is not tried again.

    Args:
        extractor: Which, or its name.
        memory: A handle with a user.
        messages: The conversation.
        model: The language model; None is that of ``MEMORIALE_MODEL``.
        timezone: The user's; None for UTC.
        config: Arguments of the store.

    Returns:
        The raw reply, the model and the prompt, and what was stored.
    """
    user_of(memory)
    memory.allow("extract", Right.USE)
    settings = memory.settings
    said = Conversation(
        messages=parsed_messages(messages),
        now=memory.services.reading.pin(None).now,
        timezone=timezone,
    )
    chosen = EXTRACTORS[extractor] if isinstance(extractor, str) else extractor
    asked = model or make_model(settings.model, settings.openai_endpoint)
    return chosen(memory, asked, said, config or {})


def user_of(memory: Memory) -> Subject:
    """
    Whose a conversation is.

    Raises:
        InputError: The handle names no user.
    """
    owner = memory.principal.identity("user")
    if owner is None:
        raise InputError(
            "extraction needs a user: neither the call nor the handle names one.",
            code="no_owner",
            field="user_id",
            allowed="a text",
        )
    return owner
