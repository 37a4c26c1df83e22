"""Every command does its work and prints what it promises, as JSON and for people."""

import json
from pathlib import Path
from uuid import UUID

import pytest

from tests.fixtures.cli import CommandLine

RECEIPT = {
    "memory_id",
    "event_id",
    "tenant",
    "index",
    "recorded_at",
    "leaf_hash",
    "created",
    "superseded",
}


def test_remember_prints_a_receipt(cli: CommandLine) -> None:
    """A receipt names memory, event, tenant, index, time and leaf, and what was replaced."""
    first = cli.remember("Alice likes tea", "--kind", "fact", "--subject", "drink")
    second = cli.remember("Alice likes coffee", "--kind", "fact", "--subject", "drink")
    assert set(first) == RECEIPT
    assert UUID(first["memory_id"])
    assert UUID(first["event_id"])
    assert first["tenant"] == "default"
    assert len(first["leaf_hash"]) == 64
    assert first["created"] is True
    assert second["superseded"] == [first["memory_id"]]


def test_every_option_of_remember_reaches_the_memory(cli: CommandLine) -> None:
    """What was given on the command line is what `show` has, times with their own offset."""
    receipt = cli.remember(
        "Everything",
        *("--tenant", "everything"),
        *("--kind", "message", "--owner", "user", "--importance", "0.25", "--confidence", "0.5"),
        *("--tag", "a", "--tag", "b", "--metadata", '{"n": [1, 2.5, null]}'),
        *("--valid-from", "2026-01-01T00:00:00+02:00", "--valid-until", "2027-01-01T00:00:00Z"),
        *("--expires", "2028-01-01T00:00:00Z", "--visibility", "tenant", "--source", "call"),
        *("--evidence", "tape", "--retention", "short", "--speaker", "Alice", "--role", "guest"),
        *("--caption", "a cup", "--namespace", "org/team", "--about", "bob", "--about", "carol"),
    )
    shown = cli(
        *("show", receipt["memory_id"], "--user", "alice", "--tenant", "everything", "--json")
    ).json()
    assert shown["importance"] == 0.25
    assert shown["confidence"] == 0.5
    assert shown["tags"] == ["a", "b"]
    assert shown["metadata"] == {"n": [1, 2.5, None]}
    assert shown["valid_from"] == "2025-12-31T22:00:00+00:00"
    assert shown["given_times"]["valid_from"] == "2026-01-01T00:00:00+02:00"
    assert shown["expires_at"] == "2028-01-01T00:00:00+00:00"
    assert shown["visibility"] == "tenant"
    assert shown["source"] == "call"
    assert shown["evidence"] == ["tape"]
    assert shown["namespace"] == "org/team"
    assert {"speaker": "Alice", "role": "guest", "caption": "a cup"}.items() <= shown[
        "details"
    ].items()
    assert {person["id"] for person in shown["about"]} == {"bob", "carol"}


def test_a_repeated_key_stores_nothing_twice(cli: CommandLine) -> None:
    """The same text under the same key gives the first receipt; another text is refused."""
    first = cli.remember("Once", "--idempotency-key", "k1")
    again = cli.remember("Once", "--idempotency-key", "k1")
    assert again["created"] is False
    assert again["index"] == first["index"]
    other = cli("remember", "Else", "--user", "alice", "--idempotency-key", "k1", "--json")
    assert other.code == 2
    assert other.error()["code"] == "idempotency_mismatch"


def test_recall_answers_now_and_as_of(cli: CommandLine) -> None:
    """Hits carry score, kind and branch; as of an index or a time the answer is the one of then."""
    told = cli.remember("The door code is 4711", "--user", "dora")
    cli("correct", told["memory_id"], "The door code is 9", "--user", "dora")
    asked = ("recall", "door code", "--user", "dora", "--json")
    now = cli(*asked).json()
    assert {"index", "now", "degraded", "behind", "rebuilt", "hits"} <= set(now)
    assert now["degraded"] == []
    (hit,) = now["hits"]
    fields = {"memory_id", "content", "score", "similarity", "keyword", "recency", "importance"}
    assert fields | {"kind", "source", "index", "recorded_at", "branch"} <= set(hit)
    assert (hit["content"], hit["branch"]) == ("The door code is 9", "main")
    for point in (str(told["index"]), told["recorded_at"]):
        then = cli(*asked, "--as-of", point).json()
        assert then["index"] == told["index"]
        assert [h["content"] for h in then["hits"]] == ["The door code is 4711"]


