"""
What a batch brings: a table of texts with the clear columns of each event and its header, and the
SQL that makes a row of ``events`` of each.
"""

import json
from typing import Any, Final

from memoriale.projections.stats.schema import EVENTS, Column

FROM_HEADER: Final = (
    "importance",
    "confidence",
    "source_tier",
    "content_length",
    "has_evidence",
    "aspect",
    "model",
    "prompt_version",
    "language",
    "reason_code",
    "replaced_by",
    "changed",
)
"""Columns of ``events`` that the header tells; all others are columns of the ledger."""

CLEAR: Final = tuple(c.name for c in EVENTS.columns if c.name not in FROM_HEADER)
HEADER: Final = "header"
COLUMNS: Final = (*CLEAR, HEADER)
"""
The columns of the table, all texts, null where there is nothing: numbers in digits, times as ISO
8601 with offset, bytes in hexadecimal digits, lists as ``{a,b}``, the header as it is stored.
"""

BAD_HEADERS: Final = (
    'SELECT min(CAST("index" AS BIGINT)) FROM batch'
    " WHERE NOT json_valid(header) OR json_type(header) <> 'OBJECT'"
    " OR (topic = 'memory.amended' AND coalesce(json_type(header, '$.changed'), '') <> 'ARRAY')"
    " OR (topic = 'memory.invalidated' AND json_type(header, '$.reason_code') IS NULL)"
)
"""The first event whose header no writer makes; asked before the table is used."""


def insert_events() -> str:
    """The SQL that adds the rows of table ``batch`` to ``events``."""
    columns = ", ".join(f'{_value(column)} AS "{column.name}"' for column in EVENTS.columns)
    # As texts, so that a value of the wrong type is an error of the cast, not nothing.
    told: dict[str, Any] = dict.fromkeys(FROM_HEADER, "VARCHAR")
    told["changed"] = ["VARCHAR"]
    return (
        f"INSERT INTO events BY NAME SELECT {columns} FROM (SELECT *,"
        f" json_transform(header, '{json.dumps(told)}') AS told FROM batch)"
    )


def _value(column: Column) -> str:
    name, type_ = column.name, column.type.removesuffix(" NOT NULL")
    if name == "has_evidence":
        # Written only when it is true, by events that have a content.
        return (
            "CASE WHEN json_exists(header, '$.content_length')"
            " THEN coalesce(CAST(told.has_evidence AS BOOLEAN), false) END"
        )
    if name in FROM_HEADER:
        return f"CAST(told.{name} AS {type_})"
    if type_ == "BLOB":
        return f'unhex("{name}")'
    if type_.endswith("[]"):
        items = f"string_split(trim({name}, '{{}}'), ',')"
        return f"CASE WHEN {name} = '{{}}' THEN [] ELSE CAST({items} AS {type_}) END"
    return f'CAST("{name}" AS {type_})'
