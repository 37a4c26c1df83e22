"""Operations in programs with an event loop: nothing holds it up."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

import memoriale
from memoriale.adapters.library.operations.agent_memory import AgentMemory
from memoriale.adapters.library.operations.asynchronous import AsyncAgentMemory
from memoriale.domain.errors import InputError, OperationCancelledError
from tests.fixtures.ledger import HASHING
from tests.fixtures.operations import ALICE, Held, Saying, said
from tests.fixtures.surfaces import public

LONGEST = 0.5
"""Seconds for which a busy machine may hold up a loop that nobody blocks."""


def test_every_method_has_its_twin() -> None:
    """What the synchronous memory can do, the asynchronous one can."""
    assert set(public(AgentMemory)) <= set(public(AsyncAgentMemory))


def test_operations_are_awaited(shared_url: str, ledger_home: Path, tenant: str) -> None:
    """Adds, searches and cancels while the model thinks, with a loop that goes on ticking."""
    model = Held()
    gaps: list[float] = []

    async def tick() -> None:
        before = time.monotonic()
        while True:
            await asyncio.sleep(0.01)
            now = time.monotonic()
            gaps.append(now - before)
            before = now

    async def use() -> tuple[Any, Any]:
        opened = memoriale.open_async(
            home=ledger_home, database_url=shared_url, embedder=HASHING, wait=30
        )
        async with (
            opened as ledger,
            AsyncAgentMemory(ledger, tenant=tenant, llm=model) as memory,
        ):
            ticking = asyncio.create_task(tick())
            add = await memory.add(said("tea"), ALICE)
            other = await memory.add(said("coffee"), ALICE)
            await asyncio.to_thread(model.asked.wait, 30)
            await memory.cancel(other)
            with pytest.raises(OperationCancelledError):
                await other
            model.go.set()
            done = await add
            found = await (await memory.search("tea", ALICE))
            assert [node.content for node in await memory.get_all(ALICE)] == ["tea"]
            await memory.update(done.stored_ids[0], "green tea")
            assert await memory.delete(done.stored_ids[0]) is True
            assert await asyncio.to_thread(memory.size.get) == 0
            ticking.cancel()
        return done, found

    done, found = asyncio.run(use())
    assert [one.id for one in found] == list(done.stored_ids)
    assert sorted(gaps)[-2] < LONGEST


def test_it_is_made_on_an_asynchronous_ledger(shared_ledger: Any, tenant: str) -> None:
    """Another one is refused, and so is a wrong option when it is entered."""
    with pytest.raises(InputError, match="open_async"):
        AsyncAgentMemory(shared_ledger, tenant=tenant, llm=Saying())
