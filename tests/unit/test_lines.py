"""JSON lines are read in bounded memory, checked field by field, and recognised when repeated."""

import io
import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoriale.adapters.importing.keys import LineKeys
from memoriale.adapters.importing.lines import FIELDS, MAX_LINE_BYTES, parse_line, read_lines
from memoriale.adapters.importing.occurrences import Occurrences
from memoriale.adapters.keys.tags import TagKey
from memoriale.domain.errors import InputError

KEY = TagKey(bytes(range(32)))
GOLDEN_KEYS = [
    "0fc8a973d1a72b1fb38aac9701fbf3e8f9f8b5508250e93047c1f12605e8b0b4",
    "28c1837b4c782a112f302229a87a6dcea6f144c70e683c5bb26e9ed27b3b36d0",
]
GOLDEN_RECORD_KEY = "522f37a62ca49a5ef230f6abc92ae8955bed7d01eaa56ca1133f9bd2b2599624"

BAD_LINES: dict[str, tuple[bytes, str, str]] = {
    "not UTF-8": (b'{"content": "\xff"}', "line", "not_utf8"),
    "UTF-16": ('{"content": "x"}'.encode("utf-16"), "line", "not_utf8"),
    "not JSON": (b"{content: 1}", "line", "not_json"),
    "cut short": (b'{"content": "x"', "line", "not_json"),
    "two values": (b'{"content": "x"} {"content": "y"}', "line", "not_json"),
    "NaN": (b'{"content": "x", "importance": NaN}', "line", "not_json"),
    "infinity": (b'{"content": "x", "metadata": {"a": -Infinity}}', "line", "not_json"),
    "a key twice": (b'{"content": "x", "content": "y"}', "line", "not_json"),
    "a key twice, inside": (b'{"content": "x", "metadata": {"a": 1, "a": 2}}', "line", "not_json"),
    "nested too deeply": (b"[" * 200_000, "line", "not_json"),
    "a list": (b'["x"]', "line", "not_an_object"),
    "a text": (b'"x"', "line", "not_an_object"),
    "null": (b"null", "line", "not_an_object"),
    "too long": (b'"' + b"x" * MAX_LINE_BYTES, "line", "too_long"),
    "a mark of byte order": (b'\xef\xbb\xbf{"content": "x"}', "line", "not_json"),
    "no content": (b'{"kind": "note"}', "content", "missing"),
    "null content": (b'{"content": null}', "content", "missing"),
    "content is a number": (b'{"content": 7}', "content", "not_text"),
    "a lone surrogate": (b'{"content": "\\ud800"}', "content", "bad_character"),
    "NUL": (b'{"content": "a\\u0000b"}', "content", "bad_character"),
    "unknown field": (b'{"content": "x", "colour": "red"}', "colour", "unknown_field"),
    "field of another case": (b'{"content": "x", "Kind": "note"}', "Kind", "unknown_field"),
    "kind is a list": (b'{"content": "x", "kind": []}', "kind", "not_text"),
    "tags is a text": (b'{"content": "x", "tags": "a"}', "tags", "bad_value"),
    "a tag is a number": (b'{"content": "x", "tags": [1]}', "tags", "not_text"),
    "a surrogate in a tag": (b'{"content": "x", "tags": ["\\udfff"]}', "tags", "bad_character"),
    "evidence is a number": (b'{"content": "x", "evidence": 3}', "evidence", "bad_value"),
    "importance over 1": (b'{"content": "x", "importance": 1.5}', "importance", "out_of_range"),
    "importance is true": (b'{"content": "x", "importance": true}', "importance", "out_of_range"),
    "importance too great": (
        b'{"content": "x", "importance": 1e999}',
        "importance",
        "out_of_range",
    ),
    "metadata is a list": (b'{"content": "x", "metadata": []}', "metadata", "bad_value"),
    "a great float": (b'{"content": "x", "metadata": {"a": 1e999}}', "metadata.a", "bad_value"),
    "a nested surrogate": (
        b'{"content": "x", "metadata": {"a": [{"b": "\\udc00"}]}}',
        "metadata.a[0].b",
        "bad_character",
    ),
    "a surrogate as key": (
        b'{"content": "x", "metadata": {"\\ud800": 1}}',
        "metadata.\\ud800",
        "bad_character",
    ),
    "a nested NUL": (
        b'{"content": "x", "metadata": {"a": "\\u0000"}}',
        "metadata.a",
        "bad_character",
    ),
}


@pytest.mark.parametrize("name", BAD_LINES)
def test_a_bad_line_is_refused_with_its_field(name: str) -> None:
    """Each wrong line names the field, or ``line`` when it cannot be read, and a code."""
    line, field, code = BAD_LINES[name]
    with pytest.raises(InputError) as refused:
        parse_line(line)
    assert (refused.value.field, refused.value.code) == (field, code)


