"""Processes that set one key at once lose no update."""

import subprocess
import sys
from pathlib import Path
from typing import Final

from memoriale.adapters.library.ledger import Ledger
from tests.fixtures.ledger import HASHING

ROUNDS: Final = 40
SECONDS: Final = 240

HAMMER: Final = """
import sys
import memoriale
home, url, embedder, tenant, name, rounds = sys.argv[1:]
with memoriale.open(home=home, database_url=url, embedder=embedder, wait=30) as ledger:
    working = memoriale.LedgerWorkingMemory(ledger, tenant=tenant)
    ref = memoriale.ResourceRef("bot")
    working.get(ref, "shared")
    print("ready", flush=True)
    sys.stdin.readline()
    for n in range(int(rounds)):
        working.set(ref, "shared", [name, n])
        working.set(ref, f"{name}-{n}", n)
        if n % 4 == 3:
            working.delete(ref, "shared")
print("done", flush=True)
"""


def test_no_update_of_a_shared_key_is_lost(
    shared_ledger: Ledger, ledger_home: Path, shared_url: str, tenant: str
) -> None:
    """Two processes that set and delete one key leave one memory, whose history has every value
    of both in the order of each; keys of their own are all there."""
    command = [sys.executable, "-c", HAMMER, str(ledger_home), shared_url, HASHING, tenant]
    running = [
        subprocess.Popen(
            [*command, name, str(ROUNDS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("one", "two")
    ]
    try:
        for process in running:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in running:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        assert [p.communicate(timeout=SECONDS)[0] for p in running] == ["done\n"] * 2
    finally:
        for process in running:
            process.kill()
            process.communicate()
    bot = shared_ledger.memory(tenant=tenant, resource="bot")
    keys = dict(bot.working.list(limit=1_000))
    keys.pop("shared", None)
    assert keys == {f"{name}-{n}": n for name in ("one", "two") for n in range(ROUNDS)}
    last = bot.working.set("shared", "last")
    contents = [e.content for e in bot.history(last.memory_id) if e.content is not None]
    values = [f'["{name}",{n}]' for name in ("one", "two") for n in range(ROUNDS)]
    said = [content for content in contents if content.startswith("[")]
    assert sorted(set(said)) == sorted(values)
    for name in ("one", "two"):
        own = [content for content in dict.fromkeys(said) if name in content]
        assert own == [f'["{name}",{n}]' for n in range(ROUNDS)]
    (listed,) = (
        m for m in bot.list(kinds=["working"], limit=1_000).memories if m.content == '"last"'
    )
    assert listed.memory_id == last.memory_id
