"""A live generation of another format or model is read until a thread has built its successor."""

import logging
import os
import threading
import time
from typing import Final, Generic, TypeVar

from memoriale.domain.errors import CorruptViewError, MemorialeError, UnavailableError
from memoriale.projections.building import Build
from memoriale.projections.disk import is_refused_write
from memoriale.projections.generations import FileLock, Generations
from memoriale.projections.kind import ViewKind
from memoriale.projections.view import EventSource, View

V = TypeVar("V", bound=View)

PATIENCE: Final = 600.0
"""Seconds that a process waits for another one that rebuilds the view."""

_LOOK: Final = 0.2
_SHORTEST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 30.0
_log = logging.getLogger("memoriale.views")


class Succession(Generic[V]):
    """
    Builds the successor of a generation that has another fingerprint, in one process at a time.

    Args:
        kind: What the successor is to be.
        generations: Its place on disk.
        source: The log.
    """

    def __init__(self, kind: ViewKind[V], generations: Generations, source: EventSource) -> None:
        self._kind, self._generations, self._source = kind, generations, source
        self._mutex = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._process = 0

    def start(self) -> bool:
        """Starts the thread unless it runs or there is nothing to do. Returns whether it did."""
        with self._mutex:
            mine = self._process == os.getpid()
            if self.is_over() or (mine and self._thread is not None and self._thread.is_alive()):
                return False
            self._stop, self._process = threading.Event(), os.getpid()
            self._thread = threading.Thread(
                target=self._run, name=f"memoriale-successor-{self._kind.name}", daemon=True
            )
            self._thread.start()
            return True

    def wait(self, deadline: float) -> None:
        """Waits until the successor is live, or until a time as told by ``time.monotonic()``."""
        thread = self._thread
        if thread is not None:
            thread.join(max(0.0, deadline - time.monotonic()))

    def is_over(self) -> bool:
        """Whether no generation of another fingerprint is live."""
        live = self._generations.current()
        return live is None or live.fingerprint == self._kind.fingerprint

    def stop(self) -> None:
        """Ends the thread after its batch; what it has built is kept for the next one."""
        with self._mutex:
            thread, mine = self._thread, self._process == os.getpid()
            self._stop.set()
        if thread is not None and mine and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        pause = _SHORTEST_PAUSE
        while not self._stop.is_set() and not self.is_over():
            try:
                self._build_alone()
                continue
            except MemorialeError as error:
                _log.warning("building the new view %s failed: %s", self._kind.name, error)
            self._stop.wait(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _build_alone(self) -> None:
        lock = FileLock(self._generations.folder / "successor.lock")
        if not lock.acquire(time.monotonic() + _LOOK):
            return
        try:
            if not self.is_over():
                self._build()
        finally:
            lock.release()

    def _build(self) -> None:
        build = Build.begin(self._kind, self._generations, self._source)
        try:
            build.post(stopped=self._stop.is_set)
            while not self._stop.is_set():
                if self._swapped(build):
                    return
        except UnavailableError as error:
            if isinstance(error, CorruptViewError) or is_refused_write(error):
                # On a full disk it would take the room that the live view needs.
                build.discard()
            else:
                build.leave()
            raise
        except BaseException:
            build.leave()
            raise
        build.leave()

    def _swapped(self, build: Build[V]) -> bool:
        with self._generations.writer_lock(time.monotonic() + _LOOK) as held:
            if not held:
                return False
            if self.is_over():
                build.discard()
            else:
                build.post()
                build.publish()
                _log.warning("view %s was built anew and replaced", self._kind.name)
            return True


def busy(name: str) -> UnavailableError:
    """The error of a view that another process holds all the time."""
    return UnavailableError(
        f"view {name} is held by another process; try again.", code="busy", field="view", value=name
    )
