"""Random merges: however branches and their parents moved apart, a plain model says the same."""

import random
from collections import Counter
from dataclasses import replace
from uuid import UUID

import pytest

from memoriale.adapters.library.memory import Memory
from tests.fixtures.plain_merging import Expected, Model

STEPS = 60
SEEDS = 6
SUBJECTS = ("contact", "diet", None)
PREFER = ("none", "none", "child", "parent")


class Driver:
    """
    Drives one user's branches and a model of them from one seed.

    Args:
        memory: The user's handle on ``main``.
        seed: What all is drawn from.
    """

    def __init__(self, memory: Memory, seed: int) -> None:
        self.memory, self.model, self.chosen = memory, Model(), random.Random(seed)
        self.statuses: Counter[str] = Counter()

    def step(self) -> None:
        branch = self.chosen.choice(list(self.model.branches))
        if len(self.model.branches) < 4 and self.chosen.random() < 0.2:
            self.fork(branch)
        elif branch != "main" and self.chosen.random() < 0.25:
            self.merge(branch)
        elif self.chosen.random() < 0.5:
            self.remember(branch)
        else:
            self.change(branch)

    def fork(self, parent: str) -> None:
        name = f"b{len(self.model.branches)}"
        self.memory.branch(parent).fork(name)
        self.model.fork(name, parent)

    def remember(self, branch: str) -> None:
        content, subject = f"said {self.chosen.random()}", self.chosen.choice(SUBJECTS)
        handle = self.memory.branch(branch)
        made = handle.remember(content, kind="fact", subject=subject).memory_id
        self.model.put(branch, made, Expected(content, subject))
        self.model.supersede(branch, subject, made)

    def change(self, branch: str) -> None:
        contents, handle = self.model.branches[branch], self.memory.branch(branch)
        if not contents:
            return
        memory_id = self.chosen.choice(list(contents))
        memory = contents[memory_id]
        if not memory.current:
            handle.reinstate(memory_id)
            self.model.put(branch, memory_id, replace(memory, current=True, replaced_by=None))
            self.model.supersede(branch, memory.subject, memory_id)
        elif self.chosen.random() < 0.7:
            content = f"corrected {self.chosen.random()}"
            handle.correct(memory_id, content)
            self.model.put(branch, memory_id, replace(memory, content=content))
        else:
            handle.invalidate(memory_id)
            self.model.put(branch, memory_id, replace(memory, current=False, replaced_by=None))

    def merge(self, branch: str) -> None:
        prefer = self.chosen.choice(PREFER)
        log = self.memory.services.log
        before, expected = log.head(), self.model.merge(branch, prefer)
        status = self.memory.merge(branch, prefer=prefer).status
        assert status == expected
        assert (log.head() > before) == (status == "merged")
        assert self.memory.merge(branch, prefer=prefer).status != "merged"
        self.statuses[f"{status} {prefer}"] += 1
        self.check(self.model.parents[branch])
        self.check(branch)

    def check(self, branch: str) -> None:
        page = self.memory.branch(branch).list(limit=1000)
        found: list[tuple[UUID, str | None]] = [(r.memory_id, r.content) for r in page.memories]
        assert sorted(found) == self.model.current(self.model.branches[branch])


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_merges_are_what_a_plain_model_says(alice: Memory, seed: int) -> None:
    """Conflicts, who wins, what is taken over and what is taken over a second time: after every
    merge both branches hold what dictionaries hold."""
    driver = Driver(alice, seed)
    for _ in range(STEPS):
        driver.step()
    for branch in driver.model.branches:
        driver.check(branch)
    assert driver.statuses
