"""Keys, values and pages of working memory, the same for every provider."""

import math

import pytest

from memoriale.domain.errors import InputError
from memoriale.domain.resources.entries import (
    BOOKKEEPING,
    MAX_KEY_CHARACTERS,
    check_key,
    check_page,
    check_value,
    page_of,
    value_text,
)


@pytest.mark.parametrize("key", ["", "x" * (MAX_KEY_CHARACTERS + 1), None, 3, "a\x00b", "\ud800"])
def test_a_key_that_cannot_be_kept_is_refused_by_name(key: object) -> None:
    """The error of a key names the field."""
    with pytest.raises(InputError) as refused:
        check_key(key)
    assert refused.value.field == "key"


def test_keys_of_any_language_up_to_the_limit_are_kept() -> None:
    """A key counts in characters, not in bytes."""
    assert check_key("é" * MAX_KEY_CHARACTERS) == "é" * MAX_KEY_CHARACTERS
    assert check_key(" ") == " "


@pytest.mark.parametrize(
    "value", [math.nan, [math.inf], {1, 2}, {1: "x"}, {"a": {"b": object()}}, 2**60, b"bytes"]
)
def test_what_is_not_json_is_refused(value: object) -> None:
    """NaN, sets, keys that are no text and objects are refused, at any depth."""
    with pytest.raises(InputError) as refused:
        check_value(value)
    assert refused.value.field is not None
    assert refused.value.field.startswith("value")


def test_a_value_counts_in_bytes_of_its_shortest_text() -> None:
    """A value is as long as its canonical JSON in UTF-8; one byte more is refused."""
    assert check_value("é" * 10, max_bytes=22) == "é" * 10
    with pytest.raises(InputError, match="22 bytes"):
        check_value("é" * 10, max_bytes=21)


def test_a_value_is_a_copy() -> None:
    """Who changes what it gave changes nothing that is kept."""
    given = {"a": [1, 2]}
    kept = check_value(given)
    given["a"].append(3)
    assert kept == {"a": [1, 2]}


def test_equal_objects_have_one_text_and_other_types_another() -> None:
    """The order of an object's keys says nothing; 1, 1.0 and true are three values."""
    assert value_text({"b": 1, "a": 2}) == value_text({"a": 2, "b": 1})
    assert len({value_text(1), value_text(1.0), value_text(True)}) == 3


def test_pages_follow_the_bytes_of_the_keys_and_leave_bookkeeping_out() -> None:
    """Pages together are every key but the library's own, in the order of UTF-8 bytes."""
    keys = ["b", "a", "é", "Z", "𝔘", "ｚ", "10", "9", f"{BOOKKEEPING}last"]
    entries = {key: key for key in keys}
    listed: list[str] = []
    after = None
    while True:
        page = page_of(entries, after=after, limit=3)
        listed += page
        after = page.next
        if after is None:
            break
    assert listed == sorted(keys[:-1], key=str.encode)


@pytest.mark.parametrize("limit", [0, 1001, True, 1.5])
def test_a_page_has_1_to_1000_entries(limit: object) -> None:
    """Another limit is refused."""
    with pytest.raises(InputError):
        check_page(limit)
