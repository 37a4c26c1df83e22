"""Merges that do not fit into one append, are cut off, or meet other writers."""

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.domain.branch_events import Merged
from memoriale.domain.errors import ConflictError, MemorialeError, UnavailableError
from memoriale.domain.events import NewEvent
from memoriale.domain.guards import Guard
from memoriale.domain.merging import MOST_EVENTS
from tests.fixtures.ledger import HASHING

MANY = 2 * MOST_EVENTS + 100

MERGE = """
import sys
import memoriale
home, url, embedder, tenant = sys.argv[1:]
with memoriale.open(home=home, database_url=url, embedder=embedder) as ledger:
    ledger.memory(tenant=tenant, user="alice").merge("side")
"""


@pytest.fixture
def large(alice: Memory) -> Memory:
    """A branch with more changes than two appends hold."""
    side = alice.fork("side")
    answers = side.remember_many([f"note {n}" for n in range(MANY)])
    assert not any(isinstance(answer, MemorialeError) for answer in answers)
    return side


def taken(memory: Memory) -> Counter[UUID]:
    """How often each memory was made on ``main``."""
    log = memory.services.log
    rows = [row for row in log.reader.rows() if row.columns.branch == log.log_id]
    made = (row.columns.memory_id for row in rows if row.columns.topic == "memory.remembered")
    return Counter(memory_id for memory_id in made if memory_id is not None)


def parts(memory: Memory) -> list[tuple[int, bool]]:
    """The size of each append of a merge, and whether it says that it was the last."""
    log = memory.services.log
    rows = [row for row in log.reader.rows() if row.columns.topic == "branch.merged"]
    return [
        (e.recorded.append_last - e.recorded.append_first + 1, e.event.header.complete)
        for e in log.mapper.decode(rows)
        if isinstance(e.event, Merged)
    ]


@contextmanager
def cut_off(monkeypatch: pytest.MonkeyPatch, after: int) -> Iterator[None]:
    """Planted: the database goes away after some appends of a merge."""
    saved, whole = [0], TenantLog.save

    def save(self: TenantLog, events: Sequence[NewEvent], guards: Sequence[Guard] = ()) -> Any:
        if isinstance(events[0].event, Merged):
            if saved[0] == after:
                raise UnavailableError("planted: the database is gone")
            saved[0] += 1
        return whole(self, events, guards)

    with monkeypatch.context() as planted:
        planted.setattr(TenantLog, "save", save)
        yield


def test_a_large_merge_takes_several_appends(
    alice: Memory, large: Memory, shared_ledger: Ledger, tenant: str
) -> None:
    """None holds over 1,000 events, only the last says that nothing is left, every memory is
    there once, and the views equal their rebuild."""
    result = alice.merge("side")
    assert (result.added, result.appends) == (MANY, 3)
    assert [complete for _, complete in parts(alice)] == [False, False, True]
    assert max(size for size, _ in parts(alice)) <= MOST_EVENTS
    assert (len(taken(alice)), set(taken(alice).values())) == (MANY, {1})
    assert all(report.equal for report in shared_ledger.replay(tenant=tenant, verify=True))


def test_a_merge_that_was_cut_off_goes_on(
    alice: Memory, large: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was stored stays and is not stored again; a further merge finds nothing."""
    with cut_off(monkeypatch, after=1), pytest.raises(UnavailableError):
        alice.merge("side")
    stored = len(taken(alice))
    assert 0 < stored < MANY
    assert alice.merge("side").added == MANY - stored
    assert (len(taken(alice)), set(taken(alice).values())) == (MANY, {1})
    assert alice.merge("side").status == "unchanged"


def test_a_killed_merge_goes_on(
    alice: Memory, large: Memory, ledger_home: Path, shared_url: str, tenant: str
) -> None:
    """A process is killed between two appends of its merge; who merges next completes it."""
    log, command = alice.services.log, [sys.executable, "-c", MERGE]
    before = log.head()
    merging = subprocess.Popen([*command, str(ledger_home), shared_url, HASHING, tenant])
    deadline = time.monotonic() + 60
    while log.head() == before and time.monotonic() < deadline:
        time.sleep(0.002)
    merging.kill()
    merging.wait()
    assert log.head() > before
    alice.merge("side")
    assert (len(taken(alice)), set(taken(alice).values())) == (MANY, {1})


def test_a_clash_between_two_parts_stops_the_merge(
    alice: Memory, large: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else writes of the same aspect after the first append: the rest is not stored,
    the conflict is reported, and what was stored stays."""
    large.remember("phone", kind="fact", subject="contact")
    with cut_off(monkeypatch, after=1), pytest.raises(UnavailableError):
        alice.merge("side")
    alice.remember("letter", kind="fact", subject="contact")
    before = alice.services.log.head()
    result = alice.merge("side")
    assert (result.status, len(result.conflicts)) == ("conflict", 1)
    assert alice.services.log.head() == before
    assert alice.merge("side", prefer="parent").status == "merged"
    assert set(taken(alice).values()) == {1}


def test_merging_at_once_stores_each_change_once(alice: Memory) -> None:
    """Four threads merge one branch: one does it, the others find nothing to do."""
    side = alice.fork("side")
    side.remember_many([f"note {n}" for n in range(50)])
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: alice.merge("side").status, range(4)))
    assert sorted(results) == ["merged", "unchanged", "unchanged", "unchanged"]
    assert (len(taken(alice)), set(taken(alice).values())) == (50, {1})


def test_a_writer_on_the_parent_is_never_overwritten_unseen(alice: Memory) -> None:
    """Whatever the order in which a correction and a merge of the same memory arrive, the
    correction stands last or is reported as a conflict."""
    for round_ in range(10):
        memory_id = alice.remember(f"at the fork {round_}").memory_id
        side = alice.fork(f"side {round_}")
        side.correct(memory_id, "the branch's")
        with ThreadPoolExecutor(2) as pool:
            merging = pool.submit(alice.merge, f"side {round_}")
            correcting = pool.submit(alice.correct, memory_id, "the parent's")
            status, _ = merging.result().status, correcting.result()
        said = [entry.content for entry in alice.history(memory_id)[1:]]
        assert said == (
            ["the branch's", "the parent's"] if status == "merged" else ["the parent's"]
        )


def test_a_fork_and_a_discard_at_once_leave_no_child_of_an_ended_branch(alice: Memory) -> None:
    """Either the fork finds the branch ended, or the discard finds the child."""
    for round_ in range(10):
        name = f"side {round_}"
        side = alice.fork(name)

        def attempt(act: Any) -> str:
            try:
                act()
            except ConflictError:
                raise
            except MemorialeError as error:
                return error.code
            return "done"

        with ThreadPoolExecutor(2) as pool:
            made = pool.submit(attempt, lambda s=side, n=name: s.fork(f"{n} child"))
            ended = pool.submit(attempt, lambda n=name: alice.discard(n))
        assert (made.result(), ended.result()) in {
            ("done", "has_children"),
            ("discarded", "done"),
        }
