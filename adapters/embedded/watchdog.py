"""The process that stops the embedded server some time after its last user has left.

Run as ``python -m memoriale.adapters.embedded.watchdog BASE DESCRIPTOR`` by the process that
starts the server; the descriptor is the locked watchdog file, kept open to the end.
"""

import fcntl
import os
import sys
import time
from contextlib import suppress
from pathlib import Path

from memoriale.adapters.embedded.idle import idle_seconds
from memoriale.adapters.embedded.layout import Layout
from memoriale.adapters.embedded.locks import exclusive, open_lock, try_lock
from memoriale.adapters.embedded.postmaster import exists, rotate_log, shut_down

_STOP_SECONDS = 60.0
_LOCK_SECONDS = 600.0
_LONGEST_NAP = 0.2
_SHORTEST_NAP = 0.05
_LOG_CHECK_SECONDS = 60.0


def watch(layout: Layout, watchdog_lock: int) -> None:
    """
    Stay until the server is gone, stopping it when it has been without users long enough.

    Args:
        layout: Files of the server.
        watchdog_lock: The locked watchdog file; closed at the end.
    """
    idle_since: float | None = None
    log_checked = time.monotonic()
    users = open_lock(layout.users_lock, make=False)
    while True:
        now, limit = time.monotonic(), idle_seconds(layout)
        idle_since = None if _busy(users) else idle_since or now
        expired = idle_since is not None and now - idle_since >= limit
        if (expired or not exists(layout)) and _leave(layout, users, watchdog_lock, expired):
            return
        if now - log_checked >= _LOG_CHECK_SECONDS:
            rotate_log(layout)
            log_checked = now
        time.sleep(min(_LONGEST_NAP, max(_SHORTEST_NAP, limit / 10)))


def _leave(layout: Layout, users: int, watchdog_lock: int, expired: bool) -> bool:
    # Makes no file: the home may be in the course of being deleted.
    with exclusive(layout.start_lock, _LOCK_SECONDS, make=False):
        # Somebody may have joined, or started the server anew, before the lock was ours.
        if expired and not _busy(users):
            shut_down(layout, _STOP_SECONDS)
        if exists(layout):
            return False
        os.close(watchdog_lock)
        return True


def _busy(users: int) -> bool:
    if not try_lock(users, fcntl.LOCK_EX):
        return True
    fcntl.flock(users, fcntl.LOCK_UN)
    return False


if __name__ == "__main__":
    # Without its folder there is nothing to watch: a server whose pid file was deleted ends by
    # itself within a minute.
    with suppress(FileNotFoundError):
        watch(Layout(Path(sys.argv[1])), int(sys.argv[2]))
