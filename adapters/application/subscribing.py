"""Following a log for as long as wanted: what a caller may see of it, in order, without a gap."""

import json
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Final, Protocol, Self
from uuid import UUID

from memoriale.adapters.application.branching import BranchView
from memoriale.adapters.application.reading import hidden_of
from memoriale.adapters.application.stream import LoggedEvent, logged
from memoriale.adapters.postgres.recorder import LedgerNotification
from memoriale.adapters.postgres.subscription import LedgerSubscription
from memoriale.domain.access import AccessScope
from memoriale.domain.branch_events import Discarded
from memoriale.domain.errors import UnavailableError
from memoriale.domain.record import Row
from memoriale.domain.subscriptions import Selection
from memoriale.domain.values import parse_json_strictly

if TYPE_CHECKING:
    from memoriale.adapters.application.tenant_log import TenantLog

FIRST_PAUSE: Final = 0.1
"""Seconds after which a database that went away is asked again; each further time twice as long."""
LONGEST_PAUSE: Final = 5.0

Interrupted = Callable[[UnavailableError, float], None]
"""Is told why nothing can be read, and after how many seconds it is tried again."""

_PASSING: Final = frozenset(
    {
        *("database_down", "database_overloaded", "database_timeout", "readers_busy"),
        "access_log_full",
    }
)
_OWN_TOPICS: Final = ("memory.", "branch.", "session.", "job.")
_log = logging.getLogger("memoriale.subscriptions")


class Lines:
    """
    Which events a subscription is about, and where they end.

    Args:
        log: The log.
        branch: Those that this branch sees, up to its discard; None for those of all branches,
            which never end.
    """

    def __init__(self, log: "TenantLog", branch: BranchView | None) -> None:
        self._log_id = log.log_id
        self._branch = None if branch is None else branch.branch.id
        self._lines = () if branch is None else branch.lineage()
        self.end = None if branch is None else branch.branch.discarded
        """Index of the last one there will ever be; None while more may come."""

    def of(self, rows: Sequence[Row]) -> list[Row]:
        """Those of some rows, in their order."""
        if self._branch is None:
            return list(rows)
        found = []
        for row in rows:
            if self.end is not None and row.recorded.index > self.end:
                break
            if self._has(row):
                found.append(row)
                if (row.columns.topic, row.columns.branch) == (Discarded.TOPIC, self._branch):
                    self.end = row.recorded.index
        return found

    def _has(self, row: Row) -> bool:
        branch, place = row.columns.branch or self._log_id, row.recorded.index
        return any(line.branch == branch and place <= line.limit for line in self._lines)


class Sight(Protocol):
    """What a follower sees of the rows of a log."""

    @property
    def end(self) -> int | None:
        """Index behind which it sees nothing, whatever happens; None while there is none."""
        ...

    def __call__(self, rows: Sequence[Row]) -> Sequence[LoggedEvent]:
        """Those of some rows that it may see and wants, in their order."""
        ...


class Auditing:
    """
    What an auditor sees: every event, and the bodies when the right ``content`` is there.

    Args:
        log: The log.
        wanted: Which events.
        lines: On which branches.
        content: Whether to open the bodies.
    """

    def __init__(self, log: "TenantLog", wanted: Selection, lines: Lines, *, content: bool) -> None:
        self._log, self._wanted, self._lines, self._content = log, wanted, lines, content

    @property
    def end(self) -> int | None:
        """See ``Sight``."""
        return self._lines.end

    def __call__(self, rows: Sequence[Row]) -> Sequence[LoggedEvent]:
        """See ``Sight``."""
        seen = _wanted(self._log, self._wanted, self._lines.of(rows))
        return logged(self._log.mapper, seen, self._content)


class Owning:
    """
    What a caller sees: the events of memories, branches, sessions and jobs that it may see, with
    their bodies. Nothing of them names a memory that it may not see.

    Args:
        log: The log.
        wanted: Which events.
        scope: What the caller may see now; a name that is new to the tenant gets a pseudonym
            with its first memory, so it is asked again for each batch.
        lines: On which branches.
        given: Is told which events the caller is about to be given.
    """

    def __init__(
        self,
        log: "TenantLog",
        wanted: Selection,
        scope: Callable[[], AccessScope],
        lines: Lines,
        given: Callable[[Sequence[Row]], None],
    ) -> None:
        self._log, self._wanted, self._scope = log, wanted, scope
        self._lines, self._given = lines, given

    @property
    def end(self) -> int | None:
        """See ``Sight``."""
        return self._lines.end

    def __call__(self, rows: Sequence[Row]) -> Sequence[LoggedEvent]:
        """See ``Sight``."""
        scope = self._scope()
        seen = [
            row
            for row in _wanted(self._log, self._wanted, self._lines.of(rows))
            if row.columns.topic.startswith(_OWN_TOPICS) and scope.allows(row.columns)
        ]
        if not seen:
            return ()
        opened = self._without_hidden(logged(self._log.mapper, seen, content=True), scope)
        self._given(seen)
        return opened

    def _without_hidden(
        self, events: Sequence[LoggedEvent], scope: AccessScope
    ) -> Sequence[LoggedEvent]:
        named = {event.index: found for event in events if (found := _replaced_by(event.row))}
        hidden = hidden_of(self._log, named.values(), scope) if named else frozenset()
        return [
            replace(e, row=_unreplaced(e.row)) if named.get(e.index) in hidden else e
            for e in events
        ]


