"""The memory of resources to be awaited: each call runs in a thread, none in the event loop."""

import asyncio
from functools import partial
from types import TracebackType
from typing import Any, Self

from memoriale.adapters.library.async_stores import AsyncStore, awaitable_tool
from memoriale.adapters.library.awaiting import Threads, awaited
from memoriale.adapters.library.resources.checked import CheckedWorkingMemory
from memoriale.adapters.library.resources.forking import ForkMemoryResult
from memoriale.adapters.library.resources.memory import ResourceMemory
from memoriale.adapters.library.resources.snippet import build_context_snippet
from memoriale.adapters.library.resources.tools import create_memory_tools
from memoriale.domain.resources.compaction import CompactionResult
from memoriale.domain.resources.ref import ResourceRef
from memoriale.domain.tools import ToolDef


class AsyncCheckedWorkingMemory(AsyncStore[CheckedWorkingMemory]):
    """``CheckedWorkingMemory``, awaited."""

    get = awaited(CheckedWorkingMemory.get)
    set = awaited(CheckedWorkingMemory.set)
    list = awaited(CheckedWorkingMemory.list)
    delete = awaited(CheckedWorkingMemory.delete)


class AsyncForkMemoryResult(AsyncStore[ForkMemoryResult]):
    """``ForkMemoryResult``, whose numbers are to be awaited."""

    @property
    def ref(self) -> ResourceRef:
        """The child."""
        return self.synchronous.ref

    async def working_keys(self) -> int:
        """Keys of working memory that the child has from its parent; bookkeeping is none."""
        return await self.threads.run(lambda: self.synchronous.working_keys)

    async def semantic_facts(self) -> int:
        """Facts that the child has from its parent."""
        return await self.threads.run(lambda: self.synchronous.semantic_facts)


class AsyncResourceMemory(AsyncStore[ResourceMemory]):
    """
    ``ResourceMemory`` for programs with an event loop: ``async with AsyncResourceMemory(memory)``.

    Args:
        memory: The memory itself; closed with this one.
        threads: Where its calls run; default: eight of its own, which end when it is closed.
    """

    def __init__(self, memory: ResourceMemory, threads: Threads | None = None) -> None:
        self._has_own = threads is None
        super().__init__(memory, Threads() if threads is None else threads)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def working_memory(self) -> AsyncCheckedWorkingMemory:
        """Keys and values: ``get``, ``set``, ``list``, ``delete``."""
        return AsyncCheckedWorkingMemory(self.synchronous.working_memory, self.threads)

    working = working_memory

    @property
    def has_semantic_memory(self) -> bool:
        """Whether there is a provider of facts."""
        return self.synchronous.has_semantic_memory

    @property
    def compaction_error(self) -> BaseException | None:
        """What the last compaction in the background failed with; None when it did not."""
        return self.synchronous.compaction_error

    @property
    def last_compaction(self) -> CompactionResult | None:
        """What the last compaction in the background came to."""
        return self.synchronous.last_compaction

    remember = awaited(ResourceMemory.remember)
    remember_many = awaited(ResourceMemory.remember_many)
    recall = awaited(ResourceMemory.recall)
    list_all = awaited(ResourceMemory.list_all)
    list_recent = awaited(ResourceMemory.list_recent)
    forget = awaited(ResourceMemory.forget)
    compact_semantic_memory = awaited(ResourceMemory.compact_semantic_memory)
    wait_for_compaction = awaited(ResourceMemory.wait_for_compaction)

    async def fork(self, parent_ref: ResourceRef, child_resource_id: str) -> AsyncForkMemoryResult:
        """As ``ResourceMemory.fork``."""
        call = partial(self.synchronous.fork, parent_ref, child_resource_id)
        return AsyncForkMemoryResult(await self.threads.run(call), self.threads)

    async def build_context_snippet(self, ref: ResourceRef, **options: Any) -> str:
        """
        As the function of this name.

        Args:
            ref: The resource.
            **options: Those of the function.
        """
        return await self.threads.run(
            partial(build_context_snippet, self.synchronous, ref, **options)
        )

    def create_memory_tools(self, ref: ResourceRef) -> list[ToolDef]:
        """As the function of this name, with handlers to be awaited."""
        tools = create_memory_tools(self.synchronous, ref)
        return [awaitable_tool(tool, self.threads) for tool in tools]

    async def close(self) -> None:
        """Waits for the compactions that are due, and ends its own threads."""
        if self._has_own:
            await asyncio.to_thread(self.threads.end, self.synchronous.close)
        else:
            await self.threads.run(self.synchronous.close)
