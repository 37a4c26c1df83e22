"""A proof that a leaf is in a log, in one file with the checkpoint (C2SP tlog-proof, v1)."""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from memoriale.adapters.notes.checkpoint import SignedCheckpoint, open_checkpoint
from memoriale.adapters.notes.lines import MAX_NUMBER, as_text, decoded, encoded, malformed, number
from memoriale.adapters.notes.verifier_keys import VerifierKey
from memoriale.domain.errors import ViolationError
from memoriale.projections.proofs.inclusion import inclusion_holds
from memoriale.projections.proofs.merkle import HASH_BYTES

HEADER: Final = "c2sp.org/tlog-proof@v1"
_MAX_HASHES: Final = 63


@dataclass(frozen=True, slots=True)
class TlogProof:
    """
    A proof file. Nothing in it is believed before ``check``.

    Args:
        index: Place of the leaf in the log.
        hashes: The audit path, lowest first.
        checkpoint: The note of the checkpoint, as published.
        extra: Bytes that help to make the leaf, such as its data; None for none.

    Raises:
        InputError: ``malformed_proof``, with the line.
    """

    index: int
    hashes: tuple[bytes, ...]
    checkpoint: str
    extra: bytes | None = None

    def __post_init__(self) -> None:
        line = 2 if self.extra is None else 3
        if not 0 <= self.index <= MAX_NUMBER:
            raise malformed("proof", line, "the index is out of range", "0 to 2**63 - 1")
        if len(self.hashes) > _MAX_HASHES:
            raise malformed("proof", line + _MAX_HASHES + 1, "the path is too long", "63 hashes")
        for at, digest in enumerate(self.hashes, line + 1):
            if len(digest) != HASH_BYTES:
                raise malformed("proof", at, f"the hash has {len(digest)} bytes", "32 bytes")

    def __str__(self) -> str:
        extra = [] if self.extra is None else [f"extra {encoded(self.extra)}"]
        lines = [HEADER, *extra, f"index {self.index}", *map(encoded, self.hashes), ""]
        return "".join(f"{line}\n" for line in lines) + self.checkpoint

    @classmethod
    def parse(cls, text: str | bytes) -> "TlogProof":
        """
        Reads a proof file.

        Args:
            text: As given by ``str``.

        Raises:
            InputError: ``malformed_proof``, with the line.
        """
        head, blank, checkpoint = as_text("proof", text).partition("\n\n")
        lines = head.split("\n")
        if lines[0] != HEADER:
            raise malformed("proof", 1, "it is not the first line of a proof", HEADER)
        if not blank:
            raise malformed(
                "proof", len(lines) + 1, "the blank line and the checkpoint are missing"
            )
        at, extra = 1, None
        if lines[1:] and lines[1].startswith("extra "):
            at, extra = 2, decoded(lines[1].removeprefix("extra "))
            if extra is None:
                raise malformed("proof", 2, "the extra data is not base64")
        index = lines[at] if len(lines) > at else ""
        place = number(index.removeprefix("index ")) if index.startswith("index ") else None
        if place is None:
            raise malformed("proof", at + 1, "it names no index", "index and a decimal number")
        return cls(place, _hashes(lines, at + 1), checkpoint, extra)

    def check(
        self, leaf_hash: bytes, verifiers: Iterable[VerifierKey], origin: str | None = None
    ) -> SignedCheckpoint:
        """
        Returns the checkpoint in which the leaf is proved to be.

        Args:
            leaf_hash: The hash of the leaf, made by the caller; ``hash_of_extra`` makes it when
                the leaf's data stands in the file.
            verifiers: Keys of the log and of witnesses that are trusted.
            origin: Which log it must be of.

        Raises:
            InputError: The checkpoint is malformed.
            ViolationError: As ``open_checkpoint``; ``not_included``, when the leaf is not at
                this index of that tree.
        """
        opened = open_checkpoint(self.checkpoint, verifiers, origin)
        tree = opened.checkpoint
        if not inclusion_holds(leaf_hash, self.index, tree.size, self.hashes, tree.root):
            raise ViolationError(
                f"The proof does not show that the leaf is at index {self.index} of the "
                f"{tree.size} leaves of {tree.origin}.",
                code="not_included",
                field="proof",
                value=leaf_hash.hex(),
            )
        return opened

    def hash_of_extra(self) -> bytes | None:
        """The leaf hash when ``extra`` is the leaf's data; None when there is none."""
        return None if self.extra is None else sha256(b"\x00" + self.extra).digest()


def _hashes(lines: list[str], start: int) -> tuple[bytes, ...]:
    hashes = []
    for at, line in enumerate(lines[start:], start + 1):
        digest = decoded(line)
        if digest is None:
            raise malformed("proof", at, "the hash is not base64", "32 bytes in base64")
        hashes.append(digest)
    return tuple(hashes)
