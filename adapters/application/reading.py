"""Reading memories from the log: points in time, one memory, its history."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final
from uuid import UUID

from memoriale.adapters.application.branching import BranchView, branch_scope
from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.domain.access import AccessScope
from memoriale.domain.branches import NO_LIMIT
from memoriale.domain.errors import InputError
from memoriale.domain.events import RecordedEvent
from memoriale.domain.memory import MemoryState
from memoriale.domain.slices import fold_slice, on_lineage
from memoriale.domain.text import shown
from memoriale.domain.times import parse_time, to_utc

if TYPE_CHECKING:
    from memoriale.adapters.application.global_memories import GlobalMemories
    from memoriale.adapters.postgres.reading import LedgerReader

AsOf = int | str | datetime | None
"""
An index, digits, an aware time, RFC 3339 text with an offset, or None for now. ``i@g`` names a
point of the tenant's log and one of the log of global memories; an index alone leaves those out.
"""
_PAIR: Final = re.compile(r"(-1|[0-9]{1,18})@([0-9]{1,18})")


@dataclass(frozen=True, slots=True)
class Pin:
    """
    A resolved point of the log.

    Args:
        index: Index of the last event seen; -1 when nothing had been recorded yet.
        now: The recorded time of that point; without as-of, the database clock at the call.
        pinned: Whether an as-of was asked for.
        global_index: The same of the log of global memories; None when they play no part.
    """

    index: int
    now: datetime
    pinned: bool
    global_index: int | None = None

    @property
    def limit(self) -> int:
        """Last index that a read may see."""
        return self.index if self.pinned else NO_LIMIT

    @property
    def global_limit(self) -> int:
        """The same in the log of global memories; -1 sees none of them."""
        if self.global_index is None:
            return -1
        return self.global_index if self.pinned else NO_LIMIT


def pin_text(index: int, global_index: int | None) -> str:
    """A pin as an as-of takes it."""
    return str(index) if global_index is None else f"{index}@{global_index}"


@dataclass(frozen=True, slots=True)
class IndexPair:
    """A point of the tenant's log and one of the log of global memories."""

    index: int
    global_index: int


class Reading:
    """
    Reads of one tenant's memory log that need no view.

    Args:
        log: The log.
        clock: The time of a read without as-of; None means the database's. It never reaches
            what is recorded.
        shared: The global memories; None in their own log.
    """

    def __init__(
        self,
        log: TenantLog,
        clock: Callable[[], datetime] | None = None,
        shared: "GlobalMemories | None" = None,
    ) -> None:
        self._log = log
        self._clock = clock
        self._shared = shared

    def pin(self, as_of: AsOf, *, field: str = "as_of") -> Pin:
        """
        The point that an as-of means. An index inside an append means the whole append; a time
        means the last append recorded at or before it.

        Args:
            as_of: The point.
            field: What errors call it.

        Raises:
            InputError: Beyond the log or the database clock, or not an index or a time.
        """
        try:
            return self._pinned(as_of, field)
        except InputError as error:
            error.field = field
            raise

    def _pinned(self, as_of: AsOf, field: str) -> Pin:
        reader = self._log.reader
        point = None if as_of is None else parse_as_of(as_of, field)
        if isinstance(point, IndexPair):
            return self._at_pair(point)
        if isinstance(point, int):
            return _at(reader, reader.pin_index(point), None)
        shared = self._global_reader()
        if point is None:
            head, now = reader.now()
            pin = Pin(head - 1, self._clock() if self._clock else now, pinned=False)
            return pin if shared is None else replace(pin, global_index=_last(shared.head()))
        pin = _at(reader, reader.pin_time(point), point)
        return pin if shared is None else replace(pin, global_index=shared.pin_time(point))

    def _at_pair(self, pair: IndexPair) -> Pin:
        shared = self._global_reader()
        if shared is None:
            raise InputError(
                "there are no global memories; ask as of an index alone.",
                code="out_of_range",
                field="as_of",
                value=pin_text(pair.index, pair.global_index),
                allowed="an index alone",
            )
        # Later of both: at that time the whole answer could be given.
        theirs = _at(shared, shared.pin_index(pair.global_index), None)
        if pair.index < 0:
            return replace(theirs, index=-1, global_index=theirs.index)
        own = _at(self._log.reader, self._log.reader.pin_index(pair.index), None)
        return replace(own, now=max(own.now, theirs.now), global_index=theirs.index)

    def _global_reader(self) -> "LedgerReader | None":
        services = None if self._shared is None else self._shared.find()
        return None if services is None else services.log.reader

    def memory(
        self, memory_id: UUID, branch: BranchView, scope: AccessScope, limit: int = NO_LIMIT
    ) -> MemoryState:
        """
        One memory as a branch sees it.

        Raises:
            InputError: ``unknown_memory``: there is none, or the caller may not see it.
        """
        state = self.folded([memory_id], branch, limit).get(memory_id)
        if state is None or not scope.allows(state.columns):
            raise unknown_memory(memory_id)
        return state

    def folded(
        self, memory_ids: list[UUID], branch: BranchView, limit: int = NO_LIMIT
    ) -> dict[UUID, MemoryState]:
        """Several memories as a branch sees them, whoever may see them."""
        if not memory_ids:
            return {}
        rows = self._log.reader.memories(memory_ids)
        return fold_slice(self._log.mapper.decode(rows), branch.lineage(limit))

    def hidden(
        self, memory_ids: Iterable[UUID | None], branch: BranchView, scope: AccessScope
    ) -> frozenset[UUID]:
        """See ``hidden_of``."""
        return hidden_of(self._log, memory_ids, branch_scope(scope, branch))

    def history(
        self, memory_id: UUID, branch: BranchView, scope: AccessScope, limit: int = NO_LIMIT
    ) -> list[RecordedEvent]:
        """
        The events of one memory that a branch sees, oldest first, without the erased ones.

        Raises:
            InputError: ``unknown_memory``.
        """
        self.memory(memory_id, branch, scope, limit)
        events = self._log.mapper.decode(self._log.reader.memory(memory_id))
        seen = on_lineage(events, branch.lineage(limit))
        return [recorded for recorded in seen if recorded.event.body is not None]


