"""Texts with signatures under them (C2SP signed-note, cosignature/v1)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from memoriale.adapters.notes.lines import as_text, decoded, encoded, malformed
from memoriale.adapters.notes.verifier_keys import (
    KEY_ID_BYTES,
    TIME_BYTES,
    Algorithm,
    VerifierKey,
    cosigned,
    is_key_name,
)
from memoriale.domain.errors import ViolationError

MAX_NOTE_CHARACTERS: Final = 1_000_000
MAX_SIGNATURES: Final = 100
_DASH: Final = "— "


@dataclass(frozen=True, slots=True)
class NoteSignature:
    """
    One line under a note.

    Args:
        name: Name of the key that is said to have signed.
        key_id: Its first four bytes, which tell keys of one name apart.
        payload: The signature; before it a time, when it is a cosignature.
    """

    name: str
    key_id: bytes
    payload: bytes

    def __str__(self) -> str:
        return f"{_DASH}{self.name} {encoded(self.key_id + self.payload)}"


@dataclass(frozen=True, slots=True)
class SignedNote:
    """
    A text and its signatures, none of which has been checked: see ``verified``.

    Args:
        text: Every line of it with its line end.
        signatures: In the order in which they stand.

    Raises:
        InputError: ``malformed_note``: the text cannot stand in a note.
    """

    text: str
    signatures: tuple[NoteSignature, ...] = ()

    def __post_init__(self) -> None:
        if not self.text.endswith("\n"):
            raise malformed("note", self.text.count("\n") + 1, "the text does not end with a line")
        for line, content in enumerate(self.text.split("\n"), 1):
            if any(character < " " for character in content):
                raise malformed("note", line, "it has a control character")

    @classmethod
    def parse(cls, note: str | bytes) -> "SignedNote":
        """
        Reads a note.

        Args:
            note: Text, a blank line, and a line for each signature.

        Raises:
            InputError: ``malformed_note``, with the line.
        """
        content = _content(note)
        text, blank, below = content.rpartition("\n\n")
        first = text.count("\n") + 3
        if not blank:
            raise malformed(
                "note", content.count("\n") + 1, "there is no blank line before the signatures"
            )
        if not below.endswith("\n"):
            raise malformed(
                "note", content.count("\n") + 1, "there is no signature, or the last is cut off"
            )
        lines = below[:-1].split("\n")
        if len(lines) > MAX_SIGNATURES:
            raise malformed(
                "note", first + MAX_SIGNATURES, f"there are {len(lines)} signatures", "100"
            )
        return cls(
            text + "\n", tuple(_signature(line, first + at) for at, line in enumerate(lines))
        )

    def __str__(self) -> str:
        return f"{self.text}\n" + "".join(f"{signature}\n" for signature in self.signatures)

    def with_signatures(self, signatures: Iterable[NoteSignature]) -> "SignedNote":
        """The note with more signatures; one that is there already is not added again."""
        return replace(self, signatures=tuple(dict.fromkeys([*self.signatures, *signatures])))

    def verified(self, verifiers: Iterable[VerifierKey]) -> "VerifiedNote":
        """
        Checks every signature of a known key and leaves those of unknown keys aside.

        Args:
            verifiers: The keys that are trusted.

        Raises:
            ViolationError: ``bad_signature``, when a known key did not make the signature that
                bears its name; ``no_known_signature``, when no known key signed at all.
        """
        known = {(key.name, key.key_id): key for key in verifiers}
        good: list[Verified] = []
        unknown: list[NoteSignature] = []
        for signature in dict.fromkeys(self.signatures):
            key = known.get((signature.name, signature.key_id))
            if key is None:
                unknown.append(signature)
            elif key.holds(self.text, signature.payload):
                good.append(Verified(key, signature, key.time(signature.payload)))
            else:
                raise _bad_signature(self, signature)
        if not good:
            raise _nobody_known(self)
        return VerifiedNote(self, tuple(good), tuple(unknown))


@dataclass(frozen=True, slots=True)
class Verified:
    """
    A signature that holds.

    Args:
        key: Who signed.
        signature: The line.
        time: When a witness says that it cosigned, in seconds since 1970; else None.
    """

    key: VerifierKey
    signature: NoteSignature
    time: int | None


@dataclass(frozen=True, slots=True)
class VerifiedNote:
    """
    A note with at least one good signature of a known key and no bad one.

    Args:
        note: The note.
        good: Signatures of known keys.
        unknown: Signatures of unknown keys, which say nothing.
    """

    note: SignedNote
    good: tuple[Verified, ...]
    unknown: tuple[NoteSignature, ...]

    @property
    def text(self) -> str:
        """What was signed."""
        return self.note.text

    def signed_by(self, algorithm: Algorithm) -> tuple[Verified, ...]:
        """The good signatures of one algorithm."""
        return tuple(one for one in self.good if one.key.algorithm is algorithm)


@dataclass(frozen=True, slots=True)
class NoteSigner:
    """
    A private key that signs notes under a name.

    Args:
        name: Of the signer; for a checkpoint its origin.
        private_key: May sign under many names.
    """

    name: str
    private_key: Ed25519PrivateKey

    def verifier(self, algorithm: Algorithm = Algorithm.ED25519) -> VerifierKey:
        """The public key to give away."""
        public = self.private_key.public_key().public_bytes_raw()
        return VerifierKey(self.name, public, algorithm)

    def sign(self, text: str) -> NoteSignature:
        """Signs the text of a note."""
        payload = self.private_key.sign(SignedNote(text).text.encode())
        return NoteSignature(self.name, self.verifier().key_id, payload)

    def cosign(self, text: str, time: int) -> NoteSignature:
        """
        Signs as a witness.

        Args:
            text: Text of a checkpoint that was found consistent with all seen before.
            time: Now, in whole seconds since 1970.
        """
        signature = self.private_key.sign(cosigned(SignedNote(text).text, time))
        key_id = self.verifier(Algorithm.COSIGNATURE).key_id
        return NoteSignature(self.name, key_id, time.to_bytes(TIME_BYTES, "big") + signature)


def signed(text: str, signers: Sequence[NoteSigner]) -> SignedNote:
    """
    A note with the signatures of all signers.

    Args:
        text: Lines, each with its end.
        signers: Who signs, in this order.
    """
    return SignedNote(text, tuple(signer.sign(text) for signer in signers))


def parse_signatures(lines: str, first_line: int = 1) -> tuple[NoteSignature, ...]:
    """
    Reads signature lines that stand alone, as a witness sends them.

    Args:
        lines: One signature a line, each with its end.
        first_line: How errors count the first one.

    Raises:
        InputError: ``malformed_note``, with the line.
    """
    if lines and not lines.endswith("\n"):
        raise malformed("note", first_line + lines.count("\n"), "the last signature is cut off")
    return tuple(
        _signature(line, first_line + at) for at, line in enumerate(lines.split("\n")[:-1])
    )


def _content(note: str | bytes) -> str:
    content = as_text("note", note)
    if len(content) > MAX_NOTE_CHARACTERS:
        problem = f"the note has {len(content)} characters"
        raise malformed("note", 1, problem, f"{MAX_NOTE_CHARACTERS} characters")
    return content


def _signature(line: str, place: int) -> NoteSignature:
    name, _, data = line.removeprefix(_DASH).partition(" ")
    blob = decoded(data)
    if not line.startswith(_DASH) or not is_key_name(name) or blob is None:
        raise malformed(
            "note", place, "it is no signature", "an em dash, a space, a name, a space, base64"
        )
    if len(blob) <= KEY_ID_BYTES:
        raise malformed("note", place, "its signature is too short")
    return NoteSignature(name, blob[:KEY_ID_BYTES], blob[KEY_ID_BYTES:])


def _line_of(note: SignedNote, signature: NoteSignature) -> int:
    return note.text.count("\n") + 2 + note.signatures.index(signature)


def _bad_signature(note: SignedNote, signature: NoteSignature) -> ViolationError:
    line = _line_of(note, signature)
    return ViolationError(
        f"Line {line} of the note: the key {signature.name} is known, and this is not its "
        "signature of this text. Believe nothing of it.",
        code="bad_signature",
        field=f"line {line}",
        value=f"{signature.name}+{signature.key_id.hex()}",
    )


def _nobody_known(note: SignedNote) -> ViolationError:
    names = [f"{one.name}+{one.key_id.hex()}" for one in note.signatures]
    return ViolationError(
        "No key that is known signed the note. Give the verifier key of its signer, from a "
        "source other than the note's.",
        code="no_known_signature",
        field="verifier",
        value=", ".join(names)[:200],
    )
