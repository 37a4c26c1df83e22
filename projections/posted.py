"""A view that keeps itself posted: opened, caught up, and rebuilt when it is damaged."""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Generic, TypeVar

from memoriale.domain.errors import CorruptViewError, UnavailableError
from memoriale.projections.allowance import Allowance, allowance, allowing
from memoriale.projections.building import ERASED_MEANWHILE, Build
from memoriale.projections.catch_up import catch_up
from memoriale.projections.disk import is_refused_write
from memoriale.projections.generations import Generation, Generations
from memoriale.projections.kind import ViewKind as ViewKind
from memoriale.projections.lending import Handle, Lent, make_live
from memoriale.projections.lending import Reading as Reading
from memoriale.projections.succession import PATIENCE, Succession, busy
from memoriale.projections.view import EventSource, View

V = TypeVar("V", bound=View)
T = TypeVar("T")

_POLL: Final = 0.01
_LEAST_SECONDS: Final = 2.0
"""That an embedder has for a batch."""
_BUILD_ATTEMPTS: Final = 3
_log = logging.getLogger("memoriale.views")


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
        self._handle: Handle[V] | None = None
        self._damaged: str | None = None
        self._succession = Succession(kind, generations, source)

    @contextmanager
    def read(
        self, *, at_least: int | None = None, wait: float = 2.0, head: int | None = None
    ) -> Iterator[Reading[V]]:
        """
        Catches the view up and hands it out. A missing view is made in place; a damaged one is
        rebuilt beside and swapped, however long that takes. One of another format or model, if
        it can be read, answers (``rebuilding``) until a thread has built its successor; the
        read that starts the thread waits for it, within ``wait``.

        Args:
            at_least: Position that is asked for; None: the head of the log now.
            wait: Seconds to catch up at most. Then the answer comes from what the view has,
                and ``behind`` tells what is missing.
            head: The head of the log, if the caller has just read it.

        Returns:
            A context with the ``Reading``. If its user raises ``CorruptViewError``, the next
            read rebuilds the view; ``run`` does both.

        Raises:
            UnavailableError: ``busy``: another process holds the view all the time. Other
                codes: the log or the disk cannot be used.
        """
        head = self.source.head() if head is None else head
        target = head if at_least is None else at_least
        deadline = time.monotonic() + wait
        lease = self._lease_locked if self.kind.exclusive else self._lease_shared
        with lease(head, target, deadline) as lent:
            try:
                yield lent.reading(head)
            except CorruptViewError:
                self._report_damage(lent.handle.generation)
                raise

    def run(
        self,
        use: Callable[[Reading[V]], T],
        *,
        at_least: int | None = None,
        wait: float = 2.0,
        head: int | None = None,
    ) -> T:
        """
        Calls ``use`` with a reading, and once more after a rebuild if the view was damaged.

        Args:
            use: Reads the view and returns what it found; must be safe to call twice.
            at_least: As for ``read``.
            wait: As for ``read``.
            head: As for ``read``.
        """
        try:
            with self.read(at_least=at_least, wait=wait, head=head) as reading:
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
                raise busy(self.kind.name)
            return self._standing()

    def post(self, seconds: float) -> int:
        """
        Catches the view up, and heals it, as a read does, for whoever keeps it posted.

        Args:
            seconds: How long at most; one batch is always posted.

        Returns:
            Its position.

        Raises:
            UnavailableError: ``busy``: another process holds the view all the time. Other
                codes: the log or the disk cannot be used.
        """
        head, deadline = self.source.head(), time.monotonic() + seconds
        with self._lease_locked(head, head, deadline) as lent:
            if lent.failure is not None:
                raise lent.failure
            if lent.handle.former:
                self._succession.start()
            return lent.position

    def maintain(self) -> bool:
        """Tidies the view's files if nobody else writes them now. Returns whether it did."""
        maintain = self.kind.maintain
        if maintain is None:
            return False
        with (
            self.generations.writer_lock(time.monotonic()) as held,
            self._borrowed() as handle,
        ):
            if not held or handle is None or handle.former:
                return False
            try:
                return maintain(handle.view)
            except CorruptViewError:
                self._report_damage(handle.generation)
                raise

    def forget(self) -> None:
        """Closes the open generation; the next read opens the live one."""
        with self._mutex:
            self._retire()

    def close(self) -> None:
        """Stops building a successor, which the next process goes on with, and forgets."""
        self._succession.stop()
        self.forget()

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
    def _lease_locked(self, head: int, target: int, deadline: float) -> Iterator[Lent[V]]:
        with self.generations.writer_lock(deadline) as held:
            if not held:
                raise busy(self.kind.name)
            try:
                position, rebuilt, failure = self._posted_if_possible(head, target, deadline)
                with self._borrowed() as handle:
                    if handle is None:
                        raise failure or _removed(self.kind.name)
                    if position is None:
                        position = handle.view.position()
                    yield Lent(handle, position, rebuilt, failure)
            finally:
                if self.kind.exclusive:
                    self.forget()

    @contextmanager
    def _lease_shared(self, head: int, target: int, deadline: float) -> Iterator[Lent[V]]:
        rebuilt, failure = False, None
        while True:
            with self._borrowed() as handle:
                position = self._position_of(handle, head)
                if handle and position is not None:
                    late = failure is not None or time.monotonic() >= deadline
                    enough = position >= target or late or not handle.postable
                    if enough and not self._succeeded(handle, deadline):
                        yield Lent(handle, position, rebuilt, failure)
                        return
                    if enough:
                        continue
            try:
                rebuilt |= self._advance(head, target, deadline, usable=position is not None)
            except UnavailableError as error:
                if position is None:
                    raise
                failure = self._put_up_with(error)

    def _succeeded(self, handle: Handle[V], deadline: float) -> bool:
        """Whether a generation of another fingerprint was replaced while waiting for it."""
        if handle.former and self._succession.start():
            self._succession.wait(deadline)
        return handle.former and self._succession.is_over()

    def _advance(self, head: int, target: int, deadline: float, *, usable: bool) -> bool:
        """Posts the view, or waits a moment for whoever does. Returns whether it was rebuilt."""
        now = time.monotonic()
        with self.generations.writer_lock(now + (_POLL if usable else PATIENCE)) as held:
            if held:
                position, rebuilt = self._post(head, target, deadline)
                behind = position is not None and position < target
                if behind and time.monotonic() < deadline:
                    # Asked for more than the log holds: somebody may be writing it.
                    time.sleep(_POLL)
                return rebuilt
        if not usable:
            raise busy(self.kind.name)
        return False

    def _posted_if_possible(
        self, head: int, target: int, deadline: float
    ) -> tuple[int | None, bool, UnavailableError | None]:
        """As ``_post``; and why it could not be done, if the view can be read as it is."""
        try:
            return *self._post(head, target, deadline), None
        except UnavailableError as error:
            return None, False, self._put_up_with(error)

    def _post(self, head: int, target: int, deadline: float) -> tuple[int | None, bool]:
        """
        Under the writer lock: heals the live generation and catches it up. Returns where it
        stands, None for one that was rebuilt, and whether it was.
        """
        try:
            with self._borrowed(create=True) as handle:
                if handle is None:
                    raise CorruptViewError("it is damaged or was built by another version")
                position = self._check_history(handle.view, head)
                if handle.postable:
                    position = self._caught_up(handle.view, head, target, deadline)
                return position, False
        except CorruptViewError as damage:
            self._rebuild(damage)
            return None, True

    def _put_up_with(self, error: UnavailableError) -> UnavailableError:
        """The error if it says that the disk takes no more; else it is raised."""
        if not is_refused_write(error):
            raise error
        _log.warning("view %s is not posted further: %s", self.kind.name, error)
        # DuckDB answers nothing more on a connection that failed to write.
        self.forget()
        return error

    def _caught_up(self, view: V, head: int, target: int, deadline: float) -> int:
        stop = target if target <= head else min(target, self.source.head())
        size = self.kind.batch
        # A live view is posted whether or not its embedder works; only a rebuild insists on it.
        seconds = max(_LEAST_SECONDS, deadline - time.monotonic())
        with allowing(allowance() or Allowance(seconds, optional=True)):
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
        for attempt in range(1, _BUILD_ATTEMPTS + 1):
            try:
                self._build()
                return
            except UnavailableError as error:
                # The views folder can be removed while it is being filled.
                passing = isinstance(error, CorruptViewError) or error.code == ERASED_MEANWHILE
                if not passing or attempt == _BUILD_ATTEMPTS:
                    raise

    def _build(self) -> None:
        build = Build.begin(self.kind, self.generations, self.source)
        try:
            build.post()
            build.publish()
        except BaseException:
            build.discard()
            raise

    @contextmanager
    def _borrowed(self, *, create: bool = False) -> Iterator[Handle[V] | None]:
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

    def _opened(self, create: bool) -> Handle[V] | None:
        live = self.generations.current()
        cached = self._handle
        if cached and cached.generation == live and cached.process == os.getpid():
            return cached
        self._retire()
        if live is None:
            self._handle = Handle(*make_live(self.kind, self.generations)) if create else None
        elif live.folder.name != self._damaged:
            self._handle = self._open(live)
        return self._handle

    def _open(self, live: Generation) -> Handle[V] | None:
        try:
            if live.fingerprint == self.kind.fingerprint:
                return Handle(self.kind.open(live.folder), live)
            open_former = self.kind.open_former
            found = open_former(live.folder, live.fingerprint) if open_former else None
            if found is None:
                return None
            return Handle(found.view, live, former=True, postable=found.postable)
        except CorruptViewError as damage:
            # Not damaged if it was swapped out and removed while it was being opened.
            if live == self.generations.current():
                _log.warning("view %s cannot be opened: %s", self.kind.name, damage)
                self._damaged = live.folder.name
            return None

    def _give_back(self, handle: Handle[V]) -> None:
        with self._mutex:
            handle.readers -= 1
            self._close_if_unused(handle)

    def _retire(self) -> None:
        handle, self._handle = self._handle, None
        # A view opened before a fork belongs to the parent: closing it would disturb its files.
        if handle is not None and handle.process == os.getpid():
            handle.retired = True
            self._close_if_unused(handle)

    def _close_if_unused(self, handle: Handle[V]) -> None:
        if handle.retired and handle.readers == 0:
            try:
                handle.view.close()
            except CorruptViewError as damage:
                _log.warning("view %s was damaged when it was closed: %s", self.kind.name, damage)
                self._damaged = handle.generation.folder.name

    def _position_of(self, handle: Handle[V] | None, head: int) -> int | None:
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


def _removed(name: str) -> CorruptViewError:
    return CorruptViewError(f"view {name} was removed; try again.")
