"""What happens to a branch after its fork: proposals, merges, and its end."""

from typing import ClassVar, Final
from uuid import UUID

from pydantic import Field

from memoriale.domain.events import Body, Code, Event, Header


class MergeProposedHeader(Header):
    """Into which branch, and up to which index of the log the branch's changes are meant."""

    into: UUID
    prefer: Code
    """``none``, ``parent`` or ``child``: who wins where both sides changed the same."""
    seen: int = Field(ge=0)


class MergeProposed(Event):
    """Somebody without the right to merge asked for it; its event id names the proposal."""

    TOPIC: ClassVar[str] = "branch.merge_proposed"
    header: MergeProposedHeader
    body: Body | None


class MergeApprovedHeader(Header):
    """The event id of the proposal."""

    proposal: UUID


class MergeApproved(Event):
    """A proposal was carried out."""

    TOPIC: ClassVar[str] = "branch.merge_approved"
    header: MergeApprovedHeader
    body: Body | None


class MergedHeader(Header):
    """
    What an append took over from a branch: all other events of it, but for an approval, are
    events of memories on ``into``, each caused by the one that it follows.
    """

    into: UUID
    prefer: Code
    seen: int = Field(ge=0)
    """Index of the last event of the log up to which the branch's changes were looked at."""
    changes: int = Field(ge=0)
    """How many memories this append changes on ``into``."""
    complete: bool
    """Whether nothing was left for a further append."""
    proposal: UUID | None = None


class Merged(Event):
    """Changes of a branch became changes of one that it comes from."""

    TOPIC: ClassVar[str] = "branch.merged"
    header: MergedHeader
    body: Body | None


class Discarded(Event):
    """A branch ended. Its history stays; nothing is current on it any more."""

    TOPIC: ClassVar[str] = "branch.discarded"
    header: Header
    body: Body | None


BRANCH_TYPES: Final[tuple[type[Event], ...]] = (MergeProposed, MergeApproved, Merged, Discarded)
"""Each stands in the stream that the fork began."""
