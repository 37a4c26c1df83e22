"""How long the server outlives its last user, and the watchdog that sees to it."""

import fcntl
import os
import sys
from pathlib import Path

from memoriale.adapters.embedded.layout import Layout, read_text, write_text
from memoriale.adapters.embedded.locks import open_lock, try_lock
from memoriale.adapters.embedded.postmaster import open_log
from memoriale.adapters.embedded.processes import start_detached

DEFAULT_IDLE_SECONDS = 60.0

_WATCHDOG = "memoriale.adapters.embedded.watchdog"


def set_idle_seconds(layout: Layout, seconds: float) -> None:
    """Store the time for the watchdog; the latest value counts."""
    if read_text(layout.idle_seconds) != repr(seconds):
        write_text(layout.idle_seconds, repr(seconds))


def idle_seconds(layout: Layout) -> float:
    """The stored time; the default when there is none."""
    try:
        return float(read_text(layout.idle_seconds) or DEFAULT_IDLE_SECONDS)
    except ValueError:
        return DEFAULT_IDLE_SECONDS


def ensure_watchdog(layout: Layout) -> None:
    """
    Start the watchdog unless one lives; only under the start lock.

    A watchdog ends under the start lock too, so one that is about to leave is never counted on.
    """
    descriptor = open_lock(layout.watchdog_lock)
    try:
        if try_lock(descriptor, fcntl.LOCK_EX):
            _start_watchdog(layout, descriptor)
    finally:
        os.close(descriptor)


def _start_watchdog(layout: Layout, descriptor: int) -> None:
    log = open_log(layout)
    try:
        start_detached(
            # -P: nothing is imported from the working directory.
            [sys.executable, "-P", "-m", _WATCHDOG, str(layout.base), str(descriptor)],
            log=log,
            environment={**os.environ, "PYTHONPATH": _search_path()},
            folder=Path("/"),
            keep=[descriptor],
        )
    finally:
        os.close(log)


def _search_path() -> str:
    # The folder that this process imported memoriale from, whatever put it on the path.
    package_root = Path(sys.modules["memoriale"].__path__[0]).parent
    inherited = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    return os.pathsep.join(os.path.abspath(entry) for entry in (str(package_root), *inherited))
