"""The thread that works on the adds of one memory, one after the other."""

import logging
from collections.abc import Callable, Mapping
from threading import Event, Lock, Thread, current_thread
from typing import Final
from uuid import UUID

from memoriale.adapters.application.jobs import Handler, Jobs
from memoriale.adapters.library.operations.handles import AgentMemoryAddOperation
from memoriale.adapters.postgres.locks import AdvisoryLocks
from memoriale.domain.errors import MemorialeError
from memoriale.domain.jobs import OPEN, Job
from memoriale.domain.operations.items import ExtractedFact

PAUSE: Final = 0.2
"""Seconds between two looks while work is left that another worker has, or that rests."""
CLOSED: Final = "closed"
_log = logging.getLogger("memoriale.operations")


class Worker:
    """
    Works on the jobs that were added, and on those that were open when it was made, so that what
    an earlier process accepted is finished. A job that another process works on is left to it,
    and followed.

    Args:
        jobs: The tenant's.
        handlers: What to do by type of job.
        takes_up: Whether jobs of a type are done that were open already.
    """

    def __init__(
        self, jobs: Jobs, handlers: Mapping[str, Handler], takes_up: Callable[[str], bool]
    ) -> None:
        self._jobs, self._handlers = jobs, handlers
        self._lock = Lock()
        self._wakeup, self._stop = Event(), Event()
        # Several of one job: an add that was repeated with its idempotency key.
        self._handles: dict[UUID, list[AgentMemoryAddOperation]] = {}
        self._ended: dict[UUID, Event] = {}
        left = [job for job in jobs.open() if job.type in handlers]
        taken = {type_ for type_ in {job.type for job in left} if takes_up(type_)}
        self._mine = {job.id for job in left if job.type in taken}
        self._thread: Thread | None = None

    def start(self) -> None:
        """Begins with what is open."""
        if self._mine:
            self._start()

    def add(self, job_id: UUID, handle: AgentMemoryAddOperation | None = None) -> None:
        """
        A job that was asked for just now.

        Args:
            job_id: Which.
            handle: Who follows it.
        """
        with self._lock:
            self._mine.add(job_id)
            if handle is not None:
                self._handles.setdefault(job_id, []).append(handle)
        self._wakeup.set()
        self._start()
        if self._stop.is_set():
            self._leave()

    def left(self) -> list[UUID]:
        """The jobs that are still to be done."""
        with self._lock:
            return list(self._mine)

    def cancelled(self, job: Job) -> None:
        """A job was cancelled: whoever works on it stops waiting, and the next one begins."""
        self.ended(job.id).set()
        self._over(job)

    def ended(self, job_id: UUID) -> Event:
        """Set when nobody waits for a job any more."""
        with self._lock:
            found = self._ended.setdefault(job_id, Event())
            if self._stop.is_set():
                found.set()
        return found

    def started(self, job_id: UUID) -> None:
        """An attempt began."""
        handles = self._of(job_id)
        if handles:
            job = self._jobs.get(job_id)
            for handle in handles:
                handle.follow(job)

    def extracted(self, job_id: UUID, facts: list[ExtractedFact]) -> None:
        """The model answered."""
        for handle in self._of(job_id):
            handle.took(facts)

    def close(self) -> None:
        """Ends the thread; what it does not come to stays in the ledger. Waits for it."""
        self._stop.set()
        with self._lock:
            for ended in self._ended.values():
                ended.set()
            thread = self._thread
        self._wakeup.set()
        if thread is not None and thread is not current_thread():
            thread.join()
        self._leave()

    def _start(self) -> None:
        with self._lock:
            if self._thread is not None or self._stop.is_set():
                return
            self._thread = Thread(target=self._work, name="memoriale-operations", daemon=True)
            self._thread.start()

    def _of(self, job_id: UUID) -> list[AgentMemoryAddOperation]:
        with self._lock:
            return [*self._handles.get(job_id, ())]

    def _work(self) -> None:
        try:
            with self._jobs.locks() as locks:
                while not self._stop.is_set():
                    # Cleared before looking: what is added after the look sets it again.
                    self._wakeup.clear()
                    if not self._looked(locks):
                        self._wakeup.wait(PAUSE if self.left() else None)
        finally:
            self._leave()

    def _looked(self, locks: AdvisoryLocks) -> bool:
        """Works on the next job; whether there was one."""
        try:
            worked = self._one(locks)
            if not worked:
                self._follow()
        except MemorialeError as error:
            if error.code == CLOSED:
                # The ledger was closed before the memory was destroyed.
                self._stop.set()
            else:
                # The jobs are in the ledger; the next look finds them again.
                _log.exception("operations cannot be worked on now")
            return False
        except Exception:
            # A defect, which must not hold up the operations behind it.
            _log.exception("the look at the operations failed")
            return False
        return worked

    def _leave(self) -> None:
        """Tells whoever still waits that nobody works here any more."""
        with self._lock:
            self._thread = None
            handles = [handle for both in self._handles.values() for handle in both]
            self._handles.clear()
        for handle in handles:
            handle.leave()

    def _one(self, locks: AdvisoryLocks) -> bool:
        done = self._jobs.run_due(self._handlers, limit=1, only=self._is_mine, locks=locks)
        for job in done:
            self._over(job)
        return bool(done)

    def _is_mine(self, job: Job) -> bool:
        with self._lock:
            return job.id in self._mine and not self._stop.is_set()

    def _follow(self) -> None:
        """Looks how jobs stand that others work on, or that rest."""
        for job_id in self.left():
            self._over(self._jobs.get(job_id))

    def _over(self, job: Job) -> None:
        """Tells the handles of a job how it stands; one that has ended is forgotten first, so
        that a handle which comes only now is found by the next look."""
        handles = self._of(job.id)
        if job.status not in OPEN:
            with self._lock:
                self._mine.discard(job.id)
                self._ended.pop(job.id, None)
                handles = self._handles.pop(job.id, [])
        for handle in handles:
            handle.follow(job)
