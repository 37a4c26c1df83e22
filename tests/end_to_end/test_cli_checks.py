"""Checks find what is wrong, name it, and end with exit code 1."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from memoriale.projections.generations import Generations
from memoriale.projections.stats.connection import FILE
from tests.fixtures.cli import CommandLine
from tests.fixtures.embedded import layout_of

DOWN = "postgresql://u:secret@127.0.0.1:1/x"
VERIFIED = {"leaves", "root", "ok", "unsealed", "first_bad_index", "problems"}
REPLAYED = {
    *("view", "events", "seconds", "events_per_second", "digest_live", "digest_rebuilt"),
    *("equal", "vectors_recomputed"),
}


def filled(cli: CommandLine, tenant: str) -> tuple[str, str]:
    """A tenant with three memories, as options; and the id of its memory log."""
    for text in ("one", "two", "three"):
        cli.remember(text, "--tenant", tenant, "--importance", "0.5")
    first = cli("log", "--tenant", tenant, "--limit", "1", "--json").lines()[0]
    return tenant, str(first["log_id"])


def view_of(cli: CommandLine, log_id: str, view: str) -> Generations:
    """The place of a view on disk."""
    return Generations(cli.home / "views" / log_id.replace("-", "") / view)


@contextmanager
def unguarded(cli: CommandLine) -> Iterator[psycopg.Connection]:
    """A superuser's connection for whom the table's guard is away."""
    table = "ALTER TABLE ledger.ledger_events"
    with psycopg.connect(cli.superuser_url, autocommit=True) as connection:
        connection.execute(f"{table} DISABLE TRIGGER append_only")
        yield connection
        connection.execute(f"{table} ENABLE ALWAYS TRIGGER append_only")


def verified(cli: CommandLine, tenant: str, code: int) -> dict[str, Any]:
    """What verify prints, with its exit code checked."""
    run = cli("verify", "--tenant", tenant, "--json")
    assert run.code == code, run.errors
    found: dict[str, Any] = json.loads(run.out)
    return found


def test_verify_holds_on_what_nobody_changed(cli: CommandLine) -> None:
    """Exit code 0, with the memory log's leaves and root on top and both logs listed."""
    tenant, _ = filled(cli, "untouched")
    found = verified(cli, tenant, 0)
    assert set(found) >= VERIFIED
    assert (found["leaves"], found["ok"], found["unsealed"]) == (3, True, 0)
    assert (found["first_bad_index"], found["problems"]) == (None, [])
    assert len(found["root"]) == 64
    assert [log["log"] for log in found["logs"]] == ["memory", "access"]
    assert all(set(log) >= VERIFIED for log in found["logs"])


@pytest.mark.parametrize(
    ("statement", "bad"),
    [
        ("UPDATE ledger.ledger_events SET actor = gen_random_uuid() WHERE index = 1", 1),
        ("UPDATE ledger.ledger_events SET state = set_byte(state, 20, 0) WHERE index = 2", 2),
        ("DELETE FROM ledger.ledger_events WHERE index = 0", 0),
    ],
)
def test_verify_finds_what_was_changed(cli: CommandLine, statement: str, bad: int) -> None:
    """A changed column, a changed body and a missing event are found at their index."""
    tenant, log_id = filled(cli, f"changed-{bad}")
    with unguarded(cli) as connection:
        connection.execute(statement + " AND tenant = %s AND log_id = %s", [tenant, log_id])
    found = verified(cli, tenant, 1)
    assert (found["ok"], found["first_bad_index"]) == (False, bad)
    assert found["problems"][0]["index"] == bad
    people = cli("verify", "--tenant", tenant)
    assert people.code == 1
    assert f"memory log, index {bad}".encode() in people.out


def test_verify_covers_the_access_log(cli: CommandLine) -> None:
    """A change of the access log alone makes the whole not ok, and is named at the top too."""
    tenant, log_id = filled(cli, "watched")
    with unguarded(cli) as connection:
        connection.execute(
            "UPDATE ledger.ledger_events SET purpose = 'none' WHERE tenant = %s AND log_id <> %s",
            [tenant, log_id],
        )
    found = verified(cli, tenant, 1)
    memory, access = found["logs"]
    assert (found["ok"], memory["ok"], access["ok"]) == (False, True, False)
    assert {problem["log"] for problem in found["problems"]} == {"access"}
    assert found["first_bad_index"] == access["first_bad_index"]


def test_replay_says_that_views_are_equal(cli: CommandLine) -> None:
    """The views and the proofs are rebuilt, compared and equal."""
    tenant, _ = filled(cli, "equal")
    run = cli("replay", "--verify", "--tenant", tenant, "--json").json()
    assert [view["view"] for view in run["views"]] == ["recall", "stats", "proofs"]
    for view in run["views"]:
        assert set(view) >= REPLAYED
        # The proofs are those of both logs, and this command is in the access log.
        assert (view["events"] >= 3, view["equal"]) == (True, True)
        assert view["digest_live"] == view["digest_rebuilt"]
    (alone,) = cli("replay", "--view", "stats", "--tenant", tenant, "--json").json()["views"]
    assert alone["view"] == "stats"


