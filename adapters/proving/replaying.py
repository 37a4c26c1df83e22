"""Replay of the proofs: tiles are built again from the log, compared, and swapped in."""

import time
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Final

from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.adapters.sealing.log_tree import REBUILT, LogTree
from memoriale.adapters.sealing.sealer import build
from memoriale.adapters.sealing.sealing import Sealing, target_of
from memoriale.domain.errors import CorruptViewError
from memoriale.projections.proofs.tiles import Tile, TileReader, files_in, tiles_of
from memoriale.projections.replay import ReplayReport

VIEW: Final = "proofs"
_MOST_LINES: Final = 5


class _Digest:
    """Of the tiles of several trees."""

    def __init__(self) -> None:
        self._hash, self._whole = sha256(), True

    def add(self, tree: LogTree, tile: Tile, content: bytes | None) -> None:
        self._whole = self._whole and content is not None
        self._hash.update(f"{tree.origin}/{tile.path}\n".encode() + (content or b""))

    def value(self) -> str | None:
        """None when a tile was not there."""
        return self._hash.hexdigest() if self._whole else None


def replay_proofs(
    logs: Sequence[TenantLog],
    sealing: Sealing,
    progress: Callable[[int, int], None] | None = None,
) -> ReplayReport:
    """
    Builds the tiles of logs again up to their last checkpoint and swaps them in. Where the log
    does not give the root that was signed, the live tiles are evidence and stay as they are.

    Args:
        logs: Of one tenant.
        sealing: Has tiles and checkpoints.
        progress: Told how many leaves of a log are done, and how many there are.

    Raises:
        ViolationError: A checkpoint on disk was not signed by this installation.
        UnavailableError: The database or the disk cannot be used.
    """
    live, rebuilt = _Digest(), _Digest()
    lines: list[str] = []
    events, seconds = 0, 0.0
    for log in logs:
        target = target_of(log)
        leaves = sealing.sealer.leaves(target)
        tree = sealing.sealer.tree(target, leaves.stand().incarnation)
        with tree.locked():
            last = tree.last()
            if last is None:
                continue
            size = last.checkpoint.size
            started = time.monotonic()
            root = build(tree, leaves, min(size, leaves.stand().head), progress)
            seconds += time.monotonic() - started
            events += size
            lines += _compared(tree, size, live, rebuilt)
            if root == last.checkpoint.root:
                tree.swap()
            else:
                tree.discard()
                lines.append(f"{log.log.kind} log: its root is not the one that was signed")
    return ReplayReport(
        view=VIEW,
        events=events,
        seconds=seconds,
        events_per_second=events / seconds if seconds else 0.0,
        digest_rebuilt=rebuilt.value() or "",
        digest_live=live.value(),
        equal=not lines,
        differences=lines[:_MOST_LINES],
    )


def _compared(tree: LogTree, size: int, live: _Digest, rebuilt: _Digest) -> list[str]:
    lines = []
    readers = tree.reader(size), TileReader(files_in(tree.folder / REBUILT), size)
    for tile in tiles_of(size):
        one, other = (_read(reader, tile) for reader in readers)
        live.add(tree, tile, one)
        rebuilt.add(tree, tile, other)
        if one != other:
            what = "is missing" if one is None else "differs"
            lines.append(f"{tree.origin}: {tile.path} {what}")
    return lines


def _read(reader: TileReader, tile: Tile) -> bytes | None:
    try:
        return reader.tile(tile.level, tile.index)
    except CorruptViewError:
        return None
