"""Telling other processes that a log grew, and being told: hints, sent after the commit."""

import logging
import os
import selectors
import socket
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from hashlib import sha256
from typing import Final
from uuid import UUID, uuid4
from weakref import WeakSet

import psycopg
from psycopg import Connection, sql
from psycopg.rows import TupleRow

from memoriale.adapters.postgres.datastore import Datastore
from memoriale.adapters.postgres.errors import translated
from memoriale.adapters.postgres.roles import Role
from memoriale.domain.errors import MemorialeError

QUIET_SECONDS: Final = 1.0
"""For which a log is taken to have no listeners after none was found."""
REST_SECONDS: Final = 0.01
"""Between two hints of a process; what comes meanwhile is one hint."""
IDLE_SECONDS: Final = 10.0
"""After which a thread that has nothing to tell ends, and with it its connection."""
ARRIVAL_SECONDS: Final = 5.0
"""In which a hint is expected when it is tried whether hints arrive."""
RETRY_SECONDS: Final = 1.0
"""Between two attempts to listen while the database is away."""

_log = logging.getLogger("memoriale.subscriptions")

# Listeners hold the lock shared, so whoever can take it alone has nobody to tell, and then no
# transaction is written. A refused attempt costs nobody a wait.
_TELL: Final = (
    "SELECT pg_catalog.pg_notify(%s, '') WHERE NOT pg_catalog.pg_try_advisory_xact_lock(%s)"
)


class Hints:
    """
    Hints between the processes of one database that a log grew. They say nothing else, and may
    be lost: whoever follows a log asks it at least once a second.

    A hint is sent by a thread of its own on a connection of its own, after the commit: NOTIFY
    takes a lock of the whole server at its commit, and an append must not wait for that. While
    nobody listens to a log, nothing is sent and the server is asked for listeners at most once a
    second. Usable from many threads, and anew in a child after ``os.fork``.

    Args:
        datastore: The database; its reading login needs no further right for this.
    """

    def __init__(self, datastore: Datastore) -> None:
        self.datastore = datastore
        self._teller: _Teller | None
        self._listener: _Listener | None
        self._start_anew()
        datastore.before_closing(self.close)
        _hints.add(self)

    def tell(self, log_id: UUID) -> None:
        """Tells the listeners of a log in all processes; returns at once."""
        if time.monotonic() < self._quiet_until.get(log_id, 0.0):
            return
        with self._lock:
            if self._closed:
                return
            self._to_tell.add(log_id)
            if self._teller is None:
                self._teller = _Teller(self)
                self._teller.start()
        self._something_to_tell.set()

    def listen(self, log_id: UUID, wakeup: threading.Event) -> None:
        """
        Sets an event at each hint about a log, for as long as the event is referenced.

        Args:
            log_id: The log.
            wakeup: Set, never cleared; also when hints may have been lost.
        """
        with self._lock:
            if self._closed:
                return
            self._wakeups.setdefault(log_id, WeakSet()).add(wakeup)
            if self._listener is None:
                self._listener = _Listener(self)
                self._listener.start()
            listener = self._listener
        listener.look()

    def forget(self, log_id: UUID, wakeup: threading.Event) -> None:
        """Ends ``listen``; what was not listened for is no error."""
        with self._lock:
            self._wakeups.get(log_id, WeakSet()).discard(wakeup)
            listener = self._listener
        if listener is not None:
            listener.look()

    def close(self) -> None:
        """Ends the threads; hints that are due are sent. Closing twice is allowed."""
        with self._lock:
            self._closed = True
            self._wakeups.clear()
            teller, listener = self._teller, self._listener
        self._something_to_tell.set()
        if listener is not None:
            listener.look()
        for thread in (teller, listener):
            if thread is not None:
                thread.join()

    def _start_anew(self) -> None:
        self._lock = threading.Lock()
        self._closed = False
        self._to_tell: set[UUID] = set()
        self._something_to_tell = threading.Event()
        self._quiet_until: dict[UUID, float] = {}
        self._wakeups: dict[UUID, WeakSet[threading.Event]] = {}
        self._teller = None
        self._listener = None

    def _forked(self) -> None:
        # The parent's threads and connections stay the parent's.
        _left_behind.append((self._teller, self._listener))
        self._start_anew()

    def connect(self) -> Connection[TupleRow]:
        """A connection for hints: nothing that it writes is worth a sync to disk."""
        connection = self.datastore.connect_as(Role.READ)
        connection.execute("SET synchronous_commit = off")
        return connection

    def next_to_tell(self) -> set[UUID] | None:
        """What is to be told; None when the thread is to end."""
        self._something_to_tell.wait(0 if self._closed else IDLE_SECONDS)
        with self._lock:
            self._something_to_tell.clear()
            told, self._to_tell = self._to_tell, set()
            if not told:
                self._teller = None
            return told or None

    def stay_quiet(self, log_ids: Iterable[UUID]) -> None:
        """Tells nothing about some logs for a while."""
        until = time.monotonic() + QUIET_SECONDS
        self._quiet_until.update(dict.fromkeys(log_ids, until))

    def wanted(self) -> set[UUID] | None:
        """The logs that somebody listens to; None when the thread is to end."""
        with self._lock:
            self._wakeups = {log_id: w for log_id, w in self._wakeups.items() if w}
            if not self._wakeups:
                self._listener = None
                return None
            return set(self._wakeups)

    def wake(self, log_ids: Iterable[UUID]) -> None:
        """Sets the events of those who listen."""
        with self._lock:
            found = [w for log_id in log_ids for w in self._wakeups.get(log_id, ())]
        for wakeup in found:
            wakeup.set()

    @property
    def closed(self) -> bool:
        """Whether nothing is told or listened to any more."""
        return self._closed


