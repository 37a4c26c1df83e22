"""Merging: what a branch and one that it comes from changed since, and where that clashes."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from unicodedata import normalize
from uuid import UUID

from memoriale.domain.errors import InputError
from memoriale.domain.events import RecordedEvent
from memoriale.domain.memory import MemoryState, Status
from memoriale.domain.payloads.resources import Working
from memoriale.domain.resources.limits import is_bookkeeping
from memoriale.domain.text import shown

MOST_EVENTS: Final = 1_000
"""Events of one append of a merge; a larger one takes several."""

_IDENTITY: Final[Mapping[str, tuple[str, ...]]] = {
    "working": ("key",),
    "profile_field": ("custom", "field"),
    "entity": ("entity_id",),
    "relationship": ("entity_id", "target_entity_id", "type"),
    "node": ("node_id",),
    "edge": ("source_id", "target_id", "type"),
    "procedure": ("trigger",),
}
"""What names a memory among those of one owner, besides the subject that any kind may have."""

Key = tuple[object, ...]


class Prefer(StrEnum):
    """Who wins where both sides changed the same: nobody, so that nothing is merged, or a side."""

    NONE = "none"
    PARENT = "parent"
    CHILD = "child"


def check_prefer(value: object) -> Prefer:
    """
    The side that wins.

    Raises:
        InputError: Another word.
    """
    names = [side.value for side in Prefer]
    if not isinstance(value, str) or value not in names:
        raise InputError(
            f"prefer is {shown(value)}; take {', '.join(names)}.",
            code="bad_value",
            field="prefer",
            value=shown(value),
            allowed=names,
        )
    return Prefer(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """
    One memory where a branch meets the one that it comes from.

    Args:
        target: Its id on the parent; another one where it gets another owner there.
        owner: Whose it is on the parent.
        before: As both saw it where they parted.
        child: As the branch has it.
        parent: As the parent has it.
        child_event: The branch's last change that the parent has not taken over; None if none.
        parent_event: The parent's last change that the branch does not know; None if none.
    """

    target: UUID
    owner: UUID
    before: MemoryState | None
    child: MemoryState | None
    parent: MemoryState | None
    child_event: RecordedEvent | None
    parent_event: RecordedEvent | None

    @property
    def is_to_take(self) -> bool:
        """Whether the branch has something of it that the parent has not, and can be read."""
        if self.child_event is None or self.child is None:
            return False
        states = (self.child, self.parent)
        if _is_bookkeeping(self.child) or any(
            state is not None and state.status is Status.ERASED for state in states
        ):
            return False
        return not _alike(self.child, self.parent)

    @property
    def has_changed_above(self) -> bool:
        """Whether the parent has changed it since."""
        return self.parent_event is not None


@dataclass(frozen=True, slots=True)
class Unit:
    """
    Changes of the branch that belong together, because one replaces another or they are of one
    aspect; ``against`` are the parent's changes that clash with them.
    """

    changes: tuple[Meeting, ...]
    against: tuple[Meeting, ...]


def identity(state: MemoryState | None) -> str | None:
    """
    What a memory is about: its subject, or the key that its kind has. At most one is current for
    each kind, owner and branch.
    """
    payload = None if state is None else state.payload
    if payload is None:
        return None
    subject = getattr(payload, "subject", None)
    if subject is not None:
        return normalize("NFC", str(subject))
    values = [getattr(payload, name, None) for name in _IDENTITY.get(payload.kind, ())]
    return "\x1f".join(normalize("NFC", str(value)) for value in values) if values else None


def spoken(state: MemoryState | None) -> str | None:
    """What a memory is about in words for people."""
    about = identity(state)
    if state is None or state.payload is None or about is None:
        return None
    subject = getattr(state.payload, "subject", None)
    values = [getattr(state.payload, name) for name in _IDENTITY.get(state.kind, ())]
    words = " ".join(value for value in values if isinstance(value, str))
    return words if subject is None else str(subject)


def aspects(meeting: Meeting, states: Iterable[MemoryState | None]) -> set[Key]:
    """What a memory is about in some of its states, as keys that the parent's memories share."""
    found: set[Key] = set()
    for state in states:
        about = identity(state)
        if state is not None and about is not None:
            found.add(("aspect", meeting.owner, state.kind, about))
    return found


