"""Calls of an embedder that may not take longer than a read can wait."""

import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, Final, TypeVar

from memoriale.domain.errors import UnavailableError

T = TypeVar("T")
REST: Final = 1.0
"""Seconds for which reads do not ask an embedder that failed; doubled each time it fails again."""
LONGEST_REST: Final = 30.0

_Answer = SimpleQueue[tuple[bool, Any]]


class TimeLimit:
    """
    Runs calls in threads of their own and waits for each as long as its caller can. A call that
    is late goes on by itself, so that what it computes can still be kept.

    After a failure, calls fail at once for a while, and longer after each further one: a read
    that finds the embedder down should be the only one that waits for it. Safe to share between
    threads.

    Args:
        model: For errors.
        most: Calls that run at a time; one more fails at once.
        rest: Seconds of that while at first.
    """

    def __init__(self, model: str, *, most: int, rest: float = REST) -> None:
        self._model, self._most, self._first_rest = model, most, rest
        self.rest = rest
        """Seconds that the next failure is followed by."""
        self._lock = Lock()
        self._running = 0
        self._failure: UnavailableError | None = None
        self._rests_until = 0.0

    def run(self, call: Callable[[], T], seconds: float, *, fair: float = 0.0) -> T:
        """
        What a call returns.

        Args:
            call: Ends by itself some time.
            seconds: How long to wait for it.
            fair: A call that had less time than this and was late is no failure that matters
                to others.

        Raises:
            UnavailableError: The call raised it, or was late; or others had failed just before.
        """
        self._begin()
        answer: _Answer = SimpleQueue()
        # A daemon: a process need not wait for an embedder in order to end.
        Thread(target=self._called, args=(call, answer), daemon=True).start()
        try:
            returned, found = answer.get(timeout=max(seconds, 0.001))
        except Empty:
            late = self._late(f"gave no answer within {seconds:.1f} s")
            if seconds >= fair:
                self._start_rest(late)
            raise late from None
        if not returned:
            if isinstance(found, UnavailableError):
                self._start_rest(found)
            raise found
        self.rest = self._first_rest
        result: T = found
        return result

    def _called(self, call: Callable[[], Any], answer: _Answer) -> None:
        try:
            found = (True, call())
        except BaseException as error:
            # Raised again where somebody waits for it.
            found = (False, error)
        with self._lock:
            self._running -= 1
        answer.put(found)

    def _begin(self) -> None:
        with self._lock:
            if self._failure is not None and time.monotonic() < self._rests_until:
                raise _again(self._failure)
            if self._running >= self._most:
                raise self._late("is busy with earlier texts")
            self._running += 1

    def _start_rest(self, failure: UnavailableError) -> None:
        with self._lock:
            self._failure, self._rests_until = failure, time.monotonic() + self.rest
            self.rest = min(2 * self.rest, LONGEST_REST)

    def _late(self, why: str) -> UnavailableError:
        return UnavailableError(
            f"the embedder {self._model!r} {why}.",
            code="embedder_timeout",
            field="MEMORIALE_EMBEDDER",
            value=self._model,
        )


def _again(failure: UnavailableError) -> UnavailableError:
    """The same failure, to be raised once more: a raised exception keeps its traceback."""
    return UnavailableError(
        failure.message, code=failure.code, field=failure.field, value=failure.value
    )
