"""Starting, joining and stopping the embedded server of a home."""

import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from memoriale.adapters.embedded import cluster, postmaster
from memoriale.adapters.embedded.account import Account, server_account
from memoriale.adapters.embedded.binaries import Binaries, binaries_for, environment
from memoriale.adapters.embedded.cluster import Logins
from memoriale.adapters.embedded.failures import (
    disk_full,
    tells_of_full_disk,
    translated,
    unavailable,
)
from memoriale.adapters.embedded.idle import (
    DEFAULT_IDLE_SECONDS,
    ensure_watchdog,
    set_idle_seconds,
)
from memoriale.adapters.embedded.layout import Layout, find, locate
from memoriale.adapters.embedded.locks import Presence, exclusive, held
from memoriale.adapters.embedded.processes import start_detached, wait_until
from memoriale.adapters.embedded.sockets import prepare_socket_directory, socket_directory
from memoriale.domain.errors import InputError, UnavailableError

# Long, because after a crash the server first goes through its write-ahead log.
_START_SECONDS = 120.0
# Between the server's saying that it is ready and a connection.
_SILENT_SECONDS = 20.0
_PRESENCE_SECONDS = 10.0
_CONNECT_SECONDS = 2
_POLL_SECONDS = 0.01
_TRIES = 3
_SEVERE = re.compile("FATAL|PANIC")
# initdb cuts paths off after 1,023 bytes and goes on; what it appends to ours takes up to 63.
_LONGEST_BASE = 960


@dataclass(frozen=True)
class EmbeddedServer:
    """A running embedded server as seen by this process."""

    superuser_url: str = field(repr=False)
    """libpq URI of the superuser ``memoriale``, database ``memoriale``, password included."""
    app_url: str = field(repr=False)
    """The same for the login ``memoriale_writer``, which appends and reads. Like the two that
    follow it has no rights until the migrations grant it some."""
    projector_url: str = field(repr=False)
    """The same for ``memoriale_projector``, which posts views."""
    eraser_url: str = field(repr=False)
    """The same for ``memoriale_eraser``, which removes payloads."""
    data_directory: Path
    socket_directory: Path
    log_file: Path
    _leave: Callable[[], None] = field(repr=False, compare=False)

    def release(self) -> None:
        """Say that this process no longer needs the server; a second call does nothing."""
        self._leave()


def start(home: Path, *, idle_seconds: float = DEFAULT_IDLE_SECONDS) -> EmbeddedServer:
    """
    Start the home's server, or join it when it runs.

    The first start in a home makes the database. The process counts as a user of the server
    until it has released every start, or has ended, however it ended. A child made by
    ``os.fork`` counts too, as it shares its parent's lock, until it ends or executes a program.

    Args:
        home: Folder of the installation; made with mode 0700 when missing.
        idle_seconds: How long the server outlives its last user. The latest start decides.

    Raises:
        InputError: `idle_seconds` is negative or not a number.
        UnavailableError: The home cannot be used by this user, the disk is full, the wheel is
            missing or of another major version, or the server does not start.
    """
    if not idle_seconds >= 0:
        raise InputError(
            "The idle time is a number of seconds, 0 or more.",
            field="embedded_idle",
            value=idle_seconds,
            allowed=">= 0",
        )
    home = Path(home).resolve()
    with translated(home):
        layout = locate(home, server_account(home))
        with exclusive(layout.start_lock, _START_SECONDS):
            presence = Presence(layout.users_lock, _PRESENCE_SECONDS)
            try:
                set_idle_seconds(layout, idle_seconds)
                logins = _serve(home, layout)
            except BaseException:
                presence.leave()
                raise
        sockets = socket_directory(layout)
    return EmbeddedServer(
        logins.url(cluster.SUPERUSER, sockets),
        logins.url(cluster.WRITER, sockets),
        logins.url(cluster.PROJECTOR, sockets),
        logins.url(cluster.ERASER, sockets),
        layout.data,
        sockets,
        layout.log,
        presence.leave,
    )


def stop(home: Path, *, wait_seconds: float = 10.0) -> bool:
    """
    Stop the home's server at once, whoever uses it.

    Args:
        home: Folder of the installation.
        wait_seconds: Time for an orderly stop; after it the server is ended and recovers at its
            next start. Nothing committed is lost either way.

    Returns:
        Whether a server was stopped.

    Raises:
        UnavailableError: The home is not this user's, or the server does not stop.
    """
    home = Path(home).resolve()
    with translated(home):
        layout = find(home)
        if layout is None:
            return False
        with exclusive(layout.start_lock, _START_SECONDS):
            stopped = postmaster.shut_down(layout, wait_seconds)
        # So that nothing of ours is left in the folder, unless somebody starts it again.
        wait_until(lambda: not held(layout.watchdog_lock) or postmaster.exists(layout), 2.0)
        return stopped


