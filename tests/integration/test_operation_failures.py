"""Models and embedders that misbehave: an add says why, stores no half, and can be asked again."""

import json
import math
from collections.abc import Callable
from typing import Any

import pytest

from memoriale.adapters.language_models.factory import make_model
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.operations.accepting import accept
from memoriale.adapters.library.operations.agent_memory import AgentMemory
from memoriale.adapters.library.operations.making import agent_memory
from memoriale.domain.errors import InputError, OperationError, UnavailableError
from memoriale.domain.operations.states import OperationStatus
from tests.fixtures.embedded import eventually
from tests.fixtures.model_server import (
    Behaviour,
    ModelServer,
    cut,
    cut_off,
    empty,
    hang_up,
    speechless,
    status,
)
from tests.fixtures.operations import ALICE, Make, Saying, Scripted, reply, said

ONCE = {"max_retries": 0}


def contents(memory: AgentMemory) -> list[str]:
    return [node.content for node in memory.get_all(ALICE)]


def failed(memory: AgentMemory, *texts: str) -> OperationError:
    """The error of an add that fails."""
    add = memory.add(said(*texts), ALICE)
    with pytest.raises(OperationError) as error:
        add.result(60)
    assert (add.status, add.error) == (OperationStatus.ERRORED, error.value)
    assert add.stored_ids == ()
    return error.value


BAD_REPLIES = {
    "no JSON": "I am sorry, Dave.",
    "another object": json.dumps({"items": []}),
    "half": reply("x")[:-4],
    "no list": json.dumps({"facts": "x"}),
    "blank": reply("ok", "   "),
    "empty": reply(""),
    "number": reply({"content": 7}),
    "NUL": reply("a\x00b"),
    "important": reply({"content": "x", "importance": 7}),
    "NaN": '{"facts": [{"content": "x", "importance": NaN}]}',
    "more": reply({"content": "x", "scope": "user:bob"}),
    "a long tag": reply({"content": "x", "tags": ["x" * 300]}),
    "too long": reply("x" * 1_100_000),
}


@pytest.mark.parametrize("bad", BAD_REPLIES.values(), ids=BAD_REPLIES.keys())
def test_a_reply_that_cannot_be_used_is_an_error_that_stores_nothing(
    remembering: Make, shared_ledger: Ledger, tenant: str, bad: str
) -> None:
    """Also where only one of its facts is bad. The messages are kept: asked for once more, a
    better reply is stored."""
    model = Scripted(bad, reply("good"))
    memory = remembering(model, extraction_retry=ONCE)
    error = failed(memory, "x")
    assert error.code == "bad_reply"
    assert contents(memory) == []
    (job,) = shared_ledger.jobs.list(tenant=tenant)
    assert (job.status, job.error, job.op_id is None) == ("errored", "bad_reply", False)
    shared_ledger.jobs.retry(job.id, tenant=tenant)
    again = remembering(model)
    assert eventually(lambda: contents(again) == ["good"])


def test_a_fact_that_cannot_be_kept_is_named_by_its_number(remembering: Make) -> None:
    """So it is known which one was wrong; the good ones are not kept without it."""
    memory = remembering(Scripted(reply("one", "  ", "three")), extraction_retry=ONCE)
    assert "fact 2 of 3" in failed(memory, "x").message
    assert contents(memory) == []


def test_a_model_is_asked_again_as_often_as_allowed(remembering: Make) -> None:
    """Three times more by default, whatever it raises; then the last failure is the error."""
    model = Scripted(UnavailableError("away"), RuntimeError("its own"), "no JSON", reply("at last"))
    memory = remembering(model)
    memory.add(said("x"), ALICE).result(60)
    assert (contents(memory), model.calls) == (["at last"], 4)
    never = Scripted(*(RuntimeError(f"number {n}") for n in range(9)))
    error = failed(remembering(never, extraction_retry={"max_retries": 2}), "x")
    assert "number 2" in error.message
    assert "3 tries" in error.message
    assert (error.code, never.calls) == ("model_failed", 3)


@pytest.mark.parametrize("behaviour", [cut, cut_off, empty, speechless, hang_up, status(500)])
def test_an_endpoint_that_misbehaves_is_put_up_with(
    remembering: Make, model_server: ModelServer, behaviour: Behaviour
) -> None:
    """It fails once, and the next try is stored; when it goes on failing it is an error, and the
    adds behind it are worked on."""
    model = make_model("openai:some-model", model_server.endpoint)
    model_server.reply = reply("tea")
    memory = remembering(model, extraction_retry={"max_retries": 1})
    model_server.next(behaviour)
    assert memory.add(said("x"), ALICE).result(60).stored_ids
    model_server.next(behaviour, behaviour)
    bad, good = (memory.add(said("x"), ALICE) for _ in range(2))
    with pytest.raises(OperationError):
        bad.result(60)
    assert good.result(60).stored_ids
    assert contents(memory) == ["tea"]


def test_a_refused_key_says_so_and_nobodys_key_is_told(
    remembering: Make, model_server: ModelServer
) -> None:
    """Endpoints repeat what they were given; errors do not."""
    model_server.next(*[status(401)] * 9)
    model = make_model("openai:some-model", model_server.endpoint)
    error = failed(remembering(model, extraction_retry=ONCE), "x")
    assert "sk-a-secret-key" not in error.message


