"""Two processes that change one user's facts, profile, notebook and session at once."""

import subprocess
import sys
from pathlib import Path
from typing import Final

from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.stores.facts import UserFacts
from memoriale.adapters.library.stores.files import FileMemory
from memoriale.adapters.library.stores.profile import UserProfile
from memoriale.adapters.library.stores.sessions import SessionManager
from tests.fixtures.ledger import HASHING

ROUNDS: Final = 15
SECONDS: Final = 240

HAMMER: Final = """
import sys
import memoriale
home, url, embedder, tenant, name, rounds = sys.argv[1:]
with memoriale.open(home=home, database_url=url, embedder=embedder, wait=30) as ledger:
    memory = ledger.memory(tenant=tenant, user="alice", session="s")
    facts = memoriale.UserFacts(memory, max_facts=1_000)
    profile = memoriale.UserProfile(memory)
    files = memoriale.FileMemory(memory, user_char_limit=100_000)
    sessions = memoriale.SessionManager(memory, max_messages=1_000)
    sessions.get_or_create_session()
    print("ready", flush=True)
    sys.stdin.readline()
    for n in range(int(rounds)):
        facts.add_facts(facts=[f"{name} knows {n}", {"fact": f"{name} {n}", "subject": "turn"}])
        profile.update_profile(patch={"role": f"{name} {n}", "custom": {f"{name}-{n}": n}})
        files.add("user", None, f"{name} entry {n}")
        if n % 3 == 2:
            files.replace("user", None, f"{name} entry {n - 1}", f"{name} replaced {n - 1}")
        sessions.append_messages(None, [{"role": "user", "content": f"{name} says {n}"}])
print("done", flush=True)
"""


def test_two_processes_lose_no_update(
    shared_ledger: Ledger, ledger_home: Path, shared_url: str, tenant: str
) -> None:
    """Every fact, field, entry and message of both is there, one fact holds the shared subject,
    each field has one memory, and replayed views are equal."""
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
    memory = shared_ledger.memory(tenant=tenant, user="alice", session="s")
    both = [(name, n) for name in ("one", "two") for n in range(ROUNDS)]
    facts = UserFacts(memory).get_active_facts()
    assert {f.fact for f in facts} >= {f"{name} knows {n}" for name, n in both}
    assert len([f for f in facts if f.subject == "turn"]) == 1
    profile = UserProfile(memory).get_profile()
    assert profile is not None
    assert profile.custom == {f"{name}-{n}": n for name, n in both}
    assert len(memory.list(kinds=["profile_field"], limit=1_000).memories) == len(both) + 1
    entries = FileMemory(memory).get_entries("user")
    assert sorted(entries) == sorted(
        f"{name} {'replaced' if n % 3 == 1 and n < ROUNDS - 1 else 'entry'} {n}" for name, n in both
    )
    said = [m.text() for m in SessionManager(memory, max_messages=1_000).get_history()]
    assert sorted(said) == sorted(f"{name} says {n}" for name, n in both)
    assert all(report.equal for report in shared_ledger.replay(tenant=tenant, verify=True))
