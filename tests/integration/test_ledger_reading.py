"""Reading a log: by place, stream, memory, owner, time, and its holes."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from memoriale.domain.errors import InputError, UnavailableError
from tests.contracts.ledger import KIND, append, event
from tests.fixtures.postgres import Database, Ledger


def fill(ledger: Ledger, *sizes: int) -> None:
    """Appends of these numbers of events."""
    ledger.committer.submit_many(append(*(event() for _ in range(size))) for size in sizes)


def indices(rows: object) -> list[int]:
    """The indices of rows."""
    return [row.recorded.index for row in rows]  # type: ignore[attr-defined]


def test_head_counts_the_events(ledger: Ledger) -> None:
    """The head is the number of events, from nought."""
    assert ledger.reader.head() == 0
    fill(ledger, 2, 3)
    assert ledger.reader.head() == 5


def test_clock_is_the_databases_in_utc(ledger: Ledger) -> None:
    """The clock is aware, in UTC, and not behind the last recorded time."""
    recorded = ledger.committer.submit(append()).recorded_at
    now = ledger.reader.now()[1]
    assert now.tzinfo is UTC
    assert recorded.tzinfo is UTC
    assert now > recorded
    assert ledger.reader.ahead() == timedelta()


@pytest.mark.parametrize(
    ("after", "stop", "limit", "expected"),
    [
        (-1, None, None, [0, 1, 2, 3, 4]),
        (1, None, None, [2, 3, 4]),
        (-1, 3, None, [0, 1, 2]),
        (0, 4, 2, [1, 2]),
        (4, None, None, []),
        (9, None, None, []),
        (3, 2, None, []),
        (-1, None, 0, []),
    ],
)
def test_rows_by_index(
    ledger: Ledger, after: int, stop: int | None, limit: int | None, expected: list[int]
) -> None:
    """Rows start after an index, end before another, and are limited."""
    fill(ledger, 2, 3)
    assert indices(ledger.reader.rows(after, stop, limit)) == expected


def delete(database: Database, ledger: Ledger, index: int) -> None:
    """Remove an event as an attacker with every right would."""
    with database.connect() as connection:
        connection.execute("ALTER TABLE ledger.ledger_events DISABLE TRIGGER append_only")
        connection.execute(
            "DELETE FROM ledger.ledger_events WHERE tenant = %s AND index = %s",
            [ledger.log.tenant, index],
        )
        connection.execute("ALTER TABLE ledger.ledger_events ENABLE ALWAYS TRIGGER append_only")


@pytest.mark.parametrize("missing", [0, 2, 4])
def test_hole_is_an_error(fresh_database: Database, fresh_ledger: Ledger, missing: int) -> None:
    """A missing event, the last one too, is named; rows before it can still be read."""
    fill(fresh_ledger, 5)
    delete(fresh_database, fresh_ledger, missing)
    with pytest.raises(UnavailableError) as caught:
        fresh_ledger.reader.rows()
    assert (caught.value.code, caught.value.value) == ("hole", missing)
    with pytest.raises(UnavailableError):
        list(fresh_ledger.reader.stream_rows(batch=2))
    assert indices(fresh_ledger.reader.rows(stop=missing)) == list(range(missing))


@pytest.mark.parametrize("batch", [1, 2, 3, 100])
def test_stream_rows_gives_everything_in_lists(ledger: Ledger, batch: int) -> None:
    """The whole log comes in order, in lists of the size asked for."""
    fill(ledger, 1, 4, 2)
    lists = list(ledger.reader.stream_rows(batch=batch))
    assert [index for rows in lists for index in indices(rows)] == list(range(7))
    assert max(len(rows) for rows in lists) <= batch
    assert indices(next(ledger.reader.stream_rows(5, batch=100))) == [5, 6]
    assert list(ledger.reader.stream_rows(stop=0)) == []


@pytest.mark.parametrize("batch", [1, 2, 3, 4, 100])
def test_stream_rows_never_cuts_an_append(ledger: Ledger, batch: int) -> None:
    """With whole appends each list ends where an append ends."""
    fill(ledger, 1, 4, 2)
    lists = list(ledger.reader.stream_rows(batch=batch, whole_appends=True))
    for rows in lists:
        assert rows[-1].recorded.index == rows[-1].recorded.append_last
    assert [index for rows in lists for index in indices(rows)] == list(range(7))


def test_stream_rows_leaves_the_state_out(ledger: Ledger) -> None:
    """Readers of headers need not carry the sealed states."""
    fill(ledger, 2)
    (rows,) = ledger.reader.stream_rows(with_state=False)
    assert [row.state for row in rows] == [None, None]
    assert rows[0].header == '{"kind":"fact"}'


def test_stream_by_version(ledger: Ledger) -> None:
    """A stream is read between versions, in both directions, with a limit."""
    stream = uuid4()
    for version in range(1, 6):
        ledger.committer.submit(append(event(stream, version), event()))

    def versions(**arguments: int | bool | None) -> list[int]:
        rows = ledger.reader.stream(stream, **arguments)  # type: ignore[arg-type]
        return [row.columns.stream_version for row in rows]

    assert versions() == [1, 2, 3, 4, 5]
    assert versions(gt=2) == [3, 4, 5]
    assert versions(gt=1, lte=3) == [2, 3]
    assert versions(desc=True, limit=2) == [5, 4]
    assert ledger.reader.stream(uuid4()) == []


def test_memory_and_latest(ledger: Ledger) -> None:
    """All events of a memory come by index; the latest is the last of them."""
    one, two = uuid4(), uuid4()
    for memory in (one, two, one):
        ledger.committer.submit(append(event(memory_id=memory)))
    assert indices(ledger.reader.memory(one)) == [0, 2]
    latest = ledger.reader.latest([one, two, uuid4()])
    assert {memory: row.recorded.index for memory, row in latest.items()} == {one: 2, two: 1}
    assert ledger.reader.latest([]) == {}


def test_slice_of_owner_and_kind(ledger: Ledger) -> None:
    """A slice holds one owner's events of one kind, up to an index, on some branches."""
    owner, main, fork = uuid4(), uuid4(), uuid4()
    for branch, kind in ((main, KIND), (fork, KIND), (main, "other"), (main, KIND)):
        ledger.committer.submit(append(event(owner=owner, branch=branch, kind=kind), event()))
    reader = ledger.reader
    assert indices(reader.slice(owner, KIND)) == [0, 2, 6]
    assert indices(reader.slice(owner, KIND, up_to=2)) == [0, 2]
    assert indices(reader.slice(owner, KIND, branches=[main])) == [0, 6]
    assert indices(reader.slice(owner, KIND, up_to=5, branches=[main])) == [0]
    assert reader.slice(owner, KIND, branches=[]) == []
    assert reader.slice(uuid4(), KIND) == []


