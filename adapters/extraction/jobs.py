"""Extraction as jobs: asked for in one append, worked on later, stored once."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from memoriale.adapters.application.deciding import Request
from memoriale.adapters.application.jobs import Handler, Work
from memoriale.adapters.extraction.extractor import Conversation, Extractor, Key
from memoriale.adapters.extraction.extractors import EXTRACTORS, user_of
from memoriale.adapters.extraction.graphs import graph_extractor
from memoriale.adapters.library.memory import Memory
from memoriale.domain.chat import ChatMessage, ModelProvider, ModelReply
from memoriale.domain.jobs import Job
from memoriale.domain.principal import Principal, Right
from memoriale.domain.steps import Ask
from memoriale.domain.stores.graph import GraphStore

PREFIX: Final = "extract."
OWN_GRAPH: Final = "own_graph"
"""As ``graph``, into a graph store of the program's own."""

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
    owner = user_of(memory)
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


def extraction_handlers(
    as_: As, models: Models, graph: GraphStore | None = None
) -> dict[str, Handler]:
    """
    What is done for the jobs of extraction.

    Args:
        as_: Makes the handle that a job acts with.
        models: Gives the language model.
        graph: A graph store of the program's own; who has none leaves the jobs for it alone.
    """

    def handler(extractor: Extractor[Any]) -> Handler:
        return lambda work: _extract(extractor, work, as_, models)

    own = {} if graph is None else {OWN_GRAPH: graph_extractor(graph)}
    return {f"{PREFIX}{name}": handler(one) for name, one in {**EXTRACTORS, **own}.items()}


def acting(work: Work, as_: As) -> Memory:
    """The handle that a job acts with: what it stores is refused once the job has ended."""
    return as_(work.principal, work.branch.branch.name or "main").for_job(work.guard)


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


def conversation_of(job: Job, key: Key = lambda effect: None) -> Conversation:
    """What a job of extraction holds."""
    return Conversation(
        messages=[ChatMessage.model_validate(message) for message in job.arguments["messages"]],
        now=job.requested_at,
        timezone=job.arguments["timezone"],
        key=key,
    )


def _extract(extractor: Extractor[Any], work: Work, as_: As, models: Models) -> Mapping[str, Any]:
    memory = acting(work, as_)
    said = conversation_of(work.job, work.key)
    return extractor(memory, Counted(models(), work), said, work.job.arguments["config"])
