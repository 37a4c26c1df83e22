"""An anchor that is a folder, best on another machine's disk that keeps what was written."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final
from uuid import uuid4

from memoriale.adapters.anchors.anchor import (
    ROOT,
    UNREACHABLE,
    Held,
    Results,
    conflict,
    is_path,
    one_by_one,
    path_of,
    same_statement,
)
from memoriale.adapters.anchors.places import Place
from memoriale.adapters.sealing.publisher import Published
from memoriale.domain.errors import MemorialeError, UnavailableError

_LEVELS: Final = 3
"""Folders and file below an origin."""


class FolderAnchor:
    """
    One file for each checkpoint, complete and synced before it has its name.

    The folder itself must exist: a mount that is missing is not replaced by a local folder.

    Args:
        place: Which folder.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self._folder = Path(place.address)

    def put(self, checkpoints: Sequence[Published]) -> Results:
        """Adds checkpoints, one after the other."""
        return one_by_one(checkpoints, self._result)

    def newest(self, origins: Sequence[str]) -> Mapping[str, Held]:
        """The largest checkpoint of each origin."""
        try:
            found = {o: next(self._paths(o, _LEVELS, newest_first=True), None) for o in origins}
            return {o: self._read(path) for o, path in found.items() if path is not None}
        except OSError as error:
            raise self._unavailable(error) from error

    def logs(self) -> list[str]:
        """Every log of which there is anything."""
        try:
            self._require_folder()
            root = self._folder / ROOT
            names = sorted(os.listdir(root)) if root.is_dir() else []
            return [f"{ROOT}/{name}" for name in names]
        except OSError as error:
            raise self._unavailable(error) from error

    def held(self, log: str) -> Iterator[Held]:
        """Every checkpoint of a log."""
        try:
            for path in self._paths(log, _LEVELS + 1):
                yield self._read(path)
        except OSError as error:
            raise self._unavailable(error) from error

    def _result(self, checkpoint: Published) -> MemorialeError | None:
        try:
            return self._put(checkpoint)
        except OSError as error:
            return self._unavailable(error)

    def _put(self, checkpoint: Published) -> MemorialeError | None:
        self._require_folder()
        target = self._folder / path_of(checkpoint)
        if not target.exists():
            self._make_folders(target.parent)
            _write_new(target, checkpoint.note)
        if same_statement(checkpoint.note, target.read_bytes()):
            return None
        return conflict(self.place, path_of(checkpoint))

    def _make_folders(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        while folder != self._folder:
            folder = folder.parent
            _sync_folder(folder)

    def _paths(self, path: str, levels: int, newest_first: bool = False) -> Iterator[str]:
        self._require_folder()
        folder = self._folder / path
        if levels == 0:
            yield from [path] if is_path(path) else []
        elif folder.is_dir():
            for name in sorted(os.listdir(folder), reverse=newest_first):
                yield from self._paths(f"{path}/{name}", levels - 1, newest_first)

    def _read(self, path: str) -> Held:
        return Held(path, (self._folder / path).read_bytes())

    def _require_folder(self) -> None:
        if not self._folder.is_dir():
            raise FileNotFoundError(2, "there is no such folder; make it, or mount it")

    def _unavailable(self, error: OSError) -> UnavailableError:
        return UnavailableError(
            f"the anchor {self.place.shown} cannot be used: {error.strerror}.",
            code=UNREACHABLE,
            field="anchors",
            value=self.place.shown,
        )


def _write_new(target: Path, content: bytes) -> None:
    """Writes a file that did not exist; whoever came first keeps the name."""
    unfinished = target.parent / f".{uuid4().hex}"
    try:
        with unfinished.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(unfinished, target)
        except FileExistsError:
            return
    finally:
        unfinished.unlink(missing_ok=True)
    _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
