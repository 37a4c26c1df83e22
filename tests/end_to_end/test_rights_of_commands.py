"""Every command of the command line needs its rights, and names them in its help."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import typer

from memoriale.adapters.command_line.app import app
from memoriale.adapters.command_line.running import run
from memoriale.adapters.extraction.jobs import extraction_handlers, request_extraction
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.notes.verifier_keys import Algorithm, VerifierKey
from memoriale.domain.principal import ALL_RIGHTS, Right
from tests.fixtures.language_models import SILENT, silent
from tests.fixtures.ledger import HASHING
from tests.fixtures.postgres import Database
from tests.fixtures.sealing import sealed

USE, AUDIT, CONTENT, OPERATE = Right.USE, Right.AUDIT, Right.CONTENT, Right.OPERATE
REVIEW, ANALYSE, PRIVACY = Right.REVIEW, Right.ANALYSE, Right.PRIVACY
WITHOUT_RIGHTS: Final = {"version", "config show", "describe", "demo", "receipt-check"}
"""They touch nothing of a tenant's, or a home of their own."""
UNRECORDED: Final = {"stop", "migrate"}
"""They act on the installation itself, where there may be no log yet or any more."""
REFUSED_UNRECORDED: Final = UNRECORDED | {"doctor"}
NOBODY_ANSWERS: Final = "witness+http://127.0.0.1:1#" + str(
    VerifierKey("w", bytes(32), Algorithm.COSIGNATURE)
)
NO_MEMORY: Final = "0b0c7c1e-3d55-4f0b-9f6e-6f0f2a3f8c11"
CLERK: Final = ("--agent", "clerk")
BOT: Final = ("--resource", "bot")
WHY: Final = ("--reasoning", "cheaper", "--type", "purchase")
DONE: Final = (0, 1, 6)
"""Exit codes of a command that was allowed: done, or done with findings."""


@dataclass(frozen=True)
class Row:
    """
    A command with what it is given, and the rights without which it is refused.

    In the arguments ``{id}`` is a memory that the whole tenant sees, ``{line}`` a file to import,
    ``{said}`` a file of messages,
    ``{note}`` a checkpoint, ``{folder}`` an empty folder. ``user`` is as whom; None: nobody.
    """

    command: str
    rights: frozenset[Right]
    arguments: tuple[str, ...] = ()
    user: str | None = "alice"


def row(command: str, *arguments: str, rights: str, user: str | None = "alice") -> Row:
    return Row(command, frozenset(Right(r) for r in rights.split()), arguments, user)


