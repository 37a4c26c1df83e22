"""
The layout of a record of the key file. All integers are big endian.

    u32   length of the record, a multiple of 64
    u8    kind: 1 = person, 2 = period
    u8    state: 1 = live, 2 = destroyed
    2 B   zero
    16 B  key id
    16 B  pseudonym (zero for a period)
    40 B  data key, wrapped (RFC 3394) by the store's wrapping key
    12 B  nonce
          ciphertext of u16 length + name + zeros
    16 B  AES-256-GCM tag

The associated data are the store id, the record's place in the file (u64) and the record's
first 80 bytes, so that the tag covers every byte and holds at this place only. Of a destroyed
record the ids remain; key and ciphertext are zeros, and the tag covers them as associated data.
"""

import os
import struct
from enum import IntEnum
from typing import Final, NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.keywrap import InvalidUnwrap

from memoriale.adapters.keys.store_secret import WRAPPED_BYTES, StoreSecret

UNIT: Final = 64
MAX_RECORD: Final = 1024
TAG_BYTES: Final = 16
_LIVE, _DESTROYED = 1, 2
_HEAD = struct.Struct(f">IBB2x16s16s{WRAPPED_BYTES}s")
_NONCE_BYTES = 12
_FIXED = _HEAD.size + _NONCE_BYTES + TAG_BYTES
_NAME_LENGTH = struct.Struct(">H")
_PLACE = struct.Struct(">16sQ")


class Kind(IntEnum):
    """What a key belongs to."""

    PERSON = 1
    PERIOD = 2


class DamagedRecordError(Exception):
    """The bytes at ``offset`` are not a record of this store, or not whole."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


class StoredKey(NamedTuple):
    """A live record, opened. Never printed: it holds a key."""

    offset: int
    length: int
    kind: Kind
    key_id: bytes
    pseudonym: bytes
    key: bytes
    name: bytes

    def __repr__(self) -> str:
        return f"StoredKey(offset={self.offset}, kind={self.kind.name})"


class DestroyedKey(NamedTuple):
    """What is left of a destroyed record."""

    offset: int
    length: int
    kind: Kind
    key_id: bytes
    pseudonym: bytes


def new_key(kind: Kind, name: bytes, offset: int) -> StoredKey:
    """Return a record with fresh random ids and key, to be written at ``offset``."""
    random = os.urandom(64)
    pseudonym = random[16:32] if kind is Kind.PERSON else bytes(16)
    return StoredKey(offset, _length(name), kind, random[:16], pseudonym, random[32:], name)


def encode(secret: StoreSecret, record: StoredKey) -> bytes:
    """Return the bytes of a live record."""
    head = _HEAD.pack(
        record.length,
        record.kind,
        _LIVE,
        record.key_id,
        record.pseudonym,
        secret.wrap(record.key),
    )
    nonce = os.urandom(_NONCE_BYTES)
    text = _NAME_LENGTH.pack(len(record.name)) + record.name
    text += bytes(record.length - _FIXED - len(text))
    place = _PLACE.pack(secret.store_id.bytes, record.offset)
    return b"".join((head, nonce, secret.records.encrypt(nonce, text, place + head)))


def encode_destroyed(secret: StoreSecret, record: StoredKey | DestroyedKey) -> bytes:
    """Return the bytes that overwrite a record: as long, without key and name."""
    head = _HEAD.pack(
        record.length,
        record.kind,
        _DESTROYED,
        record.key_id,
        record.pseudonym,
        bytes(WRAPPED_BYTES),
    )
    nonce = os.urandom(_NONCE_BYTES)
    body = bytes(record.length - _FIXED)
    place = _PLACE.pack(secret.store_id.bytes, record.offset)
    return b"".join((head, nonce, body, secret.records.encrypt(nonce, b"", place + head + body)))


def remains(data: bytes, offset: int) -> DestroyedKey:
    """
    Return what a destroyed record keeps, from a record that is overwritten only in part.

    Those bytes are the same before and after, so it does not matter which part.

    Raises:
        DamagedRecordError: The bytes were never a record.
    """
    length = stated_length(data)
    if not length or data[4] not in tuple(Kind):
        raise DamagedRecordError(offset)
    _, kind, _, key_id, pseudonym, _ = _HEAD.unpack_from(data)
    return DestroyedKey(offset, length, Kind(kind), key_id, pseudonym)


def stated_length(data: bytes) -> int:
    """Return the length that a record states in its first bytes, unproven; 0 if impossible."""
    length = int.from_bytes(data[:4], "big")
    possible = len(data) >= _HEAD.size and length % UNIT == 0 and _FIXED < length <= MAX_RECORD
    return length if possible else 0


def decode(secret: StoreSecret, data: bytes, offset: int) -> StoredKey | DestroyedKey:
    """
    Return the record that begins at ``data[0]`` and stands at ``offset`` in the file.

    Raises:
        DamagedRecordError: A byte was changed, moved or is missing.
    """
    length = stated_length(data)
    if not length or len(data) < length:
        raise DamagedRecordError(offset)
    head, nonce_end = data[: _HEAD.size], _HEAD.size + _NONCE_BYTES
    _, kind, state, key_id, pseudonym, wrapped = _HEAD.unpack(head)
    nonce, sealed = data[_HEAD.size : nonce_end], data[nonce_end:length]
    place = _PLACE.pack(secret.store_id.bytes, offset)
    try:
        if state == _DESTROYED:
            body, tag = sealed[:-TAG_BYTES], sealed[-TAG_BYTES:]
            secret.records.decrypt(nonce, tag, place + head + body)
            return DestroyedKey(offset, length, Kind(kind), key_id, pseudonym)
        text = secret.records.decrypt(nonce, sealed, place + head)
        key = secret.unwrap(wrapped)
    except (InvalidTag, InvalidUnwrap):
        raise DamagedRecordError(offset) from None
    (name_length,) = _NAME_LENGTH.unpack_from(text)
    name = text[_NAME_LENGTH.size : _NAME_LENGTH.size + name_length]
    return StoredKey(offset, length, Kind(kind), key_id, pseudonym, key, name)


def _length(name: bytes) -> int:
    needed = _FIXED + _NAME_LENGTH.size + len(name)
    return -(-needed // UNIT) * UNIT
