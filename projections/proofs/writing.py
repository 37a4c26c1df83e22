"""Writing the tiles of a growing tree, so that a crash leaves nothing half done."""

import os
import shutil
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

from memoriale.domain.errors import CorruptViewError
from memoriale.projections.generations import disk_errors, make_folder
from memoriale.projections.proofs.merkle import EMPTY_ROOT, HASH_BYTES, MerkleTree, node_hash
from memoriale.projections.proofs.tiles import (
    TILE_BYTES,
    TILE_WIDTH,
    Tile,
    TileReader,
    files_in,
    folded,
    last_tiles,
)

_AT_ONCE: Final = 1024
"""Tiles that are held in memory and synced together."""
_THREADS: Final = 16
"""The disk writes many files at once in about the time of one."""


class TileWriter:
    """
    Extends the tiles of a log in its folder. One process writes at a time; the caller sees to it.

    A tile is written beside its place, synced and renamed, and never changed afterwards. What a
    killed writer left beyond the size that was resumed is written again, and must come out equal.

    Args:
        folder: The log's folder; made when it is missing.
        size: Leaves that the tiles hold already, from the last checkpoint. Its root is to be
            compared with ``root()`` before anything is appended.
        durable: Whether tiles are on the disk when ``sync`` returns. Where the log can give
            them again that is not needed: what a power failure tears has another length or root.

    Raises:
        CorruptViewError: A tile is missing, has another length, or is there with other hashes
            than those to be written (``tile_differs``).
        UnavailableError: The folder cannot be written.
    """

    def __init__(self, folder: Path, size: int = 0, *, durable: bool = True) -> None:
        self._folder = folder
        self._durable = durable
        self.size = size
        reader = TileReader(files_in(folder), size)
        self._last = {tile.level: reader.tile(tile.level, tile.index) for tile in last_tiles(size)}
        self._drafts: dict[Path, bytes] = {}
        self._touched: set[Path] = set()
        self._outdated: list[Path] = []

    def append(self, leaf_hashes: Iterable[bytes]) -> None:
        """
        Adds leaves and writes the tiles that become full; they count after ``sync``.

        Args:
            leaf_hashes: 32 bytes each; read piece by piece, so there may be any number.
        """
        source = iter(leaf_hashes)
        while batch := list(islice(source, _AT_ONCE * TILE_WIDTH)):
            if any(len(leaf_hash) != HASH_BYTES for leaf_hash in batch):
                raise ValueError("a leaf hash has 32 bytes")
            self._extend(0, b"".join(batch))
            self.size += len(batch)
            self._publish()

    def root(self) -> bytes:
        """The root over all leaves."""
        subtrees = [
            subtree for level in sorted(self._last) for subtree in _subtrees(self._last[level])
        ]
        if not subtrees:
            return EMPTY_ROOT
        node, *larger = subtrees
        for subtree in larger:
            node = node_hash(subtree, node)
        return node

    def sync(self) -> None:
        """
        Writes the partial tiles too and returns when all tiles of the tree are on the disk.
        Partial tiles whose full one is there are removed.
        """
        for tile in last_tiles(self.size):
            self._write(tile, self._last[tile.level])
        self._publish()
        for folder in self._touched if self._durable else ():
            _sync_folder(folder)
        self._touched.clear()
        while self._outdated:
            shutil.rmtree(self._outdated.pop(), ignore_errors=True)

    def _extend(self, level: int, hashes: bytes) -> None:
        first = (self.size >> 8 * level) // TILE_WIDTH
        hashes = self._last.pop(level, b"") + hashes
        full = len(hashes) // TILE_BYTES
        parents = []
        for number in range(full):
            content = hashes[number * TILE_BYTES : (number + 1) * TILE_BYTES]
            self._write(Tile(level, first + number), content)
            parents.append(folded(content))
        if rest := hashes[full * TILE_BYTES :]:
            self._last[level] = rest
        if parents:
            self._extend(level + 1, b"".join(parents))

    def _write(self, tile: Tile, content: bytes) -> None:
        path = self._folder / tile.path
        with disk_errors(path):
            if not _is_there(path, content):
                self._drafts[path] = content
            self._touched.update(path.parents[: len(path.relative_to(self._folder).parts)])
            partial = path.with_name(f"{path.name}.p")
            if tile.width == TILE_WIDTH and partial.is_dir():
                self._outdated.append(partial)

    def _publish(self) -> None:
        with disk_errors(self._folder):
            for folder in {path.parent for path in self._drafts}:
                make_folder(folder)
            if self._durable:
                with ThreadPoolExecutor(_THREADS) as threads:
                    list(threads.map(_synced, self._drafts.items()))
            else:
                for path, content in self._drafts.items():
                    _written(path, content)
            for path in self._drafts:
                _draft(path).rename(path)
        self._drafts.clear()


def _subtrees(hashes: bytes) -> list[bytes]:
    """Roots of the perfect subtrees over a partial tile, smallest first."""
    tree = MerkleTree()
    for at in range(0, len(hashes), HASH_BYTES):
        tree.append(hashes[at : at + HASH_BYTES])
    return tree.subtrees()[::-1]


def _is_there(path: Path, content: bytes) -> bool:
    with suppress(FileNotFoundError):
        if path.read_bytes() == content:
            return True
        raise CorruptViewError(
            f"{path} holds other hashes than the log; it is left as it is. Find out who changed "
            "it, move the folder of the tiles away and post the proofs again with replay.",
            code="tile_differs",
        )
    return False


def _draft(path: Path) -> Path:
    return path.with_name(f"{path.name}.new")


def _synced(file: tuple[Path, bytes]) -> None:
    _written(*file, synced=True)


def _written(path: Path, content: bytes, *, synced: bool = False) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    with os.fdopen(os.open(_draft(path), flags, 0o600), "wb") as file:
        file.write(content)
        if synced:
            file.flush()
            os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    with disk_errors(folder):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
