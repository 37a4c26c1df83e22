"""Random histories: the ledger and its views agree with a model of a few dictionaries."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
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
from memoriale.domain.errors import InputError

SUBJECTS = ("contact", "diet", None, None)
WORDS = st.text(alphabet=st.sampled_from("abcde äß漢🙂"), min_size=1, max_size=12).filter(
    lambda text: bool(text.strip())
)


@dataclass(frozen=True)
class Expected:
    """What the model knows of one memory on one branch."""

    content: str
    subject: str | None
    current: bool = True


Contents = dict[UUID, Expected]


@dataclass
class Model:
    """Branches as dictionaries in the order of creation, and what each held at some indices."""

    branches: dict[str, Contents] = field(default_factory=lambda: {"main": {}})
    past: list[tuple[int, str, Contents]] = field(default_factory=list)

    def current(self, contents: Contents) -> list[tuple[UUID, str]]:
        return [(i, memory.content) for i, memory in contents.items() if memory.current]

    def supersede(self, contents: Contents, subject: str | None, but: UUID) -> None:
        for memory_id, memory in contents.items():
            same = subject is not None and memory.subject == subject
            if same and memory.current and memory_id != but:
                contents[memory_id] = replace(memory, current=False)


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
        receipt = self.on(branch).remember(content, kind="fact", subject=subject)
        contents = self.model.branches[branch]
        contents[receipt.memory_id] = Expected(content, subject)
        self.model.supersede(contents, subject, receipt.memory_id)
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
        self.on(parent).fork(name)
        self.model.branches[name] = dict(self.model.branches[parent])
        return name

    @rule(branch=branches)
    def lists_what_the_model_holds(self, branch: str) -> None:
        page = self.on(branch).list(limit=1000)
        found = [(record.memory_id, record.content) for record in page.memories]
        assert found == self.model.current(self.model.branches[branch])

    @rule(branch=branches)
    def recalls_what_the_model_holds(self, branch: str) -> None:
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
        assert found == self.model.current(contents)

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
        if not contents:
            return
        memory_id = data.draw(st.sampled_from(sorted(contents)))
        expected = contents[memory_id]
        if expected.current is not needs_current:
            with pytest.raises(InputError):
                act(self.on(branch), memory_id)
            return
        receipt = act(self.on(branch), memory_id)
        contents[memory_id] = replace(expected, **changes)
        if changes == {"current": True}:
            self.model.supersede(contents, expected.subject, memory_id)
        self.note(receipt.index, branch)

    def note(self, index: int, branch: str) -> None:
        self.model.past.append((index, branch, dict(self.model.branches[branch])))


def test_random_histories_agree_with_a_plain_model(shared_ledger: Ledger) -> None:
    """Remember, correct, invalidate, reinstate, fork and replay in any order: lists, recalls,
    the past and every rebuild are what a plain model says, and nobody else sees any of it."""

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
