"""Rows and guards as the arguments of ledger.append: checked, then packed as binary arrays.

A list of Python values costs psycopg about as much as the insert itself. Here each value is
packed once, in the thread that made it, to the bytes of an array item; the thread that calls
the database only joins them.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from struct import Struct, pack
from typing import Any, Final, NamedTuple
from uuid import UUID

from psycopg import Connection, pq
from psycopg.adapt import Dumper
from psycopg.rows import TupleRow

from memoriale.domain.errors import InputError
from memoriale.domain.guards import Guard, NoEvent, NothingNew, StreamAt
from memoriale.domain.leaf import microseconds
from memoriale.domain.record import MAX_HEADER_BYTES, MAX_ID_LIST, NewRow

MAX_STATE_BYTES: Final = 256 * 1024 * 1024
MAX_NAMESPACE_TAGS: Final = 64
VISIBILITIES: Final = ("owner", "user", "agent", "team", "tenant", "global")
CLEAR_WORD: Final = re.compile(r"[A-Za-z0-9_.:/-]{1,64}")
"""What a word that stays in clear may look like."""

Items = tuple[bytes, ...]
"""One packed item for each argument of the function."""

NULL: Final = b"\xff\xff\xff\xff"
_INT2: Final = Struct(">ih")
_INT4: Final = Struct(">ii")
_INT8: Final = Struct(">iq")


class _Array:
    """A packed array; its subclass says of which type."""

    __slots__ = ("data",)
    item_oid: int

    def __init__(self, items: Sequence[bytes]) -> None:
        # The function takes an array that is too short as one of nulls.
        count = 0 if items.count(NULL) == len(items) else len(items)
        head = pack(">iii", 1 if count else 0, 0, self.item_oid)
        bounds = pack(">ii", count, 1) if count else b""
        self.data = b"".join((head, bounds, *(items if count else ())))


class _UuidArray(_Array):
    __slots__ = ()
    item_oid = 2950


class _TextArray(_Array):
    __slots__ = ()
    item_oid = 25


class _BytesArray(_Array):
    __slots__ = ()
    item_oid = 17


class _TimeArray(_Array):
    __slots__ = ()
    item_oid = 1184


class _SmallintArray(_Array):
    __slots__ = ()
    item_oid = 21


class _IntegerArray(_Array):
    __slots__ = ()
    item_oid = 23


class _BigintArray(_Array):
    __slots__ = ()
    item_oid = 20


class _ArrayDumper(Dumper):
    format = pq.Format.BINARY

    def dump(self, obj: _Array) -> bytes:
        return obj.data


_ARRAY_OIDS: Final[dict[type[_Array], int]] = {
    _UuidArray: 2951,
    _TextArray: 1009,
    _BytesArray: 1001,
    _TimeArray: 1185,
    _SmallintArray: 1005,
    _IntegerArray: 1007,
    _BigintArray: 1016,
}
_DUMPERS: Final = [
    (array, type(f"{array.__name__}Dumper", (_ArrayDumper,), {"oid": oid}))
    for array, oid in _ARRAY_OIDS.items()
]


def prepare(connection: Connection[TupleRow]) -> None:
    """
    Let a connection send packed arrays.

    Args:
        connection: A connection for appending.
    """
    for array, dumper in _DUMPERS:
        connection.adapters.register_dumper(array, dumper)


def _sized(data: bytes) -> bytes:
    return pack(">i", len(data)) + data


def _uuid(name: str, value: UUID) -> bytes:
    return b"\x00\x00\x00\x10" + value.bytes


@lru_cache(maxsize=4096)
def _clear_word(name: str, value: str) -> bytes:
    if not CLEAR_WORD.fullmatch(value):
        raise InputError(
            f"{name} {value[:80]!r} may hold 1 to 64 of A-Z a-z 0-9 _ . : / - only.",
            code="not_clear",
            field=name,
            value=value[:80],
            allowed=CLEAR_WORD.pattern,
        )
    return _sized(value.encode())


@lru_cache(maxsize=4096)
def _word(name: str, value: str) -> bytes:
    if not value or "\x00" in value:
        raise InputError(f"{name} must be a word.", code="missing", field=name, value=value)
    return _sized(_utf8(name, value))


@lru_cache(maxsize=64)
def _visibility(name: str, value: str) -> bytes:
    if value not in VISIBILITIES:
        raise InputError(
            f"There is no visibility {value!r}. Take one of {', '.join(VISIBILITIES)}.",
            code="unknown_visibility",
            field=name,
            value=value,
            allowed=list(VISIBILITIES),
        )
    return _sized(value.encode())


def _utf8(name: str, value: str) -> bytes:
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{name} holds half of a surrogate pair, which is no text.",
            code="bad_text",
            field=name,
            value=value[error.start : error.end].encode(errors="backslashreplace").decode(),
        ) from error


def _header(name: str, value: str) -> bytes:
    data = _utf8(name, value)
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
    return _sized(data)


def _state(name: str, value: bytes) -> bytes:
    if len(value) > MAX_STATE_BYTES:
        raise InputError(
            f"The event has {len(value)} bytes. Split it.",
            code="too_long",
            field=name,
            value=len(value),
            allowed=MAX_STATE_BYTES,
        )
    return _sized(value)


def _bigint(name: str, value: int) -> bytes:
    return _INT8.pack(8, _within(name, value, 0, 2**63 - 1))


def _schema_version(name: str, value: int) -> bytes:
    return _INT4.pack(4, _within(name, value, 1, 2**31 - 1))


def _within(name: str, value: int, low: int, high: int) -> int:
    if not low <= value <= high:
        raise InputError(
            f"{name} {value} must lie between {low} and {high}.",
            code="out_of_range",
            field=name,
            value=value,
            allowed=[low, high],
        )
    return value


def _time(name: str, value: datetime) -> bytes:
    if value.tzinfo is None:
        raise InputError(
            f"{name} has no time zone. Give an offset.",
            code="naive_time",
            field=name,
            value=value.isoformat(),
        )
    return _INT8.pack(8, microseconds(value))


def _tag(name: str, value: bytes) -> bytes:
    return _sized(value)


def _about(name: str, value: tuple[UUID, ...]) -> bytes:
    if not value:
        return NULL
    _require_short(name, value, MAX_ID_LIST)
    if any(a >= b for a, b in zip(value, value[1:], strict=False)):
        raise InputError(
            f"{name} must be sorted and without doubles.", code="not_sorted", field=name
        )
    return _sized(("{" + ",".join(map(str, value)) + "}").encode())


def _namespace_tags(name: str, value: tuple[bytes, ...]) -> bytes:
    if not value:
        return NULL
    _require_short(name, value, MAX_NAMESPACE_TAGS)
    items = ",".join('"\\\\x' + tag.hex() + '"' for tag in value)
    return _sized(("{" + items + "}").encode())


def _require_short(name: str, value: Sequence[object], allowed: int) -> None:
    if len(value) > allowed:
        raise InputError(
            f"{name} has {len(value)} items. Split them over events.",
            code="too_many",
            field=name,
            value=len(value),
            allowed=allowed,
        )


class _Argument(NamedTuple):
    name: str
    array: type[_Array]
    pack: Callable[[str, Any], bytes]


_COLUMNS: Final[tuple[_Argument, ...]] = (
    _Argument("event_id", _UuidArray, _uuid),
    _Argument("stream_id", _UuidArray, _uuid),
    _Argument("stream_version", _BigintArray, _bigint),
    _Argument("continues", _BigintArray, _bigint),
    _Argument("memory_id", _UuidArray, _uuid),
    _Argument("branch", _UuidArray, _uuid),
    _Argument("kind", _TextArray, _clear_word),
    _Argument("topic", _TextArray, _word),
    _Argument("schema_version", _IntegerArray, _schema_version),
    _Argument("valid_from", _TimeArray, _time),
    _Argument("valid_until", _TimeArray, _time),
    _Argument("expires_at", _TimeArray, _time),
    _Argument("owner", _UuidArray, _uuid),
    _Argument("owner_type", _TextArray, _word),
    _Argument("principal_user", _UuidArray, _uuid),
    _Argument("principal_agent", _UuidArray, _uuid),
    _Argument("principal_resource", _UuidArray, _uuid),
    _Argument("principal_session", _UuidArray, _uuid),
    _Argument("principal_team", _UuidArray, _uuid),
    _Argument("about", _TextArray, _about),
    _Argument("visibility", _TextArray, _visibility),
    _Argument("namespace_tags", _TextArray, _namespace_tags),
    _Argument("actor", _UuidArray, _uuid),
    _Argument("actor_kind", _TextArray, _word),
    _Argument("authentication", _TextArray, _word),
    _Argument("on_behalf_of", _UuidArray, _uuid),
    _Argument("purpose", _TextArray, _clear_word),
    _Argument("correlation_id", _UuidArray, _uuid),
    _Argument("causation_id", _UuidArray, _uuid),
    _Argument("source_run", _UuidArray, _uuid),
    _Argument("retention_class", _TextArray, _clear_word),
    _Argument("request_tag", _BytesArray, _tag),
    _Argument("content_tag", _BytesArray, _tag),
    _Argument("idempotency_tag", _BytesArray, _tag),
)
_GUARD_ARRAYS: Final[tuple[type[_Array], ...]] = (
    _IntegerArray,
    _IntegerArray,
    _SmallintArray,
    _UuidArray,
    _BigintArray,
    _TextArray,
    _UuidArray,
    _TextArray,
)
ARGUMENTS: Final = 1 + len(_COLUMNS) + 2 + len(_GUARD_ARRAYS)
"""Arguments of ``ledger.append`` after the tenant and the log."""


def pack_row(row: NewRow) -> Items:
    """
    The items of one event, in the order of the function's arguments.

    Args:
        row: An event ready to be appended.

    Raises:
        InputError: A column holds what the table does not take.
    """
    columns = row.columns
    items = [
        NULL if (value := getattr(columns, name)) is None else pack_value(name, value)
        for name, _, pack_value in _COLUMNS
    ]
    return (*items, _header("header", row.header), _state("state", row.state))


def pack_guard(guard: Guard) -> Items:
    """
    The items of one guard: type, id, version or index, kind, branch, topics.

    Args:
        guard: A condition of an append.

    Raises:
        InputError: It names a version, index or word that cannot be.
    """
    match guard:
        case StreamAt(stream_id, version):
            return _guard(1, stream_id, _within("version", version, 0, 2**63 - 1))
        case NothingNew(owner, kind, after, branch):
            return _guard(2, owner, _within("after", after, -1, 2**63 - 1), kind, branch)
        case NoEvent(topics, after, owner):
            return _guard(3, owner, _within("after", after, -1, 2**63 - 1), topics=topics)


def _guard(
    type_: int,
    id_: UUID | None,
    at: int,
    kind: str | None = None,
    branch: UUID | None = None,
    topics: tuple[str, ...] = (),
) -> Items:
    return (
        _INT2.pack(2, type_),
        NULL if id_ is None else _uuid("id", id_),
        _INT8.pack(8, at),
        NULL if kind is None else _clear_word("kind", kind),
        NULL if branch is None else _uuid("branch", branch),
        _topics(topics) if topics else NULL,
    )


def _topics(topics: tuple[str, ...]) -> bytes:
    quoted = ('"' + topic.replace("\\", "\\\\").replace('"', '\\"') + '"' for topic in topics)
    return _sized(_utf8("topics", "{" + ",".join(quoted) + "}"))


def call_arguments(appends: Iterable[tuple[Sequence[Items], Sequence[Items]]]) -> list[_Array]:
    """
    The arrays of one call.

    Args:
        appends: The packed rows and packed guards of each append, in order.
    """
    counts: list[bytes] = []
    rows: list[Items] = []
    guards: list[Items] = []
    for number, (append_rows, append_guards) in enumerate(appends, start=1):
        counts.append(_INT4.pack(4, len(append_rows)))
        rows.extend(append_rows)
        guards.extend(
            (_INT4.pack(4, number), _INT4.pack(4, place), *items)
            for place, items in enumerate(append_guards, start=1)
        )
    columns = list(zip(*rows, strict=True))
    arrays = [*(column.array for column in _COLUMNS), _TextArray, _BytesArray]
    guard_columns = list(zip(*guards, strict=True)) or [()] * len(_GUARD_ARRAYS)
    return [
        _IntegerArray(counts),
        *(array(items) for array, items in zip(arrays, columns, strict=True)),
        *(array(items) for array, items in zip(_GUARD_ARRAYS, guard_columns, strict=True)),
    ]
