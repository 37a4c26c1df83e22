"""No text and no outside id that a caller sets is found in the ledger's files."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

import psycopg
import pytest

import memoriale
from memoriale.adapters.exporting.runner import export
from memoriale.adapters.library.ledger import Ledger
from memoriale.domain.events import EVENT_TYPES
from memoriale.domain.jobs import JobCompleted, JobRequested, JobStarted
from memoriale.domain.operations.scopes import Scope
from tests.fixtures.embedded import temporary_home
from tests.fixtures.ledger import HASHING
from tests.fixtures.operations import Scripted, reply, said

FIELDS = (
    *("user", "agent", "resource", "session", "team", "actor", "on_behalf_of", "about"),
    *("content", "subject", "reason", "tags", "namespace", "metadata_key", "metadata_value"),
    *("source", "source_run", "evidence", "idempotency_key", "speaker", "role", "caption"),
    *("branch", "query", "correction", "amendment", "denied"),
    *("said", "op_id", "scope_tag", "extracted", "label", "category", "add_key"),
)
TENANT = f"tenant-{token_hex(8)}"
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Scene:
    """A ledger in which every text is a canary, and where its files lie."""

    ledger: Ledger
    canaries: dict[str, str]
    home: Path


def canary(field: str) -> str:
    """A text that stands nowhere else, recognisable by its field, with letters of two scripts."""
    return f"kanári-{field}-{token_hex(12)}"


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with (
        temporary_home() as home,
        memoriale.open(
            home=home, embedder=HASHING, wait=30, embedded_idle=0, access_log="full"
        ) as ledger,
    ):
        yield Scene(ledger, write_every_topic(ledger, home), home)


def write_every_topic(ledger: Ledger, home: Path) -> dict[str, str]:
    c = {field: canary(field) for field in FIELDS}
    everyone = ledger.memory(
        tenant=TENANT,
        user=c["user"],
        agent=c["agent"],
        resource=c["resource"],
        session=c["session"],
        team=c["team"],
        on_behalf_of=c["on_behalf_of"],
        namespace=f"{c['namespace']}/{c['namespace']}",
    )
    receipt = everyone.remember(
        c["content"],
        kind="fact",
        subject=c["subject"],
        reason=c["reason"],
        tags=[c["tags"]],
        metadata={c["metadata_key"]: [{"deep": c["metadata_value"]}]},
        source=c["source"],
        source_run=c["source_run"],
        evidence=[c["evidence"]],
        idempotency_key=c["idempotency_key"],
        about=[c["about"]],
        actor=c["actor"],
    )
    everyone.remember(
        c["content"], kind="message", speaker=c["speaker"], role=c["role"], caption=c["caption"]
    )
    everyone.correct(receipt.memory_id, c["correction"], reason=c["reason"], actor=c["actor"])
    everyone.amend(
        receipt.memory_id,
        tags=[c["amendment"]],
        metadata={c["metadata_key"]: c["metadata_value"]},
        reason=c["reason"],
    )
    everyone.invalidate(receipt.memory_id, reason=c["reason"])
    everyone.reinstate(receipt.memory_id, reason=c["reason"])
    everyone.fork(c["branch"], reason=c["reason"])
    everyone.recall(c["query"], tags=[c["tags"]])
    denied = ledger.memory(tenant=TENANT, user=c["denied"], rights=())
    with pytest.raises(memoriale.MissingRightError):
        denied.recall(c["query"])
    with pytest.raises(memoriale.InputError):
        everyone.branch(c["query"])
    add_twice(ledger, c)
    export(ledger, tenant=TENANT, out=home / "out.jsonl", subject_user=c["user"])
    ledger.tenant(TENANT).recorder.flush()
    ledger.verify(tenant=TENANT)
    return c


def add_twice(ledger: Ledger, c: dict[str, str]) -> None:
    """An operation that makes an item, and one that says it again."""
    fact = {"content": c["extracted"], "tags": [c["label"]], "category": c["category"]}
    scope: Scope = {"user_id": c["user"], "agent_id": c["agent"], "tags": [c["scope_tag"]]}
    model = Scripted(reply(fact), reply(fact))
    with memoriale.agent_memory(ledger, tenant=TENANT, llm=model) as memory:
        for number in range(2):
            key = f"{c['add_key']}-{number}"
            memory.add(said(c["said"]), scope, c["op_id"], key).result(30)


def files_with(folder: Path, needle: bytes) -> list[Path]:
    """Files below a folder that contain some bytes."""
    found = []
    for path in (p for p in folder.rglob("*") if p.is_file() and not p.is_symlink()):
        with path.open("rb") as file:
            tail = b""
            while chunk := file.read(_CHUNK):
                if needle in tail + chunk:
                    found.append(path)
                    break
                tail = chunk[-len(needle) :]
    return found


def data_directory(scene: Scene) -> Path:
    """The server's data folder, with everything written to disk."""
    server = scene.ledger.infrastructure.server
    assert server is not None
    with psycopg.connect(server.superuser_url, autocommit=True) as connection:
        connection.execute("CHECKPOINT")
    return server.data_directory


