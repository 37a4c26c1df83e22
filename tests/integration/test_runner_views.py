"""Background runners: one of them posts a view at a time, and another takes over when it dies."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest

import memoriale
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.postgres.datastore import Datastore
from memoriale.adapters.postgres.locks import AdvisoryLocks, view_key
from memoriale.adapters.runner.duty import Health, State
from memoriale.adapters.runner.runner import Runner
from memoriale.domain.errors import ConflictError, InputError
from memoriale.projections.recall.view import RecallView
from tests.fixtures.ledger import HASHING
from tests.fixtures.postgres import Database
from tests.fixtures.proxy import proxied

SECONDS: Final = 60.0

# Runs a runner until it is killed and says so whenever the state of a view changes.
WORKER: Final = """
import sys, time
import memoriale
from memoriale.adapters.runner.runner import Runner
home, url, embedder, tenant = sys.argv[1:]
with memoriale.open(home=home, database_url=url, embedder=embedder) as ledger:
    with Runner(ledger, tenants=[tenant]) as runner:
        told = {}
        while True:
            for health in runner.health():
                if told.get(health.view) != health.state:
                    told[health.view] = health.state
                    print(health.view, health.state, flush=True)
            time.sleep(0.01)
"""


class Worker:
    """A runner in a process of its own, and what it says."""

    def __init__(self, home: Path, url: str, tenant: str) -> None:
        command = [sys.executable, "-c", WORKER, str(home), url, HASHING, tenant]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self._states: dict[str, str] = {}
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def states(self) -> dict[str, str]:
        return dict(self._states)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self._thread.join()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            view, state = line.split()
            self._states[view] = state


@pytest.fixture
def worker(
    shared_ledger: Ledger, ledger_home: Path, shared_url: str, tenant: str
) -> Iterator[Callable[[], Worker]]:
    workers: list[Worker] = []

    def start() -> Worker:
        workers.append(Worker(ledger_home, shared_url, tenant))
        return workers[-1]

    yield start
    for each in workers:
        each.kill()


def until(holds: Callable[[], Any]) -> None:
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def until_all(worker: Worker, state: str) -> None:
    until(lambda: worker.states() == {"recall": state, "stats": state})


def posted(ledger: Ledger, tenant: str, view: str = "recall") -> int:
    return ledger.position(view, tenant=tenant)


def head(ledger: Ledger, tenant: str) -> int:
    return ledger.tenant(tenant).log.head()


def states(runner: Runner) -> set[State]:
    return {health.state for health in runner.health()}


def check_equal(ledger: Ledger, tenant: str) -> None:
    """Both views are those that a rebuild gives, and nothing is wrong with a row."""
    assert all(report.ok for report in ledger.reconcile(tenant=tenant))
    assert all(report.equal for report in ledger.replay(tenant=tenant, verify=True))


def test_views_are_posted(shared_ledger: Ledger, alice: Memory, tenant: str) -> None:
    """Nobody reads, and yet both views reach the head; health tells it; stop ends it."""
    runner = Runner(shared_ledger, tenants=[tenant])
    assert states(runner) == set()
    with runner:
        for number in range(5):
            alice.remember(f"note {number}")
        until(lambda: all(health.position == 5 for health in runner.health()))
        assert [(h.tenant, h.view, h.state, h.head, h.lag, h.error) for h in runner.health()] == [
            (tenant, view, State.ACTIVE, 5, 0, None) for view in ("recall", "stats")
        ]
        assert posted(shared_ledger, tenant) == 5
    assert states(runner) == {State.STOPPED}
    alice.remember("later")
    assert posted(shared_ledger, tenant) == 5
    with runner:
        until(lambda: posted(shared_ledger, tenant) == 6)
    check_equal(shared_ledger, tenant)


def test_damaged_view_heals(shared_ledger: Ledger, alice: Memory, tenant: str) -> None:
    """A view that is damaged is rebuilt when the next event is to be posted."""
    alice.remember("one")
    with Runner(shared_ledger, tenants=[tenant]) as runner:
        until(lambda: all(health.position == 1 for health in runner.health()))
        live = shared_ledger.tenant(tenant).view("recall").generations.current()
        assert live is not None
        for path in live.folder.rglob("*.manifest"):
            path.write_bytes(b"")
        alice.remember("two")
        until(lambda: all(health.position == 2 for health in runner.health()))
    assert [hit.content for hit in alice.recall("two", top_k=1)] == ["two"]


def test_one_writes_at_a_time(
    shared_ledger: Ledger, alice: Memory, tenant: str, worker: Callable[[], Worker]
) -> None:
    """Of two runners one is active; when it is killed the other takes over; the views end as a
    rebuild gives them."""
    alice.remember("the first")
    active = worker()
    until_all(active, "active")
    for round_ in range(3):
        other = worker()
        until_all(other, "standby")
        alice.remember_many([{"content": f"note {round_} {number}"} for number in range(50)])
        assert active.states() == {"recall": "active", "stats": "active"}
        active.kill()
        until_all(other, "active")
        alice.remember(f"after {round_}")
        until(lambda: posted(shared_ledger, tenant) == head(shared_ledger, tenant))
        active = other
    check_equal(shared_ledger, tenant)


@contextmanager
def second_ledger(home: Path, url: str) -> Iterator[Ledger]:
    with memoriale.open(home=home, database_url=url, embedder=HASHING, wait=30) as ledger:
        yield ledger


def test_dropped_session(
    shared_ledger: Ledger,
    ledger_home: Path,
    shared_url: str,
    alice: Memory,
    tenant: str,
    database: Database,
) -> None:
    """When the active runner loses its session while it posts, the other one takes over; both
    wrote, nothing is twice or lost, and a late batch of the first is refused."""
    with second_ledger(ledger_home, shared_url) as second:
        first = Runner(shared_ledger, tenants=[tenant], views=["recall"])
        other = Runner(second, tenants=[tenant], views=["recall"])
        with first:
            until(lambda: states(first) == {State.ACTIVE})
            with other:
                until(lambda: states(other) == {State.STANDBY})
                for round_ in range(4):
                    alice.remember_many([{"content": f"{round_} {n}"} for n in range(100)])
                    drop_session(database, shared_ledger, tenant)
                    until(lambda: {*states(first), *states(other)} <= {*BOTH})
                until(lambda: sorted([*states(first), *states(other)]) == [*BOTH])
                until(lambda: posted(second, tenant) == head(second, tenant))
        stale(shared_ledger, tenant)
        check_equal(second, tenant)


BOTH: Final = (State.ACTIVE, State.STANDBY)


def drop_session(database: Database, ledger: Ledger, tenant: str) -> None:
    """Ends the session at the server that holds the lock of the tenant's recall view."""
    key = view_key(ledger.tenant(tenant).log.log_id, "recall")
    with database.connect() as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
            " AND (classid::bigint << 32) | objid::bigint = %s",
            [key],
        )


