"""Extractors of entities, graphs and procedures; extraction by a store itself."""

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from memoriale.adapters.extraction.extractor import Conversation, Day
from memoriale.adapters.extraction.extractors import EXTRACTORS
from memoriale.adapters.extraction.graphs import graph_extractor
from memoriale.adapters.extraction.jobs import (
    OWN_GRAPH,
    extraction_handlers,
    request_extraction,
)
from memoriale.adapters.extraction.replies import BadReplyError
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.stores.entities import EntityMemory
from memoriale.adapters.library.stores.facts import UserFacts
from memoriale.adapters.library.stores.graph import GraphMemory
from memoriale.adapters.library.stores.learnings import LearnedKnowledge
from memoriale.adapters.library.stores.ledger_graph import LedgerGraph
from memoriale.adapters.library.stores.manager import MemoryManager
from memoriale.adapters.library.stores.procedures import ProcedureMemory
from memoriale.adapters.library.stores.profile import UserProfile
from memoriale.domain.chat import ChatMessage
from memoriale.domain.errors import InputError, JobEndedError
from memoriale.domain.jobs import JobStatus
from memoriale.domain.principal import Principal
from memoriale.domain.stores.graph import GraphMemoryConfig
from memoriale.domain.stores.procedures import is_error, succeeded
from tests.fixtures.graphs import DictGraph
from tests.integration.test_extraction import SAID, WORKED, Model, called

NOW = datetime(2026, 11, 30, 23, 30, tzinfo=UTC)
OSLO = ZoneInfo("Europe/Oslo")


def conversation(messages: list[ChatMessage] = SAID, **given: Any) -> Conversation:
    return Conversation(messages=messages, now=NOW, timezone="Europe/Oslo", **given)


def test_entities_come_with_facts_events_and_relations(alice: Memory) -> None:
    """What has a known name is that entity, whatever its id; spans begin where the user is."""
    store = EntityMemory(alice)
    store.upsert_entity(entity={"entity_id": "crm-1", "name": "Acme", "entity_type": "company"})
    reply = {
        "entities": [
            {
                "name": "Eva Lund",
                "entity_type": "person",
                "facts": [{"fact": "Likes trains", "valid_from": "2026-03-01"}],
                "events": [{"event": "Got the job", "date": "2026-03-01"}],
                "relationships": [
                    {"target": "ACME", "type": "works_at"},
                    {"target": "Nobody Ltd", "type": "owns"},
                ],
            },
            {"name": "acme", "entity_type": "company", "facts": [{"fact": "Is in Bergen"}]},
        ]
    }
    model = Model(reply)
    result = EXTRACTORS["entities"](alice, model, conversation(), {})
    assert '"name": "Acme"' in model.asked[-1]
    assert (result["stored"], result["unrelated"]) == (["eva_lund", "crm-1"], 1)
    eva, acme = store.get_entity(entity_id="eva_lund"), store.get_entity(entity_id="crm-1")
    assert eva is not None
    assert acme is not None
    assert eva.facts[0].valid_from == datetime(2026, 3, 1, tzinfo=OSLO)
    assert (eva.facts[0].source, eva.events[0].date) == ("auto", "2026-03-01")
    assert [one.target_entity_id for one in eva.relationships] == ["crm-1"]
    assert [one.fact for one in acme.facts] == ["Is in Bergen"]
    assert len(store.list_entities()) == 2


def test_a_graph_grows_by_what_was_said(alice: Memory) -> None:
    """Known nodes are told and found again; an edge without its end is left out and counted."""
    graph = LedgerGraph(alice, single_valued=["lives_in"])
    graph.add([{"id": "user", "type": "person"}, {"id": "rome", "type": "city", "name": "Oslo II"}])
    graph.add(edges=[{"source_id": "user", "target_id": "rome", "type": "lives_in"}])
    reply = {
        "nodes": [{"id": "Oslo", "type": "city", "properties": {"country": "Norway"}}],
        "edges": [
            {
                "source_id": "user",
                "target_id": "Oslo",
                "type": "lives_in",
                "valid_from": "2027-01-01",
            },
            {"source_id": "user", "target_id": "Atlantis", "type": "likes"},
        ],
    }
    model = Model(reply)
    result = EXTRACTORS["graph"](alice, model, conversation(), {"single_valued": ["lives_in"]})
    assert '"id": "rome"' in model.asked[-1]
    assert (len(result["stored"]), result["unrelated"]) == (2, 1)
    oslo = graph.get_node("oslo")
    assert oslo is not None
    assert (oslo.name, oslo.properties) == ("Oslo", {"country": "Norway"})
    (later,) = graph.list_edges(valid_at="2027-02-01T00:00:00Z")
    assert (later.target_id, later.valid_from) == ("oslo", datetime(2027, 1, 1, tzinfo=OSLO))
    (before,) = graph.list_edges()
    assert (before.target_id, before.valid_until) == ("rome", later.valid_from)


