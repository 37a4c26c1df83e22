"""The recorder test cases that eventsourcing ships, run against the ledger's recorder."""

import inspect
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any, ClassVar, Final
from uuid import UUID

import pytest
from eventsourcing.persistence import (
    AggregateRecorder,
    ApplicationRecorder,
    Notification,
    StoredEvent,
    Subscription,
)
from eventsourcing.tests import persistence as library

from memoriale.adapters.postgres.recorder import LedgerRecorder, LedgerStoredEvent
from tests.contracts.ledger import event
from tests.fixtures.postgres import Database, opened

CANNOT_APPLY: Final = {
    "ProcessRecorderTestCase": "wants tracking rows in the transaction of the events; a position"
    " lives in its view and changes together with the view's rows",
    "TrackingRecorderTestCase": "tests a recorder of positions, which the ledger is not",
    "InfrastructureFactoryTestCase": "wants the stock recorders and one cipher key of the process;"
    " the ledger has its own recorder and a key for each person",
}
"""Test cases of the library that have no subject here, each with the reason."""

ONE_ASSERTION_CANNOT: Final = (
    "AggregateRecorderTestCase.test_insert_and_select wants insert_events to return None; ours"
    " returns the notification ids, which carry the receipt. The rest of it passes."
)

BASES: Final = {"RecorderTestCase", "NonInterleavingNotificationIDsBaseCase"}
NOT_RECORDERS: Final = {"TranscoderTestCase"}


class FillingRecorder(ApplicationRecorder):
    """The ledger's recorder for plain events: it fills the columns that must be there."""

    def __init__(self, recorder: LedgerRecorder) -> None:
        self._recorder = recorder

    def insert_events(
        self, stored_events: Sequence[StoredEvent], **kwargs: Any
    ) -> Sequence[int] | None:
        """Insert plain events."""
        return self._recorder.insert_events([filled(each) for each in stored_events], **kwargs)

    def select_events(self, originator_id: UUID | str, **kwargs: Any) -> Sequence[StoredEvent]:
        """The recorder's own."""
        return self._recorder.select_events(originator_id, **kwargs)

    def select_notifications(self, *args: Any, **kwargs: Any) -> Sequence[Notification]:
        """The recorder's own."""
        return self._recorder.select_notifications(*args, **kwargs)

    def max_notification_id(self) -> int | None:
        """The recorder's own."""
        return self._recorder.max_notification_id()

    def subscribe(
        self, gt: int | None = None, topics: Sequence[str] = ()
    ) -> Subscription[ApplicationRecorder]:
        """The recorder's own."""
        return self._recorder.subscribe(gt, topics)


class SilentRecorder(FillingRecorder):
    """The same, without the return value, for the one assertion that cannot hold."""

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> None:
        """Insert plain events and say nothing."""
        super().insert_events(stored_events, **kwargs)


def filled(plain: StoredEvent) -> LedgerStoredEvent:
    """A plain event with the columns of the ledger."""
    assert isinstance(plain.originator_id, UUID)
    row = event(plain.originator_id, plain.originator_version, topic=plain.topic, state=plain.state)
    return LedgerStoredEvent.of(row)


class OnTheLedger:
    """What the library's cases need: a recorder of an empty log."""

    database: ClassVar[Database]
    recorder_class: ClassVar[type[FillingRecorder]] = FillingRecorder
    _open: ExitStack

    @pytest.fixture(autouse=True)
    def ledgers(self, database: Database) -> Iterator[None]:
        """Closes the logs that a case opens."""
        type(self).database = database
        with ExitStack() as self._open:
            yield

    def create_recorder(self) -> Any:
        """A recorder of an empty log."""
        ledger = self._open.enter_context(opened(self.database))
        return self.recorder_class(LedgerRecorder(ledger.committer, ledger.reader))


class TestApplicationRecorder(
    OnTheLedger,
    library.ApplicationRecorderTestCase[ApplicationRecorder],
):
    """Events and notifications, as the library expects them of any application recorder."""

    def test_insert_subscribe(self) -> None:
        """Subscriptions give old and new events, stop when told, and filter topics."""
        self.optional_test_insert_subscribe()


class TestNonInterleaving(OnTheLedger, library.NonInterleavingNotificationIDsBaseCase):
    """Concurrent inserts get ids that do not interleave."""


class TestAggregateRecorder(OnTheLedger, library.AggregateRecorderTestCase):
    """Streams, as the library expects them; see ``ONE_ASSERTION_CANNOT``."""

    recorder_class = SilentRecorder


def test_the_one_assertion_that_cannot_hold(database: Database) -> None:
    """Our insert_events returns ids where that case wants None; the reason is written down."""
    with opened(database) as ledger:
        recorder: AggregateRecorder = LedgerRecorder(ledger.committer, ledger.reader)
        assert recorder.insert_events([]) == []
        assert recorder.insert_events([LedgerStoredEvent.of(event())]) == [1]
    assert "return None" in ONE_ASSERTION_CANNOT
    source = inspect.getsource(library.AggregateRecorderTestCase.test_insert_and_select)
    assert source.count("assertEqual(notification_ids, None)") == 3


def test_every_case_of_the_library_is_accounted_for() -> None:
    """Each test case for recorders is run here or has a reason why it cannot be."""
    found = {
        name
        for name, value in vars(library).items()
        if inspect.isclass(value)
        and value.__module__ == library.__name__
        and "Case" in name
        and name not in NOT_RECORDERS
    }
    run = {"ApplicationRecorderTestCase", "AggregateRecorderTestCase"}
    assert found == run | BASES | set(CANNOT_APPLY)
    assert all(CANNOT_APPLY.values())
