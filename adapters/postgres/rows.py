"""Stored rows: as read back from ``ledger_events``, and as they were just appended."""

from collections.abc import Sequence
from dataclasses import fields
from hashlib import sha256
from typing import Any, Final

from memoriale.domain.record import AppendReceipt, Columns, NewRow, Recorded, Row

_COLUMNS: Final = tuple(column.name for column in fields(Columns))
_RECORDED: Final = tuple(column.name for column in fields(Recorded))
_ABOUT: Final = _COLUMNS.index("about")
_TAGS: Final = _COLUMNS.index("namespace_tags")
_END: Final = len(_COLUMNS)
_HEADER: Final = _END + len(_RECORDED)


def select_list(alias: str, *, with_state: bool = True) -> str:
    """
    The columns to select for ``row_of``, in its order.

    Args:
        alias: Name of the table in the statement.
        with_state: False leaves the sealed state out (null), for readers of headers.
    """
    names = [*_COLUMNS, *_RECORDED, "header"]
    state = f"{alias}.state" if with_state else "NULL::bytea AS state"
    return ", ".join([*(f"{alias}.{name}" for name in names), state])


def row_of(values: Sequence[Any]) -> Row:
    """
    A stored row.

    Args:
        values: The values of ``select_list``.
    """
    columns = dict(zip(_COLUMNS, values, strict=False))
    columns["about"] = tuple(values[_ABOUT])
    columns["namespace_tags"] = tuple(values[_TAGS])
    recorded = Recorded(*values[_END:_HEADER])
    return Row(Columns(**columns), recorded, values[_HEADER], values[_HEADER + 1])


def rows_of(new: Sequence[NewRow], receipt: AppendReceipt) -> list[Row]:
    """
    The rows of an append as a reader finds them; times keep the zone that they were given in.

    Args:
        new: What was appended.
        receipt: The answer to it, of the call that stored it.
    """
    return [
        Row(
            row.columns,
            Recorded(
                tenant=receipt.tenant,
                log_id=receipt.log_id,
                index=stored.index,
                append_first=receipt.first,
                append_last=receipt.last,
                recorded_at=receipt.recorded_at,
                state_hash=sha256(row.state).digest(),
                leaf_hash=stored.leaf_hash,
            ),
            row.header,
            row.state,
        )
        for row, stored in zip(new, receipt.events, strict=True)
    ]
