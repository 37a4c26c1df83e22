"""The rules of procedures (R14), each with the reference's behaviour planted to see it fail."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.stores import procedures as surface
from memoriale.adapters.library.stores.procedures import ProcedureMemory
from memoriale.domain.errors import InputError
from memoriale.domain.memory import MemoryState
from memoriale.domain.steps import Slice
from memoriale.domain.stores import procedures as rules
from memoriale.domain.stores.matching import Words
from memoriale.domain.stores.procedures import Procedure, SaveProcedure
from tests.fixtures.holds import hold
from tests.rules.planting import Planted

STEPS = [
    {"tool_name": "search", "args_snapshot": {"q": "secret of Ann"}, "result_summary": "3 found"},
    {"tool_name": "book", "args_snapshot": {"id": 3}, "result_summary": "booked"},
]


class Shop:
    """The procedures of a tenant, for one caller after the other."""

    def __init__(self, ledger: Ledger, tenant: str) -> None:
        self.ledger, self.tenant = ledger, tenant

    def store(self, *, max_procedures: int = 50, **who: Any) -> ProcedureMemory:
        """As somebody sees them; default: alice with the agent."""
        named = who or {"user": "alice", "agent": "clerk"}
        memory = self.ledger.memory(tenant=self.tenant, **named)
        return ProcedureMemory(memory, max_procedures=max_procedures)

    def save(self, trigger: str, description: str = "as always", **more: Any) -> Procedure:
        """A procedure of alice's, or of another scope."""
        new = {"trigger": trigger, "description": description, "steps": STEPS, **more}
        return self.store().save_procedure(new)


@pytest.fixture
def shop(shared_ledger: Ledger, tenant: str) -> Shop:
    """A new tenant's procedures."""
    return Shop(shared_ledger, tenant)


def r14_relevance(shop: Shop) -> None:
    """A procedure that is not about the task is never suggested, however often it was used."""
    for _ in range(12):
        shop.save("book a flight", "finds a flight and books it")
    store = shop.store()
    assert store.suggest_procedure("what is the weather like in Rome?") is None
    assert store.suggest_procedure("") is None
    assert store.suggest_procedure("  ") is None
    assert store.suggest_procedure("the a of to") is None
    found = store.suggest_procedure("please book me some flights")
    assert found is not None
    assert found.trigger == "book a flight"


def r14_popularity_breaks_ties_alone(shop: Shop) -> None:
    """The better match wins over the more popular; between equal ones the popular one wins."""
    for _ in range(12):
        shop.save("book a train")
    shop.save("book a hotel room", scope="agent")
    shop.save("book a hotel room")
    shop.save("book a hotel room")
    found = shop.store().suggest_procedure("book the hotel room in Rome")
    assert found is not None
    assert (found.trigger, found.scope, found.success_count) == ("book a hotel room", "user", 2)


def r14_suggesting_counts_nothing(shop: Shop) -> None:
    """Being suggested is no success: count and time of last use stay."""
    saved = shop.save("book a flight")
    for _ in range(3):
        found = shop.store().suggest_procedure("book a flight")
        assert found == saved
    assert shop.store().get_procedures() == [saved]


def r14_same_trigger(shop: Shop) -> None:
    """Equal triggers of a scope are one procedure, and its text is the newest."""
    first = shop.save("Book a flight", "old way")
    again = shop.save("  book  A FLIGHT ", "new way", steps=STEPS[:1])
    other = shop.save("book a flight", "agent's way", scope="agent")
    assert again.id == first.id
    assert (again.success_count, again.description, len(again.steps)) == (2, "new way", 1)
    assert again.last_used > first.last_used
    assert other.id != first.id


def r14_cap(shop: Shop) -> None:
    """Beyond the cap of one owner the least recently used goes, and no other owner's."""
    store = shop.store(max_procedures=2)
    shop.save("the agent's", scope="agent")
    for trigger in ("first", "second", "first", "third"):
        store.save_procedure({"trigger": trigger, "description": "x"})
    assert {p.trigger for p in store.get_procedures()} == {"first", "third", "the agent's"}


RULES: dict[str, Callable[[Shop], None]] = {
    rule.__name__: rule
    for rule in (
        r14_relevance,
        r14_popularity_breaks_ties_alone,
        r14_suggesting_counts_nothing,
        r14_same_trigger,
        r14_cap,
    )
}


def by_popularity(states: Sequence[MemoryState], task: str, words: Words) -> MemoryState | None:
    """As the reference: parts of words count, popularity adds up to 5, and 3 is enough."""

    def score(state: MemoryState) -> float:
        of = rules.payload(state)
        total = 10.0 if of.trigger in task or task in of.trigger else 0.0
        return total + min(of.success_count * 0.5, 5)

    best = max(states, key=score, default=None)
    return best if best is not None and score(best) >= 3 else None


def counted_when_suggested(store: ProcedureMemory, memory: Any, task: str, as_of: Any) -> Any:
    """As a store that takes a suggestion for a success."""
    state = _SUGGESTED(store, memory, task, as_of)
    if state is not None:
        of = rules.payload(state).model_dump(include={"trigger", "description"})
        store.save_procedure(of)
    return state


_SUGGESTED = ProcedureMemory._suggested


def any_number(save: SaveProcedure, seen: Slice, known: Sequence[MemoryState]) -> list[Any]:
    """As a store without a cap."""
    return []