def test_without_a_model_an_add_is_an_error(remembering: Make, shared_ledger: Ledger) -> None:
    """It says which setting names one; the messages are kept."""
    tenant = remembering().inner.tenant
    with agent_memory(shared_ledger, tenant=tenant) as memory:
        error = failed(memory, "x")
    assert "MEMORIALE_MODEL" in error.message


def test_a_memory_without_a_model_leaves_what_others_accepted(
    remembering: Make, shared_ledger: Ledger, tenant: str
) -> None:
    """It would only fail there; a memory with a model finishes it."""
    accepted = accept(shared_ledger.memory(tenant=tenant, user="alice"), said("tea"))
    with agent_memory(shared_ledger, tenant=tenant) as memory:
        failed(memory, "its own")
        job = shared_ledger.jobs.get(accepted.job, tenant=tenant)
        assert (job.status, job.attempts) == ("queued", 0)
    again = remembering()
    assert eventually(lambda: contents(again) == ["tea"])


Bad = Callable[[str], Any]
BAD_VECTORS: dict[str, Bad] = {
    "too wide": lambda text: [1.0, 0.0, 0.0],
    "too narrow": lambda text: [1.0],
    "nothing": lambda text: None,
    "empty": lambda text: [],
    "NaN": lambda text: [math.nan, 0.0],
    "infinity": lambda text: [math.inf, 0.0],
    "words": lambda text: ["one", "two"],
    "a number": lambda text: 1.0,
}


@pytest.mark.parametrize("bad", BAD_VECTORS.values(), ids=BAD_VECTORS.keys())
def test_a_vector_that_cannot_be_used_is_an_error_that_stores_no_half(
    remembering: Make, bad: Bad
) -> None:
    """The good facts beside it are not stored without it, and the error names the bad ones."""

    def embed(text: str) -> Any:
        return bad(text) if text.startswith("bad") else [1.0, 0.0]

    memory = remembering(embed=embed, dimensions=2, extraction_retry=ONCE)
    error = failed(memory, "good", "bad one", "good too", "bad two")
    assert "of 4 facts these could not be embedded: 2, 4" in error.message
    assert error.code == "bad_vectors"
    assert contents(memory) == []
    memory.add(said("good"), ALICE).result(30)
    assert contents(memory) == ["good"]
    assert [one.content for one in memory.search("good", ALICE).result(30)] == ["good"]


class FewVectors:
    """An embedder that returns fewer vectors than it was given texts."""

    model, width = "few", 2

    def embed_passages(self, texts: Any) -> Any:
        return [[1.0, 0.0]] * (len(texts) - 1)

    def embed_query(self, text: str) -> Any:
        return [1.0, 0.0]


def test_too_few_vectors_are_an_error(remembering: Make) -> None:
    """Of an embedder that is asked for several texts at a time as well."""
    memory = remembering(embed=FewVectors(), extraction_retry=ONCE)
    assert failed(memory, "x").code == "bad_vectors"


def test_an_embedder_that_fails_for_a_while_is_asked_again(remembering: Make) -> None:
    """As often as the model; what it raised is in the error when that was not enough."""
    failures = [2]

    def embed(text: str) -> list[float]:
        if failures[0]:
            failures[0] -= 1
            raise OSError("no room")
        return [1.0, 0.0]

    memory = remembering(embed=embed, dimensions=2, extraction_retry={"max_retries": 2})
    memory.add(said("one"), ALICE).result(60)
    assert contents(memory) == ["one"]
    failures[0] = 99
    error = failed(memory, "two")
    assert (error.code, "no room" in error.message) == ("embedder_failed", True)


def test_the_width_is_checked_where_the_add_is_worked_on(
    remembering: Make, shared_ledger: Ledger, tenant: str
) -> None:
    """The width that was asked for is kept with the add: another embedder cannot do it."""
    with pytest.raises(InputError, match="dimensions"):
        remembering(dimensions=shared_ledger.tenant(tenant).embedder.width + 1)
    memory = remembering(dimensions=shared_ledger.tenant(tenant).embedder.width)
    assert memory.add(said("x"), ALICE).result(30).stored_ids


def test_a_search_that_fails_says_why(remembering: Make) -> None:
    """And others go on."""

    def embed(text: str) -> Any:
        if text == "bad":
            raise RuntimeError("no such word")
        return [1.0, 0.0]

    memory = remembering(embed=embed, dimensions=2)
    memory.add(said("x"), ALICE).result(30)
    search = memory.search("bad", ALICE)
    with pytest.raises(UnavailableError, match="no such word"):
        search.result(30)
    assert (search.status, search.results) == (OperationStatus.ERRORED, ())
    assert len(memory.search("x", ALICE).result(30)) == 1
    for query, k in (("", 1), ("x", 0), ("x", 1001), ("x" * 20_000, 1)):
        with pytest.raises(InputError):
            memory.search(query, ALICE, k)


def test_an_attempt_that_only_people_can_mend_is_not_tried_again(
    remembering: Make, shared_ledger: Ledger, tenant: str
) -> None:
    """After its retries an add waits for ``jobs retry``; no runner takes it up by itself."""
    model = Saying()
    memory = remembering(Scripted(*["no JSON"] * 9), extraction_retry=ONCE)
    failed(memory, "x")
    other = remembering(model)
    other.add(said("y"), ALICE).result(30)
    assert model.calls == 1
    assert [job.status for job in shared_ledger.jobs.list(tenant=tenant)] == [
        "completed",
        "errored",
    ]
