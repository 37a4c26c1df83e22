"""Replay: a view is built again from the log beside the live one, compared with it, and swapped."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from memoriale.domain.errors import CorruptViewError, UnavailableError
from memoriale.projections.catch_up import catch_up
from memoriale.projections.generations import Generation
from memoriale.projections.posted import PATIENCE, PostedView, make_live
from memoriale.projections.view import EventSource, View

V = TypeVar("V", bound=View)
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """
    What a replay did.

    Args:
        view: Name of the view.
        events: Events that were posted.
        seconds: Time that posting them took; comparing is not counted.
        events_per_second: Both of these divided.
        digest_live: Digest of what was live; None if it could not be read, or without
            ``verify``.
        digest_rebuilt: Digest of what replaced it; None without ``verify``.
        equal: Whether both hold the same; None without ``verify``.
        vectors_recomputed: Vectors that the rebuild computed and that were compared with the
            live ones.
        differences: A few lines for a person to look at.
    """

    view: str
    events: int
    seconds: float
    events_per_second: float
    digest_live: str | None = None
    digest_rebuilt: str | None = None
    equal: bool | None = None
    vectors_recomputed: int = 0
    differences: list[str] = field(default_factory=list)


@runtime_checkable
class HasVectors(Protocol):
    """A view whose vectors stand outside its digest."""

    def compare_vectors(self, other: View) -> int:
        """How many vectors differ from those of another generation at the same position."""

    def vectors(self) -> Iterator[tuple[int, str | None, Any]]:
        """Key, model and vector (or None) of every row."""


@runtime_checkable
class Explains(Protocol):
    """A view that can tell what another generation holds instead."""

    def differences(self, other: View) -> list[str]:
        """A few lines."""


@dataclass(frozen=True, slots=True)
class _Comparison:
    live: str | None = None
    rebuilt: str | None = None
    equal: bool | None = None
    vectors: int = 0
    differences: list[str] = field(default_factory=list)


def replay(
    posted: PostedView[V],
    source: EventSource,
    *,
    verify: bool = True,
    progress: Progress | None = None,
) -> ReplayReport:
    """
    Builds a new generation of a view from the whole log, in bounded memory, and swaps it in.

    The live view is first brought to the head. It goes on being read and posted while the new
    one is built; only for the last events, the comparison and the swap is its writer lock held.
    The rebuilt view replaces the live one also when they differ: the log is the truth. When
    replay is killed the live view is as it was, and the next replay removes what is left.

    Args:
        posted: The view.
        source: The log.
        verify: Compares both generations; reads every row of both.
        progress: Told the number of events done and the number in all.

    Raises:
        UnavailableError: ``busy``: another process holds the view all the time. Other codes:
            the log, the disk or a model cannot be used; the live view is as it was.
    """
    with _live(posted, source):
        pass
    posted.generations.sweep()
    return _Replay(posted, source, verify, progress).run()


class _Replay(Generic[V]):
    def __init__(
        self, posted: PostedView[V], source: EventSource, verify: bool, progress: Progress | None
    ) -> None:
        self.posted, self.source, self.verify = posted, source, verify
        self.progress = progress or (lambda done, total: None)
        self.seconds = 0.0

    def run(self) -> ReplayReport:
        generations = self.posted.generations
        generation = generations.begin(self.posted.kind.fingerprint)
        try:
            return self._build_and_swap(generation)
        except BaseException:
            generations.discard(generation)
            raise

    def _build_and_swap(self, generation: Generation) -> ReplayReport:
        view = self.posted.kind.create(generation.folder)
        try:
            self._post(view, self.source.head())
            with _live(self.posted, self.source) as (live, position):
                events = self._post(view, position)
                found = self._compared(live, view) if self.verify else _Comparison()
                view.close()
                self.posted.generations.publish(generation)
        finally:
            view.close()
        self.posted.forget()
        return self._report(events, found)

    def _post(self, view: V, stop: int) -> int:
        started = time.monotonic()
        position = catch_up(
            view,
            self.source,
            stop=stop,
            size=self.posted.kind.batch,
            progress=lambda done: self.progress(done, stop),
        )
        self.seconds += time.monotonic() - started
        return position

    def _compared(self, live: V | None, rebuilt: V) -> _Comparison:
        digest = rebuilt.digest()
        if live is None:
            lines = ["the live view could not be read"]
            return _Comparison(None, digest.value, False, differences=lines)
        try:
            return _compare(live, rebuilt)
        except CorruptViewError as damage:
            return _Comparison(None, digest.value, False, differences=[damage.message])

    def _report(self, events: int, found: _Comparison) -> ReplayReport:
        return ReplayReport(
            view=self.posted.kind.name,
            events=events,
            seconds=self.seconds,
            events_per_second=events / self.seconds if self.seconds else 0.0,
            digest_live=found.live,
            digest_rebuilt=found.rebuilt,
            equal=found.equal,
            vectors_recomputed=found.vectors,
            differences=found.differences,
        )


@contextmanager
def _live(posted: PostedView[V], source: EventSource) -> Iterator[tuple[V | None, int]]:
    """Under the writer lock: the live view at the head, or None if unreadable; and that head."""
    with posted.generations.writer_lock(time.monotonic() + PATIENCE) as held:
        if not held:
            name = posted.kind.name
            raise UnavailableError(f"view {name} is held by another process.", code="busy")
        view, head = _opened(posted), source.head()
        try:
            readable = view is not None and _reaches(view, source, head, posted.kind.batch)
            yield (view if readable else None), head
        finally:
            if view is not None:
                _close(view)


def _opened(posted: PostedView[V]) -> V | None:
    posted.forget()
    kind, live = posted.kind, posted.generations.current()
    try:
        if live is None:
            view, _ = make_live(kind, posted.generations)
            return view
        return kind.open(live.folder) if live.fingerprint == kind.fingerprint else None
    except CorruptViewError:
        return None


def _reaches(view: View, source: EventSource, head: int, size: int) -> bool:
    # Under its writer lock nobody else posts it: beyond the head it is of another history.
    try:
        return catch_up(view, source, stop=head, size=size) == head
    except CorruptViewError:
        return False


def _close(view: View) -> None:
    # It is replaced anyway, and what it held was compared before.
    try:
        view.close()
    except CorruptViewError:
        return


def _compare(live: View, rebuilt: View) -> _Comparison:
    before, after = live.digest(), rebuilt.digest()
    recomputed = moved = 0
    if isinstance(rebuilt, HasVectors):
        recomputed = sum(vector is not None for _, _, vector in rebuilt.vectors())
        moved = rebuilt.compare_vectors(live)
    lines = _differences(live, rebuilt) if before != after else []
    if moved:
        lines.append(f"{moved} vectors differ")
    equal = before == after and not moved
    return _Comparison(before.value, after.value, equal, recomputed, lines)


def _differences(live: View, rebuilt: View) -> list[str]:
    if isinstance(live, Explains):
        return live.differences(rebuilt)
    return [f"{live.digest().rows} rows were live, {rebuilt.digest().rows} were rebuilt"]
