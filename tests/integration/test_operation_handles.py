"""Handles: how operations stand, how they are waited for, and that cancelling is exact."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.operations.agent_memory import AgentMemory
from memoriale.adapters.library.operations.handles import AgentMemoryAddOperation
from memoriale.domain.errors import (
    ConflictError,
    InputError,
    OperationCancelledError,
    UnavailableError,
)
from memoriale.domain.operations.items import AddItems
from memoriale.domain.operations.states import OperationStatus
from tests.fixtures.embedded import eventually
from tests.fixtures.operations import ALICE, Held, Make, Saying, Scripted, said

QUEUED, ACTIVE = OperationStatus.QUEUED, OperationStatus.ACTIVE
COMPLETED, CANCELLED = OperationStatus.COMPLETED, OperationStatus.CANCELLED


def contents(memory: AgentMemory) -> list[str]:
    return [node.content for node in memory.get_all(ALICE)]


def refused(call: Callable[[], Any]) -> str:
    """How an operation stands that cannot be cancelled, as the error says."""
    with pytest.raises(InputError) as error:
        call()
    assert error.value.code == "wrong_status"
    return str(error.value.value)


def test_an_add_is_queued_then_active_then_completed(remembering: Make) -> None:
    """It says ``queued`` for as long as others are ahead, and each time stands beside it."""
    model = Held()
    memory = remembering(model)
    first, second = (memory.add(said(text), ALICE) for text in ("one", "two"))
    assert model.asked.wait(30)
    assert (first.status, second.status) == (ACTIVE, QUEUED)
    assert first.started_at is not None
    assert (first.ended_at, second.started_at) == (None, None)
    model.go.set()
    assert [fact.content for fact in second.result(30).extracted] == ["two"]
    assert (first.status, second.status) == (COMPLETED, COMPLETED)
    assert first.ended_at is not None
    assert second.started_at is not None
    assert second.ended_at is not None
    assert first.started_at < first.ended_at <= second.started_at < second.ended_at


def test_what_was_extracted_is_known_before_it_is_stored(remembering: Make) -> None:
    """While the embedder works, the facts can be looked at; the ids come with the end."""
    go, asked = threading.Event(), threading.Event()

    def embed(text: str) -> list[float]:
        asked.set()
        assert go.wait(60)
        return [1.0]

    memory = remembering(embed=embed, dimensions=1)
    add = memory.add(said("one"), ALICE)
    assert asked.wait(30)
    assert [fact.content for fact in add.extracted] == ["one"]
    assert (add.stored_ids, add.status) == ((), ACTIVE)
    go.set()
    assert add.result(30).stored_ids == add.stored_ids != ()


def test_nothing_to_keep_completes_with_nothing(remembering: Make) -> None:
    """A model that finds nothing is no failure."""
    memory = remembering(Scripted())
    done = memory.add(said("hm"), ALICE).result(30)
    assert (done.extracted, done.stored_ids) == ((), ())
    assert contents(memory) == []


def test_handles_are_waited_for_in_async_code(remembering: Make) -> None:
    """Adds and searches can be awaited, also by several, and a cancelled one raises."""
    model = Held()
    memory = remembering(model)

    async def wait() -> tuple[Any, Any, list[OperationStatus], list[OperationStatus]]:
        memory.add(said("first"), ALICE)
        await asyncio.to_thread(model.asked.wait, 30)
        add = memory.add(said("tea"), ALICE)
        other = memory.add(said("coffee"), ALICE)
        statuses = asyncio.create_task(followed(add))
        cancelled = asyncio.create_task(followed(other))
        await asyncio.sleep(0)  # Both look for the first time, while the first add is held.
        other.cancel()
        with pytest.raises(OperationCancelledError):
            await other
        model.go.set()
        both = await asyncio.gather(add, add)
        assert both[0] == both[1]
        found = await memory.search("tea", ALICE, 1)
        return both[0], found, await statuses, await cancelled

    done, found, statuses, cancelled = asyncio.run(wait())
    assert [one.id for one in found] == list(done.stored_ids)
    assert statuses == [QUEUED, ACTIVE, COMPLETED]
    assert cancelled == [QUEUED, CANCELLED]


async def followed(operation: Any) -> list[OperationStatus]:
    """Every status that its iterator gives."""
    return [status async for status in operation.changes()]


def test_every_handle_of_one_add_is_followed(remembering: Make) -> None:
    """An add that was repeated with its key while it waited, and after it: all say the same."""
    model = Held()
    memory = remembering(model)
    first = [memory.add(said("tea"), ALICE, idempotency_key="k") for _ in range(3)]
    assert model.asked.wait(30)
    model.go.set()
    (done, *others) = [add.result(30) for add in first]
    assert [*others, memory.add(said("tea"), ALICE, idempotency_key="k").result(30)] == [done] * 3
    assert model.calls == 1
    again = [memory.add(said("milk"), ALICE, idempotency_key="m") for _ in range(2)]
    for add in again:
        assert add.result(30).stored_ids
    waiting = Held()
    slow = remembering(waiting)
    slow.add(said("first"), ALICE)
    assert waiting.asked.wait(30)
    both = [slow.add(said("never"), ALICE, idempotency_key="n") for _ in range(2)]
    both[0].cancel()
    with pytest.raises(OperationCancelledError):
        both[1].result(30)
    waiting.go.set()


def test_whoever_waits_too_short_is_told(remembering: Make) -> None:
    """The operation goes on."""
    model = Held()
    memory = remembering(model)
    add = memory.add(said("tea"), ALICE)
    with pytest.raises(UnavailableError, match=r"after 0\.05 s") as late:
        add.result(0.05)
    assert late.value.code == "timeout"
    model.go.set()
    assert add.result(30).stored_ids


def test_a_queued_add_that_is_cancelled_never_runs(remembering: Make) -> None:
    """The model is not asked about it, nothing is stored, and the next one is worked on."""
    model = Held()
    memory = remembering(model)
    first, second, third = (memory.add(said(text), ALICE) for text in ("one", "two", "three"))
    assert model.asked.wait(30)
    second.cancel()
    assert second.status is CANCELLED
    assert (second.started_at, second.ended_at is None) == (None, False)
    model.go.set()
    first.result(30)
    third.result(30)
    assert contents(memory) == ["one", "three"]
    assert model.calls == 2
    with pytest.raises(OperationCancelledError):
        second.result(0)


def test_an_add_that_is_cancelled_while_the_model_thinks_stores_nothing(
    remembering: Make, shared_ledger: Ledger, tenant: str
) -> None:
    """The next one begins at once, though the model's answer is still to come; when it comes, it
    is dropped."""
    model, answered = Held(), threading.Event()

    class Twice(Saying):
        def answer(self, prompt: str) -> str:
            if self.calls > 1:
                return super().answer(prompt)
            found = model.answer(prompt)
            answered.set()
            return found

    memory = remembering(Twice())
    first, second = (memory.add(said(text), ALICE) for text in ("one", "two"))
    assert model.asked.wait(30)
    first.cancel()
    assert first.status is CANCELLED
    assert second.result(30).stored_ids
    model.go.set()
    assert answered.wait(30)
    third = memory.add(said("three"), ALICE)
    third.result(30)
    assert contents(memory) == ["two", "three"]
    assert shared_ledger.jobs.get(first.job_id, tenant=tenant).status == "cancelled"


def test_an_add_that_is_cancelled_between_two_facts_stores_none_of_them(
    remembering: Make,
) -> None:
    """The first fact's vector is there and the second one's is not: all or nothing."""
    go, asked = threading.Event(), threading.Event()

    def embed(text: str) -> list[float]:
        if text == "slow":
            asked.set()
            assert go.wait(60)
        return [1.0]

    memory = remembering(embed=embed, dimensions=1)
    add = memory.add(said("quick", "slow"), ALICE)
    assert asked.wait(30)
    add.cancel()
    go.set()
    assert memory.add(said("next"), ALICE).result(30).stored_ids
    assert contents(memory) == ["next"]
    assert (add.status, add.stored_ids) == (CANCELLED, ())


@pytest.mark.parametrize("through", ["handle", "jobs"])
def test_a_cancel_in_the_last_moment_before_the_append_wins(
    remembering: Make,
    shared_ledger: Ledger,
    tenant: str,
    monkeypatch: pytest.MonkeyPatch,
    through: str,
) -> None:
    """Everything is ready to be stored when it is cancelled, by its handle or from elsewhere:
    the append itself refuses."""
    ready, go = threading.Event(), threading.Event()
    right = AddItems.__call__

    def slowly(self: Any, seen: Any) -> Any:
        steps = right(self, seen)
        ready.set()
        assert go.wait(60)
        return steps

    monkeypatch.setattr(AddItems, "__call__", slowly)
    memory = remembering()
    add = memory.add(said("one"), ALICE)
    assert ready.wait(30)
    if through == "handle":
        add.cancel()
    else:
        shared_ledger.jobs.cancel(add.job_id, tenant=tenant)
    go.set()
    with pytest.raises(OperationCancelledError):
        add.result(30)
    assert memory.add(said("two"), ALICE).result(30).stored_ids
    assert contents(memory) == ["two"]
    assert add.stored_ids == ()


def test_cancelling_what_has_ended_says_how_it_stands(remembering: Make) -> None:
    """Also what was cancelled before; the items of a completed one stay."""
    memory = remembering()
    done = memory.add(said("one"), ALICE)
    done.result(30)
    assert refused(done.cancel) == "completed"
    model = Held()
    waiting = remembering(model)
    add = waiting.add(said("two"), ALICE)
    add.cancel()
    assert refused(add.cancel) == "cancelled"
    model.go.set()
    search = memory.search("one", ALICE)
    assert len(search.result(30)) == 1
    assert refused(search.cancel) == "completed"
    assert contents(memory) == ["one"]


def test_cancel_and_completion_never_both_happen(remembering: Make) -> None:
    """Whoever is first, an add is either completed with all of its items or cancelled with none,
    and its handle, its job and the memory say the same."""
    memory = remembering(dedup_threshold=0)
    outcomes = set()
    for number in range(40):
        add = memory.add(said(f"a {number}", f"b {number}"), ALICE)
        time.sleep(number * 0.0004)
        try:
            add.cancel()
        except InputError:
            assert len(add.result(30).stored_ids) == 2
        assert eventually(lambda add=add: add.status in (COMPLETED, CANCELLED))  # type: ignore[misc]
        kept = [text for text in contents(memory) if text.endswith(f" {number}")]
        assert len(kept) == (2 if add.status is COMPLETED else 0)
        outcomes.add(add.status)
    assert CANCELLED in outcomes


def test_a_job_of_another_kind_that_is_cancelled_stores_nothing_more(
    shared_ledger: Ledger, tenant: str
) -> None:
    """``jobs cancel`` is as exact for facts as for items: what the attempt was about to store is
    refused, and the job's completion as well."""
    from memoriale.adapters.extraction.jobs import extraction_handlers, request_extraction
    from memoriale.domain.chat import ChatMessage
    from tests.fixtures.scripted import Scripted as Answering

    alice = shared_ledger.memory(tenant=tenant, user="alice")
    (job_id,) = request_extraction(alice, ["facts"], [ChatMessage(role="user", content="x")])

    def answer(prompt: str) -> str:
        shared_ledger.jobs.cancel(job_id, tenant=tenant)
        return '{"add": [{"fact": "User drinks tea"}]}'

    handlers = extraction_handlers(
        lambda principal, branch: alice.rebound(principal), lambda: Answering(answer)
    )
    assert alice.services.jobs.run_due(handlers) == []
    assert alice.facts.get_facts() == []
    assert shared_ledger.jobs.get(job_id, tenant=tenant).status == "cancelled"


