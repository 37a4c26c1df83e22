"""Merging, approving and discarding, as users run them."""

import json
from secrets import token_hex

import pytest

from tests.fixtures.cli import CommandLine


@pytest.fixture
def user() -> tuple[str, ...]:
    """A caller of a tenant of its own, so that no test meets another's branches."""
    return ("--tenant", f"merging-{token_hex(4)}", "--user", "alice")


def test_a_merge_prints_what_it_took_over(cli: CommandLine, user: tuple[str, ...]) -> None:
    """Exit code 0, counts and the index in JSON; a second merge says that there is nothing."""
    cli("fork", "side", *user)
    made = cli("remember", "new", "--branch", "side", *user, "--json").json()["memory_id"]
    found = cli("merge", "side", *user, "--json").json()
    assert (found["status"], found["added"], found["conflicts"]) == ("merged", 1, [])
    assert (found["memory_ids"], found["child"], found["into"]) == ([made], "side", "main")
    assert cli("show", made, *user, "--json").json()["content"] == "new"
    again = cli("merge", "side", *user)
    assert (again.code, again.out.decode()) == (0, "nothing to merge of side into main.\n")


def test_a_conflict_is_exit_code_1_and_prints_both_sides(
    cli: CommandLine, user: tuple[str, ...]
) -> None:
    """Nothing is stored until a side is preferred."""
    made = cli("remember", "at the fork", *user, "--json").json()["memory_id"]
    cli("fork", "side", *user)
    for branch in ("main", "side"):
        on = ("--branch", branch, *user)
        assert cli("correct", made, f"{branch} says", "--reason", "r", *on).code == 0
    run = cli("merge", "side", *user, "--json")
    (conflict,) = json.loads(run.out)["conflicts"]
    assert run.code == 1
    assert [s["content"] for s in conflict["child"]] == ["side says"]
    assert [s["content"] for s in conflict["parent"]] == ["main says"]
    text = cli("merge", "side", *user)
    assert text.code == 1
    for part in ("both sides changed a note", "side says", "main says", "--prefer"):
        assert part in text.out.decode()
    assert cli("merge", "side", "--prefer", "child", *user).code == 0
    assert cli("show", made, *user, "--json").json()["content"] == "side says"


def test_a_proposal_is_listed_and_approved(cli: CommandLine, user: tuple[str, ...]) -> None:
    """Its id is printed, stands in the list of branches, and carries the merge out."""
    cli("fork", "side", *user)
    cli("remember", "new", "--branch", "side", *user)
    proposal = cli("merge", "side", "--propose", *user, "--json").json()["proposal"]
    listed = cli("branches", *user, "--json").json()["branches"]
    assert [b["proposals"] for b in listed if b["branch"] == "side"] == [[proposal]]
    assert f"approve {proposal}" in cli("branches", *user).out.decode()
    reviewer = (*user[:2], "--user", "rose")
    assert cli("approve", proposal, *reviewer, "--json").json()["status"] == "merged"
    assert [m["content"] for m in cli("list", *user, "--json").json()["memories"]] == ["new"]


def test_a_discarded_branch_is_listed_where_asked_for(
    cli: CommandLine, user: tuple[str, ...]
) -> None:
    """Writing to it is code 3; ``branches --discarded`` tells when it ended."""
    cli("fork", "side", *user)
    ended = cli("discard", "side", "--reason", "done", *user, "--json").json()
    refused = cli("remember", "x", "--branch", "side", *user, "--json")
    assert (refused.code, refused.error()["code"]) == (3, "discarded")
    assert [b["branch"] for b in cli("branches", *user, "--json").json()["branches"]] == ["main"]
    every = cli("branches", "--discarded", *user, "--json").json()["branches"]
    assert [b["discarded"] for b in every] == [None, ended["index"]]
    assert cli("discard", "main", *user).code == 2
