"""Signed notes are those of C2SP, byte for byte, and no changed one is believed."""

import json
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from memoriale.adapters.notes.signed_note import (
    NoteSignature,
    NoteSigner,
    SignedNote,
    parse_signatures,
    signed,
)
from memoriale.adapters.notes.verifier_keys import Algorithm, VerifierKey
from memoriale.domain.errors import InputError, ViolationError

GOLDEN: Final[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "golden" / "proofs.json").read_text()
)
TEXT: Final[str] = GOLDEN["text"]
PETER: Final = VerifierKey.parse(GOLDEN["keys"]["PeterNeumann"])
ENOCH: Final = VerifierKey.parse(GOLDEN["keys"]["EnochRoot"])
PETER_LINE: Final[str] = GOLDEN["signatures"]["PeterNeumann"] + "\n"
ENOCH_LINE: Final[str] = GOLDEN["signatures"]["EnochRoot"] + "\n"
PRIVATE: Final = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(GOLDEN["private_key"]))
SIGNER: Final = NoteSigner("PeterNeumann", PRIVATE)


def test_the_published_note_is_made_and_verified() -> None:
    """The published private key gives the published note, and the published key verifies it."""
    note = signed(TEXT, [SIGNER])
    assert str(note) == f"{TEXT}\n{PETER_LINE}"
    assert SIGNER.verifier() == PETER
    assert SignedNote.parse(str(note)) == SignedNote.parse(str(note).encode()) == note
    assert note.verified([PETER]).text == TEXT


def test_a_key_is_written_as_it_was_read() -> None:
    """A verifier key has one spelling."""
    for text in GOLDEN["keys"].values():
        assert str(VerifierKey.parse(text)) == text


def test_no_mangled_key_is_read() -> None:
    """Of the published key no part, and no spelling with one byte changed, is a key."""
    text = GOLDEN["keys"]["PeterNeumann"]
    mangled = [text[i:j] for i in range(len(text)) for j in range(i + 1, len(text) + 1)]
    mangled += [text[:i] + chr(ord(text[i]) + 1) + text[i + 1 :] for i in range(len(text))]
    mangled += [
        "PeterNeumann+cc469956+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TWBADKEY==",
        "PeterNeumann+173116ae+ZRpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
        text.replace("c74f20a3", "C74F20A3"),
        f" {text}",
        f"{text}\n",
    ]
    for attempt in mangled:
        if attempt == text:
            continue
        with pytest.raises(InputError) as error:
            VerifierKey.parse(attempt)
        assert (error.value.code, error.value.field) == ("bad_verifier_key", "verifier")


@pytest.mark.parametrize("name", ["", "a b", "a+b", "a\u2003b", "a\nb", "a\x1fb"])
def test_names_that_would_break_a_line_are_refused(name: str) -> None:
    """Spaces of any script, plus signs and control characters cannot stand in a name."""
    with pytest.raises(InputError, match="its name is empty or has a space"):
        NoteSigner(name, PRIVATE).verifier()


def test_signatures_of_unknown_keys_are_left_aside() -> None:
    """One known signature is enough; the unknown one is listed and says nothing."""
    note = SignedNote.parse(f"{TEXT}\n{PETER_LINE}{ENOCH_LINE}")
    one = note.verified([PETER])
    assert [good.key for good in one.good] == [PETER]
    assert [str(unknown) for unknown in one.unknown] == [ENOCH_LINE.rstrip("\n")]
    both = note.verified([ENOCH, PETER])
    assert [good.key for good in both.good] == [PETER, ENOCH]
    assert both.unknown == ()


def test_a_note_that_nobody_known_signed_is_refused() -> None:
    """Without a known key there is nothing to believe; the error names who is said to have."""
    with pytest.raises(ViolationError) as error:
        SignedNote.parse(f"{TEXT}\n{PETER_LINE}").verified([ENOCH])
    assert error.value.code == "no_known_signature"
    assert error.value.value == "PeterNeumann+c74f20a3"


def test_a_key_of_the_same_name_is_another_key() -> None:
    """Name and key id together say who signed; a stranger cannot use a known name."""
    stranger = NoteSigner("PeterNeumann", Ed25519PrivateKey.generate())
    note = signed(TEXT, [stranger])
    with pytest.raises(ViolationError, match="No key that is known"):
        note.verified([PETER])


def test_a_bad_signature_of_a_known_key_is_an_error_beside_a_good_one() -> None:
    """Others may have signed well: one that bears a known key's name must hold."""
    forged = NoteSignature("PeterNeumann", PETER.key_id, bytes(64))
    note = SignedNote.parse(f"{TEXT}\n{ENOCH_LINE}{forged}\n")
    assert [good.key for good in note.verified([ENOCH]).good] == [ENOCH]
    with pytest.raises(ViolationError) as error:
        note.verified([ENOCH, PETER])
    assert (error.value.code, error.value.field) == ("bad_signature", "line 5")
    assert error.value.exit_code == 1


