"""One call of the append function: places, times, guards, and an answer for each append."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

from memoriale.adapters.postgres import encoding
from memoriale.adapters.postgres.append import (
    Answer,
    Append,
    GuardRefusedError,
    IdempotencyMismatchError,
    StreamConflictError,
    Wait,
    call_append,
)
from memoriale.adapters.postgres.errors import translate
from memoriale.domain.errors import InputError
from memoriale.domain.guards import Guard, NoEvent, NothingNew, StreamAt
from memoriale.domain.leaf import leaf_hash
from memoriale.domain.record import AppendReceipt
from tests.contracts.ledger import KIND, TOPIC, append, event
from tests.fixtures.postgres import Database, Ledger


class Caller:
    """Calls the append function of one log directly, without a committer."""

    def __init__(self, ledger: Ledger, connection: Connection[TupleRow]) -> None:
        self._ledger = ledger
        self._connection = connection

    def __call__(self, *appends: Append) -> list[Answer]:
        log = self._ledger.log
        return call_append(self._connection, log.tenant, log.log_id, list(appends))

    def one(self, *rows: Any, guards: tuple[Guard, ...] = ()) -> Answer:
        return self(append(*rows, guards=guards))[0]


@pytest.fixture
def call(ledger: Ledger) -> Iterator[Caller]:
    """The append function of an empty log."""
    with ledger.datastore.appending() as connection:
        encoding.prepare(connection)
        yield Caller(ledger, connection)


def receipt(answer: Answer) -> AppendReceipt:
    """The answer, which must be a receipt."""
    assert isinstance(answer, AppendReceipt)
    return answer


def test_receipt_says_where_each_event_stands(ledger: Ledger, call: Caller) -> None:
    """Index, event id and leaf of the receipt are those of the stored rows."""
    rows = [event(), event(), event()]
    answer = receipt(call.one(*rows))
    stored = ledger.reader.rows()
    assert (answer.first, answer.last, answer.created) == (0, 2, True)
    assert [ref.event_id for ref in answer.events] == [row.columns.event_id for row in rows]
    assert [ref.leaf_hash for ref in answer.events] == [leaf_hash(row) for row in stored]
    assert {row.recorded.recorded_at for row in stored} == {answer.recorded_at}
    assert {(row.recorded.append_first, row.recorded.append_last) for row in stored} == {(0, 2)}
    assert [row.columns for row in stored] == [row.columns for row in rows]


def test_indices_have_no_holes_over_calls(ledger: Ledger, call: Caller) -> None:
    """Refused appends take no index, in whatever call they were."""
    stream = uuid4()
    call(append(event(stream, 1)), append(), append(event(), event()))
    call(append(event(stream, 1)), append(), append(event(stream, 1)), append())
    call(append(event(stream, 1)))
    call(append())
    assert [row.recorded.index for row in ledger.reader.rows()] == list(range(7))


def test_times_rise_by_append(ledger: Ledger, call: Caller) -> None:
    """Each append has one time, later than that of the append before it, in one call too."""
    answers = call(*(append(event(), event()) for _ in range(50)))
    answers += call(append())
    times = [receipt(answer).recorded_at for answer in answers]
    assert all(a < b for a, b in itertools.pairwise(times))
    stored = [row.recorded.recorded_at for row in ledger.reader.rows()]
    assert stored == sorted(stored)
    assert times[49] - times[0] == timedelta(microseconds=49)


def test_clock_that_went_back_does_not_stop_appends(
    database: Database, ledger: Ledger, call: Caller
) -> None:
    """After a time in the future the next append follows it by a microsecond."""
    future = datetime(2999, 1, 1, tzinfo=UTC)
    call(append())
    with database.connect() as connection:
        connection.execute(
            "UPDATE ledger.ledger_heads SET next = next + 1, last_recorded_at = %s"
            " WHERE tenant = %s",
            [future, ledger.log.tenant],
        )
    assert receipt(call.one()).recorded_at == future + timedelta(microseconds=1)
    assert ledger.reader.ahead() > timedelta(days=365 * 900)


def test_eight_appends_of_one_call_get_the_right_answers(ledger: Ledger, call: Caller) -> None:
    """New, conflict, stale guard, new, stored before, new, doubled id, touched guard."""
    stream, owner = uuid4(), uuid4()
    before = append(event(stream, 1, owner=owner))
    assert receipt(call(before)[0]).first == 0
    doubled = append()
    answers = call(
        append(),
        append(event(stream, 1)),
        append(guards=(NothingNew(owner, KIND, -1),)),
        append(event(), event()),
        before,
        doubled,
        doubled,
        append(guards=(NoEvent((TOPIC,), 0),)),
    )
    assert receipt(answers[0]).first == 1
    assert isinstance(answers[1], StreamConflictError)
    assert isinstance(answers[2], GuardRefusedError)
    assert (receipt(answers[3]).first, receipt(answers[3]).last) == (2, 3)
    assert receipt(answers[4]).created is False
    assert receipt(answers[4]).first == 0
    assert receipt(answers[5]).first == 4
    assert answers[6] is Wait.AGAIN
    assert answers[7] is Wait.AGAIN
    assert [row.recorded.index for row in ledger.reader.rows()] == list(range(5))


def test_stored_append_returns_its_first_receipt(call: Caller) -> None:
    """The same event ids again give the receipt of the first time, marked as not created."""
    again = append(event(), event())
    first = receipt(call(again)[0])
    call(append())
    second = receipt(call(again)[0])
    assert second == replace(first, created=False)


def test_stored_append_wins_over_its_own_stale_guard(call: Caller) -> None:
    """A retry finds its own event stored, although its guard does not hold any more."""
    stream, owner = uuid4(), uuid4()
    guards: tuple[Guard, ...] = (StreamAt(stream, 0), NothingNew(owner, KIND, -1))
    again = append(event(stream, 1, owner=owner), guards=guards)
    first = receipt(call(again)[0])
    assert receipt(call(again)[0]) == replace(first, created=False)


def test_whole_file_can_be_imported_again(ledger: Ledger, call: Caller) -> None:
    """Many stored appends and a few new ones in one call are told apart."""
    old = [append(event(), event()) for _ in range(300)]
    firsts = [receipt(answer) for answer in call(*old)]
    new = [append() for _ in range(3)]
    answers = [receipt(answer) for answer in call(*old[:150], *new, *old[150:])]
    assert answers[:150] + answers[153:] == [replace(first, created=False) for first in firsts]
    assert [answer.first for answer in answers[150:153]] == [600, 601, 602]
    assert ledger.reader.head() == 603


def tagged(owner: UUID, key: bytes, request: bytes) -> Append:
    """An append with an idempotency key and a second event."""
    first = event(owner=owner, idempotency_tag=key, request_tag=request)
    return append(first, event(owner=owner))


def test_idempotency_key_returns_the_stored_receipt(call: Caller) -> None:
    """The same key and request with new event ids store nothing and return the first receipt."""
    owner = uuid4()
    first = receipt(call(tagged(owner, b"k", b"r"))[0])
    assert receipt(call(tagged(owner, b"k", b"r"))[0]) == replace(first, created=False)


def test_idempotency_key_for_another_request_is_refused(call: Caller) -> None:
    """The same key with another request is an error that names the key."""
    owner = uuid4()
    call(tagged(owner, b"k", b"r"))
    (answer,) = call(tagged(owner, b"k", b"other"))
    assert isinstance(answer, IdempotencyMismatchError)
    assert (answer.field, answer.code) == ("idempotency_key", "idempotency_mismatch")


def test_idempotency_keys_belong_to_an_owner(call: Caller) -> None:
    """Two owners may use the same key."""
    answers = call(tagged(uuid4(), b"k", b"r"), tagged(uuid4(), b"k", b"other"))
    assert [receipt(answer).created for answer in answers] == [True, True]


def test_equal_keys_in_one_call_wait_for_each_other(call: Caller) -> None:
    """The second append with a key of the same call waits, and is then found stored."""
    owner = uuid4()
    first, second = call(tagged(owner, b"k", b"r"), later := tagged(owner, b"k", b"r"))
    assert second is Wait.AGAIN
    assert receipt(call(later)[0]) == replace(receipt(first), created=False)


def test_event_id_of_something_else_is_refused(call: Caller) -> None:
    """An append that mixes a stored event with a new one stores nothing."""
    old = event()
    call(append(old))
    (answer,) = call(append(old, event()))
    assert isinstance(answer, IdempotencyMismatchError)
    assert answer.field == "event_id"


def test_stream_guard(call: Caller) -> None:
    """A stream guard holds at its version and refuses below and above it."""
    stream = uuid4()
    receipt(call.one(event(stream, 1), event(stream, 2), guards=(StreamAt(stream, 0),)))
    receipt(call.one(guards=(StreamAt(stream, 2),)))
    receipt(call.one(guards=(StreamAt(uuid4(), 0),)))
    for version in (0, 1, 3):
        answer = call.one(guards=(StreamAt(stream, version),))
        assert isinstance(answer, StreamConflictError)
        assert answer.guard == StreamAt(stream, version)
    receipt(call.one(event(stream, 3), guards=(StreamAt(stream, 2),)))


def test_server_checks_continuation_too(ledger: Ledger, call: Caller) -> None:
    """The function refuses a hole in a guarded stream by itself."""
    stream = uuid4()
    sound = append(event(stream, 1), guards=(StreamAt(stream, 0),))
    skipping = append(event(stream, 2))
    object.__setattr__(skipping, "packed_guards", sound.packed_guards)
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        call(skipping)
    assert ledger.reader.head() == 0


def test_guards_of_an_owner_and_kind(call: Caller) -> None:
    """Nothing new means no later event of this owner, this kind and this branch."""
    owner, branch = uuid4(), uuid4()
    index = receipt(call.one(event(owner=owner, branch=branch))).last
    receipt(call.one(guards=(NothingNew(owner, KIND, index),)))
    receipt(call.one(guards=(NothingNew(owner, "other", -1),)))
    receipt(call.one(guards=(NothingNew(uuid4(), KIND, -1),)))
    receipt(call.one(guards=(NothingNew(owner, KIND, -1, uuid4()),)))
    for guard in (NothingNew(owner, KIND, index - 1), NothingNew(owner, KIND, -1, branch)):
        answer = call.one(guards=(guard,))
        assert isinstance(answer, GuardRefusedError)
        assert answer.guard == guard


def test_guards_of_topics(call: Caller) -> None:
    """No event means no later event of these topics, of one owner if one is named."""
    owner, topic = uuid4(), 'hold "placed" \\ {x,y}'
    index = receipt(call.one(event(owner=owner, topic=topic))).last
    receipt(call.one(guards=(NoEvent((topic, "x"), index),)))
    receipt(call.one(guards=(NoEvent(("hold.released",), -1),)))
    receipt(call.one(guards=(NoEvent((topic,), -1, uuid4()),)))
    for guard in (NoEvent(("x", topic), index - 1), NoEvent((topic,), -1, owner)):
        answer = call.one(guards=(guard,))
        assert isinstance(answer, GuardRefusedError)
        assert answer.guard == guard


def test_refusal_names_the_first_guard_that_fails(call: Caller) -> None:
    """Of several guards the answer names the first that does not hold."""
    owner = uuid4()
    call.one(event(owner=owner))
    broken = NothingNew(owner, KIND, -1)
    answer = call.one(guards=(NoEvent(("none",), -1), broken, NoEvent((TOPIC,), -1)))
    assert isinstance(answer, GuardRefusedError)
    assert answer.guard == broken


@pytest.mark.parametrize("guarded", [False, True])
def test_later_versions_of_one_call_wait_for_a_guard(call: Caller, guarded: bool) -> None:
    """Consecutive versions in one call are stored in order, with stream guards by waiting."""
    stream = uuid4()
    todo = [
        append(event(stream, n + 1), guards=(StreamAt(stream, n),) if guarded else ())
        for n in range(4)
    ]
    calls = 0
    while todo:
        answers = call(*todo)
        assert all(isinstance(answer, AppendReceipt | Wait) for answer in answers)
        todo = [item for item, got in zip(todo, answers, strict=True) if isinstance(got, Wait)]
        calls += 1
    assert calls == (4 if guarded else 1)


def test_append_touched_by_an_earlier_one_waits(call: Caller) -> None:
    """A guard that an earlier append of the same call touches makes its append wait."""
    owner, branch = uuid4(), uuid4()
    head = receipt(call.one()).last
    guards: list[Guard] = [
        NothingNew(owner, KIND, head),
        NothingNew(owner, KIND, head, branch),
        NoEvent(("a", TOPIC), head),
        NoEvent((TOPIC,), head, owner),
    ]
    free: list[Guard] = [
        NothingNew(owner, "other", head),
        NothingNew(owner, KIND, head, uuid4()),
        NoEvent(("a",), head),
        NoEvent((TOPIC,), head, uuid4()),
    ]
    touching = append(event(owner=owner, branch=branch))
    waiting = [append(guards=(guard,)) for guard in guards]
    passing = [append(event(topic="x"), guards=(guard,)) for guard in free]
    answers = call(touching, *waiting, *passing)
    assert answers[1:5] == [Wait.AGAIN] * 4
    assert all(isinstance(answer, AppendReceipt) for answer in answers[5:])


def test_synchronous_commit_off_is_refused(ledger: Ledger) -> None:
    """A session whose commits may be lost cannot append."""
    with ledger.datastore.connect_for_appending() as connection:
        encoding.prepare(connection)
        connection.execute("SET synchronous_commit = off")
        with pytest.raises(psycopg.Error) as caught:
            Caller(ledger, connection).one()
        connection.execute("SET synchronous_commit = on")
        assert receipt(Caller(ledger, connection).one()).first == 0
    error = translate(caught.value, "here")
    assert (type(error), error.code) == (InputError, "not_durable")


def test_unknown_log_is_refused(ledger: Ledger, call: Caller) -> None:
    """A log of another tenant, or none, takes no append."""
    with ledger.datastore.appending() as connection:
        encoding.prepare(connection)
        with pytest.raises(psycopg.Error) as caught:
            call_append(connection, ledger.log.tenant, uuid4(), [append()])
    assert translate(caught.value, "here").code == "unknown_log"


def test_ten_thousand_events_and_a_large_state(ledger: Ledger, call: Caller) -> None:
    """One append of 10,000 events and one of 20 MB are stored and read back."""
    many = receipt(call.one(*(event() for _ in range(10_000))))
    assert (many.first, many.last, len(many.events)) == (0, 9_999, 10_000)
    state = bytes(range(256)) * 80_000
    large = receipt(call.one(event(state=state)))
    (row,) = ledger.reader.rows(large.first - 1)
    assert row.state == state
    assert row.recorded.leaf_hash == leaf_hash(row)


def test_subjects_are_found_by_person(ledger: Ledger, call: Caller) -> None:
    """An event stands under its owner if that is a user, and under all whom it is about."""
    user, agent, other = uuid4(), uuid4(), uuid4()
    call.one(
        event(owner=user, about=(user,)), event(owner=user, about=tuple(sorted((user, other))))
    )
    call.one(event(owner=agent, owner_type="agent", about=(other,)))
    with ledger.datastore.read(ledger.log.tenant) as connection:
        found = connection.execute("SELECT subject, index FROM ledger.ledger_subjects").fetchall()
    assert sorted(found) == sorted([(user, 0), (user, 1), (other, 1), (other, 2)])


def test_header_is_stored_as_given(ledger: Ledger, call: Caller) -> None:
    """No space and no order of a header changes on its way."""
    header = '{"b": 1,  "a":"\u00e9\u0301 \U0001f600"}'
    call.one(event(header=header))
    assert ledger.reader.rows()[0].header == header
