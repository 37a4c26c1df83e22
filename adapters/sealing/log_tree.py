"""The tree of one log on disk: tiles, the last checkpoint, and all checkpoints by size."""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from typing import Final
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from memoriale.adapters.notes.checkpoint import (
    Checkpoint,
    SignedCheckpoint,
    open_checkpoint,
    sign_checkpoint,
)
from memoriale.adapters.notes.signed_note import NoteSigner
from memoriale.adapters.sealing.files import publish, read, sync_folder
from memoriale.adapters.sealing.signing_key import SigningKey
from memoriale.domain.errors import UnavailableError
from memoriale.projections.generations import FileLock, disk_errors, make_folder
from memoriale.projections.proofs.tiles import TileReader, files_in

TILES: Final = "tile"
REBUILT: Final = "rebuilt"
"""Where tiles are built anew, beside the live ones."""
MARK: Final = "noted"
"""Says up to which size the deployment log knows of a tree."""
_OUTDATED: Final = "outdated"
_WAIT: Final = 600.0


def origin_of(log_id: UUID, incarnation: int) -> str:
    """The name of a log in its checkpoints, which is also that of its key."""
    return f"memoriale/{log_id}/{incarnation}"


class LogTree:
    """
    What is known on this machine of one incarnation of a log.

    Args:
        tiles: Folder of all trees.
        log_id: Which log.
        incarnation: Which incarnation.
        key: Who signs.
    """

    def __init__(self, tiles: Path, log_id: UUID, incarnation: int, key: SigningKey) -> None:
        self._log_id, self._tiles = log_id, tiles
        self.folder = tiles / str(log_id) / str(incarnation)
        self.origin = origin_of(log_id, incarnation)
        self._key = key
        self._last = self.folder / "checkpoint"
        self._history = self.folder / "checkpoints"
        self._noted = self.folder / MARK

    def of_incarnation(self, number: int) -> "LogTree":
        """The tree of the same log in another incarnation."""
        return LogTree(self._tiles, self._log_id, number, self._key)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """
        Nobody else extends the tree meanwhile.

        Raises:
            UnavailableError: ``locked``: another process has been at it for ten minutes.
        """
        lock = FileLock(self.folder / "lock")
        if not lock.acquire(time.monotonic() + _WAIT):
            raise UnavailableError(
                f"Another process has held {lock.path} for {_WAIT:g} s. Find out what it does.",
                code="locked",
            )
        try:
            yield
        finally:
            lock.release()

    def last(self) -> SignedCheckpoint | None:
        """
        The last checkpoint, its signature checked; None before the first.

        Raises:
            ViolationError: It was not signed by a key of this installation.
            InputError: It is no checkpoint.
        """
        return self._opened(read(self._last))

    def at(self, size: int) -> SignedCheckpoint | None:
        """The checkpoint of a size, with the same checks; None if there is none."""
        return self._opened(read(self._history / str(size)))

    def sizes(self) -> list[int]:
        """Of which sizes there are checkpoints, smallest first."""
        with disk_errors(self._history):
            if not self._history.is_dir():
                return []
            names = [path.name for path in self._history.iterdir()]
        return sorted(int(name) for name in names if name.isdecimal())

    def reader(self, size: int) -> TileReader:
        """The nodes of the tree."""
        return TileReader(files_in(self.folder), size)

    def sign(
        self, checkpoint: Checkpoint, keys: Sequence[Ed25519PrivateKey] | None = None
    ) -> SignedCheckpoint:
        """
        Signs a checkpoint and keeps it; the caller holds the lock. Should a power failure take
        it away, the events that it covers are still in the log, and give the same root.

        Args:
            checkpoint: Of this log, and consistent with the last one.
            keys: Who signs; default: the signing key.
        """
        signers = (
            self._key.signers(self.origin)
            if keys is None
            else [NoteSigner(self.origin, key) for key in keys]
        )
        note = str(sign_checkpoint(checkpoint, signers)).encode()
        publish(self._last, note, at_once=False)
        self._keep(checkpoint.size)
        return open_checkpoint(note, [signer.verifier() for signer in signers], self.origin)

    def complete(self, last: SignedCheckpoint) -> None:
        """Adds the last checkpoint to the others, should a crash have come between."""
        if not (self._history / str(last.checkpoint.size)).exists():
            self._keep(last.checkpoint.size)

    def noted(self) -> int:
        """Up to which size the deployment log knows of this one, at least; -1 at first."""
        data = read(self._noted) or b""
        return int(data) if data.isdigit() else -1

    def mark_noted(self, size: int) -> None:
        """Keeps that; a crash before it makes the deployment log repeat itself, no more."""
        with disk_errors(self._noted):
            self._noted.write_bytes(b"%d" % size)

    def discard(self) -> None:
        """Removes what was built beside the live tiles."""
        rmtree(self.folder / REBUILT, ignore_errors=True)

    def swap(self) -> None:
        """Puts the rebuilt tiles in the place of the live ones; the caller holds the lock."""
        live, outdated = self.folder / TILES, self.folder / _OUTDATED
        with disk_errors(self.folder):
            rmtree(outdated, ignore_errors=True)
            if live.exists():
                live.rename(outdated)
            rebuilt = self.folder / REBUILT / TILES
            if rebuilt.exists():
                rebuilt.rename(live)
        sync_folder(self.folder)
        rmtree(outdated, ignore_errors=True)
        self.discard()

    def _keep(self, size: int) -> None:
        # A second name for the file that is on the disk already: never torn, and no sync more.
        make_folder(self._history)
        draft = self._history / "draft"
        with disk_errors(self._history):
            draft.unlink(missing_ok=True)
            os.link(self._last, draft)
            draft.rename(self._history / str(size))

    def _opened(self, note: bytes | None) -> SignedCheckpoint | None:
        if note is None:
            return None
        return open_checkpoint(note, self._key.verifiers(self.origin), self.origin)
