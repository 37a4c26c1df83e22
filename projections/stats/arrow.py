"""Rows of the stats view as Arrow tables, column by column, the way DuckDB takes them fastest."""

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, Final
from uuid import UUID

import pyarrow as pa

from memoriale.domain.branches import main_branch
from memoriale.domain.record import Columns, Row
from memoriale.projections.stats.fold import Header
from memoriale.projections.stats.schema import BRANCHES, EVENTS, Table

_ROW_FIELDS: Final = frozenset(Columns.__dataclass_fields__)
_PLACE_FIELDS: Final = ("index", "append_first", "append_last", "recorded_at", "leaf_hash")


def table_of(table: Table, values: Callable[[str], Iterable[Any]]) -> pa.Table:
    """
    An Arrow table with the columns of a table of the view.

    Args:
        table: Which one.
        values: Gives the values of a column by its name.
    """
    arrays = {
        column.name: _array(column.type.removesuffix(" NOT NULL"), list(values(column.name)))
        for column in table.columns
    }
    return pa.table(arrays)


def uuids(values: Sequence[UUID | None]) -> pa.Array:
    """An Arrow array of type ``arrow.uuid``."""
    stored = pa.array([value and value.bytes for value in values], pa.binary(16))
    return pa.ExtensionArray.from_storage(pa.uuid(), stored)


def events_table(rows: Sequence[Row], headers: Sequence[Header]) -> pa.Table:
    """The rows of table ``events``."""

    def values(name: str) -> Iterable[Any]:
        if name == "namespace_tags":
            return ([tag.hex() for tag in row.columns.namespace_tags] for row in rows)
        if name in _PLACE_FIELDS:
            return map(attrgetter(f"recorded.{name}"), rows)
        if name in _ROW_FIELDS:
            return map(attrgetter(f"columns.{name}"), rows)
        if name == "replaced_by":
            return (_uuid(header.get(name)) for header in headers)
        if name == "has_evidence":
            return (_has_evidence(header) for header in headers)
        return (header.get(name) for header in headers)

    return table_of(EVENTS, values)


def branches_table(rows: Sequence[tuple[Row, Header]], log_id: UUID | None) -> pa.Table:
    """
    The rows of table ``branches``.

    Args:
        rows: ``branch.forked`` events with their headers.
        log_id: Adds the branch ``main`` of this log.
    """
    found = [_forked(row, header) for row, header in rows]
    if log_id is not None:
        main = main_branch(log_id)
        found.insert(
            0, {"index": main.index, "branch": main.id, "fork_index": main.at, "scope": "tenant"}
        )
    return table_of(BRANCHES, lambda name: (branch.get(name) for branch in found))


def _forked(row: Row, header: Header) -> dict[str, Any]:
    columns = row.columns
    scoped = header["scope"] == "owner"
    return {
        "index": row.recorded.index,
        "branch": columns.branch,
        "parent": UUID(header["parent"]),
        "fork_index": header["at"],
        "scope": header["scope"],
        "owner": columns.owner if scoped else None,
        "owner_type": columns.owner_type if scoped else None,
        "child_owner": _uuid(header.get("child_owner")),
        "child_owner_type": header.get("child_owner_type"),
        "recorded_at": row.recorded.recorded_at,
    }


def _uuid(text: str | None) -> UUID | None:
    return None if text is None else UUID(text)


def _has_evidence(header: Header) -> bool | None:
    # Written only when it is true, by events that have a content.
    return bool(header.get("has_evidence")) if "content_length" in header else None


def _array(type_: str, values: list[Any]) -> pa.Array:
    if type_ == "UUID":
        return uuids(values)
    if type_ == "UUID[]":
        return _uuid_lists(values)
    return pa.array(values, _TYPES[type_])


def _uuid_lists(values: list[Sequence[UUID]]) -> pa.Array:
    offsets, items = [0], list[UUID]()
    for value in values:
        items.extend(value)
        offsets.append(len(items))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), uuids(items))


_TYPES: Final = {
    "BIGINT": pa.int64(),
    "BLOB": pa.binary(),
    "INTEGER": pa.int32(),
    "BOOLEAN": pa.bool_(),
    "VARCHAR": pa.string(),
    "VARCHAR[]": pa.list_(pa.string()),
    "TIMESTAMPTZ": pa.timestamp("us", "UTC"),
}
