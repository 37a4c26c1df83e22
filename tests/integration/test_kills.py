"""Processes killed at random moments of writing and catching up lose nothing and break nothing."""

import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

from memoriale.adapters.library.ledger import Ledger
from tests.fixtures.ledger import HASHING

ROUNDS = 10
AT_ONCE = 3

# Writes with a key of its own for each note and says so once the receipt is there; every few
# notes it recalls, which catches the recall view up, and every few more the stats view.
WORKER = """
import sys
import memoriale
home, url, embedder, tenant, name = sys.argv[1:]
with memoriale.open(home=home, database_url=url, embedder=embedder, wait=30) as ledger:
    memory = ledger.memory(tenant=tenant, user="alice")
    for number in range(100_000):
        text = f"note {number} of {name}"
        receipt = memory.remember(text, idempotency_key=text)
        print(text, receipt.index, sep="\\t", flush=True)
        if number % 3 == 2:
            memory.recall(text)
        if number % 7 == 6:
            ledger.wait(receipt, view="stats", timeout=30)
"""


def test_killed_writers_and_projectors_leave_every_acknowledged_write_once(
    shared_ledger: Ledger, ledger_home: Path, shared_url: str, tenant: str
) -> None:
    """After 30 kills each acknowledged note is there once, without a hole; views are equal to a
    rebuild from the log, and the log verifies."""
    acknowledged: dict[str, int] = {}
    for round_ in range(ROUNDS):
        workers = [
            _start(ledger_home, shared_url, tenant, f"{round_}.{place}") for place in range(AT_ONCE)
        ]
        for worker in workers:
            acknowledged.update(_killed(worker))

    events = list(shared_ledger.events(tenant=tenant, content=True))
    assert [event.index for event in events] == list(range(len(events)))
    found = Counter(event.body["payload"]["content"] for event in events if event.body)
    assert len(acknowledged) >= ROUNDS * AT_ONCE
    assert {text: found[text] for text in acknowledged} == dict.fromkeys(acknowledged, 1)
    at = {event.body["payload"]["content"]: event.index for event in events if event.body}
    assert {text: at[text] for text in acknowledged} == acknowledged

    reports = shared_ledger.replay(tenant=tenant, verify=True)
    assert {(r.view, r.equal, r.digest_live == r.digest_rebuilt) for r in reports} == {
        ("recall", True, True),
        ("stats", True, True),
        ("proofs", True, True),
    }
    assert all(report.ok for report in shared_ledger.verify(tenant=tenant))


def _start(home: Path, url: str, tenant: str, name: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, str(home), url, HASHING, tenant, name],
        stdout=subprocess.PIPE,
        text=True,
    )


def _killed(worker: subprocess.Popen[str]) -> dict[str, int]:
    """Kills a worker some time after its first receipt; what it had acknowledged."""
    assert worker.stdout is not None
    lines = [worker.stdout.readline()]
    try:
        worker.wait(random.uniform(0.0, 0.8))
    except subprocess.TimeoutExpired:
        worker.kill()
    rest, _ = worker.communicate()
    lines += rest.splitlines(keepends=True)
    whole = (line.rstrip("\n").split("\t") for line in lines if line.endswith("\n"))
    return {text: int(index) for text, index in whole}