ROWS: Final = [
    row("init", rights="operate", user=None),
    row("status", rights="operate", user=None),
    row("stop", rights="operate", user=None),
    row("migrate", "--plan", rights="operate", user=None),
    row("remember", "a note", rights="use"),
    row("recall", "x", rights="use"),
    row("add", "{said}", rights="use"),
    row("correct", "{id}", "better", rights="use"),
    row("correct", "{id}", "better", rights="use review", user="bob"),
    row("amend", "{id}", "--importance", "0.5", rights="use"),
    row("amend", "{id}", "--importance", "0.5", rights="use review", user="bob"),
    row("invalidate", "{id}", rights="use"),
    row("invalidate", "{id}", rights="use review", user="bob"),
    row("reinstate", "{gone}", rights="use"),
    row("reinstate", "{gone}", rights="use review", user="bob"),
    row("show", "{id}", rights="use"),
    row("show", "{id}", "--all-owners", rights="audit"),
    row("history", "{id}", rights="use"),
    row("history", "{id}", "--all-owners", rights="audit"),
    row("list", rights="use"),
    row("wait", "0", "--view", "stats", "--timeout", "60", rights="use", user=None),
    row("log", rights="audit", user=None),
    row("log", "--content", rights="audit content", user=None),
    row("subscribe", "--limit", "0", rights="use"),
    row("subscribe", "--limit", "0", "--all-owners", rights="audit"),
    row("subscribe", "--limit", "0", rights="audit", user=None),
    row("subscribe", "--limit", "0", "--content", rights="audit content", user=None),
    row("branches", rights="use"),
    row("tree", rights="use"),
    row("diff", "main", "main", rights="use"),
    row("fork", "what-if", rights="use"),
    row("fork", "what-if", rights="use review", user=None),
    row("merge", "work", rights="use review"),
    row("merge", "work", "--propose", rights="use"),
    row("merge", "handed", rights="use review operate"),
    row("approve", "{proposal}", rights="use review"),
    row("approve", "{handing}", rights="use review operate"),
    row("discard", "work", rights="use"),
    row("discard", "whole", rights="use review", user=None),
    row("discard", "handed", rights="use operate"),
    row("episodic", "--resource", "resource", rights="use"),
    row("episodic-tree", "--resource", "resource", rights="use"),
    row("import", "{line}", rights="use operate"),
    row("export", "--out", "{folder}", rights="privacy", user=None),
    row("sql", "SELECT 1", rights="analyse", user=None),
    row("stats", rights="analyse", user=None),
    row("snapshot", rights="analyse", user=None),
    row("replay", "--view", "stats", rights="operate", user=None),
    row("reconcile", rights="operate", user=None),
    row("verify", rights="audit", user=None),
    row("checkpoint", rights="audit", user=None),
    row("anchors", rights="audit", user=None),
    row("witness push", rights="operate", user=None),
    row("witness verify", rights="audit", user=None),
    row("receipt", "0", rights="audit", user=None),
    row("bundle", "--out", "{folder}", rights="audit", user=None),
    row("consistency", "{note}", "{note}", rights="audit", user=None),
    row("key list", rights="admin", user=None),
    row("key rotate", rights="admin", user=None),
    row("restored", "--reason", "a backup was put back", rights="admin", user=None),
    row("doctor", rights="operate", user=None),
    row("who-saw", "{id}", rights="audit", user=None),
    row("who-saw", "{id}", "--content", rights="audit content", user=None),
    row("what-was-told", "s-1", rights="audit", user=None),
    row("what-was-told", "s-1", "--content", rights="audit content", user=None),
    row("accesses", rights="audit", user=None),
    row("accesses", "--content", rights="audit content", user=None),
    row("facts list", rights="use"),
    row("facts add", "likes tea", rights="use"),
    row("facts forget", "likes tea", rights="use"),
    row("profile show", rights="use"),
    row("profile set", '{{"role": "nurse"}}', rights="use"),
    row("profile clear", rights="use"),
    row("working get", "x", *BOT, rights="use"),
    row("working set", "x", "3", *BOT, rights="use"),
    row("working list", *BOT, rights="use"),
    row("working delete", "x", *BOT, rights="use"),
    row("compact", "--max-facts", "0", *BOT, rights="use"),
    row("file show", "--target", "user", rights="use"),
    row("file add", "a line", "--target", "user", rights="use"),
    row("file replace", "a", "b", "--agent", "clerk", rights="use"),
    row("file remove", "a", "--agent", "clerk", rights="use"),
    row("decision log", "x", *WHY, *CLERK, rights="use"),
    row("decision outcome", "{decision}", "fine", *CLERK, rights="use"),
    row("decision list", *CLERK, rights="use"),
    row("decision search", "x", *CLERK, rights="use"),
    row("learning save", "t", "c", rights="use"),
    row("learning search", "c", rights="use"),
    row("learning invalidate", NO_MEMORY, rights="use"),
    row("correction record", "a", "b", *CLERK, rights="use"),
    row("correction list", *CLERK, rights="use"),
    row("correction search", "b", *CLERK, rights="use"),
    row("correction stats", *CLERK, rights="use"),
    row("correction eval-cases", *CLERK, rights="use"),
    row("entity list", rights="use"),
    row("entity show", "ada", rights="use"),
    row("entity upsert", "Ada", "--type", "person", rights="use"),
    row("entity add-fact", "ada", "likes tea", rights="use"),
    row("graph add", '{{"nodes": [{{"id": "a", "type": "t"}}]}}', rights="use"),
    row("graph neighbours", "node", rights="use"),
    row("graph traverse", "node", rights="use"),
    row("graph path", "node", "node", rights="use"),
    row("procedure save", "t", "d", rights="use"),
    row("procedure suggest", "t", rights="use"),
    row("procedure list", rights="use"),
    row("session open", "new", rights="use"),
    row("session append", "s-1", "hello", rights="use"),
    row("session show", "s-1", rights="use"),
    row("session list", rights="use"),
    row("session state", "s-1", rights="use"),
    row("session state", "s-1", "--set", '{{"a": 1}}', rights="use"),
    row("summarize", "s-1", rights="use"),
    row("context", "x", rights="use"),
    row("tools", rights="use"),
    row("explain", "{id}", rights="use"),
    row("explain", "{id}", "--all-owners", rights="audit"),
    row("curate prune", "--max-age-days", "1", rights="use"),
    row("curate deduplicate", rights="use"),
    row("curate clear", "--dry-run", rights="use"),
    row("curate consolidate", rights="use"),
    row("jobs list", rights="operate", user=None),
    row("jobs show", "{job}", rights="operate", user=None),
    row("jobs cancel", "{job}", rights="operate", user=None),
    row("jobs retry", "{cancelled}", rights="operate", user=None),
    row("jobs run", rights="operate", user=None),
    row("jobs compare", "{done}", rights="operate", user=None),
]
NAMES: Final = [f"{r.command} {'+'.join(sorted(r.rights))}" for r in ROWS]
NEEDED: Final = [
    pytest.param(r, right, id=f"{name} without {right}")
    for r, name in zip(ROWS, NAMES, strict=True)
    for right in sorted(r.rights)
]


