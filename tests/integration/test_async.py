"""The asynchronous surface: the same methods, awaited, and an event loop that is never blocked."""

import asyncio
import inspect
import json
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import memoriale
from memoriale.adapters.library.asynchronous import AsyncLedger, AsyncMemory
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.domain.errors import ForkedHandleError, InputError, MissingRightError
from memoriale.domain.principal import Right
from tests.fixtures.embedded import eventually
from tests.fixtures.ledger import HASHING
from tests.fixtures.surfaces import public

SECONDS = 60.0

Open = Callable[..., AsyncLedger]


@pytest.fixture
def opened(shared_url: str, ledger_home: Path) -> Open:
    """Opens an asynchronous ledger on the run's home."""
    return lambda **more: memoriale.open_async(
        home=ledger_home, database_url=shared_url, embedder=HASHING, wait=30, **more
    )


@pytest.mark.parametrize(("sync", "twin"), [(Ledger, AsyncLedger), (Memory, AsyncMemory)])
def test_every_public_method_has_its_twin(sync: type, twin: type) -> None:
    """A method of the synchronous surface exists on the asynchronous one, with the same
    parameters, defaults and documentation, as a coroutine or an asynchronous iterator."""
    ours, theirs = public(sync), public(twin)
    assert set(theirs) == set(ours)
    for name, method in ours.items():
        parameters = [*inspect.signature(method).parameters.values()]
        assert [*inspect.signature(theirs[name]).parameters.values()] == parameters, name
        if name not in ("events", "subscribe"):
            assert inspect.iscoroutinefunction(theirs[name]), name
        assert theirs[name].__doc__
    attributes = ("principal", "branch_name") if sync is Memory else ("settings", "rights")
    assert all(isinstance(getattr(twin, name), property) for name in attributes)


@pytest.mark.parametrize("part", ["access", "jobs"])
def test_every_part_has_its_twin(part: str, shared_ledger: Ledger) -> None:
    """What hangs on the ledger hangs on the asynchronous one, with the same public methods."""
    ours = type(getattr(shared_ledger, part))
    made = get_type_hints(getattr(AsyncLedger, part).fget)["return"]
    assert set(public(made)) == set(public(ours))


def test_the_main_path_awaited(opened: Open, tenant: str) -> None:
    """Remember, recall, correct, fork, diff and history answer as the synchronous ones do."""

    async def main() -> None:
        async with opened() as ledger:
            alice = await ledger.memory(tenant=tenant, user="alice")
            receipt = await alice.remember("alice drinks tea", kind="fact", subject="drink")
            assert [h.content for h in await alice.recall("what alice drinks")] == [
                "alice drinks tea"
            ]
            side = await alice.fork("side")
            assert isinstance(side, AsyncMemory)
            assert (side.branch_name, side.principal.user) == ("side", "alice")
            await side.correct(receipt.memory_id, "alice drinks water")
            diff = await alice.diff("main", "side")
            assert [e.after for e in diff.corrected] == ["alice drinks water"]
            assert len(await side.history(receipt.memory_id)) == 2
            assert [n.branch for n in await alice.tree()] == ["main", "side"]
            with pytest.raises(InputError):
                await alice.branch("nowhere")
            (report,) = await ledger.replay("recall", tenant=tenant, verify=True)
            assert report.equal

    asyncio.run(main())


@asynccontextmanager
async def heartbeat() -> AsyncIterator[Callable[[], int]]:
    """A task that counts turns of the loop; gives how many were counted so far."""
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            beats += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(beat())
    try:
        yield lambda: beats
    finally:
        task.cancel()


class Gate:
    """An iterable of import lines that a thread waits in until it is opened."""

    def __init__(self, count: int) -> None:
        self.reached, self.opened, self.count = threading.Event(), threading.Event(), count

    def __iter__(self) -> Iterator[str]:
        for number in range(self.count):
            self.reached.set()
            assert self.opened.wait(SECONDS)
            yield json.dumps({"content": f"line {number}"})


async def until(event: threading.Event) -> None:
    """Turns of the loop until a thread has set an event."""
    async with asyncio.timeout(SECONDS):
        while not event.is_set():
            await asyncio.sleep(0.001)


def test_the_loop_turns_while_calls_run(opened: Open, tenant: str) -> None:
    """While an import waits inside its call the loop goes on, and so do recalls beside it."""

    async def main() -> None:
        async with opened() as ledger, heartbeat() as beats:
            alice = await ledger.memory(tenant=tenant, user="alice")
            gate = Gate(5)
            importing = asyncio.create_task(alice.import_lines(gate))
            await until(gate.reached)
            before = beats()
            await alice.remember("alice drinks tea")
            assert await alice.recall("tea")
            await until_beats(beats, before + 100)
            assert not importing.done()
            gate.opened.set()
            assert (await importing).remembered == 5

    asyncio.run(main())


