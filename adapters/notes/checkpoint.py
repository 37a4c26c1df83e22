"""Checkpoints: a log of this origin has so many leaves and this root (C2SP tlog-checkpoint)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from memoriale.adapters.notes.lines import MAX_NUMBER, decoded, encoded, malformed, number
from memoriale.adapters.notes.signed_note import NoteSigner, SignedNote, VerifiedNote, signed
from memoriale.adapters.notes.verifier_keys import Algorithm, VerifierKey
from memoriale.domain.errors import ViolationError
from memoriale.projections.proofs.merkle import EMPTY_ROOT, HASH_BYTES


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """
    What a checkpoint says.

    Args:
        origin: Which log: ``memoriale/<log id>/<incarnation>``.
        size: Leaves that it had.
        root: Root over them, 32 bytes.
        extensions: Further lines, which proofs do not cover.

    Raises:
        InputError: ``malformed_checkpoint``, with the line.
    """

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.origin or "\n" in self.origin:
            raise malformed("checkpoint", 1, "the origin is empty or has a line end")
        if not 0 <= self.size <= MAX_NUMBER:
            raise malformed("checkpoint", 2, "the size is out of range", "0 to 2**63 - 1")
        if len(self.root) != HASH_BYTES:
            raise malformed("checkpoint", 3, f"the root has {len(self.root)} bytes", "32 bytes")
        if self.size == 0 and self.root != EMPTY_ROOT:
            raise malformed("checkpoint", 3, "the root of an empty log is SHA-256 of nothing")
        for line, extension in enumerate(self.extensions, 4):
            if not extension or "\n" in extension:
                raise malformed("checkpoint", line, "the extension is empty or has a line end")

    @property
    def text(self) -> str:
        """The text that is signed."""
        lines = (self.origin, str(self.size), encoded(self.root), *self.extensions)
        return "".join(f"{line}\n" for line in lines)

    @classmethod
    def parse(cls, text: str) -> "Checkpoint":
        """
        Reads the text of a checkpoint, without its signatures.

        Args:
            text: As given by ``text``.

        Raises:
            InputError: ``malformed_checkpoint``, with the line.
        """
        lines = text.split("\n")
        if lines.pop() != "" or len(lines) < 3:
            raise malformed("checkpoint", len(lines) + 1, "a line is missing", "origin, size, root")
        origin, size, root, *extensions = lines
        leaves, digest = number(size), decoded(root)
        if leaves is None:
            raise malformed("checkpoint", 2, "the size is no number", "a decimal number")
        if digest is None:
            raise malformed("checkpoint", 3, "the root is not base64", "32 bytes in base64")
        return cls(origin, leaves, digest, tuple(extensions))


@dataclass(frozen=True, slots=True)
class SignedCheckpoint:
    """
    A checkpoint whose log's key signed it.

    Args:
        checkpoint: What it says.
        verified: Its note, with who signed and who cosigned.
    """

    checkpoint: Checkpoint
    verified: VerifiedNote

    @property
    def note(self) -> SignedNote:
        """The note, for writing it out again."""
        return self.verified.note


def sign_checkpoint(checkpoint: Checkpoint, signers: Sequence[NoteSigner]) -> SignedNote:
    """
    The note of a checkpoint.

    Args:
        checkpoint: What to sign. A log never signs two that do not fit together.
        signers: The log's keys; at a rotation the old and the new one.
    """
    return signed(checkpoint.text, signers)


def open_checkpoint(
    note: str | bytes, verifiers: Iterable[VerifierKey], origin: str | None = None
) -> SignedCheckpoint:
    """
    Reads a checkpoint and checks its signatures.

    The log itself must have signed: a good signature (not a cosignature) of a known key that
    bears the name of the origin. Cosignatures of known witnesses are checked too.

    Args:
        note: As published.
        verifiers: Keys of the log and of witnesses that are trusted.
        origin: Which log it must be of; None takes any whose key is known.

    Raises:
        InputError: ``malformed_note`` or ``malformed_checkpoint``, with the line.
        ViolationError: ``bad_signature``, ``no_known_signature``, ``foreign_origin``, or
            ``not_signed_by_log``.
    """
    parsed = SignedNote.parse(note)
    checkpoint = Checkpoint.parse(parsed.text)
    if origin is not None and checkpoint.origin != origin:
        raise ViolationError(
            f"The checkpoint is of {checkpoint.origin!r}, not of {origin!r}.",
            code="foreign_origin",
            field="line 1",
            value=checkpoint.origin[:200],
            allowed=origin,
        )
    verified = parsed.verified(verifiers)
    names = {one.key.name for one in verified.signed_by(Algorithm.ED25519)}
    if checkpoint.origin not in names:
        raise ViolationError(
            f"No known key of {checkpoint.origin!r} signed the checkpoint.",
            code="not_signed_by_log",
            field="verifier",
            value=", ".join(sorted(one.key.name for one in verified.good))[:200],
        )
    return SignedCheckpoint(checkpoint, verified)
