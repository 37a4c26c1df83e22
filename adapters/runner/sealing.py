"""Sealing in the background: a second or a thousand events after they were written, at most."""

import logging
import os
import threading
import time
from typing import Final

from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.adapters.composition import Tenant
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.sealing.sealing import target_of
from memoriale.domain.errors import MemorialeError

LONGEST: Final = 1.0
"""Seconds that an event waits to be sealed."""
MOST_EVENTS: Final = 1_000
"""Events that wait to be sealed."""
_NAP: Final = 0.2
_log = logging.getLogger("memoriale.runner")


class SealingWorker:
    """
    One thread that seals the logs of several tenants, and those of the global memories.

    Any number of processes may do so: each log has a lock, and whoever comes second finds it
    sealed. What cannot be sealed is tried again and again, and said in ``problems``.

    Args:
        ledger: An open ledger.
        tenants: Whose logs.
    """

    def __init__(self, ledger: Ledger, tenants: list[str]) -> None:
        self._ledger, self._tenants = ledger, tenants
        self._wakeup, self._stop = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._process = os.getpid()
        self._sealed: dict[str, int] = {}
        self.problems: dict[str, MemorialeError] = {}
        """By tenant and kind of log why it is not sealed."""

    def start(self) -> None:
        """Starts the thread; calling it again does nothing."""
        if self._thread is not None and self._thread.is_alive():
            return
        self._stop.clear()
        for log in self._logs():
            log.application.committer.listen(self._wakeup)
        self._thread = threading.Thread(
            target=self._run, name="memoriale-runner-sealing", daemon=True
        )
        self._thread.start()

    def ask_to_stop(self) -> None:
        """Has the thread seal what there is, and end."""
        self._stop.set()
        self._wakeup.set()

    def join(self) -> None:
        """Waits for its end."""
        if self._thread is not None and self._process == os.getpid():
            self._thread.join()

    def _run(self) -> None:
        due = 0.0
        while not self._stop.is_set():
            self._wakeup.clear()
            tails = {log: self._tail(log) for log in self._logs()}
            waiting = [log for log, tail in tails.items() if tail > 0]
            if waiting and (max(tails.values()) >= MOST_EVENTS or time.monotonic() >= due):
                self._seal(waiting)
                due = time.monotonic() + LONGEST
                waiting = []
            # Writers of this process wake it; those of others are seen half a second later.
            if not waiting:
                self._wakeup.wait(LONGEST / 2)
            self._stop.wait(_NAP)
        self._seal([log for log in self._logs() if self._tail(log) > 0])

    def _seal(self, logs: list[TenantLog]) -> None:
        if not logs:
            return
        try:
            answers = self._ledger.infrastructure.sealing.seal(target_of(log) for log in logs)
        except MemorialeError as error:
            answers = [error] * (len(logs) + 1)
        for log, answer in zip(logs, answers, strict=False):
            name = _name(log)
            if isinstance(answer, MemorialeError):
                if name not in self.problems:
                    _log.warning("the %s log of a tenant is not sealed: %s", log.log.kind, answer)
                self.problems[name] = answer
            else:
                self.problems.pop(name, None)
                self._sealed[name] = answer.checkpoint.size

    def _logs(self) -> list[TenantLog]:
        services = [self._ledger.tenant(name) for name in self._tenants]
        services += self._shared()
        return [log for one in services for log in (one.log, one.access)]

    def _shared(self) -> list[Tenant]:
        """The global memories, from the first one on; none while the database cannot be asked."""
        try:
            found = self._ledger.shared.find()
        except MemorialeError:
            return []
        return [] if found is None else [found]

    def _tail(self, log: TenantLog) -> int:
        """How many events may not be sealed; none while the database cannot be asked."""
        try:
            return log.head() - self._sealed.get(_name(log), 0)
        except MemorialeError:
            return 0


def _name(log: TenantLog) -> str:
    return f"{log.tenant} {log.log.kind}"