def test_every_topic_of_this_release_was_written(scene: Scene) -> None:
    """The scene holds one event of every topic, so that the scans below cover them all."""
    services = scene.ledger.tenant(TENANT)
    written = {
        row.columns.topic
        for log in (services.log, services.access)
        for rows in log.reader.stream_rows(0)
        for row in rows
    }
    jobs = {JobRequested.TOPIC, JobStarted.TOPIC, JobCompleted.TOPIC}
    assert written == {event.TOPIC for event in EVENT_TYPES} | jobs


def test_no_canary_is_in_a_row_of_the_ledger(scene: Scene) -> None:
    """What a caller sets stands in no column of any table of the ledger's schema."""
    server = scene.ledger.infrastructure.server
    assert server is not None
    with psycopg.connect(server.superuser_url) as connection:
        names = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'ledger'"
        ).fetchall()
        rows = "\n".join(
            str(row)
            for (name,) in names
            for row in connection.execute(f'SELECT t::text FROM ledger."{name}" t').fetchall()
        )
    assert TENANT in rows
    assert {field for field, text in scene.canaries.items() if text in rows} == set()
    hidden = {f for f, text in scene.canaries.items() if text.encode().hex() in rows}
    assert hidden == set()


def test_no_canary_is_in_a_file_of_the_database_server(scene: Scene) -> None:
    """What a caller sets is in no data file, no write-ahead log and no server log."""
    data = data_directory(scene)
    server = scene.ledger.infrastructure.server
    assert server is not None
    assert files_with(data, TENANT.encode()), "the scan finds a text that is stored in clear"
    for folder in (data, server.log_file.parent):
        found = {field: files_with(folder, text.encode()) for field, text in scene.canaries.items()}
        assert {field: paths for field, paths in found.items() if paths} == {}


def test_no_canary_is_in_the_key_store(scene: Scene) -> None:
    """Outside names are sealed in the key store too."""
    keys = scene.home / "keys"
    assert any(keys.iterdir())
    assert {f for f, text in scene.canaries.items() if files_with(keys, text.encode())} == set()


def test_no_folder_or_file_is_named_after_a_canary_or_a_tenant(scene: Scene) -> None:
    """Folders are named by log id, so that a listing tells nothing of anybody."""
    assert os.fspath(data_directory(scene))
    names = "\n".join(str(path.relative_to(scene.home)) for path in scene.home.rglob("*"))
    assert TENANT not in names
    assert {field for field, text in scene.canaries.items() if text in names} == set()


def test_the_canaries_are_readable_through_the_ledger(scene: Scene) -> None:
    """The scans do not pass because nothing was stored: an auditor reads every canary."""
    events = scene.ledger.events(tenant=TENANT, content=True)
    text = "\n".join(str(event.body) for event in events)
    sealed = set(scene.canaries) - {
        *("user", "agent", "resource", "session", "team", "actor", "on_behalf_of", "about"),
        *("source_run", "idempotency_key", "query", "denied", "add_key"),
    }
    assert {field for field in sealed if scene.canaries[field] not in text} == set()
