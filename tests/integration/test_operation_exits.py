"""A model, an embedder or a listener that raises what would end a program."""

import asyncio
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

from memoriale.adapters.extraction.handlers import known_handlers
from memoriale.adapters.extraction.jobs import request_extraction
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.domain.chat import ChatMessage
from memoriale.domain.errors import OperationError
from memoriale.domain.jobs import Job
from memoriale.domain.operations.states import OperationStatus
from memoriale.domain.principal import Principal
from tests.fixtures.embedded import eventually
from tests.fixtures.operations import ALICE, Make, Saying, Scripted, reply, said

ONCE = {"max_retries": 0}


class EndError(BaseException):
    """One of a program's own."""


ENDS: list[Callable[[], BaseException]] = [
    lambda: SystemExit(3),
    lambda: KeyboardInterrupt("of a model"),
    lambda: GeneratorExit("of a model"),
    lambda: asyncio.CancelledError("of a model"),
    lambda: EndError("of a program"),
]
each_end = pytest.mark.parametrize("end", ENDS, ids=lambda end: type(end()).__name__)


def run(memory: Memory, model: Saying) -> list[Job]:
    """Works on what is due in this thread, as ``jobs run`` does."""

    def acting(principal: Principal, branch: str) -> Memory:
        return Memory(memory.services, memory.settings, principal, branch)

    return memory.services.jobs.run_due(known_handlers(acting, lambda: model))


@each_end
def test_a_model_that_ends_fails_its_add_alone(
    remembering: Make, shared_ledger: Ledger, tenant: str, end: Callable[[], BaseException]
) -> None:
    """Its handle says what it raised, the add behind it is worked on, and the messages are kept:
    asked for once more, they are looked through."""
    memory = remembering(Scripted(end(), reply("good"), reply("again")), extraction_retry=ONCE)
    bad, good = memory.add(said("x"), ALICE), memory.add(said("y"), ALICE)
    with pytest.raises(OperationError) as error:
        bad.result(60)
    assert (bad.status, error.value.code) == (OperationStatus.ERRORED, "model_failed")
    assert type(end()).__name__ in error.value.message
    assert good.result(60).stored_ids
    shared_ledger.jobs.retry(bad.job_id, tenant=tenant)
    memory.add(said("z"), ALICE).result(60)
    assert eventually(lambda: memory.size.get() == 2)


@each_end
def test_a_model_that_ends_once_is_asked_again(
    remembering: Make, end: Callable[[], BaseException]
) -> None:
    """As one that fails in any other way."""
    memory = remembering(Scripted(end(), reply("good")))
    assert memory.add(said("x"), ALICE).result(60).stored_ids


@each_end
def test_an_embedder_that_ends_fails_what_asked_it_alone(
    remembering: Make, end: Callable[[], BaseException]
) -> None:
    """An add stores nothing and a search finds nothing, both say why, and those behind go on."""

    def embed(text: str) -> list[float]:
        if "end" in text:
            raise end()
        return [1.0, 0.0]

    memory = remembering(embed=embed, dimensions=2, extraction_retry=ONCE)
    handles: list[Any] = [memory.add(said("the end"), ALICE), memory.search("the end", ALICE)]
    memory.add(said("x"), ALICE).result(60)
    handles.append(memory.search("the end", ALICE))
    for handle in (handles[0], handles[2]):
        with pytest.raises(Exception, match=type(end()).__name__) as error:
            handle.result(60)
        assert (handle.status, error.value) == (OperationStatus.ERRORED, handle.error)
    assert handles[1].result(60) == ()
    assert [hit.content for hit in memory.search("x", ALICE).result(60)] == ["x"]


@each_end
def test_a_listener_that_ends_ends_nothing(
    remembering: Make, end: Callable[[], BaseException]
) -> None:
    """What is stored is stored, and its handle says so."""
    memory = remembering(Saying())

    def listener(event: object) -> None:
        raise end()

    memory.events.subscribe(listener)
    for text in ("one", "two"):
        assert memory.add(said(text), ALICE).result(60).stored_ids


@each_end
def test_jobs_run_goes_on_behind_a_model_that_ends(
    alice: Memory,
    end: Callable[[], BaseException],
) -> None:
    """In the main thread as well: the job failed, the caller did not wish to end."""
    told = [ChatMessage(role="user", content="I like tea.")]
    for _ in range(2):
        request_extraction(alice, ["facts"], told)
    model = Scripted(end(), "{}")
    done = run(alice, model)
    assert [job.status for job in done] == ["failed", "completed"]
    assert done[0].reason == type(end()).__name__


def test_ctrl_c_of_the_caller_ends_jobs_run(
    alice: Memory, shared_ledger: Ledger, tenant: str
) -> None:
    """A signal ends the wait for a model at once; the job is not lost."""
    go = threading.Event()

    class Slow(Saying):
        def answer(self, prompt: str) -> str:
            main = threading.main_thread().ident
            assert main is not None
            signal.pthread_kill(main, signal.SIGINT)
            assert go.wait(60)
            return "{}"

    told = [ChatMessage(role="user", content="I like tea.")]
    (job_id,) = request_extraction(alice, ["facts"], told)
    with pytest.raises(KeyboardInterrupt):
        run(alice, Slow())
    assert shared_ledger.jobs.get(job_id, tenant=tenant).status == "active"
    go.set()
    assert [job.status for job in run(alice, Scripted("{}"))] == ["completed"]
