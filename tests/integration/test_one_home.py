"""Several processes on one home: two answer questions while a third one writes."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

from memoriale.adapters.library.ledger import Ledger
from tests.fixtures.ledger import HASHING

NOTES: Final = 60
SECONDS: Final = 240

# Asks until it sees the last note, and tells how many it saw each time; then it tells the end.
READER: Final = """
import json, sys
import memoriale
home, url, embedder, tenant, last = sys.argv[1:]
with memoriale.open(home=home, database_url=url, embedder=embedder, wait=30) as ledger:
    memory = ledger.memory(tenant=tenant, user="alice")
    print("ready", flush=True)
    seen = []
    while True:
        found = memory.recall("red kite", top_k=1000)
        seen.append([len(found), found.index, list(found.degraded), found.rebuilt])
        if any(hit.content == last for hit in found):
            break
    print(json.dumps({"seen": seen, "hits": [hit.content for hit in found]}), flush=True)
"""


def test_two_processes_answer_while_one_writes(
    shared_ledger: Ledger, ledger_home: Path, shared_url: str, tenant: str
) -> None:
    """Each sees every note that was there when it asked, loses none that it has seen, is never
    refused, and never has to rebuild the view that both post."""
    last = f"red kite {NOTES - 1}"
    command = [sys.executable, "-c", READER, str(ledger_home), shared_url, HASHING, tenant, last]
    alice = shared_ledger.memory(tenant=tenant, user="alice")
    alice.remember("red kite 0")
    readers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        for reader in readers:
            assert reader.stdout is not None
            assert reader.stdout.readline() == "ready\n"
        for number in range(1, NOTES):
            alice.remember(f"red kite {number}")
            if number % 10 == 0:
                assert len(alice.recall("red kite", top_k=1000)) == number + 1
        answers = [json.loads(reader.communicate(timeout=SECONDS)[0]) for reader in readers]
    finally:
        for reader in readers:
            reader.kill()
            reader.communicate()
    assert [reader.returncode for reader in readers] == [0, 0]
    for answer in answers:
        # One note an event, so the number of hits tells whether any was left out.
        assert all(count == index + 1 for count, index, _, _ in answer["seen"])
        assert answer["seen"] == sorted(answer["seen"])
        assert {tuple(degraded) for _, _, degraded, _ in answer["seen"]} <= {(), ("behind",)}
        assert not any(rebuilt for _, _, _, rebuilt in answer["seen"])
        assert len(answer["hits"]) == NOTES
    assert all(report.equal for report in shared_ledger.replay(tenant=tenant, verify=True))
