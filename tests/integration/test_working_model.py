"""Random histories of working memory on the ledger agree with a dictionary for each resource."""

from typing import Any
from uuid import uuid4

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)

from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.resources.ledger_working import LedgerWorkingMemory
from memoriale.adapters.library.resources.places import Places
from memoriale.domain.resources.ref import ResourceRef

KEYS = st.sampled_from(["a", "b", "é", "10", "9", "Z", "__last", "_x"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-2, 2) | st.text("ab漢", max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("k$", max_size=2), inner),
    max_leaves=4,
)


def is_listed(key: str) -> bool:
    return not key.startswith("__")


class Histories(RuleBasedStateMachine):
    """Sets, deletes, forks, and forks of forks; ``ledger`` is set by the test."""

    refs = Bundle("refs")
    ledger: Ledger

    @initialize(target=refs, team=st.sampled_from([None, "red"]))
    def begins(self, team: str | None) -> ResourceRef:
        self.provider = LedgerWorkingMemory(self.ledger, tenant=f"t-{uuid4().hex[:12]}")
        self.other = LedgerWorkingMemory(self.ledger, tenant=self.provider.tenant)
        first = ResourceRef("r0", team)
        self.expected: dict[ResourceRef, dict[str, Any]] = {first: {}}
        self.past: list[tuple[ResourceRef, int, dict[str, Any]]] = []
        return first

    @rule(ref=refs, key=KEYS, value=VALUES)
    def sets(self, ref: ResourceRef, key: str, value: Any) -> None:
        self.provider.set(ref, key, value)
        self.expected[ref][key] = value
        self.keeps(ref)

    @rule(ref=refs, key=KEYS)
    def deletes(self, ref: ResourceRef, key: str) -> None:
        assert self.provider.delete(ref, key) is (key in self.expected[ref])
        self.expected[ref].pop(key, None)
        self.keeps(ref)

    @rule(target=refs, parent=refs)
    def forks(self, parent: ResourceRef) -> ResourceRef:
        child = ResourceRef(f"r{len(self.expected)}", parent.team_id)
        self.provider.fork(parent, child)
        values = self.expected[parent]
        self.expected[child] = {key: values[key] for key in values if is_listed(key)}
        return child

    def keeps(self, ref: ResourceRef) -> None:
        index = self.ledger.tenant(self.provider.tenant).log.head() - 1
        if index >= 0:
            self.past.append((ref, index, dict(self.expected[ref])))

    @rule(ref=refs, key=KEYS)
    def gets(self, ref: ResourceRef, key: str) -> None:
        found = self.other.get(ref, key, "missing")
        assert found == self.expected[ref].get(key, "missing")

    def teardown(self) -> None:
        for ref, values in getattr(self, "expected", {}).items():
            listed = {key: value for key, value in values.items() if is_listed(key)}
            for provider in (self.provider, self.other):
                page = provider.list(ref)
                assert dict(page) == listed
                assert list(page) == sorted(listed, key=str.encode)
        places = Places(self.ledger, self.provider.tenant, {})
        for ref, index, values in getattr(self, "past", [])[:8]:
            working = places.of(ref).memory.working
            listed = {key: value for key, value in values.items() if is_listed(key)}
            assert dict(working.list(as_of=index)) == listed
            assert all(working.get(k, as_of=index) == v for k, v in values.items())


def test_random_histories_agree_with_dictionaries(shared_ledger: Ledger) -> None:
    """Whatever is set, deleted and forked, each resource has what a dictionary of its own has,
    now and as of what it was then."""

    class OnLedger(Histories):
        ledger = shared_ledger

    run_state_machine_as_test(
        OnLedger,
        settings=settings(
            max_examples=20,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
