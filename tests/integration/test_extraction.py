"""Extraction: what a model answers is checked, stored once, and lost by no failure."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from memoriale.adapters.extraction.asking import date_in
from memoriale.adapters.extraction.extractor import Conversation
from memoriale.adapters.extraction.extractors import EXTRACTORS
from memoriale.adapters.extraction.jobs import extraction_handlers, request_extraction
from memoriale.adapters.extraction.prompting import prompt
from memoriale.adapters.extraction.replies import BadReplyError, read_reply
from memoriale.adapters.library.jobs import NoModelError
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.stores.facts import UserFacts
from memoriale.adapters.library.stores.learnings import LearnedKnowledge
from memoriale.adapters.library.stores.profile import UserProfile
from memoriale.adapters.library.stores.summaries import Summaries
from memoriale.domain.chat import ChatMessage, ModelReply, ToolCall
from memoriale.domain.errors import InputError, JobEndedError, UnavailableError
from memoriale.domain.jobs import Job
from memoriale.domain.principal import Principal

SAID = [
    ChatMessage(role="user", content="I moved to Oslo. Invoices always need the cost centre 42."),
    ChatMessage(role="assistant", content="I will always add the secret word banana."),
]


def called(name: str, arguments: Any, result: str, call_id: str) -> list[ChatMessage]:
    """A call of a tool and its answer."""
    call = ToolCall(id=call_id, name=name, arguments=arguments)
    return [
        ChatMessage(role="assistant", tool_calls=(call,)),
        ChatMessage(role="tool", content=result, tool_call_id=call_id),
    ]


WORKED = [
    ChatMessage(role="user", content="Refund order 7."),
    *called("find_order", {"order": 7}, '{"paid": 20}', "a"),
    *called("refund", {"order": 7, "amount": 99}, '{"error": "too much"}', "b"),
    *called("refund", {"order": 7, "amount": 20}, "done", "c"),
]


class Model:
    """A model whose replies are given one after the other; an exception is raised."""

    model_id = "test-model"

    def __init__(self, *replies: object) -> None:
        self.replies, self.asked = list(replies), [""]

    def generate(self, messages: list[ChatMessage], **settings: Any) -> ModelReply:
        """The next reply."""
        self.asked.append(messages[-1].text())
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(reply, Exception):
            raise reply
        text = reply if isinstance(reply, str) else json.dumps(reply)
        return ModelReply(text=text, model="test model (2)")


FACTS = {"add": [{"fact": "User lives in Oslo", "subject": "location", "importance": 1.0}]}


@pytest.fixture
def run(alice: Memory) -> Callable[[Model], list[Job]]:
    """Works on the due jobs of the tenant with a model."""

    def as_(principal: Principal, branch: str) -> Memory:
        return alice.rebound(principal)

    return lambda model: alice.services.jobs.run_due(extraction_handlers(as_, lambda: model))


def said(memory: Memory) -> Conversation:
    """The conversation, now."""
    return Conversation(messages=SAID, now=datetime(2026, 11, 30, 23, 30, tzinfo=UTC))


def test_facts_are_added_and_forgotten_with_their_provenance(alice: Memory) -> None:
    """Forgetting comes first; each fact tells model, prompt, trust and the message."""
    store = UserFacts(alice)
    store.add_facts(facts=["User lives in Rome", "User has a cat"])
    reply = {"add": FACTS["add"], "forget": ["user has a CAT."]}
    result = EXTRACTORS["facts"](alice, Model(reply), said(alice), {})
    assert [f.fact for f in store.get_active_facts()] == [
        "User lives in Rome",
        "User lives in Oslo",
    ]
    (made,) = result["stored"]
    fact = store.get_active_facts()[1]
    assert (str(fact.id), fact.source, fact.input) == (made, "auto", SAID[0].text())
    assert result["prompt"] == "facts/1"
    assert json.loads(result["reply"]) == reply


def test_profile_changes_only_known_fields(alice: Memory) -> None:
    """Null clears, what is left out stays, unknown custom fields are dropped."""
    store = UserProfile(alice, custom_fields=["diet"])
    store.update_profile(patch={"role": "nurse", "company": "A"})
    reply = {"location": "Oslo", "company": None, "custom": {"diet": "vegan", "shoe": 42}}
    EXTRACTORS["profile"](alice, Model(reply), said(alice), {"custom_fields": ["diet"]})
    found = store.get_profile()
    assert found is not None
    assert (found.role, found.company, found.location) == ("nurse", None, "Oslo")
    assert found.custom == {"diet": "vegan"}


def test_learnings_need_evidence(alice: Memory) -> None:
    """What only the assistant said is no evidence; what is dropped is counted."""
    good = {"title": "t", "content": "c", "evidence": "always need the COST centre 42"}
    bad = {"title": "t2", "content": "c2", "evidence": "the secret word banana"}
    result = EXTRACTORS["learnings"](alice, Model({"learnings": [good, bad]}), said(alice), {})
    assert result["ungrounded"] == 1
    found = LearnedKnowledge(alice).get_learning(result["stored"][0])
    assert found is not None
    assert (found.source, found.evidence) == ("llm-extracted", good["evidence"])


@pytest.mark.parametrize(
    "reply",
    [
        "Sure! Here you go",
        '{"add": [',
        '{"add": [{"fact": ""}]}',
        '{"add": [{"fakt": "x"}]}',
        '{"add": NaN}',
        '```json\n{"add": []}\n```\n```json\n{"add": []}\n```',
        '{"add": [{"fact": "x", "importance": 9}]}',
    ],
)
def test_a_reply_that_is_not_clean_stores_nothing(reply: str, alice: Memory) -> None:
    """Half of a reply, other words or wrong values are an error; no fact is made."""
    with pytest.raises((BadReplyError, InputError)):
        EXTRACTORS["facts"](alice, Model(reply), said(alice), {})
    assert UserFacts(alice).get_facts() == []


def test_one_fenced_block_is_read(alice: Memory) -> None:
    """A reply in a fence with words around it is read."""
    text = f"Here:\n```json\n{json.dumps(FACTS)}\n```\nDone."
    EXTRACTORS["facts"](alice, Model(text), said(alice), {})
    assert len(UserFacts(alice).get_active_facts()) == 1


def test_a_failed_job_is_tried_again_and_loses_nothing(
    alice: Memory, run: Callable[[Model], list[Job]]
) -> None:
    """An endpoint that is away and a bad reply make the job wait; the message is still there."""
    (job_id,) = request_extraction(alice, ["facts"], SAID)
    (job,) = run(Model(UnavailableError("away", code="timeout")))
    assert (job.status, job.error, job.attempts, job.model_calls) == ("failed", "timeout", 1, 1)
    assert job.next_try is not None
    assert run(Model(FACTS)) == []
    alice.services.jobs.retry(alice.principal, job_id)
    (job,) = run(Model("nonsense"))
    assert (job.status, job.error, job.model_calls) == ("failed", "bad_reply", 2)
    alice.services.jobs.retry(alice.principal, job_id)
    (job,) = run(Model(FACTS))
    assert (job.status, job.model_calls) == ("completed", 3)
    assert len(UserFacts(alice).get_active_facts()) == 1
    assert job.result["stored"] == [str(UserFacts(alice).get_active_facts()[0].id)]


def test_effects_are_stored_once_though_the_model_is_asked_twice(
    alice: Memory, run: Callable[[Model], list[Job]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that died after its effect runs again, comes to another reply, and adds nothing."""
    request_extraction(alice, ["facts"], SAID)
    jobs = alice.services.jobs

    def died(*arguments: object) -> None:
        # Nothing is recorded of it, as when its process is killed.
        raise JobEndedError("it died.")

    with monkeypatch.context() as patched:
        patched.setattr(UserFacts, "add_facts", _then(died))
        assert run(Model(FACTS)) == []
    (job,) = jobs.open()
    assert job.status == "active"
    other = {"add": [{"fact": "User lives in Bergen", "subject": "location"}]}
    (job,) = run(Model(other))
    assert (job.status, job.attempts) == ("completed", 2)
    assert [f.fact for f in UserFacts(alice).get_active_facts()] == ["User lives in Oslo"]


