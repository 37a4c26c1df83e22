"""Remembers how wide a model's vectors are, so that naming a model does not need to call it."""

import json
import logging
import os
import secrets
from pathlib import Path
from typing import Final

MOST: Final = 65_536
"""Components that a vector may have."""
_log = logging.getLogger("memoriale.embeddings")


class KnownWidths:
    """
    A small file of widths by model. It holds no text of anybody, and losing it costs one call
    of each model.

    Args:
        path: The file; it and its folder are made when the first width is learnt. None keeps
            nothing.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def get(self, model: str) -> int | None:
        """The width of a model, or None."""
        width = self._read().get(model)
        valid = isinstance(width, int) and not isinstance(width, bool) and 1 <= width <= MOST
        return width if valid else None

    def beginning(self, prefix: str) -> dict[str, int]:
        """The widths of the models whose names begin so."""
        names = [name for name in self._read() if name.startswith(prefix)]
        return {name: width for name in names if (width := self.get(name))}

    def put(self, model: str, width: int) -> None:
        """Keeps a width; a disk that cannot be written is no error."""
        self._write({**self._read(), model: width})

    def drop(self, model: str) -> None:
        """Forgets a width that turned out to be wrong."""
        self._write({name: width for name, width in self._read().items() if name != model})

    def _read(self) -> dict[str, int]:
        try:
            found = json.loads(self._path.read_bytes()) if self._path else {}
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _write(self, widths: dict[str, int]) -> None:
        if self._path is None:
            return
        draft = self._path.with_name(f"{self._path.name}.{secrets.token_hex(4)}")
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(widths, file)
            draft.replace(self._path)
        except OSError as error:
            draft.unlink(missing_ok=True)
            _log.warning("%s cannot be written: %s", self._path, error.strerror)
