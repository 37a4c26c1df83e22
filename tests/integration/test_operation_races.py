"""Items that change and memories that end while somebody asks for a change."""

from collections.abc import Callable
from typing import Any

import pytest

from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.operations.reading import item_by_id
from memoriale.domain.errors import InputError
from tests.fixtures.operations import ALICE, Held, Make, Scripted, reply, said


def meanwhile(monkeypatch: pytest.MonkeyPatch, change: Callable[[], Any]) -> None:
    """Has somebody else change something once, after an item was looked up by its id."""
    left = [change]

    def looked_up(*given: Any) -> Any:
        found = item_by_id(*given)
        if left:
            left.pop()()
        return found

    monkeypatch.setattr("memoriale.adapters.library.operations.agent_memory.item_by_id", looked_up)


def test_an_update_of_what_ends_meanwhile_is_refused(
    remembering: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is told that words were kept which were not: the item is unknown by then."""
    memory, other = remembering(), remembering()
    (item,) = memory.add(said("tea"), ALICE).result(30).stored_ids
    meanwhile(monkeypatch, lambda: other.delete(item))
    with pytest.raises(InputError) as error:
        memory.update(item, "coffee")
    assert error.value.code == "unknown_memory"
    assert memory.delete(item) is False


def test_an_update_keeps_what_others_add_meanwhile(
    remembering: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tags and labels that a restatement gives an item while it gets other words are not lost."""
    memory = remembering(Scripted(reply({"content": "tea", "tags": ["hot"]})))
    (item,) = memory.add(said("tea"), {**ALICE, "tags": ["home"]}).result(30).stored_ids
    other = remembering(Scripted(reply({"content": "tea", "tags": ["green"]})))

    def restate() -> None:
        other.add(said("tea"), {**ALICE, "tags": ["work"]}).result(30)

    meanwhile(monkeypatch, restate)
    memory.update(item, "coffee")
    (node,) = memory.get_all(ALICE)
    assert (node.content, set(node.tags)) == ("coffee", {"home", "work"})
    assert set(node.labels) == {"hot", "green"}


def test_a_memory_that_was_destroyed_changes_nothing(remembering: Make) -> None:
    """Every method that asks or changes something says that it is closed."""
    memory = remembering()
    (item,) = memory.add(said("tea"), ALICE).result(30).stored_ids
    memory.destroy()
    calls: list[Callable[[], Any]] = [
        lambda: memory.add(said("x"), ALICE),
        lambda: memory.search("x", ALICE),
        lambda: memory.get_all(ALICE),
        lambda: memory.update(item, "x"),
        lambda: memory.delete(item),
    ]
    for call in calls:
        with pytest.raises(InputError) as error:
            call()
        assert error.value.code == "closed"
    assert [node.content for node in remembering().get_all(ALICE)] == ["tea"]


def test_a_search_that_comes_while_a_memory_is_destroyed_is_refused(
    remembering: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets the error of a memory that is closed, at whatever step the end comes."""
    memory = remembering()
    monkeypatch.setattr(
        "memoriale.adapters.library.operations.agent_memory.check_query",
        lambda query: memory.destroy(),
    )
    with pytest.raises(InputError) as error:
        memory.search("tea", ALICE)
    assert error.value.code == "closed"


def test_a_cancel_that_was_slower_says_how_the_operation_stands(
    remembering: Make, shared_ledger: Ledger, tenant: str
) -> None:
    """Also before anything else has told the handle that the job has ended: it never says that
    what is queued cannot be cancelled."""
    model = Held()
    memory = remembering(model)
    memory.add(said("first"), ALICE)
    assert model.asked.wait(30)
    for number in range(10):
        add = memory.add(said(str(number)), ALICE)
        shared_ledger.jobs.cancel(add.job_id, tenant=tenant)
        with pytest.raises(InputError) as error:
            add.cancel()
        assert (error.value.code, error.value.value) == ("wrong_status", "cancelled")
        assert add.status == "cancelled"
    model.go.set()
