"""Conditions under which an append may be stored; the ledger checks them under its lock."""

from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True, slots=True)
class StreamAt:
    """The stream has exactly this many events (0: none yet)."""

    stream_id: UUID
    version: int


@dataclass(frozen=True, slots=True)
class NothingNew:
    """
    No event of this owner and kind stands after index ``after`` (-1: none at all), on one
    branch if ``branch`` is given.
    """

    owner: UUID
    kind: str
    after: int
    branch: UUID | None = None


@dataclass(frozen=True, slots=True)
class NoEvent:
    """
    No event of these topics stands after index ``after``, of one owner if ``owner`` is given.
    Whoever folded up to an index guards the fold with it; holds are guarded this way.
    """

    topics: tuple[str, ...]
    after: int
    owner: UUID | None = None


Guard = StreamAt | NothingNew | NoEvent
