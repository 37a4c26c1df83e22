"""`who-saw`, `what-was-told` and `accesses` on the command line."""

from tests.fixtures.cli import CommandLine


def test_who_saw_what_was_told_and_accesses(cli: CommandLine) -> None:
    """What a command gave is on record when it has ended; the three commands tell it page by page,
    and a page says what to go on after."""
    tenant = ("--tenant", "told")
    first = cli.remember("alice drinks tea", "--owner", "user", *tenant)
    session = ("--user", "alice", "--session", "s-1", "--purpose", "care", *tenant)
    for _ in range(2):
        cli("recall", "tea", *session, "--json").json()
    saw = cli("who-saw", first["memory_id"], *tenant, "--limit", "1", "--json").json()
    assert saw["memory_id"] == first["memory_id"]
    (access,) = saw["accesses"]
    assert (access["command"], access["purpose"]) == ("recall", "care")
    assert access["session"]["id"] == "s-1"
    given = {"memory_id": first["memory_id"], "version": 0, "rank": 1, "is_global": False}
    assert access["memories"] == [given]
    rest = ("--after", str(saw["next"]))
    again = cli("who-saw", first["memory_id"], *tenant, *rest, "--json").json()
    assert (len(again["accesses"]), again["next"]) == (1, None)
    told = cli("what-was-told", "s-1", *tenant, "--content", "--json").json()
    assert [t["content"] for t in told["accesses"]] == ["alice drinks tea"] * 2
    assert all(t["current"] for t in told["accesses"])
    listed = cli("accesses", *tenant, "--by", "alice", "--json").json()
    assert [a["command"] for a in listed["accesses"]] == ["recall", "recall"]
    assert cli("accesses", *tenant, "--denied", "--json").json()["accesses"] == []


def test_people_read_them(cli: CommandLine) -> None:
    """Without --json each entry says what was given, to whom and what became of it."""
    tenant = ("--tenant", "read")
    first = cli.remember("alice drinks tea", "--owner", "user", *tenant)
    cli("show", first["memory_id"], "--user", "alice", "--session", "s-1", *tenant)
    cli("correct", first["memory_id"], "coffee", "--user", "alice", *tenant)
    told = cli("what-was-told", "s-1", *tenant, "--content").out.decode()
    assert "alice drinks tea" in told
    assert "no longer current" in told
    assert "memory.corrected at 1" in told
    saw = cli("who-saw", first["memory_id"], *tenant).out.decode()
    assert f"show gave {first['memory_id']} as of 0" in saw
    assert "by user alice" in saw
    assert b"Nothing of that is on record" in cli("what-was-told", "s-9", *tenant).out


def test_bad_input(cli: CommandLine) -> None:
    """An id that is none, and a time without offset, are code 2 and name the field."""
    refused = cli("who-saw", "nonsense", "--json")
    assert (refused.code, refused.error()["field"]) == (2, "memory_id")
    refused = cli("accesses", "--since", "2026-01-01", "--json")
    assert (refused.code, refused.error()["field"]) == (2, "since")
