"""
Tags: keyed hashes that let the log compare and group what it cannot read.

Every tag is an HMAC-SHA-256 under the tag key of the owner or the tenant, and an id made from a
tag is its first 16 bytes. The message begins with the tag's purpose, ``/1`` and a zero byte, so
tags of two kinds are never equal. Tag keys never rotate: stored tags cannot be made again.
"""

import hmac
import struct
import unicodedata
from typing import Final, NewType
from uuid import UUID

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from memoriale.domain.errors import InputError
from memoriale.domain.text import canonical_text_v1

TagKey = NewType("TagKey", bytes)

_LENGTH = struct.Struct(">I")

CONTENT_TAG_V1: Final = b"\x01"
"""First byte of a content tag made from canonical text v1."""


def tag_key(data_key: bytes) -> TagKey:
    """Return the tag key of a person or tenant: HKDF-SHA-256 of its data key, no salt, 'tag/1'."""
    return TagKey(HKDF(SHA256(), 32, salt=None, info=b"tag/1").derive(data_key))


def request_tag(key: TagKey, canonical_json: bytes) -> bytes:
    """
    Return the 32-byte tag that recognises a repeated request.

    Args:
        key: The owner's.
        canonical_json: Command, arguments as given and principal, as RFC 8785 JSON.
    """
    return _tag(key, b"request", canonical_json)


def content_tag(key: TagKey, text: str) -> bytes:
    """Return the 33-byte tag, version byte first, that recognises a text in canonical form."""
    return CONTENT_TAG_V1 + _tag(key, b"content", canonical_text_v1(text).encode())


def idempotency_tag(key: TagKey, caller_key: str) -> bytes:
    """Return the 32-byte tag of a caller's idempotency key, byte for byte as given."""
    return _tag(key, b"idempotency", caller_key.encode())


def namespace_tags(tenant_key: TagKey, path: str) -> list[bytes]:
    """
    Return one 32-byte tag per prefix of a namespace, the shortest first.

    Args:
        tenant_key: The tenant's, so that all owners' memories in a namespace match.
        path: Such as ``org/team/project``, compared in NFC; empty for no namespace.

    Raises:
        InputError: A segment is empty.
    """
    if not path:
        return []
    segments = _nfc(path).split("/")
    if "" in segments:
        raise InputError(
            "A namespace has an empty segment. Write it like org/team/project.",
            code="empty_segment",
            field="namespace",
            allowed="segments separated by single slashes",
        )
    prefixes = ("/".join(segments[: depth + 1]) for depth in range(len(segments)))
    return [_tag(tenant_key, b"namespace", prefix.encode()) for prefix in prefixes]


def aspect_tag(key: TagKey, aspect: str) -> bytes:
    """Return the 32-byte tag of what a fact is about, compared in NFC, under the owner's key."""
    return _tag(key, b"aspect", _nfc(aspect).encode())


def memory_id(key: TagKey, kind: str, caller_key: str) -> UUID:
    """
    Return the id of a memory that is made with an idempotency key, equal in every retry.

    Args:
        key: The owner's.
        kind: The memory's kind.
        caller_key: The idempotency key, byte for byte as given.
    """
    encoded = kind.encode()
    return _uuid(_tag(key, b"memory", _LENGTH.pack(len(encoded)) + encoded + caller_key.encode()))


def embedding_tag(key: TagKey, model: str, width: int, text: str) -> bytes:
    """
    Return the 32-byte tag by which the vector of a text is found again.

    Args:
        key: The owner's.
        model: Identity of the model.
        width: Components of its vectors.
        text: As the model was given it, byte for byte.
    """
    encoded = model.encode()
    numbers = _LENGTH.pack(width) + _LENGTH.pack(len(encoded))
    return _tag(key, b"embedding", numbers + encoded + text.encode())


def stream_id(tenant_key: TagKey, memory_id: UUID, branch: UUID) -> UUID:
    """Return the id of a memory's stream on a branch."""
    return _uuid(_tag(tenant_key, b"stream", memory_id.bytes + branch.bytes))


def adopted_id(tenant_key: TagKey, memory_id: UUID, owner: UUID) -> UUID:
    """Return the id of a memory that a merge gives another owner, equal in every merge."""
    return _uuid(_tag(tenant_key, b"adopted", memory_id.bytes + owner.bytes))


def branch_stream_id(scope_owner_key: TagKey, name: str) -> UUID:
    """Return the id of a branch's stream, one per scope owner and name compared in NFC."""
    return _uuid(_tag(scope_owner_key, b"branch", _nfc(name).encode()))


def _tag(key: TagKey, purpose: bytes, message: bytes) -> bytes:
    return hmac.digest(key, purpose + b"/1\0" + message, "sha256")


def _uuid(tag: bytes) -> UUID:
    return UUID(bytes=tag[:16])


def _nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text)
