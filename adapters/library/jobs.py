"""``ledger.jobs``: background work, to be looked at and worked on."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from memoriale.adapters.application.jobs import Handler, Jobs
from memoriale.adapters.application.presenting import as_json
from memoriale.adapters.composition import Tenant
from memoriale.adapters.library.memory import Memory
from memoriale.domain.chat import ModelProvider
from memoriale.domain.errors import InputError, UnavailableError
from memoriale.domain.fields import choice, parse_id
from memoriale.domain.jobs import Job, JobStatus
from memoriale.domain.principal import Principal, Right
from memoriale.domain.values import check_whole

if TYPE_CHECKING:
    from memoriale.adapters.extraction.comparing import ReplyComparison

NO_MODEL: Final = "no_model"
_MOST = 10_000
Work = Callable[[], "list[JobRecord]"]
"""Works on one job that is due, if there is one, and returns it as it stands then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """
    A job: what it is, how it stands, and how often it was tried. ``failed`` waits for
    ``next_try``, ``errored`` waits for ``retry``. ``op_id`` is the label of an add; None for other
    work. ``result`` tells what came of it.
    """

    id: UUID
    op_id: str | None
    type: str
    status: str
    attempts: int
    requested_at: datetime
    changed_at: datetime
    next_try: datetime | None
    error: str | None
    reason: str | None
    model_calls: int
    result: dict[str, Any]
    index: int

    def as_dict(self) -> dict[str, Any]:
        """As JSON values."""
        values: dict[str, Any] = as_json(self)
        return values


class LedgerJobs:
    """
    The jobs of a ledger's tenants. Every call needs the right ``operate``.

    Args:
        tenant: Gives the services of a tenant.
        principal: Gives the caller for a tenant.
        memory: Makes a handle for a principal.
        model: Gives the language model of the settings.
    """

    def __init__(
        self,
        tenant: Callable[[str], Tenant],
        principal: Callable[[str], Principal],
        memory: Callable[[Principal, str], Memory],
        model: Callable[[], ModelProvider],
    ) -> None:
        self._tenant, self._principal, self._memory = tenant, principal, memory
        self._model = model

    def get(self, job_id: UUID | str, *, tenant: str) -> JobRecord:
        """One job. Raises ``InputError`` when there is none of that id."""
        services = self._allowed(tenant, "jobs.show")
        return _record(services.jobs.get(parse_id("job_id", job_id)))

    def cancel(self, job_id: UUID | str, *, tenant: str, reason: str | None = None) -> JobRecord:
        """Ends a job that is still to be done; an attempt that runs is not recorded."""
        services = self._allowed(tenant, "jobs.cancel")
        found = parse_id("job_id", job_id)
        return _record(services.jobs.cancel(self._principal(tenant), found, reason))

    def retry(self, job_id: UUID | str, *, tenant: str) -> JobRecord:
        """Asks for a job once more that failed or was cancelled."""
        services = self._allowed(tenant, "jobs.retry")
        found = parse_id("job_id", job_id)
        return _record(services.jobs.retry(self._principal(tenant), found))

    def run(self, *, tenant: str, limit: int | None = None) -> list[JobRecord]:
        """
        Works on the jobs that are due, one after the other. Without a language model, those that
        need one stay queued.

        Args:
            tenant: Whose.
            limit: How many at most; None for all.

        Returns:
            The jobs that were worked on, as they stand now.

        Raises:
            NoModelError: Jobs wait for a language model; the others were worked on.
        """
        services = self._allowed(tenant, "jobs.run")
        able = self._able(services, always=False)
        done = [_record(job) for job in services.jobs.run_due(able.handlers, limit=limit)]
        able.require_nothing_left(done)
        return done

    def compare(
        self, job_id: UUID | str, *, tenant: str, model: ModelProvider | None = None
    ) -> "ReplyComparison":
        """
        Asks a language model once more what a job of extraction asked: the same conversation with
        the same version of the prompt and what was known then. Nothing is stored.

        Args:
            job_id: A completed job of extraction.
            tenant: Whose.
            model: Default: that of the settings.

        Raises:
            InputError: No such job, one that holds no reply, or no model.
            UnavailableError: The model gave no reply, or one that cannot be used.
        """
        from memoriale.adapters.extraction.comparing import compare

        services = self._allowed(tenant, "jobs.compare")
        work, started = services.jobs.begun(parse_id("job_id", job_id))
        memory = self._memory(work.principal, work.branch.branch.name or "main")
        return compare(work, started, memory, model or self._model())

    def worker(self, *, tenant: str) -> Work:
        """
        What works on a due job whenever it is called, for those who do so all the time: the
        right is asked for once, and the language model is made once. Without a model, what needs
        one stays queued for others; while nothing else is left, each call raises ``NoModelError``.

        Args:
            tenant: Whose.

        Raises:
            InputError: The model of the settings cannot be made.
        """
        services = self._allowed(tenant, "jobs.run")
        able = self._able(services, always=True)
        if able.missing is not None and able.missing.code != NO_MODEL:
            raise able.missing

        def work() -> list[JobRecord]:
            done = [_record(job) for job in services.jobs.run_due(able.handlers, limit=1)]
            if not done:
                able.require_nothing_left(done)
            return done

        return work

    def list(self, *, tenant: str, status: str | None = None, limit: int = 50) -> list[JobRecord]:
        """
        Jobs, those with the newest event first.

        Args:
            tenant: Whose.
            status: queued, active, completed, failed, errored or cancelled; None for all.
            limit: How many at most, 1..10,000.
        """
        chosen = choice("status", status, [s.value for s in JobStatus])
        check_whole("limit", limit, 1, _MOST)
        services = self._allowed(tenant, "jobs.list")
        wanted = None if chosen is None else JobStatus(chosen)
        return [_record(job) for job in services.jobs.newest(limit=limit, status=wanted)]

    def _able(self, services: Tenant, *, always: bool) -> "_Able":
        """What can be done here; the model is made where a job waits for one, or always."""
        from memoriale.adapters.extraction.handlers import (
            able_handlers,
            handlers_without_model,
            known_handlers,
        )

        handlers, missing = handlers_without_model(self._memory, self._model), None
        needy = frozenset(known_handlers(self._memory, self._model)) - {*handlers}
        if always or services.jobs.due(needy):
            handlers, missing = able_handlers(self._memory, self._model)
        return _Able(services.jobs, handlers, missing, needy)

    def _allowed(self, tenant: str, command: str) -> Tenant:
        services = self._tenant(tenant)
        services.gate.allow(self._principal(tenant), command, Right.OPERATE)
        return services


