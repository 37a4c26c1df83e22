"""The library's application on the ledger: aggregates, versions, guards, receipts."""

import pickle
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import pytest
from eventsourcing.application import AggregateNotFoundError
from eventsourcing.domain import Aggregate
from eventsourcing.domain import event as on_event
from eventsourcing.persistence import (
    DatetimeAsISO,
    IntegrityError,
    JSONTranscoder,
    Mapper,
    StoredEvent,
    Tracking,
    UUIDAsHex,
)

from memoriale.adapters.postgres.append import GuardRefusedError, StreamConflictError
from memoriale.adapters.postgres.application import LedgerApplication, LedgerFactory
from memoriale.adapters.postgres.recorder import (
    LedgerRecorder,
    LedgerStoredEvent,
    RecordedId,
)
from memoriale.domain.errors import InputError
from memoriale.domain.guards import NoEvent, StreamAt
from memoriale.domain.record import NewRow, Row
from tests.contracts.ledger import TOPIC, append, event
from tests.fixtures.postgres import Ledger


class Note(Aggregate):
    """An aggregate with one changing text."""

    def __init__(self, text: str) -> None:
        self.text = text

    @on_event("Changed")
    def change(self, text: str) -> None:
        """Take another text."""
        self.text = text


class RowMapper(Mapper[UUID]):
    """The library's mapper with the columns of a plain event beside its state."""

    def __init__(self) -> None:
        transcoder = JSONTranscoder()
        transcoder.register(UUIDAsHex())
        transcoder.register(DatetimeAsISO())
        super().__init__(transcoder)

    def to_stored_event(self, domain_event: Any) -> StoredEvent:
        """The stored event with its row."""
        made = super().to_stored_event(domain_event)
        assert isinstance(made.originator_id, UUID)
        row = event(made.originator_id, made.originator_version, topic=made.topic, state=made.state)
        return LedgerStoredEvent.of(row)


@dataclass
class Opened:
    """An application and the log below it."""

    application: LedgerApplication
    ledger: Ledger


@pytest.fixture
def opened_application(ledger: Ledger) -> Iterator[Opened]:
    """An application over an empty log."""
    application = LedgerApplication(
        ledger.datastore, ledger.log, mapper=RowMapper(), committer=ledger.committer
    )
    with application:
        yield Opened(application, ledger)


def test_aggregates_are_saved_and_found(opened_application: Opened) -> None:
    """An aggregate comes back with its last state, and as of an earlier version."""
    application = opened_application.application
    note = Note("one")
    application.save(note)
    note.change("two")
    note.change("three")
    application.save(note)
    found: Note = application.repository.get(note.id)
    earlier: Note = application.repository.get(note.id, version=2)
    assert (found.text, found.version, earlier.text) == ("three", 3, "two")
    with pytest.raises(AggregateNotFoundError):
        application.repository.get(uuid4())


def test_recordings_carry_the_receipt(opened_application: Opened) -> None:
    """The ids of recordings are the notification ids and lead to the receipt."""
    note, other = Note("one"), Note("two")
    recordings = opened_application.application.save(note, other)
    ids = [recording.notification.id for recording in recordings]
    assert ids == [1, 2]
    first = ids[0]
    assert isinstance(first, RecordedId)
    assert (first.receipt.first, first.receipt.last) == (0, 1)
    again = pickle.loads(pickle.dumps(first))
    assert (again, again.receipt) == (first, first.receipt)


def test_second_writer_of_a_version_is_refused(opened_application: Opened) -> None:
    """Two changes of one version conflict, in the library's terms and in ours."""
    application = opened_application.application
    note = Note("one")
    application.save(note)
    one: Note = application.repository.get(note.id)
    two: Note = application.repository.get(note.id)
    one.change("first")
    two.change("second")
    application.save(one)
    with pytest.raises(IntegrityError) as caught:
        application.save(two)
    assert isinstance(caught.value, StreamConflictError)


def test_guards_travel_with_save(opened_application: Opened) -> None:
    """Guards given to save reach the append."""
    application, ledger = opened_application.application, opened_application.ledger
    ledger.committer.submit(append())
    note = Note("one")
    with pytest.raises(GuardRefusedError):
        application.save(note, guards=(NoEvent((TOPIC,), -1),))
    application.save(Note("one"), guards=(NoEvent((TOPIC,), 0),))
    assert ledger.reader.head() == 2


