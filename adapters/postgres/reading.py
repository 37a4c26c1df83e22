"""Reading a log: by place, stream, memory, owner and time."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from memoriale.adapters.postgres.datastore import Datastore
from memoriale.adapters.postgres.errors import head_missing, hole
from memoriale.adapters.postgres.logs import Log
from memoriale.adapters.postgres.roles import Role
from memoriale.adapters.postgres.rows import row_of, select_list
from memoriale.domain.errors import InputError
from memoriale.domain.record import Row

_END: Final = 2**63 - 1
_SELECT: Final = f"SELECT {select_list('e')} FROM ledger.ledger_events e "
_HERE: Final = "WHERE e.tenant = %(tenant)s AND e.log_id = %(log_id)s "

# Each statement asks in the full order of the key that serves it, with a range also where one
# value is meant: the reading connections have sorting disabled, so no other key is taken.
_RANGE: Final = (
    "SELECT h.next, {columns} FROM ledger.ledger_heads h LEFT JOIN LATERAL ("
    " SELECT * FROM ledger.ledger_events e " + _HERE + "AND e.index > %(after)s"
    " AND e.index < least(h.next, %(stop)s) ORDER BY e.index LIMIT %(limit)s) AS e ON true"
    " WHERE h.tenant = %(tenant)s AND h.log_id = %(log_id)s"
)
_AS_STORED: Final = _SELECT + _HERE + "AND e.index > %(after)s ORDER BY e.index LIMIT %(limit)s"
_LAST: Final = _SELECT + _HERE + "ORDER BY e.index DESC LIMIT %(limit)s"
_STREAM: Final = (
    _SELECT + _HERE + "AND e.stream_id = %(stream)s AND e.stream_version > %(gt)s"
    " AND e.stream_version <= %(lte)s ORDER BY e.stream_version {order} LIMIT %(limit)s"
)
_OF_EACH: Final = (
    "SELECT {columns} FROM unnest(%(memories)s::uuid[]) AS m (id) CROSS JOIN LATERAL ("
    " SELECT * FROM ledger.ledger_events e " + _HERE + "AND e.memory_id >= m.id"
    " AND e.memory_id <= m.id ORDER BY {order}) AS e"
)
_MEMORIES: Final = _OF_EACH.format(columns=select_list("e"), order="e.memory_id, e.index")
_LATEST: Final = _OF_EACH.format(
    columns=select_list("e"), order="e.memory_id DESC, e.index DESC LIMIT 1"
)
_OF_SLICE: Final = (
    _HERE + "AND (e.owner, e.kind, e.index) > (%(owner)s, %(kind)s, %(after)s)"
    " AND (e.owner, e.kind, e.index) <= (%(owner)s, %(kind)s, %(up_to)s)"
    " AND (%(branches)s::uuid[] IS NULL OR e.branch = ANY (%(branches)s::uuid[])) "
)
_SLICE: Final = _SELECT + _OF_SLICE + "ORDER BY e.owner, e.kind, e.index"
_ASPECT: Final = (
    "SELECT s.memory_id FROM (SELECT e.memory_id, e.index FROM ledger.ledger_events e "
    + _OF_SLICE
    + "AND e.memory_id IS NOT NULL AND strpos(e.header, %(needle)s) > 0"
    " ORDER BY e.owner, e.kind, e.index OFFSET 0) AS s GROUP BY s.memory_id ORDER BY min(s.index)"
)
_EVENT: Final = (
    _SELECT + _HERE + "AND e.event_id >= %(event)s AND e.event_id <= %(event)s"
    " ORDER BY e.event_id LIMIT 1"
)
_APPEND_LAST: Final = (
    "SELECT e.append_last FROM ledger.ledger_events e " + _HERE + "AND e.index >= %(index)s"
    " ORDER BY e.index LIMIT 1"
)
# recorded_at rises with the index, so a bisection finds the place without a key on it.
_AT_TIME: Final = (
    "WITH RECURSIVE search (low, high, found) AS ("
    " SELECT 0::bigint, h.next - 1, NULL::bigint FROM ledger.ledger_heads h"
    " WHERE h.tenant = %(tenant)s AND h.log_id = %(log_id)s"
    " UNION ALL"
    " SELECT CASE WHEN e.recorded_at <= %(time)s THEN e.append_last + 1 ELSE s.low END,"
    " CASE WHEN e.recorded_at <= %(time)s THEN s.high ELSE e.append_first - 1 END,"
    " CASE WHEN e.recorded_at <= %(time)s THEN e.append_last ELSE s.found END"
    " FROM search s CROSS JOIN LATERAL ("
    " SELECT e.recorded_at, e.append_first, e.append_last FROM ledger.ledger_events e "
    + _HERE
    + "AND e.index >= (s.low + s.high) / 2 ORDER BY e.index LIMIT 1) AS e"
    " WHERE s.low <= s.high) SELECT max(found), clock_timestamp() FROM search"
)
_HEAD: Final = (
    "SELECT h.next, clock_timestamp(),"
    " greatest(h.last_recorded_at - clock_timestamp(), interval '0')"
    " FROM ledger.ledger_heads h WHERE h.tenant = %(tenant)s AND h.log_id = %(log_id)s"
)


class LedgerReader:
    """
    The events of one log, as they stand.

    Args:
        datastore: The database.
        log: The log to read.
        role: As whom: ``READ``, or ``PROJECT`` for whoever posts views.
    """

    def __init__(self, datastore: Datastore, log: Log, role: Role = Role.READ) -> None:
        self.datastore = datastore
        self.log = log
        self._role = role

    def head(self) -> int:
        """The number of events, which is the index that comes next."""
        head: int = self._head()[0]
        return head

    def now(self) -> tuple[int, datetime]:
        """The number of events, and the time of the database, as of one moment."""
        head, clock, _ = self._head()
        return head, clock

    def ahead(self) -> timedelta:
        """
        By how much the last recorded time is later than the database's clock, zero if it is
        not. More than zero means that the clock once stood too far ahead; appends go on.
        """
        ahead: timedelta | None = self._head()[2]
        return ahead or timedelta()

    def rows(self, after: int = -1, stop: int | None = None, limit: int | None = None) -> list[Row]:
        """
        The events after an index, in order and without a hole.

        Args:
            after: The index before the first one.
            stop: The first index that is not wanted; None for the end of the log.
            limit: How many at most.

        Raises:
            UnavailableError: An event is missing (``hole``), which means that somebody deleted
                it; ``value`` is its index.
        """
        return self._range(after, _END if stop is None else stop, limit, with_state=True)

    def stream_rows(
        self,
        start: int = 0,
        batch: int = 5000,
        *,
        stop: int | None = None,
        with_state: bool = True,
        whole_appends: bool = False,
    ) -> Iterator[list[Row]]:
        """
        The log from an index to its present end, in lists, with memory for one of them.

        Args:
            start: The first index.
            batch: Events in a list, more only where an append would be cut.
            stop: The first index that is not wanted; None for the end of the log now.
            with_state: False leaves the sealed states out.
            whole_appends: True never cuts an append between two lists.

        Raises:
            UnavailableError: An event is missing (``hole``).
        """
        end = self.head() if stop is None else min(stop, self.head())
        while start < end:
            upper = min(start + batch, end)
            if whole_appends:
                upper = self.pin_index(upper - 1) + 1
            rows = self._range(start - 1, upper, None, with_state=with_state)
            if not rows:
                return
            yield rows
            start = upper

    def rows_as_stored(self, batch: int = 5000) -> Iterator[list[Row]]:
        """
        Every row of the log by index, whatever is missing or too many, for whoever verifies.

        Args:
            batch: Rows in a list.
        """
        after = -(2**63)
        while rows := self._rows(_AS_STORED, after=after, limit=batch):
            yield rows
            after = rows[-1].recorded.index

    def last(self, count: int) -> list[Row]:
        """
        The last rows of the log, the last one first, whatever is missing before them.

        Args:
            count: How many at most.
        """
        return self._rows(_LAST, limit=count)

    def stream(
        self,
        stream_id: UUID,
        gt: int | None = None,
        lte: int | None = None,
        *,
        desc: bool = False,
        limit: int | None = None,
    ) -> list[Row]:
        """
        The events of a stream by version.

        Args:
            stream_id: The stream.
            gt: Only versions above it.
            lte: Only versions up to it.
            desc: True puts the last first.
            limit: How many at most.
        """
        return self._rows(
            _STREAM.format(order="DESC" if desc else "ASC"),
            stream=stream_id,
            gt=-1 if gt is None else gt,
            lte=_END if lte is None else lte,
            limit=limit,
        )

    def memory(self, memory_id: UUID) -> list[Row]:
        """
        Every event of a memory on all branches, by index.

        Args:
            memory_id: The memory.
        """
        return self.memories([memory_id])

    def memories(self, memory_ids: Sequence[UUID]) -> list[Row]:
        """
        Every event of some memories on all branches, memory by memory, by index.

        Args:
            memory_ids: The memories.
        """
        return self._rows(_MEMORIES, memories=list(dict.fromkeys(memory_ids)))

    def latest(self, memory_ids: Sequence[UUID]) -> dict[UUID, Row]:
        """
        The last event of each memory, on whatever branch; memories without one are left out.

        Args:
            memory_ids: The memories.
        """
        rows = self._rows(_LATEST, memories=list(memory_ids))
        return {row.columns.memory_id: row for row in rows if row.columns.memory_id is not None}

    def slice(
        self,
        owner: UUID,
        kind: str,
        up_to: int | None = None,
        branches: Sequence[UUID] | None = None,
        after: int = -1,
    ) -> list[Row]:
        """
        The events of one owner and kind, by index.

        Args:
            owner: The owner's pseudonym.
            kind: The kind of memory.
            up_to: The last index that counts; None for all.
            branches: Only events on these branches; None for all.
            after: The index before the first one.
        """
        return self._rows(_SLICE, **_slice(owner, kind, up_to, branches, after))

    def aspect(
        self,
        owner: UUID,
        kind: str,
        branches: Sequence[UUID] | None,
        header_needle: str,
        up_to: int | None = None,
    ) -> list[UUID]:
        """
        The memories of a slice with an event whose header contains a text, oldest first. The
        server searches; no row travels.

        Args:
            owner: The owner's pseudonym.
            kind: The kind of memory.
            branches: Only events on these branches; None for all.
            header_needle: The text, exactly as the header holds it.
            up_to: The last index that counts; None for all.
        """
        arguments = _slice(owner, kind, up_to, branches)
        return [row[0] for row in self._fetch(_ASPECT, needle=header_needle, **arguments)]

    def by_event_id(self, event_id: UUID) -> Row | None:
        """
        One event, None if the log does not hold it.

        Args:
            event_id: Its id.
        """
        return next(iter(self._rows(_EVENT, event=event_id)), None)

    def pin_index(self, index: int) -> int:
        """
        The last index of the append that an index belongs to.

        Args:
            index: An index of the log.

        Raises:
            InputError: It lies outside the log.
        """
        head = self.head()
        if not 0 <= index < head:
            raise InputError(
                f"The log has no index {index}; it ends before {head}.",
                code="out_of_range",
                field="as_of",
                value=index,
                allowed=[0, head - 1],
            )
        last: int = self._fetch(_APPEND_LAST, index=index)[0][0]
        return last

    def pin_time(self, time: datetime) -> int | None:
        """
        The last index of the last append recorded at or before a time, None if there is none.

        Args:
            time: An aware time, not later than the database's clock.

        Raises:
            InputError: It has no zone or lies in the future.
        """
        if time.tzinfo is None:
            raise InputError(
                "The time has no zone. Give an offset.",
                code="naive_time",
                field="as_of",
                value=time.isoformat(),
            )
        found, now = self._fetch(_AT_TIME, time=time)[0]
        if time > now:
            raise InputError(
                f"{time.isoformat()} lies in the future; the database's clock says"
                f" {now.isoformat()}.",
                code="in_future",
                field="as_of",
                value=time.isoformat(),
                allowed=now.isoformat(),
            )
        pin: int | None = found
        return pin

    def with_topics(
        self, topics: Sequence[str], after: int, stop: int | None, limit: int | None
    ) -> list[Row]:
        """
        The events after an index that have one of some topics. Holes cannot be told here.

        Args:
            topics: The topics.
            after: The index before the first one.
            stop: The first index that is not wanted; None for the end of the log.
            limit: How many at most.
        """
        statement = (
            _SELECT + _HERE + "AND e.index > %(after)s AND e.index < %(stop)s"
            " AND e.topic = ANY (%(topics)s) ORDER BY e.index LIMIT %(limit)s"
        )
        bound = _END if stop is None else stop
        return self._rows(statement, topics=list(topics), after=after, stop=bound, limit=limit)

    def _head(self) -> tuple[Any, ...]:
        found = self._fetch(_HEAD)
        if not found:
            raise head_missing(self.log.tenant, self.log.log_id)
        return found[0]

    def _range(self, after: int, stop: int, limit: int | None, *, with_state: bool) -> list[Row]:
        statement = _RANGE.format(columns=select_list("e", with_state=with_state))
        found = self._fetch(statement, after=after, stop=stop, limit=limit)
        index = after + 1
        head = found[0][0] if found else 0
        expected = max(0, min(stop, head) - index)
        if limit is not None:
            expected = min(expected, limit)
        rows = [row_of(values[1:]) for values in found[:expected] if values[1] is not None]
        for row in rows:
            if row.recorded.index != index:
                break
            index += 1
        if index - after - 1 < expected:
            raise hole(index)
        return rows

    def _rows(self, statement: str, **arguments: Any) -> list[Row]:
        return [row_of(values) for values in self._fetch(statement, **arguments)]

    def _fetch(self, statement: str, **arguments: Any) -> list[tuple[Any, ...]]:
        place = {"tenant": self.log.tenant, "log_id": self.log.log_id}
        return self.datastore.fetch(self.log.tenant, statement, place | arguments, self._role)


def _slice(
    owner: UUID,
    kind: str,
    up_to: int | None,
    branches: Sequence[UUID] | None,
    after: int = -1,
) -> dict[str, Any]:
    return {
        "owner": owner,
        "kind": kind,
        "after": after,
        "up_to": _END if up_to is None else up_to,
        "branches": None if branches is None else list(branches),
    }