def test_an_error_never_repeats_the_line() -> None:
    """What is said about a line that cannot be read does not hold the line's words."""
    with pytest.raises(InputError) as refused:
        parse_line(b'{"content": "very private words", "importance": NaN}')
    assert "private" not in json.dumps(refused.value.as_dict())


@pytest.mark.parametrize("line", [b"", b"  \t", b"\r\n", "", "\n"])
def test_an_empty_line_is_nothing(line: bytes | str) -> None:
    """A line without anything but white space is neither a memory nor an error."""
    assert parse_line(line) is None


def test_fields_are_kept_as_given() -> None:
    """Every field passes through unchanged; null ones are left out."""
    fields = {
        "content": "café\u0301 \U0001f375 \u202eabc",
        "tags": ["a", "b"],
        "metadata": {"a": [1, 2.5, None, {"b": True}]},
        "importance": 0.25,
        "evidence": ["D1:1"],
        "created_at": "2024-01-01T00:00:00+05:45",
    }
    assert parse_line(json.dumps({**fields, "kind": None})) == fields
    assert parse_line(json.dumps(fields, ensure_ascii=False).encode()) == fields


def test_one_text_may_stand_for_a_list_of_evidence_or_persons() -> None:
    """``evidence`` and ``about`` take one text or a list."""
    parsed = parse_line('{"content": "x", "evidence": "D1:1", "about": "alice"}')
    assert parsed == {"content": "x", "evidence": ["D1:1"], "about": ["alice"]}


def test_every_field_of_the_contract_is_known() -> None:
    """The fields that files may hold are those that the documentation lists, and a few more."""
    documented = (
        "content kind user agent resource team session namespace visibility subject importance "
        "tags source source_run_id evidence valid_from valid_until created_at idempotency_key "
        "metadata owner"
    )
    assert set(documented.split()) <= set(FIELDS)


def test_a_byte_order_mark_may_stand_at_the_start() -> None:
    """The first line may begin with a byte order mark, as bytes and as text."""
    assert parse_line(b'\xef\xbb\xbf{"content": "x"}', first=True) == {"content": "x"}
    assert parse_line('\ufeff{"content": "x"}', first=True) == {"content": "x"}


def test_ends_of_lines_of_every_system_are_read() -> None:
    """Lines end with a line feed, with or without a carriage return, the last one maybe not."""
    stream = io.BytesIO(b"a\r\nb\n\nc\r\r\nd")
    assert list(read_lines(stream)) == [b"a", b"b", b"", b"c", b"d"]


def test_other_separators_of_unicode_do_not_end_a_line() -> None:
    """U+2028, U+0085 and form feeds are characters of a line."""
    text = "a\u2028b\u0085c\x0cd".encode()
    assert list(read_lines(io.BytesIO(text))) == [text]


def test_a_line_that_is_too_long_is_cut_and_the_next_one_is_whole() -> None:
    """Of a line over the limit one byte more than the limit is kept, whatever its length."""
    long, most = b"x" * (3 * MAX_LINE_BYTES), b"y" * MAX_LINE_BYTES
    lines = read_lines(io.BytesIO(long + b"\r\n" + most + b"\r\nnext\n" + long))
    assert [len(line) for line in lines] == [
        MAX_LINE_BYTES + 1,
        MAX_LINE_BYTES,
        4,
        MAX_LINE_BYTES + 1,
    ]


@given(st.lists(st.lists(st.integers(0, 30), max_size=20), max_size=20))
def test_occurrences_are_counted_as_a_counter_counts(batches: list[list[int]]) -> None:
    """Over any batches each digest is told how often it came before."""
    occurrences, seen = Occurrences(), Counter[int]()
    for batch in batches:
        expected = []
        for number in batch:
            expected.append(seen[number])
            seen[number] += 1
        digests = [number.to_bytes(8) * 4 for number in batch]
        assert occurrences.before(digests) == expected


def test_keys_of_lines_depend_on_the_line_and_its_number_alone() -> None:
    """Equal lines have different keys, which come again in another order of the other lines."""
    first = LineKeys(KEY).counted([b"a", b"b", b"a", b"c"])
    keys = LineKeys(KEY)
    second = keys.counted([b"c", b"a"]) + keys.counted([]) + keys.counted([b"d", b"a", b"b"])
    assert len(set(first)) == 4
    assert second[:2] + second[3:] == [first[3], first[0], first[2], first[1]]
    assert second[2] not in first


def test_keys_of_lines_are_those_of_the_first_release() -> None:
    """A file that an earlier release imported is recognised by every later one."""
    keys = LineKeys(KEY)
    assert keys.counted([b"{}", b"{}"]) == GOLDEN_KEYS
    assert keys.one(b"{}") == GOLDEN_RECORD_KEY


def test_keys_of_tenants_differ() -> None:
    """The same line has unrelated keys in two tenants."""
    assert LineKeys(KEY).counted([b"a"]) != LineKeys(TagKey(bytes(32))).counted([b"a"])