def commands(group: Any = None, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every command with its path, such as ``config show``."""
    group = typer.main.get_command(app) if group is None else group
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{path}{name} ")
        else:
            yield f"{path}{name}", command


def test_every_command_stands_in_the_matrix() -> None:
    """A command that is new must say here which rights it needs."""
    found, listed = {path for path, _ in commands()}, {r.command for r in ROWS} | WITHOUT_RIGHTS
    for path in sorted(found - listed):
        pytest.fail(
            f"the command {path!r} stands in no row: add row({path!r}, its arguments, rights='…')"
            " to ROWS, or its name to WITHOUT_RIGHTS if it touches nothing of a tenant's; and let"
            " what it calls ask the gate."
        )
    assert listed <= found


@pytest.mark.parametrize(("path", "command"), [*commands()], ids=[path for path, _ in commands()])
def test_the_help_names_the_rights(path: str, command: Any) -> None:
    """The help of a command has a line `Right:` with each right that it may need and no other."""
    said = re.search(r"^Right: (.+?)$", command.help, re.MULTILINE)
    assert said is not None, f"the help of {path!r} has no line 'Right: …'"
    named = set(re.findall(rf"\b(?:{'|'.join(Right)})\b", said[1]))
    needed = {right for r in ROWS if r.command == path for right in r.rights}
    # What is shown of others' memories depends on it; without it the call is made all the same.
    optional = {CONTENT} if path in ("show", "history", "explain") else set()
    assert named == needed | optional
    assert needed or said[1].startswith("none")


def branched(ledger: Ledger, tenant: str) -> dict[str, str]:
    """Branches to merge and to discard, and proposals for them, by the names of their ids."""
    alice = ledger.memory(tenant=tenant, user="alice")
    alice.fork("work").remember("x")
    alice.fork("handed", resource="r").remember("x")
    ledger.memory(tenant=tenant).fork("whole")
    names = {"proposal": "work", "handing": "handed"}
    return {n: str(alice.merge(branch, propose=True).proposal) for n, branch in names.items()}


def stored(ledger: Ledger, tenant: str) -> dict[str, str]:
    """What the commands of the stores act on, by the name of its id in the arguments."""
    memory = ledger.memory(tenant=tenant, user="alice", agent="clerk")
    memory.files.add("memory", None, "a")
    memory.entities.upsert_entity(None, {"name": "Ada", "entity_type": "person"})
    memory.graph.add([{"id": "node", "type": "t"}])
    memory.sessions.get_or_create_session("s-1")
    decision = memory.decisions.log_decision(
        decision={"decision": "x", "reasoning": "y", "decision_type": "z"}
    )
    done = request_extraction(memory, ["facts"], [])[0]
    handlers = extraction_handlers(lambda principal, branch: memory.rebound(principal), silent)
    ledger.tenant(tenant).jobs.run_due(handlers)
    jobs = [request_extraction(memory, ["facts"], [])[0] for _ in range(2)]
    ledger.jobs.cancel(jobs[1], tenant=tenant)
    names = ("decision", "done", "job", "cancelled")
    return dict(zip(names, map(str, (decision.id, done, *jobs)), strict=True))


Prepared = Callable[[Row, frozenset[Right]], tuple[int, bytes]]


@pytest.fixture
def prepared(
    shared_ledger: Ledger,
    database: Database,
    ledger_home: Path,
    tenant: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> Prepared:
    """Runs a command in this process with some rights: its exit code and its errors."""
    alice = shared_ledger.memory(tenant=tenant, user="alice")
    lines = tmp_path / "lines.jsonl"
    lines.write_text('{"content": "x"}\n')
    spoken = tmp_path / "said.jsonl"
    spoken.write_text('{"role": "user", "content": "x"}\n')
    note = tmp_path / "checkpoint"
    note.write_text(str(sealed(shared_ledger, shared_ledger.tenant(tenant).log).signed.note))
    known = {
        "id": str(alice.remember("x", visibility="tenant").memory_id),
        "gone": str(alice.remember("gone", visibility="tenant").memory_id),
        "line": str(lines),
        "said": str(spoken),
        "note": str(note),
        "folder": str(tmp_path),
    }
    alice.invalidate(known["gone"])
    known |= stored(shared_ledger, tenant) | branched(shared_ledger, tenant)
    environment = {
        "MEMORIALE_HOME": str(ledger_home),
        "MEMORIALE_DATABASE_URL": database.app_url,
        "MEMORIALE_ADMIN_URL": database.superuser_url,
        "MEMORIALE_EMBEDDER": HASHING,
        "MEMORIALE_WAIT": "60",
        "MEMORIALE_TENANT": tenant,
        "MEMORIALE_ANCHORS": NOBODY_ANSWERS,
        "MEMORIALE_MODEL": SILENT,
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    def running(given: Row, rights: frozenset[Right]) -> tuple[int, bytes]:
        monkeypatch.setenv("MEMORIALE_RIGHTS", ",".join(rights))
        if given.user is not None:
            monkeypatch.setenv("MEMORIALE_USER", given.user)
        arguments = [argument.format(**known) for argument in given.arguments]
        capfdbinary.readouterr()
        code = run([*given.command.split(), *arguments, "--json"])
        return code, capfdbinary.readouterr().err

    return running


def entries(ledger: Ledger, tenant: str, topic: str) -> list[str]:
    access = ledger.tenant(tenant).access
    return [row.header for row in access.reader.rows() if row.columns.topic == topic]


@pytest.mark.parametrize("given", ROWS, ids=NAMES)
def test_a_command_is_allowed_with_exactly_its_rights(
    given: Row, prepared: Prepared, shared_ledger: Ledger, tenant: str
) -> None:
    """With its own rights and no other a command runs, and the use of each right other than
    ``use`` is on record."""
    code, errors = prepared(given, given.rights)
    assert code in DONE, errors.decode()
    used = "".join(entries(shared_ledger, tenant, "access.right_used"))
    if given.command not in UNRECORDED:
        assert all(f'"{right}"' in used for right in given.rights - {USE})


@pytest.mark.parametrize(("given", "right"), NEEDED)
def test_a_command_is_refused_without_one_of_its_rights(
    given: Row, right: Right, prepared: Prepared, shared_ledger: Ledger, tenant: str
) -> None:
    """With every right but one that it needs a command is code 3, names the right, stores nothing
    in the memory log, and the refusal is on record."""
    head = shared_ledger.tenant(tenant).log.head()
    code, errors = prepared(given, ALL_RIGHTS - {right})
    error = json.loads(errors.splitlines()[-1])["error"]
    assert (code, error["code"], error["allowed"]) == (3, "missing_right", right)
    assert shared_ledger.tenant(tenant).log.head() == head
    denied = entries(shared_ledger, tenant, "access.denied")
    if given.command not in REFUSED_UNRECORDED:
        assert len(denied) == 1
        assert f'"right":"{right}"' in denied[0]


def test_unknown_rights_are_bad_input(prepared: Prepared) -> None:
    """A right that there is not is refused at the start and names the variable."""
    code, errors = prepared(row("list", rights="use"), frozenset({"root"}))  # type: ignore[arg-type]
    assert code == 2
    assert json.loads(errors.splitlines()[-1])["error"]["field"] == "MEMORIALE_RIGHTS"


def test_without_the_setting_every_right_is_asserted(
    prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever owns the home has all rights unless the settings say less; an empty value is none."""
    monkeypatch.delenv("MEMORIALE_RIGHTS", raising=False)
    assert run(["verify", "--json"]) == 0
    code, _ = prepared(row("list", rights="use"), frozenset())
    assert code == 3


def test_the_matrix_notices_a_command_that_stands_in_no_row() -> None:
    """Planted failure: a command without a row is found by name."""

    def leak() -> None:
        """Right: none."""

    app.command()(leak)
    try:
        with pytest.raises(pytest.fail.Exception, match="the command 'leak' stands in no row"):
            test_every_command_stands_in_the_matrix()
    finally:
        app.registered_commands.pop()
