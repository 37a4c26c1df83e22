"""Arrays and tables too large for memory, in files without a name on the view's own disk."""

import mmap
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from memoriale.domain.errors import CorruptViewError, UnavailableError
from memoriale.projections.generations import disk_errors

LEAST_BYTES: Final = 4 * 2**20
"""What is smaller stays in memory."""


class Scratch:
    """
    Puts what is large into files, and reads it through the system's page cache, which takes the
    memory back when something else needs it.

    The files have no name, so nothing finds them, and they end with the process or earlier. Once
    the disk is full everything stays in memory: reads go on.

    Args:
        folder: Where they lie.
        least: Bytes from which something is put into a file.
    """

    def __init__(self, folder: Path, least: int = LEAST_BYTES) -> None:
        self.folder = folder
        self.least = least

    def kept(self, values: Any) -> int:
        """Bytes in memory of what ``array`` or ``table`` gave."""
        nbytes = int(values.nbytes)
        return 0 if nbytes >= self.least else nbytes

    def array(self, values: Any) -> Any:
        """The same numpy array, in a file if it is large; not to be written to."""
        import numpy

        def put(file: Any) -> Any:
            file.write(numpy.ascontiguousarray(values).data)
            return mapped(file, values.dtype).reshape(values.shape)

        return self._put(values, put)

    def table(self, table: Any) -> Any:
        """The same Arrow table, in a file if it is large."""
        import pyarrow as pa

        def put(file: Any) -> Any:
            with pa.ipc.new_file(pa.PythonFile(file, mode="w"), table.schema) as writer:
                writer.write_table(table)
            file.flush()
            pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            return pa.ipc.open_file(pa.py_buffer(pages)).read_all()

        return self._put(table, put)

    def _put(self, values: Any, put: Callable[[Any], Any]) -> Any:
        if values.nbytes < max(1, self.least):
            return values
        with self.unless_full(), self.file() as file, disk_errors(self.folder):
            return put(file)
        return values

    @contextmanager
    def unless_full(self) -> Iterator[None]:
        """Leaves the block when the disk is full, and puts nothing more into files then."""
        try:
            yield
        except UnavailableError as error:
            if error.code != "disk_full":
                raise
            self.least = sys.maxsize

    def file(self) -> Any:
        """
        A new file without a name.

        Raises:
            CorruptViewError: The folder is gone: the view was replaced.
            UnavailableError: The disk cannot be used.
        """
        with disk_errors(self.folder):
            try:
                return tempfile.TemporaryFile(dir=self.folder)
            except FileNotFoundError:
                raise CorruptViewError(f"{self.folder} was removed.") from None


def mapped(file: Any, dtype: Any) -> Any:
    """What was written to a file so far as a flat array."""
    import numpy

    file.flush()
    pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return numpy.frombuffer(pages, dtype=dtype)
