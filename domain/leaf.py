"""The leaf of an event: the bytes that its hash in the Merkle tree covers (RFC 6962)."""

import hashlib
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from struct import pack
from typing import Any, Final
from uuid import UUID

from memoriale.domain.record import LEAF_COLUMNS, Columns, Recorded, Row

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
    values = (*_COLUMNS(row.columns), *_RECORDED(row.recorded), row.header)
    fields = [
        _NULL if (value := values[place]) is None else encode(value)
        for place, encode in _LEAF_FIELDS
    ]
    return _TAG + b"".join(fields)


def leaf_hash(row: Row) -> bytes:
    """SHA-256 over 0x00 and ``leaf_data`` (RFC 6962, section 2.1)."""
    return hashlib.sha256(b"\x00" + leaf_data(row)).digest()


def state_hash(state: bytes) -> bytes:
    """SHA-256 of the sealed state as stored."""
    return hashlib.sha256(state).digest()


def leaf_fields(data: bytes) -> dict[str, Any]:
    """
    The columns under a leaf hash, by name, as ``leaf_data`` wrote them.

    Args:
        data: The leaf's data.

    Raises:
        ValueError: It is no leaf of this version.
    """
    if not data.startswith(_TAG):
        raise ValueError("it does not begin as a leaf of version 1 does")
    fields, rest = {}, data[len(_TAG) :]
    for column in LEAF_COLUMNS:
        value, rest = _taken(rest)
        fields[column.name] = None if value is None else _decoded(column.type, value)
    if rest:
        raise ValueError("it goes on after the last column")
    return fields


def microseconds(time: datetime) -> int:
    """An aware time as microseconds since 2000-01-01 UTC, exactly."""
    return (time - EPOCH) // _MICROSECOND


def _sized(data: bytes) -> bytes:
    return pack(">I", len(data)) + data


def _list(encode: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    def encoded(items: Sequence[Any]) -> bytes:
        return _sized(pack(">I", len(items)) + b"".join(map(encode, items)))

    return encoded


def _taken(data: bytes) -> tuple[bytes | None, bytes]:
    if data[:4] == _NULL:
        return None, data[4:]
    size = int.from_bytes(data[:4], "big")
    if len(data) < 4 + size:
        raise ValueError("it ends before its last column")
    return data[4 : 4 + size], data[4 + size :]


def _decoded(type_: str, value: bytes) -> Any:
    if type_.endswith("[]"):
        items, rest = [], value[4:]
        while rest:
            item, rest = _taken(rest)
            items.append(None if item is None else _decoded(type_[:-2], item))
        return items
    if type_ == "text":
        return value.decode()
    if type_ == "uuid":
        return UUID(bytes=value)
    if type_ == "timestamptz":
        return EPOCH + int.from_bytes(value, "big", signed=True) * _MICROSECOND
    return value if type_ == "bytea" else int.from_bytes(value, "big", signed=True)


# Lengths of fixed size stand in front as they are: this runs 43 times for each event verified.
_ENCODERS: Final[dict[str, Callable[[Any], bytes]]] = {
    "text": lambda value: _sized(value.encode()),
    "uuid": lambda value: b"\0\0\0\x10" + value.bytes,
    "bytea": _sized,
    "bigint": lambda value: pack(">Iq", 8, value),
    "integer": lambda value: pack(">Ii", 4, value),
    "smallint": lambda value: pack(">Ih", 2, value),
    "timestamptz": lambda value: pack(">Iq", 8, microseconds(value)),
}


def _encoder(type_: str) -> Callable[[Any], bytes]:
    return _list(_ENCODERS[type_[:-2]]) if type_.endswith("[]") else _ENCODERS[type_]


_COLUMN_NAMES: Final = tuple(Columns.__dataclass_fields__)
_RECORDED_NAMES: Final = tuple(Recorded.__dataclass_fields__)
_COLUMNS: Final = attrgetter(*_COLUMN_NAMES)
_RECORDED: Final = attrgetter(*_RECORDED_NAMES)
_PLACES: Final = (*_COLUMN_NAMES, *_RECORDED_NAMES, "header")
_LEAF_FIELDS: Final = tuple(
    (_PLACES.index(column.name), _encoder(column.type)) for column in LEAF_COLUMNS
)
_TAG: Final = _sized(LEAF_DOMAIN)
