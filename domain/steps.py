"""
What a store decides: steps that change one owner's memories, stored together or not at all.

A step may name a memory of the slice, one of ``others``, or one that an earlier step of the
same decision makes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from memoriale.domain.commands import Amend, Remember
from memoriale.domain.events import ReasonCode
from memoriale.domain.holdings import Groups, Holdings, KeyOf
from memoriale.domain.memory import MemoryState, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """
    What one owner has of some kinds on a branch, at a point of the log.

    Args:
        owner: The owner's pseudonym.
        states: Its memories by id, current or not, in the order in which they were made.
        branch: As which branch sees them.
        inherited: Those that the branch inherits from other owners, the nearest owner first, for
            a rule that asked for them.
        others: Memories of other owners that the request named, as the caller sees them.
        index: Index of the last event seen.
        now: The time of the read; aware UTC.
        content_tag: The tag of a text under the owner's key; equal for texts that differ in
            case and white space alone.
        held: Whether the owner is under legal hold; looked up when it is asked.
    """

    owner: UUID
    states: Holdings
    branch: UUID | None = None
    inherited: tuple[Holdings, ...] = ()
    others: Mapping[UUID, MemoryState] = field(default_factory=dict)
    index: int
    now: datetime
    content_tag: Callable[[str], bytes]
    held: Callable[[], bool]

    def current(self, kind: str | None = None) -> list[MemoryState]:
        """The memories that are current, neither expired nor outdated, of one kind or of all."""
        among = self.states if kind is None else self.states.of_kind(kind)
        return among.current(self.now)

    def is_current(self, state: MemoryState) -> bool:
        """Whether a memory is among the current ones."""
        return state.is_current(self.now) and state.is_valid(self.now)

    def grouped(self, kind: str, key: KeyOf) -> Groups:
        """The memories of a kind, current or not, by what they are looked for by."""
        return self.states.of_kind(kind).grouped(key)

    def ended(self, kind: str, because: ReasonCode) -> list[MemoryState]:
        """The memories of a kind that are invalidated for a reason."""
        return [
            state
            for state in self.states.of_kind(kind).all()
            if state.status is Status.INVALIDATED and state.reason_code is because
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Make:
    """A new memory, of the slice's owner. ``memory_id`` lets other steps name it."""

    command: Remember
    memory_id: UUID = field(default_factory=uuid4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replace:
    """New content and payload for a current memory."""

    memory_id: UUID
    command: Remember


@dataclass(frozen=True, slots=True, kw_only=True)
class Restate:
    """
    A current memory was said again: the words and payload of ``command``, and its tags, which are
    all that the memory has from then on. ``similarity`` is the cosine (0..1) of both texts; None
    where they are the same text.
    """

    memory_id: UUID
    command: Remember
    similarity: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Adjust:
    """Other importance, tags, metadata or spans for a current memory."""

    command: Amend

    @property
    def memory_id(self) -> UUID:
        """Which memory."""
        return self.command.memory_id


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """A current memory is no longer current."""

    memory_id: UUID
    because: ReasonCode
    replaced_by: UUID | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Revive:
    """An invalidated memory is current again."""

    memory_id: UUID
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Work to be done later, of the slice's owner; see ``jobs``."""

    type: str
    arguments: dict[str, Any] = field(default_factory=dict)
    job_id: UUID = field(default_factory=uuid4)


Step = Make | Replace | Restate | Adjust | End | Revive | Ask
Decision = Callable[[Slice], Sequence[Step]]
"""From what there is to what shall change. It is called again when others were faster."""
