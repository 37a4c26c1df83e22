"""``MemoryManager``: one surface over every store, with background work that loses nothing."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from memoriale.adapters.application.jobs import Jobs
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.stores.config import UnifiedMemoryConfig
from memoriale.adapters.library.stores.manager import MemoryManager
from memoriale.domain.chat import ChatMessage, ModelReply
from memoriale.domain.errors import InputError, UnavailableError
from memoriale.domain.jobs import Job
from memoriale.domain.keys import Subject
from tests.fixtures.embedded import eventually

EVERYTHING = {
    "user_facts": True,
    "user_profile": True,
    "entities": True,
    "decisions": True,
    "learnings": True,
    "corrections": True,
    "graph": True,
    "procedures": True,
    "file_memory": True,
}
SAID = [
    {"role": "user", "content": "I moved to Oslo, and invoices need the cost centre 42."},
    {"role": "assistant", "content": "Noted."},
]


class Model:
    """A model that answers each prompt by what it asks for; ``failing`` prompts raise."""

    model_id = "test-model"

    def __init__(self, failing: str = "-") -> None:
        self.failing = failing

    def generate(self, messages: list[ChatMessage], **settings: Any) -> ModelReply:
        """A reply in the form of the schema."""
        fields = settings["schema"].get("properties", {})
        if self.failing in fields:
            raise UnavailableError("the endpoint is away", code="timeout")
        replies = {
            "add": {"add": [{"fact": "User lives in Oslo", "subject": "location"}]},
            "preferred_name": {"location": "Oslo"},
            "learnings": {
                "learnings": [
                    {
                        "title": "cost centre",
                        "content": "Invoices need cost centre 42",
                        "evidence": "invoices need the cost centre 42",
                    }
                ]
            },
            "summary": {"summary": "The user moved to Oslo."},
        }
        found = next((reply for field, reply in replies.items() if field in fields), {})
        return ModelReply(text=json.dumps(found), model=self.model_id)


class Bus:
    """Keeps what it is told; the first listener call raises."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, Mapping[str, Any]]] = []

    def emit(self, name: str, payload: Mapping[str, Any]) -> None:
        """Keeps it, and fails."""
        self.heard.append((name, payload))
        raise RuntimeError("a listener that fails")

    def names(self) -> set[str]:
        """What was told about."""
        return {name for name, _ in self.heard}


Make = Callable[..., MemoryManager]


@pytest.fixture
def manager(shared_ledger: Ledger, tenant: str) -> Make:
    """Makes managers of one tenant; every store is on unless told otherwise."""
    storage = shared_ledger.memory(tenant=tenant, agent="clerk")
    return lambda **given: MemoryManager(storage=storage, **{**EVERYTHING, **given})


def test_the_defaults_are_those_of_the_reference(shared_ledger: Ledger, tenant: str) -> None:
    """Only summaries are on; 50 messages; no limits; every other accessor is None."""
    found = MemoryManager(storage=shared_ledger.memory(tenant=tenant))
    assert (found.get_max_messages(), found.get_max_tokens()) == (50, None)
    assert found.get_summaries() is not None
    accessors = (
        found.get_user_facts,
        found.get_user_profile,
        found.get_entity_memory,
        found.get_decision_log,
        found.get_learned_knowledge,
        found.get_correction_store,
        found.get_graph_memory,
        found.get_procedure_memory,
        found.get_file_memory,
    )
    assert [get() for get in accessors] == [None] * len(accessors)
    assert found.get_tools() == []
    assert MemoryManager(storage=found.storage, summaries=False).get_summaries() is None


def test_a_run_is_extracted_into_every_store_and_told_in_the_next_prompt(manager: Make) -> None:
    """What was said stands in facts, profile and learnings, and so in the context."""
    bus = Bus()
    one = manager(model=Model(), event_bus=bus)
    one.ensure_ready()
    one.get_or_create_session("s-1", "alice")
    one.append_messages("s-1", SAID, user_id="alice")
    jobs = one.after_run("s-1", "alice", SAID, agent_name="clerk")
    assert len(jobs) >= 3
    assert one.await_extractions() == []
    text = one.build_context("s-1", "alice", "which cost centre do invoices need?", "clerk")
    for told in ("User lives in Oslo", "location: Oslo", "cost centre 42", "[unverified]"):
        assert told in text
    assert text.startswith("<memory>")
    assert "memory.extract" in bus.names()
    assert one.build_context("s-1", "bob", "cost centre", "clerk") == ""


