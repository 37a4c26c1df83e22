"""
The layout of a sealed ``state``, frozen from the first event. All integers are big endian.

    u8   0x01, the envelope version
    u16  number of sections, then per section:
        u8   algorithm: 1 = AES-256-GCM
        u16  number of person key ids, at least 1
        16 B each: the person key ids, in ascending order, none twice
        16 B period key id
        12 B nonce
        u32  length of the ciphertext
             ciphertext, its last 16 bytes the authentication tag

A section's associated data are, in this order and each as u32 length + bytes: log id (16 B),
event id (16 B), stream id (16 B), stream version (i64), topic (UTF-8), schema version (i32),
section number from 0 (i32).
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, NoReturn
from uuid import UUID

from memoriale.domain.errors import UnavailableError

ENVELOPE_VERSION: Final = 1
AES_256_GCM: Final = 1
KEY_ID_BYTES: Final = 16
NONCE_BYTES: Final = 12
TAG_BYTES: Final = 16

_HEAD = struct.Struct(">BH")
_LENGTH = struct.Struct(">I")
_POSITION = struct.Struct(">I16sI16sI16sIqI")
_NUMBERS = struct.Struct(">IiIi")


class Section(NamedTuple):
    """One sealed section, not yet opened."""

    key_ids: bytes
    """The person key ids in ascending order, then the period key id, 16 bytes each."""
    nonce: bytes
    ciphertext: bytes
    """With the authentication tag at its end."""


@dataclass(frozen=True, slots=True)
class Erased:
    """Stands for a section that nobody can open any more, because a key was destroyed."""

    section: int
    """Number of the section, from 0."""
    missing: tuple[bytes, ...]
    """Ids of the keys that do not exist."""


@dataclass(frozen=True, slots=True)
class SealContext:
    """The event that a state belongs to. A state opens in no other."""

    log_id: UUID
    event_id: UUID
    stream_id: UUID
    stream_version: int
    topic: str
    schema_version: int


def associated_data(context: SealContext, section: int) -> bytes:
    """Return what binds section number ``section`` to its event."""
    topic = context.topic.encode()
    return b"".join(
        (
            _POSITION.pack(
                16,
                context.log_id.bytes,
                16,
                context.event_id.bytes,
                16,
                context.stream_id.bytes,
                8,
                context.stream_version,
                len(topic),
            ),
            topic,
            _NUMBERS.pack(4, context.schema_version, 4, section),
        )
    )


def build_envelope(sections: Sequence[Section]) -> bytes:
    """Return the bytes of ``state`` for up to 65,535 sections."""
    parts = [_HEAD.pack(ENVELOPE_VERSION, len(sections))]
    for section in sections:
        persons = len(section.key_ids) // KEY_ID_BYTES - 1
        parts += (
            _HEAD.pack(AES_256_GCM, persons),
            section.key_ids,
            section.nonce,
            _LENGTH.pack(len(section.ciphertext)),
            section.ciphertext,
        )
    return b"".join(parts)


def parse_envelope(state: bytes) -> list[Section]:
    """
    Return the sections of ``state``. Every byte must be accounted for.

    Raises:
        UnavailableError: With code ``malformed_state``: the bytes are not of this layout.
    """
    try:
        version, count = _HEAD.unpack_from(state)
        if version != ENVELOPE_VERSION:
            _malformed(f"its envelope version is {version}, known is {ENVELOPE_VERSION}")
        sections, end = [], _HEAD.size
        for _ in range(count):
            section, end = _parse_section(state, end)
            sections.append(section)
    except struct.error:
        _malformed("it is cut short")
    if end != len(state):
        _malformed(f"it has {len(state)} bytes where its sections need {end}")
    return sections


def sealed_with(state: bytes) -> bytes:
    """The key ids of the first section of a ``state``; those of an event's sections are equal."""
    _, persons = _HEAD.unpack_from(state, _HEAD.size)
    start = 2 * _HEAD.size
    return state[start : start + KEY_ID_BYTES * (persons + 1)]


def split_key_ids(key_ids: bytes) -> tuple[bytes, ...]:
    """Return concatenated key ids one by one."""
    return tuple(
        key_ids[start : start + KEY_ID_BYTES] for start in range(0, len(key_ids), KEY_ID_BYTES)
    )


def _parse_section(state: bytes, start: int) -> tuple[Section, int]:
    algorithm, persons = _HEAD.unpack_from(state, start)
    if algorithm != AES_256_GCM:
        _malformed(f"it names the unknown algorithm {algorithm}")
    ids_start = start + _HEAD.size
    nonce_start = ids_start + KEY_ID_BYTES * (persons + 1)
    length_start = nonce_start + NONCE_BYTES
    (length,) = _LENGTH.unpack_from(state, length_start)
    text_start = length_start + _LENGTH.size
    end = text_start + length
    if length < TAG_BYTES or end > len(state):
        _malformed("the length of a ciphertext is wrong")
    key_ids = state[ids_start:nonce_start]
    if persons != 1:
        _check_order(key_ids, persons)
    return Section(key_ids, state[nonce_start:length_start], state[text_start:end]), end


def _check_order(key_ids: bytes, persons: int) -> None:
    ids = split_key_ids(key_ids)[:persons]
    if not ids or list(ids) != sorted(set(ids)):
        _malformed("its person key ids are missing, doubled or out of order")


def _malformed(reason: str) -> NoReturn:
    raise UnavailableError(
        f"A stored state cannot be read: {reason}. Run verify to see whether it was changed.",
        code="malformed_state",
        field="state",
    )
