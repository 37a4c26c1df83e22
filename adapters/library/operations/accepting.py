"""One add without a memory that stays: for commands and servers."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from memoriale.adapters.application.jobs import Jobs
from memoriale.adapters.application.presenting import as_json
from memoriale.adapters.extraction.handlers import known_handlers
from memoriale.adapters.language_models.factory import make_model
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.operations.adding import (
    ADD_JOB,
    extracted_of,
    request_add,
    stored_of,
)
from memoriale.adapters.library.operations.messages import Messages, parse_messages
from memoriale.adapters.library.operations.storing import Rules
from memoriale.domain.jobs import OPEN, Job
from memoriale.domain.operations.op_ids import OperationIds
from memoriale.domain.operations.scopes import parse_scope
from memoriale.domain.operations.states import OF_JOB

_PAUSE: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """An add as it stands; see ``AgentMemoryAddOperation``. ``job`` is the id of its job."""

    op_id: str
    job: UUID
    status: str
    error: str | None
    reason: str | None
    extracted: tuple[Mapping[str, Any], ...]
    stored_ids: tuple[UUID, ...]

    def as_dict(self) -> dict[str, Any]:
        """As JSON values."""
        values: dict[str, Any] = as_json(self)
        return values


def accept(
    memory: Memory,
    messages: Messages,
    *,
    tags: list[str] | None = None,
    op_id: str | None = None,
    idempotency_key: str | None = None,
    wait: bool = False,
) -> Accepted:
    """
    Accepts messages of the handle's user and agent; ``jobs run`` or a runner works on them.

    Args:
        memory: As whom.
        messages: What was said.
        tags: Further fields of the scope.
        op_id: A label; see ``OperationIds.take``.
        idempotency_key: A repeated call with it and the same messages gives the first job.
        wait: Work on it here, until it has ended.

    Raises:
        InputError: A wrong argument; with ``wait`` also when there is no model.
    """
    principal = memory.principal
    given = {"user_id": principal.user, "agent_id": principal.agent, "tags": tags}
    scope = parse_scope(given, memory.settings.limits)
    turns = parse_messages(messages)
    label = OperationIds().take(op_id, "add")
    if wait:
        # What nobody could work on is not accepted in order to be waited for.
        make_model(memory.settings.model, memory.settings.openai_endpoint)
    decided = request_add(
        memory, turns, scope, Rules(), op_id=label, idempotency_key=idempotency_key
    )
    (job_id,) = decided.jobs()
    jobs = memory.services.jobs
    job = _worked_on(memory, jobs, job_id) if wait else jobs.get(job_id)
    return Accepted(
        op_id=str(job.arguments.get("op_id", label)),
        job=job.id,
        status=OF_JOB[job.status].value,
        error=job.error,
        reason=job.reason,
        extracted=tuple(fact.model_dump(mode="json") for fact in extracted_of(job)),
        stored_ids=tuple(stored_of(job)),
    )


def _worked_on(memory: Memory, jobs: Jobs, job_id: UUID) -> Job:
    settings = memory.settings
    handlers = known_handlers(
        lambda principal, branch: Memory(memory.services, settings, principal, branch),
        lambda: make_model(settings.model, settings.openai_endpoint),
    )
    mine = {ADD_JOB: handlers[ADD_JOB]}
    while True:
        jobs.run_due(mine, only=lambda job: job.id == job_id)
        job = jobs.get(job_id)
        if job.status not in OPEN:
            return job
        # Somebody else works on it, or its next attempt waits.
        time.sleep(_PAUSE)
