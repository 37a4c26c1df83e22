"""The rows that changed last, in memory, so that no shelf reads them from the table by itself."""

from collections import deque
from threading import Lock
from typing import Any, Final, NamedTuple

from memoriale.projections.recall.shelf import READ

MOST_PIECES: Final = 64
"""Joining more of them takes longer than reading the table."""
MOST_BYTES: Final = 4 * 2**20


class _Piece(NamedTuple):
    start: int
    stop: int
    rows: Any


class Recent:
    """
    What changed between two positions of a view, without a gap. Safe to share between threads.

    Args:
        most_pieces: Postings that are kept.
        most_bytes: Memory for their rows; the oldest go first.
    """

    def __init__(self, most_pieces: int = MOST_PIECES, most_bytes: int = MOST_BYTES) -> None:
        self._most_pieces = most_pieces
        self._most_bytes = most_bytes
        self._lock = Lock()
        self._pieces: deque[_Piece] = deque()
        self._nbytes = 0

    def add(self, start: int, stop: int, rows: Any) -> None:
        """
        Takes what changed from one position to another; what does not follow the rest replaces
        it.

        Args:
            start: The earlier position.
            stop: The later one.
            rows: An Arrow table with the columns ``READ``, in any order, of every row that events
                from ``start`` on changed, each once, as it stands at ``stop``.
        """
        # Posted rows and rows that were read have their columns in another order.
        rows = rows.select(list(READ))
        with self._lock:
            if self._pieces and self._pieces[-1].stop != start:
                self._forget()
            self._pieces.append(_Piece(start, stop, rows))
            self._nbytes += rows.nbytes
            while len(self._pieces) > self._most_pieces or self._nbytes > self._most_bytes:
                self._nbytes -= self._pieces.popleft().rows.nbytes

    def between(self, start: int, stop: int) -> Any:
        """
        What changed from one position to another, each row once, and perhaps what changed
        before and since; None when that is not known.
        """
        with self._lock:
            pieces = [piece for piece in self._pieces if piece.stop > start]
        if not pieces or pieces[0].start > start or pieces[-1].stop < stop:
            return None
        if len(pieces) == 1:
            return pieces[0].rows
        return _last_of_each_key([piece.rows for piece in pieces])

    def known_from(self, start: int) -> int:
        """Up to where it is known what changed from a position on: that position or a later one."""
        with self._lock:
            if not self._pieces or not self._pieces[0].start <= start <= self._pieces[-1].stop:
                return start
            return self._pieces[-1].stop

    def clear(self) -> None:
        """Forgets everything."""
        with self._lock:
            self._forget()

    def _forget(self) -> None:
        self._pieces.clear()
        self._nbytes = 0


def _last_of_each_key(tables: list[Any]) -> Any:
    import numpy
    import pyarrow as pa

    whole = pa.concat_tables(tables).combine_chunks()
    backwards = whole["key"].to_numpy()[::-1]
    _, places = numpy.unique(backwards, return_index=True)
    return whole.take(len(whole) - 1 - places)
