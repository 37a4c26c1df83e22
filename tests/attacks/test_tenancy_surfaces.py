"""Every entrance of the Python surface, asked by a neighbour with the victim's names and ids."""

import asyncio
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any, Final

import pytest

import memoriale
from memoriale.adapters.library.asynchronous import AsyncLedger, AsyncMemory
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.stores.base import Store
from memoriale.adapters.library.stores.manager import MemoryManager
from memoriale.adapters.tenants import Tenants
from memoriale.domain.access import AccessScope
from memoriale.domain.errors import MemorialeError
from memoriale.domain.tools import ToolDef
from tests.fixtures.language_models import silent
from tests.fixtures.neighbours import OWN, QUESTION, Victim, leaked, told, victim
from tests.fixtures.surfaces import public
from tests.integration.test_rights_of_methods import CALLS, Call, Place, first

STORES: Final = [
    found
    for name in memoriale.__all__
    if inspect.isclass(found := getattr(memoriale, name)) and issubclass(found, Store)
]


@dataclass
class Attack:
    """
    A neighbour of a victim.

    Args:
        victim: Whom it is about.
        mallory: The neighbour's handle.
        place: What the calls of the matrix are made with.
        secrets: What no answer may hold.
    """

    victim: Victim
    mallory: Memory
    place: Place
    secrets: set[str]

    def asked(self) -> list[str]:
        """What the neighbour brings along and may be told again."""
        principal = self.victim.memory.principal
        names = (subject.id for subject in principal.identities())
        return [*self.victim.ids.values(), *names, str(principal.resource)]

    def leaks(self, make: Callable[[], Any]) -> set[str]:
        """What a call gives away, in its answer or in its error."""
        try:
            text = told(make())
        except MemorialeError as error:
            text = f"{error}\n{error.as_dict()}"
        return leaked(text, self.secrets, self.asked())


def attack(ledger: Ledger, target: Victim, tenant: str, folder: Path) -> Attack:
    """A neighbour in the same tenant with ``use`` alone, or in another one with every right."""
    within = tenant == target.tenant
    rights = OWN if within else None
    his = {"user": "mallory", "resource": "of-mallory"}
    who = his if within else {f: getattr(target.memory.principal, f) for f in his}
    mallory = ledger.memory(tenant=tenant, rights=rights, **who)
    for number in range(20):
        mallory.remember(f"{QUESTION} of mallory {number}")
    nobody = ledger.memory(tenant=tenant, rights=rights)
    desk = ledger.memory(tenant=tenant, rights=rights, agent="desk", session="desk", **who)
    place = Place(ledger, mallory, mallory, nobody, desk, tenant, target.memory_id, folder)
    return Attack(target, mallory, place, target.secrets(log_ids=not within))


@pytest.fixture(scope="module")
def attacks(shared_ledger: Ledger, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Attack]:
    """One victim, attacked from its own tenant and from one whose name its own begins with."""
    name = f"acme-{token_hex(6)}"
    target = victim(shared_ledger, f"{name}-corp")
    folder = tmp_path_factory.mktemp("attack")
    return {
        "owner": attack(shared_ledger, target, target.tenant, folder),
        "tenant": attack(shared_ledger, target, name, folder),
    }


def of_tenant(case: Call) -> bool:
    """Whether a call acts on a whole tenant, so that owners of it are no neighbours."""
    return not case.method.startswith("Memory.")


@pytest.mark.parametrize("case", CALLS, ids=lambda case: case.method)
def test_no_method_tells_a_neighbour_anything(case: Call, attacks: dict[str, Attack]) -> None:
    """Whatever method is called with the victim's ids, its answer and its errors hold no text,
    name, id or hash of another owner of the tenant, nor of another tenant."""
    for name, made in attacks.items():
        if name == "tenant" or not of_tenant(case):
            assert made.leaks(partial(case.make, made.place)) == set()
    for path in attacks["tenant"].place.folder.iterdir():
        assert leaked(told(path), attacks["tenant"].secrets, ()) == set()
        path.unlink()


