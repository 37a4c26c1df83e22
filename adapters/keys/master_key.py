"""The master key's file: 32 random bytes in hexadecimal, 0600, wrapping the store's secret."""

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memoriale.adapters.keys.disk import (
    DiskFile,
    disk_errors,
    leftover,
    publish,
    remove,
    sync_folder,
)
from memoriale.domain.errors import UnavailableError

KEY_BYTES = 32
_HEX = re.compile(rb"\s*([0-9a-fA-F]{64})\s*")


class MasterKeyFile:
    """
    The file that holds the master key, and during a rotation its successor beside it.

    Args:
        path: The file; its folder must exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def exists(self) -> bool:
        """Say whether there is a master key."""
        with disk_errors(self.path):
            return self.path.exists()

    def read_or_create(self) -> bytes:
        """
        Return the master key; if there is none, make a random one, durably.

        The folder is locked meanwhile: two stores that are made at once and share the file
        must not each make a key, of which one would be lost.
        """
        with _locked(self.path.parent):
            if self.exists():
                return self.read()
            key = os.urandom(KEY_BYTES)
            publish(self.path, _text(key))
            return key

    def read(self) -> bytes:
        """
        Return the master key.

        Raises:
            UnavailableError: The file is missing (code ``missing_master_key``) or holds
                something else (code ``bad_master_key``).
        """
        if not self.exists():
            raise UnavailableError(
                f"The master key {self.path} is missing and the key store cannot be read without "
                "it. Put the file back or name the right one.",
                code="missing_master_key",
                field="master_key",
                value=str(self.path),
            )
        return _read(self.path)

    def read_successor(self) -> bytes | None:
        """Return the whole key that an unfinished rotation left beside the current one, if any."""
        path = leftover(self.path)
        with disk_errors(path):
            match = _HEX.fullmatch(path.read_bytes()) if path.exists() else None
        return bytes.fromhex(match[1].decode()) if match else None

    def write_successor(self) -> bytes:
        """Make a random key beside the current one, durably, and return it."""
        # Fails now rather than in adopt, if the current key cannot be overwritten.
        DiskFile(self.path)
        key = os.urandom(KEY_BYTES)
        file = DiskFile(leftover(self.path), create=True)
        file.write(_text(key), 0)
        file.sync()
        sync_folder(self.path.parent)
        return key

    def adopt(self, key: bytes) -> None:
        """Overwrite the current key in place, so that the old one is on no disk block."""
        file = DiskFile(self.path)
        file.write(_text(key), 0)
        file.truncate(len(_text(key)))
        file.sync()
        self.drop_successor()

    def drop_successor(self) -> None:
        """Overwrite and remove the key beside the current one, if there is one."""
        path = leftover(self.path)
        with disk_errors(path):
            if not path.exists():
                return
        file = DiskFile(path)
        file.write(bytes(file.size()), 0)
        file.sync()
        remove(path)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with disk_errors(folder):
        fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with disk_errors(folder):
            fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _text(key: bytes) -> bytes:
    return key.hex().encode() + b"\n"


def _read(path: Path) -> bytes:
    with disk_errors(path):
        text = path.read_bytes()
    match = _HEX.fullmatch(text)
    if match is None:
        raise UnavailableError(
            f"{path} is not a master key. It must hold 64 hexadecimal digits.",
            code="bad_master_key",
            field="master_key",
            value=str(path),
            allowed="64 hexadecimal digits",
        )
    return bytes.fromhex(match[1].decode())