def test_aspect_is_searched_by_the_server(ledger: Ledger) -> None:
    """Memories of a slice whose header holds a text come once each, oldest first."""
    owner, branch = uuid4(), uuid4()
    memories = [uuid4() for _ in range(3)]
    needle = '"aspect":"100%_\\'
    for memory, header in zip(
        [memories[1], memories[0], memories[1], memories[2]],
        [needle, "x" + needle + "y", needle, "other"],
        strict=True,
    ):
        row = event(owner=owner, memory_id=memory, branch=branch, header=header)
        ledger.committer.submit(append(row))
    reader = ledger.reader
    assert reader.aspect(owner, KIND, None, needle) == [memories[1], memories[0]]
    assert reader.aspect(owner, KIND, [branch], needle, up_to=0) == [memories[1]]
    assert reader.aspect(owner, KIND, [uuid4()], needle) == []


def test_by_event_id(ledger: Ledger) -> None:
    """An event is found by its id, and another tenant's is not."""
    row = event()
    ledger.committer.submit(append(row))
    found = ledger.reader.by_event_id(row.columns.event_id)
    assert found is not None
    assert found.columns == row.columns
    assert ledger.reader.by_event_id(uuid4()) is None


def test_pin_rounds_up_to_the_end_of_an_append(ledger: Ledger) -> None:
    """An index inside an append means the whole append."""
    fill(ledger, 1, 3, 1)
    assert [ledger.reader.pin_index(index) for index in range(5)] == [0, 3, 3, 3, 4]
    for outside in (-1, 5):
        with pytest.raises(InputError) as caught:
            ledger.reader.pin_index(outside)
        assert caught.value.field == "as_of"


def test_pin_of_a_time(ledger: Ledger) -> None:
    """A time means the last append recorded at or before it."""
    assert ledger.reader.pin_time(ledger.reader.now()[1]) is None
    receipts = [ledger.committer.submit(append(*(event(),) * 1, event())) for _ in range(20)]
    for receipt in receipts:
        assert ledger.reader.pin_time(receipt.recorded_at) == receipt.last
        earlier = receipt.recorded_at - timedelta(microseconds=1)
        assert ledger.reader.pin_time(earlier) == (receipt.first - 1 if receipt.first else None)
    assert ledger.reader.pin_time(ledger.reader.now()[1]) == receipts[-1].last
    assert ledger.reader.pin_time(datetime(1990, 1, 1, tzinfo=UTC)) is None


def test_times_that_cannot_be_pinned(ledger: Ledger) -> None:
    """A time in the future or without a zone is refused."""
    for time in (datetime(2999, 1, 1, tzinfo=UTC), datetime(2020, 1, 1)):
        with pytest.raises(InputError) as caught:
            ledger.reader.pin_time(time)
        assert caught.value.field == "as_of"


def test_logs_of_two_tenants_are_apart(new_ledger: Callable[[], Ledger]) -> None:
    """A reader sees the events of its own log only."""
    one, two = new_ledger(), new_ledger()
    row = event()
    one.committer.submit(append(row))
    assert two.reader.rows() == []
    assert two.reader.by_event_id(row.columns.event_id) is None
    assert two.reader.stream(row.columns.stream_id) == []
    assert two.reader.slice(row.columns.owner, KIND) == []
