"""A view that keeps itself posted: opened, caught up, and rebuilt when it is damaged."""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, TypeVar

from memoriale.domain.errors import CorruptViewError, UnavailableError
from memoriale.projections.catch_up import BATCH_SIZE, catch_up
from memoriale.projections.generations import Generation, Generations
from memoriale.projections.view import EventSource, View

V = TypeVar("V", bound=View)
T = TypeVar("T")

PATIENCE: Final = 600.0
"""Seconds that a process waits for another one that rebuilds the view."""

_POLL: Final = 0.01
_BUILD_ATTEMPTS: Final = 3
_log = logging.getLogger("memoriale.views")


@dataclass(frozen=True)
class ViewKind(Generic[V]):
    """
    How generations of a view are made and opened.

    Args:
        name: The view's permanent name.
        fingerprint: Its format, and the model if it has one; a view built with another
            fingerprint is rebuilt.
        create: Makes an empty view in a folder that exists and is empty.
        open: Opens the view in a folder, or raises ``CorruptViewError``.
        exclusive: Its files can be used by one process at a time, so they are open only while
            the writer lock is held. Otherwise readers need no lock.
        batch: Rows that are posted at a time, about.
    """

    name: str
    fingerprint: str
    create: Callable[[Path], V]
    open: Callable[[Path], V]
    exclusive: bool
    batch: int = BATCH_SIZE


@dataclass(frozen=True)
class Reading(Generic[V]):
    """
    A view to read from.

    Args:
        view: Not to be kept or closed.
        position: How many events it has applied.
        behind: How many events of the log it lacks, counted from the head at the start.
        rebuilt: Whether it was damaged, or of another format, and was rebuilt for this read.
    """

    view: V
    position: int
    behind: int
    rebuilt: bool


def make_live(kind: ViewKind[V], generations: Generations) -> tuple[V, Generation]:
    """
    Makes an empty view and publishes it; the caller holds the writer lock.

    Args:
        kind: Which view.
        generations: Its place on disk, where none is live.
    """
    generation = generations.begin(kind.fingerprint)
    view: V | None = None
    try:
        view = kind.create(generation.folder)
        generations.publish(generation)
    except BaseException:
        if view is not None:
            view.close()
        generations.discard(generation)
        raise
    return view, generation


class _Handle(Generic[V]):
    """An open generation; closed when it is retired and its last reader has left."""

    def __init__(self, view: V, generation: Generation) -> None:
        self.view, self.generation, self.process = view, generation, os.getpid()
        self.readers, self.retired = 0, False


