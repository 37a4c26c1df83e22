"""Background work of a manager: one thread that works on due jobs while there are any."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final
from uuid import UUID

from memoriale.adapters.application.jobs import Handler, Jobs
from memoriale.domain.errors import MemorialeError
from memoriale.domain.jobs import OPEN, Job
from memoriale.domain.values import MAX_PATIENCE, check_seconds

_PAUSE: Final = 0.05
_log = logging.getLogger(__name__)


class Background:
    """
    Works on the jobs of one caller in a thread that ends when none that was added is left to be
    done now. What it does not come to is in the ledger: ``jobs run`` or another process does it.

    Args:
        jobs: Gives the tenant's.
        handlers: Gives what is done by type of job.
        concerns: Whether a job that was not added is the caller's too; another's is left alone,
            because the caller's model would read what it holds.
        ended: Told each job that was worked on.
    """

    def __init__(
        self,
        jobs: Callable[[], Jobs],
        handlers: Callable[[], Mapping[str, Handler]],
        concerns: Callable[[Job], bool],
        ended: Callable[[Job], None],
    ) -> None:
        self._jobs, self._handlers, self._ended = jobs, handlers, ended
        self._concerns = concerns
        self._lock = threading.Lock()
        self._mine: set[UUID] = set()
        self._added = False
        """Whether jobs were added since the thread last looked for due ones."""
        self._thread: threading.Thread | None = None

    def add(self, job_ids: Sequence[UUID]) -> None:
        """Jobs that were asked for just now; work on them begins."""
        with self._lock:
            self._mine |= set(job_ids)
            self._added = True
            if self._mine and (self._thread is None or not self._thread.is_alive()):
                self._thread = threading.Thread(
                    target=self._work, name="memoriale-background", daemon=True
                )
                self._thread.start()

    def wait(self, timeout: float) -> list[Job]:
        """
        Waits until each job that was added has ended or failed, or the time is over.

        Returns:
            Those that are still to be done: their next attempt waits, or nobody came to them.
        """
        deadline = time.monotonic() + check_seconds("timeout", timeout, MAX_PATIENCE)
        while time.monotonic() < deadline:
            with self._lock:
                working = self._thread is not None and self._thread.is_alive()
                if not working or not self._mine:
                    break
            time.sleep(_PAUSE)
        with self._lock:
            mine = set(self._mine)
        return [job for job in map(self._jobs().get, mine) if job.status in OPEN]

    def _is_own(self, job: Job) -> bool:
        with self._lock:
            added = job.id in self._mine
        return added or self._concerns(job)

    def _work(self) -> None:
        while True:
            with self._lock:
                self._added = False
            try:
                done = self._jobs().run_due(self._handlers(), only=self._is_own)
            except MemorialeError:
                # The jobs are in the ledger; whoever runs jobs next takes them up.
                _log.exception("background work stopped")
                return
            for job in done:
                self._ended(job)
            with self._lock:
                left = {i for i in self._mine if self._jobs().get(i).status in OPEN}
                self._mine = left
                # What was added while it looked was told that the thread is there: look again.
                if not done and not self._added:
                    self._thread = None
                    return
