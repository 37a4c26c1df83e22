"""Adds as jobs: accepted in one append, worked on by whoever comes to it, stored once."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from threading import Event
from typing import Any, Final
from uuid import UUID

from memoriale.adapters.application.deciding import Decided, Request
from memoriale.adapters.application.jobs import Handler, Work
from memoriale.adapters.extraction.asking import Answer
from memoriale.adapters.extraction.items import ITEMS, ItemsReply
from memoriale.adapters.extraction.jobs import PREFIX, As, Counted, Models, acting, conversation_of
from memoriale.adapters.extraction.replies import read_reply
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.operations.patience import Patience
from memoriale.adapters.library.operations.storing import (
    Rules,
    Stored,
    commands_of,
    result_of,
    store_items,
)
from memoriale.adapters.library.operations.vectors import (
    ManyOwners,
    check_dimensions,
)
from memoriale.domain.chat import ChatMessage
from memoriale.domain.commands import Remember
from memoriale.domain.errors import MemorialeError, UnavailableError, is_callers_end
from memoriale.domain.jobs import Job
from memoriale.domain.operations.items import ExtractedFact
from memoriale.domain.operations.scopes import OperationScope, parse_scope
from memoriale.domain.principal import Right
from memoriale.domain.steps import Ask

ADD_JOB: Final = f"{PREFIX}{ITEMS.name}"
OWN_ADD_JOB: Final = f"{PREFIX}own_items"
"""The same with an embedder of the program's own; who has none leaves it alone."""


@dataclass(slots=True)
class Watch:
    """
    Who follows an add while it is worked on.

    Args:
        started: Told when an attempt begins.
        extracted: Told what the model took from the messages.
        stored: Told what was stored, and the correlation id of its events.
        ended: Gives what is set when nobody waits for a job any more.
        correlation: Gives the correlation id of what is stored; None: that of the job.
    """

    started: Callable[[UUID], None] = lambda job_id: None
    extracted: Callable[[UUID, list[ExtractedFact]], None] = lambda job_id, facts: None
    stored: Callable[[OperationScope, Stored, UUID], None] = lambda scope, stored, belongs: None
    ended: Callable[[UUID], Event] = lambda job_id: Event()
    correlation: Callable[[], UUID | None] = lambda: None


def request_add(
    memory: Memory,
    messages: Sequence[ChatMessage],
    scope: OperationScope,
    rules: Rules,
    *,
    op_id: str,
    idempotency_key: str | None = None,
    type_: str = ADD_JOB,
    correlation_id: UUID | None = None,
) -> Decided:
    """
    Accepts messages. The job holds them, sealed for their owner, so no failure loses any.

    Args:
        memory: As whom.
        messages: What was said.
        scope: Whose the items will be.
        rules: How they are stored.
        op_id: Label of the operation.
        idempotency_key: A repeated call with it and the same messages gives the first job.
        type_: Type of the job.
        correlation_id: What its events belong to.

    Raises:
        InputError: The key was used for other messages or another scope.
    """
    memory.allow("add", Right.USE)
    told = [message.model_dump(mode="json", exclude_defaults=True) for message in messages]
    kept = {name: value for name, value in asdict(rules).items() if value is not None}
    arguments: dict[str, Any] = {
        "messages": told,
        "timezone": None,
        "config": {},
        "scope": scope.as_dict(),
        "rules": kept,
        "op_id": op_id,
    }
    return memory.services.deciding.decide(
        memory.principal,
        memory.branch_view(),
        scope.owner(memory.principal.tenant),
        (),
        lambda seen: [Ask(type=type_, arguments=arguments)],
        Request(
            command="add",
            arguments={"messages": told, "scope": scope.as_dict()},
            idempotency_key=idempotency_key,
            correlation_id=correlation_id,
        ),
    )


def add_handlers(
    as_: As,
    models: Models,
    vectors: Callable[[Memory], ManyOwners] | None = None,
    *,
    type_: str = ADD_JOB,
    watch: Watch | None = None,
) -> dict[str, Handler]:
    """
    What is done for adds.

    Args:
        as_: Makes the handle that a job acts with.
        models: Gives the language model.
        vectors: Gives the vectors of owners; None: by the embedder of the ledger.
        type_: Type of the jobs.
        watch: Who follows.
    """
    kept: list[ManyOwners] = []

    def of_ledger(memory: Memory) -> ManyOwners:
        if not kept:
            kept.append(ManyOwners(memory.services.embedder, memory.services.log.erasures))
        return kept[0]

    adding = Adding(as_, models, vectors or of_ledger, watch or Watch())
    return {type_: adding}


@dataclass(frozen=True, slots=True)
class Adding:
    """Works on one add; see ``add_handlers`` for the arguments."""

    as_: As
    models: Models
    vectors: Callable[[Memory], ManyOwners]
    watch: Watch

    def __call__(self, work: Work) -> Mapping[str, Any]:
        """
        Asks the model, has every fact embedded, and stores all of them with the job's completion.

        Raises:
            OperationError: The model or the embedder failed as often as is allowed.
            JobEndedError: The job was cancelled or taken over.
        """
        memory, job = acting(work, self.as_), work.job
        scope, rules = scope_of(memory, job), Rules(**job.arguments["rules"])
        self.watch.started(job.id)
        jobs, guard = memory.services.jobs, work.guard
        patient = Patience(
            rules.max_retries, self.watch.ended(job.id), lambda: jobs.has_gone_on(guard)
        )
        vectors = self.vectors(memory)
        check_dimensions(rules.dimensions, vectors.embedder)
        model = Counted(self.models(), work)
        said = conversation_of(job)

        def asked() -> tuple[Answer[ItemsReply], list[Remember]]:
            try:
                answer = ITEMS.ask(memory, model, said, {})
            except MemorialeError:
                raise
            except BaseException as error:
                if is_callers_end(error):
                    raise
                # A model of the program's own may raise anything; it is said and tried again.
                raise UnavailableError(
                    f"the model {model.model_id!r} failed with {type(error).__name__}: {error}",
                    code="model_failed",
                    field="llm",
                ) from error
            assert answer is not None
            return answer, commands_of(memory, answer, scope)

        answer, commands = patient(asked)
        self.watch.extracted(job.id, answer.value.extracted())
        belongs = self.watch.correlation() or job.columns.correlation_id
        stored = store_items(
            memory,
            answer,
            scope,
            rules,
            vectors,
            patient,
            commands=commands,
            work=work,
            jobs=jobs,
            correlation_id=belongs,
            asks=_graph_asks(rules, job),
        )
        self.watch.stored(scope, stored, belongs)
        return result_of(answer, stored.ids)


def scope_of(memory: Memory, job: Job) -> OperationScope:
    """The scope of an add."""
    return parse_scope(job.arguments["scope"], memory.settings.limits)


def extracted_of(job: Job) -> list[ExtractedFact]:
    """What a job that is done took from its messages; nothing for another."""
    reply = job.result.get("reply")
    return read_reply(reply, ItemsReply).extracted() if isinstance(reply, str) else []


def stored_of(job: Job) -> list[UUID]:
    """The items that a job that is done made or restated."""
    return [UUID(memory_id) for memory_id in job.result.get("stored", ())]


def _graph_asks(rules: Rules, job: Job) -> list[Ask]:
    if rules.graph is None:
        return []
    arguments = {"messages": job.arguments["messages"], "timezone": None, "config": {}}
    if rules.graph_prompt is not None:
        arguments["prompt"] = rules.graph_prompt
    return [Ask(type=rules.graph, arguments=arguments)]
