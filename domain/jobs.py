"""Work that is done later: requested, started, completed, failed or cancelled, all as events."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final
from uuid import UUID

from pydantic import Field, JsonValue

from memoriale.domain.events import Body, Code, Event, Header, RecordedEvent
from memoriale.domain.record import Columns

JOB_KIND: Final = "job"
MOST_ATTEMPTS: Final = 10
"""About seventeen minutes of an endpoint that is away; then a person asks for it again."""
LONGEST_PAUSE: Final = timedelta(hours=1)
LONGEST_REST: Final = timedelta(days=1)
"""That somebody who failed is given, however long it asks to be left alone."""

Attempt = Annotated[int, Field(ge=1)]


class JobRequestedHeader(Header):
    """What kind of work it is."""

    type: Code


class JobRequestedBody(Body):
    """What it needs to know, and as whom it acts: the caller's user, agent and so on."""

    arguments: dict[str, JsonValue] = Field(default_factory=dict)
    principal: dict[str, str] = Field(default_factory=dict)


class JobRequested(Event):
    """Work is to be done. Its stream is the job; asked for once more it begins anew."""

    TOPIC: ClassVar[str] = "job.requested"
    header: JobRequestedHeader
    body: JobRequestedBody | None


class JobAttemptHeader(Header):
    """Which attempt, counted from 1."""

    attempt: Attempt


class JobStarted(Event):
    """Somebody began to work on it."""

    TOPIC: ClassVar[str] = "job.started"
    header: JobAttemptHeader
    body: Body | None


class JobCompletedHeader(JobAttemptHeader):
    """How often a language model was called in this attempt."""

    model_calls: int = Field(default=0, ge=0)


class JobCompletedBody(Body):
    """What came of it."""

    result: dict[str, JsonValue] = Field(default_factory=dict)


class JobCompleted(Event):
    """It is done."""

    TOPIC: ClassVar[str] = "job.completed"
    header: JobCompletedHeader
    body: JobCompletedBody | None


class JobFailedHeader(JobCompletedHeader):
    """
    Code of the error, whether it is not tried again by itself, and for how many seconds whoever
    failed asked to be left alone.
    """

    error: Code
    final: bool = False
    retry_after: int = Field(default=0, ge=0)


def _did_not_ask(header: dict[str, Any], body: Any) -> tuple[dict[str, Any], Any]:
    return {**header, "retry_after": 0}, body


class JobFailed(Event):
    """An attempt failed; ``reason`` in the body says why."""

    TOPIC: ClassVar[str] = "job.failed"
    SCHEMA_VERSION: ClassVar[int] = 2
    UPCASTERS: ClassVar[dict[int, Any]] = {1: _did_not_ask}
    header: JobFailedHeader
    body: Body | None


class JobCancelled(Event):
    """It is not to be done any more."""

    TOPIC: ClassVar[str] = "job.cancelled"
    header: Header
    body: Body | None


JOB_TYPES: Final[tuple[type[Event], ...]] = (
    JobRequested,
    JobStarted,
    JobCompleted,
    JobFailed,
    JobCancelled,
)


class EffectKey(str):
    """
    The idempotency key of something that a job stores. A second attempt may come to another
    result; what the first one stored stands.
    """


class JobStatus(StrEnum):
    """How a job stands. ``failed`` waits for its next attempt, ``errored`` does not."""

    QUEUED = "queued"
    ACTIVE = "active"
    COMPLETED = "completed"
    FAILED = "failed"
    ERRORED = "errored"
    CANCELLED = "cancelled"


OPEN: Final = frozenset({JobStatus.QUEUED, JobStatus.ACTIVE, JobStatus.FAILED})
"""Still to be done. An active one whose worker died is taken up again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """
    A job as folded from its stream.

    Args:
        id: Its id.
        type: What kind of work.
        status: How it stands.
        attempts: Attempts begun since it was last asked for.
        requested_at: When it was asked for.
        changed_at: When its last event was recorded.
        started_at: When its last attempt began.
        next_try: When it is tried again after a failure, at the earliest.
        error: Code of the last failure.
        reason: What the last failure said.
        model_calls: Calls of language models over all attempts.
        arguments: What it needs to know; empty when they were erased.
        principal: As whom it acts.
        result: What came of it.
        columns: Those of its last event: whose it is and who asked.
        index: Index of its last event.
        erased: Whether what it needs to know was erased.
    """

    id: UUID
    type: str
    status: JobStatus
    attempts: int = 0
    requested_at: datetime
    changed_at: datetime
    started_at: datetime | None = None
    next_try: datetime | None = None
    error: str | None = None
    reason: str | None = None
    model_calls: int = 0
    arguments: dict[str, Any] = field(default_factory=dict)
    principal: dict[str, str] = field(default_factory=dict)
    result: dict[str, Any] = field(default_factory=dict)
    columns: Columns
    index: int
    erased: bool = False

    def due(self, now: datetime) -> bool:
        """Whether it may be worked on."""
        return self.status in OPEN and (self.next_try is None or self.next_try <= now)


def project_job(job: Job | None, events: Iterable[RecordedEvent]) -> Job | None:
    """Folds the stream of one job; the library's projector signature."""
    for recorded in events:
        job = _evolve(job, recorded)
    return job


def pause_after(attempt: int, asked: int = 0) -> timedelta:
    """
    The rest after a failed attempt: a second, doubled each time, at most an hour; or what whoever
    failed asked for, where that is longer.
    """
    pause = min(timedelta(seconds=2.0 ** (attempt - 1)), LONGEST_PAUSE)
    return max(pause, min(timedelta(seconds=asked), LONGEST_REST))


def _evolve(job: Job | None, recorded: RecordedEvent) -> Job | None:
    event, columns, at = recorded.event, recorded.columns, recorded.recorded.recorded_at
    if isinstance(event, JobRequested):
        return Job(
            id=columns.stream_id,
            type=event.header.type,
            status=JobStatus.QUEUED,
            requested_at=at,
            changed_at=at,
            model_calls=0 if job is None else job.model_calls,
            arguments={} if event.body is None else dict(event.body.arguments),
            principal={} if event.body is None else dict(event.body.principal),
            columns=columns,
            index=recorded.index,
            erased=event.body is None,
        )
    if job is None:
        return None
    job = replace(job, columns=columns, index=recorded.index, changed_at=at, next_try=None)
    if isinstance(event, JobStarted):
        return replace(job, status=JobStatus.ACTIVE, attempts=event.header.attempt, started_at=at)
    if isinstance(event, JobCompleted):
        result = {} if event.body is None else dict(event.body.result)
        calls = job.model_calls + event.header.model_calls
        return replace(job, status=JobStatus.COMPLETED, result=result, model_calls=calls)
    if isinstance(event, JobFailed):
        return _failed(job, event, at)
    if isinstance(event, JobCancelled):
        return replace(job, status=JobStatus.CANCELLED)
    return job


def _failed(job: Job, event: JobFailed, at: datetime) -> Job:
    header = event.header
    return replace(
        job,
        status=JobStatus.ERRORED if header.final else JobStatus.FAILED,
        error=header.error,
        reason=None if event.body is None else event.body.reason,
        next_try=None if header.final else at + pause_after(header.attempt, header.retry_after),
        model_calls=job.model_calls + header.model_calls,
    )
