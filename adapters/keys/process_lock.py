"""One lock for the threads of this process and for other processes."""

import errno
import fcntl
import os
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memoriale.adapters.keys.disk import FILE_MODE, disk_errors
from memoriale.domain.errors import UnavailableError

_POLL_SECONDS = 0.001


class ProcessLock:
    """
    An exclusive lock on a file, held by one thread of one process at a time.

    Args:
        path: The lock file; made when it does not exist, never removed.
        timeout: Seconds to wait for another holder.
    """

    def __init__(self, path: Path, *, timeout: float) -> None:
        self._path = path
        self._timeout = timeout
        self._mutex = threading.Lock()
        self._fd = -1
        _all_locks.add(self)

    @contextmanager
    def held(self) -> Iterator[None]:
        """
        Hold the lock for a block.

        Raises:
            UnavailableError: With code ``locked``: another holder kept it for ``timeout`` s.
        """
        deadline = time.monotonic() + self._timeout
        if not self._mutex.acquire(timeout=self._timeout):
            self._give_up()
        try:
            self._lock_file(deadline)
            try:
                yield
            finally:
                fcntl.flock(self._fd, fcntl.LOCK_UN)
        finally:
            self._mutex.release()

    def close(self) -> None:
        """Let go of the lock file, when the thread that holds the lock has finished."""
        with self._mutex:
            fd, self._fd = self._fd, -1
            if fd >= 0:
                os.close(fd)

    def __del__(self) -> None:
        self.close()

    def _lock_file(self, deadline: float) -> None:
        with disk_errors(self._path):
            if self._fd < 0:
                self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
            while not _try_lock(self._fd):
                if time.monotonic() > deadline:
                    self._give_up()
                time.sleep(_POLL_SECONDS)

    def _give_up(self) -> None:
        raise UnavailableError(
            f"Another process or thread held {self._path} for {self._timeout:g} seconds. "
            "Try again, or find out what holds it.",
            code="locked",
            field="keystore",
            value=str(self._path),
        )

    def after_fork_in_child(self) -> None:
        """
        Start over in a child process.

        A lock belongs to the open file, which the child shares with its parent: closing the
        child's copy leaves the parent's lock alone, unlocking it would take it away. The mutex
        may be held by a thread that does not exist here.
        """
        self._mutex = threading.Lock()
        self.close()


_all_locks: "weakref.WeakSet[ProcessLock]" = weakref.WeakSet()


def _start_over_in_child() -> None:
    for lock in list(_all_locks):
        lock.after_fork_in_child()


os.register_at_fork(after_in_child=_start_over_in_child)


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise
    return True
