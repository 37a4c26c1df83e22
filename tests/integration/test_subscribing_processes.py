"""Subscribers in other processes, and lines to the database that break."""

import subprocess
import sys
import threading
import time
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

import pytest
from psycopg.conninfo import make_conninfo

import memoriale
from memoriale.adapters.doctor.checks import State
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.postgres.notifying import channel, listeners_key
from memoriale.domain.errors import UnavailableError
from tests.fixtures.doctor import Patient
from tests.fixtures.embedded import eventually
from tests.fixtures.ledger import HASHING
from tests.fixtures.postgres import Database
from tests.fixtures.proxy import proxied

EVENTS: Final = 10_000
ROUNDS: Final = 4
SECONDS: Final = 240

FOLLOWER: Final = """
import sys
import memoriale
home, url, embedder, tenant, count = sys.argv[1:]
with memoriale.open(home=home, database_url=url, embedder=embedder) as ledger:
    with ledger.memory(tenant=tenant, user="alice").subscribe(kinds=["note"]) as events:
        for number, event in zip(range(int(count)), events):
            print(event.index, event.body["payload"]["content"], flush=True)
"""


class Follower:
    """
    A process that follows alice's notes and prints them.

    Args:
        home, url, tenant: As whom and where.
        name: What its connections are called.
    """

    def __init__(self, home: Path, url: str, tenant: str, name: str) -> None:
        self.name, self.lines = name, list[str]()
        named = make_conninfo(url, application_name=name)
        self._process = subprocess.Popen(
            [sys.executable, "-c", FOLLOWER, str(home), named, HASHING, tenant, str(EVENTS)],
            stdout=subprocess.PIPE,
            text=True,
        )
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        self.lines.extend(line for line in self._process.stdout)

    def end(self) -> int:
        """Its exit code, when it has ended by itself."""
        return self._process.wait(SECONDS)

    def kill(self) -> None:
        """Ends it in any case."""
        self._process.kill()
        self._process.wait()
        self._reading.join()
        if self._process.stdout is not None:
            self._process.stdout.close()


def cut(database: Database, name: str) -> set[int]:
    """Ends the sessions of a name at the server; their process ids."""
    with database.connect() as connection:
        found = connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE application_name = %s", [name]
        ).fetchall()
        for (pid,) in found:
            connection.execute("SELECT pg_terminate_backend(%s)", [pid])
    return {pid for (pid,) in found}


