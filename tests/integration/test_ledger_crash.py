"""A server that is killed under its writers: what was acknowledged is there, once."""

import os
import signal
import threading
from collections import Counter
from pathlib import Path
from uuid import UUID

import pytest

from memoriale.adapters.embedded import start
from memoriale.adapters.postgres.committer import Committer
from memoriale.adapters.postgres.datastore import Datastore
from memoriale.adapters.postgres.logs import Log, open_log
from memoriale.adapters.postgres.migrate import migrate
from memoriale.adapters.postgres.reading import LedgerReader
from memoriale.domain.errors import UnavailableError
from memoriale.domain.leaf import leaf_hash
from tests.contracts.ledger import append, event
from tests.fixtures.embedded import eventually, postmaster_of

KILLS = 3


class Writer(threading.Thread):
    """Appends until it is told to stop, and repeats what it does not know to be stored."""

    def __init__(self, committer: Committer, stopped: threading.Event) -> None:
        super().__init__()
        self._committer = committer
        self._stopped = stopped
        self.acknowledged: dict[UUID, int] = {}

    def run(self) -> None:
        while not self._stopped.is_set():
            made = append(event(), event())
            while True:
                try:
                    receipt = self._committer.submit(made)
                except UnavailableError:
                    if self._stopped.wait(0.05):
                        return
                else:
                    break
            self.acknowledged.update((ref.event_id, ref.index) for ref in receipt.events)


def writers_of(url: str, log: Log, stopped: threading.Event) -> tuple[list[Writer], list[object]]:
    """Four writers, two on each of two committers."""
    stores = [Datastore(url) for _ in range(2)]
    committers = [Committer(store, log) for store in stores]
    return [Writer(committers[n % 2], stopped) for n in range(4)], [*committers, *stores]


@pytest.mark.slow
def test_acknowledged_appends_survive_a_killed_server(home: Path) -> None:
    """After kill -9 of the server under 4 writers nothing is lost, doubled or left out."""
    server = start(home, idle_seconds=0.0)
    migrate(server.superuser_url)
    with Datastore(server.app_url) as datastore:
        log = open_log(datastore, "acme")
        reader = LedgerReader(datastore, log)
        stopped = threading.Event()
        writers, resources = writers_of(server.app_url, log, stopped)
        for writer in writers:
            writer.start()
        for _ in range(KILLS):
            before = [len(writer.acknowledged) for writer in writers]
            assert eventually(
                lambda known=before: all(  # type: ignore[misc]
                    len(writer.acknowledged) > count + 40
                    for writer, count in zip(writers, known, strict=True)
                )
            )
            os.kill(postmaster_of(home), signal.SIGKILL)
            server.release()
            server = start(home, idle_seconds=0.0)
        stopped.set()
        for writer in writers:
            writer.join(60)
        for resource in resources:
            resource.close()  # type: ignore[attr-defined]
        rows = reader.rows()
    server.release()

    assert [row.recorded.index for row in rows] == list(range(len(rows)))
    counts = Counter(row.columns.event_id for row in rows)
    assert set(counts.values()) == {1}
    places = {row.columns.event_id: row.recorded.index for row in rows}
    for writer in writers:
        assert writer.acknowledged.items() <= places.items()
    assert all(leaf_hash(row) == row.recorded.leaf_hash for row in rows)
