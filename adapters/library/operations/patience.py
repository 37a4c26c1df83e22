"""Trying again what failed for a while, and leaving what nobody waits for any more."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Any, Final, TypeVar

from memoriale.domain.errors import (
    JobEndedError,
    MemorialeError,
    OperationError,
    UnavailableError,
)

T = TypeVar("T")
FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 30.0
MOST_RETRIES: Final = 20
_LOOK: Final = 0.5
"""Seconds after which a call that takes long asks whether anybody still waits for it."""


def never_ended() -> bool:
    """For calls that nobody cancels."""
    return False


@dataclass(frozen=True, slots=True)
class Patience:
    """
    How often to try, and when to stop waiting.

    Args:
        max_retries: Tries after the first one, with pauses of 0.1 s, 0.2 s, 0.4 s and so on, at
            most 30 s each, or as long as whoever failed asks to be left alone.
        ended: Set when nobody waits any more.
        has_ended: Whether the work was ended by somebody else; looked up, so not asked often.
    """

    max_retries: int
    ended: Event
    has_ended: Callable[[], bool] = never_ended

    def __call__(self, call: Callable[[], T]) -> T:
        """
        What a call returns, in a thread of its own: a call that nobody waits for is left.

        Raises:
            OperationError: It failed each time; from the last failure.
            JobEndedError: Nobody waits any more.
        """
        for retry in range(self.max_retries + 1):
            try:
                return self._once(call)
            except UnavailableError as error:
                if retry == self.max_retries or error.for_good:
                    raise _for_good(error, retry + 1) from error
                self._rest(max(FIRST_PAUSE * 2.0**retry, error.retry_after))
        raise AssertionError("unreachable: the last try returns or raises")

    def _once(self, call: Callable[[], T]) -> T:
        answer: SimpleQueue[tuple[bool, Any]] = SimpleQueue()

        def called() -> None:
            try:
                answer.put((True, call()))
            except BaseException as error:
                # Raised again where somebody waits for it.
                answer.put((False, error))

        self._require_going_on()
        Thread(target=called, name="memoriale-operation", daemon=True).start()
        looked = time.monotonic()
        while True:
            try:
                returned, found = answer.get(timeout=_LOOK / 10)
                break
            except Empty:
                if self.ended.is_set():
                    raise _left() from None
                if time.monotonic() - looked > _LOOK:
                    looked = time.monotonic()
                    self._require_going_on()
        if not returned:
            raise found
        result: T = found
        return result

    def _rest(self, seconds: float) -> None:
        if self.ended.wait(min(seconds, LONGEST_PAUSE)):
            raise _left()

    def _require_going_on(self) -> None:
        if self.ended.is_set() or self.has_ended():
            raise _left()


def _left() -> JobEndedError:
    return JobEndedError("the operation was ended meanwhile; nothing was stored.")


def _for_good(error: UnavailableError, tries: int) -> MemorialeError:
    told = f" ({tries} tries)" if tries > 1 else ""
    return OperationError(
        f"{error.message}{told}",
        code=error.code,
        field=error.field,
        value=error.value,
        allowed=error.allowed,
    )
