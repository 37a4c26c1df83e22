"""
The store's secret, and the keys derived from it.

The master key wraps the store's secret (AES key wrap, RFC 3394); everything else in the store
is protected by keys derived from the secret with HKDF-SHA-256 (salt: the store id). Rotating
the master key therefore rewrites one wrapped secret and no record.
"""

import hmac
from dataclasses import dataclass
from typing import Self
from uuid import UUID

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.keywrap import aes_key_unwrap, aes_key_wrap

MAC_BYTES = 16
WRAPPED_BYTES = 40
MASTER_ID_BYTES = 8


@dataclass(frozen=True, slots=True, repr=False)
class StoreSecret:
    """Keys of one store: one to wrap data keys, one for names, one for look-ups, one for MACs."""

    secret: bytes
    store_id: UUID
    wrapping_key: bytes
    records: AESGCM
    index_key: bytes
    mac_key: bytes

    @classmethod
    def derive(cls, secret: bytes, store_id: UUID) -> Self:
        """Derive the keys of the store from its 32-byte secret."""
        return cls(
            secret,
            store_id,
            wrapping_key=_derive(secret, store_id, b"wrap/1"),
            records=AESGCM(_derive(secret, store_id, b"record/1")),
            index_key=_derive(secret, store_id, b"index/1"),
            mac_key=_derive(secret, store_id, b"mac/1"),
        )

    def wrap(self, key: bytes) -> bytes:
        """Return a 32-byte data key as 40 wrapped bytes."""
        return aes_key_wrap(self.wrapping_key, key)

    def unwrap(self, wrapped: bytes) -> bytes:
        """Return the data key; raises ``InvalidUnwrap``."""
        return aes_key_unwrap(self.wrapping_key, wrapped)

    def mac(self, message: bytes) -> bytes:
        """Return the 16-byte MAC of a block of the key file."""
        return hmac.digest(self.mac_key, message, "sha256")[:MAC_BYTES]

    def index_mac(self, message: bytes) -> bytes:
        """Return the 16-byte MAC of a name or a block of the index."""
        return hmac.digest(self.index_key, message, "sha256")[:MAC_BYTES]


def master_id(master: bytes) -> bytes:
    """Return eight bytes that tell master keys apart and reveal nothing of them."""
    return hmac.digest(master, b"memoriale master key id", "sha256")[:MASTER_ID_BYTES]


def _derive(secret: bytes, store_id: UUID, purpose: bytes) -> bytes:
    info = b"memoriale key store/" + purpose
    return HKDF(SHA256(), 32, salt=store_id.bytes, info=info).derive(secret)
