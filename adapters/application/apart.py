"""Calls of a program's own code, so that what it raises cannot be taken for Ctrl-C."""

import threading
from collections.abc import Callable
from contextvars import copy_context
from queue import SimpleQueue
from typing import TypeVar

T = TypeVar("T")
Outcome = tuple[T, None] | tuple[None, BaseException]
"""What a call returned, or what it raised."""


def apart(call: Callable[[], T]) -> Outcome[T]:
    """
    What came of a call, whatever it raised. In the main thread, where signals raise
    ``KeyboardInterrupt`` and ``SystemExit``, it runs in a thread of its own, and a signal ends the
    wait for it.

    Args:
        call: What may raise anything; it is left to itself when the wait is interrupted.
    """
    if threading.current_thread() is not threading.main_thread():
        return _outcome(call)
    answer: SimpleQueue[Outcome[T]] = SimpleQueue()
    context = copy_context()

    def called() -> None:
        answer.put(context.run(_outcome, call))

    threading.Thread(target=called, name="memoriale-apart", daemon=True).start()
    return answer.get()


def _outcome(call: Callable[[], T]) -> Outcome[T]:
    try:
        return call(), None
    except BaseException as error:
        return None, error
