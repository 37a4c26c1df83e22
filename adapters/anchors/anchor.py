"""What an anchor is: a place that this installation can add checkpoints to, and no more."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from memoriale.adapters.anchors.places import Place
from memoriale.adapters.sealing.publisher import Published
from memoriale.domain.errors import MemorialeError, ViolationError

_NAME: Final = "[A-Za-z0-9_][A-Za-z0-9_.-]*"
_ORIGIN: Final = re.compile(f"{_NAME}/{_NAME}/{_NAME}")
_PATH: Final = re.compile(rf"({_ORIGIN.pattern})/([0-9]{{10}})/([0-9]{{3}})/([0-9]{{3}})")


class AnchorConflictError(ViolationError):
    """An anchor holds a history that is not this log's: one of the two was rewritten."""

    default_code = "anchor_conflict"


@dataclass(frozen=True, slots=True)
class Held:
    """
    What lies at an anchor, not checked yet: anybody may have put it there.

    Args:
        path: As ``path_of`` gives it.
        note: Its bytes.
    """

    path: str
    note: bytes

    @property
    def origin(self) -> str:
        """The origin that its place claims."""
        return self.path.rsplit("/", 3)[0]

    @property
    def size(self) -> int:
        """The size that its place claims."""
        return int("".join(self.path.rsplit("/", 3)[1:]))


Results = Mapping[str, MemorialeError | None]
"""By origin: None where the anchor now holds the checkpoint, else why it does not."""


class Anchor(Protocol):
    """
    A place that takes checkpoints. It never changes or removes what is there.

    Whatever goes wrong with one checkpoint is a result, not raised.
    """

    @property
    def place(self) -> Place:
        """Which one."""

    def put(self, checkpoints: Sequence[Published]) -> Results:
        """
        Adds checkpoints, at most one for each origin; those already there are no error.

        Results hold an ``AnchorConflictError`` where the place holds another checkpoint of the
        same origin and size, and an ``UnavailableError`` where it could not be used.
        """


class Archive(Anchor, Protocol):
    """An anchor that can be read back."""

    def newest(self, origins: Sequence[str]) -> Mapping[str, Held]:
        """
        The largest checkpoint that it holds of each origin, of those that it holds any of.

        Raises:
            UnavailableError: It cannot be read.
            AnchorConflictError: It was itself rewritten.
        """

    def logs(self) -> list[str]:
        """
        Every log of which it holds anything, as ``memoriale/<log id>``; also of others' ledgers.

        Raises:
            UnavailableError: It cannot be read.
            AnchorConflictError: It was itself rewritten.
        """

    def held(self, log: str) -> Iterator[Held]:
        """
        Every checkpoint of a log, of all its incarnations, sorted by origin and size.

        Args:
            log: ``memoriale/<log id>``.

        Raises:
            UnavailableError: It cannot be read.
            AnchorConflictError: It was itself rewritten.
        """


UNREACHABLE: Final = "anchor_unavailable"
"""Code of an error that is about the place as a whole: nothing else needs to be tried there."""


def one_by_one(
    checkpoints: Sequence[Published], put: Callable[[Published], MemorialeError | None]
) -> Results:
    """
    Puts checkpoints one after the other, until the place cannot be used: then the rest have the
    same result, so that a place that does not answer is waited for once.

    Args:
        checkpoints: One for each log.
        put: Puts one; returns what was in the way.
    """
    results: dict[str, MemorialeError | None] = {}
    given_up: MemorialeError | None = None
    for checkpoint in checkpoints:
        error = put(checkpoint) if given_up is None else given_up
        if error is not None and error.code == UNREACHABLE:
            given_up = error
        results[checkpoint.origin] = error
    return results


def path_of(checkpoint: Published) -> str:
    """
    Where a checkpoint lies in a folder, an object store or a repository: sorted by size, and at
    most a thousand names in one folder.
    """
    if not _ORIGIN.fullmatch(checkpoint.origin):
        raise ValueError(f"no path can be made of the origin {checkpoint.origin[:100]!r}")
    digits = f"{checkpoint.size:016d}"
    return f"{checkpoint.origin}/{digits[:-6]}/{digits[-6:-3]}/{digits[-3:]}"


def is_path(name: str) -> bool:
    """Whether a file or object has the name of a checkpoint."""
    return _PATH.fullmatch(name) is not None


ROOT: Final = "memoriale"
"""What every origin begins with."""


def log_of(origin: str) -> str:
    """The log of an origin, without its incarnation."""
    return origin.rpartition("/")[0]


def same_statement(one: bytes, other: bytes) -> bool:
    """Whether two notes state the same, whoever signed them."""
    return one.partition(b"\n\n")[0] == other.partition(b"\n\n")[0]


def conflict(place: Place, path: str) -> AnchorConflictError:
    """Another note lies where a checkpoint belongs."""
    return AnchorConflictError(
        f"{place.shown} holds another checkpoint as {path}; nothing was overwritten. Keep both: "
        "together they prove that two histories were signed, or that somebody else wrote there.",
        code="equivocation",
        field="anchors",
        value=place.shown,
    )
