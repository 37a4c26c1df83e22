"""Small files that are there whole or not at all, whatever kills the writer."""

import os
from pathlib import Path
from typing import Final

from memoriale.projections.generations import disk_errors, make_folder

PRIVATE: Final = 0o600


def read(path: Path) -> bytes | None:
    """
    What a file holds, None if there is none.

    Raises:
        UnavailableError: It cannot be read.
    """
    with disk_errors(path):
        try:
            return path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None


def publish(path: Path, data: bytes, *, at_once: bool = True) -> None:
    """
    Puts a file at its place; an older one is replaced in one step.

    Args:
        path: The place.
        data: What it holds, on the disk when this returns.
        at_once: Whether its name is so too. Otherwise a power failure may bring the older file
            back, never half of one.

    Raises:
        UnavailableError: It cannot be written.
    """
    make_folder(path.parent)
    draft = path.with_name(f"{path.name}.new")
    with disk_errors(path):
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, PRIVATE)
        try:
            os.write(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        draft.rename(path)
    if at_once:
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Returns when the names in a folder are on the disk."""
    with disk_errors(folder):
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
