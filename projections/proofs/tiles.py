"""Which files hold the hashes of a tree, and how they are read (C2SP tlog-tiles, height 8)."""

import re
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from memoriale.domain.errors import CorruptViewError
from memoriale.projections.generations import disk_errors
from memoriale.projections.proofs.merkle import HASH_BYTES

TILE_WIDTH: Final = 256
TILE_BYTES: Final = TILE_WIDTH * HASH_BYTES
MAX_LEVEL: Final = 63
_HEIGHT: Final = 8
_CACHED: Final = 64
_NUMBER: Final = r"(?:x\d{3}/)*\d{3}"
_PATH: Final = re.compile(rf"tile/(0|[1-9]\d?)/({_NUMBER})(?:\.p/([1-9]\d{{0,2}}))?", re.ASCII)

ReadFile = Callable[[str], bytes | None]
"""The bytes of a file by its path below the log's folder; None when there is none."""


@dataclass(frozen=True, slots=True)
class Tile:
    """
    A row of hashes of a tree.

    Args:
        level: 0 for leaf hashes; each higher one has a hash for each full tile of the one below.
        index: Which tile of its level, from 0.
        width: How many hashes; 256 unless it is the last of its level.
    """

    level: int
    index: int
    width: int = TILE_WIDTH

    @property
    def path(self) -> str:
        """Where it stands: ``tile/<level>/x001/x234/067``, with ``.p/<width>`` when partial."""
        return _path(str(self.level), self.index, self.width)

    @classmethod
    def from_path(cls, path: str) -> "Tile | None":
        """The tile that stands at a path; None when no tile does."""
        match = _PATH.fullmatch(path)
        if match is None:
            return None
        width = int(match[3] or TILE_WIDTH)
        tile = cls(int(match[1]), int(match[2].replace("x", "").replace("/", "")), width)
        return tile if tile.level <= MAX_LEVEL and tile.path == path else None


def entries_path(index: int, width: int = TILE_WIDTH) -> str:
    """
    Where the leaf data under the tile of level 0 with this index stands.

    Args:
        index: Which bundle of entries, from 0.
        width: How many entries; 256 unless it is the last one.
    """
    return _path("entries", index, width)


def tiles_of(size: int) -> Iterator[Tile]:
    """
    Every tile of a tree, lowest level first, partial ones last of their level.

    Args:
        size: Leaves of the tree.
    """
    for level in range(MAX_LEVEL + 1):
        full, partial = divmod(size >> _HEIGHT * level, TILE_WIDTH)
        for index in range(full):
            yield Tile(level, index)
        if partial:
            yield Tile(level, full, partial)
        if not full:
            return


def last_tiles(size: int) -> Iterator[Tile]:
    """
    The partial tiles of a tree, lowest level first: all that later leaves need.

    Args:
        size: Leaves of the tree.
    """
    for level in range(MAX_LEVEL + 1):
        full, partial = divmod(size >> _HEIGHT * level, TILE_WIDTH)
        if partial:
            yield Tile(level, full, partial)
        if not full:
            return


def folded(hashes: bytes) -> bytes:
    """
    The root over a perfect subtree.

    Args:
        hashes: A power of two of hashes, one after the other.
    """
    while len(hashes) > HASH_BYTES:
        pairs = range(0, len(hashes), 2 * HASH_BYTES)
        hashes = b"".join(
            [sha256(b"\x01" + hashes[at : at + 2 * HASH_BYTES]).digest() for at in pairs]
        )
    return hashes


def files_in(folder: Path) -> ReadFile:
    """Reads from a folder on disk."""

    def read(path: str) -> bytes | None:
        with disk_errors(folder / path):
            try:
                return (folder / path).read_bytes()
            except (FileNotFoundError, NotADirectoryError):
                return None

    return read


class TileReader:
    """
    The nodes of a stored tree, read from as few tiles as they need.

    Nothing that it reads is believed by itself: whoever asks compares with a signed root.

    Args:
        read: Gives files; see ``files_in``.
        size: Leaves of the tree: how much of the tiles counts.

    Raises:
        CorruptViewError: ``missing_tile`` or ``bad_tile``, when a tile is asked for that is not
            there or has another length.
    """

    def __init__(self, read: ReadFile, size: int) -> None:
        self._read = read
        self.size = size
        self._tiles: OrderedDict[tuple[int, int], bytes] = OrderedDict()

    def node(self, height: int, index: int) -> bytes:
        """
        The hash over the ``2**height`` leaves from ``index * 2**height`` on.

        Args:
            height: 0 for a leaf.
            index: Which of its height, from 0; its leaves must be in the tree.
        """
        if (index + 1) << height > self.size:
            raise ValueError(f"the tree of {self.size} leaves has no such node")
        level, above = divmod(height, _HEIGHT)
        tile, place = divmod(index << above, TILE_WIDTH)
        hashes = self.tile(level, tile)
        return folded(hashes[place * HASH_BYTES : (place + (1 << above)) * HASH_BYTES])

    def leaf_hashes(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """The hashes of the leaves from ``start`` to before ``stop``, in order."""
        for index in range(start, self.size if stop is None else stop):
            tile, place = divmod(index, TILE_WIDTH)
            yield self.tile(0, tile)[place * HASH_BYTES : (place + 1) * HASH_BYTES]

    def tile(self, level: int, index: int) -> bytes:
        """The hashes of a tile one after the other, as far as the tree goes."""
        key = (level, index)
        if key in self._tiles:
            self._tiles.move_to_end(key)
            return self._tiles[key]
        width = min((self.size >> _HEIGHT * level) - index * TILE_WIDTH, TILE_WIDTH)
        hashes = self._tiles[key] = self._stored(Tile(level, index, width))
        if len(self._tiles) > _CACHED:
            self._tiles.popitem(last=False)
        return hashes

    def _stored(self, tile: Tile) -> bytes:
        # A partial tile may be gone once the full one is there.
        for found in (tile, Tile(tile.level, tile.index)):
            data = self._read(found.path)
            if data is None:
                continue
            if len(data) != found.width * HASH_BYTES:
                raise CorruptViewError(
                    f"{found.path} has {len(data)} bytes instead of {found.width * HASH_BYTES}; "
                    "post the proofs again with replay.",
                    code="bad_tile",
                )
            return data[: tile.width * HASH_BYTES]
        raise CorruptViewError(
            f"{tile.path} is missing; post the proofs again with replay.", code="missing_tile"
        )


def _path(folder: str, index: int, width: int) -> str:
    digits = str(index)
    digits = digits.zfill(-len(digits) // 3 * -3)
    *higher, last = (digits[at : at + 3] for at in range(0, len(digits), 3))
    number = "/".join([*(f"x{group}" for group in higher), last])
    return f"tile/{folder}/{number}" + (f".p/{width}" if width < TILE_WIDTH else "")
