"""Memory behind a team's door: denied unless the checker says True."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from memoriale import (
    BulkSemanticMemoryProvider,
    ForkingProvider,
    InputError,
    MemoryAccessDeniedError,
    MemoryFact,
    PrunableSemanticMemoryProvider,
    ReplacingSemanticMemoryProvider,
    ResourceMemory,
    ResourceRef,
    SQLiteSemanticMemoryProvider,
    SQLiteWorkingMemoryProvider,
    is_bulk_rememberable,
    is_prunable,
    with_team_access_control,
    with_team_access_control_semantic,
)
from memoriale.testing import SemanticMemoryContract, WorkingMemoryContract
from tests.fixtures.resource_memory import (
    EMBEDDINGS,
    PlainSemantic,
    PlainWorking,
    semantic,
    working,
)

RED = ResourceRef("build-7", "red")
BLUE = ResourceRef("build-7", "blue")
BARE = ResourceRef("build-7")
FACT = MemoryFact(content="a fact")


class Checker:
    """Lets some teams in, and notes about whom it was asked."""

    def __init__(self, *teams: str | None, answer: Any = True) -> None:
        self.teams, self.answer = teams, answer
        self.asked: list[str | None] = []

    def can_access(self, team_id: str | None) -> bool:
        self.asked.append(team_id)
        return self.answer if team_id in self.teams else False


CALLS: dict[str, Callable[[Any, ResourceRef], object]] = {
    "get": lambda p, ref: p.get(ref, "a"),
    "set": lambda p, ref: p.set(ref, "a", 1),
    "list": lambda p, ref: p.list(ref),
    "delete": lambda p, ref: p.delete(ref=ref, key="a"),
    "fork": lambda p, ref: p.fork(ref, ResourceRef("child", ref.team_id)),
    "inherited": lambda p, ref: p.inherited(ref, ref),
    "remember": lambda p, ref: p.remember(ref, FACT),
    "remember_many": lambda p, ref: p.remember_many(ref, [FACT]),
    "recall": lambda p, ref: p.recall(ref, "a fact"),
    "list_all": lambda p, ref: p.list_all(ref),
    "list_recent": lambda p, ref: p.list_recent(ref, 1),
    "forget": lambda p, ref: p.forget(ref=ref, ids=["a"]),
    "replace": lambda p, ref: p.replace(ref, [], [FACT]),
}
_KEYS = ["get", "set", "list", "delete", "fork", "inherited"]


def gated(name: str, checker: Checker) -> Any:
    if name in _KEYS:
        return with_team_access_control(working(), checker)
    return with_team_access_control_semantic(semantic(), checker)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("ref", [BLUE, BARE], ids=lambda ref: str(ref.team_id))
def test_every_call_of_another_team_is_denied(name: str, ref: ResourceRef) -> None:
    """Also those of the memory without a team; the error names the team."""
    provider = gated(name, Checker("red"))
    with pytest.raises(MemoryAccessDeniedError) as denied:
        CALLS[name](provider, ref)
    assert denied.value.team_id == ref.team_id
    assert denied.value.exit_code == 3


@pytest.mark.parametrize("name", CALLS)
def test_every_call_of_an_allowed_team_goes_through(name: str) -> None:
    """The memory without a team is one that can be allowed."""
    checker = Checker("red", None)
    for ref in (RED, BARE):
        CALLS[name](gated(name, checker), ref)
    assert set(checker.asked) == {"red", None}


def test_a_denied_call_stores_nothing() -> None:
    """The provider behind the door is not touched."""
    keys, facts = working(), semantic()
    closed = with_team_access_control(keys, Checker())
    with pytest.raises(MemoryAccessDeniedError):
        closed.set(RED, "a", 1)
    with pytest.raises(MemoryAccessDeniedError):
        with_team_access_control_semantic(facts, Checker()).remember(RED, FACT)
    assert dict(keys.list(RED)) == {}
    assert facts.list_all(RED) == []


@pytest.mark.parametrize("answer", [1, "yes", object(), None])
def test_only_true_is_a_yes(answer: Any) -> None:
    """What is merely truthy, such as a coroutine that nobody awaited, lets nobody in."""
    provider = with_team_access_control(working(), Checker("red", answer=answer))
    with pytest.raises(MemoryAccessDeniedError):
        provider.get(RED, "a")


def test_a_checker_that_fails_lets_nobody_in() -> None:
    """Its error comes through before anything is read."""

    class Failing:
        def can_access(self, team_id: str | None) -> bool:
            raise ConnectionError("no directory")

    provider = with_team_access_control(working(), Failing())
    with pytest.raises(ConnectionError):
        provider.set(RED, "a", 1)


def test_both_sides_of_a_fork_are_asked_about() -> None:
    """A child of another team is as closed as its parent would be."""
    provider: Any = with_team_access_control(working(), Checker("red"))
    with pytest.raises(MemoryAccessDeniedError) as denied:
        provider.fork(RED, BLUE)
    assert denied.value.team_id == "blue"


PORTS = [
    PrunableSemanticMemoryProvider,
    BulkSemanticMemoryProvider,
    ReplacingSemanticMemoryProvider,
    ForkingProvider,
]


def test_what_a_provider_can_do_it_can_behind_the_door() -> None:
    """Every port that it satisfies, and none that it does not."""
    for inner in (semantic(), PlainSemantic()):
        door = with_team_access_control_semantic(inner, Checker("red"))
        for port in PORTS:
            assert isinstance(door, port) == isinstance(inner, port)
        assert is_prunable(door) == is_prunable(inner)
        assert is_bulk_rememberable(door) == is_bulk_rememberable(inner)
    keys = with_team_access_control(PlainWorking(), Checker("red"))
    assert not isinstance(keys, ForkingProvider)


def test_properties_and_closing_are_kept(tmp_path: Path) -> None:
    """``tenant``, ``has_vector_index``, ``close`` and ``with`` are those of the provider."""
    inner = SQLiteSemanticMemoryProvider(tmp_path / "m.db", EMBEDDINGS, tenant="acme")
    door: Any = with_team_access_control_semantic(inner, Checker("red"))
    door.remember(RED, FACT)
    assert door.has_vector_index is inner.has_vector_index
    assert (door.tenant, door.forked_with) == ("acme", inner.forked_with)
    door.close()
    with pytest.raises(InputError, match="closed"):
        inner.list_all(RED)
    entered: Any = with_team_access_control(
        SQLiteWorkingMemoryProvider(tmp_path / "m.db", tenant="acme"), Checker("red")
    )
    with entered as inside:
        inside.set(RED, "a", 1)
    with pytest.raises(InputError, match="closed"):
        entered.get(RED, "a")


class Wider(PlainWorking):
    """A provider with a method and a property of its own."""

    secret = "the values of all teams"

    def copy(self, refs: Sequence[ResourceRef]) -> int:
        return len(refs)

    def everything(self) -> dict[Any, Any]:
        return dict(self.values)


def test_what_the_ports_do_not_know_is_closed_too() -> None:
    """A method of one's own is asked about where it names resources, and refused elsewhere."""
    door: Any = with_team_access_control(Wider(), Checker("red"))
    assert door.copy([RED, RED]) == 2
    with pytest.raises(MemoryAccessDeniedError):
        door.copy([RED, BLUE])
    with pytest.raises(InputError):
        door.everything()
    for name in ("secret", "values"):
        assert not hasattr(door, name)


