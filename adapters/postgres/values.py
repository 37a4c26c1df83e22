"""Values of columns as items of a binary array: checked, then packed.

Each function takes the name of the column, for errors, and the value, and raises InputError
when the table would not take it: a row that the server refuses fails a whole call.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from itertools import pairwise
from struct import Struct, pack
from typing import Final
from uuid import UUID

from memoriale.domain.errors import InputError
from memoriale.domain.leaf import microseconds
from memoriale.domain.record import MAX_HEADER_BYTES, MAX_ID_LIST

MAX_STATE_BYTES: Final = 256 * 1024 * 1024
MAX_NAMESPACE_TAGS: Final = 64
VISIBILITIES: Final = ("owner", "user", "agent", "team", "tenant", "global")
CLEAR_WORD: Final = re.compile(r"[A-Za-z0-9_.:/-]{1,64}")
"""What a word that stays in clear may look like."""

NULL: Final = b"\xff\xff\xff\xff"
"""The item that stands for null."""

SMALLINT: Final = Struct(">ih")
INTEGER: Final = Struct(">ii")
BIGINT: Final = Struct(">iq")
"""Length and value of an integer item."""


def sized(data: bytes) -> bytes:
    """An item of these bytes."""
    return pack(">i", len(data)) + data


def uuid(name: str, value: UUID) -> bytes:
    """A uuid."""
    return b"\x00\x00\x00\x10" + value.bytes


@lru_cache(maxsize=4096)
def clear_word(name: str, value: str) -> bytes:
    """A word that stays in clear and must match ``CLEAR_WORD``."""
    if not CLEAR_WORD.fullmatch(value):
        raise InputError(
            f"{name} {value[:80]!r} may hold 1 to 64 of A-Z a-z 0-9 _ . : / - only.",
            code="not_clear",
            field=name,
            value=value[:80],
            allowed=CLEAR_WORD.pattern,
        )
    return sized(value.encode())


@lru_cache(maxsize=4096)
def word(name: str, value: str) -> bytes:
    """Text that is not empty."""
    if not value or "\x00" in value:
        raise InputError(f"{name} must be a word.", code="missing", field=name, value=value)
    return sized(utf8(name, value))


@lru_cache(maxsize=64)
def visibility(name: str, value: str) -> bytes:
    """One of ``VISIBILITIES``."""
    if value not in VISIBILITIES:
        raise InputError(
            f"There is no visibility {value!r}. Take one of {', '.join(VISIBILITIES)}.",
            code="unknown_visibility",
            field=name,
            value=value,
            allowed=list(VISIBILITIES),
        )
    return sized(value.encode())


def utf8(name: str, value: str) -> bytes:
    """Text as UTF-8, not packed yet."""
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{name} holds half of a surrogate pair, which is no text.",
            code="bad_text",
            field=name,
            value=value[error.start : error.end].encode(errors="backslashreplace").decode(),
        ) from error


def header(name: str, value: str) -> bytes:
    """Header text of at most ``MAX_HEADER_BYTES`` bytes."""
    data = utf8(name, value)
    if len(data) > MAX_HEADER_BYTES:
        raise InputError(
            f"The header has {len(data)} bytes. Move what is long into the body.",
            code="too_long",
            field=name,
            value=len(data),
            allowed=MAX_HEADER_BYTES,
        )
    if "\x00" in value:
        raise InputError("The header holds a NUL character.", code="bad_text", field=name)
    return sized(data)


def state(name: str, value: bytes) -> bytes:
    """A sealed state of at most ``MAX_STATE_BYTES`` bytes."""
    if len(value) > MAX_STATE_BYTES:
        raise InputError(
            f"The event has {len(value)} bytes. Split it.",
            code="too_long",
            field=name,
            value=len(value),
            allowed=MAX_STATE_BYTES,
        )
    return sized(value)


def bigint(name: str, value: int) -> bytes:
    """An integer from 0 on."""
    return BIGINT.pack(8, within(name, value, 0, 2**63 - 1))


def schema_version(name: str, value: int) -> bytes:
    """An integer from 1 on."""
    return INTEGER.pack(4, within(name, value, 1, 2**31 - 1))


def within(name: str, value: int, low: int, high: int) -> int:
    """An integer that lies in a range, not packed yet."""
    if not low <= value <= high:
        raise InputError(
            f"{name} {value} must lie between {low} and {high}.",
            code="out_of_range",
            field=name,
            value=value,
            allowed=[low, high],
        )
    return value


def time(name: str, value: datetime) -> bytes:
    """An aware time."""
    if value.tzinfo is None:
        raise InputError(
            f"{name} has no time zone. Give an offset.",
            code="naive_time",
            field=name,
            value=value.isoformat(),
        )
    return BIGINT.pack(8, microseconds(value))


def tag(name: str, value: bytes) -> bytes:
    """The bytes of a keyed tag."""
    return sized(value)


def about(name: str, value: tuple[UUID, ...]) -> bytes:
    """Sorted pseudonyms as an array literal, null for none."""
    if not value:
        return NULL
    _require_short(name, value, MAX_ID_LIST)
    if any(a >= b for a, b in pairwise(value)):
        raise InputError(
            f"{name} must be sorted and without doubles.", code="not_sorted", field=name
        )
    return sized(("{" + ",".join(map(str, value)) + "}").encode())


def namespace_tags(name: str, value: tuple[bytes, ...]) -> bytes:
    """Tags as an array literal, null for none."""
    if not value:
        return NULL
    _require_short(name, value, MAX_NAMESPACE_TAGS)
    items = ",".join('"\\\\x' + tag.hex() + '"' for tag in value)
    return sized(("{" + items + "}").encode())


def _require_short(name: str, value: Sequence[object], allowed: int) -> None:
    if len(value) > allowed:
        raise InputError(
            f"{name} has {len(value)} items. Split them over events.",
            code="too_many",
            field=name,
            value=len(value),
            allowed=allowed,
        )
