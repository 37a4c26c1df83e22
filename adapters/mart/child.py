"""The child process that runs one query and ends; its limits are set before anything else."""

import json
import os
import resource
import signal
import sys
from collections.abc import Iterator
from math import ceil
from typing import Any, Final

import duckdb

from memoriale.adapters.mart.screening import RefusedQuery, screen
from memoriale.adapters.mart.values import as_json

ADDRESS_SPACE: Final = 2 * 1024**3
"""Bytes. DuckDB's own limit does not cover what functions on text allocate."""
MEMORY_LIMIT: Final = "1GB"
THREADS: Final = 2
_FETCH: Final = 100
_DAMAGE: Final = ("checksum", "Could not read", "Corrupt", "not a valid DuckDB", "Failed to read")
# Every type once, so that what their conversion imports is there when no file can be opened.
_WARM_UP: Final = (
    "SELECT 1::BIGINT, 1.5::DECIMAL(5, 2), 1::HUGEINT, 1.5::DOUBLE, 'a', 'a'::BLOB, true, uuid(),"
    " now(), now()::TIMESTAMP, current_date, TIME '10:00', '10:00:00+02'::TIMETZ, INTERVAL 1 DAY,"
    " [1], {'a': 1}, MAP {'a': 1}, '1'::BIT, TIMESTAMP_NS '2020-01-01', '1'::BIGNUM, 1::VARIANT,"
    " '{}'::JSON, 'a'::ENUM ('a'), NULL, TIMESTAMP '290000-01-01',"
    " now() AT TIME ZONE 'Europe/Rome', strftime(now(), '%A'), 'ä' COLLATE NOCASE < 'b'"
)


class Failure(Exception):
    """Why there is no answer: ``kind`` is query, refused, memory or snapshot."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind, self.message = kind, message


def main() -> None:
    """Reads one request from standard input and writes one answer, both JSON."""
    request = json.loads(sys.stdin.buffer.read())
    _limit_process(float(request["seconds"]))
    try:
        answer = run(request)
    except Failure as failure:
        answer = {"error": {"kind": failure.kind, "message": failure.message}}
    except MemoryError:
        answer = {"error": {"kind": "memory", "message": "out of memory"}}
    text = json.dumps(answer, ensure_ascii=True, allow_nan=False)
    folder = os.path.dirname(request["path"])
    sys.stdout.buffer.write(text.replace(folder, "(hidden)").encode())
    sys.stdout.buffer.flush()
    # Nothing is worth waiting for: threads of DuckDB may still be computing.
    os._exit(0)


def run(request: dict[str, Any]) -> dict[str, Any]:
    """
    Opens the snapshot, locks everything, and runs the query.

    Args:
        request: ``path`` of the snapshot, ``query``, and the most ``rows`` and ``bytes``.
    """
    connection = _opened(str(request["path"]))
    _forbid_files()
    try:
        screen(connection, str(request["query"]))
        connection.execute(str(request["query"]))
        return _answer(connection, int(request["rows"]), int(request["bytes"]))
    except RefusedQuery as refused:
        raise Failure("refused", str(refused)) from refused
    except RecursionError as error:
        raise Failure("refused", "it is nested too deeply") from error
    except duckdb.OutOfMemoryException as error:
        raise Failure("memory", str(error).splitlines()[0]) from error
    except duckdb.Error as error:
        raise _failure(str(error)) from error


def _limit_process(seconds: float) -> None:
    # Their default actions end the process at once, also inside DuckDB.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001))
    _limit(resource.RLIMIT_CPU, ceil(seconds * THREADS) + 1)
    _limit(resource.RLIMIT_AS, ADDRESS_SPACE)
    _limit(resource.RLIMIT_FSIZE, 0)
    _limit(resource.RLIMIT_CORE, 0)


def _limit(what: int, most: int) -> None:
    _, hard = resource.getrlimit(what)
    value = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(what, (value, value))


def _forbid_files() -> None:
    # What is open stays usable; no file, socket or pipe can be opened any more.
    _limit(resource.RLIMIT_NOFILE, 0)


def _opened(path: str) -> duckdb.DuckDBPyConnection:
    config: dict[str, Any] = {
        "threads": min(THREADS, os.cpu_count() or 1),
        "memory_limit": MEMORY_LIMIT,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "python_enable_replacements": False,
    }
    try:
        connection = duckdb.connect(path, read_only=True, config=config)
        for setting in (
            "TimeZone = 'UTC'",
            "temp_directory = ''",
            "allow_community_extensions = false",
            "allow_persistent_secrets = false",
            "enable_external_access = false",
            "disabled_filesystems = 'LocalFileSystem'",
        ):
            connection.execute(f"SET {setting}")
        connection.execute(_WARM_UP).fetchall()
        connection.execute("SET lock_configuration = true")
    except duckdb.Error as error:
        raise Failure("snapshot", str(error)) from error
    return connection


def _answer(connection: duckdb.DuckDBPyConnection, rows: int, size: int) -> dict[str, Any]:
    columns = _columns(connection)
    left = size - len(json.dumps(columns))
    if left < 0:
        raise Failure("query", "the result has too many columns")
    names = [column["name"] for column in columns]
    found: list[dict[str, Any]] = []
    for values in _rows(connection):
        row = dict(zip(names, values, strict=True))
        left -= len(json.dumps(row)) + 2
        if len(found) == rows or left < 0:
            return {"columns": columns, "rows": found, "truncated": True}
        found.append(row)
    return {"columns": columns, "rows": found, "truncated": False}


def _columns(connection: duckdb.DuckDBPyConnection) -> list[dict[str, str]]:
    taken: set[str] = set()
    columns = []
    for name, type_, *_ in connection.description or ():
        unique, number = name, 1
        while unique in taken:
            unique, number = f"{name}_{number}", number + 1
        taken.add(unique)
        columns.append({"name": unique, "type": str(type_)})
    return columns


def _rows(connection: duckdb.DuckDBPyConnection) -> Iterator[list[Any]]:
    while found := connection.fetchmany(_FETCH):
        for row in found:
            yield [as_json(value) for value in row]


def _failure(text: str) -> Failure:
    if any(word in text for word in _DAMAGE) and text.startswith(("IO Error", "Serialization")):
        return Failure("snapshot", text)
    return Failure("query", text)


if __name__ == "__main__":
    main()