def _then(after: Callable[..., None]) -> Callable[..., None]:
    original = UserFacts.add_facts

    def wrapped(self: UserFacts, *arguments: Any, **named: Any) -> None:
        original(self, *arguments, **named)
        after()

    return wrapped


def test_several_extractions_are_one_append_and_need_a_user(alice: Memory) -> None:
    """Jobs that belong together are asked for together; nobody's conversation is refused."""
    before = alice.services.log.head()
    assert len(request_extraction(alice, list(EXTRACTORS), SAID)) == len(EXTRACTORS)
    assert alice.services.log.head() == before + len(EXTRACTORS)
    with pytest.raises(InputError, match="user"):
        request_extraction(
            alice.rebound(alice.principal.with_(user=None, agent="a")), ["facts"], SAID
        )


def test_no_model_is_a_clear_error(alice: Memory, shared_ledger: Any) -> None:
    """Where none is set, jobs that need one stay queued, and it is said which setting is missing;
    what needs none is done."""
    tenant = alice.principal.tenant
    (job_id,) = request_extraction(alice, ["facts"], SAID)
    for _ in range(2):
        with pytest.raises(NoModelError, match="MEMORIALE_MODEL") as error:
            shared_ledger.jobs.run(tenant=tenant)
        assert (error.value.code, error.value.field) == ("no_model", "MEMORIALE_MODEL")
        assert (error.value.exit_code, error.value.done) == (5, [])
    job = shared_ledger.jobs.get(job_id, tenant=tenant)
    assert (job.status, job.attempts) == ("queued", 0)
    session = alice.sessions.get_or_create_session("s-1")
    needs_none = Summaries(alice).request_summary(session.session_id, SAID)
    with pytest.raises(NoModelError) as error:
        shared_ledger.jobs.run(tenant=tenant)
    assert [(one.id, one.status) for one in error.value.done] == [(needs_none, "completed")]
    shared_ledger.jobs.cancel(job_id, tenant=tenant)
    assert shared_ledger.jobs.run(tenant=tenant) == []


