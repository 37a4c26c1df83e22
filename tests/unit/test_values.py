"""Numbers, metadata and canonical JSON: what is stored reads back the same everywhere."""

import enum
import json
import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoriale.domain.errors import InputError
from memoriale.domain.values import (
    MAX_DEPTH,
    MAX_SAFE_INTEGER,
    JsonValue,
    canonical_json,
    check_metadata,
    check_unit,
    parse_json_strictly,
    thousandths,
)

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=8)
INTEGERS = st.integers(-MAX_SAFE_INTEGER, MAX_SAFE_INTEGER)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
KEYS = TEXTS | st.sampled_from(["$float", "$", "a", "\uffff", "\U00010000", ""])


UNMARKED = KEYS.filter(lambda key: not key.startswith("$"))
"""Keys that no mark of canonical JSON can look like."""


def json_values(
    leaves: st.SearchStrategy[Any], keys: st.SearchStrategy[str] = KEYS
) -> st.SearchStrategy[Any]:
    """Nested JSON values over some leaves."""
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
        max_leaves=12,
    )


WITHOUT_FLOATS = json_values(st.none() | st.booleans() | INTEGERS | TEXTS, UNMARKED)
VALUES = json_values(st.none() | st.booleans() | INTEGERS | FLOATS | TEXTS)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=4)


def exact(value: Any) -> Any:
    """A value in which true and 1 and 1.0 differ."""
    if isinstance(value, dict):
        return {key: exact(item) for key, item in value.items()}
    if isinstance(value, list):
        return [exact(item) for item in value]
    return type(value).__name__, value


def shuffled(value: Any, order: Callable[[list[Any]], list[Any]]) -> Any:
    """A value whose objects list their keys in another order."""
    if isinstance(value, dict):
        return {key: shuffled(value[key], order) for key in order(list(value))}
    if isinstance(value, list):
        return [shuffled(item, order) for item in value]
    return value


@pytest.mark.parametrize("value", [0, 1, 0.0, 1.0, 0.5, 5e-324, -0.0])
def test_numbers_in_0_to_1_are_accepted(value: float) -> None:
    """A number in 0..1 is kept as a float."""
    assert check_unit("importance", value) == value
    assert isinstance(check_unit("importance", value), float)


@pytest.mark.parametrize(
    "value",
    [
        *(-5e-324, math.nextafter(1, 2), 2, -1, math.nan, math.inf, -math.inf),
        *(True, False, "0.5", None, [0.5], 0.5j),
        pytest.param(10**5000, id="huge"),
    ],
)
def test_other_values_are_no_unit_numbers(value: object) -> None:
    """NaN, infinities, booleans, text and numbers outside 0..1 are refused by name."""
    with pytest.raises(InputError) as refused:
        check_unit("importance", value)
    error = refused.value
    assert (error.code, error.field, error.allowed) == ("out_of_range", "importance", "0..1")
    assert isinstance(error.value, str)


@given(st.integers(0, 1000))
def test_whole_thousandths_survive(n: int) -> None:
    """A number of three decimals is held exactly."""
    assert thousandths(n / 1000) == n


@given(st.floats(0, 1), st.floats(0, 1))
def test_thousandths_keep_the_order(one: float, other: float) -> None:
    """Thousandths lie in 0..1000, near the number, and never change an order."""
    low, high = sorted((one, other))
    assert 0 <= thousandths(low) <= thousandths(high) <= 1000
    assert abs(thousandths(one) - one * 1000) <= 0.5


@given(OBJECTS)
def test_metadata_is_kept_as_given(value: dict[str, Any]) -> None:
    """A JSON object is kept with the type of every value, true apart from 1 apart from 1.0."""
    assert exact(check_metadata("metadata", value)) == exact(value)


def test_metadata_is_a_copy_at_every_depth() -> None:
    """What the caller does to its object afterwards changes nothing."""
    inner: list[Any] = [{"a": 1}]
    checked = check_metadata("metadata", {"list": inner})
    inner[0]["a"] = 2
    inner.append(3)
    assert checked == {"list": [{"a": 1}]}