def stale(ledger: Ledger, tenant: str) -> None:
    """A writer that still believes in an earlier position is refused and changes nothing."""
    services = ledger.tenant(tenant)
    with services.view("recall").read(wait=30) as reading:
        view: RecallView = reading.view
        before = view.digest()
        batch = next(services.log.batches(100, 200, 100))
        with pytest.raises(ConflictError):
            view.apply(batch, 100)
        assert view.digest() == before


def test_database_away(
    ledger_home: Path, shared_ledger: Ledger, shared_url: str, alice: Memory, tenant: str
) -> None:
    """While the database is away the runner says so and tries again; then it goes on."""
    alice.remember("one")
    with proxied(shared_url) as proxy, second_ledger(ledger_home, proxy.url) as ledger:
        runner = Runner(ledger, tenants=[tenant])
        with runner:
            until(lambda: all(health.position == 1 for health in runner.health()))
            proxy.lose_next_answer(1_000_000)
            until(lambda: states(runner) == {State.FAILING})
            until(lambda: all(health.failures > 1 for health in runner.health()))
            failing: list[Health] = runner.health()
            assert all(h.error and h.error_at and h.position == 1 for h in failing)
            alice.remember("two")
            proxy.lose_next_answer(0)
            until(lambda: all(health.position == 2 for health in runner.health()))
            assert [(h.error, h.failures) for h in runner.health()] == [(None, 0), (None, 0)]


def test_many_tenants(shared_ledger: Ledger, tenant: str) -> None:
    """One runner serves several tenants; each view gets where its own log ends."""
    tenants = [f"{tenant}-{number}" for number in range(4)]
    for number, name in enumerate(tenants):
        memory = shared_ledger.memory(tenant=name, user="u")
        memory.remember_many([{"content": str(n)} for n in range(number)] or [{"content": "x"}])
    with Runner(shared_ledger, tenants=tenants) as runner:
        until(lambda: all(h.lag == 0 and h.state is State.ACTIVE for h in runner.health()))
        found = {(h.tenant, h.view): h.position for h in runner.health()}
    heads = {name: head(shared_ledger, name) for name in tenants}
    assert found == {(n, view): heads[n] for n in tenants for view in ("recall", "stats")}


@pytest.mark.parametrize(
    "arguments",
    [
        {"tenants": []},
        {"tenants": "acme"},
        {"tenants": ["acme"], "views": ["proofs"]},
        {"tenants": ["acme"], "views": []},
        {"tenants": ["acme"], "views": "recall"},
    ],
)
def test_wrong_arguments(shared_ledger: Ledger, arguments: dict[str, Any]) -> None:
    """A runner without tenants, or of an unknown view, is refused."""
    with pytest.raises(InputError):
        Runner(shared_ledger, **arguments)


def test_locks(shared_url: str, database: Database) -> None:
    """A lock is held by one session at a time, may be asked for again, and ends with it."""
    with Datastore(shared_url) as datastore:
        key, other = -(2**62) - 12345, 2**40 + 7
        first, second = AdvisoryLocks(datastore), AdvisoryLocks(datastore)
        with first, second:
            assert first.hold(key)
            assert first.hold(key)
            assert not second.hold(key)
            assert second.hold(other)
            first.release(key)
            assert second.hold(key)
            assert not first.hold(key)
            with database.connect() as connection:
                connection.execute("SELECT pg_terminate_backend(%s)", [second.backend])
            until(lambda: first.hold(key))
            assert not second.hold(key)
            assert second.hold(other)
        with AdvisoryLocks(datastore) as third:
            until(lambda: third.hold(key))


def test_lock_needs_a_database(shared_url: str) -> None:
    """Without a database there is no lock, and the error is one of ours."""
    url = psycopg.conninfo.make_conninfo(shared_url, host="/nonexistent", port=1)
    with (
        Datastore(url) as datastore,
        AdvisoryLocks(datastore) as locks,
        pytest.raises(memoriale.UnavailableError),
    ):
        locks.hold(1)
