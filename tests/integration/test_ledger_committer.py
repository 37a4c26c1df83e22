"""Group commit: many writers, one caller's failure, lost connections, forks, interrupts."""

import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from uuid import uuid4

import pytest

from memoriale.adapters.postgres import committer as committer_module
from memoriale.adapters.postgres.append import (
    Append,
    GuardRefusedError,
    IdempotencyMismatchError,
    StreamConflictError,
)
from memoriale.adapters.postgres.committer import MAX_APPENDS
from memoriale.domain.errors import InputError, MemorialeError, UnavailableError
from memoriale.domain.guards import NothingNew, StreamAt
from memoriale.domain.record import AppendReceipt
from tests.contracts.ledger import KIND, append, event
from tests.fixtures.embedded import eventually
from tests.fixtures.postgres import Database, Ledger, head_locked, waiting_backend


def run_all(*works: object) -> list[object]:
    """Run callables in threads at once; what each returned or raised."""
    results: list[object] = [None] * len(works)
    start = threading.Barrier(len(works))

    def run(place: int) -> None:
        start.wait(30)
        try:
            results[place] = works[place]()  # type: ignore[operator]
        except MemorialeError as error:
            results[place] = error

    threads = [threading.Thread(target=run, args=[place]) for place in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    return results


def test_submit_returns_a_durable_receipt(ledger: Ledger) -> None:
    """A returned receipt is for events that another session can read."""
    receipt = ledger.committer.submit(append(event(), event()))
    assert (receipt.first, receipt.last, receipt.created) == (0, 1, True)
    assert len(ledger.reader.rows()) == 2


def test_submit_many_answers_in_order(ledger: Ledger) -> None:
    """Answers stand in the order of the appends, errors among receipts."""
    stream, owner = uuid4(), uuid4()
    tagged = event(owner=owner, idempotency_tag=b"k", request_tag=b"1")
    other = event(owner=owner, idempotency_tag=b"k", request_tag=b"2")
    again = append()
    answers = ledger.committer.submit_many(
        [
            append(event(stream, 1)),
            append(event(stream, 1)),
            append(tagged),
            append(other),
            append(guards=(NothingNew(owner, KIND, -1),)),
            again,
            again,
        ]
    )
    kinds = [type(answer) for answer in answers]
    assert kinds == [
        AppendReceipt,
        StreamConflictError,
        AppendReceipt,
        IdempotencyMismatchError,
        GuardRefusedError,
        AppendReceipt,
        AppendReceipt,
    ]
    assert isinstance(answers[5], AppendReceipt)
    assert answers[6] == replace(answers[5], created=False)
    assert ledger.reader.head() == 3


def test_submit_many_of_more_than_one_call(ledger: Ledger) -> None:
    """More appends than one call takes are stored in several, in order."""
    answers = ledger.committer.submit_many(append() for _ in range(MAX_APPENDS * 2 + 5))
    firsts = [answer.first for answer in answers if isinstance(answer, AppendReceipt)]
    assert firsts == list(range(MAX_APPENDS * 2 + 5))


def test_large_appends_are_called_apart(ledger: Ledger) -> None:
    """Appends that are too large for one call together are all stored."""
    answers = ledger.committer.submit_many(
        append(event(state=b"x" * 3_000_000), event()) for _ in range(6)
    )
    assert [type(answer) for answer in answers] == [AppendReceipt] * 6
    assert ledger.reader.head() == 12


def test_nothing_to_submit(ledger: Ledger) -> None:
    """No appends have no answers."""
    assert ledger.committer.submit_many([]) == []


def test_refusals_do_not_touch_the_neighbours(ledger: Ledger) -> None:
    """Of 32 writers at once every third is refused by its guard; the others succeed."""
    owner = uuid4()
    ledger.committer.submit(append(event(owner=owner)))

    def writer(place: int) -> object:
        def write() -> list[object]:
            results: list[object] = []
            for _ in range(10):
                guards = (NothingNew(owner, KIND, -1),) if place % 3 == 0 else ()
                try:
                    results.append(ledger.committer.submit(append(guards=guards)))
                except GuardRefusedError as error:
                    results.append(error)
            return results

        return write

    for place, result in enumerate(run_all(*(writer(place) for place in range(32)))):
        expected = GuardRefusedError if place % 3 == 0 else AppendReceipt
        assert isinstance(result, list)
        assert [type(item) for item in result] == [expected] * 10
    assert [row.recorded.index for row in ledger.reader.rows()] == list(range(1 + 21 * 10))


def test_racing_writers_of_one_stream(ledger: Ledger) -> None:
    """Of all who want the same version of a stream one wins, and no version is left out."""
    stream, versions = uuid4(), 12

    def write() -> int:
        won = 0
        for version in range(versions):
            try:
                row = event(stream, version + 1)
                ledger.committer.submit(append(row, guards=(StreamAt(stream, version),)))
                won += 1
            except StreamConflictError:
                continue
        return won

    results = run_all(*[write] * 16)
    assert sum(result for result in results if isinstance(result, int)) <= versions
    stored = [row.columns.stream_version for row in ledger.reader.stream(stream)]
    assert stored == list(range(1, len(stored) + 1))
    assert stored


def test_racing_retries_of_one_request(ledger: Ledger) -> None:
    """Many callers with one idempotency key get one stored append between them."""
    owner = uuid4()

    def write() -> AppendReceipt:
        row = event(owner=owner, idempotency_tag=b"key", request_tag=b"request")
        return ledger.committer.submit(append(row))

    results = run_all(*[write] * 16)
    receipts = [result for result in results if isinstance(result, AppendReceipt)]
    assert len(receipts) == 16
    assert sum(receipt.created for receipt in receipts) == 1
    assert len({receipt.events for receipt in receipts}) == 1
    assert ledger.reader.head() == 1


def spoilt() -> Append:
    """An append that the table refuses although it was packed."""
    made = append(event(visibility="owner"))
    (row,) = made.packed_rows
    items = tuple(item.replace(b"\x00\x00\x00\x05owner", b"\x00\x00\x00\x05other") for item in row)
    object.__setattr__(made, "packed_rows", (items,))
    return made


def test_append_that_the_server_cannot_take_fails_alone(database: Database, ledger: Ledger) -> None:
    """A value that breaks a call is an error for its own caller only."""
    with head_locked(database, ledger):
        first = threading.Thread(target=ledger.committer.submit, args=[append()])
        first.start()
        assert eventually(lambda: waiting_backend(database, ledger) is not None)
        batch = threading.Thread(
            target=lambda: answers.extend(
                ledger.committer.submit_many([append(), spoilt(), append()])
            )
        )
        answers: list[AppendReceipt | MemorialeError] = []
        batch.start()
    first.join(30)
    batch.join(30)
    assert [type(answer) for answer in answers] == [AppendReceipt, InputError, AppendReceipt]
    assert ledger.reader.head() == 3


def test_interrupted_caller_strands_nobody(database: Database, ledger: Ledger) -> None:
    """A KeyboardInterrupt in one waiting caller leaves the others and the committer alone."""
    results: list[object] = []
    with head_locked(database, ledger):
        other = threading.Thread(target=lambda: results.append(ledger.committer.submit(append())))
        other.start()
        assert eventually(lambda: waiting_backend(database, ledger) is not None)
        main = threading.main_thread().ident
        assert main is not None
        timer = threading.Timer(0.2, signal.pthread_kill, [main, signal.SIGINT])
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            ledger.committer.submit(append())
        timer.join()
    other.join(30)
    assert [type(result) for result in results] == [AppendReceipt]
    ledger.committer.submit(append())
    assert eventually(lambda: ledger.reader.head() == 3)


def test_close_stores_what_was_handed_in(database: Database, ledger: Ledger) -> None:
    """Closing waits for appends that were handed in, and refuses later ones."""
    results: list[object] = []
    with head_locked(database, ledger):
        writer = threading.Thread(
            target=lambda: results.extend(ledger.committer.submit_many([append()] * 1))
        )
        writer.start()
        assert eventually(lambda: waiting_backend(database, ledger) is not None)
        closer = threading.Thread(target=ledger.committer.close)
        closer.start()
    writer.join(30)
    closer.join(30)
    assert [type(result) for result in results] == [AppendReceipt]
    with pytest.raises(InputError) as caught:
        ledger.committer.submit(append())
    assert caught.value.code == "closed"
    ledger.committer.close()


def test_defect_in_the_committer_strands_nobody(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the thread ends by a defect every caller gets an error, and the next append works."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    with monkeypatch.context() as patch:
        patch.setattr(committer_module, "call_append", fail)
        answers = ledger.committer.submit_many([append(), append()])
    assert [type(answer) for answer in answers] == [UnavailableError] * 2
    assert ledger.committer.submit(append()).created


FORKING = """
import os, sys
from uuid import UUID, uuid4
from memoriale.adapters.postgres.append import Append
from memoriale.adapters.postgres.committer import Committer
from memoriale.adapters.postgres.datastore import Datastore
from memoriale.adapters.postgres.logs import open_log
from memoriale.adapters.postgres.reading import LedgerReader
from memoriale.domain.record import Columns, NewRow

def append():
    columns = Columns(event_id=uuid4(), stream_id=uuid4(), stream_version=1, topic="t",
        schema_version=1, owner=uuid4(), owner_type="user", actor=uuid4(), actor_kind="user",
        authentication="local", correlation_id=uuid4())
    return Append((NewRow(columns, "", b"x"),))

datastore = Datastore(sys.argv[1])
log = open_log(datastore, sys.argv[2])
committer, reader = Committer(datastore, log), LedgerReader(datastore, log)
committer.submit(append())
assert reader.head() == 1
child = os.fork()
if child == 0:
    committer.submit(append())
    assert reader.head() >= 2
    committer.close()
    datastore.close()
    os._exit(0)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 0
committer.submit(append())
assert reader.head() == 3
committer.close()
datastore.close()
"""


def test_committer_works_in_a_forked_child(database: Database, ledger: Ledger) -> None:
    """After os.fork parent and child both append and read, each by connections of its own."""
    ignored = ["-W", "error", "-W", "ignore::DeprecationWarning"]
    done = subprocess.run(
        [sys.executable, *ignored, "-c", FORKING, database.app_url, ledger.log.tenant],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert ledger.reader.head() == 3
