"""Where a view lives on disk: its generations, the pointer to the live one, and its locks."""

import fcntl
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from memoriale.domain.errors import CorruptViewError, UnavailableError
from memoriale.projections.disk import refused_write

POINTER: Final = "CURRENT"
_NAME: Final = re.compile(r"[0-9a-f]{16}-[0-9a-f]{8}")
_BUILDING: Final = ".building"
_LONGEST_PAUSE: Final = 0.005
_ATTEMPTS: Final = 10


class FileLock:
    """
    An exclusive lock between threads and between processes; a killed holder frees it.

    Args:
        path: The lock's file, made when it is missing. Its content means nothing.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def acquire(self, deadline: float) -> bool:
        """
        Takes the lock if it becomes free before ``deadline``; tries at least once.

        Args:
            deadline: Latest time to wait for, as told by ``time.monotonic()``.

        Returns:
            Whether the lock is held now.

        Raises:
            UnavailableError: The file cannot be made.
        """
        pause = 0.001
        with disk_errors(self.path):
            while not self._try_once():
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                time.sleep(min(pause, left))
                pause = min(pause * 2, _LONGEST_PAUSE)
        return True

    def release(self) -> None:
        """Frees the lock, also for copies of it that a fork left in children."""
        if self._descriptor is not None:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            os.close(self._descriptor)
            self._descriptor = None

    def _try_once(self) -> bool:
        try:
            make_folder(self.path.parent)
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:
            return False
        if _locked(descriptor) and _is_at(descriptor, self.path):
            self._descriptor = descriptor
            return True
        os.close(descriptor)
        return False


@dataclass(frozen=True, slots=True)
class Generation:
    """
    One copy of a view, in a folder of its own.

    Args:
        folder: Where its files are.
        fingerprint: What it was built with: the view's format, and the model if it has one.
        build_lock: Held by its builder until it is published or discarded.
    """

    folder: Path
    fingerprint: str
    build_lock: FileLock | None = field(default=None, compare=False, repr=False)


class Generations:
    """
    The generations of one view of one log.

    The folder may be removed at any time, also while processes use it: it is made again, and
    the view is posted from the log.

    Args:
        folder: ``<views>/<log id>/<view name>``. Made with mode 0700 when it is missing.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def current(self) -> Generation | None:
        """The live generation; None when there is no readable pointer or no such folder."""
        try:
            pointer = json.loads((self.folder / POINTER).read_bytes())
            name, fingerprint = str(pointer["generation"]), str(pointer["fingerprint"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        folder = self.folder / name
        if not _NAME.fullmatch(name) or not folder.is_dir():
            return None
        return Generation(folder, fingerprint)

    def begin(self, fingerprint: str) -> Generation:
        """
        Makes the folder of a new generation, which is the caller's until it calls ``publish``
        or ``discard``, or dies.

        Raises:
            UnavailableError: The disk is full or cannot be written.
        """
        with disk_errors(self.folder):
            for _ in range(_ATTEMPTS):
                # The lock comes first: a folder without one is swept.
                name = f"{time.time_ns():016x}-{secrets.token_hex(4)}"
                lock = FileLock(self.folder / f"{name}{_BUILDING}")
                if lock.acquire(time.monotonic()) and _made(self.folder / name):
                    return Generation(self.folder / name, fingerprint, lock)
                lock.release()
        raise UnavailableError(f"{self.folder} is being removed; try again.", code="busy")

    def adopt(self, fingerprint: str, fits: Callable[[Path], bool]) -> Generation | None:
        """
        Takes over a generation whose builder died or left it, the latest one that fits.

        Args:
            fingerprint: What it must have been built with, for ``publish``.
            fits: Whether a folder, whose files nobody else writes now, can be continued.

        Returns:
            The generation, as from ``begin``; None when there is none.

        Raises:
            UnavailableError: The disk cannot be used.
        """
        with disk_errors(self.folder):
            for name in reversed(self._names()):
                lock = FileLock(self.folder / f"{name}{_BUILDING}")
                if self._is_live(name) or not lock.acquire(time.monotonic()):
                    continue
                # Read again: its builder may have published it just before it let go of the lock.
                if self._is_live(name):
                    lock.path.unlink(missing_ok=True)
                elif self._fits(self.folder / name, lock, fits):
                    return Generation(self.folder / name, fingerprint, lock)
                lock.release()
        return None

    def leave(self, generation: Generation) -> None:
        """Lets go of a generation that was not published, for ``adopt``; its files stay."""
        if generation.build_lock is not None:
            generation.build_lock.release()

    def publish(self, generation: Generation) -> None:
        """
        Makes a generation the live one and removes the one that was.

        Raises:
            CorruptViewError: Its folder was removed meanwhile.
            UnavailableError: The disk is full or cannot be written.
        """
        old = self.current()
        with disk_errors(self.folder):
            try:
                self._point_at(generation)
            except FileNotFoundError:
                raise CorruptViewError(
                    f"{generation.folder} was removed while it was built."
                ) from None
            _release(generation)
            if old is not None and old.folder != generation.folder:
                _remove(old.folder)

    def discard(self, generation: Generation) -> None:
        """Removes a generation that was not published."""
        with disk_errors(generation.folder):
            try:
                _remove(generation.folder)
            finally:
                # What could not be removed is swept by the next builder, if nobody holds it.
                _release(generation)

    def sweep(self) -> list[str]:
        """
        Removes every generation that is neither live nor being built by a living process.

        Returns:
            Names of the removed ones.
        """
        with disk_errors(self.folder):
            return [name for name in self._names() if self._swept(name)]

    @contextmanager
    def writer_lock(self, deadline: float) -> Iterator[bool]:
        """
        Holds the right to write this view, which one thread of one process has at a time.

        Args:
            deadline: Latest time to wait for it, as told by ``time.monotonic()``.

        Returns:
            A context whose value says whether the lock is held; False when time ran out.

        Raises:
            UnavailableError: The lock's file cannot be made.
        """
        turn, lock = FileLock(self.folder / "writer.turn"), FileLock(self.folder / "writer.lock")
        try:
            # Who waits holds the turn: a holder that comes back at once cannot get in between.
            held = turn.acquire(deadline) and lock.acquire(deadline)
            turn.release()
            yield held
        finally:
            turn.release()
            lock.release()

    def _point_at(self, generation: Generation) -> None:
        pointer = {"generation": generation.folder.name, "fingerprint": generation.fingerprint}
        # Written inside the generation, so that what a killed process leaves goes with it.
        draft = generation.folder / POINTER
        with draft.open("w", encoding="utf-8") as file:
            json.dump(pointer, file)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(self.folder / POINTER)
        _sync_folder(self.folder)

    def _names(self) -> list[str]:
        try:
            found = {path.name.removesuffix(_BUILDING) for path in self.folder.iterdir()}
        except FileNotFoundError:
            return []
        return sorted(name for name in found if _NAME.fullmatch(name))

    def _fits(self, folder: Path, lock: FileLock, fits: Callable[[Path], bool]) -> bool:
        try:
            return folder.is_dir() and fits(folder)
        except BaseException:
            lock.release()
            raise

    def _is_live(self, name: str) -> bool:
        live = self.current()
        return live is not None and live.folder.name == name

    def _swept(self, name: str) -> bool:
        if self._is_live(name):
            return False
        lock = FileLock(self.folder / f"{name}{_BUILDING}")
        if not lock.acquire(time.monotonic()):
            return False
        try:
            # Read again: its builder may have published it just before it let go of the lock.
            stale = not self._is_live(name)
            if stale:
                _remove(self.folder / name)
            lock.path.unlink(missing_ok=True)
            return stale
        finally:
            lock.release()


def make_folder(folder: Path) -> None:
    """Makes a folder and its missing parents, each with mode 0700; others stay as they are."""
    if not folder.is_dir():
        make_folder(folder.parent)
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turns an ``OSError`` into an ``UnavailableError`` that names the path and the way out."""
    try:
        yield
    except OSError as error:
        raise _disk_error(path, error) from error


def _disk_error(path: Path, error: OSError) -> UnavailableError:
    where, reason = error.filename or path, error.strerror or "cannot be used"
    # Of a copy the system names the source first, and what is full is the target.
    refused = refused_write(error.filename2 or where, error.errno, reason)
    return refused or UnavailableError(f"{where}: {reason}; check the disk.")


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(descriptor: int, path: Path) -> bool:
    # A lock on a file that was removed meanwhile keeps nobody out.
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _made(folder: Path) -> bool:
    try:
        folder.mkdir(mode=0o700)
    except FileNotFoundError:
        return False
    return True


def _release(generation: Generation) -> None:
    if generation.build_lock is not None:
        generation.build_lock.path.unlink(missing_ok=True)
        generation.build_lock.release()


def _remove(folder: Path) -> None:
    for _ in range(_ATTEMPTS):
        # Another process may be removing the same folder.
        with suppress(FileNotFoundError):
            shutil.rmtree(folder)
        if not folder.exists():
            return


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
