"""The cost of an append: what the server reads for it does not grow with the log."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import UUID, uuid4

from psycopg import Connection
from psycopg.rows import TupleRow

from memoriale.adapters.postgres import encoding
from memoriale.adapters.postgres.append import Append, call_append
from memoriale.domain.guards import Guard, NoEvent, NothingNew, StreamAt
from memoriale.domain.record import AppendReceipt
from tests.contracts.ledger import KIND, append, event
from tests.fixtures.postgres import Database, Ledger

Measure = Callable[[list[list[Append]]], int]


@contextmanager
def measuring(database: Database, ledger: Ledger) -> Iterator[Measure]:
    """Counts the rows and index entries that calls of one session read."""
    with ledger.datastore.connect_for_appending() as session:
        encoding.prepare(session)

        def measure(calls: list[list[Append]]) -> int:
            before = rows_read(database, session)
            for appends in calls:
                log = ledger.log
                answers = call_append(session, log.tenant, log.log_id, appends)
                assert all(isinstance(answer, AppendReceipt) for answer in answers)
            return rows_read(database, session) - before

        yield measure


def rows_read(database: Database, session: Connection[TupleRow]) -> int:
    """Rows and index entries of the ledger that were read so far."""
    session.execute("SELECT pg_stat_force_next_flush()")
    session.execute("SELECT 1")
    return counted(database)


def counted(database: Database) -> int:
    """Rows and index entries of the ledger that are in the statistics."""
    with database.connect() as connection:
        found = connection.execute(
            "SELECT (SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) FROM pg_stat_all_tables"
            " WHERE schemaname = 'ledger' AND relname <> 'migrations')"
            " + (SELECT sum(idx_tup_read) FROM pg_stat_all_indexes WHERE schemaname = 'ledger'"
            " AND relname <> 'migrations')"
        ).fetchone()
    assert found is not None
    return int(found[0])


def test_plain_append_reads_its_head_and_nothing_else(
    fresh_database: Database, fresh_ledger: Ledger
) -> None:
    """A first call of 1,000 events and 100 more in one session read the head row only."""
    with measuring(fresh_database, fresh_ledger) as measure:
        first = measure([[append(*(event() for _ in range(1000)))]])
        more = measure([[append()] for _ in range(100)])
        many = measure([[append() for _ in range(1000)]])
    # The head is locked, updated, and met through its older versions on the page.
    assert first <= 10
    assert more <= 100 * 10
    assert many <= 10


def test_guarded_append_reads_a_fixed_number_of_rows(
    fresh_database: Database, fresh_ledger: Ledger
) -> None:
    """Guards and the sorting of many appends cost a few rows each, however long the log."""

    def guarded(count: int) -> list[Append]:
        appends = []
        for _ in range(count):
            stream, owner = uuid4(), uuid4()
            guards = (StreamAt(stream, 0), NothingNew(owner, KIND, -1))
            appends.append(append(event(stream, 1, owner=owner), guards=guards))
        return appends

    with measuring(fresh_database, fresh_ledger) as measure:
        measure([[append(*(event() for _ in range(1000)))]])
        single = [measure([[each] for each in guarded(50)]) for _ in range(2)]
        called = [measure([guarded(50) for _ in range(4)]) for _ in range(2)]
        measure([[append(*(event() for _ in range(5000)))]])
        single.append(measure([[each] for each in guarded(50)]))
        called.append(measure([guarded(50) for _ in range(4)]))
    assert max(single) <= 50 * 20
    assert max(called) <= 200 * 20


def test_guards_planned_on_an_empty_log_read_a_fixed_number_of_rows(
    fresh_database: Database, fresh_ledger: Ledger
) -> None:
    """Each kind of guard costs a few rows in a session that planned it before the first event."""

    def guarded() -> list[list[Append]]:
        head = fresh_ledger.reader.head() - 1
        kinds: tuple[Callable[[UUID, UUID], Guard], ...] = (
            lambda stream, owner: StreamAt(stream, 0),
            lambda stream, owner: NothingNew(owner, KIND, -1),
            lambda stream, owner: NothingNew(owner, KIND, head, uuid4()),
            lambda stream, owner: NoEvent(("hold.placed",), head, owner),
        )
        calls = []
        for guard in kinds:
            stream, owner = uuid4(), uuid4()
            calls.append([append(event(stream, 1, owner=owner), guards=(guard(stream, owner),))])
        return calls

    with measuring(fresh_database, fresh_ledger) as measure:
        measure(guarded())
        measure([[append(*(event() for _ in range(5000)))]])
        costs = [measure([call]) for call in guarded()]
    assert max(costs) <= 20


def test_repeated_append_reads_a_fixed_number_of_rows(
    fresh_database: Database, fresh_ledger: Ledger
) -> None:
    """Finding an append stored before takes a few rows for each of its events."""
    old = [append(event(), event()) for _ in range(500)]
    with measuring(fresh_database, fresh_ledger) as measure:
        measure([old])
        again = measure([old])
        measure([[append(*(event() for _ in range(5000)))]])
        later = measure([old])
    assert again <= 1000 * 12
    assert later <= 1000 * 12


def test_reads_take_the_key_that_serves_them(
    fresh_database: Database, fresh_ledger: Ledger
) -> None:
    """On a table without statistics each look-up reads its own rows, not the whole log."""
    rows = [event(memory_id=uuid4(), branch=uuid4()) for _ in range(3000)]
    fresh_ledger.committer.submit_many(append(*rows[at : at + 500]) for at in range(0, 3000, 500))
    reader, columns = fresh_ledger.reader, rows[1234].columns
    assert columns.memory_id is not None
    memory_id = columns.memory_id
    reads: list[Callable[[], object]] = [
        lambda: reader.stream(columns.stream_id),
        lambda: reader.memory(memory_id),
        lambda: reader.latest([memory_id]),
        lambda: reader.slice(columns.owner, KIND),
        lambda: reader.aspect(columns.owner, KIND, None, "fact"),
        lambda: reader.by_event_id(columns.event_id),
        lambda: reader.pin_index(1234),
        lambda: reader.rows(1000, limit=1),
        reader.head,
    ]
    for read in reads:
        before = settled(fresh_database, fresh_ledger)
        for _ in range(10):
            assert read()
        assert 0 < settled(fresh_database, fresh_ledger) - before <= 10 * 12


def settled(database: Database, ledger: Ledger) -> int:
    """What was read so far, by the one pooled connection as well."""
    with ledger.datastore.read(ledger.log.tenant) as session:
        session.execute("SELECT pg_stat_force_next_flush()")
    return counted(database)