def test_no_awaited_method_tells_a_neighbour_anything(attacks: dict[str, Attack]) -> None:
    """The asynchronous surface gives no more away."""

    async def main() -> set[str]:
        found = set()
        for name, made in attacks.items():
            ledger = AsyncLedger(partial(_open, made))
            await ledger.__aenter__()
            alice = AsyncMemory(made.mallory, ledger.threads)
            desk = AsyncMemory(made.place.desk, ledger.threads)
            place = replace(
                made.place, ledger=ledger, alice=alice, bob=alice, nobody=alice, desk=desk
            )
            for case in CALLS:
                if name == "owner" and of_tenant(case):
                    continue
                try:
                    answer = await first(case.make(place))
                    text = told(getattr(answer, "synchronous", answer))
                except MemorialeError as error:
                    text = f"{error}{error.as_dict()}"
                except StopAsyncIteration:
                    continue
                found |= leaked(text, made.secrets, made.asked())
            await asyncio.to_thread(ledger.threads.end, lambda: None)
        return found

    assert asyncio.run(main()) == set()


def _open(made: Attack) -> Ledger:
    ledger: Ledger = made.place.ledger
    return ledger


def given(made: Attack) -> dict[str, Any]:
    """What parameters of the stores get: the victim's ids, and its words to look for."""
    ids = made.victim.ids
    text = {"role": "user", "content": QUESTION}
    words = (
        *("query", "current_input", "input", "content", "event", "fact", "name", "old_text"),
        *("task", "new_text", "title", "reasoning", "original_value", "corrected_value", "reason"),
        *("trigger", "description"),
    )
    return {
        **ids,
        **dict.fromkeys(words, QUESTION),
        "fact_texts": [QUESTION],
        "facts": [QUESTION],
        "target_entity_id": ids["entity_id"],
        "node_ids": [ids["node_id"]],
        "source_id": ids["node_id"],
        "superseded_by": ids["correction_id"],
        "id": ids["learning_id"],
        "messages": [text],
        "learning": {"title": QUESTION, "content": QUESTION},
        "correction": {"original_value": "a", "corrected_value": QUESTION, "scope": "user"},
        "decision": {"decision": QUESTION, "reasoning": "y", "decision_type": "z"},
        "entity": {"name": QUESTION, "entity_type": "person"},
        "entities": [{"name": QUESTION, "entity_type": "person"}],
        "procedure": {"trigger": QUESTION, "description": "d", "steps": [{"tool_name": "t"}]},
        "nodes": [{"id": "n", "name": QUESTION, "type": "person"}],
        "edges": [],
        "value": 1,
        "patch": {"role": QUESTION},
        **{"decision_type": "z", "entity_type": "person", "action": "add", "context": "c"},
        "user_id": None,
        "agent_name": None,
        "owner": made.mallory.principal.user,
        "model": silent(),
        "args": {},
        **{"target": "user", "scope": "user", "tool_name": "t", "outcome": "fine", "type": "knows"},
        **{"max_age_days": 0, "top_k": 50, "limit": 50, "timeout": 5.0, "as_of": None},
    }


def as_the_victim(made: Attack) -> dict[str, Any]:
    """The same with the victim's names, which a caller with ``use`` may not act for."""
    victim_is = made.victim.memory.principal
    names = {"user_id": victim_is.user, "agent_name": victim_is.agent, "owner": victim_is.user}
    return {**given(made), **names}


