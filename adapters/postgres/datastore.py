"""The database behind all logs of a process: connections by role, shared and fork-safe."""

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Final, Self, TypeVar
from weakref import WeakSet

import psycopg
from psycopg import Connection, pq, sql
from psycopg.abc import Buffer
from psycopg.adapt import Loader
from psycopg.conninfo import make_conninfo
from psycopg.rows import TupleRow

from memoriale.adapters.postgres.encoding import prepare
from memoriale.adapters.postgres.errors import is_lost_connection, translated
from memoriale.adapters.postgres.location import connection_settings, place_of
from memoriale.adapters.postgres.roles import Role
from memoriale.domain.errors import InputError, UnavailableError
from memoriale.domain.leaf import EPOCH

MAX_READERS: Final = 8
"""Connections of each reading role that one process holds at most."""

MAX_APPENDERS: Final = 8
"""Connections for appending that the logs of one process share."""

T = TypeVar("T")
_READING: Final = (Role.READ, Role.PROJECT)
_WAIT: Final = 10.0

# Every key begins with the tenant and the log, and without statistics the planner takes that
# beginning alone for unique: any key seems as good as the right one, and the whole log is read
# through it. So the readers ask in the order of the key they mean, and with sorting disabled
# only that key will do. A sort that no key can save still happens.
_FOR_TENANT: Final = b"SELECT pg_catalog.set_config('ledger.tenant', %s, true)"
_PLAIN_PLANS: Final = sql.SQL(
    "SET enable_seqscan = off; SET enable_sort = off; SET enable_incremental_sort = off;"
    " SET jit = off"
)
# What is sent as text looks the same whatever server, database and login are set to.
_PLAIN_TEXTS: Final = sql.SQL(
    "SET TimeZone = 'UTC'; SET DateStyle = 'ISO, YMD'; SET bytea_output = 'hex'"
)
_left_behind: list[object] = []


class _UtcLoader(Loader):
    """Times in UTC itself, whatever the zone of the session."""

    format = pq.Format.BINARY

    def load(self, data: Buffer) -> datetime:
        return EPOCH + timedelta(0, 0, int.from_bytes(data, "big", signed=True))


