"""File locks of the embedded server, all released by the kernel when their process dies.

Four files, each locked with ``flock``:

- start: exclusive, while a process starts or stops the server;
- users: shared, held by every process that uses the server, for as long as it does;
- server: exclusive, inherited by the postmaster and its children, so it is free exactly when
  none of them is left, whatever the process table or a pid file says;
- watchdog: exclusive, inherited by the one watchdog.
"""

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from memoriale.adapters.embedded.failures import unavailable
from memoriale.adapters.embedded.processes import wait_until


def open_lock(path: Path, *, make: bool = True) -> int:
    """Open a lock file, made when missing, that programs started from here do not inherit."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_CREAT if make else 0)
    return os.open(path, flags, 0o600)


def try_lock(descriptor: int, operation: int) -> bool:
    """Take a lock (``fcntl.LOCK_SH`` or ``LOCK_EX``) if it is free; False if it is not."""
    try:
        fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def wait_for_lock(descriptor: int, operation: int, path: Path, seconds: float) -> None:
    """
    Take a lock, waiting at most `seconds`.

    Raises:
        UnavailableError: Another process held it all the time.
    """
    if not wait_until(lambda: try_lock(descriptor, operation), seconds):
        raise unavailable(
            path,
            "locked",
            f"Another process has held {path} for {seconds:g} seconds. "
            "Wait for it to finish starting or stopping the database, then try again.",
        )


@contextmanager
def exclusive(path: Path, seconds: float, *, make: bool = True) -> Iterator[None]:
    """Hold the lock of `path` alone inside the block; `UnavailableError` after `seconds`."""
    descriptor = open_lock(path, make=make)
    try:
        wait_for_lock(descriptor, fcntl.LOCK_EX, path, seconds)
        try:
            yield
        finally:
            # Closing alone is not enough: a child forked by another thread of this process
            # would keep the lock.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)


def held(path: Path) -> bool:
    """Whether a process holds the lock of `path` alone. Makes no file."""
    try:
        descriptor = open_lock(path, make=False)
    except FileNotFoundError:
        return False
    try:
        # Shared, so that two processes asking at once do not see each other.
        return not try_lock(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


@dataclass
class _Seat:
    descriptor: int
    count: int


_seats: dict[Path, _Seat] = {}
_guard = threading.Lock()


def _new_guard() -> None:
    global _guard
    _guard = threading.Lock()


os.register_at_fork(after_in_child=_new_guard)


class Presence:
    """
    This process as a user of one server.

    All presences of a process share one lock. A child made by ``os.fork`` shares it too: the
    server then runs until parent and child have both left.

    Args:
        path: The users lock file.
        seconds: How long to wait for a watchdog that is looking at the file at this moment.

    Raises:
        UnavailableError: The lock could not be had in that time.
    """

    def __init__(self, path: Path, seconds: float) -> None:
        self._path = path
        self._left = False
        with _guard:
            seat = _seats.get(path)
            if seat is None or not _same_file(seat.descriptor, path):
                seat = _seats[path] = _take_seat(path, seconds)
            seat.count += 1
            self._seat = seat

    def leave(self) -> None:
        """Give the presence up; a second call does nothing."""
        with _guard:
            if self._left:
                return
            self._left = True
            self._seat.count -= 1
            if self._seat.count == 0:
                # Closed, never unlocked: unlocking in a forked child would end the presence
                # of its parent.
                os.close(self._seat.descriptor)
                if _seats.get(self._path) is self._seat:
                    del _seats[self._path]


def _take_seat(path: Path, seconds: float) -> _Seat:
    descriptor = open_lock(path)
    try:
        wait_for_lock(descriptor, fcntl.LOCK_SH, path, seconds)
    except BaseException:
        os.close(descriptor)
        raise
    return _Seat(descriptor, 0)


def _same_file(descriptor: int, path: Path) -> bool:
    """False when a home was deleted and made again under the same name."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
