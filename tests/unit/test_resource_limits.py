"""What keys, values and requests of a resource's memory may be."""

import math
from typing import Any

import pytest

from memoriale.domain.errors import InputError
from memoriale.domain.resources.facts import MemoryFact
from memoriale.domain.resources.limits import (
    check_after,
    check_facts,
    check_ids,
    check_key,
    check_page,
    check_top_k,
    check_value,
    is_bookkeeping,
)


@pytest.mark.parametrize(
    ("key", "code"),
    [("", "empty"), ("  ", "empty"), ("k" * 257, "too_long"), (1, "not_text"), ("a\0", None)],
)
def test_a_key_that_cannot_be_one_is_refused(key: Any, code: str | None) -> None:
    """A key is text of 1 to 256 characters that is not blank and has no NUL."""
    with pytest.raises(InputError) as refused:
        check_key(key)
    assert refused.value.field == "key"
    assert refused.value.code == (code or "bad_character")


def test_the_longest_key_is_counted_in_characters() -> None:
    """256 characters are allowed in any script, though they are 1,024 bytes."""
    assert check_key("🐈" * 256) == "🐈" * 256


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (math.nan, "value"),
        ({"a": [1, math.inf]}, "value.a[1]"),
        ({"a": {1, 2}}, "value.a"),
        ({1: "a"}, "value"),
        (object(), "value"),
        (b"a", "value"),
        (2**60, "value"),
        ("\ud800", "value"),
    ],
)
def test_a_value_that_is_not_json_is_refused_with_its_place(value: Any, field: str) -> None:
    """What JSON cannot hold at any depth is named with its path."""
    with pytest.raises(InputError) as refused:
        check_value(value)
    assert refused.value.field == field


def test_a_value_that_holds_itself_is_refused() -> None:
    """A cycle ends at the limit of depth."""
    value: list[Any] = []
    value.append(value)
    with pytest.raises(InputError, match="32 levels"):
        check_value(value)


def test_a_value_is_measured_as_canonical_json() -> None:
    """65,536 bytes with the quotation marks are allowed, one more is not."""
    assert check_value("é" * 32_767) == "é" * 32_767
    with pytest.raises(InputError) as refused:
        check_value("é" * 32_767 + "a")
    assert refused.value.code == "too_long"


def test_a_value_is_a_copy() -> None:
    """What the caller does to the value afterwards changes nothing."""
    given: dict[str, Any] = {"a": [1]}
    checked = check_value(given)
    given["a"].append(2)
    assert checked == {"a": [1]}


@pytest.mark.parametrize("number", [0, -1, 1_001, 1.5, True, "5", None])
def test_a_page_has_1_to_1000_entries(number: Any) -> None:
    """Another size is refused."""
    with pytest.raises(InputError):
        check_page(number)


@pytest.mark.parametrize("number", [0, 101, True, "5", None])
def test_a_recall_gives_1_to_100_facts(number: Any) -> None:
    """Another number is refused."""
    with pytest.raises(InputError):
        check_top_k(number)


def test_bookkeeping_is_told_by_the_name() -> None:
    """A key that begins with two underscores is for programs alone."""
    assert is_bookkeeping("__last")
    assert not is_bookkeeping("_last")
    assert not is_bookkeeping("last__")


@pytest.mark.parametrize("facts", ["a", None, [MemoryFact(content="a"), "b"], [None]])
def test_only_a_list_of_facts_is_remembered(facts: Any) -> None:
    """Something else among them is named by its place."""
    with pytest.raises(InputError) as refused:
        check_facts(facts)
    assert str(refused.value.field).startswith("facts")


def test_ids_are_told_once() -> None:
    """An id that is given twice counts once; a text alone is no list of ids."""
    assert check_ids(["b", "a", "b"]) == ["b", "a"]
    for wrong in ("abc", None, [1], [""]):
        with pytest.raises(InputError):
            check_ids(wrong)


def test_a_cursor_is_text() -> None:
    """A page may begin after any text, or at the beginning."""
    assert check_after(None) is None
    assert check_after("") == ""
    with pytest.raises(InputError):
        check_after(3)


@pytest.mark.parametrize("source", [3, "run-1", {"sandbox_id": "run-1", "entry_index": 0}])
def test_a_source_that_is_no_reference_is_refused(source: Any) -> None:
    """A fact rests on a ``SourceRef`` or on nothing, whichever provider it goes to."""
    with pytest.raises(InputError) as refused:
        MemoryFact(content="x", source_ref=source)
    assert refused.value.field == "source_ref"
