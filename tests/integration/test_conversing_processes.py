"""Two processes in one session: they add messages, change the state, save procedures, summarise."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.stores.procedures import ProcedureMemory
from memoriale.adapters.library.stores.sessions import SessionManager
from memoriale.adapters.library.stores.summaries import Summaries
from tests.fixtures.ledger import HASHING

ROUNDS: Final = 12
SECONDS: Final = 240
SHOWN: Final = 5

SPEAKER: Final = """
import json, sys
import memoriale
home, url, embedder, tenant, name, rounds, shown = sys.argv[1:]
with memoriale.open(home=home, database_url=url, embedder=embedder, wait=30) as ledger:
    memory = ledger.memory(tenant=tenant, user="alice", session="s: 1/_%")
    sessions = memoriale.SessionManager(memory, max_messages=int(shown))
    procedures = memoriale.ProcedureMemory(memory)
    summaries = memoriale.Summaries(memory, max_count=2)
    sessions.get_or_create_session()
    print("ready", flush=True)
    sys.stdin.readline()
    out = []
    for n in range(int(rounds)):
        said = [{"role": "user", "content": f"{name}-{n}-{part}"} for part in "ab"]
        fallen = sessions.append_messages(None, said)
        out += [message.text() for message in fallen]
        summaries.summarize(None, said)
        sessions.update_state(None, {f"{name}-{n}": n})
        procedures.save_procedure({"trigger": "Greet  somebody", "description": name})
    print(json.dumps(out), flush=True)
"""


def test_two_processes_in_one_session_lose_nothing(
    shared_ledger: Ledger, ledger_home: Path, shared_url: str, tenant: str
) -> None:
    """Every message, key, success and summary of both is there, each message fell out once, and
    a replay of the views finds them equal."""
    command = [sys.executable, "-c", SPEAKER, str(ledger_home), shared_url, HASHING, tenant]
    speakers = [
        subprocess.Popen(
            [*command, name, str(ROUNDS), str(SHOWN)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("one", "two")
    ]
    try:
        for speaker in speakers:
            assert speaker.stdout is not None
            assert speaker.stdout.readline() == "ready\n"
        for speaker in speakers:
            assert speaker.stdin is not None
            speaker.stdin.write("\n")
            speaker.stdin.flush()
        answers = [json.loads(speaker.communicate(timeout=SECONDS)[0]) for speaker in speakers]
    finally:
        for speaker in speakers:
            speaker.kill()
            speaker.communicate()
    said = [f"{name}-{n}-{part}" for name in ("one", "two") for n in range(ROUNDS) for part in "ab"]
    memory = shared_ledger.memory(tenant=tenant, user="alice", session="s: 1/_%")
    everything = [m.text() for m in SessionManager(memory, max_messages=1_000).get_history()]
    assert sorted(everything) == sorted(said)
    for name in ("one", "two"):
        own = [text for text in everything if text.startswith(name)]
        assert own == [text for text in said if text.startswith(name)]
    assert sorted(answers[0] + answers[1]) == sorted(everything[:-SHOWN])
    session = SessionManager(memory).get_session()
    assert session is not None
    assert session.state == {f"{name}-{n}": n for name in ("one", "two") for n in range(ROUNDS)}
    (procedure,) = ProcedureMemory(memory).get_procedures()
    assert procedure.success_count == 2 * ROUNDS
    newest = Summaries(memory).get_summaries()[-1]
    assert [text for text in said if text not in newest] == []
    assert all(report.equal for report in shared_ledger.replay(tenant=tenant, verify=True))
