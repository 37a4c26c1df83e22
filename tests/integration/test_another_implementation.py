"""Another implementation of C2SP reads what ours writes, and ours what it writes."""

from pathlib import Path
from typing import Final

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tlog_scales.backend import LocalBackend
from tlog_scales.reader import TilesReader
from tlog_scales.signing import Ed25519CosignatureVerifier, PlainEd25519Signer, Vkey
from tlog_scales.tlog import Checkpoint as OtherCheckpoint
from tlog_scales.tlog import (
    ConsistencyProof,
    ConsistencyProofInvalid,
    InclusionProof,
    InclusionProofInvalid,
)

from memoriale.adapters.notes.checkpoint import Checkpoint, open_checkpoint, sign_checkpoint
from memoriale.adapters.notes.signed_note import NoteSigner, SignedNote
from memoriale.adapters.notes.verifier_keys import Algorithm
from memoriale.projections.proofs.inclusion import (
    consistency_holds,
    consistency_proof,
    inclusion_holds,
    inclusion_proof,
    root_at,
)
from memoriale.projections.proofs.tiles import TileReader, files_in
from memoriale.projections.proofs.writing import TileWriter
from tests.fixtures.trees import leaf, leaves

SIZES: Final = (1, 2, 3, 7, 255, 256, 257, 1_000, 65_535, 65_536, 65_537, 66_003)
ORIGIN: Final = "memoriale/6f9b/1"
KEY: Final = Ed25519PrivateKey.from_private_bytes(b"\x07" * 32)
LOG: Final = NoteSigner(ORIGIN, KEY)


@pytest.fixture(scope="module")
def tiles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tiles of the largest size, synced at every one."""
    folder = tmp_path_factory.mktemp("tiles")
    writer = TileWriter(folder)
    for size in SIZES:
        writer.append(leaves(size, start=writer.size))
        writer.sync()
    return folder


def other_reader(folder: Path, size: int) -> TilesReader:
    reader = TilesReader(LocalBackend(folder))
    reader.set_size(size)
    return reader


@pytest.mark.parametrize("size", SIZES)
def test_both_read_the_same_tree_from_our_tiles(tiles: Path, size: int) -> None:
    """Root and audit paths at each size that had a checkpoint are equal, and hold with either."""
    ours, theirs = TileReader(files_in(tiles), size), other_reader(tiles, size)
    root = root_at(ours.node, size)
    assert theirs.calculate_root_hash() == root
    for index in {0, size // 3, size // 2, size - 1}:
        path = inclusion_proof(ours.node, index, size)
        assert theirs.get_inclusion_proof(index, size).node_hashes == path
        InclusionProof(index, size, path).check(leaf(index), root)
        assert inclusion_holds(leaf(index), index, size, path, root)
        with pytest.raises(InclusionProofInvalid):
            InclusionProof(index, size, path).check(leaf(size), root)


@pytest.mark.parametrize("new", SIZES)
def test_both_prove_the_same_growth_from_our_tiles(tiles: Path, new: int) -> None:
    """Consistency proofs between all those sizes are equal, and hold with either."""
    ours, theirs = TileReader(files_in(tiles), new), other_reader(tiles, new)
    root = root_at(ours.node, new)
    for old in (size for size in SIZES if size < new):
        path = consistency_proof(ours.node, old, new)
        assert theirs.get_consistency_proof(old, new).node_hashes == path
        ConsistencyProof(old, new, path).check(root_at(ours.node, old), root)
        assert consistency_holds(old, root_at(ours.node, old), new, root, path)
        with pytest.raises(ConsistencyProofInvalid):
            ConsistencyProof(old, new, path).check(leaf(old), root)


def test_our_checkpoint_is_read_and_verified_by_the_other() -> None:
    """Text, signature and verifier key are understood."""
    note = sign_checkpoint(Checkpoint(ORIGIN, 1, leaf(0)), [LOG])
    read = OtherCheckpoint.from_text(str(note))
    assert (read.origin, read.size, read.root_hash) == (ORIGIN, 1, leaf(0))
    read.verify(Vkey.from_string(str(LOG.verifier())))
    with pytest.raises(InvalidSignature):
        OtherCheckpoint(ORIGIN, 2, leaf(0), read.signatures).verify(
            Vkey.from_string(str(LOG.verifier()))
        )


def test_the_checkpoint_of_the_other_is_read_and_verified_by_ours() -> None:
    """It signs the same bytes with the same key id, so the two notes are one."""
    theirs = OtherCheckpoint.make_signed(ORIGIN, 1, leaf(0), [PlainEd25519Signer(ORIGIN, KEY)])
    ours = sign_checkpoint(Checkpoint(ORIGIN, 1, leaf(0)), [LOG])
    assert theirs.serialize() == str(ours)
    opened = open_checkpoint(theirs.serialize(), [LOG.verifier()], ORIGIN)
    assert opened.checkpoint.size == 1


def test_our_cosignature_is_verified_by_the_other() -> None:
    """The timestamped message of a witness is the same."""
    checkpoint = Checkpoint(ORIGIN, 1, leaf(0))
    witness = NoteSigner("witness.example", KEY)
    note = SignedNote(checkpoint.text, (witness.cosign(checkpoint.text, 1_800_000_000),))
    read = OtherCheckpoint.from_text(str(note))
    key = Vkey.from_string(str(witness.verifier(Algorithm.COSIGNATURE)))
    verifier = key.get_verifier()
    assert isinstance(verifier, Ed25519CosignatureVerifier)
    verifier.verify_note(read.signatures[0], read)
    assert verifier.get_timestamp(read.signatures[0].payload) == 1_800_000_000