def running(home: Path) -> bool:
    """
    Whether the home's server answers. Makes nothing and starts nothing.

    Raises:
        UnavailableError: The home is not this user's.
    """
    home = Path(home).resolve()
    with translated(home):
        layout = find(home)
        logins = None if layout is None else cluster.logins(layout)
        if layout is None or logins is None or not postmaster.read_pid_file(layout.data).ready:
            return False
        return _refusal(logins.url(cluster.SUPERUSER, socket_directory(layout))) is None


def _serve(home: Path, layout: Layout) -> Logins:
    logins = cluster.logins(layout)
    if logins is not None and postmaster.exists(layout):
        ensure_watchdog(layout)
        if _answers(layout, logins):
            return logins
    if postmaster.exists(layout):
        raise _wrong_passwords(layout)
    lines: list[str] = []
    for _ in range(_TRIES):
        logins, log_start = _launch(home, layout)
        if _answers(layout, logins):
            return logins
        lines = _log_lines(layout, log_start)
        # One that ended without giving a reason was killed from outside: try again.
        if any(_SEVERE.search(line) for line in lines):
            break
    raise _start_failure(home, layout, lines)


def _launch(home: Path, layout: Layout) -> tuple[Logins, int]:
    account = server_account(home, layout.data)
    _check_place(home, layout, account)
    # Also the programs that make a cluster inherit the lock: should this process be killed, the
    # next start waits until they have ended before it clears up.
    lock = postmaster.lock_for_launch(layout)
    try:
        binaries = binaries_for(account, lock)
        logins = cluster.prepare(home, layout, binaries)
        return logins, _start_server(layout, binaries)
    finally:
        os.close(lock)


def _start_server(layout: Layout, binaries: Binaries) -> int:
    """Start it, and return where in the log its lines begin."""
    account = binaries.account
    sockets = prepare_socket_directory(layout, account)
    postmaster.rotate_log(layout)
    # Before the server: it waits for the start lock, and so takes over when this process is
    # killed half way.
    ensure_watchdog(layout)
    log = postmaster.open_log(layout)
    try:
        log_start = os.fstat(log).st_size
        start_detached(
            postmaster.command(binaries.program("postgres"), layout, sockets),
            log=log,
            environment=environment(account, layout.base),
            folder=layout.base,
            keep=[binaries.keep],
            user=account.user,
            group=account.group,
        )
    finally:
        os.close(log)
    return log_start


def _check_place(home: Path, layout: Layout, account: Account) -> None:
    if len(os.fsencode(layout.base)) > _LONGEST_BASE:
        raise unavailable(
            home,
            "path_too_long",
            f"PostgreSQL cannot work in a folder whose path has over {_LONGEST_BASE} bytes, as "
            f"{layout.base} has. Set MEMORIALE_HOME to a shorter one.",
        )
    if not account.reaches(layout.base):
        raise unavailable(
            home,
            "home_unreachable",
            f"The user {account.name}, who runs the database for root, cannot enter "
            f"{layout.base}. Let it pass through the folders above, as it could before.",
        )


def _answers(layout: Layout, logins: Logins) -> bool:
    """Wait for a connection; False when the server has gone meanwhile."""
    url = logins.url(cluster.SUPERUSER, socket_directory(layout))
    refusal = "it is still starting"
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if not postmaster.exists(layout):
            return False
        if postmaster.read_pid_file(layout.data).ready:
            answer = _refusal(url)
            if answer is None:
                return True
            refusal = answer
            if "password authentication failed" in refusal:
                raise _wrong_passwords(layout)
            if postmaster.live_pid(layout) is None:
                postmaster.end_orphans(layout)
            deadline = min(deadline, time.monotonic() + _SILENT_SECONDS)
        time.sleep(_POLL_SECONDS)
    raise unavailable(
        layout.base,
        "server_silent",
        f"The server of {layout.data} is there but cannot be used: {refusal}. Run "
        f"`memoriale stop` and try again; its log is {layout.log}.",
    )


def _wrong_passwords(layout: Layout) -> UnavailableError:
    return unavailable(
        layout.base,
        "passwords_wrong",
        f"The server runs, and the file {layout.passwords} does not hold its passwords. Run "
        "`memoriale stop` and remove the file; the next start sets new passwords.",
    )


def _refusal(url: str) -> str | None:
    """Why a connection fails, None when it works."""
    import psycopg

    try:
        psycopg.connect(url, connect_timeout=_CONNECT_SECONDS).close()
    except psycopg.OperationalError as error:
        return str(error).strip()
    return None


def _log_lines(layout: Layout, start: int) -> list[str]:
    with suppress(OSError), layout.log.open("rb") as log:
        log.seek(start)
        return os.fsdecode(log.read()).splitlines()
    return []


def _start_failure(home: Path, layout: Layout, lines: list[str]) -> UnavailableError:
    if any(tells_of_full_disk(line) for line in lines):
        return disk_full(layout.base)
    severe = [line for line in lines if _SEVERE.search(line)]
    reason = (severe or lines or ["it left no message"])[-1]
    return unavailable(
        home,
        "server_failed",
        f"The embedded PostgreSQL did not start in {layout.data}: {reason}. "
        f"Its log is {layout.log}.",
    )
