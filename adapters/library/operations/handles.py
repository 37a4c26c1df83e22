"""Handles: how an operation stands, to be waited for in sync and in async code."""

import asyncio
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Condition
from typing import Any, Final, Generic, TypeVar
from uuid import UUID

from memoriale.adapters.library.operations.adding import extracted_of, stored_of
from memoriale.domain.errors import (
    InputError,
    MemorialeError,
    OperationCancelledError,
    OperationError,
    UnavailableError,
)
from memoriale.domain.jobs import Job
from memoriale.domain.operations.items import ExtractedFact
from memoriale.domain.operations.nodes import AgentMemorySearchResult
from memoriale.domain.operations.states import ENDED, OF_JOB, OperationStatus
from memoriale.domain.values import check_patience

R = TypeVar("R")
_OPEN: Final = tuple(status.value for status in OperationStatus if status not in ENDED)


@dataclass(frozen=True, slots=True)
class AddResult:
    """What came of an add: what the model took from the messages, and the items it is kept as."""

    extracted: tuple[ExtractedFact, ...]
    stored_ids: tuple[UUID, ...]


class Operation(Generic[R]):
    """
    One operation. Every part of it is safe to be looked at from any thread: ``result`` waits in
    sync code, ``await operation`` in async code, and ``changes`` follows its status.

    Args:
        id_: Its label.
        release: Called once when it has ended.
    """

    id: str
    """Its label."""
    error: MemorialeError | None
    """Why it is ``errored``."""
    started_at: datetime | None
    """When work on it began; aware UTC."""
    ended_at: datetime | None
    """When it ended; aware UTC."""

    def __init__(self, id_: str, release: Callable[[str], None]) -> None:
        self.id = id_
        self.error = self.started_at = self.ended_at = None
        self._release = release
        self._condition = Condition()
        self._history = [OperationStatus.QUEUED]
        self._listeners: list[Callable[[], None]] = []
        self._left: MemorialeError | None = None

    @property
    def status(self) -> OperationStatus:
        """How it stands."""
        return self._history[-1]

    def result(self, timeout: float | None = None) -> R:
        """
        What came of it, waiting until it has ended.

        Args:
            timeout: Seconds to wait at most, up to a year; None waits as long as it takes.

        Raises:
            InputError: A time that cannot be waited for.
            OperationError: It failed for good.
            OperationCancelledError: It was cancelled.
            UnavailableError: It has not ended within the time (``timeout``), or the memory that
                handed it out was destroyed before (``destroyed``).
        """
        patience = check_patience("timeout", timeout)
        with self._condition:
            self._condition.wait_for(lambda: self._is_over(), patience)
        if not self._is_over():
            raise UnavailableError(
                f"operation {self.id} is {self.status.value} after {timeout} s; wait longer.",
                code="timeout",
                field="timeout",
                value=timeout,
            )
        return self._outcome()

    def __await__(self) -> Generator[Any, None, R]:
        return self._awaited().__await__()

    async def changes(self) -> AsyncIterator[OperationStatus]:
        """Its status now, and then each further one up to the last; none is left out."""
        async for status in self._followed():
            yield status

    def cancel(self) -> None:
        """
        Ends it, exactly: what it had not stored is not stored any more.

        Raises:
            InputError: It has ended already; ``value`` says how.
        """
        raise NotImplementedError

    async def _awaited(self) -> R:
        async for _ in self._followed():
            pass
        return self._outcome()

    async def _followed(self) -> AsyncIterator[OperationStatus]:
        loop, woken = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            # A loop that was closed waits for nothing.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(woken.set)

        with self._condition:
            self._listeners.append(wake)
            seen = len(self._history) - 1
        try:
            while True:
                woken.clear()
                while seen < len(self._history):
                    yield self._history[seen]
                    seen += 1
                if self._is_over() and seen == len(self._history):
                    return
                await woken.wait()
        finally:
            with self._condition:
                self._listeners.remove(wake)

    def _is_over(self) -> bool:
        return self.status in ENDED or self._left is not None

    def _outcome(self) -> R:
        if self.error is not None:
            raise self.error
        if self.status is OperationStatus.CANCELLED:
            raise OperationCancelledError(
                f"operation {self.id} was cancelled; it has no result.",
                field="op_id",
                value=self.id,
            )
        if self._left is not None and self.status not in ENDED:
            raise self._left
        return self._value()

    def _value(self) -> R:
        raise NotImplementedError

    def _became(self, status: OperationStatus) -> None:
        """Under the condition: the next status, and everybody who waits is told."""
        if self.status in ENDED or status is self.status:
            return
        self._history.append(status)
        self._tell()
        if status in ENDED:
            self._release(self.id)

    def _tell(self) -> None:
        self._condition.notify_all()
        for listener in self._listeners:
            listener()

    def leave(self) -> None:
        """The memory that handed it out is gone; nobody follows it here any more."""
        with self._condition:
            if self._is_over():
                return
            self._left = UnavailableError(
                f"operation {self.id} was {self.status.value} when the memory was destroyed; "
                "what was accepted is in the ledger and done by whoever works on jobs.",
                code="destroyed",
                field="op_id",
                value=self.id,
            )
            self._tell()
            self._release(self.id)

    def _ended(self) -> InputError:
        return InputError(
            f"operation {self.id} is {self.status.value} and cannot be cancelled.",
            code="wrong_status",
            field="op_id",
            value=self.status.value,
            allowed=list(_OPEN),
        )


