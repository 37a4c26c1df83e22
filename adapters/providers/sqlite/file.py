"""The file: opened, made when it is not there, read and written in transactions."""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import Any, Final

from memoriale.adapters.providers.sqlite.driver import DRIVER, can_search_vectors
from memoriale.domain.errors import ForkedHandleError, InputError, UnavailableError
from memoriale.domain.text import check_text

SCHEMA_VERSION: Final = 1
WAIT: Final = 30.0
"""Seconds that a call waits for another process that is writing."""

_SCHEMA: Final = """
create table if not exists memoriale_schema (version integer not null);
create table if not exists memoriale_working (
    tenant text not null, scope text not null, key text not null,
    value text not null, inherited_from text,
    primary key (tenant, scope, key)
) without rowid;
create table if not exists memoriale_facts (
    number integer primary key autoincrement,
    tenant text not null, scope text not null, id text not null unique,
    content text not null, source_sandbox_id text, source_entry_index integer,
    evidence text, remembered_at text not null, inherited_from text
);
create index if not exists memoriale_facts_by_scope on memoriale_facts (tenant, scope, number);
create table if not exists memoriale_models (
    number integer primary key, name text not null unique, width integer not null
);
create table if not exists memoriale_vectors (
    fact integer not null, model integer not null, state integer not null, vector blob not null,
    primary key (fact, model)
) without rowid;
create index if not exists memoriale_vectors_waiting on memoriale_vectors (model, fact)
    where state = 0;
create index if not exists memoriale_vectors_zero on memoriale_vectors (model, fact)
    where state = 2;
create table if not exists memoriale_index_removals (
    model integer not null, fact integer not null, primary key (model, fact)
) without rowid;
"""


class SQLiteFile:
    """
    A connection to a file with the tables of this project; other tables may stand beside them.
    Safe to share between threads; several processes may have the file open.

    Args:
        path: The file; it and its folder are made when they are not there, for the user alone.
        vectors: Whether sqlite-vec is to be used where it is installed.

    Raises:
        InputError: No path.
        UnavailableError: The file cannot be opened, is no database, or was made by a later
            release.
    """

    def __init__(self, path: str | os.PathLike[str], *, vectors: bool = False) -> None:
        self.path = Path(check_text("path", os.fspath(path), max_bytes=4_096))
        self._lock, self._pid = RLock(), os.getpid()
        with self._telling():
            self._make_file()
            self._connection: sqlite3.Connection | None = DRIVER.connect(
                self.path, timeout=WAIT, isolation_level=None, check_same_thread=False
            )
        try:
            with self._telling():
                self._connection.row_factory = DRIVER.Row
                self.searches_vectors = vectors and can_search_vectors(self._connection)
                self._prepare(self._connection)
        except BaseException:
            self.close()
            raise

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A transaction in which everything is read at one point."""
        with self._transaction("begin") as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that is stored whole at its end, or not at all."""
        with self._transaction("begin immediate") as connection:
            yield connection

    def close(self) -> None:
        """Closes the connection; a further call is refused. Closing twice is allowed."""
        with self._lock:
            connection, self._connection = self._connection, None
            # A connection that was carried into a child process belongs to the parent.
            if connection is not None and self._pid == os.getpid():
                connection.close()

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        if self._pid != os.getpid():
            raise ForkedHandleError(
                "this provider was opened before os.fork; open one in the child process."
            )
        with self._lock, self._telling():
            connection = self._connection
            if connection is None:
                raise InputError("this provider is closed; open it again.", code="closed")
            connection.execute(begin)
            try:
                yield connection
                connection.execute("commit")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("rollback")
                raise

    def _make_file(self) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))

    def _prepare(self, connection: sqlite3.Connection) -> None:
        _write_ahead(connection)
        connection.execute("pragma synchronous = full")
        connection.execute("begin immediate")
        try:
            for statement in _SCHEMA.split(";"):
                connection.execute(statement)
            found = connection.execute("select version from memoriale_schema").fetchone()
            if found is None:
                connection.execute("insert into memoriale_schema values (?)", (SCHEMA_VERSION,))
            elif found["version"] > SCHEMA_VERSION:
                raise UnavailableError(
                    f"{self.path} was made by a later release (format {found['version']}); "
                    "install that.",
                    code="later_format",
                    field="path",
                    value=found["version"],
                    allowed=SCHEMA_VERSION,
                )
            connection.execute("commit")
        except BaseException:
            if connection.in_transaction:
                connection.execute("rollback")
            raise

    @contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except (DRIVER.Error, OSError) as error:
            raise _told(self.path, error) from error


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Switches to the write-ahead log, so that readers and a writer do not wait for each other."""
    until = time.monotonic() + WAIT
    while connection.execute("pragma journal_mode").fetchone()[0] != "wal":
        try:
            connection.execute("pragma journal_mode = wal").fetchone()
        except DRIVER.OperationalError:
            # SQLite does not wait here while another process does the same.
            if time.monotonic() > until:
                raise
            time.sleep(0.01)


def _told(path: Path, error: Any) -> UnavailableError:
    reason = error.strerror if isinstance(error, OSError) else str(error)
    busy = "locked" in str(reason)
    damaged = type(error) is DRIVER.DatabaseError
    return UnavailableError(
        f"{path} cannot be used: {reason}.",
        code="busy" if busy else "damaged" if damaged else "file_unavailable",
        field="path",
        value=str(path),
        allowed="a file of SQLite that can be read and written",
    )
