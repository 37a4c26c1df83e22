"""What is done for each type of job that the stores ask for."""

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from memoriale.adapters.application.jobs import Handler, Work
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.stores.learnings import LearnedKnowledge
from memoriale.domain.memory import Status
from memoriale.domain.payloads import Correction
from memoriale.domain.principal import Principal
from memoriale.domain.stores.corrections import RETIRE_JOB, collision_text
from memoriale.domain.stores.learnings import CONTRADICTION

As = Callable[[Principal, str], Memory]
"""The handle of a principal on a branch by name."""


def handlers(as_: As) -> dict[str, Handler]:
    """
    The handlers by type of job.

    Args:
        as_: Makes the handle that a job acts with.
    """
    return {RETIRE_JOB: lambda work: retire_contradicted(work, as_)}


def retire_contradicted(work: Work, as_: As) -> Mapping[str, Any]:
    """Ends the learnings that a correction contradicts; none when it was taken back meanwhile."""
    memory = as_(work.principal, work.branch.branch.name or "main").for_job(work.guard)
    correction_id = UUID(work.job.arguments["memory_id"])
    services = memory.services
    state = services.reading.folded([correction_id], work.branch).get(correction_id)
    if state is None or state.status is not Status.CURRENT:
        return {"retired": []}
    payload = state.payload
    assert isinstance(payload, Correction)
    retired = LearnedKnowledge(memory).invalidate_contradicted(
        collision_text(payload),
        correction_id,
        work.job.arguments.get("threshold", CONTRADICTION * 1000) / 1000,
        original=payload.original_value,
        corrected=payload.corrected_value,
    )
    return {"retired": [str(memory_id) for memory_id in retired]}
