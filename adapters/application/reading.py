"""Reading memories from the log: points in time, one memory, its history."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
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

AsOf = int | str | datetime | None
"""An index, digits, an aware time, RFC 3339 text with an offset, or None for now."""


@dataclass(frozen=True, slots=True)
class Pin:
    """
    A resolved point of the log.

    Args:
        index: Index of the last event seen; -1 when nothing had been recorded yet.
        now: The recorded time of that point; without as-of, the database clock at the call.
        pinned: Whether an as-of was asked for.
    """

    index: int
    now: datetime
    pinned: bool

    @property
    def limit(self) -> int:
        """Last index that a read may see."""
        return self.index if self.pinned else NO_LIMIT


class Reading:
    """
    Reads of one tenant's memory log that need no view.

    Args:
        log: The log.
        clock: The time of a read without as-of; None means the database's. It never reaches
            what is recorded.
    """

    def __init__(self, log: TenantLog, clock: Callable[[], datetime] | None = None) -> None:
        self._log = log
        self._clock = clock

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
            return self._pinned(as_of)
        except InputError as error:
            error.field = field
            raise

    def _pinned(self, as_of: AsOf) -> Pin:
        reader = self._log.reader
        if as_of is None:
            head, now = reader.now()
            return Pin(head - 1, self._clock() if self._clock else now, pinned=False)
        parsed = parse_as_of(as_of)
        if isinstance(parsed, int):
            index: int | None = reader.pin_index(parsed)
        else:
            index = reader.pin_time(parsed)
        if index is None:
            assert isinstance(parsed, datetime)
            return Pin(-1, parsed, pinned=True)
        recorded = reader.rows(after=index - 1, stop=index + 1)[0].recorded
        return Pin(index, recorded.recorded_at, pinned=True)

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


def parse_as_of(value: int | str | datetime) -> int | datetime:
    """
    An index or an aware UTC time.

    Raises:
        InputError: Neither, or a naive time.
    """
    if isinstance(value, bool):
        raise _bad_as_of(value)
    if isinstance(value, int):
        if value < 0:
            raise _bad_as_of(value)
        return value
    if isinstance(value, str) and value.isascii() and value.isdigit():
        if len(value) > 18:
            raise _bad_as_of(value)
        return int(value)
    return to_utc(parse_time("as_of", value))


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


def _bad_as_of(value: object) -> InputError:
    return InputError(
        f"as_of is {shown(value)}; give an index from 0 or a time with its offset.",
        code="bad_as_of",
        field="as_of",
        value=shown(value),
        allowed="an index, or RFC 3339 with an offset",
    )
