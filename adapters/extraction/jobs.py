"""Extraction as jobs: asked for in one append, worked on later, stored once."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from memoriale.adapters.application.deciding import Request
from memoriale.adapters.application.jobs import Handler, Work
from memoriale.adapters.extraction.extractors import EXTRACTORS, Conversation
from memoriale.adapters.library.memory import Memory
from memoriale.domain.chat import ChatMessage, ModelProvider, ModelReply
from memoriale.domain.errors import InputError
from memoriale.domain.principal import Principal, Right
from memoriale.domain.steps import Ask

PREFIX: Final = "extract."

As = Callable[[Principal, str], Memory]
Models = Callable[[], ModelProvider]
"""The language model; raises ``InputError`` when none is configured."""


def request_extraction(
    memory: Memory,
    names: Sequence[str],
    messages: Sequence[ChatMessage],
    *,
    timezone: str | None = None,
    configs: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[UUID]:
    """
    Asks for extractions from a conversation, one job for each, all in one append. The jobs hold
    the conversation, sealed for the user, so that no message is lost when a model fails.

    Args:
        memory: A handle with a user.
        names: Which extractors; see ``EXTRACTORS``.
        messages: The conversation.
        timezone: The user's; None for UTC.
        configs: Arguments of the stores by extractor.

    Returns:
        Ids of the jobs.

    Raises:
        InputError: No user.
    """
    owner = memory.principal.identity("user")
    if owner is None:
        raise InputError(
            "extraction needs a user: neither the call nor the handle names one.",
            code="no_owner",
            field="user_id",
            allowed="a text",
        )
    memory.allow("extract", Right.USE)
    told = [message.model_dump(mode="json", exclude_defaults=True) for message in messages]
    steps = [
        Ask(
            type=f"{PREFIX}{name}",
            arguments={
                "messages": told,
                "timezone": timezone,
                "config": dict((configs or {}).get(name, {})),
            },
        )
        for name in names
    ]
    decided = memory.services.deciding.decide(
        memory.principal,
        memory.branch_view(),
        owner,
        (),
        lambda seen: steps,
        Request(command="extract", arguments={"names": list(names)}),
    )
    return decided.jobs()


def extraction_handlers(as_: As, models: Models) -> dict[str, Handler]:
    """
    What is done for the jobs of extraction.

    Args:
        as_: Makes the handle that a job acts with.
        models: Gives the language model.
    """

    def handler(name: str) -> Handler:
        return lambda work: _extract(name, work, as_, models)

    return {f"{PREFIX}{name}": handler(name) for name in EXTRACTORS}


class Counted:
    """A language model whose calls are counted on a job."""

    def __init__(self, model: ModelProvider, work: Work) -> None:
        self._model, self._work = model, work

    @property
    def model_id(self) -> str:
        """As of the model."""
        return self._model.model_id

    def generate(self, messages: list[ChatMessage], **settings: Any) -> ModelReply:
        """As of the model; counted also when it fails."""
        self._work.model_calls += 1
        return self._model.generate(messages, **settings)


def _extract(name: str, work: Work, as_: As, models: Models) -> Mapping[str, Any]:
    memory = as_(work.principal, work.branch.branch.name or "main")
    arguments = work.job.arguments
    said = Conversation(
        messages=[ChatMessage.model_validate(message) for message in arguments["messages"]],
        now=work.job.requested_at,
        timezone=arguments["timezone"],
        key=work.key,
    )
    return EXTRACTORS[name](memory, Counted(models(), work), said, arguments["config"])