def test_a_procedure_is_made_of_calls_that_succeeded(alice: Memory) -> None:
    """Tools and arguments are those of the calls; what failed, and too few, is no workflow."""
    good = {
        "trigger": "refund an order",
        "description": "Finds the order and refunds what was paid.",
        "steps": [{"call": 1, "result_summary": "what was paid"}, {"call": 2}],
    }
    lone = {**good, "trigger": "one", "steps": [{"call": 1}, {"call": 1}]}
    false = {**good, "trigger": "two", "steps": [{"call": 1}, {"call": 3}]}
    model = Model({"procedures": [good, lone, false]})
    result = EXTRACTORS["procedures"](alice, model, conversation(WORKED), {})
    assert "99" not in model.asked[-1]
    assert result["ungrounded"] == 2
    (procedure,) = ProcedureMemory(alice).get_procedures()
    assert [str(procedure.id)] == result["stored"]
    assert (procedure.source, procedure.trigger) == ("llm-extracted", "refund an order")
    assert [(step.tool_name, step.args_snapshot) for step in procedure.steps] == [
        ("find_order", {"order": 7}),
        ("refund", {"order": 7, "amount": 20}),
    ]


@pytest.mark.parametrize("messages", [SAID, WORKED[:5]])
def test_without_two_calls_that_succeeded_no_model_is_asked(
    messages: list[ChatMessage], alice: Memory
) -> None:
    """There is nothing to learn from one call, or from calls that failed."""
    model = Model("nonsense")
    assert EXTRACTORS["procedures"](alice, model, conversation(messages), {}) == {"stored": []}
    assert model.asked == [""]


@pytest.mark.parametrize(
    ("result", "failed"),
    [
        ("done", False),
        ("", False),
        ("no errors found", False),
        ('{"error": null, "rows": 3}', False),
        ('{"status": "ok"}', False),
        ("{" * 5_000, False),
        ("Error: no such order", True),
        ("ValueError: bad", True),
        ("Traceback (most recent call last):", True),
        ("timed out", True),
        ('{"error": "too much"}', True),
        ('{"isError": true, "content": []}', True),
        ('{"success": false}', True),
        ('{"ok": false}', True),
        ('{"status": "FAILED"}', True),
    ],
)
def test_what_a_tool_answers_when_it_failed(result: str, failed: bool) -> None:
    """An answer that says so, in words or as JSON, is no success; no answer is none either."""
    assert is_error(result) is failed
    assert (succeeded(called("t", None, result, "x")) == {}) is failed
    assert succeeded(called("t", None, result, "x")[:1]) == {}


REPLIES: dict[str, tuple[Any, Any]] = {
    "entities": (
        {"entities": [{"name": "Acme", "entity_type": "company"}]},
        {"entities": [{"name": "Beta", "entity_type": "company"}]},
    ),
    "graph": (
        {"nodes": [{"id": "acme", "type": "company"}]},
        {"nodes": [{"id": "beta", "type": "company"}]},
    ),
    "procedures": (
        {"procedures": [{"trigger": "a", "description": "b", "steps": [{"call": 1}, {"call": 2}]}]},
        {"procedures": [{"trigger": "c", "description": "d", "steps": [{"call": 1}, {"call": 2}]}]},
    ),
}


@pytest.mark.parametrize("name", REPLIES)
def test_a_key_of_a_caller_must_bring_the_same(name: str, alice: Memory) -> None:
    """Only the key of a job's effect may come with another reply."""
    first, second = REPLIES[name]
    said = conversation(WORKED, key=lambda effect: f"job:1:{effect}")
    made = EXTRACTORS[name](alice, Model(first), said, {})["stored"]
    before = alice.services.log.head()
    with pytest.raises(InputError, match="idempotency"):
        EXTRACTORS[name].store(alice, _answer(name, second), said, {})
    assert alice.services.log.head() == before
    assert made


def _answer(name: str, reply: Any) -> Any:
    from memoriale.adapters.extraction.asking import Answer

    extractor = EXTRACTORS[name]
    value = extractor.reply.model_validate(reply)
    return Answer(value, json.dumps(reply), "m", f"{name}/1")


