"""Working memory on the ledger: values by key of a resource, with forks and the past."""

import math
from typing import Any

import pytest

from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.domain.errors import InputError
from memoriale.domain.resources.limits import BOOKKEEPING


@pytest.fixture
def bot(shared_ledger: Ledger, tenant: str) -> Memory:
    return shared_ledger.memory(tenant=tenant, resource="bot", team="blue")


def events(memory: Memory) -> int:
    return memory.services.log.head()


def test_a_value_is_what_was_set_last(bot: Memory) -> None:
    """A key has the value that was set last, and none once it was deleted."""
    first = bot.working.set("plan", {"steps": [1, 2.5, None, True, "é"]})
    assert bot.working.get("plan") == {"steps": [1, 2.5, None, True, "é"]}
    second = bot.working.set("plan", "shorter")
    assert (second.memory_id, second.index > first.index) == (first.memory_id, True)
    assert bot.working.delete("plan")
    assert not bot.working.delete("plan")
    assert bot.working.get("plan", "none") == "none"
    bot.working.set("plan", 3)
    assert bot.working.get("plan") == 3
    assert len(bot.history(first.memory_id)) == 5


def test_the_value_that_is_there_stores_nothing(bot: Memory) -> None:
    """A set of an equal value is no event; 1, 1.0 and true are three values."""
    entry = bot.working.set("n", {"a": 1, "b": 2})
    head = events(bot)
    assert bot.working.set("n", {"b": 2, "a": 1}) == entry
    assert events(bot) == head
    for value in (1, 1.0, True):
        bot.working.set("n", value)
    assert events(bot) == head + 3


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("", 1),
        ("x" * 257, 1),
        (None, 1),
        ("k", math.nan),
        ("k", {1, 2}),
        ("k", {1: "a key that is no text"}),
        ("k", "x" * 65_535),
        ("k", "\ud800"),
    ],
)
def test_what_cannot_be_kept_is_refused_and_nothing_stored(
    bot: Memory, key: Any, value: Any
) -> None:
    """A wrong key, a value that is no JSON and one over the limit are typed errors."""
    head = events(bot)
    with pytest.raises(InputError) as refused:
        bot.working.set(key, value)
    assert refused.value.field is not None
    assert refused.value.field.split(".")[0] in ("key", "value")
    assert events(bot) == head


def test_a_value_may_be_as_long_as_the_limit(bot: Memory) -> None:
    """65,536 bytes of canonical JSON are kept, quotes included."""
    bot.working.set("k" * 256, "x" * 65_534)
    assert bot.working.get("k" * 256) == "x" * 65_534


def test_pages_are_complete_and_in_the_order_of_bytes(bot: Memory) -> None:
    """The pages of a list hold every key once, in the order of their UTF-8 bytes, as they were
    at the index that is asked for; bookkeeping keys are read by name alone."""
    keys = ["b", "a", "é", "Z", "𝔘", "ｚ", "10", "9"]
    for key in keys:
        bot.working.set(key, key)
    pin = bot.working.set(f"{BOOKKEEPING}last", 1).index
    bot.working.delete("a")
    assert bot.working.get(f"{BOOKKEEPING}last") == 1
    for as_of, expected in ((pin, keys), (None, [k for k in keys if k != "a"])):
        found: dict[str, Any] = {}
        after = None
        while True:
            page = bot.working.list(after=after, limit=3, as_of=as_of)
            found |= page
            after = page.next
            if after is None:
                break
        assert list(found) == sorted(expected, key=str.encode)
        assert found == {key: key for key in expected}


@pytest.mark.parametrize("arguments", [{"limit": 0}, {"limit": 1001}, {"after": 3}])
def test_a_wrong_page_is_refused(bot: Memory, arguments: Any) -> None:
    """The field is named."""
    with pytest.raises(InputError) as refused:
        bot.working.list(**arguments)
    assert refused.value.field in arguments


def test_what_was_read_is_a_copy(bot: Memory) -> None:
    """Who changes what it was given changes nothing that is kept."""
    bot.working.set("a", [1])
    for found in (bot.working.get("a"), bot.working.list()["a"], bot.working.set("a", [1]).value):
        assert isinstance(found, list)
        found.append(2)
    assert bot.working.get("a") == [1]


def test_a_resource_of_a_team_is_another_than_the_one_without(
    bot: Memory, shared_ledger: Ledger, tenant: str
) -> None:
    """Resource and team together own it; a handle without a resource is told what is missing."""
    bot.working.set("a", 1)
    for who in ({"resource": "bot"}, {"resource": "bot", "team": "red"}, {"resource": "other"}):
        assert dict(shared_ledger.memory(tenant=tenant, **who).working.list()) == {}
    with pytest.raises(InputError) as refused:
        shared_ledger.memory(tenant=tenant, user="alice").working.get("a")
    assert refused.value.field == "resource"


def test_a_fork_has_the_values_of_its_point_and_its_own_from_then_on(bot: Memory) -> None:
    """A child sees its parent's values as of the fork, changes and deletes them for itself
    alone, and its own child sees both up to its own fork; no bookkeeping key is inherited."""
    bot.working.set("a", 1)
    bot.working.set("b", 1)
    bot.working.set(f"{BOOKKEEPING}last", 1)
    child = bot.fork("for kid", resource="kid")
    bot.working.set("a", "after the fork")
    bot.working.set("late", 1)
    assert dict(child.working.list()) == {"a": 1, "b": 1}
    child.working.set("a", 2)
    child.working.set("c", 2)
    assert child.working.delete("b")
    grandchild = child.fork("for grandkid", resource="grandkid")
    child.working.set("c", "after the fork")
    assert dict(grandchild.working.list()) == {"a": 2, "c": 2}
    assert grandchild.working.delete("a")
    grandchild.working.set("b", 3)
    own = child.fork("an own branch of kid")
    assert dict(own.working.list()) == {"a": 2, "c": "after the fork"}
    assert dict(grandchild.working.list()) == {"b": 3, "c": 2}
    assert dict(child.working.list()) == {"a": 2, "c": "after the fork"}
    assert dict(bot.working.list()) == {"a": "after the fork", "b": 1, "late": 1}
    for handle in (child, grandchild, own):
        assert handle.working.get(f"{BOOKKEEPING}last") is None
        handle.working.set(f"{BOOKKEEPING}last", 2)
        assert handle.working.get(f"{BOOKKEEPING}last") == 2
    assert bot.working.get(f"{BOOKKEEPING}last") == 1


def test_a_grandchild_is_shown_what_its_child_inherited(bot: Memory) -> None:
    """Memories of the first parent owner stay visible through forks of forks, each owner's up to
    the point where its child left."""
    made = bot.remember("of the first")
    child = bot.fork("one", resource="kid")
    late = bot.remember("too late for the child")
    child.remember("of the second")
    grandchild = child.fork("two", resource="grandkid")
    child.remember("too late for the grandchild")
    seen = [memory.content for memory in grandchild.list().memories]
    assert seen == ["of the first", "of the second"]
    assert next(hit.content for hit in grandchild.recall("first")) == "of the first"
    assert grandchild.show(made.memory_id).content == "of the first"
    with pytest.raises(InputError):
        grandchild.show(late.memory_id)
    further = grandchild.fork("three")
    assert [memory.content for memory in further.list().memories] == seen
