"""Recall on branches: how many inherited memories they override, and how deep they are."""

import random
import statistics
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

from stage import TENANT, Stage, result, seconds, sentence

from memoriale.adapters.library.memory import Memory
from memoriale.domain.errors import MemorialeError

OWNER = "brancher"
QUESTIONS = 60


def branches(stage: Stage) -> list[dict[str, object]]:
    """Recall of one owner on branches, against the same questions on ``main`` next to them."""
    main = stage.ledger.memory(tenant=TENANT, user=OWNER)
    ids = _memories(main, stage)
    cases = {f"{count:,} overrides": _overridden(main, ids, count) for count in _counts(len(ids))}
    cases |= {f"depth {depth}": _deep(main, ids, depth) for depth in (1, 3, 10)}
    main.recall("catch up first", wait=3_600)
    return [{"row": f"branches: {name}", **_compared(main, case)} for name, case in cases.items()]


def _counts(memories: int) -> list[int]:
    return [count for count in (0, 1_000, 10_000, 100_000) if count <= memories]


def _memories(main: Memory, stage: Stage) -> list[UUID]:
    """As many memories of one owner as the size says."""
    items: list[Any] = [{**item, "user": OWNER} for item in stage.items(stage.events, seed=9)]
    parts = [items[start : start + 1_000] for start in range(0, len(items), 1_000)]
    stored = [receipt for part in parts for receipt in main.remember_many(part)]
    return [receipt.memory_id for receipt in stored if not isinstance(receipt, MemorialeError)]


def _overridden(main: Memory, ids: list[UUID], count: int) -> Memory:
    """A branch on which so many of the memories were corrected."""
    branch, chosen = main.fork(f"overrides-{count}"), random.Random(count)
    with ThreadPoolExecutor(32) as pool:
        changed = chosen.sample(ids, count)
        list(pool.map(lambda id_: branch.correct(id_, sentence(chosen, 14)), changed))
    return branch


def _deep(main: Memory, ids: list[UUID], depth: int) -> Memory:
    """A branch of a branch of …, each with 100 corrections of its own."""
    branch, chosen = main, random.Random(depth)
    for level in range(depth):
        branch = branch.fork(f"depth-{depth}-{level}")
        for memory_id in chosen.sample(ids, 100):
            branch.correct(memory_id, sentence(chosen, 14))
    return branch


def _compared(main: Memory, branch: Memory) -> dict[str, object]:
    chosen = random.Random(10)
    questions = [sentence(chosen, 6) for _ in range(QUESTIONS)]
    for memory in (main, branch):
        memory.recall("the first one reads the rows")

    def took(memory: Memory, question: str) -> float:
        return seconds(lambda: memory.recall(question, top_k=10)) * 1000

    # In turn, so that whatever else the machine does meets both.
    pairs = [(took(main, question), took(branch, question)) for question in questions]
    floor, ours = (statistics.median(side) for side in zip(*pairs, strict=True))
    return result("ms p50", floor, ours, "the same recall on main", higher_is_better=False)
