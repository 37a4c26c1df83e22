"""The rules of learnings and corrections (R8 to R12), and the behaviour that breaks each."""

from collections.abc import Callable, Iterable
from typing import Any
from uuid import UUID

import pytest

from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.stores import corrections as surface
from memoriale.adapters.library.stores import learnings as learnings_surface
from memoriale.adapters.library.stores import scoped
from memoriale.adapters.library.stores.corrections import CorrectionStore
from memoriale.adapters.library.stores.learnings import LearnedKnowledge
from memoriale.domain.access import Visibility
from memoriale.domain.chat import ChatMessage
from memoriale.domain.errors import InputError
from memoriale.domain.events import ReasonCode
from memoriale.domain.memory import MemoryState
from memoriale.domain.steps import End, Slice, Step
from memoriale.domain.stores import learnings as rules
from memoriale.domain.stores import scopes
from memoriale.domain.stores.ending import end_all
from memoriale.domain.stores.learnings import Learning
from tests.rules.planting import Planted

TEXT = "Freight invoices use charge code 4400"


class Desk:
    """An agent of a tenant with its learnings and corrections, for one user after the other."""

    def __init__(self, ledger: Ledger, tenant: str) -> None:
        self.ledger, self.tenant = ledger, tenant

    def learnings(self, **who: Any) -> LearnedKnowledge:
        """The learnings as somebody sees them; default: alice with the agent."""
        named = who or {"user": "alice", "agent": "clerk"}
        return LearnedKnowledge(self.ledger.memory(tenant=self.tenant, **named), top_k=50)

    def corrections(self, **config: Any) -> CorrectionStore:
        """The corrections of the agent for alice; similar is what shares most words."""
        memory = self.ledger.memory(tenant=self.tenant, user="alice", agent="clerk")
        given = {"contradiction_threshold": 0.3, "search_seconds": 30.0, **config}
        return CorrectionStore(memory, **given)

    def learn(self, text: str, source: str = "llm-extracted", **more: Any) -> Learning:
        """A learning of the agent's."""
        new = {"title": "charge codes", "content": text, "source": source, "scope": "agent"}
        return self.learnings().save_learning({**new, **more})

    def correct(self, store: CorrectionStore | None = None) -> None:
        """The correction that contradicts ``TEXT``."""
        (store or self.corrections()).record_correction(
            {
                "field": "charge code",
                "original_value": "4400",
                "corrected_value": "4410",
                "reason": TEXT,
            }
        )

    def ended(self, learning: Learning) -> str | None:
        """Why a learning ended; None when it is current."""
        found = self.learnings().get_learning(learning.id)
        assert found is not None
        return found.invalidation_reason


@pytest.fixture
def desk(shared_ledger: Ledger, tenant: str) -> Desk:
    """A desk in a new tenant."""
    return Desk(shared_ledger, tenant)


def r8_all_and_only_unverified(desk: Desk) -> None:
    """A correction retires every unverified learning that it contradicts, none of people's."""
    extracted = [desk.learn(TEXT) for n in range(14)]
    human = [desk.learn(TEXT, "manual"), desk.learn(TEXT, "human-correction")]
    agreeing = desk.learn("Freight invoices use charge code 4410")
    desk.correct()
    assert {desk.ended(one) for one in extracted} == {"contradicted"}
    assert {desk.ended(one) for one in human} == {None}
    assert desk.ended(agreeing) is None


def r8_every_entrance(desk: Desk) -> None:
    """The store, its tool, and a plain memory of kind correction all retire it."""
    details = {"original_value": "4400", "corrected_value": "4410", "scope": "agent"}
    first = desk.learn(TEXT)
    tool = desk.corrections().get_tools()[0]
    tool.handler({"original_value": "4400", "corrected_value": "4410", "reason": TEXT})
    assert desk.ended(first) == "contradicted"
    second = desk.learn(TEXT)
    memory = desk.ledger.memory(tenant=desk.tenant, user="alice", agent="clerk")
    details["explanation"] = f"charge codes: {TEXT}"
    memory.remember(TEXT, kind="correction", owner="agent", details=details)
    desk.ledger.jobs.run(tenant=desk.tenant)
    assert desk.ended(second) == "contradicted"


