"""Advisory locks: which of several processes does what only one may do."""

import hashlib
import os
from types import TracebackType
from typing import Self
from uuid import UUID

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

from memoriale.adapters.postgres.datastore import Datastore
from memoriale.adapters.postgres.errors import is_lost_connection, translated
from memoriale.adapters.postgres.roles import Role

_HELD = (
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted"
    " AND pid = pg_backend_pid() AND objsubid = 1"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND (classid::bigint << 32) | objid::bigint = %s"
)


class AdvisoryLocks:
    """
    Locks of one session of its own: the server frees them when the process dies or its
    connection is lost. For one thread. Nothing connects before the first use.

    A pooler between the two must give the session one server connection for good.

    Args:
        datastore: The database.
    """

    def __init__(self, datastore: Datastore) -> None:
        self._datastore = datastore
        self._connection: Connection[TupleRow] | None = None
        self._process = os.getpid()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def hold(self, key: int) -> bool:
        """
        Takes a lock if it is free, and asks the server whether one that was taken is still held.

        Args:
            key: A signed 64-bit number; see ``view_key``.

        Returns:
            Whether it is held now. After a lost connection every lock is to be taken again.

        Raises:
            UnavailableError: The database cannot be reached.
        """
        with translated(self._datastore.place):
            try:
                return self._holds(key) or self._taken(key)
            except psycopg.Error as error:
                self.close()
                if not is_lost_connection(error):
                    raise
                return self._taken(key)

    def release(self, key: int) -> None:
        """Frees a lock; one that is not held is no error."""
        with translated(self._datastore.place):
            if self._connection is not None and self._holds(key):
                self._connection.execute("SELECT pg_advisory_unlock(%s)", [key])

    @property
    def backend(self) -> int | None:
        """Process id of the session at the server; None without one."""
        return None if self._connection is None else self._connection.info.backend_pid

    def close(self) -> None:
        """Ends the session, and with it frees every lock. Closing twice is allowed."""
        connection, self._connection = self._connection, None
        # After a fork the session is the parent's.
        if connection is not None and self._process == os.getpid():
            connection.close()

    def _holds(self, key: int) -> bool:
        if self._connection is None:
            return False
        found = self._connection.execute(_HELD, [key]).fetchone()
        return found is not None and found[0] > 0

    def _taken(self, key: int) -> bool:
        if self._connection is None:
            self._connection = self._datastore.connect_as(Role.PROJECT)
            self._process = os.getpid()
        found = self._connection.execute("SELECT pg_try_advisory_lock(%s)", [key]).fetchone()
        return found is not None and bool(found[0])


def view_key(log_id: UUID, view: str) -> int:
    """The lock of whoever posts one view of one log: 64 bits of a hash of both, signed."""
    name = b"memoriale/view/" + log_id.bytes + b"/" + view.encode()
    return int.from_bytes(hashlib.sha256(name).digest()[:8], "big", signed=True)


def job_key(log_id: UUID, job_id: UUID) -> int:
    """The lock of whoever works on a job: 64 bits of a hash, signed."""
    name = b"memoriale/job/" + log_id.bytes + b"/" + job_id.bytes
    return int.from_bytes(hashlib.sha256(name).digest()[:8], "big", signed=True)