class Subscription(Iterator[LoggedEvent]):
    """
    An iterator over the events of a log that its holder may see, for one thread. It ends by
    itself behind the discard of the branch that it follows; else it is endless.

    Events come in order, each once, soon after they were recorded. It reads on when what it read
    was taken, so a slow consumer slows the reading and nothing is dropped. When the database goes
    away it waits and goes on at the next index once it is back. ``stop`` ends it, from any
    thread; so do leaving its ``with`` block and closing the ledger.

    Args:
        log: The log.
        see: What its holder sees.
        after: Begin after this index.
        filter: Only events for which this is true.
        interrupted: Told when the database is away.
    """

    def __init__(
        self,
        log: "TenantLog",
        see: Sight,
        *,
        after: int,
        filter: Callable[[LoggedEvent], bool] | None = None,
        interrupted: Interrupted | None = None,
    ) -> None:
        self._log, self._see, self._filter, self._told = log, see, filter, interrupted
        self._source = LedgerSubscription(log.recorder, after + 1)
        self._stopped = threading.Event()
        self._ready: deque[LoggedEvent] = deque()
        self._rows: Sequence[Row] = ()
        self._position = self._read_to = after
        log.follow(self, self._source.wakeup)

    @property
    def position(self) -> int:
        """
        Index of the last event that was handed out or is not for its holder: a subscription that
        begins after it goes on where this one is.
        """
        return self._position if self._ready else max(self._position, self._read_to)

    def __next__(self) -> LoggedEvent:
        """
        The next event; waits for one.

        Raises:
            UnavailableError: An event is missing (``hole``), or the log is shorter than it was
                (``log_shrank``), or what was read cannot be opened.
        """
        while self._ready or self._advance():
            if self._stopped.is_set():
                break
            if self._ready and (event := self._take()) is not None:
                return event
        raise StopIteration

    def stop(self) -> None:
        """Ends the iteration, also while another thread waits in it. Stopping twice is allowed."""
        self._stopped.set()
        self._source.stop()
        self._log.unfollow(self, self._source.wakeup)

    close = stop

    def wake(self) -> None:
        """Looks at the log at once; for whoever knows that it grew."""
        self._source.wakeup.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _take(self) -> LoggedEvent | None:
        # The filter is asked first: when it fails the event is still there.
        event = self._ready[0]
        wanted = self._filter is None or self._filter(event)
        self._position = event.index
        self._ready.popleft()
        return event if wanted else None

    def _advance(self) -> bool:
        """Reads on; False once stopped."""
        pause = FIRST_PAUSE
        away = False
        while not self._stopped.is_set():
            try:
                if away:
                    self._require_no_loss()
                return self._read()
            except UnavailableError as error:
                if error.code not in _PASSING:
                    raise
                away = True
                self._say(error, pause)
            self._stopped.wait(pause)
            pause = min(pause * 2, LONGEST_PAUSE)
        return False

    def _read(self) -> bool:
        if self._see.end is not None and self._read_to >= self._see.end:
            self.stop()
            return False
        if not self._rows:
            found = self._source.batch()
            self._rows = [n.row for n in found if isinstance(n, LedgerNotification)]
        if not self._rows:
            return False
        # What was read stays there until it was seen: nothing is lost when that fails.
        self._ready.extend(self._see(self._rows))
        self._read_to, self._rows = self._rows[-1].recorded.index, ()
        return True

    def _require_no_loss(self) -> None:
        head = self._log.head()
        if head <= self._read_to:
            raise UnavailableError(
                f"the log ends before {head}, but event {self._read_to} was read from it: the "
                "database was put back. Run 'memoriale verify'.",
                code="log_shrank",
                value=self._read_to,
            )

    def _say(self, error: UnavailableError, pause: float) -> None:
        _log.warning("following waits %.1f s: %s", pause, error.message)
        if self._told is not None:
            self._told(error, pause)


def _wanted(log: "TenantLog", wanted: Selection, rows: Sequence[Row]) -> list[Row]:
    key = log.identities.find(wanted.subject)
    owner = None if key is None else key.pseudonym
    return [row for row in rows if wanted.wants(row.columns, owner)]


def _replaced_by(row: Row) -> UUID | None:
    if row.columns.topic != "memory.invalidated":
        return None
    found = parse_json_strictly(row.header).get("replaced_by")
    return None if found is None else UUID(found)


def _unreplaced(row: Row) -> Row:
    fields = parse_json_strictly(row.header)
    del fields["replaced_by"]
    return replace(row, header=json.dumps(fields, separators=(",", ":"), ensure_ascii=False))
