"""The shelves that a view keeps in memory, brought up to its position when they are asked for."""

from collections import OrderedDict
from itertools import pairwise
from threading import RLock
from typing import Any, Final

from memoriale.projections.recall.partition import Partition
from memoriale.projections.recall.recent import Recent
from memoriale.projections.recall.scratch import LEAST_BYTES, Scratch
from memoriale.projections.recall.shelf import READ, Shelf
from memoriale.projections.recall.table import VersionTable

MOST_BYTES: Final = 256 * 2**20
"""
Memory for the shelves of a view; those used longest ago go first. A row takes about 170 bytes,
so this holds partitions of more than a million rows. For one that is larger LanceDB's indexes
propose candidates.
"""
_ROWS_AT_ONCE: Final = 8_192
_MOST_TOGETHER: Final = 1_000
"""Events behind a view of which the rows are read at once for all partitions."""
_MOST_SCANNED: Final = 100_000
"""Rows of a table that is scanned for them in the time of two look-ups by partition."""


class Shelves:
    """
    Keeps shelves by partition. Safe to share between threads that hold ``held`` while they read.

    Args:
        table: Where the rows are.
        width: Components of a vector.
        most_bytes: Memory for all of them.
        least_in_file: Bytes from which a part of a shelf lies in a file.
        rows_at_once: Rows of a partition that are read together.
    """

    def __init__(
        self,
        table: VersionTable,
        width: int,
        *,
        most_bytes: int = MOST_BYTES,
        least_in_file: int = LEAST_BYTES,
        rows_at_once: int = _ROWS_AT_ONCE,
    ) -> None:
        self.scratch = Scratch(table.folder, least_in_file)
        self._table = table
        self._width = width
        self._most_bytes = most_bytes
        self._rows_at_once = rows_at_once
        self.held = RLock()
        """Held by whoever reads a shelf: another question may bring it up to date."""
        self.recent = Recent()
        """What changed last: posted by this process, or read for one of the shelves."""
        self._kept: OrderedDict[Partition, Shelf] = OrderedDict()
        self._sizes: dict[Partition, int] = {}
        """Memory that each kept one took when it last grew: to ask it costs more than to answer."""
        self._too_large: set[Partition] = set()

    def get(self, partition: Partition, position: int, *, whole: bool) -> Shelf | None:
        """
        The shelf of a partition, up to date with a position of the view.

        Args:
            partition: Which one.
            position: What it must have seen at least.
            whole: Make it however large it is; without, None when it takes more memory than
                all shelves may.
        """
        with self.held:
            if partition in self._too_large and not whole:
                return None
            # Out of the kept ones until it is complete: what fails halfway is made again.
            shelf = self._kept.pop(partition, None)
            nbytes = self._sizes.pop(partition, 0)
            if shelf is None:
                shelf = Shelf(self._width, self.scratch)
            if shelf.position < position:
                most_bytes = None if whole else self._most_bytes
                self._catch_up(shelf, partition, position, most_bytes)
                shelf.position = position
                nbytes = shelf.nbytes
            if nbytes > self._most_bytes:
                self._too_large.add(partition)
                return shelf if whole else None
            self._kept[partition], self._sizes[partition] = shelf, nbytes
            self._shrink()
            return shelf

    def clear(self) -> None:
        """Forgets every shelf; the next question reads the table again."""
        with self.held:
            self._kept.clear()
            self._sizes.clear()
            self._too_large.clear()
            self.recent.clear()

    def _catch_up(
        self, shelf: Shelf, partition: Partition, position: int, most_bytes: int | None
    ) -> None:
        """Puts what changed since the shelf's position, piece by piece in key order."""
        recent = self._recent(shelf.position, position)
        if recent is not None:
            shelf.put(partition.rows(recent))
            return
        changed = f"({partition.where}) AND key >= 0 AND seq >= {shelf.position}"
        if self._are_few(shelf, partition, position):
            shelf.put(self._table.read(changed, READ))
            return
        keys = self._table.read(changed, ("key",)).sort_by("key")["key"].to_numpy()
        bounds = [*keys[:: self._rows_at_once].tolist(), None]
        for start, stop in pairwise(bounds):
            end = "" if stop is None else f" AND key < {stop}"
            shelf.put(self._table.read(f"{changed} AND key >= {start}{end}", READ))
            if most_bytes is not None and shelf.nbytes > most_bytes:
                return

    def _recent(self, start: int, stop: int) -> Any:
        """What changed between two positions, read at once for all shelves if that is cheap."""
        known = self.recent.known_from(start)
        most = min(_MOST_TOGETHER, self._rows_at_once)
        if known < stop <= _MOST_SCANNED and stop - known <= most:
            rows = self._table.read(f"key >= 0 AND seq >= {known}", READ)
            self.recent.add(known, stop, rows)
        return self.recent.between(start, stop)

    def _are_few(self, shelf: Shelf, partition: Partition, position: int) -> bool:
        if position - shelf.position <= self._rows_at_once:
            return True
        return not shelf.position and self._table.count(partition.where) <= self._rows_at_once

    def _shrink(self) -> None:
        while len(self._kept) > 1 and sum(self._sizes.values()) > self._most_bytes:
            gone, _ = self._kept.popitem(last=False)
            del self._sizes[gone]