def test_a_memory_behind_doors_forks_and_compacts() -> None:
    """``ResourceMemory`` sits on closed providers as on open ones."""
    checker = Checker("red")
    memory = ResourceMemory(
        tenant="acme",
        working_memory=with_team_access_control(working(), checker),
        semantic=with_team_access_control_semantic(semantic(), checker),
    )
    memory.working.set(RED, "a", 1)
    memory.remember_many(RED, [FACT, FACT])
    fork = memory.fork(RED, "child")
    assert (fork.working_keys, fork.semantic_facts) == (1, 2)
    assert memory.compact_semantic_memory(RED, max_facts=1).removed == 1
    with pytest.raises(MemoryAccessDeniedError):
        memory.recall(BLUE, "a")
    with pytest.raises(MemoryAccessDeniedError):
        memory.fork(BLUE, "child")


@pytest.mark.parametrize("wrong", [None, object(), lambda team: True])
def test_what_is_no_checker_is_refused(wrong: Any) -> None:
    """At once, and so is what is no provider."""
    with pytest.raises(InputError):
        with_team_access_control(working(), wrong)
    with pytest.raises(InputError):
        with_team_access_control(object(), Checker())  # type: ignore[arg-type]
    with pytest.raises(InputError):
        with_team_access_control_semantic(working(), Checker())  # type: ignore[arg-type]


class TestWorkingBehindADoor(WorkingMemoryContract):
    @pytest.fixture
    def provider(self) -> Any:
        return with_team_access_control(working(), Checker("red", "a", None))


class TestSemanticBehindADoor(SemanticMemoryContract):
    @pytest.fixture
    def provider(self) -> Any:
        return with_team_access_control_semantic(semantic(), Checker("red", None))
