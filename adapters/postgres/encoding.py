"""Rows and guards as the arguments of ledger.append: checked, then packed as binary arrays.

A list of Python values costs psycopg about as much as the insert itself. Here each value is
packed once, in the thread that made it, to the bytes of an array item; the thread that calls
the database only joins them.
"""

from collections.abc import Callable, Iterable, Sequence
from struct import pack
from typing import Any, Final, NamedTuple
from uuid import UUID

from psycopg import Connection, pq
from psycopg.adapt import Dumper
from psycopg.rows import TupleRow

from memoriale.adapters.postgres import values
from memoriale.adapters.postgres.values import BIGINT, INTEGER, NULL, SMALLINT
from memoriale.domain.guards import Guard, NoEvent, NothingNew, StreamAt
from memoriale.domain.record import NewRow

Items = tuple[bytes, ...]
"""One packed item for each argument of the function."""


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


class _Argument(NamedTuple):
    name: str
    array: type[_Array]
    pack: Callable[[str, Any], bytes]


_COLUMNS: Final[tuple[_Argument, ...]] = (
    _Argument("event_id", _UuidArray, values.uuid),
    _Argument("stream_id", _UuidArray, values.uuid),
    _Argument("stream_version", _BigintArray, values.bigint),
    _Argument("continues", _BigintArray, values.bigint),
    _Argument("memory_id", _UuidArray, values.uuid),
    _Argument("branch", _UuidArray, values.uuid),
    _Argument("kind", _TextArray, values.clear_word),
    _Argument("topic", _TextArray, values.word),
    _Argument("schema_version", _IntegerArray, values.schema_version),
    _Argument("valid_from", _TimeArray, values.time),
    _Argument("valid_until", _TimeArray, values.time),
    _Argument("expires_at", _TimeArray, values.time),
    _Argument("owner", _UuidArray, values.uuid),
    _Argument("owner_type", _TextArray, values.word),
    _Argument("principal_user", _UuidArray, values.uuid),
    _Argument("principal_agent", _UuidArray, values.uuid),
    _Argument("principal_resource", _UuidArray, values.uuid),
    _Argument("principal_session", _UuidArray, values.uuid),
    _Argument("principal_team", _UuidArray, values.uuid),
    _Argument("about", _TextArray, values.about),
    _Argument("visibility", _TextArray, values.visibility),
    _Argument("namespace_tags", _TextArray, values.namespace_tags),
    _Argument("actor", _UuidArray, values.uuid),
    _Argument("actor_kind", _TextArray, values.word),
    _Argument("authentication", _TextArray, values.word),
    _Argument("on_behalf_of", _UuidArray, values.uuid),
    _Argument("purpose", _TextArray, values.clear_word),
    _Argument("correlation_id", _UuidArray, values.uuid),
    _Argument("causation_id", _UuidArray, values.uuid),
    _Argument("source_run", _UuidArray, values.uuid),
    _Argument("retention_class", _TextArray, values.clear_word),
    _Argument("request_tag", _BytesArray, values.tag),
    _Argument("content_tag", _BytesArray, values.tag),
    _Argument("idempotency_tag", _BytesArray, values.tag),
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
    return (*items, values.header("header", row.header), values.state("state", row.state))


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
            return _guard(1, stream_id, values.within("version", version, 0, 2**63 - 1))
        case NothingNew(owner, kind, after, branch):
            return _guard(2, owner, values.within("after", after, -1, 2**63 - 1), kind, branch)
        case NoEvent(topics, after, owner):
            return _guard(3, owner, values.within("after", after, -1, 2**63 - 1), topics=topics)


def _guard(
    type_: int,
    id_: UUID | None,
    at: int,
    kind: str | None = None,
    branch: UUID | None = None,
    topics: tuple[str, ...] = (),
) -> Items:
    return (
        SMALLINT.pack(2, type_),
        NULL if id_ is None else values.uuid("id", id_),
        BIGINT.pack(8, at),
        NULL if kind is None else values.clear_word("kind", kind),
        NULL if branch is None else values.uuid("branch", branch),
        _topics(topics) if topics else NULL,
    )


def _topics(topics: tuple[str, ...]) -> bytes:
    quoted = ('"' + topic.replace("\\", "\\\\").replace('"', '\\"') + '"' for topic in topics)
    return values.sized(values.utf8("topics", "{" + ",".join(quoted) + "}"))


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
        counts.append(INTEGER.pack(4, len(append_rows)))
        rows.extend(append_rows)
        guards.extend(
            (INTEGER.pack(4, number), INTEGER.pack(4, place), *items)
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
