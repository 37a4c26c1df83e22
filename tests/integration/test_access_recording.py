"""What callers are given is on record: once, in order, without the question, never dropped."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import memoriale
from memoriale.adapters.application.access_recording import AccessRecorder, Given
from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.adapters.composition import Tenant
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.domain.errors import (
    ForkedHandleError,
    InputError,
    MemorialeError,
    UnavailableError,
)
from memoriale.domain.events import GivenBody, RecordedEvent
from memoriale.domain.keys import Subject
from memoriale.domain.principal import Principal
from tests.fixtures.ledger import HASHING

SECONDS = 60.0
SECRET = "why does Alice limp"

Open = Callable[..., Ledger]


@pytest.fixture
def opened(shared_url: str, ledger_home: Path) -> Open:
    """Opens a ledger of its own on the run's home."""
    return lambda **more: memoriale.open(
        home=ledger_home, database_url=shared_url, embedder=HASHING, wait=30, **more
    )


def recorded(services: Tenant, topic: str = "access.recalled") -> list[RecordedEvent]:
    """The entries of one topic, with everything that was taken so far."""
    services.recorder.flush()
    return services.access.mapper.decode(
        services.access.reader.with_topics([topic], -1, None, None)
    )


def headers(services: Tenant, topic: str = "access.recalled") -> list[dict[str, Any]]:
    return [e.event.header.model_dump(mode="json") for e in recorded(services, topic)]


def test_a_recall_is_recorded_with_what_it_gave(shared_ledger: Ledger, tenant: str) -> None:
    """An entry holds the memories in the order of the answer with their versions, the pin, who
    asked, in which session, on which branch and for what."""
    alice = shared_ledger.memory(
        tenant=tenant, user="alice", agent="support", session="s-1", purpose="care"
    )
    first = alice.remember("tea in the morning", owner="user")
    alice.remember("tea in the evening", owner="user")
    better = alice.correct(first.memory_id, "tea at dawn")
    branch = alice.fork("what-if")
    hits = branch.recall("tea", as_of=better.index)
    services = shared_ledger.tenant(tenant)
    (entry,) = recorded(services)
    header = headers(services)[0]
    assert header["memory_ids"] == [str(hit.memory_id) for hit in hits]
    assert header["versions"] == [hit.index for hit in hits]
    assert better.index in header["versions"]
    assert (header["command"], header["index"], header["pinned"]) == ("recall", better.index, True)
    names = services.access.identities.names([entry.columns.actor, entry.columns.principal_session])
    assert set(names.values()) == {Subject("agent", "support"), Subject("session", "s-1")}
    assert entry.columns.purpose == "care"
    known = {b.name: b.id for b in alice.branches()}
    assert entry.columns.branch == known["what-if"]


def test_every_call_that_hands_out_memories_is_recorded(
    shared_ledger: Ledger, tenant: str, alice: Memory
) -> None:
    """List, show, history and diff are recorded as recall is; refused calls and calls without
    an answer are not."""
    memory_id = alice.remember("tea").memory_id
    alice.fork("side").correct(memory_id, "coffee")
    alice.list()
    alice.show(memory_id)
    alice.history(memory_id)
    alice.diff("main", "side")
    with pytest.raises(InputError):
        alice.show(uuid4())
    with pytest.raises(InputError):
        alice.recall("")
    found = headers(shared_ledger.tenant(tenant))
    assert [header["command"] for header in found] == ["list", "show", "history", "diff"]
    assert all(header["memory_ids"] == [str(memory_id)] for header in found)