def test_two_processes_see_every_event_in_order_across_reconnects(
    database: Database, alice: Memory, ledger_home: Path, shared_url: str, tenant: str
) -> None:
    """While 10,000 events are recorded and the sessions of two subscribers are ended at the
    server three times, each prints every event once and in order."""
    followers = [Follower(ledger_home, shared_url, tenant, f"{tenant}-{n}") for n in range(2)]
    sessions: dict[str, list[set[int]]] = {follower.name: [] for follower in followers}
    try:
        for number in range(ROUNDS):
            begin = number * EVENTS // ROUNDS
            texts = [f"note {n}" for n in range(begin, begin + EVENTS // ROUNDS)]
            writing = threading.Thread(target=alice.remember_many, args=[texts])
            writing.start()
            for follower in followers if number else ():
                # It has come back from the last cut before the next one.
                assert eventually(partial(_has, follower, begin - EVENTS // ROUNDS + 1))
                assert eventually(partial(_cut_anew, database, follower, sessions[follower.name]))
            writing.join()
        codes = [follower.end() for follower in followers]
    finally:
        for follower in followers:
            follower.kill()
    assert codes == [0, 0]
    for follower in followers:
        assert follower.lines == [f"{n} note {n}\n" for n in range(EVENTS)]
        first, second, third = sessions[follower.name]
        assert all((first, second, third))
        assert not first & second
        assert not second & third


def _has(follower: Follower, lines: int) -> bool:
    return len(follower.lines) >= lines


def _cut_anew(database: Database, follower: Follower, before: list[set[int]]) -> bool:
    """Ends sessions that a follower has opened since the last time; whether there were any."""
    found = cut(database, follower.name) - (before[-1] if before else set())
    if found:
        before.append(found)
    return bool(found)


def test_a_database_that_comes_back_is_gone_on_with(
    alice: Memory, shared_url: str, ledger_home: Path, tenant: str
) -> None:
    """While it is away the subscriber is told why and how long it waits, longer each time; then
    it goes on at the next index."""
    told: list[tuple[str, float]] = []
    with (
        proxied(shared_url) as proxy,
        memoriale.open(home=ledger_home, database_url=proxy.url, embedder=HASHING) as ledger,
    ):
        follower = ledger.memory(tenant=tenant, user="alice")
        alice.remember("before")
        events = follower.subscribe(
            on_interruption=lambda error, pause: told.append((error.code, pause))
        )
        assert next(events).index == 0
        proxy.refuse()
        found: list[int] = []
        reading = threading.Thread(target=lambda: found.append(next(events).index))
        reading.start()
        alice.remember("meanwhile")
        assert eventually(lambda: len(told) >= 3)
        assert found == []
        proxy.admit()
        reading.join(30)
        assert found == [1]
        events.stop()
    assert [code for code, _ in told] == ["database_down"] * len(told)
    assert [pause for _, pause in told[:3]] == [0.1, 0.2, 0.4]


def test_stopping_does_not_wait_for_a_database_that_is_away(
    alice: Memory, shared_url: str, ledger_home: Path, tenant: str
) -> None:
    """``stop`` ends a subscriber that waits for the database."""
    told = threading.Event()
    with (
        proxied(shared_url) as proxy,
        memoriale.open(home=ledger_home, database_url=proxy.url, embedder=HASHING) as ledger,
    ):
        alice.remember("before")
        follower = ledger.memory(tenant=tenant, user="alice")
        events = follower.subscribe(on_interruption=lambda *_: told.set())
        assert next(events).index == 0
        proxy.refuse()
        reading = threading.Thread(target=lambda: list(events))
        reading.start()
        assert told.wait(30)
        events.stop()
        reading.join(30)
        assert not reading.is_alive()
        proxy.admit()


def test_closing_the_ledger_ends_its_subscribers(
    alice: Memory, shared_url: str, ledger_home: Path, tenant: str
) -> None:
    """A subscriber that waits in another thread ends, without an error."""
    alice.remember("before")
    found: list[int] = []
    ledger = memoriale.open(home=ledger_home, database_url=shared_url, embedder=HASHING)
    events = ledger.memory(tenant=tenant, user="alice").subscribe()
    reading = threading.Thread(target=lambda: found.extend(e.index for e in events))
    reading.start()
    assert eventually(lambda: found == [0])
    ledger.close()
    reading.join(30)
    assert not reading.is_alive()


def test_a_slow_consumer_slows_the_reading(alice: Memory) -> None:
    """No more is read ahead than one batch, however much was recorded; nothing is dropped."""
    alice.remember_many([f"note {n}" for n in range(2_000)])
    with alice.subscribe() as events:
        seen = [next(events).index]
        source = events._source
        assert (source._last_notification_id or 0) < 600
        seen += [event.index for event in islice(events, 1_999)]
    assert seen == [*range(2_000)]


def test_a_log_that_was_put_back_ends_the_subscription(
    alice: Memory, shared_url: str, ledger_home: Path, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the log is shorter after a line broke, indices would mean something else: an error."""
    with (
        proxied(shared_url) as proxy,
        memoriale.open(home=ledger_home, database_url=proxy.url, embedder=HASHING) as ledger,
    ):
        alice.remember("before")
        log = ledger.tenant(tenant).log
        events = ledger.memory(tenant=tenant, user="alice").subscribe(
            on_interruption=lambda *_: proxy.admit()
        )
        assert next(events).index == 0
        monkeypatch.setattr(log, "head", lambda: 0)
        proxy.refuse()
        with pytest.raises(UnavailableError) as caught:
            next(events)
        assert (caught.value.code, caught.value.value) == ("log_shrank", 0)


def test_a_hint_wakes_a_subscriber_of_another_process_at_once(
    shared_ledger: Ledger, alice: Memory, shared_url: str, ledger_home: Path, tenant: str
) -> None:
    """An idle subscriber looks once a second; told of a commit it looks at once."""
    alice.remember("before")
    with memoriale.open(home=ledger_home, database_url=shared_url, embedder=HASHING) as ledger:
        events = ledger.memory(tenant=tenant, user="alice").subscribe()
        assert next(events).index == 0
        delays = []
        for number in range(5):
            arrived: list[float] = []
            reading = threading.Thread(
                target=lambda a=arrived: (next(events), a.append(time.monotonic()))
            )
            reading.start()
            # Long enough for the pauses between two looks to have become a second.
            time.sleep(1.6)
            alice.remember(f"note {number}")
            done = time.monotonic()
            reading.join(30)
            delays.append(arrived[0] - done)
        events.stop()
    assert sorted(delays)[2] < 0.3


def test_nothing_is_sent_while_nobody_listens(
    database: Database, alice: Memory, tenant: str
) -> None:
    """Without a subscriber no NOTIFY is made: whoever listens hears nothing of a commit, until
    it takes the listeners' lock."""
    log_id = alice.services.log.log_id
    with database.connect() as connection:
        connection.execute(f'LISTEN "{channel(log_id)}"')
        alice.remember("one")
        assert [*connection.notifies(timeout=1.0)] == []
        connection.execute("SELECT pg_advisory_lock_shared(%s)", [listeners_key(log_id)])
        time.sleep(1.1)
        alice.remember("two")
        (told,) = connection.notifies(timeout=10, stop_after=1)
        assert (told.channel, told.payload) == (channel(log_id), "")


def test_the_doctor_says_when_hints_do_not_arrive(patient: Patient) -> None:
    """It tries one from session to session; where the right for it was taken away that is a
    warning, because subscriptions go on by asking."""
    assert patient.check("hints").state is State.OK
    function = "FUNCTION pg_catalog.pg_notify(text, text)"
    patient.execute(f"REVOKE EXECUTE ON {function} FROM PUBLIC")
    try:
        found = patient.check("hints")
        assert found.state is State.WARNING
        assert "once a second" in found.detail
    finally:
        patient.execute(f"GRANT EXECUTE ON {function} TO PUBLIC")
