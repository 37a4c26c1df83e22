"""The local trees and checkpoints that anchors are told of: ``<home>/tiles``."""

from collections.abc import Iterator
from pathlib import Path

from memoriale.adapters.notes.checkpoint import Checkpoint
from memoriale.adapters.notes.signed_note import SignedNote
from memoriale.adapters.sealing.files import read
from memoriale.adapters.sealing.publisher import Published
from memoriale.projections.proofs.inclusion import consistency_proof, root_at
from memoriale.projections.proofs.tiles import TileReader, files_in


class Trees:
    """
    Trees and checkpoints of every log, as they lie in the home.

    Args:
        folder: The folder of the tiles.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def of(self, origin: str) -> Path:
        """The folder of one log and incarnation."""
        return self._folder.joinpath(*origin.split("/")[1:])

    def origins(self) -> list[str]:
        """Every log that was sealed here, in the last incarnation in which it was."""
        last: dict[str, int] = {}
        for path in self._folder.glob("*/*/checkpoint"):
            log, incarnation = path.parts[-3], path.parts[-2]
            if incarnation.isdecimal():
                last[log] = max(last.get(log, 0), int(incarnation))
        return [f"memoriale/{log}/{incarnation}" for log, incarnation in sorted(last.items())]

    def latest(self, origin: str) -> Published | None:
        """
        The present checkpoint of a log. Its signature is not checked: it is our own.

        Raises:
            InputError: The file is damaged.
            UnavailableError: It cannot be read.
        """
        return _parsed(read(self.of(origin) / "checkpoint"))

    def at(self, origin: str, size: int) -> Published | None:
        """The checkpoint of a log at a size; errors as for ``latest``."""
        return _parsed(read(self.of(origin) / "checkpoints" / str(size)))

    def all_latest(self) -> Iterator[Published]:
        """The present checkpoints of all logs."""
        for origin in self.origins():
            if found := self.latest(origin):
                yield found

    def root(self, checkpoint: Published, size: int) -> bytes:
        """
        The root that a log had at some size up to that of a checkpoint.

        Raises:
            CorruptViewError: A tile is missing or damaged.
        """
        return root_at(self._reader(checkpoint).node, size)

    def consistency(self, checkpoint: Published, old: int) -> list[bytes]:
        """
        The proof that a log only grew since it had a size.

        Raises:
            CorruptViewError: A tile is missing or damaged.
        """
        return consistency_proof(self._reader(checkpoint).node, old, checkpoint.size)

    def _reader(self, checkpoint: Published) -> TileReader:
        return TileReader(files_in(self.of(checkpoint.origin)), checkpoint.size)


def _parsed(note: bytes | None) -> Published | None:
    if note is None:
        return None
    stated = Checkpoint.parse(SignedNote.parse(note).text)
    return Published(stated.origin, stated.size, stated.root, note)
