"""What every provider of working memory must do."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from memoriale.domain.errors import ConflictError, InputError
from memoriale.domain.resources.providers import ForkingProvider, WorkingMemoryProvider
from memoriale.domain.resources.ref import ResourceRef

REF = ResourceRef("build-7")
VALUES: list[Any] = [
    None,
    False,
    0,
    -1.5,
    2**53 - 1,
    "",
    "né 上海 🐈 ' \" \\ \n",
    [],
    {},
    {"a": [1, {"b": [None, "c"]}], "$float": "1.5", "": 0},
    "x" * 65_534,
]


class WorkingMemoryContract:
    """
    Subclass it as ``class TestMine(WorkingMemoryContract)``, with a fixture ``provider`` that
    gives a new, empty provider.
    """

    @pytest.fixture
    def provider(self) -> WorkingMemoryProvider | Iterator[WorkingMemoryProvider]:
        """The provider to be held against the contract."""
        raise NotImplementedError("give a fixture `provider`")

    def test_it_satisfies_the_port(self, provider: WorkingMemoryProvider) -> None:
        """It has the four methods."""
        assert isinstance(provider, WorkingMemoryProvider)

    def test_a_key_that_is_missing_has_the_default(self, provider: WorkingMemoryProvider) -> None:
        """Without a default it is None, and nothing is listed or deleted."""
        assert provider.get(REF, "missing") is None
        assert provider.get(REF, "missing", {"d": 1}) == {"d": 1}
        assert dict(provider.list(REF)) == {}
        assert provider.delete(REF, "missing") is False

    @pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:20])
    def test_a_value_comes_back_as_it_was(
        self, provider: WorkingMemoryProvider, value: Any
    ) -> None:
        """Every JSON value is kept, None too, which is not the same as a missing key."""
        provider.set(REF, "key", value)
        found = provider.get(REF, "key", "missing")
        assert found == value
        assert type(found) is type(value)
        assert dict(provider.list(REF)) == {"key": value}

    def test_a_key_is_set_again(self, provider: WorkingMemoryProvider) -> None:
        """The last value counts, and there is one."""
        for value in ("one", "two", "two", None, "three"):
            provider.set(REF, "key", value)
        assert provider.get(REF, "key") == "three"
        assert dict(provider.list(REF)) == {"key": "three"}

    def test_a_deleted_key_is_gone_and_can_be_set_again(
        self, provider: WorkingMemoryProvider
    ) -> None:
        """Deleting says whether the key was there; deleting again changes nothing."""
        provider.set(REF, "key", 1)
        provider.set(REF, "other", 2)
        assert provider.delete(REF, "key") is True
        assert provider.delete(REF, "key") is False
        assert provider.get(REF, "key", "gone") == "gone"
        assert dict(provider.list(REF)) == {"other": 2}
        provider.set(REF, "key", 3)
        assert dict(provider.list(REF)) == {"key": 3, "other": 2}

    def test_values_are_copies(self, provider: WorkingMemoryProvider) -> None:
        """Neither what was given nor what was handed out changes what is stored."""
        given: dict[str, Any] = {"list": [1]}
        provider.set(REF, "key", given)
        given["list"].append(2)
        handed: Any = provider.get(REF, "key")
        handed["list"].append(3)
        listed: Any = provider.list(REF)["key"]
        listed["list"].append(4)
        assert provider.get(REF, "key") == {"list": [1]}

    def test_pages_are_in_the_order_of_utf_8(self, provider: WorkingMemoryProvider) -> None:
        """Keys ascend by their bytes, whatever the language; each page goes on after the last."""
        keys = ["10", "2", "Z", "a", "a b", "aa", "é", "z", "\uffee", "🐈", "A"]
        for key in keys:
            provider.set(REF, key, key)
        expected = sorted(keys, key=str.encode)
        assert list(provider.list(REF)) == expected
        seen: list[str] = []
        after: str | None = None
        while True:
            page = provider.list(REF, after=after, limit=4)
            seen += page
            after = page.next
            if after is None:
                break
            assert len(page) == 4
        assert seen == expected

    def test_a_page_says_whether_there_are_more(self, provider: WorkingMemoryProvider) -> None:
        """``next`` is None on the last page, also when it is full; the cursor need not exist."""
        for key in ("a", "b", "d"):
            provider.set(REF, key, 0)
        assert provider.list(REF, limit=3).next is None
        assert provider.list(REF, limit=2).next == "b"
        assert list(provider.list(REF, after="c")) == ["d"]
        assert list(provider.list(REF, after="d")) == []

    def test_a_page_has_100_keys_unless_told_otherwise(
        self, provider: WorkingMemoryProvider
    ) -> None:
        """At most 1,000 can be asked for; more is refused."""
        for number in range(101):
            provider.set(REF, f"k{number:03}", number)
        page = provider.list(REF)
        assert (len(page), page.next) == (100, "k099")
        assert len(provider.list(REF, limit=1_000)) == 101
        for limit in (0, 1_001):
            with pytest.raises(InputError):
                provider.list(REF, limit=limit)

    def test_bookkeeping_is_in_no_list(self, provider: WorkingMemoryProvider) -> None:
        """A key that begins with two underscores is had by its name alone."""
        provider.set(REF, "__last", 1)
        provider.set(REF, "_a", 2)
        page = provider.list(REF, limit=1)
        assert (dict(page), page.next) == ({"_a": 2}, None)
        assert provider.get(REF, "__last") == 1
        assert provider.delete(REF, "__last") is True

    @pytest.mark.parametrize(
        "other",
        [
            ResourceRef("build-8"),
            ResourceRef("build-7", "red"),
            ResourceRef("BUILD-7"),
            ResourceRef("build_7"),
            ResourceRef("build-7%"),
        ],
        ids=lambda ref: ref.key,
    )
    def test_a_resource_has_its_own_keys(
        self, provider: WorkingMemoryProvider, other: ResourceRef
    ) -> None:
        """Another resource or team sees nothing, changes nothing and deletes nothing."""
        provider.set(REF, "key", "mine")
        assert provider.get(other, "key") is None
        assert dict(provider.list(other)) == {}
        assert provider.delete(other, "key") is False
        provider.set(other, "key", "theirs")
        assert provider.get(REF, "key") == "mine"

    def test_a_team_and_a_colon_are_not_mistaken(self, provider: WorkingMemoryProvider) -> None:
        """The resource ``a:b`` is not the resource ``b`` of the team ``a``."""
        provider.set(ResourceRef("a:b"), "key", 1)
        assert provider.get(ResourceRef("b", "a"), "key") is None

    @pytest.mark.parametrize("key", ["", " ", "k" * 257, "a\0b", "\ud800", 1, None])
    def test_a_wrong_key_is_refused(self, provider: WorkingMemoryProvider, key: Any) -> None:
        """By every method, and nothing is stored."""
        calls: list[Callable[[], Any]] = [
            lambda: provider.set(REF, key, 1),
            lambda: provider.get(REF, key),
            lambda: provider.delete(REF, key),
        ]
        for call in calls:
            with pytest.raises(InputError) as refused:
                call()
            assert refused.value.field == "key"
        assert dict(provider.list(REF)) == {}

    @pytest.mark.parametrize(
        "value",
        [math.nan, [math.inf], {1: 2}, {"a": object()}, b"bytes", "x" * 65_535, 2**53, "\ud800"],
        ids=["nan", "infinity", "key", "object", "bytes", "too long", "integer", "surrogate"],
    )
    def test_a_wrong_value_is_refused(self, provider: WorkingMemoryProvider, value: Any) -> None:
        """What is no JSON, or more than 65,536 bytes of it, leaves the old value as it was."""
        provider.set(REF, "key", "old")
        with pytest.raises(InputError) as refused:
            provider.set(REF, "key", value)
        assert str(refused.value.field).startswith("value")
        assert provider.get(REF, "key") == "old"

    def test_a_fork_has_what_the_parent_had(self, provider: WorkingMemoryProvider) -> None:
        """The child has the parent's keys but bookkeeping; from then on each goes its way."""
        forking, child = _forking(provider), ResourceRef("child")
        provider.set(REF, "a", 1)
        provider.set(REF, "b", 2)
        provider.set(REF, "__last", 3)
        forking.fork(REF, child)
        provider.set(REF, "a", "changed by the parent")
        provider.set(REF, "c", "new")
        assert dict(provider.list(child)) == {"a": 1, "b": 2}
        assert provider.get(child, "__last") is None
        assert forking.inherited(REF, child) == 2
        provider.set(child, "b", "changed by the child")
        assert provider.get(REF, "b") == 2
        assert forking.inherited(REF, child) == 1

    def test_a_fork_of_a_fork_has_everything(self, provider: WorkingMemoryProvider) -> None:
        """What the parent inherited the child inherits too."""
        forking, child, grandchild = _forking(provider), ResourceRef("c"), ResourceRef("g")
        provider.set(REF, "a", 1)
        forking.fork(REF, child)
        provider.set(child, "b", 2)
        forking.fork(child, grandchild)
        assert dict(provider.list(grandchild)) == {"a": 1, "b": 2}
        assert forking.inherited(child, grandchild) == 2

    def test_a_fork_overwrites_nothing(self, provider: WorkingMemoryProvider) -> None:
        """A child that has a key is refused, and keeps what it has."""
        forking, child = _forking(provider), ResourceRef("child")
        provider.set(REF, "a", 1)
        provider.set(child, "b", 2)
        with pytest.raises(ConflictError):
            forking.fork(REF, child)
        assert dict(provider.list(child)) == {"b": 2}


def _forking(provider: object) -> ForkingProvider:
    if not isinstance(provider, ForkingProvider):
        pytest.skip("the provider does not fork by itself")
    return provider