class Datastore:
    """
    Connections to one database, for every log of a process.

    Built from the whole connection string, so that ``sslmode``, ``options`` or several hosts
    hold. Nothing connects before the first use. Usable from many threads, and again in a child
    after ``os.fork``. A connection takes one role when it is made and serves that role alone,
    so no transaction has rights that its work does not need.

    Args:
        url: Connection string of a login that may take the roles ``memoriale_append`` and
            ``memoriale_read``.
        project_url: The same of a login that may take ``memoriale_project``; None uses ``url``.
        application_name: Shown in ``pg_stat_activity`` unless the URL names another.

    Raises:
        InputError: The URL cannot be read.
    """

    def __init__(
        self, url: str, *, project_url: str | None = None, application_name: str = "memoriale"
    ) -> None:
        first = connection_settings(url, application_name)
        posting = connection_settings(project_url or url, application_name, "project_url")
        self._settings = {Role.APPEND: first, Role.READ: first, Role.PROJECT: posting}
        self.place: str = place_of(first)
        """Host, port and database, for messages; never a password."""
        self._closed = False
        self._before_closing: list[Callable[[], None]] = []
        self._idle: dict[Role, list[Connection[TupleRow]]]
        self._idle_appenders: list[Connection[TupleRow]]
        self._start_anew()
        _datastores.add(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def reading_url(self) -> str:
        """The connection string of readers, password and all, for a child of this process."""
        return make_conninfo("", **self._settings[Role.READ])

    def connect_for_appending(self) -> Connection[TupleRow]:
        """
        A new connection in autocommit with the role ``memoriale_append``; the caller closes it.

        Raises:
            InputError: The datastore is closed.
            UnavailableError: The database cannot be reached (``database_down``).
        """
        return self.connect_as(Role.APPEND)

    def connect_as(self, role: Role) -> Connection[TupleRow]:
        """
        A new connection in autocommit with a role; the caller closes it.

        Args:
            role: ``APPEND``, ``READ`` or ``PROJECT``.

        Raises:
            InputError: The datastore is closed.
            UnavailableError: The database cannot be reached (``database_down``).
        """
        self._require_open()
        with translated(place_of(self._settings[role])):
            return self._connect(role)

    @contextmanager
    def appending(self) -> Iterator[Connection[TupleRow]]:
        """
        Such a connection for a moment, closed at the end.

        Raises:
            InputError: The datastore is closed.
            UnavailableError: The database cannot be used.
        """
        with translated(self.place), self.connect_for_appending() as connection:
            yield connection

    @contextmanager
    def lent_appender(self) -> Iterator[Connection[TupleRow]]:
        """
        A connection for one call of ``ledger.append``, shared by the logs of the process.

        Errors of psycopg pass as they are: the committer must tell a lost connection from a
        refusal.

        Raises:
            InputError: The datastore is closed.
            UnavailableError: The database cannot be reached, or all appenders are busy.
        """
        self._require_open()
        appenders = self._appenders
        if not appenders.acquire(timeout=_WAIT):
            raise UnavailableError(
                f"All {MAX_APPENDERS} appending connections are busy. Try again.",
                code="appenders_busy",
            )
        try:
            with self._lock:
                connection = self._idle_appenders.pop() if self._idle_appenders else None
            if connection is None:
                connection = self.connect_for_appending()
                prepare(connection)
            try:
                yield connection
            finally:
                self._keep(connection, self._idle_appenders)
        finally:
            appenders.release()

    @contextmanager
    def read(self, tenant: str, role: Role = Role.READ) -> Iterator[Connection[TupleRow]]:
        """
        A pooled connection with a reading role in a read-only transaction that sees the rows
        of one tenant. At the end the connection is of no tenant again.

        Args:
            tenant: Whose rows are visible.
            role: ``READ``, or ``PROJECT`` for whoever posts views.

        Raises:
            InputError: The tenant is empty, or the datastore is closed.
            UnavailableError: The database cannot be used, or all readers are busy.
        """
        with self._transaction(tenant, role, "READ ONLY") as connection:
            yield connection

    @contextmanager
    def write_snapshots(self, tenant: str) -> Iterator[Connection[TupleRow]]:
        """
        The same for whoever posts views, in a transaction that may write: owner snapshots are
        all that its role is granted to write.

        Args:
            tenant: Whose rows are visible.

        Raises:
            InputError: The tenant is empty, or the datastore is closed.
            UnavailableError: The database cannot be used, or all connections are busy.
        """
        with self._transaction(tenant, Role.PROJECT, "READ WRITE") as connection:
            yield connection

    @contextmanager
    def _transaction(self, tenant: str, role: Role, mode: str) -> Iterator[Connection[TupleRow]]:
        # One round trip, and the tenant cannot stay: the setting ends with the transaction.
        begin = sql.SQL("BEGIN {}; SELECT pg_catalog.set_config('ledger.tenant', {}, true)").format(
            sql.SQL(mode), tenant
        )
        with self._lent_reader(tenant, role, lambda c: c.execute(begin)) as (connection, _):
            yield connection
            connection.execute("COMMIT")

    @contextmanager
    def _lent_reader(
        self, tenant: str, role: Role, first: Callable[[Connection[TupleRow]], T]
    ) -> Iterator[tuple[Connection[TupleRow], T]]:
        """A pooled connection, with the answer to what it is asked first."""
        if not tenant:
            raise InputError("Name the tenant to read.", code="missing", field="tenant")
        self._require_open()
        readers = self._readers[role]
        if not readers.acquire(timeout=_WAIT):
            raise UnavailableError(
                f"All {MAX_READERS} reading connections are busy. Try again.", code="readers_busy"
            )
        try:
            with translated(place_of(self._settings[role])):
                connection, answer = self._begin(role, first)
                try:
                    yield connection, answer
                finally:
                    self._put_back(connection, self._idle[role])
        finally:
            readers.release()

    def fetch(
        self, tenant: str, statement: str, arguments: Mapping[str, Any], role: Role = Role.READ
    ) -> list[tuple[Any, ...]]:
        """
        What one query reads of one tenant, in a single round trip.

        Args:
            tenant: Whose rows are visible.
            statement: The query.
            arguments: Its arguments by name.
            role: As for ``read``.

        Returns:
            Its rows, with values in binary form.

        Raises:
            InputError: The tenant is empty, or the datastore is closed.
            UnavailableError: The database cannot be used, or all readers are busy.
        """

        def ask(connection: Connection[TupleRow]) -> list[tuple[Any, ...]]:
            # What a pipeline sends is one transaction, with which the tenant's setting ends.
            with _quiet_pipeline(connection):
                connection.execute(_FOR_TENANT, [tenant])
                cursor = connection.execute(statement.encode(), arguments, binary=True)
            return cursor.fetchall()

        with self._lent_reader(tenant, role, ask) as (_, found):
            return found

    def before_closing(self, call: Callable[[], None]) -> None:
        """
        Call something when the datastore is closed, while it can still be used.

        Args:
            call: Lets go of connections that it was given.
        """
        self._before_closing.append(call)

    def close(self) -> None:
        """Close the idle connections of this process. Calling it again does nothing."""
        for call in self._before_closing:
            call()
        with self._lock:
            self._closed = True
            pools = [*self._idle.values(), self._idle_appenders]
            idle = [connection for pool in pools for connection in pool]
            for pool in pools:
                pool.clear()
        for connection in idle:
            connection.close()

    def _require_open(self) -> None:
        if self._closed:
            raise InputError(
                "This datastore is closed. Open the ledger again.", code="closed", field="datastore"
            )

    def _start_anew(self) -> None:
        self._lock = threading.Lock()
        self._readers = {role: threading.BoundedSemaphore(MAX_READERS) for role in _READING}
        self._appenders = threading.BoundedSemaphore(MAX_APPENDERS)
        self._idle = {role: [] for role in _READING}
        self._idle_appenders = []

    def _forked(self) -> None:
        # The parent still speaks through these sockets: the child must neither use nor close
        # them, so it keeps them and looks away.
        _left_behind.append([self._idle, self._idle_appenders])
        self._start_anew()

    def _begin(
        self, role: Role, first: Callable[[Connection[TupleRow]], T]
    ) -> tuple[Connection[TupleRow], T]:
        while connection := self._take_idle(role):
            try:
                return connection, first(connection)
            except psycopg.Error as error:
                connection.close()
                # An idle connection does not notice that its server went away.
                if not is_lost_connection(error):
                    raise
        connection = self._connect(role)
        try:
            return connection, first(connection)
        except BaseException:
            connection.close()
            raise

    def _take_idle(self, role: Role) -> Connection[TupleRow] | None:
        with self._lock:
            idle = self._idle[role]
            return idle.pop() if idle else None

    def _put_back(self, connection: Connection[TupleRow], idle: list[Connection[TupleRow]]) -> None:
        if connection.info.transaction_status != pq.TransactionStatus.IDLE:
            with suppress(psycopg.Error):
                connection.rollback()
        self._keep(connection, idle)

    def _keep(self, connection: Connection[TupleRow], idle: list[Connection[TupleRow]]) -> None:
        with self._lock:
            usable = connection.info.transaction_status == pq.TransactionStatus.IDLE
            if usable and not self._closed:
                idle.append(connection)
                return
        connection.close()

    def _connect(self, role: Role) -> Connection[TupleRow]:
        connection = psycopg.connect(**self._settings[role], autocommit=True)
        try:
            connection.execute(
                sql.SQL("SET ROLE {}; SET default_transaction_read_only = {}; {}; {}").format(
                    sql.Identifier(role), role in _READING, _PLAIN_TEXTS, _PLAIN_PLANS
                )
            )
        except BaseException:
            connection.close()
            raise
        connection.adapters.register_loader("timestamptz", _UtcLoader)
        return connection


@contextmanager
def _quiet_pipeline(connection: Connection[TupleRow]) -> Iterator[None]:
    """A pipeline that leaves it to its caller to speak of a lost connection; psycopg logs it."""
    lost: psycopg.Error | None = None
    try:
        with connection.pipeline():
            try:
                yield
            except psycopg.Error as error:
                if not connection.broken:
                    raise
                lost = error
    except psycopg.Error as error:
        raise lost or error from None
    if lost is not None:
        raise lost


_datastores: WeakSet[Datastore] = WeakSet()


def _after_fork() -> None:
    for datastore in list(_datastores):
        datastore._forked()


os.register_at_fork(after_in_child=_after_fork)