def test_replay_finds_a_view_that_was_changed(cli: CommandLine) -> None:
    """A changed number in the stats file is a difference; the rebuilt view is right again."""
    tenant, log_id = filled(cli, "differs")
    base = ("replay", "--view", "stats", "--verify", "--tenant", tenant)
    for json_option in ("--json", None):
        assert cli("status", "--tenant", tenant).code == 0
        live = view_of(cli, log_id, "stats").current()
        assert live is not None
        with duckdb.connect(str(live.folder / FILE)) as connection:
            connection.execute("UPDATE memory_versions SET importance = 999")
        run = cli(*base, *([json_option] if json_option else []))
        assert run.code == 1
        assert b"stats" in run.out
        if json_option:
            (view,) = json.loads(run.out)["views"]
            assert view["equal"] is False
            assert view["digest_live"] != view["digest_rebuilt"]
        assert cli(*base).code == 0


def test_a_view_that_cannot_catch_up_is_behind(cli: CommandLine) -> None:
    """`wait` and a strict recall end with exit code 5 and the code `behind`, and may be retried."""
    tenant, log_id = filled(cli, "slow")
    base = ("--tenant", tenant, "--json")
    assert cli("wait", "2", "--timeout", "60", *base).code == 0
    index = str(cli.remember("four", "--tenant", tenant)["index"])
    ask = ("recall", "four", "--user", "alice", "--wait", "0.1")
    with view_of(cli, log_id, "recall").writer_lock(time.monotonic() + 60) as held:
        assert held
        for command in (["wait", index, "--timeout", "0.1"], [*ask, "--strict"]):
            run = cli(*command, *base)
            assert run.code == 5
            error = run.error()
            assert (error["code"], error["retry"]) == ("behind", True)
        loose = cli(*ask, *base).json()
        assert (loose["behind"], loose["degraded"]) == (1, ["behind"])
    assert cli("wait", index, "--timeout", "60", *base).code == 0


def doctored(cli: CommandLine, code: int, **variables: str) -> dict[str, dict[str, Any]]:
    """The doctor's checks by name, with its exit code checked."""
    run = cli.under(variables)("doctor", "--json")
    assert run.code == code, (run.out, run.errors)
    checks = json.loads(run.out)["checks"]
    assert all(set(check) == {"name", "ok", "state", "detail"} for check in checks)
    return {check["name"]: check for check in checks}


def bad(checks: dict[str, dict[str, Any]]) -> list[str]:
    """Names of the checks that are not ok."""
    return [name for name, check in checks.items() if not check["ok"]]


def test_the_doctor_finds_a_sound_installation_sound(cli: CommandLine) -> None:
    """Every part of a fresh home is as it should be."""
    checks = doctored(cli, 0)
    assert bad(checks) == []
    assert list(checks) == [
        *("python", "packages", "home", "disk space", "embedder", "database", "server version"),
        *("schema", "keys", "signing key", "anchors", "roles", "login", "separate logins"),
        *("members", "unbound", "owners"),
        *("triggers", "row security", "uniqueness", "functions", "grants", "privileges"),
        "ways around",
        *("copies", "refusals: append", "refusals: read", "refusals: project"),
        *(
            "refusals: erase",
            "refusals: logins",
            "refusals: owner",
            "durability",
            "clock",
            "hints",
            "views",
        ),
    ]
    assert {name for name, check in checks.items() if check["state"] != "ok"} <= {
        "unbound",
        "signing key",
        "anchors",
    }
    assert cli("doctor").code == 0


def test_the_doctor_finds_files_that_others_can_read(cli: CommandLine) -> None:
    """A home or a key file with wider rights is not ok, and the detail says what to do."""
    for path, mode, name in ((cli.home, 0o700, "home"), (master_key(cli.home), 0o600, "keys")):
        path.chmod(mode | 0o044)
        try:
            checks = doctored(cli, 1)
        finally:
            path.chmod(mode)
        assert bad(checks) == [name]
        assert f"chmod {mode:o}" in checks[name]["detail"]


def master_key(home: Path) -> Path:
    """The file of the master key."""
    return home / "keys" / "master.key"


def test_the_doctor_goes_on_after_a_bad_part(cli: CommandLine, bare: CommandLine) -> None:
    """No embedder, no database, no home: each is one check, and the others are still made."""
    assert bad(doctored(cli, 1, MEMORIALE_EMBEDDER="no.such:thing"))[0] == "embedder"
    down = doctored(cli, 1, MEMORIALE_DATABASE_URL=DOWN)
    assert "python" not in bad(down)
    assert "database" in bad(down)
    assert all("secret" not in check["detail"] for check in down.values())
    absent = doctored(bare, 1, MEMORIALE_HOME=str(bare.home / "none"))
    assert absent["home"]["ok"] is False
    assert not (bare.home / "none").exists()
    assert {down[name]["state"] for name in ("triggers", "refusals: read")} == {"not tried"}
    assert "NOT TRIED" in cli.under({"MEMORIALE_DATABASE_URL": DOWN})("doctor").out.decode()
    superuser = doctored(cli, 1, MEMORIALE_DATABASE_URL=cli.superuser_url)
    assert bad(superuser) == ["login", "refusals: logins"]


def test_the_doctor_says_what_it_could_not_try(cli: CommandLine) -> None:
    """Nothing is wrong, but a role without a login was not tried: exit code 6."""
    passwords = json.loads(layout_of(cli.home).passwords.read_text())
    writer, projector = (
        make_conninfo(cli.superuser_url, user=name, password=passwords[name])
        for name in ("memoriale_writer", "memoriale_projector")
    )
    checks = doctored(cli, 6, MEMORIALE_DATABASE_URL=writer, MEMORIALE_PROJECT_URL=projector)
    assert {name for name, check in checks.items() if check["state"] == "not tried"} == {
        "refusals: erase",
        "refusals: owner",
    }