@settings(
    max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(plan=st.lists(st.lists(st.sampled_from("rb"), max_size=8), min_size=1, max_size=4))
def test_one_entry_for_every_recall_that_returned(
    plan: Sequence[Sequence[str]], shared_ledger: Ledger
) -> None:
    """However many threads ask, the log has exactly one entry for each recall that returned and
    none for one that raised, in the order of each handle."""
    tenant = f"t-{uuid4().hex[:12]}"
    services = shared_ledger.tenant(tenant)
    shared_ledger.memory(tenant=tenant, user="u").remember("tea and coffee", visibility="tenant")

    def ask(number: int) -> int:
        memory = shared_ledger.memory(tenant=tenant, user="u", session=f"s-{number}")
        returned = 0
        for turn, step in enumerate(plan[number]):
            if step == "b":
                with pytest.raises(InputError):
                    memory.recall("tea", top_k=0)
            else:
                memory.recall("tea", top_k=1 + turn % 3, as_of=0)
                returned += 1
        return returned

    with ThreadPoolExecutor(len(plan)) as pool:
        expected = list(pool.map(ask, range(len(plan))))
    found = recorded(services)
    names = services.access.identities.names([e.columns.principal_session for e in found])
    for number, count in enumerate(expected):
        mine = [
            header["at"]
            for event, header in zip(found, headers(services), strict=True)
            if names.get(event.columns.principal_session or uuid4())
            == Subject("session", f"s-{number}")
        ]
        assert len(mine) == count
        assert mine == sorted(mine)
    assert len(found) == sum(expected)


def bodies(services: Tenant) -> list[GivenBody | None]:
    return [e.event.body for e in recorded(services)]  # type: ignore[misc]


def test_the_question_is_kept_only_where_asked_for(opened: Open, tenant: str) -> None:
    """By default no entry has the question; with `full` it is sealed for the user who asked, also
    through an agent, and goes with that user's key, while the entry stays."""
    with opened() as ledger:
        ledger.memory(tenant=tenant, user="alice", agent="support").recall(SECRET)
        assert bodies(ledger.tenant(tenant)) == [GivenBody()]
    with opened(access_log="full") as ledger:
        ledger.memory(tenant=tenant, user="alice", agent="support").recall(SECRET)
        services = ledger.tenant(tenant)
        assert bodies(services)[1] == GivenBody(question=SECRET)
        rows = services.access.reader.rows()
        assert not any(
            SECRET.encode() in (row.state or b"") or SECRET in row.header for row in rows
        )
        key = services.log.identities.find(Subject("user", "alice"))
        assert key is not None
        ledger.infrastructure.keys.destroy(key.key_id)
        assert bodies(services) == [None, None]
        assert all(report.ok for report in ledger.verify(tenant=tenant))


def test_off_records_nothing_but_that_it_was_turned_off(opened: Open, tenant: str) -> None:
    """With `off` answers leave no entry; each change of the setting is an event, once, and the
    default leaves none."""
    for mode in ("ids", "off", "off", "full", "ids"):
        with opened(access_log=mode) as ledger:
            for _ in range(3):
                ledger.memory(tenant=tenant, user="alice").recall("tea")
    with opened() as ledger:
        services = ledger.tenant(tenant)
        assert len(recorded(services)) == 9
        changes = [(h["before"], h["value"]) for h in headers(services, "setting.changed")]
        assert changes == [("ids", "off"), ("off", "full"), ("full", "ids")]
        assert all(h["setting"] == "access_log" for h in headers(services, "setting.changed"))


def test_a_wrong_mode_is_refused_at_the_start() -> None:
    """A value that is none of the three fails when the ledger is opened, and names the key."""
    with pytest.raises(InputError) as refused:
        memoriale.open(access_log="some")
    assert refused.value.field == "MEMORIALE_ACCESS_LOG"


def principal(tenant: str) -> Principal:
    return Principal(tenant=tenant, user="alice")


def answer(services: Tenant, count: int = 1) -> Given:
    ids = [(UUID(int=n + 1), n) for n in range(count)]
    return Given(command="list", memories=ids, index=count, branch=services.log.log_id)


def test_a_long_answer_stands_in_several_events(shared_ledger: Ledger, tenant: str) -> None:
    """More than 500 memories are split over events with one correlation id, in one append."""
    services = shared_ledger.tenant(tenant)
    services.recorder.record(principal(tenant), answer(services, 1_001))
    found = recorded(services)
    parts = [(h["after_rank"], len(h["memory_ids"])) for h in headers(services)]
    assert parts == [(None, 500), (500, 500), (1_000, 1)]
    assert len({e.columns.correlation_id for e in found}) == 1
    assert len({e.recorded.append_first for e in found}) == 1


def test_many_answers_are_one_append(shared_ledger: Ledger, tenant: str) -> None:
    """Answers that wait together are written together."""
    services = shared_ledger.tenant(tenant)
    for _ in range(100):
        services.recorder.record(principal(tenant), answer(services))
    found = recorded(services)
    assert len(found) == 100
    assert len({e.recorded.append_first for e in found}) < 10


class Door:
    """Opens an access log, but only while nobody holds it shut."""

    def __init__(self, services: Tenant, failures: int = 0) -> None:
        self._services, self.failures = services, failures
        self.reached, self.open = threading.Event(), threading.Event()

    def __call__(self) -> TenantLog:
        self.reached.set()
        assert self.open.wait(SECONDS)
        if self.failures:
            self.failures -= 1
            raise UnavailableError("no database today")
        return self._services.access


def test_a_full_queue_makes_readers_wait(shared_ledger: Ledger, tenant: str) -> None:
    """When no more may wait, the next reader waits for room; nothing is dropped."""
    services = shared_ledger.tenant(tenant)
    door = Door(services)
    recorder = AccessRecorder(
        door, lambda: services.log.identities, seconds=0, entries=1, capacity=2
    )
    for _ in range(2):
        recorder.record(principal(tenant), answer(services))
    assert door.reached.wait(SECONDS)
    late = threading.Thread(
        target=recorder.record, args=(principal(tenant), answer(services)), daemon=True
    )
    late.start()
    late.join(0.2)
    assert late.is_alive()
    door.open.set()
    late.join(SECONDS)
    recorder.close()
    assert len(recorded(services)) == 3


def test_an_answer_that_cannot_be_recorded_is_refused(shared_ledger: Ledger, tenant: str) -> None:
    """When the queue stays full, readers are refused with a typed error."""
    services = shared_ledger.tenant(tenant)
    door = Door(services)
    recorder = AccessRecorder(
        door, lambda: services.log.identities, seconds=0, capacity=1, patience=0.05
    )
    recorder.record(principal(tenant), answer(services))
    with pytest.raises(UnavailableError) as refused:
        recorder.record(principal(tenant), answer(services))
    assert refused.value.code == "access_log_full"
    door.open.set()
    recorder.close()
    assert len(recorded(services)) == 1


def test_a_database_that_fails_for_a_while_loses_nothing(
    shared_ledger: Ledger, tenant: str
) -> None:
    """While the log cannot be written the answers wait; flushing says so, later they are stored
    once each."""
    services = shared_ledger.tenant(tenant)
    door = Door(services, failures=2)
    door.open.set()
    recorder = AccessRecorder(door, lambda: services.log.identities, seconds=0)
    recorder.record(principal(tenant), answer(services))
    failed = 0
    while failed < 10:
        try:
            recorder.flush()
            break
        except UnavailableError:
            failed += 1
    recorder.close()
    assert failed <= 2
    assert len(recorded(services)) == 1


def test_closing_says_what_is_lost(shared_ledger: Ledger, tenant: str) -> None:
    """A recorder that must close while the log cannot be written names how many answers are
    lost, and is closed."""
    services = shared_ledger.tenant(tenant)
    door = Door(services, failures=1_000)
    recorder = AccessRecorder(door, lambda: services.log.identities, seconds=SECONDS)
    for _ in range(3):
        recorder.record(principal(tenant), answer(services))
    door.open.set()
    with pytest.raises(UnavailableError) as lost:
        recorder.close()
    assert (lost.value.code, lost.value.value) == ("access_log_unavailable", 3)
    with pytest.raises(InputError):
        recorder.record(principal(tenant), answer(services))


def test_closing_writes_what_waits(opened: Open, tenant: str) -> None:
    """What was given before the ledger is closed is on record afterwards."""
    with opened() as ledger:
        ledger.memory(tenant=tenant, user="alice").recall("tea")
    with opened() as ledger:
        assert ledger.tenant(tenant).access.head() == 1


LEAVING = """
import sys, memoriale
ledger = memoriale.open(home=sys.argv[1], database_url=sys.argv[2], embedder=sys.argv[3], wait=30)
ledger.memory(tenant=sys.argv[4], user="alice").recall("tea")
"""


def test_a_program_that_ends_without_closing_loses_nothing(
    shared_ledger: Ledger, shared_url: str, ledger_home: Path, tenant: str
) -> None:
    """The end of the interpreter writes what waits."""
    arguments = [str(ledger_home), shared_url, HASHING, tenant]
    subprocess.run([sys.executable, "-c", LEAVING, *arguments], check=True, timeout=SECONDS)
    assert shared_ledger.tenant(tenant).access.head() == 1


def test_a_child_after_fork_records_nothing(opened: Open, tenant: str) -> None:
    """A handle is refused in a child, and what waited in the parent is written by the parent
    alone."""
    with opened() as ledger:
        alice = ledger.memory(tenant=tenant, user="alice")
        alice.recall("tea")
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                alice.recall("tea")
            except ForkedHandleError as error:
                os.write(writing, json.dumps(error.code).encode())
            except MemorialeError as error:
                os.write(writing, json.dumps(str(error)).encode())
            finally:
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            assert json.load(pipe) == "forked_handle"
        os.waitpid(child, 0)
        assert len(recorded(ledger.tenant(tenant))) == 1
