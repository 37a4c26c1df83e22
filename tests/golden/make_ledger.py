"""
Writes a small ledger of the present format into a folder, for later versions to open.

Run once for each released format, with the address of a superuser of a scratch server and a
folder that does not exist: ``python -m tests.golden.make_ledger URL tests/golden/ledger-2``. The
folders of earlier formats are never changed.
"""

import json
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import psycopg

import memoriale
from memoriale.adapters.application.stream import LoggedEvent
from memoriale.adapters.exporting.runner import export
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.postgres.migrate import migrate

TENANT: Final = "golden"
TABLES: Final = ("ledger_logs", "ledger_heads", "ledger_events", "ledger_subjects")
EMBEDDER: Final = "memoriale.adapters.embeddings.hashing:make"


def main(url: str, folder: Path) -> None:
    """Writes the ledger, dumps its tables, and keeps the keys and what reads must give."""
    folder.mkdir(parents=True)
    migrate(url)
    with TemporaryDirectory() as home:
        with memoriale.open(home=home, database_url=url, embedder=EMBEDDER, wait=30) as ledger:
            write_every_topic(ledger, Path(home))
            expected = readings(ledger)
        shutil.copytree(Path(home) / "keys", folder / "keys")
    (folder / "expected.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n")
    dump(url, folder / "rows.jsonl")


def write_every_topic(ledger: Ledger, home: Path) -> None:
    """One event of every topic that this release writes, on two branches."""
    alice = ledger.memory(tenant=TENANT, user="alice", agent="support", namespace="org/team")
    first = alice.remember(
        "Alice prefers e-mail",
        kind="fact",
        subject="preference:contact",
        importance=0.6,
        tags=["contact", "Kontakt – 連絡"],
        metadata={"nested": {"list": [1, 2.5, None, "naïve"]}},
        valid_from="2026-01-01T10:00:00+01:00",
        reason="first call",
        idempotency_key="call-1",
    )
    alice.remember("Alice prefers fax", kind="fact", subject="preference:contact")
    note = alice.remember("A note of Alice's", about=["bob", "carol"], source="ticket 7")
    room = ledger.memory(tenant=TENANT, resource="room", team="blue", session="s-1")
    room.remember("こんにちは", kind="message", speaker="Aiko", role="user", caption="a sunrise")
    alice.correct(note.memory_id, "A better note", reason="typo", actor="bob")
    alice.amend(note.memory_id, importance=0.9, tags=["amended"], expires_at=None)
    branch = alice.fork("what-if", reason="to try")
    branch.correct(note.memory_id, "Another note on the branch")
    alice.invalidate(note.memory_id, because="retracted", reason="was wrong")
    alice.reinstate(note.memory_id, reason="was right")
    alice.reinstate(first.memory_id, reason="she changed her mind")
    try:
        ledger.memory(tenant=TENANT, user="mallory", rights=()).recall("anything")
    except memoriale.MissingRightError:
        export(ledger, tenant=TENANT, out=home / "export.jsonl")


def readings(ledger: Ledger) -> dict[str, Any]:
    """What every later version must read from this ledger."""
    alice = ledger.memory(tenant=TENANT, user="alice", agent="support", namespace="org/team")
    room = ledger.memory(tenant=TENANT, resource="room", team="blue")
    return {
        "main": _listed(alice),
        "main as of 1": _listed(alice, as_of=1),
        "what-if": _listed(alice.branch("what-if")),
        "room": _listed(room),
        "history": [
            (e.index, e.event, e.content, e.reason, e.actor and e.actor.id)
            for record in alice.list().memories
            for e in alice.history(record.memory_id)
        ],
        "roots": [(r.leaves, r.root, r.ok) for r in ledger.verify(tenant=TENANT)][:1],
        "denied": [(e.row.columns.topic, e.row.header) for e in _accesses(ledger)][:1],
    }


def dump(url: str, path: Path) -> None:
    """The tables as JSON lines, without the entries that reading them has made."""
    with psycopg.connect(url) as connection, path.open("w") as file:
        for table in TABLES:
            for (row,) in connection.execute(
                f"SELECT to_jsonb(t) FROM ledger.{table} t WHERE tenant = %s ORDER BY 1",
                [TENANT],
            ):
                file.write(json.dumps({"table": table, "row": row}, ensure_ascii=False) + "\n")


def restore(url: str, path: Path) -> None:
    """Puts dumped rows into the tables of a migrated database, as a superuser."""
    with psycopg.connect(url) as connection, path.open() as file:
        for line in file:
            entry = json.loads(line)
            table = entry["table"]
            assert table in TABLES
            connection.execute(
                f"INSERT INTO ledger.{table} SELECT * FROM "
                f"jsonb_populate_record(NULL::ledger.{table}, %s::jsonb)",
                [json.dumps(entry["row"])],
            )


def _listed(memory: memoriale.Memory, **given: Any) -> list[dict[str, Any]]:
    return [record.as_dict() for record in memory.list(**given).memories]


def _accesses(ledger: Ledger) -> list[LoggedEvent]:
    rows = ledger.tenant(TENANT).access.reader.rows()
    return [LoggedEvent(row) for row in rows if row.columns.topic == "access.denied"]


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
