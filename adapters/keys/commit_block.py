"""
The layout of the key file's two commit blocks. All integers are big endian.

    4 B   ``MKC1``
    u64   sequence
    u64   end of the records
    u64   place of a record that is being destroyed, or 0
    u64   live persons, u64 live periods, u64 keys destroyed so far
    8 B   id of the master key
    40 B  the store's secret, wrapped by the master key (RFC 3394)
    16 B  MAC over the store id and all of the above

A new block overwrites the older of the two, so that one whole block is on the disk always.
"""

import hmac
import struct
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from memoriale.adapters.keys.store_secret import (
    MAC_BYTES,
    MASTER_ID_BYTES,
    WRAPPED_BYTES,
    StoreSecret,
)

_BODY = struct.Struct(f">4sQQQQQQ{MASTER_ID_BYTES}s{WRAPPED_BYTES}s")
_MAGIC = b"MKC1"
BLOCK_BYTES: Final = _BODY.size + MAC_BYTES


@dataclass(frozen=True, slots=True)
class Commit:
    """One published state of the key file."""

    sequence: int
    end: int
    pending: int
    persons: int
    periods: int
    destroyed: int
    master_id: bytes
    wrapped_secret: bytes

    def next(self, **changes: Any) -> Self:
        """Return the state that follows this one."""
        return replace(self, sequence=self.sequence + 1, **changes)

    def encode(self, secret: StoreSecret) -> bytes:
        """Return the block's bytes."""
        body = _BODY.pack(
            _MAGIC,
            self.sequence,
            self.end,
            self.pending,
            self.persons,
            self.periods,
            self.destroyed,
            self.master_id,
            self.wrapped_secret,
        )
        return body + _mac(secret, body)


def read_unproven(data: bytes) -> Commit | None:
    """Return what a block says before the store's secret is known, or None if it is no block."""
    if len(data) < BLOCK_BYTES or not data.startswith(_MAGIC):
        return None
    return Commit(*_BODY.unpack_from(data)[1:])


def read_proven(secret: StoreSecret, data: bytes) -> Commit | None:
    """Return the block if its MAC is right."""
    body = data[: _BODY.size]
    if not hmac.compare_digest(data[_BODY.size : BLOCK_BYTES], _mac(secret, body)):
        return None
    return read_unproven(data)


def _mac(secret: StoreSecret, body: bytes) -> bytes:
    return secret.mac(secret.store_id.bytes + body)
