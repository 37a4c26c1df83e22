"""The runner works on jobs; one that was killed in the middle of a job is made up for."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest

import memoriale
from memoriale.adapters.extraction.jobs import request_extraction
from memoriale.adapters.library.jobs import NoModelError
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.stores.facts import UserFacts
from memoriale.adapters.library.stores.summaries import Summaries
from memoriale.adapters.runner.runner import Runner
from memoriale.domain.chat import ChatMessage
from memoriale.domain.errors import InputError, MissingRightError, UnavailableError
from memoriale.domain.jobs import JobStatus
from memoriale.domain.principal import Right
from tests.fixtures.embedded import eventually
from tests.fixtures.language_models import SILENT
from tests.fixtures.ledger import HASHING
from tests.fixtures.model_server import Behaviour, ModelServer

SAID: Final = [ChatMessage(role="user", content="I like all of it.")]
KILLS: Final = 10
MODEL: Final = "openai:some-model"

# Runs a runner until it is killed. Its key tells the endpoint which one it is.
WORKER: Final = """
import sys, threading
import memoriale
from memoriale.adapters.runner.runner import Runner
home, url, embedder, tenant, model, endpoint, key = sys.argv[1:]
with memoriale.open(
    home=home, database_url=url, embedder=embedder, model=model,
    openai_base_url=endpoint, openai_api_key=key,
) as ledger, Runner(ledger, tenants=[tenant], views=["stats"], seal=False):
    print("ready", flush=True)
    threading.Event().wait()
"""


Open = Callable[..., Ledger]


@pytest.fixture
def opened(ledger_home: Path, shared_url: str) -> Open:
    """Opens a further ledger on the shared database and home."""

    def opened(**given: Any) -> Ledger:
        return memoriale.open(
            home=ledger_home, database_url=shared_url, embedder=HASHING, wait=30, **given
        )

    return opened


def status(ledger: Ledger, tenant: str, job_id: UUID) -> str:
    return ledger.jobs.get(job_id, tenant=tenant).status


def is_done(ledger: Ledger, tenant: str, job_id: UUID) -> bool:
    return status(ledger, tenant, job_id) == JobStatus.COMPLETED


def test_a_runner_works_on_jobs(opened: Open, shared_url: str, tenant: str) -> None:
    """Those of this process and of others, of several tenants; nobody has to ask."""
    with opened(model=SILENT) as ledger, opened() as other:
        tenants = [tenant, f"{tenant}-2"]
        with Runner(ledger, tenants=tenants, views=["stats"], seal=False) as runner:
            for source in (ledger, other):
                for name in tenants:
                    memory = source.memory(tenant=name, user="alice")
                    (job_id,) = request_extraction(memory, ["facts"], SAID)
                    assert eventually(partial(is_done, ledger, name, job_id))
            assert runner.undone() == {}


def test_a_runner_without_a_model_leaves_what_needs_one(
    opened: Open, shared_ledger: Ledger, alice: Memory, tenant: str
) -> None:
    """It would only fail. The runner says so, does what needs none, and is well again when
    somebody who has a model has done it."""
    (job_id,) = request_extraction(alice, ["facts"], SAID)
    with Runner(shared_ledger, tenants=[tenant], views=["stats"], seal=False) as runner:
        assert eventually(lambda: tenant in runner.undone())
        problem = runner.undone()[tenant]
        assert (problem.code, problem.field) == ("no_model", "MEMORIALE_MODEL")
        session = alice.sessions.get_or_create_session("s-1")
        needs_none = Summaries(alice).request_summary(session.session_id, SAID)
        assert needs_none is not None
        assert eventually(partial(is_done, shared_ledger, tenant, needs_none))
        assert status(shared_ledger, tenant, job_id) == JobStatus.QUEUED
        with opened(model=SILENT) as other:
            other.jobs.run(tenant=tenant)
        assert eventually(lambda: runner.undone() == {})
    assert status(shared_ledger, tenant, job_id) == JobStatus.COMPLETED


def test_no_model_is_made_where_no_job_waits_for_one(opened: Open, tenant: str) -> None:
    """A model that cannot be made stands in nobody's way until a job needs it; then that job stays
    queued and the error says why."""
    with opened(model="no.such.module:factory") as ledger:
        assert ledger.jobs.run(tenant=tenant) == []
        alice = ledger.memory(tenant=tenant, user="alice")
        (job_id,) = request_extraction(alice, ["facts"], SAID)
        with pytest.raises(NoModelError, match="MEMORIALE_MODEL"):
            ledger.jobs.run(tenant=tenant)
        assert status(ledger, tenant, job_id) == JobStatus.QUEUED


def test_a_runner_says_at_once_that_it_cannot_work(opened: Open, tenant: str) -> None:
    """A model that cannot be made, or a missing right, fails when it starts."""
    with (
        opened(model="no.such.module:factory") as ledger,
        pytest.raises(InputError, match="MEMORIALE_MODEL"),
    ):
        Runner(ledger, tenants=[tenant], views=["stats"], seal=False).start()
    with opened(model=SILENT) as ledger:
        ledger.rights = frozenset({Right.USE})
        with pytest.raises(MissingRightError, match="operate"):
            Runner(ledger, tenants=[tenant], views=["stats"], seal=False).start()


def test_none_goes_on_when_one_cannot_start(opened: Open, tenant: str) -> None:
    """A runner whose start failed leaves no thread behind that works without anybody's leave."""
    before = {*threading.enumerate()}
    with opened(model=SILENT) as ledger:
        ledger.rights = frozenset({Right.USE})
        runner = Runner(ledger, tenants=[tenant])
        for _ in range(2):
            with pytest.raises(MissingRightError):
                runner.start()
            left = {*threading.enumerate()} - before
            assert [t.name for t in left if t.name.startswith("memoriale-runner")] == []


