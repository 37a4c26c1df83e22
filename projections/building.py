"""Building a generation of a view beside the live one; one that was left half-built goes on."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Generic, Protocol, TypeVar, runtime_checkable

from memoriale.domain.errors import CorruptViewError, UnavailableError
from memoriale.projections.catch_up import catch_up
from memoriale.projections.generations import Generation, Generations, disk_errors
from memoriale.projections.kind import ViewKind
from memoriale.projections.view import Batch, EventSource, View

V = TypeVar("V", bound=View)

ERASED_MEANWHILE: Final = "erased_meanwhile"
NOTE: Final = "BUILD"
"""File in a half-built generation: with what and from which log it is built."""


@runtime_checkable
class Erasable(Protocol):
    """A source whose bodies can become unreadable: what was posted before tells too much then."""

    def erasures(self) -> int:
        """A number that changes with every key destroyed."""


class Build(Generic[V]):
    """
    A generation in the making. Made by ``begin``; ends with ``publish``, ``discard`` or
    ``leave``. A killed builder leaves it as ``leave`` does.

    Args:
        kind: Which view.
        generations: Its place on disk.
        source: The log.
        generation: Its folder, locked.
        view: Open in that folder.
        note: What is known about it; kept beside it.
    """

    def __init__(
        self,
        kind: ViewKind[V],
        generations: Generations,
        source: EventSource,
        generation: Generation,
        view: V,
        note: "_Note",
    ) -> None:
        self.kind, self.generations, self.source = kind, generations, source
        self.generation, self.view = generation, view
        self._note = note
        self.resumed_at = note.marks[-1][0] if note.resumed else 0
        """Events that were posted before, by a builder that did not finish."""

    @classmethod
    def begin(cls, kind: ViewKind[V], generations: Generations, source: EventSource) -> "Build[V]":
        """
        Continues what another builder left, if it was built with the same fingerprint from a
        log of which this one is the continuation, and no key was destroyed since; else starts
        anew. What cannot be continued is removed.

        Raises:
            UnavailableError: The log or the disk cannot be used.
        """
        continued = _continued(kind, generations, source)
        generations.sweep()
        if continued is not None:
            return cls(kind, generations, source, *continued)
        generation = generations.begin(kind.fingerprint)
        try:
            view = kind.create(generation.folder)
        except BaseException:
            generations.discard(generation)
            raise
        note = _Note(generation.folder, kind.fingerprint, _erasures(source), [(0, "")])
        build = cls(kind, generations, source, generation, view, note)
        try:
            build._keep_note()
        except BaseException:
            build.discard()
            raise
        return build

    def post(
        self,
        stop: int | None = None,
        *,
        progress: Callable[[int], None] | None = None,
        stopped: Callable[[], bool] | None = None,
    ) -> int:
        """
        Posts the log, in bounded memory.

        Args:
            stop: Position to reach; None: the head now.
            progress: Told the position after each batch.
            stopped: Asked after each batch whether to end early.

        Returns:
            Where the generation stands.
        """
        return catch_up(
            self.view,
            self.source,
            stop=stop,
            size=self.kind.batch,
            before=self._mark,
            progress=progress,
            stopped=stopped,
        )

    def publish(self) -> None:
        """
        Makes it the live one; the caller holds the writer lock.

        Raises:
            CorruptViewError: Its folder was removed meanwhile.
            UnavailableError: ``erased_meanwhile``: a key was destroyed while it was built, so
                that it may hold what must be gone. The disk cannot be used.
        """
        if _erasures(self.source) != self._note.erasures:
            raise UnavailableError(
                f"a key was destroyed while view {self.kind.name} was built; build it again.",
                code=ERASED_MEANWHILE,
                field="view",
                value=self.kind.name,
            )
        self.view.close()
        self.generations.publish(self.generation)
        (self.generation.folder / NOTE).unlink(missing_ok=True)

    def discard(self) -> None:
        """Removes it."""
        try:
            self.view.close()
        except UnavailableError:
            # It goes away with its files.
            pass
        finally:
            self.generations.discard(self.generation)

    def leave(self) -> None:
        """Lets go of it as it is, for the next builder."""
        try:
            self.view.close()
        finally:
            self.generations.leave(self.generation)

    def _mark(self, batch: Batch) -> None:
        # Before the batch: a kill in between leaves the view at one of the two marks.
        mark = (batch.end, batch.leaf_hash.hex())
        self._note.marks = [self._note.marks[-1], mark]
        self._keep_note()

    def _keep_note(self) -> None:
        folder = self.generation.folder
        with disk_errors(folder):
            try:
                self._note.write()
            except FileNotFoundError:
                raise CorruptViewError(f"{folder} was removed while it was built.") from None


class _Note:
    """With what a generation is built, and the last positions that it may stand at."""

    def __init__(
        self,
        folder: Path,
        fingerprint: str,
        erasures: int,
        marks: list[tuple[int, str]],
        *,
        resumed: bool = False,
    ) -> None:
        self.folder, self.fingerprint, self.erasures = folder, fingerprint, erasures
        self.marks = marks
        """Positions, each with the leaf hash of the event before it."""
        self.resumed = resumed

    @classmethod
    def read(cls, folder: Path) -> "_Note | None":
        try:
            found: dict[str, Any] = json.loads((folder / NOTE).read_bytes())
            marks = [(int(position), str(leaf)) for position, leaf in found["marks"]]
            return cls(folder, str(found["fingerprint"]), int(found["erasures"]), marks)
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self) -> None:
        values = {
            "fingerprint": self.fingerprint,
            "erasures": self.erasures,
            "marks": self.marks,
        }
        draft = self.folder / f"{NOTE}.draft"
        draft.write_text(json.dumps(values), encoding="utf-8")
        draft.rename(self.folder / NOTE)


def _continued(
    kind: ViewKind[V], generations: Generations, source: EventSource
) -> tuple[Generation, V, _Note] | None:
    found: list[tuple[V, _Note]] = []

    def fits(folder: Path) -> bool:
        half = _half_built(kind, folder, source)
        if half is not None:
            found.append(half)
        return half is not None

    generation = generations.adopt(kind.fingerprint, fits)
    if generation is None:
        return None
    view, note = found[-1]
    return generation, view, note


def _half_built(kind: ViewKind[V], folder: Path, source: EventSource) -> tuple[V, _Note] | None:
    note = _Note.read(folder)
    if note is None or note.fingerprint != kind.fingerprint or note.erasures != _erasures(source):
        return None
    try:
        view = kind.open(folder)
    except CorruptViewError:
        return None
    reached = list[tuple[int, str]]()
    try:
        stand = _stand(view, source)
        reached = [mark for mark in note.marks if mark == stand]
    finally:
        if not reached:
            view.close()
    if not reached:
        return None
    return view, _Note(folder, note.fingerprint, note.erasures, reached, resumed=True)


def _stand(view: View, source: EventSource) -> tuple[int, str | None] | None:
    try:
        position = view.position()
    except CorruptViewError:
        return None
    return position, _leaf_before(source, position)


def _leaf_before(source: EventSource, position: int) -> str | None:
    """
    The leaf hash of the event before a position, None beyond the head. A log that went back to
    an older state and on from there has another event at that place.
    """
    if position == 0:
        return ""
    if position > source.head():
        return None
    batch = next(iter(source.batches(position - 1, position, 1)))
    return batch.leaf_hash.hex()


def _erasures(source: EventSource) -> int:
    return source.erasures() if isinstance(source, Erasable) else 0
