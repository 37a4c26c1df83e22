"""Checkpoints and proof files: what they say counts only under the log's own signature."""

from typing import Final

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from memoriale.adapters.notes.checkpoint import Checkpoint, open_checkpoint, sign_checkpoint
from memoriale.adapters.notes.lines import encoded
from memoriale.adapters.notes.signed_note import NoteSigner, SignedNote
from memoriale.adapters.notes.tlog_proof import HEADER, TlogProof
from memoriale.adapters.notes.verifier_keys import Algorithm
from memoriale.domain.errors import InputError, ViolationError
from memoriale.projections.proofs.inclusion import inclusion_proof
from memoriale.projections.proofs.merkle import EMPTY_ROOT
from tests.fixtures.trees import leaf
from tests.unit.test_inclusion import NODE, ROOT
from tests.unit.test_signed_notes import GOLDEN

ORIGIN: Final = "memoriale/6f9b/1"
LOG: Final = NoteSigner(ORIGIN, Ed25519PrivateKey.from_private_bytes(b"\x01" * 32))
NEW: Final = NoteSigner(ORIGIN, Ed25519PrivateKey.from_private_bytes(b"\x02" * 32))
WITNESS: Final = NoteSigner("witness.example", Ed25519PrivateKey.from_private_bytes(b"\x03" * 32))
WITNESS_KEY: Final = WITNESS.verifier(Algorithm.COSIGNATURE)
SIZE: Final = 7
CHECKPOINT: Final = Checkpoint(ORIGIN, SIZE, ROOT[SIZE])
NOTE: Final = str(sign_checkpoint(CHECKPOINT, [LOG]))


def proof(index: int = 5, extra: bytes | None = b"5") -> TlogProof:
    return TlogProof(index, tuple(inclusion_proof(NODE, index, SIZE)), NOTE, extra)


def test_a_checkpoint_is_three_lines() -> None:
    """Origin, size and root, each on its line; then any extensions."""
    assert CHECKPOINT.text == f"{ORIGIN}\n7\n{encoded(ROOT[7])}\n"
    extended = Checkpoint(ORIGIN, 7, ROOT[7], ("a", "b c"))
    assert extended.text == CHECKPOINT.text + "a\nb c\n"
    for checkpoint in (CHECKPOINT, extended, Checkpoint(ORIGIN, 0, EMPTY_ROOT)):
        assert Checkpoint.parse(checkpoint.text) == checkpoint


def test_the_published_checkpoint_is_read() -> None:
    """The example of the specification."""
    text = SignedNote.parse(GOLDEN["cosigned_checkpoint"]).text
    checkpoint = Checkpoint.parse(text)
    assert (checkpoint.origin, checkpoint.size) == ("example.com/behind-the-sofa", 20_852_163)
    assert checkpoint.text == text


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        ("o\n1\n", 3),
        (f"\n7\n{encoded(ROOT[7])}\n", 1),
        (f"o\n07\n{encoded(ROOT[7])}\n", 2),
        (f"o\n-7\n{encoded(ROOT[7])}\n", 2),
        (f"o\n7.0\n{encoded(ROOT[7])}\n", 2),
        (f"o\n٧\n{encoded(ROOT[7])}\n", 2),
        (f"o\n{2**63}\n{encoded(ROOT[7])}\n", 2),
        ("o\n7\nAAAA\n", 3),
        (f"o\n7\n{encoded(ROOT[7])[:-1]}\n", 3),
        (f"o\n0\n{encoded(ROOT[7])}\n", 3),
        (f"o\n7\n{encoded(ROOT[7])}", 3),
        (f"o\n7\n{encoded(ROOT[7])}\n\nx\n", 4),
    ],
)
def test_a_malformed_checkpoint_is_refused_with_its_line(text: str, line: int) -> None:
    """A size or root with a second spelling could be taken for another checkpoint."""
    with pytest.raises(InputError) as error:
        Checkpoint.parse(text)
    assert (error.value.code, error.value.field) == ("malformed_checkpoint", f"line {line}")


def test_a_signed_checkpoint_opens_with_the_key_of_its_log() -> None:
    """It says what was signed, and of which log."""
    opened = open_checkpoint(NOTE, [LOG.verifier()], ORIGIN)
    assert opened.checkpoint == CHECKPOINT
    assert str(opened.note) == NOTE


def test_a_checkpoint_of_another_log_is_refused() -> None:
    """A good signature of a known key does not make it a checkpoint of this log."""
    with pytest.raises(ViolationError) as error:
        open_checkpoint(NOTE, [LOG.verifier()], "memoriale/6f9b/2")
    assert (error.value.code, error.value.allowed) == ("foreign_origin", "memoriale/6f9b/2")


def test_witnesses_alone_do_not_make_a_checkpoint() -> None:
    """The log's own key must have signed, not a witness or a known key of another name."""
    other = NoteSigner("memoriale/other/1", LOG.private_key)
    note = SignedNote(
        CHECKPOINT.text, (WITNESS.cosign(CHECKPOINT.text, 9), other.sign(CHECKPOINT.text))
    )
    with pytest.raises(ViolationError) as error:
        open_checkpoint(str(note), [WITNESS_KEY, other.verifier()])
    assert error.value.code == "not_signed_by_log"