def test_recall_keeps_to_what_it_was_asked(cli: CommandLine) -> None:
    """Kind, tag, number of hits, valid time and namespace narrow the answer."""
    base = ("--user", "eve")
    cli.remember("red apple", *base, "--tag", "fruit", "--valid-until", "2020-01-01T00:00:00Z")
    cli.remember("green apple", *base, "--kind", "fact")
    cli.remember("blue apple", *base, "--namespace", "garden")

    def contents(*options: str) -> set[str]:
        found = cli("recall", "apple", *base, "--json", *options).json()
        return {hit["content"] for hit in found["hits"]}

    assert contents() == {"green apple", "blue apple"}
    assert contents("--kind", "fact") == {"green apple"}
    assert contents("--tag", "fruit", "--valid-at", "2019-01-01T00:00:00Z") == {"red apple"}
    assert contents("--namespace", "elsewhere") == {"green apple"}
    assert len(contents("--top-k", "1", "--rank", "composite")) == 1


def test_a_memory_goes_through_its_changes(cli: CommandLine) -> None:
    """Correct, amend, invalidate and reinstate each leave a version with actor and reason."""
    memory_id = cli.remember("v1", "--user", "fred")["memory_id"]
    base = ("--user", "fred", "--actor", "boss", "--json")
    changes = [
        cli("correct", memory_id, "v2", "--reason", "said so", *base).json(),
        cli("amend", memory_id, "--importance", "1", "--tag", "x", "--reason", "r", *base).json(),
        cli("amend", memory_id, "--clear", "importance", "--clear", "tags", *base).json(),
        cli("invalidate", memory_id, "--because", "retracted", *base).json(),
        cli("reinstate", memory_id, *base).json(),
    ]
    assert all(set(change) == RECEIPT for change in changes)
    found = cli("history", memory_id, "--user", "fred", "--json").json()
    assert found["memory_id"] == memory_id
    versions = found["versions"]
    assert [v["event"].removeprefix("memory.") for v in versions] == [
        *("remembered", "corrected", "amended", "amended", "invalidated", "reinstated")
    ]
    assert {"index", "event", "content", "actor", "reason", "recorded_at"} <= set(versions[1])
    assert versions[1]["reason"] == "said so"
    assert versions[1]["actor"] == {"type": "user", "id": "boss"}
    assert versions[4]["reason_code"] == "retracted"
    shown = cli("show", memory_id, "--user", "fred", "--json").json()
    assert (shown["status"], shown["importance"], shown["tags"]) == ("current", None, [])
    early = cli("show", memory_id, "--user", "fred", "--as-of", str(versions[0]["index"]), "--json")
    assert early.json()["content"] == "v1"


def test_others_memories_are_read_with_all_owners_only(cli: CommandLine) -> None:
    """`show` and `history` find another's memory when all owners are asked for, else not."""
    memory_id = cli.remember("mine", "--user", "gina")["memory_id"]
    for command in ("show", "history"):
        alone = cli(command, memory_id, "--user", "hugo", "--json")
        assert alone.error()["code"] == "unknown_memory"
        assert cli(command, memory_id, "--user", "hugo", "--all-owners", "--json").code == 0


def test_list_goes_page_by_page(cli: CommandLine) -> None:
    """Each page names the next one, the last names none; every memory is met once."""
    made = [cli.remember(f"page {n}", "--user", "ines")["memory_id"] for n in range(3)]
    first = cli("list", "--user", "ines", "--limit", "2", "--json").json()
    rest = cli("list", "--user", "ines", "--after", str(first["next"]), "--json").json()
    assert [m["memory_id"] for m in first["memories"] + rest["memories"]] == made
    assert rest["next"] is None
    early = cli("list", "--user", "ines", "--as-of", str(first["memories"][0]["index"]), "--json")
    assert len(early.json()["memories"]) == 1