def test_what_is_extracted_is_recorded_in_its_session(manager: Make, tenant: str) -> None:
    """The session that the words were said in is that of the job and of what it stores."""
    one = manager(model=Model())
    one.get_or_create_session("s-7", "alice")
    jobs = one.after_run("s-7", "alice", SAID)
    services = one.storage.services
    assert {services.jobs.get(job).principal["session"] for job in jobs} == {"s-7"}
    assert one.await_extractions() == []
    facts = one.get_user_facts()
    assert facts is not None
    (fact,) = facts.get_active_facts("alice")
    told = services.log.reader.last(50)
    made = [r.columns for r in told if str(r.columns.memory_id) == str(fact.id)]
    session = services.log.identities.find(Subject("session", "s-7"))
    assert session is not None
    assert {columns.principal_session for columns in made} == {session.pseudonym}


def test_a_failing_model_loses_nothing_and_is_told(manager: Make) -> None:
    """One extractor's failure leaves the others alone; its job waits with the conversation."""
    bus = Bus()
    one = manager(model=Model(failing="add"), event_bus=bus)
    one.after_run(None, "alice", SAID)
    (waiting,) = one.await_extractions()
    assert (waiting.type, waiting.status, waiting.error) == ("extract.facts", "failed", "timeout")
    assert "memory.error" in bus.names()
    other = manager(model=Model())
    other.storage.services.jobs.retry(other.storage.principal, waiting.id)
    other.after_run(None, "alice", SAID[:1])
    assert other.await_extractions() == []
    facts = other.get_user_facts()
    assert facts is not None
    assert [f.fact for f in facts.get_active_facts("alice")] == ["User lives in Oslo"]


