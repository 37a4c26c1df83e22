"""A reader that tails the log while many write: nothing missed, no half appends, in order."""

import random
import threading
from uuid import UUID

from memoriale.adapters.postgres import encoding
from memoriale.adapters.postgres.append import call_append
from memoriale.adapters.postgres.datastore import Datastore
from memoriale.adapters.postgres.reading import LedgerReader
from memoriale.domain.record import AppendReceipt, Row
from tests.contracts.ledger import append, event
from tests.fixtures.postgres import Database, Ledger

WRITERS = 8
APPENDS = 25


class SlowWriter(threading.Thread):
    """Appends in transactions that commit late, or not at all."""

    def __init__(self, database: Database, ledger: Ledger, seed: int) -> None:
        super().__init__()
        self._database = database
        self._ledger = ledger
        self._random = random.Random(seed)
        self.stored: set[UUID] = set()

    def run(self) -> None:
        with Datastore(self._database.app_url) as datastore, datastore.appending() as connection:
            encoding.prepare(connection)
            log = self._ledger.log
            for _ in range(APPENDS):
                made = append(*(event() for _ in range(self._random.randint(1, 5))))
                delay, keep = self._random.random() * 0.01, self._random.random() < 0.8
                connection.execute("BEGIN")
                (answer,) = call_append(connection, log.tenant, log.log_id, [made])
                assert isinstance(answer, AppendReceipt)
                connection.execute("SELECT pg_sleep(%s)", [delay])
                connection.execute("COMMIT" if keep else "ROLLBACK")
                if keep:
                    self.stored.update(ref.event_id for ref in answer.events)


def test_tailing_reader_misses_nothing(database: Database, ledger: Ledger) -> None:
    """With 8 writers and slow commits a reader sees each committed event once, in order."""
    writers = [SlowWriter(database, ledger, seed) for seed in range(WRITERS)]
    seen: list[Row] = []
    finished = threading.Event()

    def tail() -> None:
        with Datastore(database.app_url) as datastore:
            reader = LedgerReader(datastore, ledger.log)
            last_round = False
            while True:
                found = reader.rows(len(seen) - 1)
                if found:
                    assert found[-1].recorded.index == found[-1].recorded.append_last
                    assert found[0].recorded.index == found[0].recorded.append_first
                seen.extend(found)
                if last_round:
                    return
                last_round = finished.is_set()

    failures: list[BaseException] = []

    def guarded_tail() -> None:
        try:
            tail()
        except BaseException as error:
            failures.append(error)
            raise

    reading = threading.Thread(target=guarded_tail)
    reading.start()
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(120)
    finished.set()
    reading.join(60)
    assert failures == []
    assert [row.recorded.index for row in seen] == list(range(len(seen)))
    assert {row.columns.event_id for row in seen} == set().union(*(w.stored for w in writers))
    times = [row.recorded.recorded_at for row in seen]
    assert times == sorted(times)
