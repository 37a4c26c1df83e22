"""One call of ledger.append: what goes in, and what it answers for each append."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Any, Final
from uuid import UUID

from eventsourcing.persistence import IntegrityError
from psycopg import Connection
from psycopg.rows import TupleRow

from memoriale.adapters.postgres.encoding import (
    ARGUMENTS,
    Items,
    call_arguments,
    pack_guard,
    pack_row,
)
from memoriale.domain.errors import ConflictError, InputError, MemorialeError
from memoriale.domain.guards import Guard, StreamAt
from memoriale.domain.record import AppendReceipt, NewRow, StoredRef


class StreamConflictError(ConflictError, IntegrityError):
    """
    Another append wrote this version of the stream first. Nothing was stored.

    Attributes:
        guard: The guard that said so, None when the version itself is taken.
    """

    default_code = "stream_conflict"
    guard: Guard | None = None


class GuardRefusedError(ConflictError):
    """
    A guard of the append does not hold any more. Nothing was stored.

    Attributes:
        guard: The first guard that does not hold.
    """

    default_code = "guard_refused"
    guard: Guard | None = None


class IdempotencyMismatchError(InputError):
    """The idempotency key or an event id was used before, for something else."""

    default_code = "idempotency_mismatch"


@dataclass(frozen=True, slots=True)
class Append:
    """
    Events that are stored together or not at all.

    An append that carries ``StreamAt(stream, n)`` must continue that stream with versions
    n + 1, n + 2, …, so it cannot leave a hole. Without such a guard the ledger refuses a
    version that is taken but not one that is too high.

    Args:
        rows: At least one event, in order, with event ids and stream versions of their own.
        guards: Conditions under which the append is stored.

    Raises:
        InputError: A row or a guard holds what the ledger does not take.
        StreamConflictError: Two rows have the same version of one stream.
    """

    rows: tuple[NewRow, ...]
    guards: tuple[Guard, ...] = ()
    packed_rows: tuple[Items, ...] = field(init=False, repr=False, compare=False)
    packed_guards: tuple[Items, ...] = field(init=False, repr=False, compare=False)
    size: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.rows:
            raise InputError("An append needs at least one event.", code="missing", field="rows")
        _require_distinct(self.rows)
        for guard in self.guards:
            if isinstance(guard, StreamAt):
                _require_continuation(self.rows, guard)
        # Packed here, in the caller's thread: the thread that appends serves everybody.
        object.__setattr__(self, "packed_rows", tuple(map(pack_row, self.rows)))
        object.__setattr__(self, "packed_guards", tuple(map(pack_guard, self.guards)))
        size = sum(len(row.state) + len(row.header) + 600 for row in self.rows)
        object.__setattr__(self, "size", size)


class Wait(IntEnum):
    """The append depends on an earlier one of the same call: send it again in the next."""

    AGAIN = 5


Answer = AppendReceipt | MemorialeError | Wait

_NEW, _STORED, _MISMATCH, _REFUSED = 1, 2, 3, 4
_CALL: Final = (
    "SELECT next_index, first_recorded_at, leaves, verdicts, details, stored_append, stored_index,"
    " stored_event, stored_leaf, stored_at FROM ledger.append("
    + ", ".join(["%s"] * (2 + ARGUMENTS))
    + ")"
)


def call_append(
    connection: Connection[TupleRow], tenant: str, log_id: UUID, appends: list[Append]
) -> list[Answer]:
    """
    Append in one round trip; the answers stand in the order of the appends.

    Args:
        connection: A connection for appending, made ready by ``encoding.prepare``.
        tenant: Whose log it is.
        log_id: The log.
        appends: Independent appends; the refusal of one changes nothing for the others.

    Raises:
        psycopg.Error: As the server says; then nothing was stored, unless the connection ended.
    """
    arguments = call_arguments((append.packed_rows, append.packed_guards) for append in appends)
    cursor = connection.execute(_CALL, [tenant, log_id, *arguments], prepare=True, binary=True)
    row = cursor.fetchone()
    if row is None:
        raise AssertionError("ledger.append returned no row")
    return _Reply(tenant, log_id, appends, row).answers()


class _Reply:
    """The function's row, taken apart append by append."""

    def __init__(
        self, tenant: str, log_id: UUID, appends: list[Append], row: tuple[Any, ...]
    ) -> None:
        self._tenant = tenant
        self._log_id = log_id
        self._appends = appends
        self._next: int = row[0]
        self._time: datetime = row[1]
        self._leaves: list[bytes] = row[2] or []
        self._taken = 0
        self._verdicts: list[int] = row[3] or [_NEW] * len(appends)
        self._details: list[int] = row[4] or [0] * len(appends)
        self._stored: dict[int, list[tuple[StoredRef, datetime]]] = {}
        if row[5]:
            self._sort_stored(*row[5:])

    def answers(self) -> list[Answer]:
        return [self._answer(number, append) for number, append in enumerate(self._appends)]

    def _sort_stored(
        self,
        numbers: list[int],
        indices: list[int],
        events: list[UUID],
        leaves: list[bytes],
        times: list[datetime],
    ) -> None:
        columns = zip(numbers, indices, events, leaves, times, strict=True)
        for number, index, event_id, leaf, time in columns:
            refs = self._stored.setdefault(number - 1, [])
            refs.append((StoredRef(index, event_id, leaf), time))

    def _answer(self, number: int, append: Append) -> Answer:
        verdict, detail = self._verdicts[number], self._details[number]
        if verdict == _NEW:
            return self._receipt(append)
        if verdict == _STORED:
            return self._stored_receipt(number)
        if verdict == _MISMATCH:
            return _mismatch(detail)
        if verdict == _REFUSED:
            return _refusal(append, detail)
        return Wait.AGAIN

    def _receipt(self, append: Append) -> AppendReceipt:
        first = self._next + self._taken
        leaves = self._leaves[self._taken : self._taken + len(append.rows)]
        events = tuple(
            StoredRef(index, row.columns.event_id, leaf)
            for index, (row, leaf) in enumerate(zip(append.rows, leaves, strict=True), first)
        )
        time = self._time
        self._taken += len(append.rows)
        self._time += timedelta(microseconds=1)
        return AppendReceipt(self._tenant, self._log_id, first, events[-1].index, time, events)

    def _stored_receipt(self, number: int) -> AppendReceipt:
        stored = self._stored[number]
        events = tuple(ref for ref, _ in stored)
        first, last, time = events[0].index, events[-1].index, stored[-1][1]
        return AppendReceipt(self._tenant, self._log_id, first, last, time, events, created=False)