def store_calls(
    made: Attack, arguments_of: Callable[[Attack], dict[str, Any]] = given
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Every public method of every store, and every tool that a store hands out."""
    arguments = arguments_of(made)
    names = ("user_facts", "user_profile", "entities", "decisions", "learnings", "corrections")
    on: Any = dict.fromkeys((*names, "graph", "procedures", "file_memory"), True)
    for cls in STORES:
        if cls is MemoryManager:
            store: Any = cls(storage=made.mallory, model=silent(), **on)
        else:
            store = cls(made.mallory)
        for name, method in public(cls).items():
            parameters = inspect.signature(method).parameters
            chosen = {n: arguments[n] for n in parameters if n in arguments}
            if {"model", "source"} <= set(parameters):
                # There it is the name of one.
                del chosen["model"]
            yield f"{cls.__name__}.{name}", partial(getattr(store, name), **chosen)
        for tool in getattr(store, "get_tools", list)():
            yield f"{cls.__name__} tool {tool.name}", partial(used, tool, arguments)


def used(tool: ToolDef, arguments: dict[str, Any]) -> Any:
    """A tool's answer to the victim's words."""
    wanted = tool.parameters.get("properties", {})
    missing = [n for n in tool.parameters.get("required", ()) if n not in arguments]
    assert not missing, f"say in given() what {missing} of the tool {tool.name} are to be"
    return tool.handler({n: arguments[n] for n in wanted if arguments.get(n) is not None})


@pytest.mark.parametrize("arguments_of", [given, as_the_victim])
@pytest.mark.parametrize("whose", ["owner", "tenant"])
def test_no_store_tells_a_neighbour_anything(
    whose: str,
    arguments_of: Callable[[Attack], dict[str, Any]],
    attacks: dict[str, Attack],
) -> None:
    """Every method and tool of every store, called with the victim's ids, answers without
    anything of the victim and leaves the victim's memories as they are."""
    made = attacks[whose]
    victim_handle = made.victim.memory
    before = [told(memory) for memory in victim_handle.list(limit=1000).memories]
    found, called = {}, 0
    for name, make in store_calls(made, arguments_of):
        called += 1
        if leaks := made.leaks(make):
            found[name] = leaks
    assert found == {}
    assert called > 150
    assert [told(memory) for memory in victim_handle.list(limit=1000).memories] == before


def test_the_victim_has_something_to_be_found_everywhere(attacks: dict[str, Attack]) -> None:
    """The walks do not pass because there is nothing: the victim itself is told its canary by
    most methods of the stores."""
    target = attacks["owner"]
    own = Attack(target.victim, target.victim.memory, target.place, {target.victim.canary})
    found = {
        name
        for name, make in store_calls(own)
        if any(word in name for word in ("get", "search", "list")) and shows(make, own.secrets)
    }
    assert {name.partition(".")[0] for name in found} >= {
        *("UserFacts", "UserProfile", "EntityMemory", "LearnedKnowledge", "LedgerGraph"),
        *("SessionManager", "Summaries", "ProcedureMemory", "MemoryManager", "WorkingStore"),
    }


def shows(make: Callable[[], Any], secrets: set[str]) -> bool:
    try:
        return bool(leaked(told(make()), secrets, ()))
    except MemorialeError:
        return False


def test_the_walks_notice_a_lost_filter_and_a_mixed_up_tenant(
    attacks: dict[str, Attack], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted failures: an access rule that allows everything, and a ledger that hands out
    another tenant's services, each turn the walks red."""
    show = next(case for case in CALLS if case.method == "Memory.show")
    with monkeypatch.context() as planted:
        planted.setattr(AccessScope, "allows", lambda scope, row: True)
        with pytest.raises(AssertionError):
            test_no_method_tells_a_neighbour_anything(show, attacks)
        with pytest.raises(AssertionError):
            test_no_store_tells_a_neighbour_anything("owner", given, attacks)
    right = Tenants.get
    other = attacks["tenant"].victim.tenant
    monkeypatch.setattr(Tenants, "get", lambda self, name: right(self, other))
    events = next(case for case in CALLS if case.method == "Ledger.events")
    with pytest.raises(AssertionError):
        test_no_method_tells_a_neighbour_anything(events, attacks)