def test_a_database_that_is_away_is_said_and_waited_for(
    opened: Open, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runner goes on, and works again when it is back."""
    with opened(model=SILENT) as ledger:
        memory = ledger.memory(tenant=tenant, user="alice")
        jobs = ledger.tenant(tenant).jobs

        def away() -> list[Any]:
            raise UnavailableError("the database is away.")

        with Runner(ledger, tenants=[tenant], views=["stats"], seal=False) as runner:
            with monkeypatch.context() as patched:
                patched.setattr(jobs, "open", away)
                (job_id,) = request_extraction(memory, ["facts"], SAID)
                assert eventually(lambda: tenant in runner.undone())
            assert eventually(partial(is_done, ledger, tenant, job_id))
            assert eventually(lambda: runner.undone() == {})


@pytest.fixture
def workers(
    ledger_home: Path, shared_url: str, tenant: str, model_server: ModelServer
) -> "Iterator[Workers]":
    """Processes that work on the tenant's jobs; all are killed in the end."""
    started = Workers([str(ledger_home), shared_url, HASHING, tenant, MODEL, model_server.url])
    try:
        yield started
    finally:
        for worker in started.values():
            worker.kill()
            worker.communicate()


class Workers(dict[str, "subprocess.Popen[str]"]):
    """Processes by their key."""

    def __init__(self, arguments: list[str]) -> None:
        super().__init__()
        self.arguments = arguments

    def start(self) -> None:
        """One more; waits until it works."""
        key = f"sk-worker-{len(self)}"
        command = [sys.executable, "-c", WORKER, *self.arguments, key]
        worker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self[key] = worker
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"

    def kill(self, authorization: str | None) -> None:
        """As ``kill -9`` does, the one that asked the model so."""
        assert authorization is not None
        worker = self[authorization.removeprefix("Bearer ")]
        worker.kill()
        worker.wait()


def silent_until(killed: threading.Event) -> Behaviour:
    """An endpoint that says nothing before somebody was killed, and then hangs up."""

    def answer(text: str) -> None:
        killed.wait(60)

    return answer


def is_asked(server: ModelServer, before: int) -> bool:
    return len(server.asked) > before


def has(facts: UserFacts, count: int) -> bool:
    return len(facts.get_active_facts()) == count


@pytest.mark.slow
def test_a_worker_that_is_killed_loses_no_job(
    shared_ledger: Ledger, alice: Memory, tenant: str, model_server: ModelServer, workers: Workers
) -> None:
    """Killed ten times, while it asks the model or after it stored: another one takes the job up,
    and each fact is stored once."""
    workers.start()
    facts = UserFacts(alice)
    for kill in range(KILLS):
        workers.start()
        model_server.reply = json.dumps({"add": [{"fact": f"User likes thing {kill}"}]})
        killed, while_asking, before = threading.Event(), kill % 2 == 0, len(model_server.asked)
        if while_asking:
            model_server.next(silent_until(killed))
        (job_id,) = request_extraction(alice, ["facts"], SAID)
        assert eventually(partial(is_asked, model_server, before))
        if not while_asking:
            assert eventually(partial(has, facts, kill + 1))
        workers.kill(model_server.asked[before].authorization)
        killed.set()
        assert eventually(partial(is_done, shared_ledger, tenant, job_id))
        attempts = shared_ledger.jobs.get(job_id, tenant=tenant).attempts
        assert attempts == 2 if while_asking else attempts in (1, 2)
    found = [fact.fact for fact in facts.get_facts()]
    assert found == [f"User likes thing {kill}" for kill in range(KILLS)]
