"""Adds survive their process: what was accepted is done by the next one, and its effects once."""

import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from uuid import UUID

import pytest

from memoriale.adapters.library.ledger import Ledger
from tests.fixtures.embedded import eventually
from tests.fixtures.ledger import HASHING
from tests.fixtures.operations import ALICE, Make, said

KILLS: Final = 12
STAGES: Final = ("accepted", "asked", "answered", "done")

# Adds messages and says what happens; its model answers when it is told to on standard input.
PROCESS: Final = """
import os, sys, threading
import memoriale
from tests.fixtures.operations import ALICE, Saying, said
home, url, embedder, tenant, *texts = sys.argv[1:]

def tell(*words):
    # A line in one write: two threads tell things, and ``print`` would mix their words.
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

class Told(Saying):
    def answer(self, prompt):
        tell("asked")
        assert sys.stdin.readline()
        return super().answer(prompt)

with memoriale.open(home=home, database_url=url, embedder=embedder, wait=30) as ledger:
    memory = memoriale.agent_memory(ledger, tenant=tenant, llm=Told(), dedup_threshold=0)
    memory.events.subscribe(lambda event: tell("done", event.id))
    for text in texts:
        tell("accepted", memory.add(said(text), ALICE).job_id)
    threading.Event().wait()
"""


class Process:
    """A process that adds texts."""

    def __init__(self, arguments: list[str]) -> None:
        command = [sys.executable, "-c", PROCESS, *arguments]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.jobs: list[UUID] = []
        self.said: Counter[str] = Counter()

    def until(self, word: str, times: int = 1) -> None:
        """Reads what it says, up to the time at which it has said a word so often."""
        assert self.process.stdout is not None
        while self.said[word] < times:
            line = self.process.stdout.readline()
            assert line, "it ended"
            self._heard(line)

    def _heard(self, line: str) -> None:
        word, _, rest = line.strip().partition(" ")
        self.said[word] += 1
        if word == "accepted":
            self.jobs.append(UUID(rest))

    def answer(self) -> None:
        """Lets its model answer once."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """As ``kill -9`` does; what it had said before is still read."""
        self.process.kill()
        rest, _ = self.process.communicate()
        for line in rest.splitlines(keepends=True):
            if line.endswith("\n"):
                self._heard(line)


@pytest.fixture
def running() -> Iterator[list[Process]]:
    """Processes, all killed in the end."""
    started: list[Process] = []
    yield started
    for one in started:
        if one.process.poll() is None:
            one.kill()


@pytest.mark.slow
def test_a_killed_process_loses_no_add_and_doubles_no_effect(
    remembering: Make,
    shared_ledger: Ledger,
    ledger_home: Path,
    shared_url: str,
    tenant: str,
    running: list[Process],
) -> None:
    """Killed twelve times: when it had accepted, while its model was asked, somewhere between the
    answer and the append, and when it had stored. In the end each accepted add is completed, and
    each of its facts was made exactly once."""
    chance = random.Random(7)
    accepted: list[UUID] = []
    texts: list[str] = []
    for number in range(KILLS):
        stage = STAGES[number % len(STAGES)]
        added = [f"round {number} text {place}" for place in range(2)]
        process = Process([str(ledger_home), shared_url, HASHING, tenant, *added])
        running.append(process)
        process.until("accepted", len(added))
        if stage != "accepted":
            process.until("asked")
        if stage in ("answered", "done"):
            process.answer()
        if stage == "answered":
            time.sleep(chance.uniform(0, 0.02))
        if stage == "done":
            process.until("done")
        process.kill()
        assert len(process.jobs) >= len(added)
        accepted += process.jobs
        texts += added
    memory = remembering(dedup_threshold=0)
    jobs = shared_ledger.jobs

    def all_done() -> bool:
        return all(jobs.get(job, tenant=tenant).status == "completed" for job in accepted)

    assert eventually(all_done, 60)
    assert Counter(node.content for node in memory.get_all(ALICE)) == Counter(texts)
    topics = Counter(logged.row.columns.topic for logged in shared_ledger.events(tenant=tenant))
    assert topics["memory.remembered"] == len(texts)
    assert topics["job.completed"] == len(accepted) == len(texts)
    assert memory.size.get() == len(texts)


def test_an_add_of_a_process_that_ended_is_finished_by_jobs_run(
    remembering: Make, shared_ledger: Ledger, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No ``agent_memory`` is needed for it, only somebody with a model who works on jobs."""
    from memoriale.adapters.extraction.handlers import known_handlers
    from tests.fixtures.operations import Held, Saying

    held = Held()
    memory = remembering(held)
    memory.add(said("first"), ALICE)
    assert held.asked.wait(30)
    add = memory.add(said("second"), ALICE)
    memory.destroy()
    held.go.set()
    alice = shared_ledger.memory(tenant=tenant, user="alice")
    handlers = known_handlers(lambda principal, branch: alice.rebound(principal), Saying)
    done = shared_ledger.tenant(tenant).jobs.run_due(handlers)
    assert [job.status.value for job in done] == ["completed", "completed"]
    assert add.job_id == done[-1].id
    assert [hit.content for hit in alice.recall("second", kinds=["item"], top_k=1)] == ["second"]
