"""The Merkle tree over the leaf hashes of a log (RFC 6962, section 2.1)."""

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Final

HASH_BYTES: Final = 32
EMPTY_ROOT: Final = sha256().digest()


class MerkleTree:
    """
    A tree that grows leaf by leaf and keeps one hash for each bit of its size.

    The roots of its perfect subtrees, largest first, are all that later leaves need.
    """

    def __init__(self) -> None:
        self.size = 0
        self._subtrees: list[bytes] = []

    def append(self, leaf_hash: bytes) -> None:
        """
        Adds a leaf.

        Args:
            leaf_hash: SHA-256 over 0x00 and the leaf's data, 32 bytes.
        """
        node, size = leaf_hash, self.size
        # Each trailing 1 bit of the size is a perfect subtree as large as the new one.
        while size & 1:
            node = node_hash(self._subtrees.pop(), node)
            size >>= 1
        self._subtrees.append(node)
        self.size += 1

    def append_subtree(self, node: bytes, size: int) -> None:
        """
        Adds the root over the next leaves.

        Args:
            node: Root of a perfect subtree.
            size: Its leaves, a power of two that divides how many there are already.
        """
        assert self.size % size == 0
        place = self.size // size
        while place & 1:
            node = node_hash(self._subtrees.pop(), node)
            place >>= 1
        self._subtrees.append(node)
        self.size += size

    def extended(self, subtrees: Sequence[bytes], leaves: int) -> "MerkleTree":
        """
        This tree with further leaves, of which the roots of the perfect subtrees are known.

        Args:
            subtrees: As ``subtrees`` of the tree over those leaves gives them.
            leaves: How many; the size of this tree is a multiple of the largest subtree.
        """
        tree = MerkleTree()
        tree.size, tree._subtrees = self.size, list(self._subtrees)
        sizes = (1 << bit for bit in reversed(range(leaves.bit_length())) if leaves >> bit & 1)
        for node, size in zip(subtrees, sizes, strict=True):
            tree.append_subtree(node, size)
        return tree

    def subtrees(self) -> list[bytes]:
        """The roots of the perfect subtrees, largest first."""
        return list(self._subtrees)

    def root(self) -> bytes:
        """The hash of the whole tree, 32 bytes; that of an empty tree is SHA-256 of nothing."""
        if not self._subtrees:
            return EMPTY_ROOT
        *larger, node = self._subtrees
        for subtree in reversed(larger):
            node = node_hash(subtree, node)
        return node


def root_of(leaf_hashes: Iterable[bytes]) -> bytes:
    """
    The root over leaves in order.

    Args:
        leaf_hashes: As for ``MerkleTree.append``.
    """
    tree = MerkleTree()
    for leaf_hash in leaf_hashes:
        tree.append(leaf_hash)
    return tree.root()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The hash of the node above two others."""
    return sha256(b"\x01" + left + right).digest()
