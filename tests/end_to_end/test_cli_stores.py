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


def test_entities_graph_and_procedures(alice: CommandLine) -> None:
    """Entities, nodes and procedures are made, shown, walked and suggested."""
    made = alice(
        "entity", "upsert", "Ada Lovelace", "--type", "person", "--fact", "wrote notes", "--json"
    ).json()
    assert made["entity_id"] == "ada_lovelace"
    added = alice("entity", "add-fact", "ada_lovelace", "lives in London", "--json").json()
    shown = alice("entity", "show", "ada_lovelace", "--json").json()
    assert [fact["fact"] for fact in shown["facts"]] == ["wrote notes", "lives in London"]
    assert shown["facts"][1]["id"] == added["id"]
    (listed,) = alice("entity", "list", "--json").json()["entities"]
    assert listed == shown
    assert alice("entity", "show", "nobody", "--json").json() == {}
    assert alice("entity", "add-fact", "nobody", "x", "--json").code == 2
    nodes = [{"id": name, "type": "place"} for name in ("a", "b", "c")]
    edges = [
        {"source_id": one, "target_id": other, "type": "next_to"}
        for one, other in (("a", "b"), ("b", "c"))
    ]
    alice("graph", "add", json.dumps({"nodes": nodes, "edges": edges}), "--json").json()
    (near,) = alice("graph", "neighbours", "a", "--json").json()["neighbours"]
    assert near["node"]["id"] == "b"
    reached = alice("graph", "traverse", "a", "--depth", "2", "--json").json()
    assert [node["id"] for node in reached["nodes"]] == ["a", "b", "c"]
    path = alice("graph", "path", "a", "c", "--json").json()
    assert [node["id"] for node in path["nodes"]] == ["a", "b", "c"]
    assert alice("graph", "path", "c", "a", "--direction", "out", "--json").json()["nodes"] == []
    for wrong in ("[]", '{"nodes": 1}', '{"node": []}'):
        assert alice("graph", "add", wrong, "--json").error()["field"] == "given"
    steps = '[{"tool_name": "find_invoice"}, {"tool_name": "refund"}]'
    saved = alice("procedure", "save", "refund", "Refunds it", "--steps", steps, "--json").json()
    fitting = alice("procedure", "suggest", "a refund, please", "--json").json()
    assert fitting["id"] == saved["id"]
    assert [step["tool_name"] for step in fitting["steps"]] == ["find_invoice", "refund"]
    assert alice("procedure", "suggest", "weather", "--json").json() == {}
    assert len(alice("procedure", "list", "--json").json()["procedures"]) == 1


def test_sessions_and_summaries(alice: CommandLine) -> None:
    """A session is opened, added to, listed and summarised; its state changes key by key."""
    assert alice("session", "open", "s-1", "--json").json()["user_id"] == "alice"
    done = alice("session", "append", "s-1", "I like tea", "with milk", "--json").json()
    assert done == {"appended": 2, "overflow": []}
    alice("session", "append", "s-1", "Noted", "--role", "assistant", "--json").json()
    shown = alice("session", "show", "s-1", "--json").json()
    assert [turn["content"] for turn in shown["messages"]] == ["I like tea", "with milk", "Noted"]
    assert alice("session", "state", "s-1", "--set", '{"step": 1}', "--json").json() == {
        "state": {"step": 1}
    }
    assert alice("session", "state", "s-1", "--json").json()["state"] == {"step": 1}
    first = alice("summarize", "s-1", "--json").json()
    assert "I like tea" in first["summary"]
    assert alice("summarize", "s-1", "--json").json()["id"] == first["id"]
    (listed,) = alice("session", "list", "--json").json()["sessions"]
    assert (listed["session_id"], listed["state"]) == ("s-1", {"step": 1})
    assert alice("session", "append", "unheard", "x", "--json").error()["code"] == "unknown_session"
    assert alice("session", "state", "unheard", "--json").error()["code"] == "unknown_session"
    past = alice("session", "state", "s-1", "--set", "{}", "--as-of", "0", "--json")
    assert past.error()["field"] == "as_of"


def test_context_tools_and_explanations(alice: CommandLine) -> None:
    """What a model is told names the memories it tells; tools come in each provider's format; a
    memory says where it comes from."""
    (old,) = alice("facts", "add", "Lives in Rome", "--subject", "home", "--json").json()["ids"]
    (fact,) = alice("facts", "add", "Lives in Oslo", "--subject", "home", "--json").json()["ids"]
    told = alice("context", "where does she live?", "--json").json()
    assert "Lives in Oslo" in told["text"]
    assert told["ids"] == [fact]
    without = alice("context", "x", "--priority", "user_facts=0", "--json").json()
    assert (without["text"], without["ids"]) == ("", [])
    for wrong in (("--priority", "x=1"), ("--priority", "graph"), ("--max-tokens", "0")):
        assert alice("context", "x", *wrong, "--json").code == 2
    keys = {"openai": "function", "anthropic": "input_schema", "mcp": "inputSchema"}
    for provider, key in keys.items():
        found = alice("tools", "--format", provider, "--json").json()["tools"]
        assert len(found) >= 10
        assert all(key in tool for tool in found)
    assert alice("tools", "--format", "x", "--json").error()["field"] == "format"
    explained = alice("explain", fact, "--json").json()
    assert [one["memory_id"] for one in explained["superseded"]] == [old]
    assert alice("explain", old, "--json").json()["superseded_by"] == fact
    assert b"Lives in Oslo" in alice("explain", fact).out
