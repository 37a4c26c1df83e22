"""Calls of an embedder that may not take longer than a read can wait."""

import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, Final, TypeVar

from memoriale.domain.errors import MemorialeError, UnavailableError

T = TypeVar("T")
REST: Final = 5.0
"""Seconds for which an embedder that failed is not asked again by reads."""
_MOST_LATE: Final = 4
"""Calls that nobody waits for any more, but that have not ended."""


class TimeLimit:
    """
    Runs calls in threads of their own and waits for each as long as its caller can. A call that
    is late goes on by itself, so that what it computes can still be kept.

    After a failure, calls fail at once for a while: a read that finds the embedder down should
    be the only one that waits for it. Safe to share between threads.

    Args:
        model: For errors.
        rest: Seconds of that while.
    """

    def __init__(self, model: str, *, rest: float = REST) -> None:
        self._model, self._rest = model, rest
        self._lock = Lock()
        self._late = 0
        self._failure: UnavailableError | None = None
        self._resting_until = 0.0

    def run(self, call: Callable[[], T], seconds: float, *, least: float = 0.0) -> T:
        """
        What a call returns.

        Args:
            call: Ends by itself some time.
            seconds: How long to wait for it.
            least: A call that was given less and did not end in time does not count as failed.

        Raises:
            UnavailableError: The call raised it, did not end in time, or the embedder rests.
        """
        self._check_rest()
        answers: SimpleQueue[tuple[bool, Any]] = SimpleQueue()
        # A daemon: a process need not wait for an embedder in order to end.
        Thread(target=self._called, args=(call, answers), daemon=True).start()
        try:
            ended, found = answers.get(timeout=max(seconds, 0.001))
        except Empty:
            self._given_up(call, answers)
            late = self._too_late(seconds)
            if seconds >= least:
                self._start_rest(late)
            raise late from None
        if ended:
            answer: T = found
            return answer
        if isinstance(found, UnavailableError):
            self._start_rest(found)
        raise found

    @staticmethod
    def _called(call: Callable[[], T], answers: "SimpleQueue[tuple[bool, Any]]") -> None:
        try:
            answers.put((True, call()))
        except BaseException as error:
            answers.put((False, error))
