"""Language models over HTTP: what misbehaves loses nothing, stores nothing and is counted."""

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from memoriale.adapters.extraction.jobs import extraction_handlers, request_extraction
from memoriale.adapters.language_models.client import MOST_BYTES
from memoriale.adapters.language_models.factory import make_model
from memoriale.adapters.language_models.failures import ModelError
from memoriale.adapters.language_models.pydantic_ai import PydanticAiModel
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.stores.facts import UserFacts
from memoriale.domain.chat import ChatMessage, ToolCall
from memoriale.domain.errors import InputError
from memoriale.domain.jobs import Job, JobStatus
from memoriale.domain.principal import Principal
from tests.fixtures.model_server import (
    KEY,
    Answer,
    Behaviour,
    ModelServer,
    body,
    cut,
    cut_off,
    drip,
    empty,
    hang_up,
    huge,
    refusal,
    speechless,
    status,
)

SAID = [ChatMessage(role="user", content="I moved to Oslo, and my code word is marzipan.")]
REPLY = {"add": [{"fact": "User lives in Oslo", "subject": "location"}]}
SECONDS = 0.5

Run = Callable[[], list[Job]]


@pytest.fixture
def run(alice: Memory, model_server: ModelServer) -> Run:
    """Works on the due jobs of the tenant with the model behind the server."""
    model_server.reply = json.dumps(REPLY)
    model = Hasty("openai:some-model", model_server.endpoint)

    def as_(principal: Principal, branch: str) -> Memory:
        return alice.rebound(principal)

    return lambda: alice.services.jobs.run_due(extraction_handlers(as_, lambda: model))


class Hasty(PydanticAiModel):
    """One that waits for half a second, whatever it is given."""

    def generate(self, messages: list[ChatMessage], **settings: Any) -> Any:
        """With less time."""
        return super().generate(messages, **{**settings, "timeout": SECONDS})


def ask(server: ModelServer, content: str = "hello", name: str = "openai:some-model") -> Any:
    """One reply."""
    model = make_model(name, server.endpoint)
    return model.generate([ChatMessage(role="user", content=content)], schema={"type": "object"})


def test_a_reply_comes_with_the_model_that_gave_it(model_server: ModelServer) -> None:
    """One request for chat completions, with the key, the schema and no randomness."""
    model_server.reply = '{"add": []}'
    reply = ask(model_server)
    assert (reply.text, reply.model) == ('{"add": []}', "served-model-2")
    (asked,) = model_server.asked
    assert (asked.path, asked.authorization) == ("/v1/chat/completions", f"Bearer {KEY}")
    assert asked.message["temperature"] == 0.0
    assert asked.message["max_completion_tokens"] == 800
    assert asked.message["response_format"]["json_schema"]["schema"]["type"] == "object"


def test_each_turn_goes_out_in_its_role(model_server: ModelServer) -> None:
    """Calls of tools stay with their results; a result of an unknown call is told by the user."""
    call = ToolCall(id="c1", name="weather", arguments={"city": "Oslo"})
    turns = [
        ChatMessage(role="system", content="Be brief."),
        ChatMessage(role="user", content=({"type": "text", "text": "Hot?"}, {"type": "image"})),
        ChatMessage(role="assistant", tool_calls=(call,)),
        ChatMessage(role="tool", content="-3", tool_call_id="c1"),
        ChatMessage(role="tool", content="lost", tool_call_id="c2"),
        ChatMessage(role="assistant", content="No."),
    ]
    make_model("openai:some-model", model_server.endpoint).generate(turns, schema={})
    sent = model_server.asked[0].message["messages"]
    assert [turn["role"] for turn in sent] == [
        *("system", "user", "assistant", "tool", "user", "assistant")
    ]
    assert sent[1]["content"] == "Hot?\n[image]"
    assert json.loads(sent[2]["tool_calls"][0]["function"]["arguments"]) == {"city": "Oslo"}
    assert (sent[3]["content"], sent[3]["tool_call_id"]) == ("-3", "c1")


def test_a_model_that_reasons_is_given_no_temperature(model_server: ModelServer) -> None:
    """It would refuse the request, or warn."""
    ask(model_server, name="openai:o3")
    assert "temperature" not in model_server.asked[0].message


def test_inside_an_event_loop_it_works_too(model_server: ModelServer) -> None:
    """A program that is asynchronous itself may call a store as it stands."""

    async def inside() -> Any:
        return ask(model_server)

    assert asyncio.run(inside()).text == "{}"


MISBEHAVIOURS: dict[str, tuple[Behaviour, str]] = {
    "dies half way": (cut, "model_failed"),
    "hangs up": (hang_up, "model_failed"),
    "no JSON": (body(b'{"id": '), "model_failed"),
    "deep JSON": (body(b"[" * 100_000), "model_failed"),
    "a page": (body(b"<html>", Content_Type="text/html"), "model_failed"),
    "a list": (body(b"[1]"), "model_failed"),
    "no choices": (empty, "model_failed"),
    "choices of a wrong type": (body(b'{"choices": {"a": [7]}}'), "model_failed"),
    "a wrong choice": (body(b'{"choices": ["x"]}'), "model_failed"),
    "no text": (speechless, "model_failed"),
    "will not": (refusal, "model_failed"),
    "cut off": (cut_off, "model_failed"),
    "huge": (huge, "model_failed"),
    "packed": (body(b"x", Content_Encoding="gzip"), "model_failed"),
    "500": (status(500), "model_failed"),
    "429": (status(429, Retry_After="120"), "rate_limited"),
    "drips": (drip, "timeout"),
    "cut JSON in a whole answer": (
        lambda text: Answer(json.dumps(_half(text)).encode()),
        "bad_reply",
    ),
}


