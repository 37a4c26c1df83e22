"""Proofs that a leaf is in a tree and that a tree only grew (RFC 6962, 2.1.1 and 2.1.2)."""

from collections.abc import Callable, Sequence

from memoriale.projections.proofs.merkle import EMPTY_ROOT, HASH_BYTES, node_hash

Node = Callable[[int, int], bytes]
"""The hash over ``2**height`` leaves from ``index * 2**height`` on: ``TileReader.node``."""


def root_at(node: Node, size: int) -> bytes:
    """
    The root that the tree had when it had ``size`` leaves.

    Args:
        node: Gives the nodes of a tree of that size or a larger one.
        size: Leaves.
    """
    return _over(node, 0, size) if size else EMPTY_ROOT


def inclusion_proof(node: Node, index: int, size: int) -> list[bytes]:
    """
    The audit path of a leaf: the sibling of each node on its way up, lowest first.

    Args:
        node: Gives the nodes of a tree of that size or a larger one.
        index: Which leaf, from 0.
        size: Leaves of the tree in which it is proved to be.
    """
    if not 0 <= index < size:
        raise ValueError(f"a tree of {size} leaves has none at {index}")
    start, stop, path = 0, size, []
    while stop - start > 1:
        middle = start + _split(stop - start)
        if index < middle:
            path.append(_over(node, middle, stop))
            stop = middle
        else:
            path.append(_over(node, start, middle))
            start = middle
    return path[::-1]


def consistency_proof(node: Node, old: int, new: int) -> list[bytes]:
    """
    The hashes which show that the first ``old`` leaves of a tree were left as they were.

    Args:
        node: Gives the nodes of a tree of size ``new`` or a larger one.
        old: Leaves of the earlier tree; nothing needs to be shown for 0.
        new: Leaves of the later tree.
    """
    if not 0 <= old <= new:
        raise ValueError(f"a tree of {old} leaves does not come before one of {new}")
    if old in (0, new):
        return []
    start, stop, path = 0, new, []
    while stop != old:
        middle = start + _split(stop - start)
        if old <= middle:
            path.append(_over(node, middle, stop))
            stop = middle
        else:
            path.append(_over(node, start, middle))
            start = middle
    if start:
        path.append(_over(node, start, stop))
    return path[::-1]


def inclusion_holds(
    leaf_hash: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes
) -> bool:
    """
    Whether a proof shows that a leaf is in a tree (RFC 9162, 2.1.3.2).

    Args:
        leaf_hash: The hash of the leaf.
        index: At which place it is said to be.
        size: Leaves of the tree.
        proof: As made by ``inclusion_proof``.
        root: Root of the tree, from a source that is trusted.
    """
    if not 0 <= index < size or not _are_hashes(leaf_hash, root, *proof):
        return False
    place, last, node = index, size - 1, leaf_hash
    for sibling in proof:
        if last == 0:
            return False
        if place & 1 or place == last:
            node = node_hash(sibling, node)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            node = node_hash(node, sibling)
        place, last = place >> 1, last >> 1
    return last == 0 and node == root


def consistency_holds(
    old: int, old_root: bytes, new: int, new_root: bytes, proof: Sequence[bytes]
) -> bool:
    """
    Whether a proof shows that a later tree begins with an earlier one (RFC 9162, 2.1.4.2).

    Args:
        old: Leaves of the earlier tree.
        old_root: Its root, from a source that is trusted.
        new: Leaves of the later tree.
        new_root: Its root, likewise.
        proof: As made by ``consistency_proof``.
    """
    if not 0 <= old <= new or not _are_hashes(old_root, new_root, *proof):
        return False
    if old == new:
        return not proof and old_root == new_root
    if old == 0:
        return not proof and old_root == EMPTY_ROOT
    hashes = [old_root, *proof] if old & (old - 1) == 0 else list(proof)
    if not hashes:
        return False
    place, last = old - 1, new - 1
    while place & 1:
        place, last = place >> 1, last >> 1
    earlier = later = hashes[0]
    for node in hashes[1:]:
        if last == 0:
            return False
        if place & 1 or place == last:
            earlier, later = node_hash(node, earlier), node_hash(node, later)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            later = node_hash(later, node)
        place, last = place >> 1, last >> 1
    return last == 0 and earlier == old_root and later == new_root


def _split(size: int) -> int:
    """The largest power of two that is smaller than a size of 2 or more."""
    return 1 << (size - 1).bit_length() - 1


def _over(node: Node, start: int, stop: int) -> bytes:
    """The root over a range that stands in the tree of RFC 6962."""
    size = stop - start
    if size & (size - 1) == 0:
        height = size.bit_length() - 1
        return node(height, start >> height)
    middle = start + _split(size)
    return node_hash(_over(node, start, middle), _over(node, middle, stop))


def _are_hashes(*values: bytes) -> bool:
    return all(len(value) == HASH_BYTES for value in values)
