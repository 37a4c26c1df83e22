"""Tiles stand where C2SP tlog-tiles says, and give proofs from few of them."""

import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoriale.domain.errors import CorruptViewError, UnavailableError
from memoriale.projections.proofs.inclusion import (
    consistency_holds,
    consistency_proof,
    inclusion_holds,
    inclusion_proof,
    root_at,
)
from memoriale.projections.proofs.merkle import MerkleTree, root_of
from memoriale.projections.proofs.tiles import (
    Tile,
    TileReader,
    entries_path,
    files_in,
    last_tiles,
    tiles_of,
)
from memoriale.projections.proofs.writing import TileWriter
from tests.fixtures.trees import Counted, leaf, leaves
from tests.unit.test_inclusion import GOLDEN


def written(folder: Path, *sizes: int) -> TileWriter:
    """Tiles that were synced at each of the sizes."""
    writer = TileWriter(folder)
    for size in sizes:
        writer.append(leaves(size, start=writer.size))
        writer.sync()
    return writer


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("case", GOLDEN["tile_paths"], ids=lambda case: case["path"])
def test_published_paths(case: dict[str, Any]) -> None:
    """A tile has the path that the specification gives as its example, and is read back from it."""
    tile = Tile(case["level"], case["index"], case["width"])
    assert tile.path == case["path"]
    assert Tile.from_path(case["path"]) == tile


def test_entries_stand_beside_their_tile() -> None:
    """Leaf data has the path of its tile with ``entries`` for the level."""
    assert entries_path(1234067) == "tile/entries/x001/x234/067"
    assert entries_path(0, 3) == "tile/entries/000.p/3"


@given(st.integers(0, 63), st.integers(0, 10**12), st.integers(1, 256))
def test_every_path_leads_back(level: int, index: int, width: int) -> None:
    """No two tiles share a path."""
    tile = Tile(level, index, width)
    assert Tile.from_path(tile.path) == tile


@pytest.mark.parametrize(
    "path",
    [
        "tile/64/000",
        "tile/00/000",
        "tile/0/00",
        "tile/0/x000/000",
        "tile/0/000.p/0",
        "tile/0/000.p/256",
        "tile/0/000.p/01",
        "tile/0/1000",
        "tile/entries/000",
        "tile/0/000/../001",
        "tile/0/000\n",
        "tile/0/٠٠٠",
    ],
)
def test_other_paths_lead_to_no_tile(path: str) -> None:
    """A path has one spelling; others are refused."""
    assert Tile.from_path(path) is None


def test_the_tiles_of_the_published_example() -> None:
    """70,000 leaves: 273 full tiles and one of 112, then one full and one of 17, then one of 1."""
    tiles = list(tiles_of(70_000))
    assert [tile for tile in tiles if tile.width < 256] == [
        Tile(0, 273, 112),
        Tile(1, 1, 17),
        Tile(2, 0, 1),
    ]
    assert len([tile for tile in tiles if tile.level == 0]) == 274
    assert list(last_tiles(70_000)) == [Tile(0, 273, 112), Tile(1, 1, 17), Tile(2, 0, 1)]
    assert list(tiles_of(256)) == [Tile(0, 0), Tile(1, 0, 1)]
    assert list(tiles_of(0)) == []


@pytest.mark.parametrize("size", [0, 1, 2, 255, 256, 257, 511, 65_535, 65_536, 65_537, 70_000])
def test_written_tiles_give_the_root(tmp_path: Path, size: int) -> None:
    """Exactly the tiles of the tree are written; root and leaves read from them are those given."""
    writer = written(tmp_path, size)
    assert set(files(tmp_path)) == {tile.path for tile in tiles_of(size)}
    reader = TileReader(files_in(tmp_path), size)
    assert writer.root() == root_at(reader.node, size) == root_of(leaves(size))
    assert list(reader.leaf_hashes(max(0, size - 300))) == list(leaves(size, max(0, size - 300)))


def test_tiles_do_not_depend_on_how_they_came(tmp_path: Path) -> None:
    """Leaves added one by one, in pieces, by several writers or at once give the same files."""
    sizes = [1, 2, 3, 255, 256, 300, 511, 512, 513, 1_000, 66_000]
    written(tmp_path / "pieces", *sizes)
    for size in sizes:
        writer = TileWriter(tmp_path / "resumed", size=sizes[sizes.index(size) - 1] * (size > 1))
        writer.append(leaves(size, start=writer.size))
        writer.sync()
    written(tmp_path / "once", 66_000)
    once = files(tmp_path / "once")
    for other in ("pieces", "resumed"):
        found = files(tmp_path / other)
        assert once.items() <= found.items()
        # Of a tile that is not full yet the earlier widths stay: checkpoints need them.
        growing = tuple(tile.path.partition(".p/")[0] for tile in last_tiles(66_000))
        assert all(path.startswith(growing) for path in found.keys() - once.keys())