def test_a_job_that_is_added_while_the_thread_is_about_to_end_is_worked_on(
    manager: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread looks once more when a job was added during a look that found nothing."""
    one = manager(model=Model())
    looked: list[int] = []
    original = Jobs.run_due

    def run_due(self: Jobs, *arguments: Any, **named: Any) -> list[Job]:
        done = original(self, *arguments, **named)
        looked.append(len(done))
        if not done and looked.count(0) == 1:
            one.after_run(None, "alice", SAID)
        return done

    monkeypatch.setattr(Jobs, "run_due", run_due)
    one.after_run(None, "alice", SAID)
    assert eventually(lambda: len([count for count in looked if count]) >= 2)
    assert one.await_extractions() == []


def test_without_a_model_extraction_is_a_clear_error(manager: Make) -> None:
    """Nothing is asked for that nobody can do; without a user there is nothing to do."""
    with pytest.raises(InputError, match="MEMORIALE_MODEL"):
        manager().after_run(None, "alice", SAID)
    assert manager().after_run(None, None, SAID) == []
    assert manager(model=Model()).after_run(None, "alice", []) == []


def test_overflow_is_summarised(manager: Make) -> None:
    """What falls out of the history is returned once and stands in a summary."""
    one = manager(model=Model(), max_messages=2)
    one.get_or_create_session("s-1", "alice")
    assert one.append_messages("s-1", SAID, user_id="alice").overflow == []
    appended = one.append_messages("s-1", SAID, user_id="alice")
    assert [m.content for m in appended.overflow] == [m["content"] for m in SAID]
    assert one.await_extractions() == []
    summaries = one.get_summaries()
    assert summaries is not None
    assert len(summaries.get_summaries("s-1", "alice")) == 1
    assert len(one.get_history("s-1", user_id="alice")) == 2
    one.update_state("s-1", {"step": 1}, "alice")
    assert one.get_or_create_session("s-1", "alice").state == {"step": 1}


def test_remember_recall_and_forget(manager: Make) -> None:
    """A fact of the user, else a learning; recall finds both, scored; counts are true."""
    one = manager()
    fact = one.remember("Alice prefers the phone", "alice", importance=0.9)
    assert one.remember("alice prefers the phone.", "alice") == fact
    shared = one.remember("Phones are answered until five", scope="tenant")
    found = one.recall("when are phones answered?", "alice")
    assert {hit.memory_id for hit in found} >= {fact, shared}
    assert {hit.source for hit in found} == {"user_facts", "learnings"}
    assert [hit.memory_id for hit in one.recall("phones answered", "bob")] == [shared]
    assert one.forget("alice", fact_id=fact) == 1
    assert one.forget("alice", fact_id=fact) == 0
    one.remember("Alice has a cat", "alice")
    assert one.forget("alice") == 1
    assert one.forget("alice", entity_id="nobody") == 0


def test_what_no_store_can_keep_is_an_error(manager: Make) -> None:
    """Nothing is lost silently: without a store the call says what to switch on."""
    bare = manager(**dict.fromkeys(EVERYTHING, False))
    with pytest.raises(InputError, match="switched on"):
        bare.remember("x", "alice")
    with pytest.raises(InputError, match="corrections"):
        bare.record_correction({"original_value": "a", "corrected_value": "b"})
    assert bare.recall("x", "alice") == []


def test_corrections_are_told_after_the_fact(manager: Make) -> None:
    """A correction retires what it contradicts and both are told; a failing bus fails nothing."""
    bus = Bus()
    one = manager(event_bus=bus, corrections={"contradiction_threshold": 0.3})
    learnings = one.get_learned_knowledge()
    assert learnings is not None
    learnt = learnings.save_learning(
        {
            "title": "code",
            "content": "the code is 4400",
            "source": "llm-extracted",
            "scope": "agent",
        }
    )
    correction = {"original_value": "4400", "corrected_value": "4410", "reason": "the code is 4400"}
    one.record_correction(correction)
    one.storage.services.jobs.open()
    one._background.add([job.id for job in one.storage.services.jobs.open()])
    one.await_extractions()
    ended = learnings.get_learning(learnt.id)
    assert ended is not None
    assert ended.invalidation_reason == "contradicted"
    assert "memory.correction.recorded" in bus.names()


def test_tools_of_every_store_are_usable_as_they_are(manager: Make) -> None:
    """Names are unique and fit OpenAI, Anthropic and MCP; a read takes as_of."""
    tools = manager().get_tools()
    names = [tool.name for tool in tools]
    assert len(set(names)) == len(names)
    assert {"recall_user_facts", "update_user_profile", "memory", "save_learning"} <= set(names)
    for tool in tools:
        assert tool.as_openai()["function"]["parameters"]["type"] == "object"
        assert tool.as_anthropic()["input_schema"] == tool.parameters
        assert tool.as_mcp()["inputSchema"] == tool.parameters
        assert tool.description
    reads = [t for t in tools if t.name.startswith(("recall", "search", "query", "traverse"))]
    assert len(reads) >= 5
    assert all("as_of" in tool.parameters["properties"] for tool in reads)


def test_the_budget_and_priorities_hold(manager: Make) -> None:
    """The prompt has at most so many tokens; a section of weight 0 is left out."""
    one = manager(context_budget={"max_tokens": 120, "priorities": {"user_profile": 0}})
    facts, profile = one.get_user_facts(), one.get_user_profile()
    assert facts is not None
    assert profile is not None
    facts.add_facts("alice", [f"fact number {n} about something" for n in range(30)])
    profile.update_profile("alice", {"role": "nurse"})
    found = one.context(user_id="alice")
    assert 0 < found.tokens <= 120
    assert found.left_out["user_facts"] > 0
    assert "nurse" not in found.text


def test_an_auditor_sees_what_a_prompt_told(manager: Make, shared_ledger: Ledger) -> None:
    """A context is one entry of the access log, with the memories that it contained."""
    one = manager()
    fact = one.remember("Alice has a cat", "alice")
    one.build_context(user_id="alice")
    tenant = one.storage.principal.tenant
    assert [e.command for e in shared_ledger.access.who_saw(fact, tenant=tenant)] == ["context"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_messages": 0},
        {"user_fact": True},
        {"learnings": {"top_k": 0}},
        {"tenant_id": "another"},
        {"storage": None},
        {"context_budget": {"max_tokens": 0}},
    ],
)
def test_a_wrong_configuration_is_refused(wrong: dict[str, Any], manager: Make) -> None:
    """The error names the field."""
    with pytest.raises(InputError, match="config"):
        MemoryManager({"storage": manager().storage, **wrong})


def test_a_configuration_may_be_a_model(manager: Make) -> None:
    """The model itself is taken as it is."""
    config = UnifiedMemoryConfig(storage=manager().storage, user_facts={"max_facts": 3})  # type: ignore[arg-type]
    facts = MemoryManager(config).get_user_facts()
    assert facts is not None
    assert facts.max_facts == 3
