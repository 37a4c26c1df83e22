"""The cache of embeddings of one log: sealed vectors in a file beside the views."""

import contextlib
import logging
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeVar
from uuid import UUID

from memoriale.domain.errors import UnavailableError

T = TypeVar("T")
FORMAT: Final = 1
_KEYS_AT_ONCE: Final = 500
_BUSY_SECONDS: Final = 2.0
_BROKEN: Final = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
"""Another table than ours, pages that contradict each other, no database at all."""
_SCHEMA: Final = f"""
    BEGIN IMMEDIATE;
    CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, owner BLOB NOT NULL,
        value BLOB NOT NULL);
    CREATE INDEX IF NOT EXISTS vectors_owner ON vectors (owner);
    PRAGMA user_version = {FORMAT};
    COMMIT;
"""
_log = logging.getLogger("memoriale.embeddings")


class Entry(NamedTuple):
    """A sealed vector and whose it is."""

    key: bytes
    owner: UUID
    value: bytes


class EmbeddingCache:
    """
    Keeps sealed vectors by key in one SQLite file (0600, in a folder of 0700). It knows neither
    texts nor keys of persons: ``CachedEmbedder`` seals what goes in and opens what comes out.

    Nothing is lost with it: a missing or damaged file is made anew, and a disk that is full or
    cannot be written means that nothing is kept. Only ``purge`` must not fail silently. Each
    call opens the file for itself, which takes a tenth of a millisecond; so threads, processes
    and forks share nothing, and the file may be removed at any time.

    Args:
        path: The file; made when something is first kept.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of_log(cls, folder: Path, log_id: UUID) -> "EmbeddingCache":
        """The cache of a log in a folder of caches."""
        return cls(folder / f"{log_id.hex}.sqlite")

    def get(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The values of those keys that are there."""
        if not keys or not self.path.exists():
            return {}
        return self._tried(lambda file: _selected(file, keys)) or {}

    def put(self, entries: Iterable[Entry]) -> None:
        """Keeps entries, in place of earlier ones of the same keys."""
        rows = [(entry.key, entry.owner.bytes, entry.value) for entry in entries]
        if rows:
            self._tried(lambda file: _inserted(file, rows))

    def purge(self, owner: UUID) -> int:
        """
        Removes every entry of an owner; their bytes in the file are overwritten.

        Args:
            owner: Pseudonym.

        Returns:
            How many there were.

        Raises:
            UnavailableError: The file could be neither changed nor removed.
        """
        if not self.path.exists():
            return 0
        try:
            with self._opened() as file:
                return _deleted(file, owner)
        except (OSError, sqlite3.Error) as error:
            self._remove(error)
            return 0

    def count(self) -> int:
        """Number of entries."""
        if not self.path.exists():
            return 0
        found = self._tried(lambda f: f.execute("SELECT count(*) FROM vectors").fetchone()[0])
        return int(found or 0)

    def _tried(self, use: Callable[[sqlite3.Connection], T]) -> T | None:
        """What ``use`` returns; None when the file cannot be used now."""
        try:
            with self._opened() as file:
                return use(file)
        except (OSError, sqlite3.Error) as error:
            if isinstance(error, sqlite3.DatabaseError) and _is_broken(error):
                _log.warning("%s is damaged (%s) and begins anew", self.path, error)
                with contextlib.suppress(UnavailableError):
                    self._remove(error)
            else:
                _log.warning("%s cannot be used: %s", self.path, error)
            return None

    @contextlib.contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # SQLite gives its journal the mode of the file, and would make the file by the umask.
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        with contextlib.closing(
            sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None)
        ) as file:
            # After a power failure the file may be damaged, which costs a computation.
            file.execute("PRAGMA synchronous = OFF")
            _prepare(file)
            yield file

    def _remove(self, reason: Exception) -> None:
        try:
            for suffix in ("", "-journal", "-wal", "-shm"):
                Path(f"{self.path}{suffix}").unlink(missing_ok=True)
        except OSError as error:
            raise UnavailableError(
                f"{self.path} can be neither used ({reason}) nor removed ({error.strerror}); "
                "remove it by hand.",
                code="embedding_cache",
                value=str(self.path),
            ) from error


def _prepare(file: sqlite3.Connection) -> None:
    (found,) = file.execute("PRAGMA user_version").fetchone()
    if found == 0:
        file.executescript(_SCHEMA)
    elif found != FORMAT:
        raise _OtherFormat(f"it has the format {found}, not {FORMAT}")


class _OtherFormat(sqlite3.DatabaseError):
    sqlite_errorcode = sqlite3.SQLITE_NOTADB


def _is_broken(error: sqlite3.DatabaseError) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _BROKEN


def _selected(file: sqlite3.Connection, keys: Sequence[bytes]) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    for start in range(0, len(keys), _KEYS_AT_ONCE):
        part = keys[start : start + _KEYS_AT_ONCE]
        marks = ",".join("?" * len(part))
        found.update(file.execute(f"SELECT key, value FROM vectors WHERE key IN ({marks})", part))
    return found


def _inserted(file: sqlite3.Connection, rows: Sequence[tuple[bytes, bytes, bytes]]) -> None:
    file.execute("BEGIN IMMEDIATE")
    file.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)
    file.execute("COMMIT")


def _deleted(file: sqlite3.Connection, owner: UUID) -> int:
    file.execute("PRAGMA secure_delete = ON")
    file.execute("PRAGMA synchronous = FULL")
    return file.execute("DELETE FROM vectors WHERE owner = ?", (owner.bytes,)).rowcount