def test_wait_says_where_the_view_stands(cli: CommandLine) -> None:
    """After `wait` the view has applied the event."""
    index = cli.remember("wait for me")["index"]
    for view in ("recall", "stats"):
        found = cli("wait", str(index), "--view", view, "--timeout", "60", "--json").json()
        assert found["position"] > index


def test_the_log_is_printed_as_stored(cli: CommandLine) -> None:
    """One event a line in order; bodies only when asked for; after and limit choose the part."""
    tenant = ("--tenant", "logged")
    cli.remember("first secret", *tenant)
    cli.remember("second", *tenant)
    events = cli("log", *tenant, "--json").lines()
    assert [event["index"] for event in events] == [0, 1]
    assert all(event["topic"] == "memory.remembered" for event in events)
    assert b"first secret" not in cli("log", *tenant, "--json").out
    opened = cli("log", *tenant, "--content", "--limit", "1", "--json").lines()
    assert [e["body"]["payload"]["content"] for e in opened] == ["first secret"]
    assert [e["index"] for e in cli("log", *tenant, "--after", "0", "--json").lines()] == [1]


def test_a_branch_has_its_own_line_of_history(cli: CommandLine) -> None:
    """What is corrected on a branch is seen there and not on its parent."""
    user = ("--user", "jana")
    told = cli.remember("the plan is A", *user)
    fork = cli("fork", "what-if", *user, "--reason", "try", "--json").json()
    assert {"branch", "parent", "at", "id", "index"} <= set(fork)
    assert (fork["branch"], fork["parent"]) == ("what-if", "main")
    on = ("--branch", "what-if")
    cli("correct", told["memory_id"], "the plan is B", *user, *on)
    there = cli("show", told["memory_id"], *user, *on, "--json").json()
    here = cli("show", told["memory_id"], *user, "--json").json()
    assert (there["content"], here["content"]) == ("the plan is B", "the plan is A")
    before = cli("fork", "older", *user, "--from", "what-if", "--at", str(told["index"]), "--json")
    assert before.json()["parent"] == "what-if"
    listed = cli("branches", *user, "--json").json()["branches"]
    assert [b["branch"] for b in listed] == ["main", "what-if", "older"]
    assert [b["at"] for b in listed] == [None, fork["at"], told["index"]]


def test_import_and_export(cli: CommandLine, tmp_path: Path) -> None:
    """Good lines are stored, bad ones listed with their number; what is exported is in files."""
    lines = ['{"content": "one"}', '{"content": ""}', '{"content": "two", "tags": ["t"]}']
    file = tmp_path / "lines.jsonl"
    file.write_text("\n".join(lines))
    base = ("--tenant", "moved", "--user", "kim", "--json")
    report = cli("import", str(file), *base).json()
    assert (report["read"], report["remembered"], report["skipped"]) == (3, 2, 0)
    assert [(r["line"], r["field"]) for r in report["rejected"]] == [(2, "content")]
    assert {"first_index", "last_index", "seconds"} <= set(report)
    again = cli("import", "-", *base, stdin=file.read_bytes()).json()
    assert (again["remembered"], again["skipped"]) == (0, 2)
    out = tmp_path / "out"
    out.mkdir()
    exported = cli("export", "--tenant", "moved", "--out", str(out), "--json").json()
    assert exported["events"] == 2
    assert exported["index"] == 1
    text = "".join(Path(name).read_text() for name in exported["files"])
    assert text.count("\n") == 2
    one = cli("export", "--tenant", "moved", "--out", str(out / "x"), "--subject-user", "nobody")
    assert one.code == 2


def test_an_import_of_nothing_but_bad_lines_fails(cli: CommandLine) -> None:
    """When every line was refused nothing was stored, and the exit code says so."""
    run = cli("import", "-", "--user", "kim", "--json", stdin=b'{"content": 1}\nnonsense\n')
    assert run.code == 2
    assert [r["line"] for r in json.loads(run.out)["rejected"]] == [1, 2]


