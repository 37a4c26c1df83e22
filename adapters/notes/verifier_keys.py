"""Public keys of signers, as one line of text: ``name+hash+key`` (C2SP signed-note)."""

import re
from dataclasses import dataclass
from enum import IntEnum
from hashlib import sha256
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from memoriale.adapters.notes.lines import MAX_NUMBER, decoded, encoded
from memoriale.domain.errors import InputError

KEY_ID_BYTES: Final = 4
SIGNATURE_BYTES: Final = 64
TIME_BYTES: Final = 8
_KEY_BYTES: Final = 32
_KEY_ID: Final = re.compile(r"[0-9a-f]{8}")


class Algorithm(IntEnum):
    """What a signature covers. Others exist; signatures made with them are left aside."""

    ED25519 = 0x01
    """The text of the note."""
    COSIGNATURE = 0x04
    """A time and the text: a witness saw this checkpoint then (C2SP tlog-cosignature)."""


@dataclass(frozen=True, slots=True)
class VerifierKey:
    """
    The public key of a signer.

    Args:
        name: Of the signer; no spaces, no plus sign.
        public_key: The Ed25519 key, 32 bytes.
        algorithm: What its signatures cover.

    Raises:
        InputError: The name or the key cannot be one.
    """

    name: str
    public_key: bytes
    algorithm: Algorithm = Algorithm.ED25519

    def __post_init__(self) -> None:
        if not is_key_name(self.name):
            raise _bad_key(self.name, "its name is empty or has a space or a plus sign")
        if len(self.public_key) != _KEY_BYTES:
            raise _bad_key(self.name, f"its key has {len(self.public_key)} bytes instead of 32")

    @classmethod
    def parse(cls, text: str) -> "VerifierKey":
        """
        Reads ``name+hash+key``.

        Args:
            text: One line without its end.

        Raises:
            InputError: ``bad_verifier_key``.
        """
        name, _, rest = text.partition("+")
        key_id, _, key = rest.partition("+")
        data = decoded(key)
        if data is None or _KEY_ID.fullmatch(key_id) is None:
            raise _bad_key(text, "it is not of the form name+hash+key")
        if data[:1] not in (b"\x01", b"\x04"):
            raise _bad_key(text, "its algorithm is neither Ed25519 (1) nor a cosignature (4)")
        verifier = cls(name, data[1:], Algorithm(data[0]))
        if verifier.key_id.hex() != key_id:
            raise _bad_key(
                text, f"its hash is not that of its name and key, {verifier.key_id.hex()}"
            )
        return verifier

    @property
    def key_id(self) -> bytes:
        """Four bytes that stand before every signature of this key."""
        data = self.name.encode() + b"\n" + bytes([self.algorithm]) + self.public_key
        return sha256(data).digest()[:KEY_ID_BYTES]

    def __str__(self) -> str:
        key = encoded(bytes([self.algorithm]) + self.public_key)
        return f"{self.name}+{self.key_id.hex()}+{key}"

    def holds(self, text: str, payload: bytes) -> bool:
        """
        Whether a signature is this key's signature of a text.

        Args:
            text: The text of a note with its last line end.
            payload: What stands in the signature line after the key id.
        """
        time = self.time(payload)
        message = text.encode() if time is None else cosigned(text, time)
        if len(payload) != self.payload_bytes or (time is not None and time > MAX_NUMBER):
            return False
        try:
            public = Ed25519PublicKey.from_public_bytes(self.public_key)
            public.verify(payload[-SIGNATURE_BYTES:], message)
        except (InvalidSignature, ValueError):
            return False
        return True

    @property
    def payload_bytes(self) -> int:
        """How long a signature is: 64 bytes, with its time 72."""
        return SIGNATURE_BYTES + (TIME_BYTES if self.algorithm is Algorithm.COSIGNATURE else 0)

    def time(self, payload: bytes) -> int | None:
        """When a cosignature says that it was made, in seconds since 1970; None for others."""
        if self.algorithm is not Algorithm.COSIGNATURE:
            return None
        return int.from_bytes(payload[:TIME_BYTES], "big")


def is_key_name(name: str) -> bool:
    """Whether a text can be the name of a key."""
    return bool(name) and not any(c.isspace() or c == "+" or c < " " for c in name)


def cosigned(text: str, time: int) -> bytes:
    """
    The message that a witness signs.

    Args:
        text: The text of a checkpoint.
        time: Seconds since 1970.
    """
    return f"cosignature/v1\ntime {time}\n{text}".encode()


def _bad_key(value: str, problem: str) -> InputError:
    return InputError(
        f"The verifier key cannot be used: {problem}.",
        code="bad_verifier_key",
        field="verifier",
        value=value[:200],
        allowed="name+hash+key, as printed when the key was made",
    )
