"""The stores and the manager, awaited: every method has its twin, and none runs in the loop."""

import asyncio
import inspect
import threading
from functools import cached_property
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import memoriale
from memoriale.adapters.library import async_stores
from memoriale.adapters.library.async_manager import AsyncMemoryManager
from memoriale.adapters.library.asynchronous import AsyncLedger, AsyncMemory
from memoriale.adapters.library.bound import Bound
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.stores.manager import MemoryManager
from memoriale.domain.errors import InputError
from memoriale.domain.principal import Right
from tests.fixtures.ledger import HASHING
from tests.fixtures.scripted import Scripted
from tests.fixtures.surfaces import public

STORES = [*inspect.getmembers(Memory, lambda member: isinstance(member, cached_property))]
OF_MANAGER = {"active", "extractor_configs", "is_extracted", "own_graph", "sections"}
"""Methods of the manager that are there for other surfaces of the package."""


@pytest.fixture
def opened(shared_url: str, ledger_home: Path) -> AsyncLedger:
    """An asynchronous ledger on the run's home."""
    return memoriale.open_async(
        home=ledger_home, database_url=shared_url, embedder=HASHING, wait=30
    )


def same(ours: type, twin: type, without: set[str]) -> None:
    """Both have the same methods with the same parameters, the twin's to be awaited."""
    methods, twins = public(ours), public(twin)
    assert set(twins) == set(methods) - without
    for name, method in twins.items():
        parameters = [*inspect.signature(methods[name]).parameters.values()]
        assert [*inspect.signature(method).parameters.values()] == parameters, name
        assert inspect.iscoroutinefunction(method), name
        assert method.__doc__


@pytest.mark.parametrize(("name", "store"), STORES)
def test_every_store_of_a_handle_has_its_twin(name: str, store: Any) -> None:
    """What hangs on a handle hangs on the asynchronous one, with the same public methods."""
    ours = getattr(memoriale, get_type_hints_of(store.func))
    twin = get_type_hints(getattr(AsyncMemory, name).fget)["return"]
    same(ours, twin, set())


def get_type_hints_of(function: Any) -> str:
    return str(function.__annotations__["return"]).strip('"')


@pytest.mark.parametrize("name", ["GraphMemory", "Curator"])
def test_what_a_manager_hands_out_has_its_twin(name: str) -> None:
    """The graph of a manager and its curator have one as well."""
    same(getattr(memoriale, name), getattr(async_stores, f"Async{name}"), set())


def test_the_manager_has_its_twin() -> None:
    """Every public method of the manager is there, to be awaited."""
    same(MemoryManager, AsyncMemoryManager, OF_MANAGER)


def test_the_twins_notice_a_method_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted failure: a method that the twin lacks is found."""
    monkeypatch.setattr(MemoryManager, "leak", lambda self: None, raising=False)
    with pytest.raises(AssertionError):
        test_the_manager_has_its_twin()


def test_nothing_of_stores_and_manager_runs_in_the_loop(
    opened: AsyncLedger, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every call asks for its right in another thread than the loop's, handlers of tools and the
    model included, and making a manager or a store asks for nothing."""
    asked: set[int] = set()
    allow = Bound.allow

    def watched(self: Bound, command: str, *rights: Right) -> None:
        asked.add(threading.get_ident())
        allow(self, command, *rights)

    monkeypatch.setattr(Bound, "allow", watched)
    model = Watched('{"summary": "They talked about tea."}')

    async def main() -> None:
        async with opened as ledger:
            alice = await ledger.memory(tenant=tenant, user="alice", agent="clerk", session="s")
            asked.clear()
            manager = AsyncMemoryManager(storage=alice, user_facts=True, max_messages=1)
            for name, _ in STORES:
                getattr(alice, name)
            assert asked == set()
            await alice.facts.add_facts(None, ["Alice drinks tea"])
            assert [fact.fact for fact in await alice.facts.get_facts()] == ["Alice drinks tea"]
            await manager.get_or_create_session("s")
            said = [{"role": "user", "content": text} for text in ("tea?", "yes")]
            done = await manager.append_messages("s", said, model)
            assert [turn.content for turn in done.overflow] == ["tea?"]
            assert await manager.await_extractions() == []
            summaries = await manager.get_summaries()
            assert summaries is not None
            assert await summaries.get_summaries("s") == ["They talked about tea."]
            assert await manager.get_decision_log() is None
            assert "Alice drinks tea" in (await alice.context("tea", max_tokens=500)).text
            assert "Alice drinks tea" in await manager.build_context("s")
            (tool, *_) = await manager.get_tools()
            assert "Alice drinks tea" in str(await tool.handler({}))
            (fact,) = await alice.facts.get_facts()
            assert (await alice.explain(fact.id)).source_tier == "manual"
            assert (await manager.curator.clear_all(dry_run=True)).changed >= 1
            assert (await manager.session_manager.list_sessions())[0].session_id == "s"
            assert threading.get_ident() not in asked | model.threads
            assert asked
            assert model.threads

    asyncio.run(main())


class Watched(Scripted):
    """A scripted model that keeps in which threads it was asked."""

    def __init__(self, reply: str) -> None:
        super().__init__(lambda asked: reply)
        self.threads: set[int] = set()

    def generate(self, *given: Any, **more: Any) -> Any:
        """See ``ModelProvider``."""
        self.threads.add(threading.get_ident())
        return super().generate(*given, **more)


def test_calls_of_stores_leave_the_loop_free(opened: AsyncLedger, tenant: str) -> None:
    """While a model thinks inside a call, the loop goes on and other calls are answered."""
    reached, free = threading.Event(), threading.Event()

    class Slow(Watched):
        """A model that waits until it may answer."""

        def generate(self, *given: Any, **more: Any) -> Any:
            """See ``ModelProvider``."""
            reached.set()
            assert free.wait(60)
            return super().generate(*given, **more)

    async def main() -> None:
        async with opened as ledger:
            alice = await ledger.memory(tenant=tenant, user="alice", session="s")
            await alice.sessions.get_or_create_session()
            said = [{"role": "user", "content": "tea"}]
            model = Slow('{"summary": "About tea."}')
            thinking = asyncio.create_task(alice.summaries.summarize(None, said, model))
            async with asyncio.timeout(60):
                while not reached.is_set():
                    await asyncio.sleep(0.001)
            await alice.facts.add_facts(None, ["x"])
            assert not thinking.done()
            free.set()
            made = await thinking
            assert made is not None
            assert made.summary == "About tea."

    asyncio.run(main())


def test_an_asynchronous_manager_refuses_a_wrong_configuration(
    opened: AsyncLedger, tenant: str
) -> None:
    """It takes an asynchronous handle and the fields of the manager, and names what is wrong."""

    async def main() -> None:
        async with opened as ledger:
            alice = await ledger.memory(tenant=tenant, user="alice")
            with pytest.raises(InputError) as refused:
                AsyncMemoryManager(storage=alice.synchronous)  # type: ignore[arg-type]
            assert refused.value.field == "storage"
            with pytest.raises(InputError) as refused:
                AsyncMemoryManager(storage=alice, max_messages=0)
            assert refused.value.field == "config.max_messages"

    asyncio.run(main())
