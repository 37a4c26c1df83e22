"""Text: stored as given or refused by name; nothing is repaired in silence."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoriale.domain.errors import InputError
from memoriale.domain.text import (
    MAX_OUTSIDE_ID_BYTES,
    MAX_QUERY_CHARACTERS,
    canonical_text_v1,
    check_code,
    check_outside_id,
    check_query,
    check_tenant,
    check_text,
    shown,
)

STORABLE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
ANY_TEXT = st.text(st.characters(), max_size=200)
SCRIPTS = [
    "日本語と漢字",
    "مرحبا بالعالم",
    "שלום עולם",
    "e\u0301 and \u00e9",
    "👩‍👩‍👧‍👦 🇮🇹 ☝🏽",
    "न\u0940ति",
    "\u202eright to left override\u202c",
    "\ufeffmark \u200b zero width",
    "  spaces kept  \r\n\ttoo ",
    "\x01\x1b[31m control",
    "\U0010ffff",
]


@pytest.mark.parametrize("text", SCRIPTS)
def test_text_of_any_script_is_kept_as_given(text: str) -> None:
    """Text comes back byte for byte: not normalised, not trimmed, not filtered."""
    assert check_text("content", text).encode() == text.encode()


@given(STORABLE)
def test_text_is_kept_or_refused_as_blank(text: str) -> None:
    """Text that UTF-8 and PostgreSQL can hold is kept, unless it is blank."""
    if text.strip():
        assert check_text("content", text) == text
        return
    with pytest.raises(InputError) as refused:
        check_text("content", text)
    assert (refused.value.code, refused.value.field) == ("empty", "content")


@pytest.mark.parametrize("value", [None, 5, 1.5, True, b"bytes", ["text"], {"a": 1}, object()])
def test_what_is_no_text_is_refused(value: object) -> None:
    """Only text is text; nothing is turned into it."""
    with pytest.raises(InputError) as refused:
        check_text("source", value)
    error = refused.value
    assert (error.code, error.field, error.allowed) == ("not_text", "source", "text")
    assert error.value is not None


@pytest.mark.parametrize("bad", ["\x00", "\ud800", chr(0xDFFF), "\ude00\ud83d"])
@pytest.mark.parametrize("around", ["{}", "a{}", "{}a", "日{}本"])
def test_characters_that_cannot_be_stored_are_refused(bad: str, around: str) -> None:
    """A NUL or a lone surrogate anywhere is refused, and the error can itself be written."""
    with pytest.raises(InputError) as refused:
        check_text("source", around.format(bad))
    error = refused.value
    assert (error.code, error.field) == ("bad_character", "source")
    for shown_text in (error.message, error.value):
        assert "\x00" not in shown_text
        shown_text.encode()


@pytest.mark.parametrize("unit", ["a", "é", "日", "😀"])
def test_sizes_are_counted_in_bytes_of_utf_8(unit: str) -> None:
    """The limit is bytes, whole text or nothing: the limit itself fits, one byte more does not."""
    text = unit * 12
    size = len(text.encode())
    assert check_text("source", text, max_bytes=size) == text
    with pytest.raises(InputError) as refused:
        check_text("source", text, max_bytes=size - 1)
    error = refused.value
    assert (error.code, error.field, error.value) == ("too_long", "source", f"{size} bytes")
    assert error.allowed == f"at most {size - 1} bytes of UTF-8"


@pytest.mark.parametrize(
    "given_content", ["secret\x00 is 42", "secret\ud800 is 42", b"secret is 42"]
)
def test_an_error_never_shows_content(given_content: object) -> None:
    """What is wrong with content is said without showing any of it."""
    with pytest.raises(InputError) as refused:
        check_text("content", given_content)
    assert "secret" not in str(refused.value.as_dict())


@pytest.mark.parametrize("code", ["a", "gpt-4.1", "A_b.c:d/e-f", "0", "x" * 64, "_private"])
def test_names_stored_in_clear(code: str) -> None:
    """1 to 64 letters, digits and a few marks make a name that is stored in clear."""
    assert check_code("model", code) == code


@pytest.mark.parametrize(
    "code", ["", " ", "a b", "é", "x" * 65, "a\n", "\na", "a\x00", "a@b", "a,b", "\ud800", None, 5]
)
def test_other_names_are_refused(code: object) -> None:
    """Anything else, a trailing line end included, is refused and never stored in clear."""
    with pytest.raises(InputError) as refused:
        check_code("model", code)
    error = refused.value
    assert (error.code, error.field, error.value) == ("bad_name", "model", shown(code))
    assert error.allowed == "[A-Za-z0-9_.:/-]{1,64}"


@pytest.mark.parametrize("tenant", ["acme", "acme-corp", "a", "t/1", "a_b", "-"])
def test_tenants_are_named_by_codes(tenant: str) -> None:
    """Any code that does not begin with an underscore names a tenant."""
    assert check_tenant(tenant) == tenant


@pytest.mark.parametrize("tenant", ["_global", "_deployment", "_", "_acme"])
def test_tenants_with_an_underscore_first_are_reserved(tenant: str) -> None:
    """Names that begin with an underscore are the product's own."""
    with pytest.raises(InputError) as refused:
        check_tenant(tenant)
    assert (refused.value.code, refused.value.field) == ("reserved", "tenant")


