"""The shelves that a view keeps in memory, brought up to its position when they are asked for."""

from collections import OrderedDict
from threading import RLock
from typing import Final

from memoriale.projections.recall.shelf import READ, Shelf
from memoriale.projections.recall.table import VersionTable

MOST_ROWS: Final = 100_000
"""
Rows of a partition up to which it is kept as a shelf: about 150 MB with 256 components. Above it
LanceDB's indexes propose candidates.
"""
MOST_KEPT: Final = 200_000
"""Rows kept in memory over all partitions; those used longest ago go first."""


class Shelves:
    """
    Keeps shelves by partition. Safe to share between threads that hold ``held`` while they read.

    Args:
        table: Where the rows are.
        width: Components of a vector.
    """

    def __init__(self, table: VersionTable, width: int) -> None:
        self._table = table
        self._width = width
        self.held = RLock()
        """Held by whoever reads a shelf: another question may bring it up to date."""
        self._kept: OrderedDict[str, Shelf] = OrderedDict()

    def get(self, partition: str, position: int, *, whole: bool) -> Shelf | None:
        """
        The shelf of a partition, up to date with a position of the view.

        Args:
            partition: Condition that selects its rows.
            position: What it must have seen at least.
            whole: Make it however large it is; without, None when it is over ``MOST_ROWS``.
        """
        with self.held:
            shelf = self._kept.pop(partition, None)
            if shelf is None:
                if not whole and self._table.count(partition) > MOST_ROWS:
                    return None
                shelf = Shelf(self._width)
            if shelf.position < position:
                changed = f"({partition}) AND key >= 0 AND seq >= {shelf.position}"
                shelf.put(self._table.read(changed, READ))
                shelf.position = position
            if len(shelf) <= MOST_ROWS:
                self._kept[partition] = shelf
                self._shrink()
            return shelf

    def clear(self) -> None:
        """Forgets every shelf; the next question reads the table again."""
        with self.held:
            self._kept.clear()

    def _shrink(self) -> None:
        while len(self._kept) > 1 and sum(map(len, self._kept.values())) > MOST_KEPT:
            self._kept.popitem(last=False)
