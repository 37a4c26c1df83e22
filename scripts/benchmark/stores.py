"""What the stores of an owner of 10,000 memories cost, among all others of the tenant."""

import random
import statistics
import time
from collections.abc import Callable
from typing import Final

from stage import TENANT, Stage, median_ms, result, sentence

from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.stores.config import UnifiedMemoryConfig
from memoriale.adapters.library.stores.facts import UserFacts
from memoriale.adapters.library.stores.ledger_graph import LedgerGraph
from memoriale.adapters.library.stores.manager import MemoryManager
from memoriale.adapters.library.stores.procedures import ProcedureMemory

FACTS: Final = 10_000
TIMES: Final = 40


def stores(stage: Stage) -> list[dict[str, object]]:
    """
    A user with 10,000 facts, or as many as the tenant has events: what three calls take, beside
    a head of the log asked for; and one with as many nodes and edges.
    """
    log = stage.filled().ledger.tenant(TENANT).log
    count = min(FACTS, stage.events)
    grace = stage.ledger.memory(tenant=TENANT, user="grace", agent="bench")
    _remember_facts(grace, count)
    facts = UserFacts(grace, max_facts=100_000)
    procedures = ProcedureMemory(grace)
    for number, task in enumerate(_tasks(40)):
        procedures.save_procedure({"trigger": f"{task} {number}", "description": f"how to {task}"})
    manager = MemoryManager(
        UnifiedMemoryConfig(
            storage=grace,
            user_facts=True,
            user_profile=True,
            entities=True,
            decisions=True,
            learnings=True,
            corrections=True,
            graph=True,
            procedures=True,
        )
    )
    asked = list(_tasks(TIMES, seed=2))
    grace.recall("catch up first", wait=3_600)
    floor = median_ms(lambda n: log.reader.head(), 200)

    def row(name: str, ours: float, *, unit: str = "ms p50") -> dict[str, object]:
        against = f"the log's head; {name}, {count:,} facts in {log.head():,} events"
        return result(unit, floor, ours, against, higher_is_better=False)

    first = _cpu_ms(lambda n: facts.get_context_string(), 1)
    facts.add_facts(facts=["the first one reads"])
    manager.build_context(current_input=asked[0])
    calls: dict[str, Callable[[int], object]] = {
        "add a fact": lambda n: facts.add_facts(facts=[f"{sentence(random.Random(), 9)} {n}"]),
        "facts as lines": lambda n: facts.get_context_string(),
        "build a context": lambda n: manager.build_context(current_input=asked[n]),
        "suggest a procedure": lambda n: procedures.suggest_procedure(asked[n]),
    }
    found = [row("first read, every event", first, unit="ms processor")]
    for name, call in calls.items():
        found.append(row(name, median_ms(call, TIMES)))
        found.append(row(name, _cpu_ms(call), unit="ms processor p50"))
    found.append(row("first read, snapshot", _cold(stage, grace), unit="ms processor"))
    return found + _graph(stage, count, floor)


def _cpu_ms(action: Callable[[int], object], times: int = TIMES) -> float:
    """Median of the processor time that this process spends on an action."""
    spent = []
    for number in range(times):
        before = time.process_time()
        action(number)
        spent.append(time.process_time() - before)
    return statistics.median(spent) * 1000


def _cold(stage: Stage, grace: Memory) -> float:
    """The first read of a process that has only the snapshot, in milliseconds."""
    from memoriale.adapters.composition import Tenant

    services = Tenant(stage.ledger.infrastructure, TENANT)
    owner = grace.principal.identity("user")
    assert owner is not None
    branch = grace.branch_view()
    return _cpu_ms(lambda n: services.deciding.read(grace.principal, branch, owner, ("fact",)), 1)


def _graph(stage: Stage, count: int, floor: float) -> list[dict[str, object]]:
    heidi = stage.ledger.memory(tenant=TENANT, user="heidi")
    _remember_graph(heidi, count)
    graph = LedgerGraph(heidi)
    graph.get_node("n-0")
    against = f"the log's head; {{}}, {count:,} nodes and edges"
    added = median_ms(lambda n: graph.add([{"id": f"new-{n}", "type": "thing"}]), TIMES)
    asked = median_ms(lambda n: graph.neighbours(f"n-{n}"), TIMES)
    return [
        result("ms p50", floor, added, against.format("add a node"), higher_is_better=False),
        result("ms p50", floor, asked, against.format("neighbours"), higher_is_better=False),
    ]


def _remember_facts(memory: Memory, count: int) -> None:
    chosen = random.Random(5)
    items = [
        {"content": f"{sentence(chosen, 12)} ({n})", "kind": "fact", "importance": n % 100 / 100}
        for n in range(count)
    ]
    for start in range(0, count, 1_000):
        memory.remember_many(items[start : start + 1_000])


def _remember_graph(memory: Memory, count: int) -> None:
    items: list[dict[str, object]] = []
    for n in range(count):
        node = {"node_id": f"n-{n}", "type": "thing", "name": f"thing {n}"}
        edge = {"source_id": f"n-{n}", "target_id": f"n-{n * 7 % count}", "type": "knows"}
        items.append({"content": f"thing {n}", "kind": "node", "details": node})
        items.append({"content": f"thing {n} knows", "kind": "edge", "details": edge})
    for start in range(0, len(items), 1_000):
        memory.remember_many(items[start : start + 1_000])


def _tasks(count: int, seed: int = 1) -> list[str]:
    chosen = random.Random(seed)
    return [sentence(chosen, 4) for _ in range(count)]
