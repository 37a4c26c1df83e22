"""Rows of the stats view as Arrow tables, column by column, the way DuckDB takes them fastest."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import pyarrow as pa

from memoriale.projections.stats.schema import Table


def table_of(table: Table, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """
    An Arrow table with the columns of a table of the view.

    Args:
        table: Which one.
        rows: By column; what is missing is null.
    """
    arrays = {
        column.name: _array(
            column.type.removesuffix(" NOT NULL"), [row.get(column.name) for row in rows]
        )
        for column in table.columns
    }
    return pa.table(arrays)


def uuids(values: Sequence[UUID | None]) -> pa.Array:
    """An Arrow array of type ``arrow.uuid``."""
    stored = pa.array([value and value.bytes for value in values], pa.binary(16))
    return pa.ExtensionArray.from_storage(pa.uuid(), stored)


def _array(type_: str, values: list[Any]) -> pa.Array:
    if type_ == "UUID":
        return uuids(values)
    return pa.array(values, _TYPES[type_])


_TYPES: Final = {
    "BIGINT": pa.int64(),
    "INTEGER": pa.int32(),
    "BOOLEAN": pa.bool_(),
    "VARCHAR": pa.string(),
    "TIMESTAMPTZ": pa.timestamp("us", "UTC"),
}
