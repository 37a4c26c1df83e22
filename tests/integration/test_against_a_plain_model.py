"""Random histories: the ledger and its views agree with a model of a few dictionaries."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.domain.errors import InputError, RefusedError
from tests.fixtures.plain_merging import Expected, Model

SUBJECTS = ("contact", "diet", None, None)
WORDS = st.text(alphabet=st.sampled_from("abcde äß漢🙂"), min_size=1, max_size=12).filter(
    lambda text: bool(text.strip())
)


class Histories(RuleBasedStateMachine):
    """Drives one user's memory on several branches; ``ledger`` is set by the test."""

    ledger: Ledger
    branches: Bundle[str] = Bundle("branches")

    @initialize(target=branches)
    def start(self) -> str:
        self.tenant = f"m-{uuid4().hex[:12]}"
        self.memory = self.ledger.memory(tenant=self.tenant, user="alice")
        self.stranger = self.ledger.memory(tenant=self.tenant, user="bob")
        self.model = Model()
        return "main"

    @rule(branch=branches, content=WORDS, subject=st.sampled_from(SUBJECTS))
    def remember(self, branch: str, content: str, subject: str | None) -> None:
        if self.is_over(branch, lambda memory: memory.remember(content)):
            return
        receipt = self.on(branch).remember(content, kind="fact", subject=subject)
        self.model.put(branch, receipt.memory_id, Expected(content, subject))
        self.model.supersede(branch, subject, receipt.memory_id)
        self.note(receipt.index, branch)

    @rule(branch=branches, content=WORDS, data=st.data())
    def correct(self, branch: str, content: str, data: st.DataObject) -> None:
        self.change(branch, data, True, lambda m, i: m.correct(i, content), content=content)

    @rule(branch=branches, data=st.data())
    def invalidate(self, branch: str, data: st.DataObject) -> None:
        self.change(branch, data, True, lambda m, i: m.invalidate(i), current=False)

    @rule(branch=branches, data=st.data())
    def reinstate(self, branch: str, data: st.DataObject) -> None:
        self.change(branch, data, False, lambda m, i: m.reinstate(i), current=True)

    @rule(target=branches, parent=branches)
    def fork(self, parent: str) -> str:
        name = f"b{len(self.model.branches)}-{uuid4().hex[:6]}"
        if self.is_over(parent, lambda memory: memory.fork(name)):
            return "main"
        self.on(parent).fork(name)
        self.model.fork(name, parent)
        return name

    @rule(branch=branches, prefer=st.sampled_from(["none", "none", "parent", "child"]))
    def merge(self, branch: str, prefer: str) -> None:
        """What the plain model says is merged, and a conflict stores nothing."""
        if branch == "main" or self.is_over(branch, lambda m: self.memory.merge(branch)):
            return
        before = self.memory.services.log.head()
        expected = self.model.merge(branch, prefer)
        result = self.memory.merge(branch, prefer=prefer)
        assert result.status == expected
        if expected == "merged":
            assert result.index is not None
            self.note(result.index, self.model.parents[branch])
        else:
            assert self.memory.services.log.head() == before
        assert self.memory.merge(branch, prefer=prefer).status != "merged"

    @rule(branch=branches)
    def discard(self, branch: str) -> None:
        """A branch with children stays; ``main`` always does."""
        if branch == "main" or self.is_over(branch, lambda m: self.memory.discard(branch)):
            return
        if self.model.has_children(branch):
            with pytest.raises(RefusedError):
                self.memory.discard(branch)
            return
        self.memory.discard(branch)
        self.model.discarded.add(branch)

    @rule(branch=branches)
    def lists_what_the_model_holds(self, branch: str) -> None:
        if self.is_over(branch, lambda memory: memory.list()):
            return
        page = self.on(branch).list(limit=1000)
        found = [(record.memory_id, record.content) for record in page.memories]
        assert sorted(found) == self.model.current(self.model.branches[branch])

    @rule(branch=branches)
    def recalls_what_the_model_holds(self, branch: str) -> None:
        if self.is_over(branch, lambda memory: memory.recall("x")):
            return
        expected = self.model.current(self.model.branches[branch])
        for _, content in expected[:3]:
            hits = self.on(branch).recall(content, top_k=1000)
            assert {(h.memory_id, h.content) for h in hits} <= set(expected)

    @precondition(lambda self: self.model.past)
    @rule(data=st.data())
    def remembers_the_past(self, data: st.DataObject) -> None:
        index, branch, contents = data.draw(st.sampled_from(self.model.past))
        page = self.on(branch).list(limit=1000, as_of=index)
        found = [(record.memory_id, record.content) for record in page.memories]
        assert sorted(found) == self.model.current(contents)

    @rule(branch=branches)
    def shows_nothing_to_others(self, branch: str) -> None:
        for memory_id in list(self.model.branches["main"])[:2]:
            with pytest.raises(InputError) as refused:
                self.stranger.show(memory_id)
            assert refused.value.code == "unknown_memory"
        assert self.stranger.list().memories == ()

    @rule()
    def replays_equal(self) -> None:
        reports = self.ledger.replay(tenant=self.tenant, verify=True)
        assert {(r.view, r.equal) for r in reports} == {
            ("recall", True),
            ("stats", True),
            ("proofs", True),
        }

    def teardown(self) -> None:
        if hasattr(self, "model"):
            self.replays_equal()
            assert all(report.ok for report in self.ledger.verify(tenant=self.tenant))

    def on(self, branch: str) -> Memory:
        return self.memory.branch(branch)

    def is_over(self, branch: str, act: Callable[[Memory], Any]) -> bool:
        """Whether a branch was discarded; then whatever acts on it must be refused."""
        if branch not in self.model.discarded:
            return False
        with pytest.raises(RefusedError):
            act(self.on(branch))
        return True

    def change(
        self,
        branch: str,
        data: st.DataObject,
        needs_current: bool,
        act: Callable[[Memory, UUID], Any],
        **changes: Any,
    ) -> None:
        """Changes a memory; in the wrong state it must be refused and nothing may happen."""
        contents = self.model.branches[branch]
        if not contents or self.is_over(branch, lambda memory: act(memory, next(iter(contents)))):
            return
        # In the order of creation: ids are random, and a history must run the same again.
        memory_id = data.draw(st.sampled_from(list(contents)))
        expected = contents[memory_id]
        if expected.current is not needs_current:
            with pytest.raises(InputError):
                act(self.on(branch), memory_id)
            return
        receipt = act(self.on(branch), memory_id)
        self.model.put(branch, memory_id, replace(expected, **changes, replaced_by=None))
        if changes == {"current": True}:
            self.model.supersede(branch, expected.subject, memory_id)
        self.note(receipt.index, branch)

    def note(self, index: int, branch: str) -> None:
        self.model.past.append((index, branch, dict(self.model.branches[branch])))


def test_random_histories_agree_with_a_plain_model(shared_ledger: Ledger) -> None:
    """Remember, correct, invalidate, reinstate, fork, merge, discard and replay in any order:
    lists, recalls, the past and every rebuild are what a plain model says, and nobody else sees
    any of it."""

    class Bound(Histories):
        pass

    Bound.ledger = shared_ledger
    run_state_machine_as_test(
        Bound,
        settings=settings(
            max_examples=12,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