def r9_job_when_out_of_time(desk: Desk) -> None:
    """What is not found in time becomes a job; until it ran, hints are marked contested."""
    learnt = desk.learn(TEXT)
    desk.correct(desk.corrections(search_seconds=0.0))
    assert desk.ended(learnt) is None
    assert "[contested]" in desk.learnings().get_context_string("charge code freight")
    (job,) = desk.ledger.jobs.run(tenant=desk.tenant)
    assert (job.status, job.result) == ("completed", {"retired": [str(learnt.id)]})
    assert desk.ended(learnt) == "contradicted"
    assert "contested" not in desk.learnings().get_context_string("charge code freight")


def r10_denied_by_default(desk: Desk) -> None:
    """Without identity nothing but the tenant's is found; a small owner gets its own in full."""
    for n in range(20):
        desk.learn(f"{TEXT} of Alice {n}", scope="user")
    bob = desk.learnings(user="bob")
    bob.save_learning({"title": "mine", "content": TEXT})
    desk.learnings(user="carol").save_learning(
        {"title": "ours", "content": TEXT, "scope": "tenant"}
    )
    assert {one.title for one in desk.learnings(user=None).search_learnings(TEXT)} == {"ours"}
    assert {one.title for one in bob.search_learnings(TEXT, 2)} == {"mine", "ours"}


def r10_agent_within_tenant(desk: Desk) -> None:
    """An agent of the same name in another tenant sees nothing."""
    desk.learn(TEXT)
    other = LearnedKnowledge(desk.ledger.memory(tenant=f"{desk.tenant}-2", agent="clerk"))
    assert other.search_learnings(TEXT) == []
    assert len(desk.learnings(agent="clerk").search_learnings(TEXT)) == 1


def r11_grounding(desk: Desk) -> None:
    """Evidence must stand in what people or tools said, in more than a word."""
    said = [
        ChatMessage(role="user", content="Our freight  code is 4410, please."),
        ChatMessage(role="assistant", content="I will always use 9999 then."),
    ]
    assert rules.grounded("freight CODE is 4410", said)
    assert not rules.grounded("always use 9999", said)
    assert not rules.grounded("freight", said)


def r12_prune(desk: Desk) -> None:
    """Pruning ends old unverified ones of the named owner alone, and keeps the rest."""
    old = desk.learn(TEXT)
    kept = desk.learn(TEXT, "manual")
    other = desk.learn(TEXT, scope="user")
    store = desk.learnings()
    assert store.prune_learnings(1) == 0
    assert store.prune_learnings(0, agent_name="clerk") == 1
    assert [desk.ended(one) for one in (old, kept, other)] == ["pruned", None, None]


RULES: dict[str, Callable[[Desk], None]] = {
    rule.__name__: rule
    for rule in (
        r8_all_and_only_unverified,
        r8_every_entrance,
        r9_job_when_out_of_time,
        r10_denied_by_default,
        r10_agent_within_tenant,
        r11_grounding,
        r12_prune,
    )
}


def ten_of_any_tier(states: Iterable[MemoryState], by: UUID, **values: Any) -> list[End]:
    """As the reference: at most ten, and agreement is not looked at."""
    chosen = [s for s in states if s.source_tier == "llm-extracted"][:10]
    return [
        End(memory_id=s.memory_id, because=ReasonCode.CONTRADICTED, replaced_by=by) for s in chosen
    ]


def everyone(scope: str) -> Visibility:
    """As the reference's search without identifiers, which returns everybody's."""
    return Visibility.TENANT


def anywhere(evidence: str, messages: list[ChatMessage]) -> bool:
    """As the reference: the assistant's own words count, and so does one word."""
    return any(evidence.lower() in m.text().lower() for m in messages)


def whatever_the_tier(seen: Slice, days: float, sources: object) -> list[Step]:
    """As the reference, which prunes what people wrote as well."""
    return end_all(seen, rules.LEARNING, ReasonCode.PRUNED)


PLANTED = {
    "r8_all_and_only_unverified": Planted(surface, "contradicted", ten_of_any_tier),
    "r8_every_entrance": Planted(CorrectionStore, "_similar", lambda self, memory, new: []),
    "r9_job_when_out_of_time": Planted(CorrectionStore, "_similar", lambda self, memory, new: []),
    "r10_denied_by_default": Planted(scoped, "visibility_of_scope", everyone),
    "r11_grounding": Planted(rules, "grounded", anywhere),
    "r12_prune": Planted(learnings_surface, "outdated", whatever_the_tier),
}


@pytest.mark.parametrize("name", RULES)
def test_rule(name: str, desk: Desk) -> None:
    """Each rule holds."""
    RULES[name](desk)


