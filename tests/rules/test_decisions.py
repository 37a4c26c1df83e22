"""The rules of decisions (R19), each with the reference's behaviour planted to see it fail."""

from collections.abc import Callable, Sequence

import pytest

from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.stores import decisions as surface
from memoriale.adapters.library.stores.decisions import DecisionLog
from memoriale.domain.errors import InputError
from memoriale.domain.memory import MemoryState
from memoriale.domain.steps import Slice
from memoriale.domain.stores import decisions as rules
from memoriale.domain.stores.decisions import DECISION
from tests.rules.planting import Planted

WHY = {"reasoning": "cheaper", "decision_type": "purchase"}


@pytest.fixture
def log(shared_ledger: Ledger, tenant: str) -> DecisionLog:
    """The decisions of an agent of a new tenant."""
    return DecisionLog(shared_ledger.memory(tenant=tenant, agent="buyer"))


def r19_outcome(store: DecisionLog) -> None:
    """A decision is found by what came of it, and by its alternatives."""
    made = store.log_decision(decision={"decision": "took vendor A", **WHY, "alternatives": ["B"]})
    store.log_decision(decision={"decision": "took a train", **WHY})
    store.record_outcome(None, made.id, "the parcels arrived broken", "bad")
    assert [d.id for d in store.search_decisions(query="broken parcels")] == [made.id]


def r19_session(store: DecisionLog) -> None:
    """What was decided in one session is neither listed nor found in another."""
    store.log_decision(decision={"decision": "refund Bob", **WHY}, session_id="s:1")
    store.log_decision(decision={"decision": "refund Ann", **WHY}, session_id="s:1:2")
    listed = store.get_decisions(session_id="s:1")
    found = store.search_decisions(query="refund", session_id="s:1")
    assert [d.decision for d in listed] == ["refund Bob"]
    assert [d.decision for d in found] == ["refund Bob"]


RULES: dict[str, Callable[[DecisionLog], None]] = {
    r.__name__: r for r in (r19_outcome, r19_session)
}


def without_outcome(state: MemoryState) -> str:
    """As the reference, which searches decision, reasoning and context."""
    payload = state.payload
    return "" if payload is None else payload.content


def of_every_session(seen: Slice | None, session_id: str | None, user: object) -> Sequence[object]:
    """As the reference's search, which looks at no session."""
    return [] if seen is None else seen.current(DECISION)


PLANTED = {
    "r19_outcome": Planted(rules, "_all_words", without_outcome),
    "r19_session": Planted(surface, "of_session", of_every_session),
}


@pytest.mark.parametrize("name", RULES)
def test_rule(name: str, log: DecisionLog) -> None:
    """Each rule holds."""
    RULES[name](log)


@pytest.mark.parametrize("name", PLANTED)
def test_the_planted_reference_behaviour_breaks_the_rule(
    name: str, log: DecisionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the reference's behaviour in its place each rule's check turns red."""
    PLANTED[name].put(monkeypatch)
    with pytest.raises(AssertionError):
        RULES[name](log)


def test_another_users_decisions_are_not_told(shared_ledger: Ledger, tenant: str) -> None:
    """An agent that acts for one user is told nothing that it decided for another."""
    for user in ("alice", "bob"):
        handle = shared_ledger.memory(tenant=tenant, agent="buyer", user=user)
        DecisionLog(handle).log_decision(decision={"decision": f"for {user}", **WHY})
    alice = DecisionLog(shared_ledger.memory(tenant=tenant, agent="buyer", user="alice"))
    assert [d.decision for d in alice.get_decisions()] == ["for alice"]


def test_order_limit_and_as_of(log: DecisionLog) -> None:
    """Newest first, at most so many, and as they were."""
    made = [log.log_decision(decision={"decision": f"d{n}", **WHY}) for n in range(3)]
    log.record_outcome(None, made[0].id, "fine", "good")
    assert [d.decision for d in log.get_decisions(limit=2)] == ["d2", "d1"]
    history = log.storage.history(made[0].id)
    before = log.get_decisions(as_of=history[0].index)
    assert [(d.decision, d.outcome) for d in before] == [("d0", None)]
    assert log.get_decisions()[-1].outcome_quality == "good"
    with pytest.raises(InputError, match="limit"):
        log.get_decisions(limit=0)


def test_unknown_decisions_and_wrong_values_are_errors(log: DecisionLog) -> None:
    """An outcome of nothing, or without reasoning, is refused and stores nothing."""
    with pytest.raises(InputError, match="no decision"):
        log.record_outcome(None, "0b0c7c1e-3d55-4f0b-9f6e-6f0f2a3f8c11", "x")
    with pytest.raises(InputError, match="decision cannot be recorded"):
        log.log_decision(decision={"decision": "x"})
    with pytest.raises(InputError, match="quality"):
        log.record_outcome(None, "0b0c7c1e-3d55-4f0b-9f6e-6f0f2a3f8c11", "x", "splendid")
    assert log.get_decisions() == []


def test_repeats_tool_calls_and_clear(log: DecisionLog) -> None:
    """A key makes a repeat harmless; a tool call is a decision; clearing counts truly."""
    same = [
        log.log_decision(decision={"decision": "once", **WHY}, idempotency_key="k") for _ in "ab"
    ]
    assert same[0].id == same[1].id
    called = log.log_tool_call_as_decision(None, "search", {"q": "x" * 500})
    assert called.decision_type == "tool_selection"
    assert len(called.reasoning) < 250
    log.log_tool_call_as_decision(None, "noop", None)
    assert log.clear() == 3
    assert log.get_context_string() == ""
