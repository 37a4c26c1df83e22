"""The Merkle tree gives the roots of RFC 6962."""

from collections.abc import Sequence
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoriale.projections.proofs.merkle import MerkleTree, root_of

# Leaves and roots of the test vectors of the Certificate Transparency project.
LEAVES = [
    bytes.fromhex(text)
    for text in (
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
]
ROOTS = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]


def hashes(leaves: Sequence[bytes]) -> list[bytes]:
    return [sha256(b"\x00" + leaf).digest() for leaf in leaves]


def defined_root(leaves: Sequence[bytes]) -> bytes:
    """Section 2.1 as written, by recursion."""
    if not leaves:
        return sha256(b"").digest()
    if len(leaves) == 1:
        return sha256(b"\x00" + leaves[0]).digest()
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    halves = defined_root(leaves[:split]) + defined_root(leaves[split:])
    return sha256(b"\x01" + halves).digest()


@pytest.mark.parametrize("size", range(9))
def test_known_roots(size: int) -> None:
    """Trees of 0 to 8 leaves have the published roots."""
    assert root_of(hashes(LEAVES[:size])).hex() == ROOTS[size]


@given(st.lists(st.binary(max_size=8), max_size=70))
def test_root_is_as_defined(leaves: list[bytes]) -> None:
    """The root that grows leaf by leaf is the root of the recursive definition."""
    assert root_of(hashes(leaves)) == defined_root(leaves)


def test_root_can_be_read_at_any_size() -> None:
    """Reading the root does not disturb what is appended after it."""
    tree = MerkleTree()
    roots = [tree.root().hex()]
    for leaf_hash in hashes(LEAVES):
        tree.append(leaf_hash)
        roots.append(tree.root().hex())
    assert (roots, tree.size) == (ROOTS, 8)


def test_state_is_one_hash_for_each_bit() -> None:
    """A tree of 100,003 leaves holds no more hashes than its size has bits set."""
    tree = MerkleTree()
    for number in range(100_003):
        tree.append(number.to_bytes(32, "big"))
    assert len(tree._subtrees) == (100_003).bit_count()
