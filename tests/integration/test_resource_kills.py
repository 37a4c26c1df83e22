"""Processes killed while they change resources' memory leave each change whole or not there."""

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.resources.ledger_semantic import LedgerSemanticMemory
from memoriale.adapters.library.resources.ledger_working import LedgerWorkingMemory
from memoriale.domain.resources.ref import ResourceRef
from tests.fixtures.ledger import HASHING

ROUNDS: Final = 6

# Each step sets a key, puts one fact in the place of two, and forks; it is told when it is done.
WORKER: Final = """
import json, sys
import memoriale
from memoriale import MemoryFact, ResourceRef
home, url, embedder, tenant, name = sys.argv[1:]
with memoriale.open(home=home, database_url=url, embedder=embedder, wait=30) as ledger:
    keys = memoriale.LedgerWorkingMemory(ledger, tenant=tenant)
    facts = memoriale.LedgerSemanticMemory(ledger, tenant=tenant)
    ref = ResourceRef(name)
    for n in range(10_000):
        keys.set(ref, "step", n)
        pair = facts.remember_many(ref, [MemoryFact(content=f"{side} {n}") for side in "ab"])
        facts.replace(ref, [one.id for one in pair], [MemoryFact(content=f"both {n}")])
        keys.fork(ref, ResourceRef(f"{name} child {n}"))
        print(json.dumps([name, n]), flush=True)
"""


def test_killed_processes_leave_no_half_change(
    shared_ledger: Ledger, ledger_home: Path, shared_url: str, tenant: str
) -> None:
    """What was acknowledged is there, and of the step that was cut off each part is whole: a pair
    of facts, or the one in its place, and a child with everything or nothing."""
    keys = LedgerWorkingMemory(shared_ledger, tenant=tenant)
    facts = LedgerSemanticMemory(shared_ledger, tenant=tenant)
    for round_ in range(ROUNDS):
        name = f"r{round_}"
        _, done = _killed(_start(ledger_home, shared_url, tenant, name))
        ref = ResourceRef(name)
        assert keys.get(ref, "step") in (done, done + 1)
        said = [fact.content for fact in facts.list_all(ref)]
        whole = [f"both {n}" for n in range(done + 1)]
        later = done + 1
        assert said[: len(whole)] == whole
        assert said[len(whole) :] in ([], [f"a {later}", f"b {later}"], [f"both {later}"])
        for n in (0, done):
            child = ResourceRef(f"{name} child {n}")
            assert keys.get(child, "step") == n
            assert [fact.content for fact in facts.list_all(child)] == whole[: n + 1]
        cut = ResourceRef(f"{name} child {later}")
        assert keys.get(cut, "step") in (None, later)
        assert len(facts.list_all(cut)) in (0, later + 1)
    assert all(report.ok for report in shared_ledger.verify(tenant=tenant))


def _start(home: Path, url: str, tenant: str, name: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, str(home), url, HASHING, tenant, name],
        stdout=subprocess.PIPE,
        text=True,
    )


def _killed(worker: subprocess.Popen[str]) -> Any:
    """Kills a worker some time after its first step; the last one that it had acknowledged."""
    assert worker.stdout is not None
    lines = [worker.stdout.readline()]
    try:
        worker.wait(random.uniform(0.0, 0.4))
    except subprocess.TimeoutExpired:
        worker.kill()
    rest, _ = worker.communicate()
    whole = [line for line in [*lines, *rest.splitlines()] if line.strip().endswith("]")]
    return json.loads(whole[-1])
