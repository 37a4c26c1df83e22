"""Tags: which inputs give the same one, and that the bytes never change."""

import hashlib
import hmac
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoriale.adapters.keys import tags
from memoriale.adapters.keys.tags import TagKey
from memoriale.domain.errors import InputError

GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "golden" / "tags.json").read_text()
)
KEY = tags.tag_key(bytes(range(32)))
OTHER_KEY = tags.tag_key(bytes(32))

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)

TEXT_TAGS: dict[str, Callable[[TagKey, str], bytes]] = {
    "request": lambda key, text: tags.request_tag(key, text.encode()),
    "content": tags.content_tag,
    "idempotency": tags.idempotency_tag,
    "aspect": tags.aspect_tag,
    "branch": lambda key, text: tags.branch_stream_id(key, text).bytes,
    "memory": lambda key, text: tags.memory_id(key, "fact", text).bytes,
    "namespace": lambda key, text: b"".join(tags.namespace_tags(key, text)),
}


def computed(case: dict[str, Any]) -> list[str]:
    """Compute what a golden case holds, as hexadecimal."""
    key = tags.tag_key(bytes.fromhex(GOLDEN["data_key"]))
    given: Any = case["input"]
    match case["tag"]:
        case "tag_key":
            return [tags.tag_key(bytes.fromhex(given)).hex()]
        case "namespace":
            return [tag.hex() for tag in tags.namespace_tags(key, given)]
        case "stream":
            return [tags.stream_id(key, UUID(given[0]), UUID(given[1])).hex]
        case "adopted":
            return [tags.adopted_id(key, UUID(given[0]), UUID(given[1])).hex]
        case "memory":
            return [tags.memory_id(key, *given).hex]
        case kind:
            return [TEXT_TAGS[kind](key, given).hex()]


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: f"{case['tag']}-{case['input']}")
def test_tags_are_frozen(case: dict[str, Any]) -> None:
    """Every tag of the frozen vectors comes out byte for byte: stored ones must match for ever."""
    assert computed(case) == case["output"]


def test_the_tag_key_follows_rfc_5869() -> None:
    """The tag key is HKDF-SHA-256 without salt, computed here from HMACs alone."""
    extracted = hmac.digest(bytes(32), bytes(range(32)), "sha256")
    assert hmac.digest(extracted, b"tag/1\x01", "sha256") == KEY


def test_a_tag_is_an_hmac_with_its_purpose() -> None:
    """The message is purpose, version, zero byte and content; nothing but the HMAC is stored."""
    expected = hmac.new(KEY, b"idempotency/1\0abc", hashlib.sha256).digest()
    assert tags.idempotency_tag(KEY, "abc") == expected
    assert tags.content_tag(KEY, "abc") == b"\x01" + hmac.digest(KEY, b"content/1\0abc", "sha256")


def test_sizes() -> None:
    """Tags have 32 bytes, a content tag one more for its version."""
    assert [len(make(KEY, "a")) for make in TEXT_TAGS.values()] == [32, 33, 32, 32, 16, 16, 32]


@given(texts)
def test_tags_of_two_kinds_are_never_equal(text: str) -> None:
    """The same text under the same key gives another tag for every purpose."""
    text = text.replace("/", "-") or "x"
    made = {make(KEY, text)[-32:][:16] for name, make in TEXT_TAGS.items() if name != "content"}
    made.add(tags.content_tag(KEY, text)[1:17])
    assert len(made) == len(TEXT_TAGS)


@pytest.mark.parametrize("kind", TEXT_TAGS)
def test_tags_of_two_keys_are_never_equal(kind: str) -> None:
    """Two owners' tags of the same text have nothing in common."""
    assert TEXT_TAGS[kind](KEY, "same") != TEXT_TAGS[kind](OTHER_KEY, "same")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Alice prefers e-mail", "  alice\tPREFERS\n\n e-mail ", True),
        ("Caf\u00e9", "cafe\u0301", True),
        ("Straße", "STRASSE", True),
        ("ΣΊΣΥΦΟΣ", "σίσυφοσ", True),
        ("a\u00a0b", "a \u3000\u2028 b", True),
        ("", " \n ", True),
        ("e-mail", "email", False),
        ("ab", "a b", False),
        ("\u212b", "\u00e5", True),
        ("ｆｕｌｌ", "full", False),
        ("i", "ı", False),
        ("a\u200bb", "ab", False),
        ("1", "１", False),
    ],
)
def test_equal_texts_in_canonical_form_have_equal_tags(one: str, other: str, same: bool) -> None:
    """Case, canonical composition and white space do not matter to a content tag; letters do."""
    assert (tags.content_tag(KEY, one) == tags.content_tag(KEY, other)) is same


def test_aspects_and_branch_names_are_compared_in_nfc() -> None:
    """Two spellings of the same characters are one aspect and one branch; case still counts."""
    assert tags.aspect_tag(KEY, "caf\u00e9") == tags.aspect_tag(KEY, "cafe\u0301")
    assert tags.aspect_tag(KEY, "Café") != tags.aspect_tag(KEY, "café")
    assert tags.branch_stream_id(KEY, "caf\u00e9") == tags.branch_stream_id(KEY, "cafe\u0301")
    assert tags.branch_stream_id(KEY, "what-if") != tags.branch_stream_id(KEY, "What-if")


def test_idempotency_keys_are_compared_byte_for_byte() -> None:
    """A caller's key is opaque: another spelling is another key."""
    assert tags.idempotency_tag(KEY, "caf\u00e9") != tags.idempotency_tag(KEY, "cafe\u0301")
    assert tags.memory_id(KEY, "fact", "caf\u00e9") != tags.memory_id(KEY, "fact", "cafe\u0301")


def test_a_namespace_has_one_tag_per_prefix() -> None:
    """The tags of a path begin with the tags of its ancestors, and siblings share only those."""
    path = tags.namespace_tags(KEY, "org/team/project")
    assert len(path) == 3
    assert tags.namespace_tags(KEY, "org/team") == path[:2]
    assert tags.namespace_tags(KEY, "org/team-b/project")[:1] == path[:1]
    assert not set(tags.namespace_tags(KEY, "org/team-b/project")[1:]) & set(path)
    assert tags.namespace_tags(KEY, "team/project") != path[1:]
    assert tags.namespace_tags(KEY, "") == []


@pytest.mark.parametrize("path", ["/", "/org", "org/", "org//team"])
def test_an_empty_segment_is_refused(path: str) -> None:
    """A path with an empty segment would have a tag that nobody else's path has."""
    with pytest.raises(InputError) as caught:
        tags.namespace_tags(KEY, path)
    assert caught.value.field == "namespace"


def test_stream_ids_depend_on_memory_and_branch() -> None:
    """One memory has one stream per branch, and the order of the two ids counts."""
    one, other = UUID(int=1), UUID(int=2)
    made = {tags.stream_id(KEY, a, b) for a in (one, other) for b in (one, other)}
    assert len(made) == 4
    assert tags.stream_id(KEY, one, other) == tags.stream_id(KEY, one, other)


def test_memory_ids_depend_on_kind_and_key() -> None:
    """Kind and idempotency key cannot trade characters."""
    assert tags.memory_id(KEY, "fact", "s1") != tags.memory_id(KEY, "facts", "1")
    assert tags.memory_id(KEY, "fact", "s1") == tags.memory_id(KEY, "fact", "s1")
