"""Private files whose every OSError becomes an UnavailableError."""

import contextlib
import fcntl
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from memoriale.domain.errors import UnavailableError

FILE_MODE = 0o600
FOLDER_MODE = 0o700


class DiskFile:
    """An open file, read and written at given places; safe to share between threads."""

    def __init__(self, path: Path, *, create: bool = False) -> None:
        self.path = path
        self._fd = -1
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT | os.O_TRUNC if create else 0)
        with disk_errors(path):
            self._fd = os.open(path, flags, FILE_MODE)

    def __del__(self) -> None:
        # Closed by the last reference: a thread may still be reading the file that another
        # thread has just replaced.
        if self._fd >= 0:
            os.close(self._fd)

    def read(self, size: int, offset: int) -> bytes:
        """Return up to ``size`` bytes at ``offset``; fewer at the end of the file."""
        with disk_errors(self.path):
            return os.pread(self._fd, size, offset)

    def write(self, data: bytes, offset: int) -> None:
        """Write all of ``data`` at ``offset``."""
        with disk_errors(self.path):
            while data:
                written = os.pwrite(self._fd, data, offset)
                data, offset = data[written:], offset + written

    def sync(self) -> None:
        """Return when everything written is on the disk."""
        with disk_errors(self.path):
            _sync(self._fd)

    def truncate(self, size: int) -> None:
        """Cut the file to ``size`` bytes."""
        with disk_errors(self.path):
            os.ftruncate(self._fd, size)

    def size(self) -> int:
        """Return the file's length in bytes."""
        with disk_errors(self.path):
            return os.fstat(self._fd).st_size

    def is_at_path(self) -> bool:
        """Say whether the path still leads to this file and not to a replacement."""
        with disk_errors(self.path):
            own = os.fstat(self._fd)
            try:
                found = os.stat(self.path)
            except FileNotFoundError:
                return False
        return (own.st_dev, own.st_ino) == (found.st_dev, found.st_ino)


class disk_errors:
    """Translate every OSError of the block; a class because a generator costs 0.5 µs more."""

    __slots__ = ("_path",)

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            raise UnavailableError(
                f"The key store cannot use {self._path}: {error.strerror or error}.",
                code="key_store_unavailable",
                field="keystore",
                value=str(self._path),
            ) from error


def make_folder(folder: Path) -> None:
    """Make a folder that only its owner may enter. An existing one is left as it is."""
    with disk_errors(folder):
        folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)


def publish(path: Path, data: bytes) -> None:
    """Write a whole file beside ``path`` and rename it into place: it is there or it is not."""
    with building(path) as file:
        file.write(data, 0)


@contextlib.contextmanager
def building(path: Path) -> Iterator[DiskFile]:
    """Yield an empty file that takes the place of ``path``, durably, when the block ends."""
    file = DiskFile(leftover(path), create=True)
    yield file
    file.sync()
    with disk_errors(path):
        os.replace(file.path, path)
    sync_folder(path.parent)
    file.path = path


def leftover(path: Path) -> Path:
    """Where a new version of ``path`` is built; a killed process leaves it behind."""
    return path.with_name(path.name + ".new")


def remove(path: Path) -> None:
    """Remove a file if it exists."""
    with disk_errors(path):
        path.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Return when the names in ``folder`` are on the disk."""
    with disk_errors(folder):
        fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _sync(fd: int) -> None:
    if sys.platform == "darwin":
        # fsync on macOS returns before the drive's own cache is written.
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        os.fdatasync(fd)