async def until_beats(beats: Callable[[], int], count: int) -> None:
    async with asyncio.timeout(SECONDS):
        while beats() < count:
            await asyncio.sleep(0)


def test_nothing_runs_in_the_loops_own_thread(opened: Open, tenant: str) -> None:
    """Every call of the surface, opening and closing included, runs in another thread, with the
    caller's context variables."""
    place: ContextVar[str] = ContextVar("place", default="nowhere")
    found: list[tuple[int, str]] = []

    def lines() -> Iterator[str]:
        found.append((threading.get_ident(), place.get()))
        yield '{"content": "x"}'

    async def main() -> None:
        place.set("here")
        async with opened() as ledger:
            alice = await ledger.memory(tenant=tenant, user="alice")
            await alice.import_lines(lines())
        assert found[0][0] != threading.get_ident()
        assert found[0][1] == "here"

    asyncio.run(main())


def test_a_cancelled_call_leaves_the_ledger_usable(opened: Open, tenant: str) -> None:
    """Cancelling a call that runs, and one that waits for a thread, raises at once; the import
    stops at its next progress, the waiting call never begins, and others go on."""

    async def main() -> None:
        async with opened(threads=1) as ledger:
            alice = await ledger.memory(tenant=tenant, user="alice")
            gate = Gate(3_000)
            importing = asyncio.create_task(alice.import_lines(gate))
            await until(gate.reached)
            waiting = asyncio.create_task(alice.remember("never"))
            await asyncio.sleep(0)
            for task in (waiting, importing):
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            gate.opened.set()
            kept = await alice.remember("kept")
            page = await alice.list(limit=1000)
            contents = {memory.content for memory in page.memories}
            assert "kept" in contents
            assert "never" not in contents
            assert kept.index < 3_000

    asyncio.run(main())


def test_progress_is_told_in_the_loop(opened: Open, tenant: str) -> None:
    """A progress callback is called in the event loop's thread, so it may touch what lives
    there."""
    told: list[tuple[int, str, int, int]] = []

    async def main() -> None:
        async with opened() as ledger:
            alice = await ledger.memory(tenant=tenant, user="alice")
            await alice.import_lines(
                ['{"content": "x"}'],
                progress=lambda *at: told.append((threading.get_ident(), *at)),
            )
            await ledger.verify(tenant=tenant)

    asyncio.run(main())
    assert told[-1] == (threading.get_ident(), "import", 1, 0)


def test_events_are_iterated(opened: Open, tenant: str) -> None:
    """`events` gives the log as the synchronous one does, however long it is."""

    async def main() -> None:
        async with opened() as ledger:
            alice = await ledger.memory(tenant=tenant, user="alice")
            await alice.remember_many([f"note {n}" for n in range(250)])
            assert [e.index async for e in ledger.events(tenant=tenant)] == [*range(250)]
            limited = [e.index async for e in ledger.events(tenant=tenant, after=9, limit=3)]
            assert limited == [10, 11, 12]
            with pytest.raises(InputError):
                await anext(ledger.events(tenant=""))

    asyncio.run(main())


def test_subscriptions_wait_without_holding_up_calls(opened: Open, tenant: str) -> None:
    """More subscriptions than threads wait for events while calls go on, and each gets every
    event; a wait that timed out loses none."""

    async def main() -> None:
        async with opened(threads=1) as ledger:
            alice = await ledger.memory(tenant=tenant, user="alice")
            following = [ledger.subscribe(tenant=tenant) for _ in range(3)]
            for subscription in following:
                with suppress(TimeoutError):
                    await asyncio.wait_for(anext(subscription), 0.01)
            for number in range(3):
                await alice.remember(f"note {number}")
            for subscription in following:
                async with asyncio.timeout(SECONDS):
                    assert [(await anext(subscription)).index for _ in range(3)] == [0, 1, 2]
            await following[0].aclose()
            with pytest.raises(StopAsyncIteration):
                await anext(following[0])

    asyncio.run(main())


