"""The memory of resources, awaited: the same methods, and none runs in the event loop."""

import asyncio
import inspect
import threading
from typing import Any

import pytest

from memoriale import (
    AsyncResourceMemory,
    AutoCompactOptions,
    CheckedWorkingMemory,
    InputError,
    MemoryFact,
    ResourceMemory,
)
from memoriale.adapters.library.awaiting import Threads
from memoriale.adapters.library.resources.asynchronous import AsyncCheckedWorkingMemory
from tests.fixtures.resource_memory import REF, PlainWorking, memory
from tests.fixtures.surfaces import public

ALSO = {"build_context_snippet", "create_memory_tools"}
"""Functions about a memory that its twin has as methods."""


def test_every_method_has_its_twin() -> None:
    """With the same parameters; also those of working memory."""
    for ours, twin, more in (
        (ResourceMemory, AsyncResourceMemory, ALSO),
        (CheckedWorkingMemory, AsyncCheckedWorkingMemory, set()),
    ):
        methods, twins = public(ours), public(twin)
        assert set(twins) - more == set(methods) - {"of"}
        for name in set(twins) - more:
            assert [*inspect.signature(twins[name]).parameters] == [
                *inspect.signature(methods[name]).parameters
            ]
            assert inspect.iscoroutinefunction(twins[name])


class Watching(PlainWorking):
    """Notes in which threads it is called."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[threading.Thread] = set()

    def get(self, ref: Any, key: str, default: Any = None) -> Any:
        self.seen.add(threading.current_thread())
        return super().get(ref, key, default)

    def set(self, ref: Any, key: str, value: Any) -> None:
        self.seen.add(threading.current_thread())
        super().set(ref, key, value)

    def list(self, ref: Any, *, after: str | None = None, limit: int = 100) -> Any:
        self.seen.add(threading.current_thread())
        return super().list(ref, after=after, limit=limit)


def test_everything_runs_beside_the_loop() -> None:
    """Keys, facts, forks with their numbers, prompts and tools; closing leaves no thread."""
    held = Watching()
    before = set(threading.enumerate())

    async def work() -> None:
        options = AutoCompactOptions(max_facts=2)
        both = memory(working_memory=held, auto_compact=options)
        async with AsyncResourceMemory(both) as awaited:
            await awaited.working.set(REF, "a", 1)
            assert await awaited.working.get(REF, "a") == 1
            for number in range(3):
                await awaited.remember(REF, MemoryFact(content=f"fact {number}"))
            assert await awaited.wait_for_compaction(30)
            assert awaited.compaction_error is None
            assert awaited.last_compaction is not None
            assert len(await awaited.recall(REF, "fact")) == 2
            fork = await awaited.fork(REF, "child")
            assert fork.ref.resource_id == "child"
            assert (await fork.working_keys(), await fork.semantic_facts()) == (1, 2)
            assert "- a: 1" in await awaited.build_context_snippet(REF, query="fact")
            tools = {tool.name: tool.handler for tool in awaited.create_memory_tools(REF)}
            assert await tools["get_working_memory"]({"key": "a"}) == {"value": 1}
            with pytest.raises(InputError):
                await awaited.working.set(REF, "", 1)
            assert awaited.has_semantic_memory

    asyncio.run(work())
    assert held.seen
    assert threading.main_thread() not in held.seen
    assert set(threading.enumerate()) <= before


def test_threads_of_others_are_used_and_left() -> None:
    """Those of an asynchronous ledger, for instance: closing the memory does not end them."""
    threads, held = Threads(1), Watching()

    async def work() -> None:
        async with AsyncResourceMemory(memory(working_memory=held), threads) as awaited:
            await awaited.working.set(REF, "a", 1)
        assert await threads.run(lambda: 1) == 1

    asyncio.run(work())
    threads.end(lambda: None)
    assert [thread.name for thread in held.seen] == ["memoriale-async_0"]