def test_stored_events_carry_their_rows(opened_application: Opened) -> None:
    """Events and notifications that are read back have columns and place."""
    application = opened_application.application
    note = Note("one")
    application.save(note)
    (stored,) = application.recorder.select_events(str(note.id))
    assert isinstance(stored, LedgerStoredEvent)
    assert isinstance(stored.row, Row)
    assert stored.recorded is not None
    assert stored.recorded.index == 0
    (notification,) = application.recorder.select_notifications(None, 10)
    assert (notification.id, notification.state) == (1, stored.state)
    section = application.notification_log["1,1"]
    assert [item.id for item in section.items] == [1]


def test_new_stored_event_is_not_recorded() -> None:
    """Before it is stored an event has no place, and equals a plain one of the library."""
    row = event()
    stored = LedgerStoredEvent.of(row)
    assert isinstance(stored.row, NewRow)
    assert stored.recorded is None
    plain = StoredEvent(row.columns.stream_id, 1, TOPIC, row.state)
    assert plain == stored
    assert stored == plain
    assert stored != StoredEvent(row.columns.stream_id, 2, TOPIC, row.state)
    assert len({stored, LedgerStoredEvent.of(row)}) == 1


def test_recorder_refuses_what_it_cannot_keep(ledger: Ledger) -> None:
    """Events without columns, tracking and unknown arguments are errors, never ignored."""
    recorder = LedgerRecorder(ledger.committer, ledger.reader)
    plain = StoredEvent(uuid4(), 1, "t", b"")
    good = LedgerStoredEvent.of(event())
    with pytest.raises(InputError):
        recorder.insert_events([plain])
    with pytest.raises(InputError):
        recorder.insert_events([good], tracking=Tracking("x", 1))
    with pytest.raises(InputError):
        recorder.insert_events([good], actor="x")
    assert recorder.insert_events([]) == []
    stream = good.originator_id
    assert isinstance(stream, UUID)
    assert recorder.insert_events([good], guards=(StreamAt(stream, 0),), tracking=None) == [1]


def test_environment_of_the_process_is_not_read(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Variables that configure the library elsewhere change nothing here."""
    monkeypatch.setenv("PERSISTENCE_MODULE", "no.such.module")
    monkeypatch.setenv("IS_SNAPSHOTTING_ENABLED", "y")
    monkeypatch.setenv("CIPHER_TOPIC", "no.such:Cipher")
    monkeypatch.setenv("AGGREGATE_CACHE_MAXSIZE", "10")
    with LedgerApplication(ledger.datastore, ledger.log, mapper=RowMapper()) as application:
        application.save(Note("one"))
        assert application.snapshots is None
        assert application.repository.cache is None
        assert "PERSISTENCE_MODULE" not in application.env


def test_factory_has_nothing_but_the_recorder(opened_application: Opened) -> None:
    """Snapshots and tracking of the library are refused with a reason."""
    factory = opened_application.application.factory
    assert isinstance(factory, LedgerFactory)
    assert factory.aggregate_recorder() is factory.application_recorder()
    for refused in (
        lambda: factory.aggregate_recorder("snapshots"),
        factory.tracking_recorder,
        factory.process_recorder,
    ):
        with pytest.raises(InputError):
            refused()


def test_application_closes_only_its_own_committer(ledger: Ledger) -> None:
    """A committer that was passed in outlives the application; its own ends with it."""
    shared = LedgerApplication(
        ledger.datastore, ledger.log, mapper=RowMapper(), committer=ledger.committer
    )
    shared.close()
    assert ledger.committer.submit(append()).created
    own = LedgerApplication(ledger.datastore, ledger.log, mapper=RowMapper())
    own.save(Note("one"))
    own.close()
    with pytest.raises(InputError):
        own.save(Note("two"))
    assert ledger.reader.head() == 2


def test_loggers_of_psycopg_keep_their_levels() -> None:
    """Using the application silences no logger of the driver."""
    code = (
        "import logging, psycopg, sys;"
        "levels = lambda: [logging.getLogger(n).level for n in ('psycopg', 'psycopg.pool')];"
        "before = levels(); import memoriale.adapters.postgres.application;"
        "assert 'eventsourcing.postgres' not in sys.modules;"
        "assert levels() == before, levels()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