class NoModelError(UnavailableError):
    """
    Jobs that need a language model cannot be attempted here; they stay queued.

    Attributes:
        done: The jobs that were worked on before, as they stand now.
    """

    default_code = NO_MODEL
    done: "list[JobRecord]"


@dataclass(frozen=True, slots=True)
class _Able:
    """What can be done here, and which types of job cannot for want of a model."""

    jobs: Jobs
    handlers: Mapping[str, Handler]
    missing: InputError | None
    needy: frozenset[str]

    def require_nothing_left(self, done: "list[JobRecord]") -> None:
        """Raises ``NoModelError`` while a job is due that needs a model."""
        if self.missing is None or not (left := self.jobs.due(self.needy)):
            return
        wait = (
            "1 job waits for it and stays"
            if len(left) == 1
            else f"{len(left)} jobs wait for it and stay"
        )
        error = NoModelError(
            f"{self.missing.message} {wait} queued.",
            code=self.missing.code,
            field=self.missing.field,
            value=self.missing.value,
            allowed=self.missing.allowed,
        )
        error.done = done
        raise error from self.missing


def _record(job: Job) -> JobRecord:
    return JobRecord(
        id=job.id,
        op_id=job.arguments.get("op_id"),
        type=job.type,
        status=job.status.value,
        attempts=job.attempts,
        requested_at=job.requested_at,
        changed_at=job.changed_at,
        next_try=job.next_try,
        error=job.error,
        reason=job.reason,
        model_calls=job.model_calls,
        result=job.result,
        index=job.index,
    )
