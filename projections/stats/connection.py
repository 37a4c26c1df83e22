"""The one place where DuckDB is opened, and where its errors become ours."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from memoriale.domain.errors import CorruptViewError, UnavailableError
from memoriale.projections.disk import told_in_words

if TYPE_CHECKING:
    import duckdb

FILE: Final = "stats.duckdb"
_MAX_THREADS: Final = 4
_MEMORY_LIMIT: Final = "512MB"


def connect(folder: Path) -> "duckdb.DuckDBPyConnection":
    """
    Opens the DuckDB file in a folder, or makes it; it reaches no other file and no network.

    Raises:
        CorruptViewError: It is no DuckDB file, or a damaged one.
        UnavailableError: ``busy``: another process has it open.
    """
    import duckdb

    config: dict[str, str | bool | int | float | list[str]] = {
        "threads": min(_MAX_THREADS, os.cpu_count() or 1),
        "memory_limit": _MEMORY_LIMIT,
        "enable_external_access": False,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "python_enable_replacements": False,
    }
    with duckdb_errors(folder):
        connection = duckdb.connect(str(folder / FILE), config=config)
        connection.execute("SET TimeZone = 'UTC'")
    return connection


@contextmanager
def duckdb_errors(folder: Path) -> Iterator[None]:
    """Turns errors of DuckDB into ``CorruptViewError``, or ``UnavailableError`` if it can wait."""
    import duckdb

    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise UnavailableError(f"the stats view ran out of memory: {error}") from error
    except duckdb.Error as error:
        raise _translated(folder, str(error)) from error


def _translated(folder: Path, text: str) -> UnavailableError:
    if "Could not set lock" in text or "Conflicting lock" in text:
        return UnavailableError(
            f"{folder / FILE} is open in another process; try again.", code="busy"
        )
    refused = told_in_words(folder / FILE, text)
    return refused or CorruptViewError(
        f"{folder / FILE}: {text.splitlines()[0] if text else 'damaged'}"
    )
