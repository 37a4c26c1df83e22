"""``AsyncAgentMemory``: ``AgentMemory`` for programs with an event loop."""

from functools import partial
from types import TracebackType
from typing import Any, Self

from memoriale.adapters.library.asynchronous import AsyncLedger
from memoriale.adapters.library.awaiting import awaited
from memoriale.adapters.library.operations.agent_memory import AgentMemory
from memoriale.adapters.library.operations.handles import Operation
from memoriale.adapters.library.operations.making import agent_memory
from memoriale.adapters.library.operations.observing import Observable, Topic
from memoriale.domain.errors import InputError
from memoriale.domain.subscriptions import MemoryEvent


class AsyncAgentMemory:
    """
    ``AgentMemory`` for programs with an event loop: its methods, awaited, in ``async with
    AsyncAgentMemory(ledger, tenant=...) as memory``. ``await memory.add(...)`` gives the handle
    once the messages are accepted, and awaiting the handle what came of it. Models, embedders and
    subscribers are called in threads.

    Args:
        ledger: An open asynchronous ledger.
        **options: Those of ``agent_memory``.

    Raises:
        InputError: No such ledger; the errors of ``agent_memory`` come when it is entered.
    """

    synchronous: AgentMemory

    def __init__(self, ledger: AsyncLedger, **options: Any) -> None:
        if not isinstance(ledger, AsyncLedger):
            raise InputError(
                "ledger must be an open asynchronous ledger, as memoriale.open_async returns it.",
                code="bad_value",
                field="ledger",
                value=type(ledger).__name__,
                allowed="an AsyncLedger",
            )
        self.threads, self._ledger, self._options = ledger.threads, ledger, options

    async def __aenter__(self) -> Self:
        make = partial(agent_memory, self._ledger.synchronous, **self._options)
        self.synchronous = await self.threads.run(make)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.destroy()

    @property
    def events(self) -> Topic[MemoryEvent]:
        """As of ``AgentMemory``; subscribers are called in threads."""
        return self.synchronous.events

    @property
    def size(self) -> Observable[int]:
        """As of ``AgentMemory``; ``get`` asks the database, so call it in a thread."""
        return self.synchronous.size

    add = awaited(AgentMemory.add)
    search = awaited(AgentMemory.search)
    get_all = awaited(AgentMemory.get_all)
    update = awaited(AgentMemory.update)
    delete = awaited(AgentMemory.delete)
    destroy = awaited(AgentMemory.destroy)

    async def cancel(self, operation: Operation[Any]) -> None:
        """``operation.cancel()`` without holding up the event loop."""
        await self.threads.run(operation.cancel)
