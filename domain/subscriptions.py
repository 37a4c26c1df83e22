"""What a subscriber wants of a log, and what others are told of its events."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final
from uuid import UUID, uuid4

from memoriale.domain.errors import InputError
from memoriale.domain.fields import parse_id
from memoriale.domain.keys import Subject
from memoriale.domain.kinds import KINDS, OWNER_TYPES, RESERVED_KINDS
from memoriale.domain.record import Columns
from memoriale.domain.text import check_outside_id, shown
from memoriale.domain.topics import KNOWN_TOPICS

_OWNERS: Final = (*OWNER_TYPES, "tenant")
_ORIGIN_BYTES: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """
    Which events of a log are wanted; what is empty does not restrict.

    Args:
        topics: What happened, such as ``memory.remembered``.
        kinds: Of memories, or ``branch``, ``session``, ``job`` and the other names that events
            carry in their place.
        owner_type: Of the owner: user, agent, resource, session, team or tenant.
        owner: Outside id of the owner of that type.
        keys: Ids of memories.
    """

    topics: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset()
    owner_type: str | None = None
    owner: str | None = None
    keys: frozenset[UUID] = frozenset()

    @property
    def subject(self) -> Subject | None:
        """The one owner that is meant, if one is."""
        if self.owner_type is None or self.owner is None:
            return None
        return Subject(self.owner_type, self.owner)

    def wants(self, row: Columns, owner: UUID | None) -> bool:
        """
        Whether an event with these columns is wanted.

        Args:
            owner: Pseudonym of ``subject``; None when the tenant has never seen it.
        """
        return (
            (not self.topics or row.topic in self.topics)
            and (not self.kinds or row.kind in self.kinds)
            and (not self.keys or row.memory_id in self.keys)
            and (self.owner_type is None or row.owner_type == self.owner_type)
            and (self.owner is None or row.owner == owner)
        )


def select(
    topics: Collection[str] = (),
    kinds: Collection[str] = (),
    owner: str | Sequence[str] | None = None,
    keys: Collection[UUID | str] = (),
) -> Selection:
    """
    What is wanted, checked.

    Args:
        topics, kinds, keys: As in ``Selection``.
        owner: A type of owner, or a type and an outside id.

    Raises:
        InputError: A topic or kind that no event can have, so that nothing would ever come; or
            no list, no type of owner, no id.
    """
    named = None if owner is None else _owner(owner)
    return Selection(
        topics=_known("topics", topics, "topic", sorted(_TOPICS)),
        kinds=_known("kinds", kinds, "kind", [*KINDS.names(), *sorted(RESERVED_KINDS)]),
        owner_type=None if named is None else named[0],
        owner=None if named is None else named[1],
        keys=frozenset(parse_id("keys", key) for key in _listed("keys", keys)),
    )


class EventType(StrEnum):
    """What happened to a memory, in the words of reference system B."""

    ADD = "add"
    UPDATE = "update"
    DELETE = "delete"
    DEDUP = "dedup"
    """The same was said again; beyond the reference, which calls it an update."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEvent:
    """
    What happened to a memory (reference system B, ``MemoryEvent``).

    Args:
        type: add, update, delete or dedup.
        id: The memory.
        content: The text that it has since; None when it ended, only what is known about it
            changed, or its owner was erased.
        scope_tags: Whose it is: ``scope:user:alice``, ``scope:agent:desk``, ``scope:tag:TAG``;
            so no tag can look like a user.
        timestamp: When it was recorded, by the clock of the database.
        index: Place in the log; of two events the later one has the higher index.
        event_id: Of the event.
        kind: Of the memory.
        origin: Which bridge recorded it; None when that was something else.
    """

    type: EventType
    id: UUID
    content: str | None
    scope_tags: tuple[str, ...]
    timestamp: datetime
    index: int
    event_id: UUID
    kind: str
    origin: str | None = None

    @property
    def headers(self) -> Mapping[str, str]:
        """What a filter can name of it besides its key."""
        named = {"type": self.type.value, "kind": self.kind, "origin": self.origin}
        return {name: value for name, value in named.items() if value is not None}


_TYPES: Final[Mapping[str, EventType]] = {
    "memory.remembered": EventType.ADD,
    "memory.reinstated": EventType.ADD,
    "memory.restated": EventType.DEDUP,
    "memory.invalidated": EventType.DELETE,
}


def type_of(topic: str) -> EventType | None:
    """What a topic means for a memory; None when it is about something else."""
    return _TYPES.get(topic, EventType.UPDATE if topic.startswith("memory.") else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """
    Which events are shared (reference system B, ``filter`` of ``shared``). All that is given
    must hold; what is empty does not restrict.

    Args:
        keys: Ids of memories.
        headers: Values of ``MemoryEvent.headers``, such as ``{"type": "add"}``.
        predicate: Asked last.
    """

    keys: Collection[UUID] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    predicate: Callable[[MemoryEvent], bool] | None = None

    def passes(self, event: MemoryEvent) -> bool:
        """Whether an event is shared."""
        return (
            (not self.keys or event.id in self.keys)
            and all(event.headers.get(name) == value for name, value in self.headers.items())
            and (self.predicate is None or bool(self.predicate(event)))
        )


@dataclass(frozen=True, slots=True)
class Origin:
    """
    Who records events on behalf of one bridge, told to all others by the correlation ids of the
    events: UUIDs of version 8 that begin with it. Others have version 4, and no origin.

    Args:
        name: Twelve hexadecimal digits.
    """

    name: str

    @classmethod
    def make(cls) -> "Origin":
        """One that nobody else has."""
        return cls(uuid4().bytes[:_ORIGIN_BYTES].hex())

    def correlation_id(self) -> UUID:
        """A new id for the events of one call."""
        made = bytearray(uuid4().bytes)
        made[:_ORIGIN_BYTES] = bytes.fromhex(self.name)
        made[6] = 0x80 | made[6] & 0x0F
        return UUID(bytes=bytes(made))


def origin_of(correlation_id: UUID) -> str | None:
    """The name of the origin that made a correlation id."""
    return correlation_id.bytes[:_ORIGIN_BYTES].hex() if correlation_id.version == 8 else None


_TOPICS: Final = frozenset(n for n, cls in KNOWN_TOPICS.items() if cls.LOG == "memory")


def _owner(given: str | Sequence[str]) -> tuple[str, str | None]:
    parts = [given] if isinstance(given, str) else list(given)
    if not 1 <= len(parts) <= 2 or parts[0] not in _OWNERS:
        raise InputError(
            f"owner is {shown(given)!r}; take a type, {', '.join(_OWNERS)}, or a type and an id.",
            code="bad_value",
            field="owner",
            value=shown(given),
            allowed=[*_OWNERS],
        )
    return parts[0], check_outside_id("owner", parts[1]) if len(parts) == 2 else None


def _listed(name: str, given: Any) -> list[Any]:
    if isinstance(given, str | bytes) or not isinstance(given, Collection):
        raise InputError(
            f"{name} must be a list.",
            code="bad_value",
            field=name,
            value=shown(given),
            allowed="a list of texts",
        )
    return [*given]


def _known(name: str, given: Any, one: str, allowed: Sequence[str]) -> frozenset[str]:
    for value in _listed(name, given):
        if value not in allowed:
            raise InputError(
                f"unknown {one} {shown(value)!r}; known are {', '.join(allowed)}.",
                code=f"unknown_{one}",
                field=name,
                value=shown(value),
                allowed=[*allowed],
            )
    return frozenset(given)
