"""The ledger as the recorder of an event-sourced application."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Self
from uuid import UUID

from eventsourcing.persistence import (
    ApplicationRecorder,
    Notification,
    StoredEvent,
    Subscription,
)

from memoriale.adapters.postgres.append import Append
from memoriale.adapters.postgres.committer import Committer
from memoriale.adapters.postgres.reading import LedgerReader
from memoriale.adapters.postgres.subscription import LedgerSubscription
from memoriale.domain.errors import InputError
from memoriale.domain.guards import Guard
from memoriale.domain.record import AppendReceipt, NewRow, Recorded, Row

_REMOVED: Final = b""


def _same_event(one: StoredEvent, other: object) -> bool:
    return isinstance(other, StoredEvent) and (
        one.originator_id,
        one.originator_version,
        one.topic,
        one.state,
    ) == (other.originator_id, other.originator_version, other.topic, other.state)


@dataclass(frozen=True, eq=False)
class LedgerStoredEvent(StoredEvent):
    """
    A stored event of the library with the row behind it.

    ``row`` is a ``NewRow`` on the way in and a ``Row`` on the way out. It equals a plain stored
    event with the same four fields. ``state`` is empty when the payload was removed.
    """

    row: NewRow | Row

    @property
    def recorded(self) -> Recorded | None:
        """Where the event stands in the log, None before it is stored."""
        return self.row.recorded if isinstance(self.row, Row) else None

    def __eq__(self, other: object) -> bool:
        return _same_event(self, other)

    def __hash__(self) -> int:
        return hash((self.originator_id, self.originator_version))

    @classmethod
    def of(cls, row: NewRow | Row) -> Self:
        """
        The stored event of a row.

        Args:
            row: A row to store, or one read back.
        """
        columns = row.columns
        state = _REMOVED if row.state is None else row.state
        return cls(columns.stream_id, columns.stream_version, columns.topic, state, row)


@dataclass(frozen=True)
class LedgerNotification(Notification):
    """A notification with the row behind it; ``id`` is the index of the event plus one."""

    row: Row

    @property
    def recorded(self) -> Recorded:
        """Where the event stands in the log."""
        return self.row.recorded

    @classmethod
    def of(cls, row: Row) -> Self:
        """
        The notification of a row.

        Args:
            row: A row read back.
        """
        columns = row.columns
        state = _REMOVED if row.state is None else row.state
        place = row.recorded.index + 1
        return cls(
            columns.stream_id, columns.stream_version, columns.topic, state, id=place, row=row
        )


class RecordedId(int):
    """
    The notification id of a stored event, which is its index plus one.

    Attributes:
        receipt: The receipt of the append that the event belongs to.
    """

    receipt: AppendReceipt

    def __new__(cls, value: int, receipt: AppendReceipt) -> Self:
        """
        Args:
            value: The notification id.
            receipt: The receipt of its append.
        """
        made = super().__new__(cls, value)
        made.receipt = receipt
        return made

    def __reduce__(self) -> tuple[type[Self], tuple[int, AppendReceipt]]:
        return (type(self), (int(self), self.receipt))


class LedgerRecorder(ApplicationRecorder):
    """
    Stores the events of one log through its committer and reads them back.

    Args:
        committer: The writer of the log.
        reader: The reader of the same log.
    """

    def __init__(self, committer: Committer, reader: LedgerReader) -> None:
        self.committer = committer
        self.reader = reader

    def insert_events(
        self,
        stored_events: Sequence[StoredEvent],
        *,
        guards: Sequence[Guard] = (),
        **kwargs: Any,
    ) -> list[int]:
        """
        Store events in one append and return a ``RecordedId`` for each. When an earlier call
        stored the append, each is that of the earlier append's first event.

        Args:
            stored_events: ``LedgerStoredEvent`` objects with a ``NewRow`` each.
            guards: Conditions of the append.
            kwargs: Nothing but ``tracking=None``, which the library always passes: positions
                live in the views.

        Raises:
            InputError: An event has no row, or an argument is not known.
            StreamConflictError, GuardRefusedError, IdempotencyMismatchError, UnavailableError:
                As ``Committer.submit``.
        """
        _require_no_more(kwargs)
        if not stored_events:
            return []
        rows = tuple(_new_row(event) for event in stored_events)
        receipt = self.committer.submit(Append(rows, tuple(guards)))
        if not receipt.created:
            # The append stored before may have more events or fewer; the library wants one id
            # for each that it gave.
            return [RecordedId(receipt.first + 1, receipt) for _ in rows]
        return [RecordedId(event.index + 1, receipt) for event in receipt.events]

    def select_events(
        self,
        originator_id: UUID | str,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> list[StoredEvent]:
        """
        The events of a stream, as ``LedgerStoredEvent`` objects.

        Args:
            originator_id: The stream.
            gt: Only versions above it.
            lte: Only versions up to it.
            desc: True puts the last first.
            limit: How many at most.
        """
        stream = originator_id if isinstance(originator_id, UUID) else UUID(originator_id)
        rows = self.reader.stream(stream, gt, lte, desc=desc, limit=limit)
        return [LedgerStoredEvent.of(row) for row in rows]

    def select_notifications(
        self,
        start: int | None,
        limit: int,
        stop: int | None = None,
        topics: Sequence[str] = (),
        *,
        inclusive_of_start: bool = True,
    ) -> list[Notification]:
        """
        Events by notification id, as ``LedgerNotification`` objects.

        Args:
            start: The first id, None for the first of all.
            limit: How many at most.
            stop: The last id, None for the end.
            topics: Only these topics; none means all.
            inclusive_of_start: False begins after ``start``.

        Raises:
            UnavailableError: An event is missing (``hole``); told only without topics.
        """
        after = -1
        if start is not None:
            after = max(start - 2 if inclusive_of_start else start - 1, -1)
        if topics:
            rows = self.reader.with_topics(topics, after, stop, limit)
        else:
            rows = self.reader.rows(after, stop, limit)
        return [LedgerNotification.of(row) for row in rows]

    def max_notification_id(self) -> int | None:
        """The notification id of the last event, None if there is none."""
        return self.reader.head() or None

    def subscribe(
        self, gt: int | None = None, topics: Sequence[str] = ()
    ) -> Subscription[ApplicationRecorder]:
        """
        An endless iterator over the events, old and new.

        Args:
            gt: Begin after this notification id, None for the first event.
            topics: Only these topics; none means all.
        """
        return LedgerSubscription(self, gt, topics)


def _new_row(event: StoredEvent) -> NewRow:
    if isinstance(event, LedgerStoredEvent) and isinstance(event.row, NewRow):
        return event.row
    raise InputError(
        "The ledger stores events that its own mapper made; this one has no columns.",
        code="no_row",
        field="stored_events",
        value=event.topic,
    )


def _require_no_more(kwargs: dict[str, Any]) -> None:
    for name, value in kwargs.items():
        if name != "tracking" or value is not None:
            raise InputError(
                f"The ledger's recorder takes no {name}.", code="unknown_argument", field=name
            )