@pytest.mark.parametrize(
    "bad",
    [
        *(math.nan, math.inf, -math.inf, "\ud800", "a\x00b"),
        *(MAX_SAFE_INTEGER + 1, -MAX_SAFE_INTEGER - 1),
        *(b"bytes", {1, 2}, object(), 1j, datetime(2026, 1, 1, tzinfo=UTC)),
        *({1: "a"}, {None: "a"}, {True: "a"}, {("a",): 1}, {"\ud800": 1}, {"\x00": 1}),
        pytest.param(10**5000, id="huge"),
    ],
)
@pytest.mark.parametrize(
    ("wrap", "path"),
    [
        (lambda bad: {"a": bad}, "metadata.a"),
        (lambda bad: {"a": [1, {"b": bad}]}, "metadata.a[1].b"),
        (lambda bad: {"x": {"y": [[bad]]}}, "metadata.x.y[0][0]"),
    ],
    ids=["top", "in a list", "deep"],
)
def test_what_json_cannot_hold_is_refused_at_any_depth(
    wrap: Callable[[Any], dict[str, Any]], path: str, bad: object
) -> None:
    """NaN, infinities, NUL, lone surrogates, other keys and types are refused with their path."""
    with pytest.raises(InputError) as refused:
        check_metadata("metadata", wrap(bad))
    error = refused.value
    assert error.field is not None
    assert error.field.startswith(path)
    assert error.allowed
    assert isinstance(error.value, str)
    error.message.encode()
    assert json.dumps(error.as_dict(), allow_nan=False)


@pytest.mark.parametrize("value", [None, [], "{}", 5, [("a", 1)]])
def test_metadata_is_an_object(value: object) -> None:
    """Anything but a JSON object is refused."""
    with pytest.raises(InputError) as refused:
        check_metadata("metadata", value)
    error = refused.value
    assert (error.code, error.field, error.allowed) == ("bad_value", "metadata", "a JSON object")


@pytest.mark.parametrize(("levels", "fits"), [(MAX_DEPTH, True), (MAX_DEPTH + 1, False)])
@pytest.mark.parametrize("kind", ["objects", "lists"])
def test_metadata_is_at_most_32_levels_deep(levels: int, fits: bool, kind: str) -> None:
    """The 32nd level of nesting is the last."""
    value: Any = 1
    for _ in range(levels - 1):
        value = {"a": value} if kind == "objects" else [value]
    if fits:
        assert check_metadata("metadata", {"a": value}) == {"a": value}
        return
    with pytest.raises(InputError) as refused:
        check_metadata("metadata", {"a": value})
    assert refused.value.allowed == "at most 32 levels"


def test_metadata_that_holds_itself_is_refused() -> None:
    """An object that contains itself is too deep, not an endless loop."""
    value: dict[str, Any] = {}
    value["self"] = value
    with pytest.raises(InputError) as refused:
        check_metadata("metadata", value)
    assert refused.value.allowed == "at most 32 levels"


def test_metadata_is_measured_as_utf_8_json() -> None:
    """The size that counts is that of the JSON text in bytes."""
    value = {"key": "日本"}
    size = len(json.dumps(value, ensure_ascii=False).encode())
    assert check_metadata("metadata", value, max_bytes=size) == value
    with pytest.raises(InputError) as refused:
        check_metadata("metadata", value, max_bytes=size - 1)
    error = refused.value
    assert (error.code, error.field, error.value) == ("too_long", "metadata", f"{size} bytes")


def test_enumerations_become_plain_values() -> None:
    """A member of an integer enumeration is stored as its number."""
    level = enum.IntEnum("level", ["LOW"])
    checked = check_metadata("metadata", {"level": level(1)})
    assert type(checked["level"]) is int


@given(VALUES, st.randoms(use_true_random=False))
def test_canonical_json_does_not_depend_on_key_order(value: JsonValue, random: Any) -> None:
    """Equal objects give equal bytes, in whatever order their keys were set."""
    other = shuffled(value, lambda keys: random.sample(keys, len(keys)))
    assert canonical_json(other) == canonical_json(value)


@given(WITHOUT_FLOATS)
def test_canonical_json_reads_back(value: JsonValue) -> None:
    """Any reader of JSON gets back a value without floats, with true apart from 1."""
    assert exact(json.loads(canonical_json(value))) == exact(value)
    assert exact(parse_json_strictly(canonical_json(value))) == exact(value)


