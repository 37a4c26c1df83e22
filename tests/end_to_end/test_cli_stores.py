"""The commands of the stores, run as users run them."""

import json

import pytest

from tests.fixtures.cli import CommandLine


@pytest.fixture
def alice(cli: CommandLine, request: pytest.FixtureRequest) -> CommandLine:
    """Alice with an agent, in a tenant of the test's own."""
    tenant = request.node.name.replace("test_", "")[:40]
    variables = {
        "MEMORIALE_TENANT": tenant,
        "MEMORIALE_USER": "alice",
        "MEMORIALE_AGENT": "clerk",
    }
    return cli.under(variables)


def test_facts_and_profile(alice: CommandLine) -> None:
    """Facts replace each other and are forgotten; the profile changes field by field."""
    where = ("--subject", "location")
    alice("facts", "add", "Lives in Rome", *where, "--topic", "home", "--json").json()
    alice("facts", "add", "Lives in Oslo", *where, "--json").json()
    (fact,) = alice("facts", "list", "--json").json()["facts"]
    assert (fact["fact"], fact["source"]) == ("Lives in Oslo", "manual")
    everything = alice("facts", "list", "--all", "--json").json()["facts"]
    assert [f["invalidation_reason"] for f in everything] == ["superseded", None]
    assert alice("facts", "forget", "lives in oslo.", "--json").json() == {"forgotten": 1}
    shown = alice(
        "profile", "set", '{"role": "nurse", "custom": {"diet": "vegan"}}', "--json"
    ).json()
    assert (shown["role"], shown["custom"]) == ("nurse", {"diet": "vegan"})
    assert alice("profile", "set", '{"role": null}', "--json").json()["role"] is None
    assert alice("profile", "clear", "--json").json() == {"cleared": 1}
    assert alice("profile", "show", "--json").json() == {}
    assert alice("profile", "set", "[1]", "--json").error()["field"] == "patch"
    assert alice("profile", "set", "{", "--json").error()["code"] == "bad_json"


def test_decisions_learnings_and_corrections(alice: CommandLine) -> None:
    """What was decided, learnt and put right is found again by the command line."""
    why = ("--reasoning", "cheaper", "--type", "purchase")
    made = alice("decision", "log", "took the train", *why, "--json").json()
    alice("decision", "outcome", made["id"], "arrived late", "--quality", "bad", "--json").json()
    (found,) = alice("decision", "search", "late", "--json").json()["decisions"]
    assert found["outcome_quality"] == "bad"
    learnt = alice("learning", "save", "trains", "Trains to Bern are late", "--json").json()
    (hit,) = alice("learning", "search", "trains Bern", "--json").json()["learnings"]
    assert hit["id"] == learnt["id"]
    assert alice("learning", "invalidate", learnt["id"], "--json").json() == {"invalidated": True}
    given = ("--field", "code", "--entity", "v1", "--input", "which code?")
    alice("correction", "record", "", "4410", *given, "--json").json()
    assert alice("correction", "stats", "--json").json()["by_entity_key"] == {"v1": 1}
    (case,) = alice("correction", "eval-cases", "--json").json()["cases"]
    assert case["expected"] == "4410"


def test_notebooks_curation_and_jobs(alice: CommandLine) -> None:
    """A full notebook is code 2 with what is there; maintenance counts; jobs are listed."""
    assert alice("file", "add", "a line", "--json").json() == {
        "ok": True,
        "error": None,
        "usage": None,
        "current_entries": None,
    }
    full = alice("file", "add", "x" * 3_000, "--json")
    assert full.code == 2
    assert json.loads(full.out)["current_entries"] == ["a line"]
    assert alice("file", "show", "--json").json()["entries"] == ["a line"]
    alice("facts", "add", "x")
    dry = alice("curate", "clear", "--dry-run", "--json").json()
    assert dry["changed"] >= 2
    assert alice("curate", "clear", "--json").json()["changed"] == dry["changed"]
    assert alice("jobs", "list", "--json").json()["jobs"] == []
    assert alice("jobs", "run", "--json").json()["jobs"] == []
    assert alice("curate", "consolidate", "--json").error()["code"] == "no_model"