@pytest.mark.parametrize("tenant", ["", " ", "a b", None, "ünit", "x" * 65])
def test_a_tenant_must_be_named(tenant: object) -> None:
    """An empty tenant or one that is no code is refused."""
    with pytest.raises(InputError) as refused:
        check_tenant(tenant)
    assert (refused.value.code, refused.value.field) == ("bad_name", "tenant")


@pytest.mark.parametrize(
    "id_", ["alice", "a:b\\c", "../../etc/passwd", "' OR 1=1 --", "日本", "%_*?", "x" * 256, " a "]
)
def test_outside_ids_are_opaque(id_: str) -> None:
    """An outside id is kept as given and means nothing but itself."""
    assert check_outside_id("user", id_) == id_


@pytest.mark.parametrize(("id_", "code"), [("", "empty"), ("é" * 129, "too_long"), (7, "not_text")])
def test_outside_ids_have_1_to_256_bytes(id_: object, code: str) -> None:
    """An outside id is text of 1 to 256 bytes."""
    assert MAX_OUTSIDE_ID_BYTES == 256
    with pytest.raises(InputError) as refused:
        check_outside_id("user", id_)
    assert (refused.value.code, refused.value.field) == (code, "user")


@pytest.mark.parametrize("unit", ["a", "😀"])
def test_a_query_has_at_most_16384_characters(unit: str) -> None:
    """A question is measured in characters, in whatever script."""
    assert MAX_QUERY_CHARACTERS == 16_384
    assert check_query(unit * MAX_QUERY_CHARACTERS) == unit * MAX_QUERY_CHARACTERS
    with pytest.raises(InputError) as refused:
        check_query(unit * (MAX_QUERY_CHARACTERS + 1))
    assert (refused.value.code, refused.value.field) == ("too_long", "query")


@pytest.mark.parametrize("query", ["", " \t\n", None, "\x00", "\ud800"])
def test_a_query_must_ask_something(query: object) -> None:
    """A blank or unreadable question is refused."""
    with pytest.raises(InputError) as refused:
        check_query(query)
    assert refused.value.field == "query"


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("  Alice\t prefers\n\ne-mail ", "alice prefers e-mail"),
        ("STRASSE", "strasse"),
        ("Straße", "strasse"),
        ("e\u0301", "\u00e9"),
        ("\u00c9", "\u00e9"),
        ("Ω", "ω"),
        ("a\u00a0b\u3000c", "a b c"),
        ("full．stop.", "full．stop."),
        ("", ""),
    ],
)
def test_the_canonical_text_is_frozen(text: str, canonical: str) -> None:
    """Version 1 is NFC, casefold, one space for each run of whitespace, trimmed; for ever."""
    assert canonical_text_v1(text) == canonical


@given(STORABLE)
def test_equal_text_in_other_forms_is_one(text: str) -> None:
    """Text that differs by composition or by its whitespace alone has one canonical form."""
    canonical = canonical_text_v1(text)
    assert canonical_text_v1(unicodedata.normalize("NFD", text)) == canonical
    assert canonical_text_v1(f" \n{text}\u3000") == canonical
    assert canonical == canonical.strip()


@given(ANY_TEXT)
def test_what_an_error_shows_is_short_and_printable(text: str) -> None:
    """An error shows at most 80 printable characters, so that no terminal obeys them."""
    seen = shown(text)
    assert len(seen) <= 80
    assert seen.isprintable()
    seen.encode()


@pytest.mark.parametrize(
    "value", [10**5000, [10**5000], -(10**5000)], ids=["long", "in a list", "negative"]
)
def test_numbers_too_long_to_write_are_shown_as_well(value: object) -> None:
    """A number of more digits than Python writes is still shown, not an error of its own."""
    assert 0 < len(shown(value)) <= 80