def test_status_counts(cli: CommandLine) -> None:
    """Status says where the installation is, how far the views are and what the log holds."""
    tenant = ("--tenant", "counted")
    cli.remember("a", *tenant, "--kind", "fact")
    cli.remember("b", *tenant)
    found = cli("status", *tenant, "--json").json()
    assert found["home"] == str(cli.home)
    assert found["database"] == cli.superuser_url
    assert found["postgres_version"].startswith("18.")
    assert found["tenant"] == "counted"
    assert (found["events"], found["unsealed"], found["jobs"]) == (2, 0, [])
    assert [(seal["log"], seal["sealed"]) for seal in found["seals"]] == [
        ("memory", 2),
        ("access", 0),
    ]
    assert found["ahead_seconds"] == 0.0
    assert [set(view) for view in found["views"]] == [{"view", "position", "behind"}] * 2
    assert found["totals"]["memories"] == {"fact": 1, "note": 1}
    assert found["totals"]["events"] == {"memory.remembered": 2}
    again = cli("status", *tenant, "--json").json()
    stats = next(view for view in again["views"] if view["view"] == "stats")
    assert (stats["position"], stats["behind"]) == (2, 0)


def test_settings_and_version(cli: CommandLine) -> None:
    """`config show` has every setting without passwords; `version` is that of the package."""
    import memoriale

    url = "postgresql://someone:secret@db:5433/ledger"
    shown = cli("config", "show", "--json", MEMORIALE_DATABASE_URL=url).json()
    assert shown["database_url"] == "postgresql://someone@db:5433/ledger"
    assert shown["home"] == str(cli.home)
    assert b"secret" not in cli("config", "show", MEMORIALE_DATABASE_URL=url).out
    assert cli("version", "--json").json() == {"version": memoriale.__version__}


def test_the_environment_gives_the_defaults_of_the_caller(cli: CommandLine) -> None:
    """Tenant, user and the others come from the environment; an option wins."""
    variables = {"MEMORIALE_TENANT": "env", "MEMORIALE_USER": "lena", "MEMORIALE_ACTOR": "bot"}
    as_lena = cli.under(variables)
    receipt = as_lena("remember", "x", "--json").json()
    assert receipt["tenant"] == "env"
    shown = as_lena("history", receipt["memory_id"], "--json").json()
    assert shown["versions"][0]["actor"]["id"] == "bot"
    other = as_lena("show", receipt["memory_id"], "--user", "max", "--json")
    assert other.error()["code"] == "unknown_memory"


@pytest.mark.time
def test_people_read_times_in_their_zone(cli: CommandLine) -> None:
    """For people times stand in MEMORIALE_TIMEZONE; JSON has UTC whatever the zone."""
    memory_id = cli.remember("when", "--valid-from", "2026-07-01T12:00:00Z")["memory_id"]
    asked = ("show", memory_id, "--user", "alice")
    assert b"2026-07-01 17:45:00+05:45" in cli(*asked, MEMORIALE_TIMEZONE="Asia/Kathmandu").out
    assert cli(*asked, "--json").json()["valid_from"] == "2026-07-01T12:00:00+00:00"


def test_people_get_short_text(cli: CommandLine) -> None:
    """Without --json every command prints text without colour codes, and no JSON."""
    user = ("--user", "nora")
    memory_id = cli.remember("the boat is blue", *user)["memory_id"]
    commands = [
        ("recall", "boat", *user),
        ("recall", "boat", "--user", "nobody-yet"),
        ("show", memory_id, *user),
        ("history", memory_id, *user),
        ("list", *user),
        ("list", "--user", "nobody-yet"),
        ("log", "--content", "--limit", "3"),
        ("branches", *user),
        ("wait", "0", "--timeout", "60"),
        ("status",),
        ("version",),
        ("config", "show"),
        ("verify",),
        ("replay", "--view", "stats"),
        ("migrate", "--plan"),
        ("correct", memory_id, "the boat is red", *user),
        ("invalidate", memory_id, *user),
    ]
    for command in commands:
        run = cli(*command)
        assert run.code == 0, run.errors
        assert run.out.strip()
        assert b"\x1b" not in run.out
        assert not run.out.startswith(b"{")
        assert run.errors == b""
