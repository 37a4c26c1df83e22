"""Makes the file of a snapshot out of a copy of the live one; the writer goes on meanwhile."""

import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from memoriale.domain.errors import CorruptViewError
from memoriale.projections.proofs.merkle import root_of
from memoriale.projections.stats.connection import duckdb_errors
from memoriale.projections.stats.dictionary import RELATIONS
from memoriale.projections.stats.star import fingerprint, statements

if TYPE_CHECKING:
    import duckdb

STORAGE: Final = "v1.2.0"
"""Oldest storage version that the tables fit in: DuckDB 1.2 and later open the file."""
_MEMORY_LIMIT: Final = "512MB"
_MAX_THREADS: Final = 4
_STEP: Final = 100_000


def build(live: Path, target: Path, log_id: UUID, published_at: datetime) -> bytes:
    """
    Copies every table into a new file, stamps it and adds the analysts' views.

    Args:
        live: A file that nobody else uses; named otherwise than ``target``.
        target: The file to make, which does not exist.
        log_id: The log that the tables were posted from.
        published_at: For the stamp.

    Returns:
        The root over its leaf hashes, 32 bytes.

    Raises:
        CorruptViewError: The live file is damaged.
        UnavailableError: The disk is full.
    """
    with duckdb_errors(target.parent), _opened(live, read_only=False) as connection:
        root = root_of(_leaf_hashes(connection))
        connection.execute(f"ATTACH {_text(target)} AS target (STORAGE_VERSION '{STORAGE}')")
        ((source,),) = connection.execute("SELECT current_database()").fetchall()
        connection.execute(f'COPY FROM DATABASE "{source}" TO target')
        connection.execute("USE target")
        for statement in statements():
            connection.execute(statement)
        connection.execute(
            "INSERT INTO snapshot SELECT ?, position, ?, ?, ? FROM position",
            [log_id, root, published_at, fingerprint()],
        )
        connection.execute(f'USE "{source}"')
        connection.execute("CHECKPOINT target")
        connection.execute("DETACH target")
    return root


def export_parquet(snapshot: Path, folder: Path) -> list[Path]:
    """
    Writes each table of a snapshot as a Parquet file.

    Args:
        snapshot: Its file.
        folder: Exists; files of the same names are replaced.

    Returns:
        The files that were written.
    """
    tables = [relation.name for relation in RELATIONS.values() if relation.kind == "table"]
    files = [folder / f"{name}.parquet" for name in tables]
    with duckdb_errors(folder), _opened(snapshot, read_only=True) as connection:
        for name, file in zip(tables, files, strict=True):
            connection.execute(
                f'COPY (SELECT * FROM "{name}") TO {_text(file)} (FORMAT parquet, CODEC zstd)'
            )
            file.chmod(0o600)
    return files


class _opened:
    """A connection to one file that may write others; for SQL of our own only."""

    def __init__(self, file: Path, *, read_only: bool) -> None:
        self._file, self._read_only = file, read_only

    def __enter__(self) -> "duckdb.DuckDBPyConnection":
        import duckdb

        config: dict[str, Any] = {
            "threads": min(_MAX_THREADS, os.cpu_count() or 1),
            "memory_limit": _MEMORY_LIMIT,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "python_enable_replacements": False,
        }
        self._connection = duckdb.connect(str(self._file), read_only=self._read_only, config=config)
        self._connection.execute("SET TimeZone = 'UTC'")
        return self._connection

    def __exit__(self, *_: object) -> None:
        self._connection.close()


def _leaf_hashes(connection: "duckdb.DuckDBPyConnection") -> Iterator[bytes]:
    ((position,),) = connection.execute("SELECT position FROM position").fetchall()
    given = 0
    for first in range(0, position, _STEP):
        found = connection.execute(
            'SELECT leaf_hash FROM events WHERE "index" BETWEEN ? AND ? ORDER BY "index"',
            [first, first + _STEP - 1],
        ).fetchall()
        given += len(found)
        yield from (leaf for (leaf,) in found)
    if given != position:
        raise CorruptViewError(f"the stats view has {given} events and stands at {position}.")


def _text(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