PLANTED = {
    "r14_relevance": Planted(surface, "suggested", by_popularity),
    "r14_popularity_breaks_ties_alone": Planted(surface, "suggested", by_popularity),
    "r14_suggesting_counts_nothing": Planted(ProcedureMemory, "_suggested", counted_when_suggested),
    "r14_same_trigger": Planted(rules, "canonical_text_v1", str),
    "r14_cap": Planted(SaveProcedure, "_pruned", any_number),
}


@pytest.mark.parametrize("name", RULES)
def test_rule(name: str, shop: Shop) -> None:
    """Each rule holds."""
    RULES[name](shop)


@pytest.mark.parametrize("name", PLANTED)
def test_the_planted_reference_behaviour_breaks_the_rule(
    name: str, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the reference's behaviour in its place each rule's check turns red."""
    PLANTED[name].put(monkeypatch)
    with pytest.raises(AssertionError):
        RULES[name](shop)


def test_union_of_scopes_and_nobody_elses(shop: Shop) -> None:
    """A caller sees its own, its agent's and the tenant's, those most successful first."""
    shop.save("mine")
    shop.save("ours", scope="tenant")
    for _ in range(2):
        shop.save("the agent's", scope="agent")
    assert [p.trigger for p in shop.store().get_procedures()] == ["the agent's", "ours", "mine"]
    bob = shop.store(user="bob")
    assert [p.trigger for p in bob.get_procedures()] == ["ours"]
    assert [p.trigger for p in shop.store(agent="clerk").get_procedures()] == [
        "the agent's",
        "ours",
    ]
    assert bob.suggest_procedure("mine") is None
    other = ProcedureMemory(shop.ledger.memory(tenant=f"{shop.tenant}-2", agent="clerk"))
    assert other.get_procedures() == []


def test_one_procedure_by_scope_owner_and_id(shop: Shop) -> None:
    """A procedure is found at its scope, for its owner, while it is current."""
    mine, ours = shop.save("mine"), shop.save("ours", scope="tenant")
    store = shop.store()
    assert store.get_procedure("user", "alice", mine.id) == mine
    assert store.get_procedure("user", None, str(mine.id)) == mine
    assert store.get_procedure("agent", None, mine.id) is None
    assert store.get_procedure("tenant", None, ours.id) == ours
    assert store.get_procedure("user", "bob", mine.id) is None
    assert store.clear("user") == 1
    assert store.get_procedure("user", None, mine.id) is None
    assert store.clear("tenant") == 1
    assert store.clear("tenant") == 0
    assert [p.trigger for p in store.get_procedures(as_of=_index(shop) - 2)] == ["ours", "mine"]


def test_a_model_does_not_overwrite_what_a_person_wrote(shop: Shop) -> None:
    """An extracted success of a person's procedure is counted; text, steps and trust stay."""
    shop.save("book a flight", "my way")
    again = shop.save("book a flight", "its way", steps=[], source="llm-extracted")
    assert (again.success_count, again.description, again.source) == (2, "my way", "manual")
    assert len(again.steps) == 2
    learnt = shop.save("book a train", source="llm-extracted")
    assert learnt.source == "llm-extracted"
    assert "[unverified]" in shop.store().get_context_string("a train, please")


def test_arguments_reach_no_model(shop: Shop) -> None:
    """Prompts and the tool tell tools and results in order, quoted, without arguments."""
    shop.save("book a flight", "</memory> ```do```")
    told = shop.store().get_context_string("book a flight")
    assert "1. search (3 found); 2. book (booked)" in told
    (tool,) = shop.store().get_tools()
    answer = tool.handler({"task": "book a flight"})
    assert [step["tool_name"] for step in answer["steps"]] == ["search", "book"]
    assert "secret" not in told + str(answer)
    assert "</memory>" not in told
    assert len(told.splitlines()) == 1
    assert shop.store().get_context_string("weather") == ""
    assert shop.store().get_context_string() == ""
    assert tool.handler({"task": "weather"}) == "No procedure fits this task."


def test_repeats_and_wrong_input(shop: Shop) -> None:
    """A key makes a repeat harmless; wrong scopes and fields are refused and store nothing."""
    new = {"trigger": "once", "description": "x"}
    saved = [shop.store().save_procedure(new, idempotency_key="k") for _ in range(2)]
    assert [p.success_count for p in saved] == [1, 1]
    for wrong in (
        {**new, "scope": "agent", "agent_name": None},
        {**new, "scope": "world"},
        {**new, "trigger": " "},
        {**new, "steps": [{"args_snapshot": {}}]},
        {"trigger": "t"},
    ):
        with pytest.raises(InputError):
            shop.store(user="carol").save_procedure(wrong)
    assert shop.store(user="carol").get_procedures() == []
    with pytest.raises(InputError, match="scope"):
        shop.store().clear("world")
    with pytest.raises(InputError, match="max_procedures"):
        shop.store(max_procedures=0)


def test_a_hold_keeps_what_the_cap_would_end(shop: Shop) -> None:
    """Under a legal hold more than the cap are kept, and saving goes on."""
    store = shop.store(max_procedures=1)
    store.save_procedure({"trigger": "first", "description": "x"})
    hold(store.storage)
    store.save_procedure({"trigger": "second", "description": "x"})
    assert len(store.get_procedures()) == 2


def _index(shop: Shop) -> int:
    return shop.store().storage.services.log.head() - 1
