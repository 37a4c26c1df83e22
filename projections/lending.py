"""A live generation as it is opened, lent to readers, and seen by them."""

import os
from dataclasses import dataclass
from typing import Generic, TypeVar

from memoriale.domain.errors import UnavailableError
from memoriale.projections.generations import Generation, Generations
from memoriale.projections.kind import ViewKind
from memoriale.projections.view import View

V = TypeVar("V", bound=View)


@dataclass(frozen=True)
class Reading(Generic[V]):
    """
    A view to read from.

    Args:
        view: Not to be kept or closed.
        position: How many events it has applied.
        behind: How many events of the log it lacks, counted from the head at the start.
        rebuilt: Whether it was damaged, or of another format, and was rebuilt for this read.
        rebuilding: Whether it is of another format or model and its successor is being built.
        failure: Why it is not caught up, if that is because the disk takes no more.
    """

    view: V
    position: int
    behind: int
    rebuilt: bool
    rebuilding: bool = False
    failure: UnavailableError | None = None


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
        try:
            if view is not None:
                view.close()
        finally:
            generations.discard(generation)
        raise
    return view, generation


class Handle(Generic[V]):
    """An open generation; closed when it is retired and its last reader has left."""

    def __init__(
        self, view: V, generation: Generation, *, former: bool = False, postable: bool = True
    ) -> None:
        self.view, self.generation, self.process = view, generation, os.getpid()
        self.former, self.postable = former, postable
        self.readers, self.retired = 0, False


@dataclass(frozen=True, slots=True)
class Lent(Generic[V]):
    """An open generation, where it stands, whether it was rebuilt, and why it is behind."""

    handle: Handle[V]
    position: int
    rebuilt: bool
    failure: UnavailableError | None

    def reading(self, head: int) -> Reading[V]:
        view, behind = self.handle.view, max(0, head - self.position)
        return Reading(view, self.position, behind, self.rebuilt, self.handle.former, self.failure)