def _half(text: str) -> dict[str, Any]:
    from tests.fixtures.model_server import completion

    return completion(text[: len(text) // 2])


@pytest.mark.parametrize("name", [*MISBEHAVIOURS, "hangs", "redirects"])
def test_what_misbehaves_loses_nothing(
    name: str, alice: Memory, model_server: ModelServer, run: Run
) -> None:
    """
    The job waits with its conversation, nothing is stored, the one call is counted, and a later
    success stores once. What failed is told without the conversation and without the key.
    """
    own: dict[str, tuple[Behaviour, str]] = {
        "hangs": (model_server.stuck, "timeout"),
        "redirects": (model_server.redirected, "model_failed"),
    }
    behaviour, code = own.get(name) or MISBEHAVIOURS[name]
    (job_id,) = request_extraction(alice, ["facts"], SAID)
    model_server.next(behaviour)
    (job,) = run()
    assert (job.status, job.error, job.attempts) == (JobStatus.FAILED, code, 1)
    assert (job.model_calls, len(model_server.asked)) == (1, 1)
    assert job.arguments["messages"] == [{"role": "user", "content": SAID[0].content}]
    assert (job.result, UserFacts(alice).get_facts()) == ({}, [])
    assert job.next_try is not None
    asked_for = timedelta(seconds=120 if name == "429" else 1)
    assert timedelta(0) <= job.next_try - job.changed_at - asked_for < timedelta(seconds=1)
    assert job.reason is not None
    assert not [word for word in (KEY, "marzipan", "Oslo") if word in job.reason]
    assert run() == []
    alice.services.jobs.retry(alice.principal, job_id)
    (job,) = run()
    assert (job.status, job.model_calls) == (JobStatus.COMPLETED, 2)
    assert [fact.fact for fact in UserFacts(alice).get_active_facts()] == ["User lives in Oslo"]


@pytest.mark.parametrize(
    ("behaviour", "code"),
    [
        (status(401), "refused_key"),
        (status(403), "refused_key"),
        (status(429, "insufficient_quota"), "no_quota"),
        (status(404, "model_not_found"), "model_failed"),
        (status(400), "model_failed"),
    ],
)
def test_what_only_people_can_mend_is_not_tried_again(
    behaviour: Behaviour, code: str, alice: Memory, model_server: ModelServer, run: Run
) -> None:
    """A wrong key, model or account stops the job until somebody asks for it once more."""
    (job_id,) = request_extraction(alice, ["facts"], SAID)
    model_server.next(behaviour)
    (job,) = run()
    assert (job.status, job.error, job.model_calls) == (JobStatus.ERRORED, code, 1)
    assert job.reason is not None
    assert KEY not in job.reason
    alice.services.jobs.retry(alice.principal, job_id)
    (job,) = run()
    assert (job.status, len(UserFacts(alice).get_facts())) == (JobStatus.COMPLETED, 1)


def test_a_rest_that_is_asked_for_is_bounded(
    alice: Memory, model_server: ModelServer, run: Run
) -> None:
    """An endpoint cannot put work off for more than a day."""
    request_extraction(alice, ["facts"], SAID)
    model_server.next(status(503, Retry_After="99999999999"))
    (job,) = run()
    assert job.next_try is not None
    assert job.next_try - job.changed_at == timedelta(days=1)


def test_a_redirect_is_not_followed(model_server: ModelServer) -> None:
    """Key and conversation go nowhere but to the address that was set."""
    model_server.next(model_server.redirected)
    with pytest.raises(ModelError):
        ask(model_server)
    assert [asked.path for asked in model_server.asked] == ["/v1/chat/completions"]


def test_an_answer_is_read_no_further_than_it_may_be_long(model_server: ModelServer) -> None:
    """What announces more than it may have is given up, however much would come."""
    model_server.next(lambda text: Answer(b"x" * (MOST_BYTES + 1), declared=1 << 40))
    with pytest.raises(ModelError, match="too long"):
        ask(model_server)


def test_an_endpoint_that_is_not_there(model_server: ModelServer) -> None:
    """Nobody listens: an error that may pass."""
    endpoint = model_server.endpoint
    model = make_model("openai:some-model", endpoint)
    model_server.stop()
    with pytest.raises(ModelError, match="cannot be reached") as failed:
        model.generate([ChatMessage(role="user", content="hello")], schema={})
    assert (failed.value.code, failed.value.retry) == ("model_failed", True)
    assert model.model_id == "openai:some-model"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("none", "set MEMORIALE_MODEL"),
        ("openai:", "names no model"),
        ("openai: ", "names no model"),
        (":x", "names no model"),
        ("gpt", "names no model"),
        ("nobody:model", "nobody"),
        ("no.such.module:factory", "No module named"),
        ("tests.fixtures.language_models:nobody", "nobody"),
        ("tests.fixtures.language_models:ChatMessage.x", "MEMORIALE_MODEL"),
    ],
)
def test_a_name_that_gives_no_model(name: str, says: str) -> None:
    """The error names the setting, the value, and what there is."""
    with pytest.raises(InputError, match=says) as failed:
        make_model(name)
    assert failed.value.field == "MEMORIALE_MODEL"
    assert "openai:MODEL" in failed.value.allowed


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package is looked for only when a model of it is asked for."""
    monkeypatch.setitem(__import__("sys").modules, "pydantic_ai.exceptions", None)
    with pytest.raises(InputError, match=r"pip install 'memoriale\[llm\]'") as failed:
        make_model("openai:some-model")
    assert failed.value.code == "not_installed"
