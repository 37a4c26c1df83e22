"""Jobs: looking at them, cancelling, asking once more, and working on those that are due."""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime
from math import ceil
from threading import Lock
from typing import Any, Final
from uuid import UUID, uuid4

from memoriale.adapters.application.apart import apart
from memoriale.adapters.application.branching import Branching, BranchView
from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.adapters.postgres.datastore import Datastore
from memoriale.adapters.postgres.job_reading import job_rows
from memoriale.adapters.postgres.locks import AdvisoryLocks, job_key
from memoriale.domain.errors import (
    ConflictError,
    InputError,
    JobEndedError,
    MemorialeError,
    UnavailableError,
)
from memoriale.domain.events import Body, Event, Header, NewEvent
from memoriale.domain.guards import StreamAt
from memoriale.domain.jobs import (
    LONGEST_REST,
    MOST_ATTEMPTS,
    OPEN,
    EffectKey,
    Job,
    JobAttemptHeader,
    JobCancelled,
    JobCompleted,
    JobCompletedBody,
    JobCompletedHeader,
    JobFailed,
    JobFailedHeader,
    JobRequested,
    JobRequestedBody,
    JobRequestedHeader,
    JobStarted,
    JobStatus,
    project_job,
)
from memoriale.domain.principal import Principal
from memoriale.domain.text import shown

_PAGE: Final = 200
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Work:
    """
    What a handler is given.

    Args:
        job: The job.
        principal: As whom it acts.
        branch: Where.
        model_calls: To be raised with each call of a language model.
    """

    job: Job
    principal: Principal
    branch: BranchView
    model_calls: int = 0
    completed: bool = False
    """Whether the handler stored the job's completion with its effects."""

    def key(self, effect: str) -> EffectKey:
        """The idempotency key of an effect: however often the job runs, it is stored once."""
        return EffectKey(f"job:{self.job.id}:{effect}")

    @property
    def guard(self) -> StreamAt:
        """Holds while nothing happened to the job since this attempt began."""
        return StreamAt(self.job.id, self.job.columns.stream_version)


Handler = Callable[[Work], Mapping[str, Any]]
"""Does the work and answers what came of it. Called again when it raises or the process dies."""


@dataclass(slots=True)
class _Known:
    """The open jobs as of an index."""

    index: int = -1
    open: dict[UUID, Job] = field(default_factory=dict)


