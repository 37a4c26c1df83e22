"""``Runner``: keeps views posted, logs sealed and jobs done, beside other runners."""

import logging
import os
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

from memoriale.adapters.composition import VIEW_NAMES
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.postgres.locks import AdvisoryLocks
from memoriale.adapters.runner.duty import Duty, Health
from memoriale.adapters.runner.sealing import SealingWorker
from memoriale.adapters.runner.working import JobsWorker
from memoriale.domain.access import GLOBAL_TENANT
from memoriale.domain.errors import InputError, MemorialeError

_NAP: Final = 0.5
_log = logging.getLogger("memoriale.runner")


class Runner:
    """
    Posts views of tenants continuously, so that reads find them caught up.

    For each view of each tenant one runner of all processes is active; the others stand by and
    take over within a second when it dies, is stopped or loses its session at the database.
    Two that both think to be active do no harm: each batch is posted under the lock of the
    view's folder and at the position that its writer expects. Posting is what a read does
    before it answers; it changes no record and needs no right.

    Once there are global memories, their views and logs are looked after in the same way.

    It also seals the memory and access logs of these tenants, at most a second or a thousand
    events after they were written.

    And it works on their jobs: extraction, summaries, retiring what a correction contradicts. One
    runner of all works on a job, and another takes it up when that one dies. What needs a
    language model is left to runners that have one (``MEMORIALE_MODEL``). That needs the right
    ``operate``.

    Use it as a context, or call ``start`` and ``stop``. One thread for each view name, one that
    seals, and one that works on jobs.

    Args:
        ledger: An open ledger; it stays open as long as the runner runs.
        tenants: Whose views.
        views: ``recall``, ``stats`` or both.
        seal: Whether to seal.
        jobs: Whether to work on jobs.

    Raises:
        InputError: No tenant, or an unknown view.
    """

    def __init__(
        self,
        ledger: Ledger,
        *,
        tenants: Sequence[str],
        views: Sequence[str] = VIEW_NAMES,
        seal: bool = True,
        jobs: bool = True,
    ) -> None:
        if not tenants or isinstance(tenants, str):
            raise InputError("give a list of tenants.", code="missing", field="tenants")
        unknown = [view for view in views if view not in VIEW_NAMES]
        if unknown or not views or isinstance(views, str):
            raise InputError(
                f"give a list of views; there are {', '.join(VIEW_NAMES)}.",
                code="unknown_view",
                field="views",
                value=[str(view)[:80] for view in unknown],
                allowed=[*VIEW_NAMES],
            )
        names = sorted({*tenants})
        self._sealing = SealingWorker(ledger, names)
        self._posting = [_Worker(ledger, names, view) for view in sorted({*views})]
        self._jobs = JobsWorker(ledger, names)
        self._workers: list[_Worker | SealingWorker | JobsWorker] = [
            *self._posting,
            *([self._sealing] if seal else []),
            *([self._jobs] if jobs else []),
        ]

    def start(self) -> None:
        """
        Starts the threads. Calling it again does nothing. When one cannot start, none goes on.

        Raises:
            UnavailableError: The database or the home cannot be used.
            InputError: The language model of the settings cannot be made.
            MissingRightError: The right to work on jobs is missing.
        """
        try:
            for worker in self._workers:
                worker.start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Finishes the batches and the job at hand, and hands over to another runner at once."""
        for worker in self._workers:
            worker.ask_to_stop()
        for worker in self._workers:
            worker.join()

    def health(self) -> list[Health]:
        """How it stands with each view of each tenant."""
        return [duty.health for worker in self._posting for duty in worker.duties]

    def unsealed(self) -> dict[str, MemorialeError]:
        """By tenant and kind of log why the last try to seal it failed; empty when all is well."""
        return dict(self._sealing.problems)

    def undone(self) -> dict[str, MemorialeError]:
        """
        By tenant why the last look at its jobs failed, or that jobs wait for a language model;
        empty when all is well.
        """
        return dict(self._jobs.problems)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


class _Worker:
    """One thread, for one view of several tenants."""

    def __init__(self, ledger: Ledger, tenants: Sequence[str], view: str) -> None:
        self._ledger, self._tenants, self._view = ledger, tenants, view
        self._locks = AdvisoryLocks(ledger.infrastructure.datastore)
        self._wakeup, self._stop = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._process = os.getpid()
        self.duties: list[Duty] = []

    def start(self) -> None:
        if self._thread is not None and self._thread.is_alive():
            return
        self._stop.clear()
        self.duties = [
            Duty(self._ledger.tenant(tenant), self._view, self._locks) for tenant in self._tenants
        ]
        for tenant in self._tenants:
            self._ledger.tenant(tenant).log.application.committer.listen(self._wakeup)
        name = f"memoriale-runner-{self._view}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def ask_to_stop(self) -> None:
        self._stop.set()
        self._wakeup.set()

    def join(self) -> None:
        if self._thread is not None and self._process == os.getpid():
            self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                woken = self._wakeup.is_set()
                # Cleared before looking: what is stored after the look sets it again.
                self._wakeup.clear()
                self._look(woken)
                self._wakeup.wait(self._pause())
        finally:
            for duty in self.duties:
                duty.stop()
            self._locks.close()

    def _look(self, woken: bool) -> None:
        self._take_on_shared()
        for duty in self.duties:
            if self._stop.is_set():
                return
            if duty.due <= time.monotonic() or (woken and duty.at_rest):
                duty.step()

    def _take_on_shared(self) -> None:
        """Posts the view of the global memories too, from the first one on."""
        if any(duty.health.tenant == GLOBAL_TENANT for duty in self.duties):
            return
        try:
            services = self._ledger.shared.find()
            if services is not None:
                self.duties.append(Duty(services, self._view, self._locks))
                services.log.application.committer.listen(self._wakeup)
        except MemorialeError as error:
            _log.warning("global memories cannot be looked for: %s", error.message)

    def _pause(self) -> float:
        next_due = min(duty.due for duty in self.duties)
        return 0.0 if self._stop.is_set() else min(max(0.0, next_due - time.monotonic()), _NAP)