class _Teller(threading.Thread):
    """Sends hints, one at a time; whatever fails costs the listeners a second at most."""

    def __init__(self, hints: Hints) -> None:
        super().__init__(name="memoriale-hints", daemon=True)
        self._hints = hints
        self._connection: Connection[TupleRow] | None = None

    def run(self) -> None:
        try:
            while log_ids := self._hints.next_to_tell():
                try:
                    self._tell(log_ids)
                except (psycopg.Error, MemorialeError) as error:
                    _log.debug("no hint was sent: %s", error)
                    self._disconnect()
                    self._hints.stay_quiet(log_ids)
                if not self._hints.closed:
                    time.sleep(REST_SECONDS)
        finally:
            self._disconnect()

    def _tell(self, log_ids: set[UUID]) -> None:
        if self._connection is None:
            self._connection = self._hints.connect()
        for log_id in log_ids:
            told = self._connection.execute(_TELL, [channel(log_id), listeners_key(log_id)])
            if not told.fetchall():
                self._hints.stay_quiet([log_id])

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class _Listener(threading.Thread):
    """Listens to the channels of all logs that are followed in this process."""

    def __init__(self, hints: Hints) -> None:
        super().__init__(name="memoriale-listener", daemon=True)
        self._hints = hints
        self._told: set[str] = set()
        self._inside, self._outside = socket.socketpair()
        self._inside.setblocking(False)
        self._outside.setblocking(False)

    def look(self) -> None:
        """Looks again at what is wanted."""
        with suppress(OSError):
            self._outside.send(b"\0")

    def run(self) -> None:
        with self._inside, self._outside:
            while (wanted := self._hints.wanted()) is not None:
                try:
                    with self._hints.connect() as connection:
                        self._listen(connection)
                except (psycopg.Error, MemorialeError) as error:
                    _log.debug("hints are not heard: %s", error)
                    # Those who follow ask the log meanwhile; they notice what is wrong.
                    self._hints.wake(wanted)
                    self._pause(RETRY_SECONDS)

    def _listen(self, connection: Connection[TupleRow]) -> None:
        heard: dict[str, UUID] = {}
        connection.add_notify_handler(lambda notice: self._told.add(notice.channel))
        with selectors.DefaultSelector() as ready:
            ready.register(connection.fileno(), selectors.EVENT_READ)
            ready.register(self._inside, selectors.EVENT_READ)
            while (wanted := self._hints.wanted()) is not None:
                new = wanted - set(heard.values())
                self._change(connection, heard, wanted)
                # What was told before LISTEN took effect was not heard.
                self._hints.wake(new)
                # Who dropped a subscription without ending it does not say so.
                ready.select(IDLE_SECONDS)
                self._drain()
                self._told.update(_notices(connection))
                self._hints.wake(heard[name] for name in self._told if name in heard)
                self._told.clear()

    def _change(
        self, connection: Connection[TupleRow], heard: dict[str, UUID], wanted: set[UUID]
    ) -> None:
        for name, log_id in [*heard.items()]:
            if log_id not in wanted:
                connection.execute(sql.SQL("UNLISTEN {}").format(sql.Identifier(name)))
                connection.execute(
                    "SELECT pg_catalog.pg_advisory_unlock_shared(%s)", [listeners_key(log_id)]
                )
                del heard[name]
        for log_id in wanted - set(heard.values()):
            connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel(log_id))))
            connection.execute(
                "SELECT pg_catalog.pg_advisory_lock_shared(%s)", [listeners_key(log_id)]
            )
            heard[channel(log_id)] = log_id

    def _drain(self) -> None:
        with suppress(BlockingIOError):
            while self._inside.recv(4096):
                pass

    def _pause(self, seconds: float) -> None:
        with selectors.DefaultSelector() as ready:
            ready.register(self._inside, selectors.EVENT_READ)
            ready.select(seconds)
        self._drain()


def channel(log_id: UUID) -> str:
    """The name under which hints about a log are sent."""
    return f"memoriale_{log_id.hex}"


def listeners_key(log_id: UUID) -> int:
    """The lock that listeners of a log share: 64 bits of a hash, signed."""
    digest = sha256(b"memoriale/listeners/" + log_id.bytes).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def hint_arrives(datastore: Datastore) -> bool:
    """
    Sends a hint about no log from one session to another; whether it came within seconds.

    Raises:
        RefusedError: The reading role may not do so.
        UnavailableError: The database cannot be used.
    """
    log_id = uuid4()
    with (
        translated(datastore.place),
        datastore.connect_as(Role.READ) as hearing,
        datastore.connect_as(Role.READ) as telling,
    ):
        hearing.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel(log_id))))
        hearing.execute("SELECT pg_catalog.pg_advisory_lock_shared(%s)", [listeners_key(log_id)])
        telling.execute(_TELL, [channel(log_id), listeners_key(log_id)])
        return bool([*hearing.notifies(timeout=ARRIVAL_SECONDS, stop_after=1)])


def _notices(connection: Connection[TupleRow]) -> list[str]:
    connection.pgconn.consume_input()
    found = []
    while (notice := connection.pgconn.notifies()) is not None:
        found.append(notice.relname.decode())
    return found


def hints_of(datastore: Datastore) -> Hints:
    """The hints of a database, one for all logs of the process."""
    with _making:
        known = (hints for hints in _hints if hints.datastore is datastore)
        return next(known, None) or Hints(datastore)


_making = threading.Lock()
_hints: WeakSet[Hints] = WeakSet()
_left_behind: list[object] = []


def _after_fork() -> None:
    global _making
    _making = threading.Lock()
    for hints in list(_hints):
        hints._forked()


os.register_at_fork(after_in_child=_after_fork)
