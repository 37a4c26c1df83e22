"""The server process: starting it, knowing whether it lives, stopping it."""

import fcntl
import os
import re
import shutil
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from memoriale.adapters.embedded.failures import unavailable
from memoriale.adapters.embedded.layout import Layout, read_text
from memoriale.adapters.embedded.locks import held, open_lock, wait_for_lock
from memoriale.adapters.embedded.processes import look_up, quit_all_in, wait_until
from memoriale.adapters.embedded.sockets import PORT, forget_socket_directory

_LARGEST_LOG = 4 * 1024 * 1024
_LOCK_SECONDS = 5.0
_IMMEDIATE_SECONDS = 10.0
_ORPHAN_SECONDS = 0.5
_READY_LINE = 7

# Given on the command line, so that no configuration file weakens them. What people store must
# not reach the server's log: it holds neither statements, parameters nor errors (their text
# quotes values), and of other messages the first line only (the details quote statements).
_SETTINGS = {
    "listen_addresses": "",
    "port": str(PORT),
    "unix_socket_permissions": "0700",
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "autovacuum": "on",
    "password_encryption": "scram-sha-256",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_destination": "stderr",
    "logging_collector": "off",
    "log_min_messages": "log",
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_statement": "none",
    "log_duration": "off",
    "log_min_duration_statement": "-1",
    "log_min_duration_sample": "-1",
    "log_transaction_sample_rate": "0",
    "log_parameter_max_length": "0",
    "log_parameter_max_length_on_error": "0",
    "log_lock_waits": "off",
    "log_temp_files": "-1",
    "log_autovacuum_min_duration": "-1",
    "log_checkpoints": "off",
}


@dataclass(frozen=True)
class PidFile:
    """What ``postmaster.pid`` says; it may be stale, half-written or empty."""

    pid: int | None
    ready: bool


def read_pid_file(data: Path) -> PidFile:
    """The pid file of a data directory; no pid when there is no file or no number in it."""
    lines = (read_text(data / "postmaster.pid") or "").split("\n")
    # A server in single-user mode writes its pid with a minus sign.
    number = re.fullmatch(r"-?(\d{1,10})", lines[0].strip())
    ready = len(lines) > _READY_LINE and lines[_READY_LINE].strip() == "ready"
    return PidFile(int(number.group(1)) if number else None, ready)


def live_pid(layout: Layout) -> int | None:
    """
    The process id of the live server of this data directory.

    None when the pid file is missing, damaged, or names a dead process, a zombie, or a process
    that is not this server because the number was given to another.
    """
    pid = read_pid_file(layout.data).pid
    process = None if pid is None else look_up(pid)
    if process is None or process.zombie:
        return None
    ours = f"postgres -D {layout.data} " in f"{process.command} "
    return pid if ours and process.uid == layout.data.stat().st_uid else None


def exists(layout: Layout) -> bool:
    """Whether any process of a server of this data directory lives, answering or not."""
    return held(layout.server_lock) or live_pid(layout) is not None


def end_orphans(layout: Layout) -> None:
    """End what a killed postmaster left behind: a backend deep in a query does not notice."""
    owner = layout.data.stat()
    switched = os.geteuid() != owner.st_uid
    user, group = (owner.st_uid, owner.st_gid) if switched else (None, None)
    quit_all_in(layout.data, "postgres", user, group)
    wait_until(lambda: not held(layout.server_lock), _ORPHAN_SECONDS)


def command(program: str, layout: Layout, sockets: Path) -> list[str]:
    """The server's command line."""
    settings = {**_SETTINGS, "unix_socket_directories": str(sockets)}
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    return [program, "-D", str(layout.data), *options]


def lock_for_launch(layout: Layout) -> int:
    """Open the server lock and take it alone; the launched server inherits and keeps it."""
    descriptor = open_lock(layout.server_lock)
    try:
        wait_for_lock(descriptor, fcntl.LOCK_EX, layout.server_lock, _LOCK_SECONDS)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def open_log(layout: Layout) -> int:
    """Open the server's log at its end."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(layout.log, flags, 0o600)


def rotate_log(layout: Layout) -> None:
    """Move a log over 4 MiB to ``server.log.1``; a running server goes on in the emptied file."""
    with suppress(FileNotFoundError):
        if layout.log.stat().st_size > _LARGEST_LOG:
            shutil.copy(layout.log, layout.log.with_name(f"{layout.log.name}.1"))
            os.truncate(layout.log, 0)


def shut_down(layout: Layout, wait_seconds: float) -> bool:
    """
    Stop the server; only under the start lock.

    Args:
        layout: Its files.
        wait_seconds: Time for an orderly stop, which ends all sessions. After it the server is
            stopped at once and recovers at its next start; nothing committed is lost.

    Returns:
        False when there was no server.

    Raises:
        UnavailableError: It is still there; it may belong to another container.
    """
    if not exists(layout):
        forget_socket_directory(layout)
        return False
    for number, seconds in ((signal.SIGINT, wait_seconds), (signal.SIGQUIT, _IMMEDIATE_SECONDS)):
        _signal(layout, number)
        if wait_until(lambda: _is_gone(layout), seconds):
            forget_socket_directory(layout)
            return True
    raise unavailable(
        layout.base,
        "still_running",
        f"The database in {layout.data} is still running and does not stop. It may have been "
        "started in another container: stop it there.",
    )


def _signal(layout: Layout, number: signal.Signals) -> None:
    pid = live_pid(layout)
    if pid is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _is_gone(layout: Layout) -> bool:
    if exists(layout) and live_pid(layout) is None:
        end_orphans(layout)
    return not exists(layout)