@given(VALUES, VALUES)
def test_different_values_have_different_canonical_json(one: Any, other: Any) -> None:
    """Equal bytes mean equal values: a request tag made from them cannot hide a difference."""
    if canonical_json(one) == canonical_json(other):
        assert one == other


@pytest.mark.parametrize("number", [1.0, 0.1, -0.0, 1e300])
def test_no_object_passes_for_a_number(number: float) -> None:
    """An object that a caller wrote never has the bytes of a number."""
    forged: JsonValue = json.loads(canonical_json(number))
    if isinstance(forged, dict | str):
        assert canonical_json(forged) != canonical_json(number)


@given(st.sampled_from([0.0, 1.0, -2.0, 1e300, 0.1]) | FLOATS)
def test_equal_floats_have_equal_canonical_json(number: float) -> None:
    """Floats that are equal give equal bytes, zero and minus zero included."""
    equal = 0.0 if number == 0 else float(repr(number))
    assert equal == number
    assert canonical_json({"a": number}) == canonical_json({"a": equal})


def test_canonical_json_is_that_of_rfc_8785() -> None:
    """The example of RFC 8785 for the order of keys and the escapes: UTF-16 units, short forms."""
    value: JsonValue = {
        "\u20ac": "Euro Sign",
        "\r": "Carriage Return",
        "\ufb33": "Hebrew Letter Dalet With Dagesh",
        "1": "One",
        "\U0001f600": "Emoji: Grinning Face",
        "\u0080": "Control",
        "\u00f6": "Latin Small Letter O With Diaeresis",
    }
    assert canonical_json(value).decode() == (
        '{"\\r":"Carriage Return","1":"One","\u0080":"Control",'
        '"ö":"Latin Small Letter O With Diaeresis","€":"Euro Sign",'
        '"\U0001f600":"Emoji: Grinning Face","\ufb33":"Hebrew Letter Dalet With Dagesh"}'
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        ([True, False, 0, -1, MAX_SAFE_INTEGER], "[true,false,0,-1,9007199254740991]"),
        ('"\\\b\t\n\f\r\x00\x1f/\x7f\u2028', '"\\"\\\\\\b\\t\\n\\f\\r\\u0000\\u001f/\x7f\u2028"'),
        ({"b": {}, "a": []}, '{"a":[],"b":{}}'),
        ("é😀", '"é😀"'),
    ],
)
def test_canonical_json_has_one_form(value: JsonValue, text: str) -> None:
    """No spaces, short escapes, lower-case hexadecimal, everything else as UTF-8."""
    assert canonical_json(value).decode() == text


@given(UNMARKED, UNMARKED)
def test_keys_stand_in_order_of_their_utf_16_units(one: str, other: str) -> None:
    """A character beyond the basic plane sorts by its surrogates, before U+E000 to U+FFFF."""
    read = json.loads(canonical_json({one: 1, other: 1}))
    assert list(read) == sorted({one, other}, key=lambda key: key.encode("utf-16-be"))


@pytest.mark.parametrize(
    "text",
    [
        *("NaN", "Infinity", '{"a": -Infinity}'),
        *('{"a": 1, "a": 1}', '[{"b": {"a": 1, "a": 2}}]', '{"a": 1, "\\u0061": 2}'),
        *("", "{", "[1,]", "{'a': 1}", "01", "1 2", '"\n"'),
        pytest.param("[" * 100_000, id="deep"),
        pytest.param("9" * 5_000, id="long number"),
        pytest.param(b'"\xff"', id="not UTF-8"),
        pytest.param('{"a": 1}'.encode("utf-16"), id="UTF-16"),
    ],
)
def test_what_is_not_strict_json_is_refused(text: str | bytes) -> None:
    """NaN, infinities, doubled keys, endless nesting and text that is no UTF-8 JSON are refused."""
    with pytest.raises(ValueError, match=r"\w"):
        parse_json_strictly(text)


@given(VALUES)
def test_strict_reading_loses_nothing(value: JsonValue) -> None:
    """What JSON can hold is read back as it was written, from text and from bytes."""
    text = json.dumps(value, ensure_ascii=False)
    assert exact(parse_json_strictly(text)) == exact(value)
    assert exact(parse_json_strictly(text.encode())) == exact(value)
