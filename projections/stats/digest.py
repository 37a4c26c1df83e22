"""What the stats view holds as lines of text in key order: for its digest, and to compare two."""

import hashlib
from collections.abc import Iterator
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Final

from memoriale.projections.stats.schema import TABLES, Column, Table
from memoriale.projections.view import Digest

if TYPE_CHECKING:
    import duckdb

_STEP: Final = 20_000
"""Keys that are sorted at a time: about 20 MB of text."""
_MAX_DIFFERENCES: Final = 10


def digest(connection: "duckdb.DuckDBPyConnection") -> Digest:
    """
    SHA-256 over the name and the rows of each table: each row one line, a JSON list of its
    columns as text in declared order, times as microseconds since 1970 UTC.

    Args:
        connection: Open on a stats view.
    """
    total, rows = hashlib.sha256(), 0
    for table in TABLES:
        total.update(f"{table.name}\n".encode())
        for lines in _chunks(connection, table):
            total.update("".join(f"{line}\n" for line in lines).encode())
            rows += len(lines)
    return Digest(total.hexdigest(), rows)


def first_differences(
    one: "duckdb.DuckDBPyConnection", two: "duckdb.DuckDBPyConnection"
) -> list[str]:
    """
    The first lines in which two views differ, ten at most.

    Args:
        one: Open on a stats view.
        two: Open on another one.
    """
    found: list[str] = []
    for table in TABLES:
        left, right = (chain.from_iterable(_chunks(view, table)) for view in (one, two))
        for mine, other in zip_longest(left, right, fillvalue="no row"):
            if mine != other:
                found.append(f"{table.name}: {mine} against {other}")
            if len(found) == _MAX_DIFFERENCES:
                return found
    return found


def _chunks(connection: "duckdb.DuckDBPyConnection", table: Table) -> Iterator[list[str]]:
    columns = ", ".join(_as_text(column) for column in table.columns)
    key, name = f'"{table.key}"', f'"{table.name}"'
    spans = connection.execute(
        f"SELECT min({key}), max({key}) FROM {name} GROUP BY {key} // {_STEP} ORDER BY 1"
    ).fetchall()
    for first, last in spans:
        found = connection.execute(
            f"SELECT to_json([{columns}])::VARCHAR AS line FROM {name}"
            f" WHERE {key} BETWEEN ? AND ? ORDER BY {key}, line",
            [first, last],
        )
        yield [line for (line,) in found.fetchall()]


def _as_text(column: Column) -> str:
    name = f'"{column.name}"'
    return f"epoch_us({name})::VARCHAR" if "TIMESTAMPTZ" in column.type else f"{name}::VARCHAR"