def test_what_two_cancel_at_once_one_of_them_cancelled(
    remembering: Make, shared_ledger: Ledger, tenant: str
) -> None:
    """The other is told that it is cancelled; nobody sees a conflict."""
    model = Held()
    memory = remembering(model)
    memory.add(said("first"), ALICE)
    assert model.asked.wait(30)
    for number in range(10):
        add = memory.add(said(str(number)), ALICE)
        answers: list[str] = []

        def cancel(call: Callable[[], Any], answers: list[str] = answers) -> None:
            try:
                call()
                answers.append("done")
            except InputError as error:
                answers.append(str(error.value))
            except ConflictError:
                answers.append("conflict")

        calls = (add.cancel, lambda add=add: shared_ledger.jobs.cancel(add.job_id, tenant=tenant))
        threads = [threading.Thread(target=cancel, args=[call]) for call in calls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert sorted(answers) == ["cancelled", "done"]
    model.go.set()


def test_a_search_that_is_cancelled_stays_empty(
    remembering: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before its turn it never runs; while it runs what it finds is dropped."""
    asked, go = threading.Event(), threading.Event()

    def embed(text: str) -> list[float]:
        if text == "slow":
            asked.set()
            assert go.wait(60)
        return [1.0]

    memory = remembering(embed=embed, dimensions=1)
    memory.add(said("one"), ALICE).result(30)
    searches = [memory.search("slow", ALICE) for _ in range(5)]
    assert asked.wait(30)
    waiting = searches[-1]
    assert waiting.status is QUEUED
    waiting.cancel()
    searches[0].cancel()
    go.set()
    assert [len(one.result(30)) for one in searches[1:-1]] == [1, 1, 1]
    assert (waiting.results, waiting.started_at) == ((), None)
    assert searches[0].results == ()
    with pytest.raises(OperationCancelledError):
        searches[0].result(0)


def test_destroy_leaves_what_was_accepted_to_others(
    remembering: Make, shared_ledger: Ledger, tenant: str
) -> None:
    """Who waits is told; the next memory of the tenant does the work; a destroyed memory takes
    nothing more, and destroying it again is allowed."""
    model = Held()
    memory = remembering(model)
    adds = [memory.add(said(text), ALICE) for text in ("one", "two")]
    assert model.asked.wait(30)
    memory.destroy()
    memory.destroy()
    for add in adds:
        with pytest.raises(UnavailableError, match="destroyed"):
            add.result(30)
    with pytest.raises(InputError, match="destroyed"):
        memory.add(said("x"), ALICE)
    model.go.set()
    other = remembering()
    done = lambda add: shared_ledger.jobs.get(add.job_id, tenant=tenant).status == "completed"  # noqa: E731
    assert eventually(lambda: all(map(done, adds)))
    assert contents(other) == ["one", "two"]


def test_what_another_process_does_is_followed(
    remembering: Make, shared_ledger: Ledger, tenant: str
) -> None:
    """A handle of a job that somebody else ended says so."""
    model = Held()
    memory = remembering(model)
    memory.add(said("first"), ALICE)
    assert model.asked.wait(30)
    add: AgentMemoryAddOperation = memory.add(said("one"), ALICE)
    shared_ledger.jobs.cancel(add.job_id, tenant=tenant)
    model.go.set()
    with pytest.raises(OperationCancelledError):
        add.result(30)
