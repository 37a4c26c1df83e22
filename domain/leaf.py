"""The leaf of an event: the bytes that its hash in the Merkle tree covers (RFC 6962)."""

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from struct import pack
from typing import Any, Final
from uuid import UUID

from memoriale.domain.record import LEAF_COLUMNS, Row

LEAF_DOMAIN: Final = b"memoriale/leaf/1"
EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
"""PostgreSQL's own epoch: its binary timestamps count microseconds from here."""

_NULL: Final = b"\xff\xff\xff\xff"
_MICROSECOND: Final = timedelta(microseconds=1)


def leaf_data(row: Row) -> bytes:
    """
    The bytes under the leaf hash: a domain tag with version, then every column of
    ``LEAF_COLUMNS`` in order, each as a 32-bit length and its bytes (null: length 0xFFFFFFFF).

    Integers are big-endian, a uuid is 16 bytes, text is UTF-8, a list is a 32-bit count and
    then its items like columns, a time is a signed 64-bit count of microseconds since 2000.

    Args:
        row: A stored row with every column.
    """
    fields = (_field(column.type, row.value(column.name)) for column in LEAF_COLUMNS)
    return _sized(LEAF_DOMAIN) + b"".join(fields)


def leaf_hash(row: Row) -> bytes:
    """SHA-256 over 0x00 and ``leaf_data`` (RFC 6962, section 2.1)."""
    return hashlib.sha256(b"\x00" + leaf_data(row)).digest()


def state_hash(state: bytes) -> bytes:
    """SHA-256 of the sealed state as stored."""
    return hashlib.sha256(state).digest()


def microseconds(time: datetime) -> int:
    """An aware time as microseconds since 2000-01-01 UTC, exactly."""
    return (time - EPOCH) // _MICROSECOND


def _sized(data: bytes) -> bytes:
    return pack(">I", len(data)) + data


def _field(type_: str, value: Any) -> bytes:
    if value is None:
        return _NULL
    if type_.endswith("[]"):
        return _sized(_list(type_[:-2], value))
    return _sized(_ENCODERS[type_](value))


def _list(type_: str, items: Sequence[Any]) -> bytes:
    return pack(">I", len(items)) + b"".join(_field(type_, item) for item in items)


def _uuid(value: UUID) -> bytes:
    return value.bytes


_ENCODERS: Final[dict[str, Any]] = {
    "text": str.encode,
    "uuid": _uuid,
    "bytea": bytes,
    "bigint": lambda value: pack(">q", value),
    "integer": lambda value: pack(">i", value),
    "smallint": lambda value: pack(">h", value),
    "timestamptz": lambda value: pack(">q", microseconds(value)),
}
