"""Published snapshots of the stats view: immutable files that anybody may read at any time."""

import fcntl
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from memoriale.domain.errors import CorruptViewError, UnavailableError
from memoriale.projections.generations import POINTER, FileLock, disk_errors, make_folder
from memoriale.projections.posted import PostedView, Reading
from memoriale.projections.stats.publishing import build
from memoriale.projections.stats.star import fingerprint
from memoriale.projections.stats.view import StatsView
from memoriale.projections.succession import PATIENCE

KEEP: Final = 3
"""Snapshots that stay; older ones are removed when nobody reads them."""
_NAME: Final = re.compile(r"[0-9a-f]{16}-[0-9a-f]{8}\.duckdb")
_DRAFT: Final = "draft-"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """
    A published snapshot.

    Args:
        path: Its file, which never changes.
        log_id: The log that it was posted from.
        position: How many events of the log it holds.
        root: Root of the Merkle tree over these events, hexadecimal.
        published_at: When it was made.
    """

    path: Path
    log_id: UUID
    position: int
    root: str
    published_at: datetime

    @property
    def index(self) -> int:
        """Index of the last event in it; -1 when there is none."""
        return self.position - 1


class Snapshots:
    """
    The snapshots of one log. The folder may be removed at any time.

    Args:
        folder: ``<snapshots>/<log id>``. Made with mode 0700 when it is missing.
        log_id: The log.
    """

    def __init__(self, folder: Path, log_id: UUID) -> None:
        self.folder = folder
        self.log_id = log_id

    def current(self) -> Snapshot | None:
        """The newest one; None when there is none that this version can use."""
        try:
            pointer = json.loads((self.folder / POINTER).read_bytes())
            found = self._named(pointer)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        usable = _NAME.fullmatch(found.path.name) and found.log_id == self.log_id
        if not usable or pointer["format"] != fingerprint() or not found.path.is_file():
            return None
        return found

    def publish(self, posted: PostedView[StatsView]) -> Snapshot:
        """
        Catches the view up and publishes what it holds; returns the newest snapshot as it is
        when that holds the same events.

        Raises:
            UnavailableError: The log or the disk cannot be used; ``busy``: another process
                publishes all the time. What was published before stays.
        """
        lock = FileLock(self.folder / "publish.lock")
        with disk_errors(self.folder):
            if not lock.acquire(time.monotonic() + PATIENCE):
                raise UnavailableError(
                    "another process is publishing a snapshot; try again.", code="busy"
                )
            try:
                return self._published(posted)
            finally:
                lock.release()

    @contextmanager
    def reading(self, snapshot: Snapshot) -> Iterator[int]:
        """
        Keeps a snapshot from being removed while it is read.

        Returns:
            A context with an open descriptor of the file. Whoever inherits it keeps the
            snapshot too.

        Raises:
            UnavailableError: ``snapshot_lost``: it is no longer there.
        """
        try:
            descriptor = os.open(snapshot.path, os.O_RDONLY)
        except OSError as error:
            raise self.lost(snapshot) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            if not snapshot.path.is_file():
                raise self.lost(snapshot)
            yield descriptor
        finally:
            os.close(descriptor)

    def lost(self, snapshot: Snapshot) -> UnavailableError:
        """
        Takes a snapshot that was removed or damaged out of use, so that the next question
        publishes another one.

        Returns:
            The error to raise.
        """
        found = self.current()
        with suppress(FileNotFoundError), disk_errors(self.folder):
            if found is None or found.path == snapshot.path:
                (self.folder / POINTER).unlink()
        return UnavailableError(
            f"the snapshot of index {snapshot.index} was removed or damaged; ask again, and a "
            "new one is published.",
            code="snapshot_lost",
            field="index",
            value=snapshot.index,
        )

    def _published(self, posted: PostedView[StatsView]) -> Snapshot:
        self._sweep()
        live, draft = (self.folder / f"{_DRAFT}{part}.duckdb" for part in ("live", "snapshot"))
        try:
            position = _copied(posted, live)
            newest = self.current()
            if newest is not None and newest.position == position:
                return newest
            published_at = datetime.now(UTC)
            try:
                root = build(live, draft, self.log_id, published_at)
            except CorruptViewError as damage:
                # Some damage shows only when the whole file is read.
                draft.unlink(missing_ok=True)
                position = _copied(posted, live, damage)
                root = build(live, draft, self.log_id, published_at)
            path = self.folder / f"{time.time_ns():016x}-{secrets.token_hex(4)}.duckdb"
            snapshot = Snapshot(path, self.log_id, position, root.hex(), published_at)
            self._point_at(snapshot, draft)
            self._prune()
            return snapshot
        finally:
            self._sweep()

    def _point_at(self, snapshot: Snapshot, draft: Path) -> None:
        draft.chmod(0o600)
        _sync(draft)
        draft.rename(snapshot.path)
        pointer = self.folder / f"{_DRAFT}pointer"
        pointer.touch(0o600)
        pointer.write_text(json.dumps(_as_pointer(snapshot)), encoding="utf-8")
        _sync(pointer)
        # The file's own name must last before the pointer to it does.
        _sync(self.folder)
        pointer.rename(self.folder / POINTER)
        _sync(self.folder)

    def _named(self, pointer: dict[str, Any]) -> Snapshot:
        return Snapshot(
            path=self.folder / str(pointer["snapshot"]),
            log_id=UUID(pointer["log_id"]),
            position=int(pointer["position"]),
            root=str(pointer["root"]),
            published_at=datetime.fromisoformat(pointer["published_at"]),
        )

    def _prune(self) -> None:
        names = sorted(path.name for path in self.folder.iterdir() if _NAME.fullmatch(path.name))
        for name in names[:-KEEP]:
            _remove_unless_read(self.folder / name)

    def _sweep(self) -> None:
        # Under the publisher's lock every draft is what a killed publisher left.
        make_folder(self.folder)
        for path in self.folder.glob(f"{_DRAFT}*"):
            if path.is_dir():
                # Where DuckDB puts what does not fit into memory.
                shutil.rmtree(path)
            else:
                path.unlink()


def _copied(
    posted: PostedView[StatsView], target: Path, damage: CorruptViewError | None = None
) -> int:
    """Copies the live file at the head of the log; ``damage`` has it rebuilt before that."""
    condemned = [damage] if damage is not None else []

    def copy(reading: Reading[StatsView]) -> int:
        if condemned:
            raise condemned.pop()
        if reading.failure is not None:
            # A snapshot is asked for to see what was recorded last.
            raise reading.failure
        return reading.view.copy_to(target)

    return posted.run(copy, wait=PATIENCE)


def _remove_unless_read(path: Path) -> None:
    with suppress(FileNotFoundError):
        descriptor = os.open(path, os.O_RDWR)
        try:
            # The first lock is that of our readers, the second that of DuckDB in any program.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
        except BlockingIOError:
            pass
        finally:
            os.close(descriptor)


def _as_pointer(snapshot: Snapshot) -> dict[str, Any]:
    return {
        "snapshot": snapshot.path.name,
        "log_id": str(snapshot.log_id),
        "position": snapshot.position,
        "root": snapshot.root,
        "published_at": snapshot.published_at.isoformat(),
        "format": fingerprint(),
    }


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