@pytest.mark.parametrize("name", PLANTED)
def test_the_planted_reference_behaviour_breaks_the_rule(
    name: str, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the reference's behaviour in its place each rule's check turns red."""
    PLANTED[name].put(monkeypatch)
    with pytest.raises(AssertionError):
        RULES[name](desk)


def test_an_empty_output_can_be_corrected(desk: Desk) -> None:
    """An output that was missing is a correction like another."""
    made = desk.corrections().record_correction({"original_value": "", "corrected_value": "42"})
    assert made.original_value == ""
    assert desk.corrections().get_correction(made.id) == made


def test_corrections_are_listed_counted_and_made_cases(desk: Desk) -> None:
    """Lists, statistics and cases tell what was recorded, by entity and field."""
    store = desk.corrections()
    for entity, field in (("vendor-1", "code"), ("vendor-1", None), (None, "code")):
        store.record_correction(
            {"original_value": "a", "corrected_value": "b", "entity_key": entity, "field": field}
        )
    made = store.record_correction(
        {"original_value": "x", "corrected_value": "y", "original_input": "which?", "tags": ["t"]}
    )
    stats = store.get_stats()
    assert (stats.total, stats.by_entity_key, stats.by_field) == (4, {"vendor-1": 2}, {"code": 2})
    assert len(store.list_corrections(entity_key="vendor-1")) == 2
    (case,) = store.to_eval_cases()
    assert (case.input, case.expected, case.correction_id) == ("which?", "y", made.id)
    assert made.tags == ("t",)
    found = store.search_corrections("code", 10, entity_key="vendor-1")
    assert {correction.entity_key for correction in found} == {"vendor-1"}
    assert store.delete_correction(made.id)
    assert not store.delete_correction(made.id)
    assert store.get_stats().total == 3


def test_listeners_hear_after_the_commit_and_fail_nothing(desk: Desk) -> None:
    """A listener that raises changes nothing; both hear what happened."""
    heard: list[Any] = []
    learnt = desk.learn(TEXT)

    def recorded(correction: Any) -> None:
        heard.append(correction.id)
        raise RuntimeError("listener")

    store = desk.corrections(on_recorded=recorded, on_retired=lambda ids, c: heard.append(ids))
    desk.correct(store)
    assert heard[1] == [learnt.id]


def test_learnings_change_by_id(desk: Desk) -> None:
    """Ended ones stay readable, are found no more, and keep their time."""
    store = desk.learnings()
    one, two = desk.learn(TEXT), desk.learn(TEXT, "manual", context="freight")
    assert store.invalidate_learning(one.id, two.id)
    ended = store.get_learning(one.id)
    assert ended is not None
    assert (ended.invalidation_reason, ended.superseded_by) == ("superseded", two.id)
    assert not store.invalidate_learning(one.id)
    assert [found.id for found in store.search_learnings(TEXT)] == [two.id]
    assert store.delete_learning(two.id)
    assert not store.delete_learning("0b0c7c1e-3d55-4f0b-9f6e-6f0f2a3f8c11")
    assert store.get_context_string("anything") == ""
    assert store.get_context_string("  ") == ""


@pytest.mark.parametrize(
    "wrong",
    [
        {"title": "x"},
        {"title": "x", "content": "y", "scope": "galaxy"},
        {"title": "x", "content": "y", "source": "rumour"},
        {"title": "x", "content": "y", "importance": 2},
        {"title": "x", "content": "y", "tenant_id": "another"},
    ],
)
def test_a_wrong_learning_is_refused(wrong: dict[str, Any], desk: Desk) -> None:
    """A missing field or a wrong value stores nothing and is named."""
    with pytest.raises(InputError):
        desk.learnings().save_learning(wrong)


def test_a_scope_needs_its_owner(desk: Desk) -> None:
    """A learning for an agent needs one, and for a user one."""
    with pytest.raises(InputError, match="agent_name"):
        desk.learnings(user="bob").save_learning({"title": "x", "content": "y", "scope": "agent"})
    with pytest.raises(InputError, match="user_id"):
        desk.learnings(agent="clerk").save_learning({"title": "x", "content": "y"})


def test_scopes_say_who_owns() -> None:
    """Only what is kept for the tenant is visible to others than its owner."""
    assert scopes.visibility_of_scope("tenant") is Visibility.TENANT
    assert scopes.visibility_of_scope("agent") is Visibility.OWNER
