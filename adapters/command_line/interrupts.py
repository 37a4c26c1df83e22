"""Ctrl-C: the first ends a command, the second ends the process at once."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType


@contextmanager
def interruptible() -> Iterator[None]:
    """
    Within it the first Ctrl-C raises ``KeyboardInterrupt`` wherever the command is, and a second
    one kills the process, whatever it is waiting for.
    """
    with told(lambda: None):
        yield


@contextmanager
def ending(end: Callable[[], None]) -> Iterator[None]:
    """
    Within it Ctrl-C is the way in which an endless command ends, and no failure.

    Args:
        end: As for ``told``.
    """
    with suppress(KeyboardInterrupt), told(end):
        yield


@contextmanager
def told(end: Callable[[], None]) -> Iterator[None]:
    """
    As ``interruptible``, for what would go on for ever if the exception was lost: it may come
    while code runs that cannot pass it on, such as a finaliser. So what runs is told as well.

    Args:
        end: Makes it return soon; called in a signal handler, so it takes no lock.
    """
    came = False
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupted(signum: int, frame: FrameType | None) -> None:
        nonlocal came
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        came = True
        end()
        raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    if before in (signal.SIG_IGN, None):
        # Started in the background of a shell: Ctrl-C is not for it.
        yield
        return
    signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is interrupted:
            signal.signal(signal.SIGINT, before)
    if came:
        raise KeyboardInterrupt