class Jobs:
    """
    The jobs of one tenant.

    Args:
        log: The memory log.
        branching: Finds the branch that a job acts on.
        datastore: The database, for the locks.
        clock: The time by which jobs are due.
    """

    def __init__(
        self,
        log: TenantLog,
        branching: Branching,
        datastore: Datastore,
        clock: Callable[[], datetime],
    ) -> None:
        self._log = log
        self._branching = branching
        self._datastore = datastore
        self._clock = clock
        self._lock = Lock()
        self._known = _Known()

    def get(self, job_id: UUID) -> Job:
        """
        One job.

        Raises:
            InputError: There is none of that id.
        """
        events = self._log.mapper.decode(self._log.reader.stream(job_id))
        job = project_job(None, events)
        if job is None:
            raise InputError(
                f"there is no job {job_id}.",
                code="unknown_job",
                field="job_id",
                value=str(job_id),
            )
        return job

    def begun(self, job_id: UUID) -> tuple[Work, int]:
        """
        The work of a job's last attempt, and the index at which it began.

        Raises:
            InputError: There is no such job, or nobody began to work on it.
        """
        events = list(self._log.mapper.decode(self._log.reader.stream(job_id)))
        job = self.get(job_id)
        started = [one.index for one in events if isinstance(one.event, JobStarted)]
        if not started:
            raise _cannot("compared", job, [JobStatus.COMPLETED.value])
        principal = self._acting(job)
        return Work(job, principal, self._branch(job, principal)), started[-1]

    def has_gone_on(self, guard: StreamAt) -> bool:
        """Whether something happened to a job since: it was cancelled or taken over."""
        return bool(self._log.reader.stream(guard.stream_id, gt=guard.version, limit=1))

    def open(self) -> list[Job]:
        """The jobs that are still to be done, those asked for first at the front."""
        with self._lock:
            rows = job_rows(self._log.reader, after=self._known.index)
            for recorded in self._log.mapper.decode(rows):
                job_id = recorded.columns.stream_id
                job = project_job(self._known.open.get(job_id), [recorded])
                if job is not None and job.status in OPEN:
                    self._known.open[job_id] = job
                else:
                    self._known.open.pop(job_id, None)
                self._known.index = recorded.index
            found = list(self._known.open.values())
        return sorted(found, key=lambda job: job.requested_at)

    def due(self, types: Collection[str]) -> list[Job]:
        """The jobs of some types that are due, those asked for first at the front."""
        now = self._clock()
        return [job for job in self.open() if job.type in types and job.due(now)]

    def cancel(self, principal: Principal, job_id: UUID, reason: str | None = None) -> Job:
        """
        Ends a job that is still to be done. An attempt that runs is not interrupted, but from
        now on nothing of it is stored: what it stores is guarded by its place in this stream.

        Raises:
            InputError: It has ended already, or there is none.
        """
        event = JobCancelled(header=Header(), body=Body(reason=reason))
        while True:
            job = self.get(job_id)
            if job.status not in OPEN:
                raise _cannot("cancelled", job, sorted(status.value for status in OPEN))
            try:
                self._append(principal, job, event)
            except ConflictError:
                # It began, failed or ended just then: look how it stands now.
                continue
            return self.get(job_id)

    def retry(self, principal: Principal, job_id: UUID) -> Job:
        """
        Asks for a job once more that failed for good or was cancelled; its attempts begin anew.

        Raises:
            InputError: It stands otherwise, what it needs was erased, or there is none.
        """
        job = self.get(job_id)
        again = (JobStatus.ERRORED, JobStatus.CANCELLED, JobStatus.FAILED)
        if job.status not in again or job.erased:
            raise _cannot("asked for again", job, sorted(status.value for status in again))
        body = JobRequestedBody(arguments=job.arguments, principal=job.principal)
        event = JobRequested(header=JobRequestedHeader(type=job.type), body=body)
        self._append(principal, job, event)
        return self.get(job_id)

    def run_due(
        self,
        handlers: Mapping[str, Handler],
        *,
        limit: int | None = None,
        only: Callable[[Job], bool] = lambda job: True,
        locks: AdvisoryLocks | None = None,
    ) -> list[Job]:
        """
        Works on the jobs that are due, one after the other. A job that another process works on
        is left to it; one whose worker died is taken up again.

        Args:
            handlers: What to do by type of job; a job of another type is left alone.
            limit: How many at most.
            only: Which of them.
            locks: Those of a thread that does so all the time; default: made for this call.

        Returns:
            The jobs that were worked on, as they stand now.
        """
        done: list[Job] = []
        now = self._clock()
        with ExitStack() as closing:
            held = locks or closing.enter_context(self.locks())
            for job in self.open():
                if limit is not None and len(done) == limit:
                    break
                if job.type not in handlers or not job.due(now) or not only(job):
                    continue
                worked = self._claimed(job.id, handlers[job.type], held, now)
                done += [] if worked is None else [worked]
        return done

    def locks(self) -> AdvisoryLocks:
        """Locks on jobs, for one thread."""
        return AdvisoryLocks(self._datastore)

    def newest(self, *, limit: int = 50, status: JobStatus | None = None) -> list[Job]:
        """
        Jobs, those with the newest event first.

        Args:
            limit: How many at most.
            status: Only those that stand so.
        """
        found: list[Job] = []
        for job_id in self._newest():
            job = self.get(job_id)
            if status is None or job.status is status:
                found.append(job)
            if len(found) == limit:
                break
        return found

    def _newest(self) -> Iterator[UUID]:
        seen: set[UUID] = set()
        before = 2**63 - 1
        while rows := job_rows(self._log.reader, before=before, limit=_PAGE, newest_first=True):
            for row in rows:
                if row.columns.stream_id not in seen:
                    seen.add(row.columns.stream_id)
                    yield row.columns.stream_id
            before = rows[-1].recorded.index

    def _claimed(
        self, job_id: UUID, handler: Handler, locks: AdvisoryLocks, now: datetime
    ) -> Job | None:
        key = job_key(self._log.log_id, job_id)
        if not locks.hold(key):
            return None
        try:
            job = self.get(job_id)
            if not job.due(now):
                return None
            self._attempt(job, handler)
            return self.get(job_id)
        except ConflictError:
            # Somebody cancelled it or took it over meanwhile, or it is left to others.
            return None
        finally:
            locks.release(key)

    def _attempt(self, job: Job, handler: Handler) -> None:
        principal = self._acting(job)
        attempt = job.attempts + 1
        job = self._append(
            principal, job, JobStarted(header=JobAttemptHeader(attempt=attempt), body=Body())
        )
        work = Work(job, principal, self._branch(job, principal))
        # A model or an embedder of the program's own may raise anything.
        result, error = apart(lambda: dict(handler(work)))
        if isinstance(error, JobEndedError):
            # Cancelled, taken over, or left by who stops working: there is nothing to record.
            raise error
        if error is not None:
            self._append(principal, job, self._failure(job, work, attempt, error))
        elif not work.completed:
            assert result is not None
            self._log.save([self.completion(work, result)])

    def completion(self, work: Work, result: Mapping[str, Any]) -> NewEvent:
        """The event that ends a job as done, for handlers that store it with their effects."""
        header = JobCompletedHeader(attempt=work.job.attempts + 1, model_calls=work.model_calls)
        event = JobCompleted(header=header, body=JobCompletedBody(result=dict(result)))
        return self._next(work.principal, work.job, event)

    def _failure(self, job: Job, work: Work, attempt: int, error: BaseException) -> JobFailed:
        known = error if isinstance(error, MemorialeError) else None
        if known is None:
            _log.error("job %s of type %s failed", job.id, job.type, exc_info=error)
        away = known if isinstance(known, UnavailableError) else None
        rest = 0.0 if away is None else away.retry_after
        for_good = away is not None and away.for_good
        header = JobFailedHeader(
            attempt=attempt,
            model_calls=work.model_calls,
            error="internal" if known is None else known.code,
            final=attempt >= MOST_ATTEMPTS or for_good or not (known is None or known.retry),
            retry_after=ceil(min(rest, LONGEST_REST.total_seconds())),
        )
        told = type(error).__name__ if known is None else known.message
        return JobFailed(header=header, body=Body(reason=told))

    def _acting(self, job: Job) -> Principal:
        return Principal(tenant=self._log.tenant, **job.principal, purpose="job")  # type: ignore[arg-type]

    def _branch(self, job: Job, principal: Principal) -> BranchView:
        assert job.columns.branch is not None
        return self._branching.by_id(principal, job.columns.branch)

    def _append(self, principal: Principal, job: Job, event: Event) -> Job:
        new = self._next(principal, job, event)
        self._log.save([new])
        return replace(job, columns=new.columns)

    def _next(self, principal: Principal, job: Job, event: Event) -> NewEvent:
        identities = self._log.identities
        (owner,) = identities.by_pseudonyms([job.columns.owner])
        stamp = identities.stamp(principal, job.columns.correlation_id, None)
        columns = replace(
            job.columns,
            **stamp.fields(),
            event_id=uuid4(),
            stream_version=job.columns.stream_version + 1,
            topic=type(event).TOPIC,
            schema_version=type(event).SCHEMA_VERSION,
            request_tag=None,
            content_tag=None,
            idempotency_tag=None,
        )
        return NewEvent(event, columns, (owner,))


def _cannot(what: str, job: Job, allowed: list[str]) -> InputError:
    erased = "; what it needs to know was erased" if job.erased else ""
    return InputError(
        f"job {job.id} is {job.status.value} and cannot be {what}{erased}.",
        code="wrong_status",
        field="job_id",
        value=shown(job.status.value),
        allowed=allowed,
    )
