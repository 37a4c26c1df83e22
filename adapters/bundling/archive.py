"""The archive that a bundle is: files stored as they are, a manifest, and a hash over all of it."""

import json
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, BinaryIO, Final

FORMAT: Final = "memoriale-bundle/1"
MANIFEST: Final = "manifest.json"
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
_MODE: Final = 0o100600 << 16
_UNIX: Final = 3
_PIECE: Final = 1 << 20
_HASH_LENGTH: Final = 64


class Archive:
    """
    A bundle that is being written; the same files give the same bytes.

    Args:
        zip: The open archive.
    """

    def __init__(self, zip: zipfile.ZipFile) -> None:
        self._zip = zip
        self._hashes: dict[str, str] = {}

    def add(self, name: str, content: bytes) -> None:
        """
        Adds a file.

        Args:
            name: Its path, of ASCII characters; not one that is there already.
            content: What it holds.
        """
        if name in self._hashes:
            raise ValueError(f"{name} is in the bundle already")
        self._hashes[name] = sha256(content).hexdigest()
        self._store(name, content)

    def finish(self, description: Mapping[str, Any]) -> None:
        """
        Adds the manifest: what the bundle is about, and the hash of every file.

        Args:
            description: What it is about, as JSON values.
        """
        manifest = {"format": FORMAT, **description, "files": self._hashes}
        self._store(MANIFEST, json.dumps(manifest, indent=0, ensure_ascii=True).encode())

    def _store(self, name: str, content: bytes) -> None:
        info = zipfile.ZipInfo(name, _EPOCH)
        info.external_attr, info.create_system = _MODE, _UNIX
        self._zip.writestr(info, content)


@contextmanager
def archive(file: BinaryIO) -> Iterator[Archive]:
    """
    Writes an archive. Its comment, the last 64 bytes, is the hash of all bytes before it.

    Args:
        file: Empty, open for reading and writing.
    """
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as zip:
        # Only its length counts here: it stands in the record before the comment.
        zip.comment = bytes(_HASH_LENGTH)
        yield Archive(zip)
    end = file.seek(-_HASH_LENGTH, 2)
    digest, left = sha256(), end
    file.seek(0)
    while left:
        piece = file.read(min(left, _PIECE))
        digest.update(piece)
        left -= len(piece)
    file.seek(end)
    file.write(digest.hexdigest().encode())