class AgentMemoryAddOperation(Operation[AddResult]):
    """
    An add. It is a job of the ledger: what it says is what the ledger says.

    Args:
        id_: Its label.
        job_id: Its job.
        release: Called once when it has ended.
        cancel: Cancels the job unless it has ended; gives it as it stands then, and whether it was
            this call that ended it.
    """

    job_id: UUID
    """Id of the job; ``memoriale jobs show`` and ``retry`` take it."""
    extracted: tuple[ExtractedFact, ...]
    """What the model took from the messages; known before it is stored."""
    stored_ids: tuple[UUID, ...]
    """The items that were made or restated, each once, in the order of the first touch."""

    def __init__(
        self,
        id_: str,
        job_id: UUID,
        release: Callable[[str], None],
        cancel: Callable[[UUID], tuple[Job, bool]],
    ) -> None:
        super().__init__(id_, release)
        self.job_id, self.extracted, self.stored_ids = job_id, (), ()
        self._cancel = cancel

    def cancel(self) -> None:
        """
        Ends it, exactly: a queued add never runs, and one that is worked on stores nothing any
        more; the next one begins. Nothing else than the ledger decides who was first.

        Raises:
            InputError: It has ended already, ``value`` says how; also when it was cancelled.
            UnavailableError: The ledger cannot be reached.
        """
        if self.status in ENDED:
            raise self._ended()
        job, cancelled = self._cancel(self.job_id)
        self.follow(job)
        if not cancelled:
            raise self._ended()

    def follow(self, job: Job) -> None:
        """Takes over how its job stands."""
        with self._condition:
            self.started_at = job.started_at
            status = OF_JOB[job.status]
            if status in ENDED:
                self.ended_at = job.changed_at
            if status is OperationStatus.ERRORED:
                self.error = OperationError(job.reason or "it failed.", code=job.error)
            if status is OperationStatus.COMPLETED:
                self.extracted = tuple(extracted_of(job))
                self.stored_ids = tuple(stored_of(job))
            self._became(status)

    def took(self, facts: list[ExtractedFact]) -> None:
        """What the model took from the messages."""
        with self._condition:
            self.extracted = tuple(facts)

    def _value(self) -> AddResult:
        return AddResult(self.extracted, self.stored_ids)


class AgentMemorySearchOperation(Operation[tuple[AgentMemorySearchResult, ...]]):
    """A search, done in a thread."""

    results: tuple[AgentMemorySearchResult, ...]
    """What was found, best first; stays empty when it was cancelled."""

    def __init__(self, id_: str, release: Callable[[str], None]) -> None:
        super().__init__(id_, release)
        self.results = ()

    def cancel(self) -> None:
        """
        Ends it; its results stay empty.

        Raises:
            InputError: It has ended already; ``value`` says how.
        """
        with self._condition:
            if self.status in ENDED:
                raise self._ended()
            self.ended_at = datetime.now(UTC)
            self._became(OperationStatus.CANCELLED)

    def run(self, search: Callable[[], list[AgentMemorySearchResult]]) -> None:
        """Searches, unless it was cancelled before its turn came."""
        with self._condition:
            if self._is_over():
                return
            self.started_at = datetime.now(UTC)
            self._became(OperationStatus.ACTIVE)
        found: list[AgentMemorySearchResult] = []
        error: MemorialeError | None = None
        try:
            found = search()
        except MemorialeError as failure:
            error = failure
        except BaseException as failure:
            # It runs in a thread of its own, so whatever it is was raised by the search.
            error = OperationError(
                f"the search failed with {type(failure).__name__}: {failure}", code="internal"
            )
        with self._condition:
            if self.status in ENDED:
                return
            self.results, self.error = tuple(found), error
            self.ended_at = datetime.now(UTC)
            self._became(OperationStatus.COMPLETED if error is None else OperationStatus.ERRORED)

    def _value(self) -> tuple[AgentMemorySearchResult, ...]:
        return self.results
