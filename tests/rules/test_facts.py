"""The rules of facts (R1 to R7), each with the reference's behaviour planted to see it fail."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import pytest

from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.stores.facts import UserFacts
from memoriale.domain.errors import InputError
from memoriale.domain.events import ReasonCode
from memoriale.domain.steps import Slice
from memoriale.domain.stores import facts as rules
from memoriale.domain.stores.facts import AddFacts, NewFact

Rule = Callable[[UserFacts], None]


@pytest.fixture
def facts(alice: Memory) -> UserFacts:
    """The facts of a user of a new tenant."""
    return UserFacts(alice, max_facts=5)


def texts(store: UserFacts) -> list[str]:
    """The texts of the current facts, oldest first."""
    return [fact.fact for fact in store.get_active_facts()]


def reasons(store: UserFacts) -> dict[str, str | None]:
    """Why each fact ended; None for the current ones."""
    return {fact.fact: fact.invalidation_reason for fact in store.get_facts()}


def r1(store: UserFacts) -> None:
    """A fact that names the text it supersedes replaces it, and else that of its subject."""
    store.add_facts(facts=[{"fact": "Lives in Mumbai.", "subject": "location"}])
    new = {"fact": "Lives in Goa", "subject": "location", "supersedes": "lives  in mumbai"}
    store.add_facts(facts=[new])
    assert texts(store) == ["Lives in Goa"]
    store.add_facts(facts=[{**new, "fact": "Lives in Pune", "supersedes": "Lives on the moon"}])
    assert texts(store) == ["Lives in Pune"]


def r2(store: UserFacts) -> None:
    """Of two facts of one subject in one batch the later one is current, and both are kept."""
    batch = [{"fact": "Works at A", "subject": "work"}, {"fact": "Works at B", "subject": "Work"}]
    store.add_facts(facts=batch)
    assert texts(store) == ["Works at B"]
    assert reasons(store) == {"Works at A": "superseded", "Works at B": None}


def r3(store: UserFacts) -> None:
    """A fact that comes back replaces what stands in its place, with what is said of it now."""
    for city in ("Mumbai", "Bangalore"):
        store.add_facts(facts=[{"fact": city, "subject": "location"}])
    store.add_facts(
        facts=[{"fact": "mumbai", "subject": "location", "importance": 0.9, "topics": ["home"]}]
    )
    assert texts(store) == ["mumbai"]
    fact = store.get_active_facts()[0]
    assert (fact.importance, fact.topics) == (0.9, ("home",))


def r4(store: UserFacts) -> None:
    """One canonical form decides what is equal when adding, superseding and forgetting."""
    store.add_facts(facts=["Likes  CAFÉ au lait."])
    store.add_facts(facts=["likes cafe\u0301 au lait!"])
    assert len(texts(store)) == 1
    assert store.forget_by_text(fact_texts=[" LIKES CAFÉ AU LAIT "]) == 1


def r5(store: UserFacts) -> None:
    """What is superseded or forgotten stands in no prompt."""
    store.add_facts(facts=[{"fact": "Old job", "subject": "job"}, "Secret illness"])
    store.add_facts(facts=[{"fact": "New job", "subject": "job"}])
    store.forget_by_text(fact_texts=["secret illness"])
    prompt = store.get_context_string()
    assert "New job" in prompt
    assert "Old job" not in prompt
    assert "illness" not in prompt.lower()


def r6(store: UserFacts) -> None:
    """What was forgotten is not learnt again from a model's reply; a person may restate it."""
    store.add_facts(facts=["Has a cat"], source="auto")
    store.forget_by_text(fact_texts=["has a cat"])
    assert store.add_facts(facts=["Has a cat."], source="auto") == []
    assert texts(store) == []
    store.add_facts(facts=["Has a cat"], source="manual")
    assert texts(store) == ["Has a cat"]


def r7(store: UserFacts) -> None:
    """Beyond the cap the least important go, then the oldest, those of people last: pruned."""
    store.add_facts(facts=[{"fact": "said", "importance": 0.0}])
    rated = [{"fact": f"read {n}", "importance": n / 10} for n in (9, 1, 5, 1, 7)]
    rated[3]["fact"] = "read 1 again"
    store.add_facts(facts=rated, source="auto")
    assert texts(store) == ["said", "read 9", "read 5", "read 1 again", "read 7"]
    assert reasons(store)["read 1"] == "pruned"


RULES: dict[str, Rule] = {r.__name__: r for r in (r1, r2, r3, r4, r5, r6, r7)}


@pytest.mark.parametrize("name", RULES)
def test_rule(name: str, facts: UserFacts) -> None:
    """Each rule holds."""
    RULES[name](facts)


def only_earlier(self: AddFacts, seen: Slice, new: NewFact) -> list[UUID]:
    """As the reference: ``supersedes`` switches the subject rule off."""
    wanted = new.supersedes
    current = [state for state in seen.current() if state.payload is not None]
    if wanted is not None:
        text = wanted.lower().strip()
        return [s.memory_id for s in current if rules.fact_text(s) == text]
    return [s.memory_id for s in current if new.subject and rules.fact_subject(s) == new.subject]


def nothing_of_the_batch(self: AddFacts, seen: Slice, new: NewFact) -> list[UUID]:
    """As the reference: what the same batch made is not looked at."""
    return []


