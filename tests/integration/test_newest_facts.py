"""The newest facts of a resource: the same from the end of the log as from the whole of it."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import memoriale
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.resources.ledger_semantic import LedgerSemanticMemory
from memoriale.adapters.postgres.datastore import Datastore
from memoriale.domain.errors import InputError
from memoriale.domain.resources.facts import MemoryFact
from memoriale.domain.resources.ref import ResourceRef
from tests.fixtures.ledger import HASHING

BIG, CHILD = ResourceRef("big"), ResourceRef("child")
Another = Callable[[], LedgerSemanticMemory]


@pytest.fixture
def facts(shared_ledger: Ledger, tenant: str) -> LedgerSemanticMemory:
    return LedgerSemanticMemory(shared_ledger, tenant=tenant)


@pytest.fixture
def another(shared_url: str, ledger_home: Path, tenant: str) -> Iterator[Another]:
    """Facts as a process sees them that has folded nothing yet."""
    opened: list[Ledger] = []

    def made() -> LedgerSemanticMemory:
        opened.append(memoriale.open(home=ledger_home, database_url=shared_url, embedder=HASHING))
        return LedgerSemanticMemory(opened[-1], tenant=tenant)

    yield made
    for ledger in opened:
        ledger.close()


def fact(text: str) -> MemoryFact:
    return MemoryFact(content=text)


def newest(facts: LedgerSemanticMemory, ref: ResourceRef, limit: int) -> list[str]:
    return [found.content for found in facts.list_recent(ref, limit)]


def test_random_histories_list_alike(facts: LedgerSemanticMemory, another: Another) -> None:
    """Whatever was remembered, corrected, replaced, forgotten and forked: the first look of a
    process, and one that has folded everything, give the newest of the whole list."""
    dice = random.Random(11)
    forked = False
    for step in range(60):
        ref = dice.choice([BIG, CHILD] if forked else [BIG])
        there = [one.id for one in facts.list_all(ref)]
        move = dice.choice(["remember", "remember", "many", "forget", "correct", "replace", "fork"])
        if move == "fork" and there and not forked:
            facts.fork(BIG, CHILD)
            forked = True
        elif move == "remember" or not there:
            facts.remember(ref, fact(f"fact {step}"))
        elif move == "many":
            facts.remember_many(ref, [fact(f"fact {step}, {n}") for n in range(30)])
        elif move == "forget":
            facts.forget(ref, dice.sample(there, min(len(there), 7)))
        elif move == "correct":
            facts.correct(ref, dice.choice(there), f"corrected {step}")
        elif move == "replace":
            facts.replace(ref, dice.sample(there, min(len(there), 5)), [fact(f"summary {step}")])
        if step % 10 == 9:
            cold = another()
            for one in (BIG, CHILD) if forked else (BIG,):
                whole = [found.content for found in facts.list_all(one)][::-1]
                for limit in (1, 3, 50, 1000):
                    assert newest(facts, one, limit) == newest(cold, one, limit) == whole[:limit]
    assert forked


def test_the_first_look_costs_a_page(
    facts: LedgerSemanticMemory, another: Another, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that never looked at a resource reads its end alone, however much there is, and
    also when the last facts are gone again."""
    for start in range(0, 3000, 600):
        facts.remember_many(BIG, [fact(f"fact {n}") for n in range(start, start + 600)])
    cold, rows = another(), [0]
    cold.list_recent(ResourceRef("nothing"))
    fetch = Datastore.fetch

    def counted(*given: object, **named: object) -> object:
        found = fetch(*given, **named)  # type: ignore[arg-type]
        rows[0] += len(found)
        return found

    monkeypatch.setattr(Datastore, "fetch", counted)
    assert newest(cold, BIG, 10) == [f"fact {n}" for n in range(2999, 2989, -1)]
    assert rows[0] < 200
    gone = [one.id for one in cold.list_recent(BIG, 300)]
    cold.forget(BIG, gone)
    rows[0] = 0
    assert newest(another(), BIG, 10) == [f"fact {n}" for n in range(2699, 2689, -1)]
    assert rows[0] < 1500


def test_a_page_is_checked_and_an_unknown_resource_has_none(facts: LedgerSemanticMemory) -> None:
    """As ever."""
    assert facts.list_recent(ResourceRef("nobody")) == []
    for limit in (0, 1001, True, "x"):
        with pytest.raises(InputError) as refused:
            facts.list_recent(BIG, limit)  # type: ignore[arg-type]
        assert refused.value.field == "limit"