def test_cosignatures_are_told_with_their_time() -> None:
    """A checkpoint that a witness has seen says which one and when."""
    note = SignedNote.parse(NOTE).with_signatures([WITNESS.cosign(CHECKPOINT.text, 1_800_000_000)])
    opened = open_checkpoint(str(note), [LOG.verifier(), WITNESS_KEY], ORIGIN)
    seen = opened.verified.signed_by(Algorithm.COSIGNATURE)
    assert [(one.key.name, one.time) for one in seen] == [("witness.example", 1_800_000_000)]


def test_either_key_of_a_rotation_opens_the_checkpoint_of_the_change() -> None:
    """The old and the new key both sign it, so whoever knows one of them learns of the other."""
    note = str(sign_checkpoint(CHECKPOINT, [LOG, NEW]))
    for keys in ([LOG.verifier()], [NEW.verifier()], [LOG.verifier(), NEW.verifier()]):
        assert open_checkpoint(note, keys, ORIGIN).checkpoint == CHECKPOINT


def test_a_proof_file_has_the_published_form() -> None:
    """Header, extra data, index, path, a blank line, the checkpoint."""
    made = proof()
    path = "".join(f"{encoded(digest)}\n" for digest in made.hashes)
    assert str(made) == f"{HEADER}\nextra NQ==\nindex 5\n{path}\n{NOTE}"
    assert str(proof(extra=None)) == f"{HEADER}\nindex 5\n{path}\n{NOTE}"
    for one in (made, proof(extra=None), proof(extra=b""), TlogProof(0, (), NOTE)):
        assert TlogProof.parse(str(one)) == TlogProof.parse(str(one).encode()) == one


def test_a_proof_file_proves_its_leaf() -> None:
    """The leaf is that of the extra data, under a signed root."""
    made = proof()
    assert made.hash_of_extra() == leaf(5)
    assert made.check(leaf(5), [LOG.verifier()], ORIGIN).checkpoint == CHECKPOINT
    assert proof(extra=None).hash_of_extra() is None


@pytest.mark.parametrize(
    ("changed", "leaf_hash"),
    [
        (proof(), leaf(4)),
        (TlogProof(4, proof().hashes, NOTE), leaf(5)),
        (TlogProof(6, proof().hashes, NOTE), leaf(5)),
        (TlogProof(7, proof().hashes, NOTE), leaf(5)),
        (TlogProof(5, proof().hashes[:-1], NOTE), leaf(5)),
        (TlogProof(5, (*proof().hashes, ROOT[7]), NOTE), leaf(5)),
        (TlogProof(5, proof().hashes[::-1], NOTE), leaf(5)),
    ],
    ids=["leaf", "index", "last index", "index outside", "cut off", "too long", "order"],
)
def test_a_changed_proof_proves_nothing(changed: TlogProof, leaf_hash: bytes) -> None:
    """Another leaf or index, or a path that is not the leaf's own, is a violation."""
    with pytest.raises(ViolationError) as error:
        changed.check(leaf_hash, [LOG.verifier()], ORIGIN)
    assert error.value.code == "not_included"


@given(st.data())
def test_no_changed_byte_of_a_proof_file_is_believed(data: st.DataObject) -> None:
    """A bit changed anywhere makes the file malformed, or a violation, or another leaf's data."""
    content = bytearray(str(proof()).encode())
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))

    def check() -> None:
        changed = TlogProof.parse(bytes(content))
        changed.check(changed.hash_of_extra() or leaf(5), [LOG.verifier()], ORIGIN)

    with pytest.raises((InputError, ViolationError)):
        check()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        ("wrong-header\nindex 0\n\ncheckpoint\n", 1),
        (f"{HEADER}\nextra !!notbase64!!\nindex 0\n\ncheckpoint\n", 2),
        (f"{HEADER}\n\n\ncheckpoint\n", 2),
        (f"{HEADER}\nextra NQ==\n\ncheckpoint\n", 3),
        (f"{HEADER}\nindex notanumber\n\ncheckpoint\n", 2),
        (f"{HEADER}\nindex -5\n\ncheckpoint\n", 2),
        (f"{HEADER}\nindex 05\n\ncheckpoint\n", 2),
        (f"{HEADER}\nindex 0\n!!notbase64!!\n\ncheckpoint\n", 3),
        (f"{HEADER}\nindex 0\n{encoded(bytes(64))}\n\ncheckpoint\n", 3),
        (f"{HEADER}\nextra NQ==\nindex 0\n{encoded(bytes(31))}\n\ncheckpoint\n", 4),
        (f"{HEADER}\nindex 0\n" + f"{encoded(bytes(32))}\n" * 64 + "\ncheckpoint\n", 66),
        (f"{HEADER}\nindex 0", 3),
        (f"{HEADER}\nindex 0\n".encode() + b"\xff\n\n", 3),
    ],
)
def test_a_malformed_proof_is_refused_with_its_line(text: str | bytes, line: int) -> None:
    """Whoever was given the file is told where it is wrong."""
    with pytest.raises(InputError) as error:
        TlogProof.parse(text)
    assert (error.value.code, error.value.field) == ("malformed_proof", f"line {line}")


@pytest.mark.parametrize("cut", range(0, len(NOTE), 7))
def test_a_cut_off_checkpoint_in_a_proof_is_refused(cut: int) -> None:
    """What is left of a file after a broken transfer proves nothing."""
    changed = TlogProof(5, proof().hashes, NOTE[:cut])
    with pytest.raises((InputError, ViolationError)):
        changed.check(leaf(5), [LOG.verifier()], ORIGIN)
