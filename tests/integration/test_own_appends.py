"""What a process appended is kept as it was stored, without reading it back."""

import random
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from pydantic import JsonValue

import memoriale
from memoriale.adapters.application.slices import Slices
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.stores.facts import UserFacts
from memoriale.domain.errors import UnavailableError
from memoriale.domain.keys import Subject
from memoriale.domain.memory import MemoryState
from tests.fixtures.ledger import HASHING
from tests.fixtures.snapshots import cold

KINDS = ("working", "fact")
VALUES: tuple[JsonValue, ...] = (
    None,
    1,
    1.0,
    True,
    "ü\u2028",
    [1, {"b": [], "a": 2.5}],
    {"z": 1, "a": {"é": None}},
)


@pytest.fixture
def other(ledger_home: Path, shared_url: str) -> Iterator[Ledger]:
    """The ledger as another process has it."""
    with memoriale.open(home=ledger_home, database_url=shared_url, embedder=HASHING) as opened:
        yield opened


def state(memory: Memory, slices: Slices, owner: Subject) -> list[tuple[UUID, MemoryState]]:
    """What slices give of an owner, in order."""
    key = memory.services.log.identities.find(owner)
    assert key is not None
    return list(slices.read(key.pseudonym, KINDS, memory.branch_view())[0].items())


def kept(memory: Memory, owner: Subject) -> list[tuple[UUID, MemoryState]]:
    """What the handle's process keeps, after it looked at the head."""
    return state(memory, memory.services.deciding._slices, owner)


def stored(memory: Memory, owner: Subject) -> list[tuple[UUID, MemoryState]]:
    """What a process finds that reads every event."""
    return state(memory, cold(memory, long_fold=10_000), owner)


@pytest.mark.parametrize("seed", range(4))
def test_what_is_kept_is_what_a_new_process_reads(
    shared_ledger: Ledger, other: Ledger, tenant: str, seed: int
) -> None:
    """Two processes set and delete keys in turn, before and after a fork and on it: after each
    change both keep exactly what is stored, order included."""
    chosen = random.Random(seed)
    bots = [ledger.memory(tenant=tenant, resource="bot") for ledger in (shared_ledger, other)]
    bots[0].working.set("first", 0)
    bots[0].fork("for kid", resource="kid")
    kids = [
        ledger.memory(tenant=tenant, resource="kid", branch="for kid")
        for ledger in (shared_ledger, other)
    ]
    for _ in range(25):
        handle = chosen.choice([*bots, *kids])
        if chosen.random() < 0.3:
            handle.working.delete(f"k{chosen.randrange(3)}")
        else:
            handle.working.set(f"k{chosen.randrange(3)}", chosen.choice(VALUES))
        owner = Subject("resource", str(handle.principal.resource))
        assert kept(handle, owner) == stored(handle, owner)
    for handle in (*bots, *kids):
        for name in ("bot", "kid"):
            owner = Subject("resource", name)
            if handle.services.log.identities.find(owner) is not None:
                assert kept(handle, owner) == stored(handle, owner)


def test_facts_that_replace_each_other_are_kept_as_stored(alice: Memory) -> None:
    """An append of several events, one of which ends another memory, is taken over whole."""
    facts = UserFacts(alice)
    for turn in range(3):
        facts.add_facts(facts=[f"lives in city {turn}", f"likes number {turn}"])
        assert kept(alice, Subject("user", "alice")) == stored(alice, Subject("user", "alice"))


def test_what_cannot_be_taken_over_is_read_from_the_log(
    shared_ledger: Ledger, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key store that fails right after the append fails neither the write nor a later read."""
    bot = shared_ledger.memory(tenant=tenant, resource="bot")
    bot.working.set("step", 1)

    failed: list[object] = []

    def fails(rows: object) -> None:
        failed.append(rows)
        raise UnavailableError("the key store is away")

    with monkeypatch.context() as patch:
        patch.setattr(bot.services.log.mapper, "decode", fails)
        bot.working.set("step", 2)
    assert len(failed) == 1
    assert bot.working.get("step") == 2
    assert kept(bot, Subject("resource", "bot")) == stored(bot, Subject("resource", "bot"))
