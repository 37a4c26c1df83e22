"""Proofs of inclusion and consistency hold for the tree that they were made from, and no other."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoriale.projections.proofs.inclusion import (
    Node,
    consistency_holds,
    consistency_proof,
    inclusion_holds,
    inclusion_proof,
    root_at,
)
from memoriale.projections.proofs.merkle import EMPTY_ROOT, root_of
from tests.fixtures.trees import leaf, leaves
from tests.unit.test_merkle import LEAVES, ROOTS, hashes

GOLDEN: Final[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "golden" / "proofs.json").read_text()
)
LARGEST: Final = 70


def nodes_of(leaf_hashes: list[bytes]) -> Node:
    """The nodes of a tree, computed from its leaves alone."""

    def node(height: int, index: int) -> bytes:
        under = leaf_hashes[index << height : (index + 1) << height]
        assert len(under) == 1 << height
        return root_of(under)

    return node


NODE: Final = nodes_of(list(leaves(LARGEST)))
ROOT: Final = [root_at(NODE, size) for size in range(LARGEST + 1)]


@pytest.mark.parametrize("case", GOLDEN["inclusion"], ids=lambda case: f"{case['index']}")
def test_published_inclusion_proofs(case: dict[str, Any]) -> None:
    """The audit paths are those that Certificate Transparency publishes."""
    index, size = case["index"], case["size"]
    path = inclusion_proof(nodes_of(hashes(LEAVES)), index, size)
    assert [digest.hex() for digest in path] == case["path"]
    leaf_hash, root = hashes(LEAVES)[index], bytes.fromhex(ROOTS[size])
    assert inclusion_holds(leaf_hash, index, size, path, root)


@pytest.mark.parametrize("case", GOLDEN["consistency"], ids=lambda case: f"{case['old']}")
def test_published_consistency_proofs(case: dict[str, Any]) -> None:
    """The consistency proofs are those that Certificate Transparency publishes."""
    old, new = case["old"], case["new"]
    path = consistency_proof(nodes_of(hashes(LEAVES)), old, new)
    assert [digest.hex() for digest in path] == case["path"]
    roots = bytes.fromhex(ROOTS[old]), bytes.fromhex(ROOTS[new])
    assert consistency_holds(old, roots[0], new, roots[1], path)


def test_roots_of_every_size_come_from_the_nodes() -> None:
    """A root read at an earlier size is the root that the tree had then."""
    assert [root_of(leaves(size)) for size in range(LARGEST + 1)] == ROOT


def test_every_leaf_of_every_small_tree_is_proved() -> None:
    """For each size up to 70 and each index the proof holds there and at no other index."""
    for size in range(1, LARGEST + 1):
        for index in range(size):
            path = inclusion_proof(NODE, index, size)
            assert inclusion_holds(leaf(index), index, size, path, ROOT[size])
            for other in range(size):
                assert inclusion_holds(leaf(index), other, size, path, ROOT[size]) == (
                    other == index
                )
            assert not inclusion_holds(leaf(size), index, size, path, ROOT[size])


def test_every_small_tree_begins_with_every_smaller_one() -> None:
    """For each pair of sizes up to 70 the proof holds, and not with another root on either side."""
    for new in range(LARGEST + 1):
        for old in range(new + 1):
            path = consistency_proof(NODE, old, new)
            assert consistency_holds(old, ROOT[old], new, ROOT[new], path)
            other = sha256(ROOT[old]).digest()
            assert not consistency_holds(old, other, new, ROOT[new], path)
            if old:
                assert not consistency_holds(old, ROOT[old], new, other, path)


@given(st.data())
def test_a_changed_inclusion_proof_fails(data: st.DataObject) -> None:
    """One byte changed, one hash left out, doubled or added, or another index: it holds no more."""
    size = data.draw(st.integers(2, LARGEST))
    index = data.draw(st.integers(0, size - 1))
    path = inclusion_proof(NODE, index, size)
    at = data.draw(st.integers(0, len(path) - 1))
    byte, bit = data.draw(st.integers(0, 31)), 1 << data.draw(st.integers(0, 7))
    changed = bytearray(path[at])
    changed[byte] ^= bit
    attempts = [
        [*path[:at], bytes(changed), *path[at + 1 :]],
        path[:at] + path[at + 1 :],
        [*path[: at + 1], *path[at:]],
        [*path, EMPTY_ROOT],
        [*path[:at], path[at][:-1], *path[at + 1 :]],
    ]
    for attempt in attempts:
        assert not inclusion_holds(leaf(index), index, size, attempt, ROOT[size])
    for wrong in (-1, size, size + index, (index + 1) % size):
        assert not inclusion_holds(leaf(index), wrong, size, path, ROOT[size])


@given(st.data())
def test_a_changed_consistency_proof_fails(data: st.DataObject) -> None:
    """One byte changed, one hash left out, doubled or added: it holds no more."""
    new = data.draw(st.integers(2, LARGEST))
    old = data.draw(st.integers(1, new - 1))
    path = consistency_proof(NODE, old, new)
    at = data.draw(st.integers(0, len(path) - 1))
    byte, bit = data.draw(st.integers(0, 31)), 1 << data.draw(st.integers(0, 7))
    changed = bytearray(path[at])
    changed[byte] ^= bit
    attempts = [
        [*path[:at], bytes(changed), *path[at + 1 :]],
        path[:at] + path[at + 1 :],
        [*path[: at + 1], *path[at:]],
        [*path, EMPTY_ROOT],
        [],
    ]
    for attempt in attempts:
        assert not consistency_holds(old, ROOT[old], new, ROOT[new], attempt)


def test_a_tree_that_shrank_or_has_two_roots_is_not_consistent() -> None:
    """A smaller tree after a larger one fails, and so do two roots of one size."""
    assert not consistency_holds(9, ROOT[9], 8, ROOT[8], [])
    assert not consistency_holds(8, ROOT[8], 8, ROOT[9], [])
    assert not consistency_holds(0, ROOT[1], 8, ROOT[8], [])


@pytest.mark.parametrize(("index", "size"), [(0, 0), (-1, 3), (3, 3)])
def test_no_proof_is_made_for_a_leaf_that_is_not_there(index: int, size: int) -> None:
    """An index outside the tree is an error, not a proof of something else."""
    with pytest.raises(ValueError, match=f"a tree of {size} leaves has none at {index}"):
        inclusion_proof(NODE, index, size)


def test_no_proof_is_made_from_a_later_tree_to_an_earlier_one() -> None:
    """The sizes must be in order."""
    with pytest.raises(ValueError, match="a tree of 9 leaves does not come before one of 8"):
        consistency_proof(NODE, 9, 8)
