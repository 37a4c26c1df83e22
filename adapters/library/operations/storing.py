"""Storing what a model took from messages: all of it in one append, or nothing."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from memoriale.adapters.application.deciding import Decided, Request
from memoriale.adapters.application.jobs import Jobs, Work
from memoriale.adapters.extraction.asking import Answer
from memoriale.adapters.extraction.items import ItemsReply
from memoriale.adapters.extraction.replies import unusable
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.operations.vectors import ManyOwners, Patient, check_embedded
from memoriale.domain.chat import model_code
from memoriale.domain.commands import Remember
from memoriale.domain.errors import InputError
from memoriale.domain.events import NewEvent, Remembered, Restated, SourceTier
from memoriale.domain.operations.items import DEDUP_THRESHOLD, ITEM, AddItems
from memoriale.domain.operations.scopes import OperationScope
from memoriale.domain.principal import Right
from memoriale.domain.steps import Ask, Make, Restate, Slice, Step

CONCURRENCY: Final = 4
MOST_CONCURRENT: Final = 64
_TOUCHED: Final = (Remembered.TOPIC, Restated.TOPIC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """
    How items are stored; kept with the job, so that another process does the same.

    Args:
        dedup_threshold: Least cosine of what says the same, 0..1; 0 stores everything anew.
        dimensions: How wide vectors must be; None for as wide as the embedder's.
        concurrency: How many texts are embedded at a time.
        max_retries: How often what failed is tried again within an attempt.
        graph: Type of the job that puts the messages into a graph; None for no graph.
        graph_prompt: What that job asks, instead of the prompt of this release.
    """

    dedup_threshold: float = DEDUP_THRESHOLD
    dimensions: int | None = None
    concurrency: int = CONCURRENCY
    max_retries: int = 3
    graph: str | None = None
    graph_prompt: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """
    What was stored.

    Args:
        ids: The items that were made or restated, in the order in which each was first touched.
        decided: What became of the request.
        contents: The words of each item, by the place of its event in the append.
    """

    ids: tuple[UUID, ...]
    decided: Decided
    contents: Mapping[int, str]


def commands_of(
    memory: Memory, answer: Answer[ItemsReply], scope: OperationScope
) -> list[Remember]:
    """
    A checked command for each fact of an answer.

    Raises:
        BadReplyError: A fact that cannot be stored; says which, by number.
    """
    tenant_wide = scope.owner(memory.principal.tenant).type == "tenant"
    found = []
    for number, fact in enumerate(answer.value.facts, 1):
        details = {"labels": list(fact.tags), "category": fact.category, "input": fact.input}
        given = {
            "kind": ITEM,
            "importance": fact.importance,
            "tags": list(scope.tags),
            "visibility": "tenant" if tenant_wide else "owner",
            "source_tier": SourceTier.LLM_EXTRACTED,
            "model": model_code(answer.model),
            "prompt_version": answer.prompt,
            "details": {name: value for name, value in details.items() if value},
        }
        try:
            found.append(memory.remember_command(fact.content, given))
        except InputError as error:
            told = f"fact {number} of {len(answer.value.facts)}: {error.message}"
            raise unusable(told, answer.raw) from None
    return found


def store_items(
    memory: Memory,
    answer: Answer[ItemsReply],
    scope: OperationScope,
    rules: Rules,
    vectors: ManyOwners,
    patient: Patient,
    *,
    commands: Sequence[Remember],
    work: Work | None = None,
    jobs: Jobs | None = None,
    correlation_id: UUID | None = None,
    asks: Sequence[Ask] = (),
) -> Stored:
    """
    Embeds and stores what a model answered. With a job, its completion is part of the append: so
    a job that was cancelled has stored nothing, and one that stored something is completed.

    Args:
        memory: As whom.
        answer: The model's.
        scope: Whose the items are.
        rules: How.
        vectors: Of the owners.
        patient: Tries to embed again.
        commands: From ``commands_of``.
        work, jobs: The job, and what makes its completion.
        correlation_id: What the events belong to.
        asks: Further jobs that are asked for in the same append.

    Raises:
        OperationError: Facts that could not be embedded; nothing was stored.
        JobEndedError: The job was cancelled or taken over; nothing was stored.
    """
    owner = scope.owner(memory.principal.tenant)
    identities = memory.services.log.identities
    memory.allow("add", Right.USE)
    pseudonym = identities.key(owner).pseudonym
    through = memory.principal.identity("agent")
    agent = None if through is None else identities.key(through).pseudonym
    check_embedded(
        vectors.embedder,
        pseudonym,
        [command.content for command in commands],
        concurrency=rules.concurrency,
        patient=patient,
    )
    rule = AddItems(commands, agent, rules.dedup_threshold, vectors.of(pseudonym))

    def decision(seen: Slice) -> list[Step]:
        return [*rule(seen), *asks]

    decided = memory.services.deciding.decide(
        memory.principal,
        memory.branch_view(),
        owner,
        (ITEM,),
        decision,
        Request(
            command="add",
            arguments={"reply": answer.raw},
            idempotency_key=None if work is None else work.key("items"),
            correlation_id=correlation_id,
            causation_id=None if work is None else work.job.columns.event_id,
            job=memory.job,
            closing=None if work is None or jobs is None else _closing(work, jobs, answer),
        ),
    )
    if work is not None and decided.events:
        work.completed = True
    places = [n for n, (_, topic) in enumerate(decided.events) if topic in _TOUCHED]
    return Stored(
        ids=tuple(dict.fromkeys(decided.events[place][0] for place in places)),
        decided=decided,
        contents={place: c.content for place, c in zip(places, commands, strict=True)},
    )


def result_of(answer: Answer[ItemsReply], ids: Sequence[UUID]) -> dict[str, Any]:
    """What is kept with a job that is done."""
    return {**answer.provenance(), "stored": [str(memory_id) for memory_id in ids]}


def store_now(memory: Memory, answer: Answer[ItemsReply]) -> dict[str, Any]:
    """Stores items without a job, as those of the handle's user; see ``extract``."""
    scope = OperationScope(memory.principal.user, memory.principal.agent)
    services = memory.services
    stored = store_items(
        memory,
        answer,
        scope,
        Rules(),
        ManyOwners(services.embedder, services.log.erasures),
        lambda call: call(),
        commands=commands_of(memory, answer, scope),
    )
    return {"stored": [str(memory_id) for memory_id in stored.ids]}


def _closing(
    work: Work, jobs: Jobs, answer: Answer[ItemsReply]
) -> Callable[[Sequence[Step]], NewEvent]:
    def closing(steps: Sequence[Step]) -> NewEvent:
        ids = [step.memory_id for step in steps if isinstance(step, Make | Restate)]
        return jobs.completion(work, result_of(answer, [*dict.fromkeys(ids)]))

    return closing
