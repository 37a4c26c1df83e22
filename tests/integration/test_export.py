"""Export: everything of a tenant, or of one user and nothing else, as a private whole file."""

import json
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memoriale.adapters.application.presenting import as_json
from memoriale.adapters.exporting.runner import PAGE, export
from memoriale.adapters.keys.tags import content_tag, tag_key
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.domain.errors import InputError
from memoriale.domain.keys import Subject
from memoriale.domain.record import COLUMNS
from tests.fixtures.embedded import interpreter, nobody, python_environment
from tests.fixtures.ledger import HASHING

# Exports, and again with a limit on the size of files: by then every key exists, so that the
# export is the only file that grows.
ELSEWHERE = """
import json, os, resource, sys
import memoriale
from memoriale.adapters.exporting.runner import export
home, url, embedder, tenant, out, limit = sys.argv[1:]
with memoriale.open(home=home, database_url=url, embedder=embedder) as ledger:
    export(ledger, tenant=tenant, out=out)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), resource.RLIM_INFINITY))
    try:
        export(ledger, tenant=tenant, out=out)
    except memoriale.MemorialeError as error:
        print(json.dumps(error.as_dict()))
"""

WITHOUT_RIGHTS = """
import json, sys
from memoriale.adapters.exporting.target import replaced, target_path
from memoriale.domain.errors import UnavailableError
try:
    with replaced(target_path(sys.argv[1], "t", 0, ".jsonl")):
        pass
except UnavailableError as error:
    print(json.dumps(error.as_dict()))
"""


