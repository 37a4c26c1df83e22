"""Columns of a shelf that grow at their end: numbers in memory, vectors in a file once large."""

from typing import Any, Final
from weakref import finalize

from memoriale.projections.generations import disk_errors
from memoriale.projections.recall.scratch import Scratch, mapped

_ROOM: Final = 5 / 4
"""How much more than is needed is set aside, so that growing by one row seldom copies."""


class Growing:
    """
    A numpy array that grows.

    Args:
        dtype: Of its values.
    """

    def __init__(self, dtype: Any) -> None:
        import numpy

        self._room = numpy.empty(0, dtype=dtype)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        return int(self._room.nbytes)

    @property
    def array(self) -> Any:
        """What is there. Valid for good: growing moves to another place or adds behind it."""
        return self._room[: self._length]

    def add(self, values: Any) -> None:
        """Puts values behind those that are there."""
        import numpy

        length = self._length + len(values)
        if length > len(self._room):
            room = numpy.empty(int(length * _ROOM) + 16, dtype=self._room.dtype)
            room[: self._length] = self.array
            self._room = room
        self._room[self._length : length] = values
        self._length = length


class Vectors:
    """
    Vectors of length 1, or zeros where there is none, as one matrix.

    Args:
        width: Components of each.
        scratch: Where they go once they are large.
    """

    def __init__(self, width: int, scratch: Scratch) -> None:
        self.width = width
        self.present = Growing(bool)
        """Which of them are there."""
        self._scratch = scratch
        self._flat = Growing("float32")
        self._file: Any = None
        self._mapped: Any = None

    def __len__(self) -> int:
        return len(self.present)

    @property
    def nbytes(self) -> int:
        """Memory that they take, without what lies in a file."""
        return self._flat.nbytes + self.present.nbytes

    @property
    def matrix(self) -> Any:
        """All of them [count, width]."""
        flat = self._flat.array if self._file is None else self._mapped[: len(self) * self.width]
        return flat.reshape(-1, self.width)

    def add(self, vectors: Any) -> None:
        """
        Puts vectors behind those that are there.

        Args:
            vectors: An array [count, width] of any lengths.
        """
        import numpy

        lengths = numpy.sqrt(numpy.vecdot(vectors, vectors))[:, None]
        start = len(self) * self.width
        self.present.add(lengths[:, 0] > 0)
        lengths[lengths == 0] = 1
        added = (vectors / lengths).astype(numpy.float32).reshape(-1)
        if self._file is None and self._flat.nbytes + added.nbytes >= self._scratch.least:
            self._begin_file()
        if self._file is not None:
            with self._scratch.unless_full():
                self._write(added, start)
                return
            self._leave_file(start)
        self._flat.add(added)

    def _begin_file(self) -> None:
        with self._scratch.unless_full():
            self._file = self._scratch.file()
            finalize(self, self._file.close)
            self._write(self._flat.array, 0)
            self._flat = Growing(self._flat.array.dtype)
            return
        self._file = None

    def _leave_file(self, count: int) -> None:
        self._flat.add(self._mapped[:count])
        self._file = self._mapped = None

    def _write(self, flat: Any, start: int) -> None:
        with disk_errors(self._scratch.folder):
            self._file.seek(start * flat.itemsize)
            self._file.write(flat.data)
            self._file.flush()
            end = start + len(flat)
            if self._mapped is None or end > len(self._mapped):
                # Room ahead: a new mapping has to find every page again.
                self._file.truncate(int(end * _ROOM + 1) * flat.itemsize)
                self._mapped = mapped(self._file, flat.dtype)