def units(
    changes: Sequence[Meeting], others: Sequence[Meeting], renamed: Mapping[UUID, UUID]
) -> list[Unit]:
    """
    The branch's changes in groups that stand or fall together, in the order of the log.

    Args:
        changes: Those to take over.
        others: What the parent changed since.
        renamed: Ids on the parent of memories that get another one there.
    """
    sides = [_keys(meeting, meeting.child, renamed) for meeting in changes]
    above: dict[Key, list[int]] = defaultdict(list)
    for place, other in enumerate(others):
        for key in _keys(other, other.parent, {}):
            above[key].append(place)
    found = []
    for members in _joined(sides):
        own = sorted((changes[place] for place in members), key=_place)
        clashing = {i for place in members for key in sides[place] for i in above.get(key, ())}
        found.append(Unit(tuple(own), tuple(others[i] for i in sorted(clashing))))
    return sorted(found, key=lambda unit: _place(unit.changes[0]))


def _joined(sides: Sequence[set[Key]]) -> list[list[int]]:
    """The places of sets that hang together through common members."""
    first: dict[Key, int] = {}
    leader = list(range(len(sides)))

    def lead(place: int) -> int:
        while leader[place] != place:
            leader[place] = place = leader[leader[place]]
        return place

    for place, keys in enumerate(sides):
        for key in keys:
            leader[lead(place)] = lead(first.setdefault(key, place))
    groups: dict[int, list[int]] = defaultdict(list)
    for place in range(len(sides)):
        groups[lead(place)].append(place)
    return list(groups.values())


def rivals(unit: Unit) -> list[tuple[Meeting, UUID | None]]:
    """
    Where the branch wins, the parent's memories that stand in its way: current ones that the
    branch does not know, of an aspect that it has changed; with the memory in their place.
    """
    own = {meeting.target for meeting in unit.changes}
    heirs: dict[Key, UUID | None] = {}
    for meeting in unit.changes:
        assert meeting.child is not None
        current = meeting.child.status is Status.CURRENT
        for key in aspects(meeting, (meeting.before, meeting.child)):
            heirs[key] = meeting.target if current else heirs.get(key)
    found = []
    for other in unit.against:
        standing = other.parent is not None and other.parent.status is Status.CURRENT
        for key in aspects(other, (other.parent,)) if standing else ():
            if key in heirs and other.target not in own:
                found.append((other, heirs[key]))
    return found


def _is_bookkeeping(state: MemoryState) -> bool:
    """Whether it is an entry of working memory that is of one branch alone."""
    return isinstance(state.payload, Working) and is_bookkeeping(state.payload.key)


def _keys(meeting: Meeting, now: MemoryState | None, renamed: Mapping[UUID, UUID]) -> set[Key]:
    keys: set[Key] = {("memory", meeting.target)}
    if now is not None and now.replaced_by is not None:
        keys.add(("memory", renamed.get(now.replaced_by, now.replaced_by)))
    return keys | aspects(meeting, (meeting.before, now))


def _alike(one: MemoryState, other: MemoryState | None) -> bool:
    """Whether two states of a memory are the same to whoever recalls."""
    current = one.status is Status.CURRENT
    if other is None or other.status is not Status.CURRENT:
        return not current
    return current and (one.payload, amendable(one)) == (other.payload, amendable(other))


def amendable(state: MemoryState) -> dict[str, object]:
    """What an amendment can change of a memory, by name."""
    columns = state.columns
    return {
        "importance": state.importance,
        "tags": state.tags,
        "metadata": state.metadata,
        "valid_from": columns.valid_from,
        "valid_until": columns.valid_until,
        "expires_at": columns.expires_at,
    }


def _place(meeting: Meeting) -> int:
    assert meeting.child_event is not None
    return meeting.child_event.index