def read(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def tell_a_story(as_user: Callable[[str], Memory]) -> None:
    """Events of every kind by two users, with text that only one of them may read."""
    alice, bob = as_user("alice"), as_user("bob")
    first = alice.remember(
        "Alice drinks tea 🍵",
        kind="fact",
        subject="drink",
        namespace="org/team",
        tags=["hot"],
        metadata={"n": [1, None]},
        evidence=["seen"],
        valid_from="2024-01-01T00:00:00+05:45",
    )
    bob.remember("bob-secret-note")
    alice.correct(first.memory_id, "Alice drinks coffee", reason="she said so", actor="bob")
    alice.amend(first.memory_id, importance=0.5, reason="weighed")
    about = bob.remember("bob-about-alice", about=["alice"])
    bob.invalidate(about.memory_id, reason="no more")
    bob.remember("bob-about-carol", about=["carol"])
    alice.fork("alice-branch")
    alice.invalidate(first.memory_id, reason="moved away")
    alice.reinstate(first.memory_id, reason="came back")


def without_empty(body: dict[str, Any]) -> dict[str, Any]:
    """A body and its payload without what has no value, as they are stored."""
    told = {name: value for name, value in body.items() if value}
    if "payload" in told:
        told["payload"] = {name: value for name, value in told["payload"].items() if value}
    return told


def test_every_event_is_there_with_every_column_and_its_content(
    as_user: Callable[[str], Memory], shared_ledger: Ledger, tenant: str, tmp_path: Path
) -> None:
    """Each line holds each column of its row, the header, the opened body and the names; lines
    stand in the order of the log."""
    tell_a_story(as_user)
    out = tmp_path / "all.jsonl"
    told: list[tuple[str, int, int]] = []
    report = export(shared_ledger, tenant=tenant, out=out, progress=lambda *args: told.append(args))
    records = read(out)
    events = list(shared_ledger.events(tenant=tenant, content=True))
    assert report.as_dict() == {
        "files": [str(out)],
        "events": len(events),
        "index": len(events) - 1,
    }
    assert told[-1] == ("export", len(events), len(events))
    for record, event in zip(records, events, strict=True):
        columns = [c.name for c in COLUMNS if c.name not in ("state", "header")]
        assert set(record) == {*columns, "names", "header", "body"}
        assert {name: record[name] for name in columns} == {
            name: as_json(event.row.value(name)) for name in columns
        }
        assert record["header"] == json.loads(event.row.header)
        assert event.body is not None
        assert event.body.items() <= without_empty(record["body"]).items()
        assert record["names"]["owner"]["id"] in ("alice", "bob")
    assert records[0]["body"]["payload"]["content"] == "Alice drinks tea 🍵"
    assert records[0]["body"]["given_times"]["valid_from"] == "2024-01-01T00:00:00+05:45"
    assert records[2]["body"]["reason"] == "she said so"
    assert records[2]["names"]["actor"] == {"type": "user", "id": "bob"}
    assert records[6]["names"]["about"] == [{"type": "user", "id": "carol"}]


def test_an_export_for_one_user_holds_nothing_of_another(
    as_user: Callable[[str], Memory], shared_ledger: Ledger, tenant: str, tmp_path: Path
) -> None:
    """Only what the user owns and what is about the user is there; other users are not named."""
    tell_a_story(as_user)
    out = tmp_path / "alice.jsonl"
    report = export(shared_ledger, tenant=tenant, out=out, subject_user="alice")
    text = out.read_text()
    for foreign in ("bob-secret-note", "bob-about-carol", '"bob"', '"carol"'):
        assert foreign not in text
    for own in ("Alice drinks tea", "she said so", "bob-about-alice", "alice-branch", "came back"):
        assert own in text
    indices = [record["index"] for record in read(out)]
    assert indices == [0, 2, 3, 4, 5, 7, 8, 9]
    assert (report.events, report.index) == (8, 9)


def test_an_erased_event_is_exported_without_its_body(
    as_user: Callable[[str], Memory], shared_ledger: Ledger, tenant: str, tmp_path: Path
) -> None:
    """Where the key is gone, columns and header are there, the body is null, the name absent."""
    as_user("alice").remember("soon gone")
    as_user("bob").remember("stays")
    store = shared_ledger.infrastructure.keys
    key = store.find(tenant, Subject("user", "alice"))
    assert key is not None
    store.destroy(key.key_id)
    export(shared_ledger, tenant=tenant, out=tmp_path / "all.jsonl")
    gone, stays = read(tmp_path / "all.jsonl")
    assert gone["body"] is None
    assert gone["names"] == {}
    assert gone["header"] == {"content_length": 9, "source_tier": "manual"}
    assert stays["body"]["payload"]["content"] == "stays"


def test_an_unknown_user_is_refused(
    alice: Memory, shared_ledger: Ledger, tenant: str, tmp_path: Path
) -> None:
    """A user whom the tenant does not know is bad input, and no file is made."""
    alice.remember("x")
    for user in ("nobody-here", "", "a\0b"):
        with pytest.raises(InputError) as refused:
            export(shared_ledger, tenant=tenant, out=tmp_path / "x", subject_user=user)
        assert refused.value.field == "subject_user"
    assert list(tmp_path.iterdir()) == []


def test_an_export_is_on_record(
    as_user: Callable[[str], Memory], shared_ledger: Ledger, tenant: str, tmp_path: Path
) -> None:
    """The access log holds the use of the right, and what left: format, events, index, person."""
    tell_a_story(as_user)
    export(shared_ledger, tenant=tenant, out=tmp_path / "x.jsonl", subject_user="alice")
    key = shared_ledger.infrastructure.keys.find(tenant, Subject("user", "alice"))
    assert key is not None
    rows = shared_ledger.tenant(tenant).access.reader.rows()[-2:]
    assert [row.columns.topic for row in rows] == ["access.right_used", "access.exported"]
    assert json.loads(rows[0].header) == {"command": "export", "rights": ["privacy"]}
    assert json.loads(rows[1].header) == {
        "events": 8,
        "format": "jsonl",
        "index": 9,
        "subject": str(key.pseudonym),
    }


def test_a_file_is_private_and_replaced_in_one_step(
    alice: Memory, shared_ledger: Ledger, tenant: str, tmp_path: Path
) -> None:
    """The file has mode 0600, replaces an earlier one, and nothing else is left beside it."""
    alice.remember("x")
    out = tmp_path / "x.jsonl"
    out.write_text("earlier")
    out.chmod(0o644)
    export(shared_ledger, tenant=tenant, out=str(out))
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert len(read(out)) == 1
    assert list(tmp_path.iterdir()) == [out]


def test_a_folder_gets_a_file_named_by_tenant_and_index(
    alice: Memory, shared_ledger: Ledger, tenant: str, tmp_path: Path
) -> None:
    """A folder, also one to be made by a name with a slash at its end, holds the file."""
    alice.remember("x")
    for out in (tmp_path, f"{tmp_path}/new/"):
        report = export(shared_ledger, tenant=tenant, out=out)
        assert report.files == (str(Path(out) / f"{tenant}-0.jsonl"),)
        assert Path(report.files[0]).is_file()
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700


def test_an_empty_tenant_gives_an_empty_file(
    shared_ledger: Ledger, tenant: str, tmp_path: Path
) -> None:
    """Nothing recorded is no error."""
    report = export(shared_ledger, tenant=tenant, out=tmp_path)
    assert (report.events, report.index) == (0, -1)
    assert Path(report.files[0]).read_bytes() == b""


def test_an_export_longer_than_a_page_is_whole(
    alice: Memory, shared_ledger: Ledger, tenant: str, tmp_path: Path
) -> None:
    """Events over several pages are there once each, in order."""
    alice.remember_many([f"note {n}" for n in range(2 * PAGE + 3)])
    export(shared_ledger, tenant=tenant, out=tmp_path / "x")
    assert [record["index"] for record in read(tmp_path / "x")] == list(range(2 * PAGE + 3))


@pytest.mark.parametrize(
    "out", ["", "a\0b", "no/such/folder/x.jsonl", "file/x.jsonl", "pipe", "x" * 300]
)
def test_a_place_that_cannot_hold_a_file_is_refused(
    alice: Memory,
    shared_ledger: Ledger,
    tenant: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    out: str,
) -> None:
    """A path that names no possible file is bad input."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    alice.remember("x")
    with pytest.raises(InputError) as refused:
        export(shared_ledger, tenant=tenant, out=out)
    assert refused.value.field == "out"
    assert {path.name for path in tmp_path.iterdir()} == {"file", "pipe"}


def test_an_unknown_format_is_refused(shared_ledger: Ledger, tenant: str, tmp_path: Path) -> None:
    """Only JSON lines can be written."""
    with pytest.raises(InputError) as refused:
        export(shared_ledger, tenant=tenant, out=tmp_path, format="parquet")
    assert (refused.value.field, refused.value.allowed) == ("format", ["jsonl"])


def test_a_full_disk_leaves_nothing(
    alice: Memory,
    shared_ledger: Ledger,
    ledger_home: Path,
    shared_url: str,
    tenant: str,
    tmp_path: Path,
) -> None:
    """When the file cannot grow, the error is UnavailableError, no part stays, and an earlier
    file is untouched. The limit on the size of files stands for a full disk."""
    alice.remember_many([f"note {n} " + "x" * 1000 for n in range(200)])
    out = tmp_path / "x.jsonl"
    run = subprocess.run(
        [
            *(sys.executable, "-c", ELSEWHERE),
            *(str(ledger_home), shared_url, HASHING, tenant, str(out), "100000"),
        ],
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr.decode()
    error = json.loads(run.stdout)
    assert (error["code"], error["field"], error["retry"]) == ("unwritable", "out", True)
    assert len(read(out)) == 200
    assert list(tmp_path.iterdir()) == [out]


def test_a_folder_without_rights_is_unavailable() -> None:
    """Where this user may not write, the error says so and nothing is made."""
    user = nobody()
    with tempfile.TemporaryDirectory(prefix="export-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        run = subprocess.run(
            [interpreter(user), "-c", WITHOUT_RIGHTS, f"{folder}/x.jsonl"],
            env=python_environment(),
            user=user,
            group=user,
            extra_groups=[],
            cwd="/",
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert run.returncode == 0, run.stderr.decode()
        assert json.loads(run.stdout)["code"] == "unwritable"
        assert list(Path(folder).iterdir()) == []


def test_what_a_killed_export_left_is_removed(
    alice: Memory, shared_ledger: Ledger, tenant: str, tmp_path: Path
) -> None:
    """The next export into the folder removes the half-written file of a killed one, and only
    that."""
    alice.remember("x")
    (tmp_path / ".memoriale-export-dead.part").write_text("half")
    (tmp_path / ".other.part").touch()
    export(shared_ledger, tenant=tenant, out=tmp_path / "x.jsonl")
    assert {path.name for path in tmp_path.iterdir()} == {"x.jsonl", ".other.part"}


def test_the_content_of_an_export_can_be_checked_against_the_log(
    alice: Memory, shared_ledger: Ledger, tenant: str, tmp_path: Path
) -> None:
    """The exported content has the content tag that the log holds, so it is what was stored."""
    alice.remember("  Words as GIVEN ")
    export(shared_ledger, tenant=tenant, out=tmp_path / "x")
    record = read(tmp_path / "x")[0]
    key = shared_ledger.infrastructure.keys.find(tenant, Subject("user", "alice"))
    assert key is not None
    tag = content_tag(tag_key(key.key), record["body"]["payload"]["content"])
    assert tag.hex() == record["content_tag"]
