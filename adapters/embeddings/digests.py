"""Names a model by the bytes of its files, so that other weights are another model."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

DIGITS: Final = 16
"""Hexadecimal digits of a digest that a model's name holds."""

_Seen = tuple[tuple[str, int, int, int], ...]


class FilesDigest:
    """
    The digest of files and of what was read out of others. Files are read again only when their
    size or time of change is another one.

    Args:
        settings: What else the vectors depend on.
    """

    def __init__(self, settings: str) -> None:
        self._settings = settings
        self._known: tuple[_Seen, str] | None = None

    def of(self, files: Iterable[Path]) -> str:
        """
        The digest of these files' names and contents.

        Raises:
            OSError: One cannot be read.
        """
        paths = sorted(files)
        seen = tuple(_seen(path) for path in paths)
        if self._known is None or self._known[0] != seen:
            self._known = (seen, self._computed(paths))
        return self._known[1]

    def _computed(self, paths: list[Path]) -> str:
        digest = hashlib.sha256(self._settings.encode())
        for path in paths:
            with path.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").digest()
            digest.update(hashlib.sha256(path.name.encode()).digest() + content)
        return digest.hexdigest()[:DIGITS]


def _seen(path: Path) -> tuple[str, int, int, int]:
    found = path.stat()
    return (str(path), found.st_ino, found.st_size, found.st_mtime_ns)
