"""The leaf: the bytes that a stored event's hash covers, frozen by golden files."""

import hashlib
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest

from memoriale.domain.leaf import LEAF_DOMAIN, leaf_data, leaf_hash, state_hash
from memoriale.domain.record import (
    COLUMNS,
    LEAF_COLUMNS,
    MAX_HEADER_BYTES,
    MAX_ID_LIST,
    Columns,
    Recorded,
    Row,
)

GOLDEN: Final = Path(__file__).parents[1] / "golden"
TIME: Final = datetime(2026, 3, 29, 1, 30, 0, 123_456, tzinfo=UTC)


def full_row() -> Row:
    """A row with a value in every column."""
    ids = iter(range(1, 100))

    def next_id() -> UUID:
        return UUID(int=next(ids) << 64 | 0xABCD)

    columns = Columns(
        event_id=next_id(),
        stream_id=next_id(),
        stream_version=3,
        topic="memory.corrected",
        schema_version=2,
        owner=next_id(),
        owner_type="user",
        actor=next_id(),
        actor_kind="human",
        authentication="oidc",
        correlation_id=next_id(),
        visibility="team",
        continues=7,
        memory_id=next_id(),
        branch=next_id(),
        kind="fact",
        valid_from=TIME - timedelta(days=10_000),
        valid_until=TIME,
        expires_at=TIME + timedelta(microseconds=1),
        principal_user=next_id(),
        principal_agent=next_id(),
        principal_resource=next_id(),
        principal_session=next_id(),
        principal_team=next_id(),
        about=(next_id(), next_id()),
        namespace_tags=(b"\x01" * 32, b""),
        on_behalf_of=next_id(),
        purpose="support/eu",
        causation_id=next_id(),
        source_run=next_id(),
        request_tag=b"\x02" * 32,
        content_tag=b"\x03" * 33,
        idempotency_tag=b"\x04" * 32,
    )
    recorded = Recorded(
        tenant="acme",
        log_id=next_id(),
        index=41,
        append_first=40,
        append_last=42,
        recorded_at=TIME,
        state_hash=state_hash(b"sealed"),
        leaf_hash=b"\x00" * 32,
    )
    return Row(columns, recorded, '{"reason":"größer"}', b"sealed")


def bare_row() -> Row:
    """A row with nulls and empty lists wherever they may be."""
    columns = Columns(
        event_id=UUID(int=1),
        stream_id=UUID(int=2),
        stream_version=0,
        topic="t",
        schema_version=1,
        owner=UUID(int=3),
        owner_type="tenant",
        actor=UUID(int=4),
        actor_kind="a",
        authentication="b",
        correlation_id=UUID(int=5),
    )
    recorded = Recorded("t", UUID(int=6), 0, 0, 0, TIME, state_hash(b""), b"\x00" * 32)
    return Row(columns, recorded, "", b"")


def changed(row: Row, column: str) -> Row:
    """The row with another value in one column."""
    value = row.value(column)
    other: Any
    match value:
        case str():
            other = value + "x"
        case bytes():
            other = value + b"x"
        case int():
            other = value + 1
        case UUID():
            other = UUID(int=value.int + 1)
        case datetime():
            other = value + timedelta(microseconds=1)
        case tuple():
            other = value[:-1]
    if column == "header":
        return replace(row, header=other)
    if column in Recorded.__dataclass_fields__:
        return replace(row, recorded=replace(row.recorded, **{column: other}))
    return replace(row, columns=replace(row.columns, **{column: other}))


@pytest.mark.parametrize("name", ["full", "bare"])
def test_leaf_is_frozen(name: str) -> None:
    """A released leaf format never changes: the golden bytes and hash still come out."""
    golden = json.loads((GOLDEN / "leaf.json").read_text("utf-8"))[name]
    row = full_row() if name == "full" else bare_row()
    assert leaf_data(row).hex() == golden["data"]
    assert leaf_hash(row).hex() == golden["hash"]


def test_columns_are_frozen() -> None:
    """The columns, their order and their types are part of the format."""
    golden = json.loads((GOLDEN / "columns.json").read_text("utf-8"))
    assert [list(column) for column in COLUMNS] == golden


def test_leaf_leaves_out_state_and_itself_only() -> None:
    """Every column but the state and the leaf hash is under the leaf."""
    assert {c.name for c in COLUMNS} - {c.name for c in LEAF_COLUMNS} == {"state", "leaf_hash"}


@pytest.mark.parametrize("column", [column.name for column in LEAF_COLUMNS])
def test_leaf_depends_on_column(column: str) -> None:
    """A change of any covered column changes the leaf."""
    assert leaf_data(changed(full_row(), column)) != leaf_data(full_row())


def test_leaf_hash_has_the_domain_of_a_leaf() -> None:
    """The hash is SHA-256 over 0x00 and the data, as RFC 6962 asks."""
    row = full_row()
    assert leaf_hash(row) == hashlib.sha256(b"\x00" + leaf_data(row)).digest()
    assert leaf_data(row).startswith(len(LEAF_DOMAIN).to_bytes(4, "big") + LEAF_DOMAIN)


def test_fields_cannot_run_into_each_other() -> None:
    """Text moved from one field to its neighbour gives another leaf."""
    row = full_row()
    one = replace(row, columns=replace(row.columns, actor_kind="ab", authentication="c"))
    other = replace(row, columns=replace(row.columns, actor_kind="a", authentication="bc"))
    assert leaf_hash(one) != leaf_hash(other)


def test_null_differs_from_empty() -> None:
    """A null and an empty value have different leaves."""
    row = bare_row()
    empty = replace(row, columns=replace(row.columns, request_tag=b""))
    assert leaf_hash(row) != leaf_hash(empty)


def test_list_items_cannot_run_into_each_other() -> None:
    """The same bytes cut differently into tags give another leaf."""
    row = bare_row()
    one = replace(row, columns=replace(row.columns, namespace_tags=(b"ab", b"c")))
    other = replace(row, columns=replace(row.columns, namespace_tags=(b"a", b"bc")))
    assert leaf_hash(one) != leaf_hash(other)


def test_removed_payload_keeps_the_leaf() -> None:
    """The state may become null later without a change of the leaf."""
    row = full_row()
    assert leaf_hash(replace(row, state=None)) == leaf_hash(row)


def test_largest_leaf_stays_under_65536_bytes() -> None:
    """A leaf with the longest header and lists fits a 16-bit length."""
    row = full_row()
    columns = replace(
        row.columns,
        about=tuple(UUID(int=n) for n in range(MAX_ID_LIST)),
        namespace_tags=(b"\x00" * 32,) * 64,
        topic="t" * 64,
    )
    assert len(leaf_data(replace(row, columns=columns, header="h" * MAX_HEADER_BYTES))) < 65_536