def _at(reader: "LedgerReader", index: int | None, time: datetime | None) -> Pin:
    """A point of one log; the time itself when nothing had been recorded by then."""
    if index is None:
        assert time is not None
        return Pin(-1, time, pinned=True)
    recorded = reader.rows(after=index - 1, stop=index + 1)[0].recorded
    return Pin(index, recorded.recorded_at, pinned=True)


def _last(head: int) -> int | None:
    return head - 1 if head else None


def parse_as_of(value: int | str | datetime, field: str = "as_of") -> int | datetime | IndexPair:
    """
    An index, two of them, or an aware UTC time.

    Args:
        value: The point.
        field: What errors call it.

    Raises:
        InputError: Neither, or a naive time.
    """
    if isinstance(value, bool):
        raise _bad_as_of(value, field)
    if isinstance(value, int):
        if value < 0:
            raise _bad_as_of(value, field)
        return value
    if isinstance(value, str) and value.isascii() and value.isdigit():
        if len(value) > 18:
            raise _bad_as_of(value, field)
        return int(value)
    pair = _PAIR.fullmatch(value) if isinstance(value, str) else None
    if pair is not None:
        return IndexPair(int(pair[1]), int(pair[2]))
    try:
        return to_utc(parse_time(field, value))
    except InputError as error:
        if error.code == "naive_datetime":
            raise
        # Neither a time nor an index: say that it may be either.
        raise _bad_as_of(value, field, error.code) from None


def hidden_of(
    log: TenantLog, memory_ids: Iterable[UUID | None], scope: AccessScope
) -> frozenset[UUID]:
    """Those of some memories that the caller may not see, so that not even their ids are told."""
    wanted = {memory_id for memory_id in memory_ids if memory_id is not None}
    first = {i: rows[0].columns for i in wanted if (rows := log.reader.memory(i))}
    return frozenset(i for i, columns in first.items() if not scope.allows(columns))


def unknown_memory(memory_id: UUID, field: str = "memory_id") -> InputError:
    """The same error for a memory that does not exist and for one that is not the caller's."""
    return InputError(
        f"there is no memory {memory_id} that this principal can see on this branch.",
        code="unknown_memory",
        field=field,
        value=str(memory_id),
    )


def _bad_as_of(value: object, field: str, code: str = "bad_as_of") -> InputError:
    return InputError(
        f"{field} is {shown(value)}; give an index from 0, two as i@g, or a time with its offset.",
        code=code,
        field=field,
        value=shown(value),
        allowed="an index, i@g, or RFC 3339 with an offset",
    )