@pytest.mark.parametrize("name", REPLIES)
def test_a_job_that_died_after_its_effect_adds_nothing(
    name: str, alice: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second attempt comes to another reply; the job ends with what the first one stored."""

    def as_(principal: Principal, branch: str) -> Memory:
        return alice.rebound(principal)

    def run(reply: Any) -> Any:
        return alice.services.jobs.run_due(extraction_handlers(as_, lambda: Model(reply)))

    def died(*_: object) -> None:
        # Nothing is recorded of it, as when its process is killed.
        raise JobEndedError("it died.")

    first, second = REPLIES[name]
    request_extraction(alice, [name], WORKED)
    extractor = EXTRACTORS[name]
    with monkeypatch.context() as patched:
        patched.setitem(EXTRACTORS, name, _dying(extractor, died))
        assert run(first) == []
    kinds = {"entities": ["entity"], "graph": ["node"], "procedures": ["procedure"]}[name]
    made = [str(memory.memory_id) for memory in alice.list(kinds=kinds).memories]
    (job,) = run(second)
    assert (job.status, job.attempts) == (JobStatus.COMPLETED, 2)
    assert [str(memory.memory_id) for memory in alice.list(kinds=kinds).memories] == made
    assert len(made) == 1


def _dying(extractor: Any, died: Callable[..., None]) -> Any:
    from dataclasses import replace

    def store(*arguments: Any) -> Any:
        extractor.store(*arguments)
        died()

    return replace(extractor, store=store)


@pytest.mark.parametrize("name", REPLIES)
def test_values_that_cannot_be_stored_are_a_bad_reply(name: str, alice: Memory) -> None:
    """The model is asked again; nothing is wrong with what the caller gave."""
    bad = json.loads(json.dumps(REPLIES[name][0]).replace('"company"', '""').replace('"a"', '" "'))
    before = alice.services.log.head()
    with pytest.raises(BadReplyError, match="cannot be used"):
        EXTRACTORS[name](alice, Model(bad), conversation(WORKED), {})
    assert alice.services.log.head() == before


def test_days_are_written_as_days() -> None:
    """Numbers and times are none."""
    from pydantic import TypeAdapter, ValidationError

    days = TypeAdapter(Day)
    assert days.validate_python("2026-11-30") == date(2026, 11, 30)
    for wrong in ("1764547200", "2026-11-30T10:00:00Z", "soon", "2026-02-30"):
        with pytest.raises(ValidationError):
            days.validate_python(wrong)
    assert "format" not in days.json_schema() or days.json_schema()["format"] != "int"


def test_a_graph_store_of_the_program_s_own_is_used(alice: Memory) -> None:
    """Its jobs are left alone by whoever has no such store; the manager that has it does them."""
    own = DictGraph()
    manager = MemoryManager(
        storage=alice,
        summaries=False,
        graph={"store": own},
        model=Model({"nodes": [{"id": "oslo", "type": "city"}]}),
    )
    (job_id,) = manager.after_run(None, None, SAID)
    assert manager.await_extractions() == []
    job = alice.services.jobs.get(job_id)
    assert (job.type, job.status) == (f"extract.{OWN_GRAPH}", JobStatus.COMPLETED)
    assert own.get_node("oslo", user_id="alice") is not None
    assert LedgerGraph(alice).get_node("oslo") is None
    request_extraction(alice, [OWN_GRAPH], SAID)
    others = extraction_handlers(lambda p, b: alice, lambda: Model("{}"))
    assert alice.services.jobs.run_due(others) == []
    assert graph_extractor(own).name == "graph"


def test_a_store_extracts_by_itself(alice: Memory) -> None:
    """At once, with the model that is given; what fails is told and stores nothing."""
    facts = UserFacts(alice)
    result = facts.extract_and_store(messages=SAID, model=Model({"add": [{"fact": "User ran"}]}))
    assert [fact.fact for fact in facts.get_active_facts()] == ["User ran"]
    assert (result["model"], result["prompt"]) == ("test model (2)", "facts/1")
    profile = UserProfile(alice, custom_fields=["diet"])
    profile.extract_and_update(messages=SAID, model=Model({"custom": {"diet": "vegan"}}))
    found = profile.get_profile()
    assert found is not None
    assert found.custom == {"diet": "vegan"}
    entities = EntityMemory(alice, namespace="org")
    entities.extract_entities(messages=SAID, model=Model(REPLIES["entities"][0]))
    assert [one.namespace for one in entities.list_entities()] == ["org"]
    evidence = {"title": "t", "content": "c", "evidence": "always need the cost centre 42"}
    learnings = LearnedKnowledge(alice)
    made = learnings.extract_learnings(SAID, Model({"learnings": [evidence]}))["stored"]
    assert learnings.get_learning(made[0]) is not None
    graph = GraphMemory(alice, GraphMemoryConfig(model=Model(REPLIES["graph"][0])))
    graph.extract_from_conversation(messages=SAID)
    assert graph.get_store().get_node("acme") is not None
    procedures = ProcedureMemory(alice)
    procedures.extract_procedures(
        messages=[turn.model_dump() for turn in WORKED], model=Model(REPLIES["procedures"][0])
    )
    assert [one.trigger for one in procedures.get_procedures()] == ["a"]
    with pytest.raises(BadReplyError):
        facts.extract_and_store(messages=SAID, model=Model("nonsense"))
    assert len(facts.get_facts()) == 1


def test_what_a_store_cannot_extract(alice: Memory) -> None:
    """Without a model or a user it says so; a graph whose ``auto_extract`` is off asks nobody."""
    with pytest.raises(InputError, match="MEMORIALE_MODEL"):
        UserFacts(alice).extract_and_store(messages=SAID)
    nobody = alice.rebound(alice.principal.with_(user=None, agent="a"))
    with pytest.raises(InputError, match="user"):
        LearnedKnowledge(nobody).extract_learnings(SAID, Model("{}"))
    with pytest.raises(InputError, match=r"messages\[0\]"):
        UserFacts(alice).extract_and_store(messages=[{"role": "nobody"}], model=Model("{}"))
    off = GraphMemory(alice, GraphMemoryConfig(auto_extract=False))
    assert off.extract_from_conversation(messages=SAID) == {"stored": []}