def _mismatch(detail: int) -> IdempotencyMismatchError:
    if detail == 1:
        return IdempotencyMismatchError(
            "This idempotency key was used for another request. Take a new key, or repeat the"
            " request as it was.",
            field="idempotency_key",
        )
    return IdempotencyMismatchError(
        "An event with this id is stored already, as part of something else. Take new event ids.",
        field="event_id",
    )


def _refusal(append: Append, detail: int) -> ConflictError:
    guard = append.guards[detail - 1] if detail else None
    error: StreamConflictError | GuardRefusedError
    if guard is None or isinstance(guard, StreamAt):
        error = StreamConflictError(
            "Somebody else changed this meanwhile. Read it again and try again."
        )
    else:
        error = GuardRefusedError(
            "Something that this was based on has changed meanwhile. Read again and try again."
        )
    error.guard = guard
    return error


def _require_distinct(rows: tuple[NewRow, ...]) -> None:
    if len(rows) == 1:
        return
    if len({row.columns.event_id for row in rows}) < len(rows):
        raise InputError(
            "Two events of the append have the same id.", code="doubled", field="event_id"
        )
    if len({(row.columns.stream_id, row.columns.stream_version) for row in rows}) < len(rows):
        raise StreamConflictError(
            "Two events of the append have the same version of one stream. Number them."
        )


def _require_continuation(rows: tuple[NewRow, ...], guard: StreamAt) -> None:
    versions = [
        row.columns.stream_version for row in rows if row.columns.stream_id == guard.stream_id
    ]
    if sorted(versions) != list(range(guard.version + 1, guard.version + 1 + len(versions))):
        raise InputError(
            f"The guard names version {guard.version} of the stream, so its events must have the"
            f" versions from {guard.version + 1} on.",
            code="not_continued",
            field="stream_version",
            value=versions[:5],
            allowed=guard.version + 1,
        )
