"""Replay: a view is built again from the log beside the live one, compared with it, and swapped."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from memoriale.domain.errors import CorruptViewError
from memoriale.projections.building import Build
from memoriale.projections.catch_up import catch_up
from memoriale.projections.lending import make_live
from memoriale.projections.posted import PostedView
from memoriale.projections.succession import PATIENCE, busy
from memoriale.projections.view import EventSource, View

V = TypeVar("V", bound=View)
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """
    What a replay did.

    Args:
        view: Name of the view.
        events: Events that the rebuilt view has applied.
        seconds: Time that this replay spent on posting; comparing is not counted.
        events_per_second: Events posted by this replay in one of these seconds.
        digest_rebuilt: Digest of what replaced the live view.
        digest_live: Digest of the live view; None if it could not be read.
        equal: Whether both hold the same.
        vectors_recomputed: Vectors that the rebuild computed.
        differences: A few lines for a person to look at.
        resumed_at: Events that a replay which was killed had posted already.
    """

    view: str
    events: int
    seconds: float
    events_per_second: float
    digest_rebuilt: str
    digest_live: str | None = None
    equal: bool = False
    vectors_recomputed: int = 0
    differences: list[str] = field(default_factory=list)
    resumed_at: int = 0


@runtime_checkable
class HasVectors(Protocol):
    """A view whose vectors stand outside its digest."""

    def compare_vectors(self, other: View) -> int:
        """How many vectors differ from those of another generation at the same position."""

    def vectors(self) -> Iterator[tuple[int, str | None, Any]]:
        """Key, model and vector (or None) of every row."""


@runtime_checkable
class CountsComputed(Protocol):
    """A view that knows how many of its vectors were computed, not taken from a cache."""

    @property
    def vectors_computed(self) -> int | None:
        """How many; None if nobody counted."""


@runtime_checkable
class Explains(Protocol):
    """A view that can tell what another generation holds instead."""

    def differences(self, other: View) -> list[str]:
        """A few lines."""


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
    replay is killed the live view is as it was, and the next replay goes on with what is left
    if it still fits: same format and model, same log, no key destroyed since.

    Args:
        posted: The view.
        source: The log.
        verify: Compares vectors too, if the view has any. Digests are always compared.
        progress: Told the number of events done and the number in all.

    Raises:
        UnavailableError: ``busy``: another process holds the view all the time. Other codes:
            the log, the disk or a model cannot be used; the live view is as it was.
    """
    with _live(posted, source):
        pass
    return _Replay(posted, source, verify, progress).run()


class _Replay(Generic[V]):
    def __init__(
        self, posted: PostedView[V], source: EventSource, verify: bool, progress: Progress | None
    ) -> None:
        self.posted, self.source, self.verify = posted, source, verify
        self.progress = progress or (lambda done, total: None)
        self.seconds = 0.0

    def run(self) -> ReplayReport:
        posted = self.posted
        build = Build.begin(posted.kind, posted.generations, self.source)
        try:
            return self._build_and_swap(build)
        except BaseException:
            build.discard()
            raise

    def _build_and_swap(self, build: Build[V]) -> ReplayReport:
        self._post(build, self.source.head())
        with _live(self.posted, self.source) as (live, position):
            self._post(build, position)
            report = self._report(build, position, live)
            build.publish()
        self.posted.forget()
        return report

    def _post(self, build: Build[V], stop: int) -> None:
        started = time.monotonic()
        build.post(stop, progress=lambda done: self.progress(done, stop))
        self.seconds += time.monotonic() - started

    def _report(self, build: Build[V], position: int, live: V | None) -> ReplayReport:
        rebuilt, events = build.view, position - build.resumed_at
        report = ReplayReport(
            view=self.posted.kind.name,
            events=position,
            seconds=self.seconds,
            events_per_second=events / self.seconds if self.seconds else 0.0,
            resumed_at=build.resumed_at,
            digest_rebuilt=rebuilt.digest().value,
            vectors_recomputed=_vectors_count(rebuilt),
        )
        if live is None:
            return replace(report, differences=["the live view could not be read"])
        try:
            return self._compared(report, live, rebuilt)
        except CorruptViewError as damage:
            return replace(report, differences=[damage.message])

    def _compared(self, report: ReplayReport, live: V, rebuilt: V) -> ReplayReport:
        digest = live.digest().value
        lines = [] if digest == report.digest_rebuilt else _differences(live, rebuilt)
        if self.verify and isinstance(rebuilt, HasVectors):
            lines += _vector_differences(rebuilt, live)
        return replace(report, digest_live=digest, equal=not lines, differences=lines)


@contextmanager
def _live(posted: PostedView[V], source: EventSource) -> Iterator[tuple[V | None, int]]:
    """Under the writer lock: the live view at the head, or None if unreadable; and that head."""
    with posted.generations.writer_lock(time.monotonic() + PATIENCE) as held:
        if not held:
            raise busy(posted.kind.name)
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


def _vectors_count(view: View) -> int:
    computed = view.vectors_computed if isinstance(view, CountsComputed) else None
    if computed is not None:
        return computed
    if isinstance(view, HasVectors):
        return sum(vector is not None for _, _, vector in view.vectors())
    return 0


def _vector_differences(rebuilt: HasVectors, live: View) -> list[str]:
    count = rebuilt.compare_vectors(live)
    return [f"{count} vectors differ"] if count else []


def _differences(live: View, rebuilt: View) -> list[str]:
    found = live.differences(rebuilt) if isinstance(live, Explains) else []
    return found or [f"{live.digest().rows} rows were live, {rebuilt.digest().rows} were rebuilt"]