@given(st.data())
def test_no_changed_byte_is_believed(data: st.DataObject) -> None:
    """A bit changed anywhere in a note makes it malformed, unsigned or badly signed."""
    note = bytearray(str(signed(TEXT, [SIGNER])).encode())
    note[data.draw(st.integers(0, len(note) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises((InputError, ViolationError)):
        SignedNote.parse(bytes(note)).verified([PETER])


def test_a_second_spelling_of_a_signature_is_refused() -> None:
    """Base64 whose unused bits are set decodes to the same bytes, and is not taken."""
    assert PETER_LINE.endswith("AM=\n")
    with pytest.raises(InputError, match="Line 4 of the note: it is no signature"):
        SignedNote.parse(f"{TEXT}\n{PETER_LINE[:-3]}N=\n")


@pytest.mark.parametrize(
    ("note", "line"),
    [
        (TEXT, 3),
        (f"{TEXT}\n", 4),
        (f"{TEXT}\n{PETER_LINE[:-1]}", 4),
        (f"\x01{TEXT}\n{PETER_LINE}", 1),
        (f"{TEXT}\r\n\n{PETER_LINE}", 3),
        (b"\xff" + f"{TEXT}\n{PETER_LINE}".encode(), 1),
        (f"{TEXT}\n— Bad Name {PETER_LINE.split()[2]}\n", 4),
        (f"{TEXT}\n{PETER_LINE}Unexpected line.\n", 5),
        (f"{TEXT}\n{PETER_LINE}— PeterNeumann x08g\n", 5),
        (f"{TEXT}\n{PETER_LINE}— PeterNeumann x08go===\n", 5),
        (f"{TEXT}\n" + PETER_LINE * 101, 104),
        (f"{TEXT}\ud800\n\n{PETER_LINE}", 3),
        ("a" * 1_000_001, 1),
    ],
)
def test_a_malformed_note_is_refused_with_its_line(note: str | bytes, line: int) -> None:
    """Whoever made the file is told where it is wrong."""
    with pytest.raises(InputError) as error:
        SignedNote.parse(note)
    assert (error.value.code, error.value.field) == ("malformed_note", f"line {line}")


def test_the_text_may_have_blank_lines() -> None:
    """The last blank line ends the text."""
    text = "Ognuno sta solo sul cuor della terra\n\ned è subito sera.\n"
    note = SignedNote.parse(str(signed(text, [SIGNER])))
    assert note.verified([PETER]).text == text


def test_a_text_without_a_line_end_cannot_be_signed() -> None:
    """Its last line would run into the signatures."""
    with pytest.raises(InputError, match="the text does not end with a line"):
        SIGNER.sign("abc")


def test_signatures_are_added_once() -> None:
    """A witness asked twice leaves one line."""
    note = signed(TEXT, [SIGNER]).with_signatures(
        [SIGNER.sign(TEXT), *parse_signatures(ENOCH_LINE)]
    )
    assert str(note) == f"{TEXT}\n{PETER_LINE}{ENOCH_LINE}"


def test_a_cut_off_answer_of_a_witness_is_refused() -> None:
    """Signature lines alone are read like those under a note."""
    with pytest.raises(InputError, match="Line 1 of the note: the last signature is cut off"):
        parse_signatures(ENOCH_LINE[:-1])
    assert parse_signatures("") == ()


def test_a_cosignature_covers_its_time() -> None:
    """A witness signs the time too: the same signature at another time does not hold."""
    line = SIGNER.cosign(TEXT, 1_700_000_000)
    witness = SIGNER.verifier(Algorithm.COSIGNATURE)
    note = SignedNote(TEXT, (line,))
    assert [good.time for good in note.verified([witness]).good] == [1_700_000_000]
    later = line.payload[:7] + b"\x01" + line.payload[8:]
    moved = SignedNote(TEXT, (NoteSignature(line.name, line.key_id, later),))
    with pytest.raises(ViolationError, match="is not its signature"):
        moved.verified([witness])


def test_a_cosignature_is_no_signature_of_the_log() -> None:
    """One key used for both has two key ids, and neither signature passes for the other."""
    note = SignedNote(TEXT, (SIGNER.cosign(TEXT, 1),))
    with pytest.raises(ViolationError, match="No key that is known"):
        note.verified([SIGNER.verifier()])
    payload = SIGNER.sign(TEXT).payload
    witness = SIGNER.verifier(Algorithm.COSIGNATURE)
    assert not witness.holds(TEXT, payload)
    assert not witness.holds(TEXT, bytes(8) + payload)
    assert not SIGNER.verifier().holds(TEXT, b"")


def test_the_published_cosigned_checkpoint_is_read() -> None:
    """The example of the specification has a log's signature and one of a witness with its time."""
    note = SignedNote.parse(GOLDEN["cosigned_checkpoint"])
    log, witness = note.signatures
    assert (log.name, witness.name) == ("example.com/behind-the-sofa", "witness.example.com/w1")
    key = VerifierKey(witness.name, bytes(32), Algorithm.COSIGNATURE)
    assert key.time(witness.payload) == 1_679_315_147
    assert str(note) == GOLDEN["cosigned_checkpoint"]