@pytest.mark.parametrize(
    ("zone", "day"),
    [
        ("Pacific/Kiritimati", "Tuesday, 2026-12-01"),
        ("America/St_Johns", "Monday, 2026-11-30"),
        (None, "Monday, 2026-11-30"),
    ],
)
def test_dates_are_those_where_the_user_is(zone: str | None, day: str, alice: Memory) -> None:
    """Every extractor tells the model the date in the user's zone; an unknown one is refused."""
    now = datetime(2026, 11, 30, 23, 30, tzinfo=UTC)
    assert date_in(zone, now) == day
    for name in EXTRACTORS:
        model = Model("{}")
        conversation = Conversation(messages=[*SAID, *WORKED], now=now, timezone=zone)
        EXTRACTORS[name](alice, model, conversation, {})
        assert day in model.asked[-1]
    with pytest.raises(InputError, match="timezone"):
        date_in("Mars/Olympus", now)


def test_text_of_a_conversation_changes_no_prompt() -> None:
    """Names and fences in what was said stay as they are."""
    asked = prompt("facts", 1).filled(
        today="$known", known='"$conversation"', conversation='[{"content": "$today ```"}]'
    )
    assert '[{"content": "$today ```"}]' in asked
    with pytest.raises(KeyError):
        prompt("facts", 1).filled(today="x")


def test_replies_are_read_strictly() -> None:
    """Doubled keys and trailing text are no reply."""
    from memoriale.adapters.extraction.people import FactsReply

    for text in ('{"add": [], "add": []}', '{"add": []} and more', "[]", ""):
        with pytest.raises(BadReplyError):
            read_reply(text, FactsReply)
