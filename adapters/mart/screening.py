"""Which SQL is let through: one SELECT that asks nothing about this machine."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import duckdb

_CHANGING: Final = ("INSERT", "UPDATE", "DELETE", "MERGE")
_TOLD: Final = frozenset(
    {
        "duckdb_columns",
        "duckdb_constraints",
        "duckdb_functions",
        "duckdb_keywords",
        "duckdb_schemas",
        "duckdb_tables",
        "duckdb_types",
        "duckdb_views",
        "pg_typeof",
        "pragma_table_info",
    }
)
"""What the system tells about the snapshot itself."""
_PREFIXES: Final = ("duckdb_", "pragma_", "pg_", "read_", "parquet_", "sniff_")
_REFUSED: Final = frozenset(
    {
        # They run text as SQL, so what it asks would not be seen here.
        "query",
        "query_table",
        "json_execute_serialized_sql",
        "from_substrait",
        "from_substrait_json",
        # They tell paths, settings or secrets, or reach files.
        "current_setting",
        "getenv",
        "getvariable",
        "glob",
        "which_secret",
        "checkpoint",
        "force_checkpoint",
        "write_log",
        "seq_scan",
        # They take addresses in memory.
        "arrow_scan",
        "arrow_scan_dumb",
        "pandas_scan",
        "python_map_function",
    }
)
_SHOWN: Final = frozenset({'"tables"', "__show_tables_expanded"})


class RefusedQuery(Exception):
    """SQL that is not let through; its text says why."""


def screen(connection: "duckdb.DuckDBPyConnection", query: str) -> None:
    """
    Refuses everything but one SELECT of the snapshot's tables and of functions that compute.

    The connection refuses writes, files and settings by itself; this keeps back what it would
    still tell, such as the paths of its files.

    Args:
        connection: Its parser is asked.
        query: The SQL.

    Raises:
        RefusedQuery: It is not let through.
        duckdb.Error: It is no SQL.
    """
    statements = connection.extract_statements(query)
    if len(statements) != 1:
        raise RefusedQuery(f"give one statement, not {len(statements)}")
    if statements[0].named_parameters:
        raise RefusedQuery("the query has a parameter; write the value instead")
    ((text,),) = connection.execute("SELECT json_serialize_sql(?)", [query]).fetchall()
    parsed = json.loads(text)
    if parsed["error"]:
        kind = str(statements[0].type).rpartition(".")[2]
        raise RefusedQuery(f"only a SELECT is run here, not {kind}")
    for node in _nodes(parsed["statements"]):
        _check(node)


def _check(node: dict[str, Any]) -> None:
    kind, function, table = (
        str(node.get(name) or "") for name in ("type", "function_name", "table_name")
    )
    if kind.startswith(_CHANGING):
        raise RefusedQuery("only a SELECT is run here, and it may change nothing")
    if "show_type" in node and table and table not in _SHOWN:
        raise RefusedQuery(f"SHOW {table.strip(chr(34))} is not answered here")
    for name in (function.lower(), table.lower()):
        if name in _REFUSED or (name.startswith(_PREFIXES) and name not in _TOLD):
            raise RefusedQuery(f"{name} is not answered here")


def _nodes(value: Any) -> Iterator[dict[str, Any]]:
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield value
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