class PostedView(Generic[V]):
    """
    One view of one log as a process uses it; safe to share between threads.

    Args:
        kind: Which view.
        generations: Its place on disk.
        source: The log that it is posted from.
    """

    def __init__(self, kind: ViewKind[V], generations: Generations, source: EventSource) -> None:
        self.kind, self.generations, self.source = kind, generations, source
        self._mutex = threading.Lock()
        self._handle: _Handle[V] | None = None
        self._damaged: str | None = None

    @contextmanager
    def read(self, *, at_least: int | None = None, wait: float = 2.0) -> Iterator[Reading[V]]:
        """
        Catches the view up and hands it out. A missing view is made in place; a damaged one,
        or one of another format, is rebuilt beside and swapped, however long that takes.

        Args:
            at_least: Position that is asked for; None: the head of the log now.
            wait: Seconds to catch up at most. Then the answer comes from what the view has,
                and ``behind`` tells what is missing.

        Returns:
            A context with the ``Reading``. If its user raises ``CorruptViewError``, the next
            read rebuilds the view; ``run`` does both.

        Raises:
            UnavailableError: ``busy``: another process holds the view all the time. Other
                codes: the log or the disk cannot be used.
        """
        head = self.source.head()
        target = head if at_least is None else at_least
        deadline = time.monotonic() + wait
        lease = self._lease_locked if self.kind.exclusive else self._lease_shared
        with lease(head, target, deadline) as (handle, position, rebuilt):
            behind = max(0, head - position)
            try:
                yield Reading(handle.view, position, behind, rebuilt)
            except CorruptViewError:
                self._report_damage(handle.generation)
                raise

    def run(
        self, use: Callable[[Reading[V]], T], *, at_least: int | None = None, wait: float = 2.0
    ) -> T:
        """
        Calls ``use`` with a reading, and once more after a rebuild if the view was damaged.

        Args:
            use: Reads the view and returns what it found; must be safe to call twice.
            at_least: As for ``read``.
            wait: As for ``read``.
        """
        try:
            with self.read(at_least=at_least, wait=wait) as reading:
                return use(reading)
        except CorruptViewError as damage:
            _log.info("reading view %s again: %s", self.kind.name, damage)
        with self.read(at_least=at_least, wait=wait) as reading:
            return use(reading)

    def position(self) -> int:
        """
        How many events the view has applied; 0 when it is absent, damaged or of another format.

        Raises:
            UnavailableError: ``busy``: another process holds an exclusive view.
        """
        if not self.kind.exclusive:
            return self._standing()
        with self.generations.writer_lock(time.monotonic() + 1.0) as held:
            if not held:
                raise _busy(self.kind.name)
            return self._standing()

    def forget(self) -> None:
        """Closes the open generation; the next read opens the live one."""
        with self._mutex:
            self._retire()

    close = forget

    def _standing(self) -> int:
        try:
            with self._borrowed() as handle:
                return handle.view.position() if handle else 0
        except CorruptViewError:
            return 0
        finally:
            if self.kind.exclusive:
                self.forget()

    @contextmanager
    def _lease_locked(
        self, head: int, target: int, deadline: float
    ) -> Iterator[tuple[_Handle[V], int, bool]]:
        with self.generations.writer_lock(deadline) as held:
            if not held:
                raise _busy(self.kind.name)
            try:
                with self._posted(head, target, deadline) as lease:
                    yield lease
            finally:
                self.forget()

    @contextmanager
    def _lease_shared(
        self, head: int, target: int, deadline: float
    ) -> Iterator[tuple[_Handle[V], int, bool]]:
        rebuilt = False
        while True:
            with self._borrowed() as handle:
                position = self._position_of(handle, head)
                late = time.monotonic() >= deadline
                if handle and position is not None and (position >= target or late):
                    yield handle, position, rebuilt
                    return
            rebuilt |= self._advance(head, target, deadline, usable=position is not None)

    def _advance(self, head: int, target: int, deadline: float, *, usable: bool) -> bool:
        """Posts the view, or waits a moment for whoever does. Returns whether it was rebuilt."""
        now = time.monotonic()
        with self.generations.writer_lock(now + (_POLL if usable else PATIENCE)) as held:
            if held:
                with self._posted(head, target, deadline) as (_, position, rebuilt):
                    behind = position < target
                if behind and time.monotonic() < deadline:
                    # Asked for more than the log holds: somebody may be writing it.
                    time.sleep(_POLL)
                return rebuilt
        if not usable:
            raise _busy(self.kind.name)
        return False

    @contextmanager
    def _posted(
        self, head: int, target: int, deadline: float
    ) -> Iterator[tuple[_Handle[V], int, bool]]:
        """Under the writer lock: the live generation, healed and caught up."""
        rebuilt = False
        try:
            with self._borrowed(create=True) as handle:
                if handle is None:
                    raise CorruptViewError("it is damaged or was built by another version")
                self._check_history(handle.view, head)
                position = self._caught_up(handle.view, head, target, deadline)
        except CorruptViewError as damage:
            self._rebuild(damage)
            rebuilt = True
        with self._borrowed() as handle:
            if handle is None:
                raise CorruptViewError(f"view {self.kind.name} was removed; try again.")
            yield handle, handle.view.position() if rebuilt else position, rebuilt

    def _caught_up(self, view: V, head: int, target: int, deadline: float) -> int:
        stop = target if target <= head else min(target, self.source.head())
        size = self.kind.batch
        return catch_up(view, self.source, stop=stop, deadline=deadline, size=size)

    def _check_history(self, view: V, head: int) -> int:
        position = view.position()
        # Others may have appended and posted since the head was read.
        if position > head and position > self.source.head():
            raise CorruptViewError("it has seen more events than the log holds")
        return position

    def _rebuild(self, damage: CorruptViewError) -> None:
        _log.warning("rebuilding view %s from the log: %s", self.kind.name, damage)
        self.forget()
        self.generations.sweep()
        for attempt in range(1, _BUILD_ATTEMPTS + 1):
            try:
                self._build()
                return
            except CorruptViewError:
                # The views folder can be removed while it is being filled.
                if attempt == _BUILD_ATTEMPTS:
                    raise

    def _build(self) -> None:
        generation = self.generations.begin(self.kind.fingerprint)
        try:
            view = self.kind.create(generation.folder)
            try:
                catch_up(view, self.source, size=self.kind.batch)
            finally:
                view.close()
            self.generations.publish(generation)
        except BaseException:
            self.generations.discard(generation)
            raise

    @contextmanager
    def _borrowed(self, *, create: bool = False) -> Iterator[_Handle[V] | None]:
        """The live generation, open; None when there is none that can be used."""
        with self._mutex:
            handle = self._opened(create)
            if handle is not None:
                handle.readers += 1
        try:
            yield handle
        finally:
            if handle is not None:
                self._give_back(handle)

    def _opened(self, create: bool) -> _Handle[V] | None:
        live = self.generations.current()
        cached = self._handle
        if cached and cached.generation == live and cached.process == os.getpid():
            return cached
        self._retire()
        if live is None:
            self._handle = _Handle(*make_live(self.kind, self.generations)) if create else None
        elif live.fingerprint == self.kind.fingerprint and live.folder.name != self._damaged:
            self._handle = self._open(live)
        return self._handle

    def _open(self, live: Generation) -> _Handle[V] | None:
        try:
            return _Handle(self.kind.open(live.folder), live)
        except CorruptViewError as damage:
            # Not damaged if it was swapped out and removed while it was being opened.
            if live == self.generations.current():
                _log.warning("view %s cannot be opened: %s", self.kind.name, damage)
                self._damaged = live.folder.name
            return None

    def _give_back(self, handle: _Handle[V]) -> None:
        with self._mutex:
            handle.readers -= 1
            self._close_if_unused(handle)

    def _retire(self) -> None:
        handle, self._handle = self._handle, None
        # A view opened before a fork belongs to the parent: closing it would disturb its files.
        if handle is not None and handle.process == os.getpid():
            handle.retired = True
            self._close_if_unused(handle)

    def _close_if_unused(self, handle: _Handle[V]) -> None:
        if handle.retired and handle.readers == 0:
            try:
                handle.view.close()
            except CorruptViewError as damage:
                _log.warning("view %s was damaged when it was closed: %s", self.kind.name, damage)
                self._damaged = handle.generation.folder.name

    def _position_of(self, handle: _Handle[V] | None, head: int) -> int | None:
        if handle is None:
            return None
        try:
            return self._check_history(handle.view, head)
        except CorruptViewError:
            self._report_damage(handle.generation)
            return None

    def _report_damage(self, generation: Generation) -> None:
        # If it was swapped out meanwhile, the mark does no harm: names are not used again.
        with self._mutex:
            self._damaged = generation.folder.name
            self._retire()


def _busy(name: str) -> UnavailableError:
    return UnavailableError(
        f"view {name} is held by another process; try again.", code="busy", field="view", value=name
    )