def test_a_discard_ends_an_awaited_subscription(opened: Open, tenant: str) -> None:
    """``async for`` over a branch ends by itself, before and after the discard."""

    async def main() -> None:
        async with opened(threads=1) as ledger, asyncio.timeout(SECONDS):
            alice = await ledger.memory(tenant=tenant, user="alice")
            side = await alice.fork("side")
            waiting = side.subscribe()
            assert (await anext(waiting)).row.columns.topic == "branch.forked"
            await alice.discard("side")
            left = [event.row.columns.topic async for event in waiting]
            assert left == ["branch.discarded"]
            assert len([event async for event in side.subscribe()]) == 2

    asyncio.run(main())


def test_a_subscription_of_a_caller_goes_on_after_its_position(opened: Open, tenant: str) -> None:
    """A handle's subscription is an asynchronous context that gives its own events; the position
    counts what was handed out, and `stop` ends it."""

    async def main() -> None:
        async with opened() as ledger:
            alice = await ledger.memory(tenant=tenant, user="alice")
            bob = await ledger.memory(tenant=tenant, user="bob")
            for number in range(4):
                await bob.remember("secret")
                await alice.remember(f"note {number}")
            async with asyncio.timeout(SECONDS):
                async with alice.subscribe() as events:
                    assert events.position is None
                    assert [(await anext(events)).index for _ in range(2)] == [1, 3]
                    with suppress(TimeoutError):
                        await asyncio.wait_for(anext(alice.subscribe(after=7)), 0.01)
                    after = events.position or 0
                assert after == 3
                events = alice.subscribe(after=after)
                assert [(await anext(events)).index for _ in range(2)] == [5, 7]
                events.stop()
                with pytest.raises(StopAsyncIteration):
                    await anext(events)

    asyncio.run(main())


def test_closing_ends_subscriptions_that_wait(opened: Open, tenant: str) -> None:
    """A subscription ends with its ledger, one that nobody refers to ends by itself, and neither
    leaves a thread."""

    async def main() -> None:
        async with opened() as ledger:
            await ledger.memory(tenant=tenant, user="alice")
            dropped = ledger.subscribe(tenant=tenant)
            kept = ledger.subscribe(tenant=tenant)
            for subscription in (dropped, kept):
                with suppress(TimeoutError):
                    await asyncio.wait_for(anext(subscription), 0.01)
            del dropped, subscription
            waiting = asyncio.create_task(anext(kept))
            await asyncio.sleep(0)
        with pytest.raises(StopAsyncIteration):
            await ended(waiting)

    asyncio.run(main())
    # Nobody waits for the thread of a dropped subscription; it ends with what it is reading.
    assert eventually(lambda: not own_threads())


async def ended(task: "asyncio.Task[Any]") -> Any:
    async with asyncio.timeout(SECONDS):
        return await task


def own_threads() -> list[str]:
    names = (thread.name for thread in threading.enumerate())
    return [name for name in names if name.startswith("memoriale-async")]


def test_a_ledger_that_is_not_open_says_so(opened: Open, tenant: str) -> None:
    """Before it is entered and after it was closed a call is refused; closing twice is allowed."""

    async def main() -> None:
        ledger = opened()
        with pytest.raises(InputError) as early:
            await ledger.memory(tenant=tenant)
        assert early.value.code == "not_open"
        async with ledger:
            alice = await ledger.memory(tenant=tenant, user="alice")
        with pytest.raises(InputError) as late:
            await alice.remember("late")
        assert late.value.code == "closed"
        await ledger.close()

    asyncio.run(main())


def test_rights_and_settings_are_passed_on(opened: Open, tenant: str) -> None:
    """`open_async` takes what `open` takes, and refuses what it refuses."""

    async def main() -> None:
        async with opened(rights=["use"]) as ledger:
            assert ledger.rights == {Right.USE}
            assert ledger.settings.wait == 30
            with pytest.raises(MissingRightError):
                await ledger.verify(tenant=tenant)
        with pytest.raises(InputError):
            async with opened(max_value_bytes=-1):
                pass

    asyncio.run(main())
    for count in (0, 257, True):
        with pytest.raises(InputError):
            opened(threads=count)


def test_a_forked_child_is_refused(opened: Open, tenant: str) -> None:
    """In a child after ``os.fork`` a handle of the parent raises instead of waiting for ever."""

    async def main() -> None:
        async with opened() as ledger:
            alice = await ledger.memory(tenant=tenant, user="alice")
            child = os.fork()
            if child == 0:
                os._exit(refusal(alice))
            assert os.waitpid(child, 0)[1] == 0
            await alice.remember("still works")

    asyncio.run(main())


def refusal(memory: AsyncMemory) -> int:
    try:
        memory.remember("x").send(None)
    except ForkedHandleError:
        return 0
    return 1
