"""Ctrl-C: the first ends a command, the second ends the process at once."""

import _thread
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

AGAIN: Final = 10.0
"""
Seconds after which a command that was interrupted and has not ended is interrupted again. An
exception that a signal raises can be lost in code that cannot pass it on, such as a finaliser, and
can leave a lock taken for which the clean-up then waits; the next one frees it.
"""
PATIENCE: Final = 2.0
"""Seconds that an endless command has for ending by itself."""


class _Interrupts:
    """Whether Ctrl-C came, and what it is to end."""

    def __init__(self) -> None:
        self.came = False
        self.ends: list[Callable[[], None]] = []

    def first(self, signum: int, frame: FrameType | None) -> None:
        """Handles Ctrl-C; a further one finds the system's own handling, which kills."""
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        self.came = True
        if not self.ends:
            self._again(AGAIN)
            raise KeyboardInterrupt
        # Ends take locks, one of which this thread may hold just now; a thread started so takes
        # none to start.
        for end in self.ends:
            _thread.start_new_thread(end, ())
        self._again(PATIENCE)

    def _again(self, seconds: float) -> None:
        signal.signal(signal.SIGALRM, self._raise)
        signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)

    def _raise(self, signum: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt


_interrupts = _Interrupts()


@contextmanager
def interruptible() -> Iterator[None]:
    """
    Within it the first Ctrl-C raises ``KeyboardInterrupt`` wherever the command is, again and
    again until it has ended, and a second one kills the process, whatever it is waiting for. A
    process that was interrupted and does not come to its end is killed too.
    """
    before = signal.getsignal(signal.SIGINT)
    main = threading.current_thread() is threading.main_thread()
    # One that was started in the background of a shell ignores Ctrl-C.
    if not main or before is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _interrupts.first)
    try:
        yield
    finally:
        if _interrupts.came:
            # Threads and locks that hold up the end of the process do so no longer than this.
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, AGAIN)
        else:
            signal.signal(signal.SIGINT, before)


@contextmanager
def told(end: Callable[[], None]) -> Iterator[None]:
    """
    Within it Ctrl-C makes an endless command return by itself, and raises ``KeyboardInterrupt``
    where it leaves this; earlier only when that takes more than ``PATIENCE``.

    Args:
        end: Makes it return soon; called in a thread of its own.
    """
    _interrupts.ends.append(end)
    try:
        if _interrupts.came:
            # It came before, and the exception was lost.
            raise KeyboardInterrupt
        yield
    finally:
        _interrupts.ends.remove(end)
    if _interrupts.came:
        raise KeyboardInterrupt