def test_partial_tiles_go_when_the_full_one_is_there(tmp_path: Path) -> None:
    """They stay while it is not full: each checkpoint's own tree can be read."""
    writer = written(tmp_path, 10, 20)
    assert {"tile/0/000.p/10", "tile/0/000.p/20"} == set(files(tmp_path))
    writer.append(leaves(256, start=20))
    writer.sync()
    assert {"tile/0/000", "tile/1/000.p/1"} == set(files(tmp_path))
    earlier = TileReader(files_in(tmp_path), 10)
    assert root_at(earlier.node, 10) == root_of(leaves(10))


@given(st.data())
def test_roots_follow_a_plain_tree(data: st.DataObject) -> None:
    """After any steps the root is that of a tree that grew leaf by leaf."""
    with TemporaryDirectory() as name:
        writer, plain = TileWriter(Path(name)), MerkleTree()
        for step in data.draw(st.lists(st.integers(0, 700), max_size=4)):
            start = writer.size
            for leaf_hash in leaves(start + step, start):
                plain.append(leaf_hash)
            writer.append(leaves(start + step, start))
            assert (writer.size, writer.root()) == (plain.size, plain.root())


def test_proofs_come_from_few_tiles(tmp_path: Path) -> None:
    """Of 516 tiles a proof reads at most two for each of the three levels."""
    size = 131_328
    root = written(tmp_path, size).root()
    for index in (0, 255, 256, 65_536, 100_003, 131_071, size - 1):
        read = Counted(files_in(tmp_path))
        path = inclusion_proof(TileReader(read, size).node, index, size)
        assert inclusion_holds(leaf(index), index, size, path, root)
        assert len(read.paths) <= 6
    for old in (1, 255, 256, 257, 65_537, 100_003, size - 1):
        read = Counted(files_in(tmp_path))
        reader = TileReader(read, size)
        path = consistency_proof(reader.node, old, size)
        assert len(read.paths) <= 6
        assert consistency_holds(old, root_at(reader.node, old), size, root, path)


def test_a_missing_tile_is_named(tmp_path: Path) -> None:
    """Whoever reads a tree with a missing or shortened tile is told which one."""
    written(tmp_path, 600)
    (tmp_path / "tile/0/001").unlink()
    with pytest.raises(CorruptViewError, match="tile/0/001 is missing") as missing:
        root_at(TileReader(files_in(tmp_path), 600).node, 511)
    assert missing.value.code == "missing_tile"
    (tmp_path / "tile/0/001").write_bytes(bytes(8_191))
    with pytest.raises(CorruptViewError, match="8191 bytes instead of 8192") as short:
        root_at(TileReader(files_in(tmp_path), 600).node, 511)
    assert short.value.code == "bad_tile"


def test_a_node_outside_the_tree_is_refused(tmp_path: Path) -> None:
    """What the tree does not hold cannot be asked for."""
    written(tmp_path, 300)
    with pytest.raises(ValueError, match="the tree of 300 leaves has no such node"):
        TileReader(files_in(tmp_path), 300).node(8, 1)


def test_a_leaf_hash_of_another_length_is_refused(tmp_path: Path) -> None:
    """A hash cut short would shift all that follow."""
    writer = TileWriter(tmp_path)
    with pytest.raises(ValueError, match="a leaf hash has 32 bytes"):
        writer.append([leaf(0), leaf(1)[:-1]])


def test_a_changed_tile_is_never_written_over(tmp_path: Path) -> None:
    """A tile beyond the resumed size that holds other hashes stops the writer and stays."""
    written(tmp_path, 256, 512)
    changed = tmp_path / "tile/0/001"
    content = bytearray(changed.read_bytes())
    content[40] ^= 1
    changed.write_bytes(content)
    writer = TileWriter(tmp_path, 256)
    with pytest.raises(CorruptViewError, match="other hashes than the log") as error:
        writer.append(leaves(512, start=256))
    assert error.value.code == "tile_differs"
    assert changed.read_bytes() == bytes(content)


@pytest.mark.parametrize("tiles", range(0, 8, 2))
def test_a_writer_that_dies_leaves_whole_tiles(
    tmp_path: Path, tiles: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between any two tiles, what is in place is whole, and the next writer completes it."""
    writer = written(tmp_path, 256)
    left = [tiles]

    class Killed(BaseException):
        pass

    def rename(draft: Path, path: Path) -> Path:
        if not left[0]:
            raise Killed
        left[0] -= 1
        os.replace(draft, path)
        return path

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", rename)
        with pytest.raises(Killed):
            writer.append(leaves(256 * 9, start=256))
    resumed = TileWriter(tmp_path, 256)
    assert resumed.root() == root_of(leaves(256))
    resumed.append(leaves(256 * 9, start=256))
    resumed.sync()
    assert set(files(tmp_path)) == {tile.path for tile in tiles_of(256 * 9)} | {"tile/1/000.p/1"}
    assert resumed.root() == root_of(leaves(256 * 9))


def test_a_folder_that_cannot_be_written_is_unavailable(tmp_path: Path) -> None:
    """A file where the folder should be is an error with its path."""
    (tmp_path / "tile").write_text("")
    writer = TileWriter(tmp_path)
    with pytest.raises(UnavailableError, match="tile"):
        writer.append(leaves(300))
    shutil.rmtree(tmp_path, ignore_errors=True)
