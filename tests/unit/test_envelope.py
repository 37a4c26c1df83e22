"""The layout of sealed states: strict both ways."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoriale.domain.envelope import Section, build_envelope, parse_envelope
from memoriale.domain.errors import UnavailableError


@given(
    st.lists(
        st.builds(
            lambda ids, period, nonce, text: Section(b"".join(sorted(ids)) + period, nonce, text),
            st.sets(st.binary(min_size=16, max_size=16), min_size=1, max_size=4),
            st.binary(min_size=16, max_size=16),
            st.binary(min_size=12, max_size=12),
            st.binary(min_size=16, max_size=64),
        ),
        max_size=4,
    )
)
def test_an_envelope_is_parsed_into_what_it_was_built_from(parts: list[Section]) -> None:
    """Building and parsing are each other's inverse."""
    assert parse_envelope(build_envelope(parts)) == parts


@given(st.binary(max_size=200).map(lambda data: b"\x01\x00\x01\x01\x00\x01" + data))
def test_any_bytes_are_parsed_or_malformed(data: bytes) -> None:
    """Whatever the bytes, the parser answers or raises its typed error."""
    parsed = None
    with suppress(UnavailableError):
        parsed = parse_envelope(data)
    assert parsed is None or build_envelope(parsed) == data


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda s: b"\x02" + s[1:], "version"),
        (lambda s: s[:3] + b"\x02" + s[4:], "algorithm"),
        (lambda s: s[:4] + b"\x00\x00" + s[38:], "missing, doubled"),
        (lambda s: s[:6] + s[22:38] + s[6:22] + s[38:], "out of order"),
        (lambda s: s[:6] + s[6:22] * 2 + s[38:], "doubled"),
        (lambda s: s[:66] + b"\xff\xff\xff\xff" + s[70:], "length"),
    ],
)
def test_a_malformed_envelope_says_what_is_wrong(
    change: Callable[[bytes], bytes], reason: str
) -> None:
    """Version, algorithm, order and number of key ids and lengths are checked."""
    section = Section(b"a" * 16 + b"b" * 16 + b"period key id 16", b"n" * 12, b"ciphertext and tag")
    state = build_envelope([section])
    assert parse_envelope(state) == [section]
    with pytest.raises(UnavailableError, match=reason) as caught:
        parse_envelope(change(state))
    assert caught.value.code == "malformed_state"