def without_superseding(self: AddFacts, seen: Slice, new: NewFact, by: UUID) -> None:
    """As the reference, which reactivates without a look at the subject."""


def shown_when_ended(seen: Slice, kind: str | None = None) -> list[Any]:
    """As the reference, which prints what was forgotten."""
    return list(seen.states.values())


def never_blocked(seen: Slice, text: str, given: str) -> list[Any]:
    """As the reference for what was removed: nothing is known of it any more."""
    return []


def newest_stay(self: AddFacts, seen: Slice) -> None:
    """As the reference, which drops the oldest, however important."""
    known = [*(state.memory_id for state in seen.current()), *self._made]
    for memory_id in known[: max(0, len(known) - self.most)]:
        self._end(memory_id, ReasonCode.PRUNED)


def by_case_alone(text: str) -> str:
    """As the reference when it forgets: case and margins."""
    return text.lower().strip()


PLANTED: dict[str, tuple[object, str, object]] = {
    "r1": (AddFacts, "_replaced", only_earlier),
    "r2": (AddFacts, "_replaced", nothing_of_the_batch),
    "r3": (AddFacts, "_supersede", without_superseding),
    "r4": (rules, "canonical_fact", by_case_alone),
    "r5": (Slice, "current", shown_when_ended),
    "r6": (rules, "_former", never_blocked),
    "r7": (AddFacts, "_prune", newest_stay),
}


@pytest.mark.parametrize("name", PLANTED)
def test_the_planted_reference_behaviour_breaks_the_rule(
    name: str, facts: UserFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the reference's behaviour in its place each rule's check turns red."""
    target, attribute, variant = PLANTED[name]
    monkeypatch.setattr(target, attribute, variant)
    with pytest.raises(AssertionError):
        RULES[name](facts)


def test_two_writers_lose_no_fact(facts: UserFacts) -> None:
    """Of facts that eight threads add at once none is lost."""
    store = UserFacts(facts.storage, max_facts=1_000)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: store.add_facts(facts=[f"fact {n}"]), range(40)))
    assert sorted(texts(store)) == sorted(f"fact {n}" for n in range(40))


def test_another_user_is_acted_for_by_right(shared_ledger: Ledger, tenant: str) -> None:
    """A store on a tenant's handle keeps users apart, and each has its own facts."""
    store = UserFacts(shared_ledger.memory(tenant=tenant))
    store.add_facts("alice", ["Likes tea"])
    store.add_facts("bob", ["Likes coffee"])
    assert [f.fact for f in store.get_active_facts("alice")] == ["Likes tea"]
    assert [f.fact for f in store.get_active_facts("bob")] == ["Likes coffee"]
    assert store.get_active_facts("carol") == []


def test_missing_owner_is_an_error(shared_ledger: Ledger, tenant: str) -> None:
    """Without a user nothing is read or stored."""
    store = UserFacts(shared_ledger.memory(tenant=tenant))
    with pytest.raises(InputError, match="user_id"):
        store.get_facts()


def test_a_bad_fact_stores_none(facts: UserFacts) -> None:
    """One fact that cannot be stored refuses the whole call."""
    with pytest.raises(InputError):
        facts.add_facts(facts=["good", {"fact": "bad", "importance": 7}])
    with pytest.raises(InputError, match=r"facts\[1\]"):
        facts.add_facts(facts=["good", {"fakt": "bad"}])
    assert facts.get_facts() == []


def test_as_of_and_replay(facts: UserFacts, alice: Memory) -> None:
    """What was current at an index is told as of it, and removed facts count as then."""
    facts.add_facts(facts=["first"])
    index = alice.list().memories[0].index
    (fact,) = facts.get_active_facts()
    assert facts.remove_fact(fact_id=fact.id)
    assert not facts.remove_fact(fact_id=fact.id)
    assert texts(facts) == []
    assert [f.fact for f in facts.get_active_facts(as_of=index)] == ["first"]


def test_a_repeated_call_with_its_key_stores_nothing_twice(facts: UserFacts) -> None:
    """The second call with the same idempotency key changes nothing."""
    for _ in range(2):
        facts.add_facts(facts=["once"], idempotency_key="k1")
    assert texts(facts) == ["once"]
    assert facts.clear() == 1
    assert facts.clear() == 0


def test_what_a_store_tells_is_on_record(facts: UserFacts, shared_ledger: Ledger) -> None:
    """An auditor sees who was told a fact, and by which call."""
    (fact_id,) = facts.add_facts(facts=["Likes tea"])
    facts.get_context_string()
    tenant = facts.storage.principal.tenant
    seen = shared_ledger.access.who_saw(fact_id, tenant=tenant)
    assert [entry.command for entry in seen] == ["facts.context"]


def test_a_reply_of_ten_thousand_facts_keeps_the_cap(alice: Memory) -> None:
    """However many facts a model names at once, the most important ones stay, in one append."""
    store = UserFacts(alice, max_facts=100)
    many = [{"fact": f"User knows number {n}", "importance": n / 10_000} for n in range(10_000)]
    store.add_facts(facts=many, source="auto")
    kept = store.get_active_facts()
    assert len(kept) == 100
    assert {fact.fact for fact in kept} == {f"User knows number {n}" for n in range(9_900, 10_000)}
