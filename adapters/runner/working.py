"""Working on jobs in the background: what is due is done, whoever asked for it."""

import logging
import os
import threading
import time
from typing import Final

from memoriale.adapters.library.jobs import NoModelError, Work
from memoriale.adapters.library.ledger import Ledger
from memoriale.domain.errors import MemorialeError

PAUSE: Final = 0.5
"""Seconds between two looks at the jobs; writers of the same process wake the worker."""
LONGEST_BACK_OFF: Final = 5.0
_log = logging.getLogger("memoriale.runner")


class JobsWorker:
    """
    One thread that works on the due jobs of several tenants, a job of each in turn.

    Any number of processes may do so: each job has a lock that goes with its worker, so one of
    them works on it, and another takes it up when that one dies.

    Args:
        ledger: An open ledger.
        tenants: Whose jobs.
    """

    def __init__(self, ledger: Ledger, tenants: list[str]) -> None:
        self._ledger, self._tenants = ledger, tenants
        self._wakeup, self._stop = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._process = os.getpid()
        self._work: dict[str, Work] = {}
        self._rests_until: dict[str, float] = {}
        self._failures: dict[str, int] = {}
        self.problems: dict[str, MemorialeError] = {}
        """
        By tenant why the last look at its jobs failed, or that jobs wait for a language model; a
        job that fails is no such problem.
        """

    def start(self) -> None:
        """
        Starts the thread; calling it again does nothing.

        Raises:
            InputError: The language model of the settings cannot be made.
            MissingRightError: The right ``operate`` is missing.
        """
        if self._thread is not None and self._thread.is_alive():
            return
        self._stop.clear()
        self._work = {name: self._ledger.jobs.worker(tenant=name) for name in self._tenants}
        for name in self._tenants:
            self._ledger.tenant(name).log.application.committer.listen(self._wakeup)
        self._thread = threading.Thread(target=self._run, name="memoriale-runner-jobs", daemon=True)
        self._thread.start()

    def ask_to_stop(self) -> None:
        """Has the thread end after the job at hand."""
        self._stop.set()
        self._wakeup.set()

    def join(self) -> None:
        """Waits for its end."""
        if self._thread is not None and self._process == os.getpid():
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            # Cleared before looking: what is stored after the look sets it again.
            self._wakeup.clear()
            worked = [self._one(name) for name in self._tenants if not self._stop.is_set()]
            if not any(worked):
                self._wakeup.wait(PAUSE)

    def _one(self, tenant: str) -> bool:
        """Works on one job of a tenant; whether there was one."""
        if self._rests_until.get(tenant, 0.0) > time.monotonic():
            return False
        try:
            worked = self._work[tenant]()
        except NoModelError as error:
            # What needs none is done as soon as it comes.
            self._say(tenant, error)
            return False
        except MemorialeError as error:
            self._failed(tenant, error)
            return False
        self.problems.pop(tenant, None)
        self._failures.pop(tenant, None)
        return bool(worked)

    def _failed(self, tenant: str, error: MemorialeError) -> None:
        self._say(tenant, error)
        failures = self._failures.get(tenant, 0)
        pause: float = min(PAUSE * 2 ** min(failures, 20), LONGEST_BACK_OFF)
        self._failures[tenant] = failures + 1
        self._rests_until[tenant] = time.monotonic() + pause

    def _say(self, tenant: str, error: MemorialeError) -> None:
        known = self.problems.get(tenant)
        if known is None or known.code != error.code:
            _log.warning("the jobs of a tenant cannot be worked on: %s", error.message)
        self.problems[tenant] = error
