"""Following a log with the library's subscription."""

import threading
from collections.abc import Callable
from itertools import islice

import pytest

from memoriale.adapters.postgres.recorder import LedgerNotification, LedgerRecorder
from memoriale.adapters.postgres.subscription import LedgerSubscription
from memoriale.domain.errors import UnavailableError
from tests.contracts.ledger import append, event
from tests.fixtures.embedded import eventually
from tests.fixtures.postgres import Database, Ledger, opened


def recorder_of(ledger: Ledger) -> LedgerRecorder:
    """The recorder of a log."""
    return LedgerRecorder(ledger.committer, ledger.reader)


def test_subscription_gives_old_and_new_events(ledger: Ledger) -> None:
    """It begins with what is stored and goes on with what comes."""
    ledger.committer.submit(append(event(), event()))
    with recorder_of(ledger).subscribe() as subscription:
        assert [n.id for n in islice(subscription, 2)] == [1, 2]
        writer = threading.Timer(0.05, ledger.committer.submit, [append()])
        writer.start()
        found = next(subscription)
        writer.join()
    assert isinstance(found, LedgerNotification)
    assert (found.id, found.recorded.index) == (3, 2)


@pytest.mark.parametrize(("gt", "first"), [(None, 1), (0, 1), (1, 2), (3, 4)])
def test_subscription_begins_after_an_id(ledger: Ledger, gt: int | None, first: int) -> None:
    """The first event has index nought and id one, and is never left out."""
    ledger.committer.submit(append(*(event() for _ in range(4))))
    with recorder_of(ledger).subscribe(gt) as subscription:
        assert next(subscription).id == first


def test_subscription_sees_other_processes_by_polling(database: Database, ledger: Ledger) -> None:
    """Events of another committer, of which this one is not told, arrive as well."""
    with (
        recorder_of(ledger).subscribe() as subscription,
        opened(database, ledger.log.tenant) as other,
    ):
        timer = threading.Timer(0.05, other.committer.submit, [append()])
        timer.start()
        assert next(subscription).id == 1
        timer.join()


def test_subscription_filters_topics(ledger: Ledger) -> None:
    """Only the wanted topics arrive, and none of them is passed over."""
    topics = ["a", "b", "c", "a", "b", "c"]
    ledger.committer.submit(append(*(event(topic=topic) for topic in topics)))
    with recorder_of(ledger).subscribe(topics=["a", "c"]) as subscription:
        assert [n.id for n in islice(subscription, 4)] == [1, 3, 4, 6]


@pytest.mark.parametrize("before", ["entering", "iterating"])
def test_stopped_subscription_gives_nothing(ledger: Ledger, before: str) -> None:
    """A subscription that was stopped ends, whenever that was."""
    ledger.committer.submit(append())
    subscription = recorder_of(ledger).subscribe()
    if before == "entering":
        subscription.stop()
    with subscription:
        subscription.stop()
        assert list(subscription) == []


def test_stop_wakes_a_waiting_reader(ledger: Ledger) -> None:
    """Stopping ends an iteration that waits for an event in another thread."""
    subscription = recorder_of(ledger).subscribe()
    ended = threading.Event()

    def follow() -> None:
        with subscription:
            list(subscription)
        ended.set()

    reader = threading.Thread(target=follow)
    reader.start()
    subscription.stop()
    assert ended.wait(30)
    reader.join()


def test_hole_ends_the_subscription(fresh_database: Database, fresh_ledger: Ledger) -> None:
    """A deleted event is an error, not a gap that is passed over."""
    fresh_ledger.committer.submit(append(*(event() for _ in range(5))))
    with fresh_database.connect() as connection:
        connection.execute("ALTER TABLE ledger.ledger_events DISABLE TRIGGER append_only")
        connection.execute("DELETE FROM ledger.ledger_events WHERE index = 2")
    with recorder_of(fresh_ledger).subscribe() as subscription:
        with pytest.raises(UnavailableError) as caught:
            list(islice(subscription, 5))
        assert (caught.value.code, caught.value.value) == ("hole", 2)
        assert list(subscription) == []


def test_subscription_follows_many_writers(new_ledger: Callable[[], Ledger]) -> None:
    """While 8 threads write, every event arrives once and in order."""
    ledger = new_ledger()
    ids: list[int] = []

    def write() -> None:
        for _ in range(20):
            ledger.committer.submit(append(event(), event()))

    subscription = LedgerSubscription(recorder_of(ledger))
    reader = threading.Thread(target=lambda: ids.extend(n.id for n in islice(subscription, 320)))
    writers = [threading.Thread(target=write) for _ in range(8)]
    for thread in (reader, *writers):
        thread.start()
    for thread in (*writers, reader):
        thread.join(60)
    assert eventually(lambda: len(ids) == 320)
    assert ids == list(range(1, 321))
