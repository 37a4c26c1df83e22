"""Entities as they are read: records, facts, events and relations of a path and those above it."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue

from memoriale.domain.events import SourceTier
from memoriale.domain.memory import MemoryState, Status
from memoriale.domain.namespaces import scope_matches
from memoriale.domain.payloads import Entity as EntityPayload
from memoriale.domain.payloads import EntityEvent as EventPayload
from memoriale.domain.payloads import EntityFact as FactPayload
from memoriale.domain.payloads import Relationship
from memoriale.domain.steps import Slice
from memoriale.domain.text import canonical_text_v1

ENTITY: Final = "entity"
ENTITY_FACT: Final = "entity_fact"
ENTITY_EVENT: Final = "entity_event"
RELATIONSHIP: Final = "relationship"
ENTITY_KINDS: Final = (ENTITY, ENTITY_FACT, ENTITY_EVENT, RELATIONSHIP)

Time = datetime | str | None
"""An aware time or RFC 3339 text with an offset; None is open."""


class EntityConfig(BaseModel):
    """
    How entities are kept.

    Args:
        namespace: Path that entities are kept at, such as ``org/team``; those kept above it are
            seen too. None is the handle's.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    namespace: str | None = None


class _Statement(BaseModel):
    """What facts, events and relations of an entity share; see ``EntityFact``."""

    model_config = ConfigDict(frozen=True)

    id: UUID
    importance: float | None = None
    valid_from: datetime
    valid_until: datetime | None = None
    invalidated_at: datetime | None = None
    created_at: datetime
    source: Literal["auto", "manual"]


class EntityFact(_Statement):
    """
    A statement about an entity, true in the world from ``valid_from`` to ``valid_until``.

    ``invalidated_at`` is when it ended: the end of its span once that has passed, or when it was
    taken back; None while it holds. ``source`` is ``manual`` for what people said, and ``auto``
    for what a model extracted. Importance is in 0..1.
    """

    fact: str


class EntityEvent(_Statement):
    """Something that happened to an entity; ``date`` as it was told. Else as ``EntityFact``."""

    event: str
    date: str | None = None


class EntityRelationship(_Statement):
    """A relation of an entity to another one. Else as ``EntityFact``."""

    target_entity_id: str
    type: str
    description: str | None = None


class Entity(BaseModel):
    """
    An entity with what is known of it, oldest first. ``updated_at`` is when anything of it
    changed last; ``namespace`` is where its nearest record is kept.
    """

    model_config = ConfigDict(frozen=True)

    entity_id: str
    entity_type: str
    name: str
    description: str | None = None
    properties: dict[str, JsonValue] = Field(default_factory=dict)
    facts: tuple[EntityFact, ...] = ()
    events: tuple[EntityEvent, ...] = ()
    relationships: tuple[EntityRelationship, ...] = ()
    namespace: str | None = None
    created_at: datetime
    updated_at: datetime


class _New(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    importance: float | None = None
    valid_from: Time = None
    valid_until: Time = None


class NewEntityFact(_New):
    """A fact to be added to an entity; fields as of ``EntityFact``."""

    fact: str


class NewEntityEvent(_New):
    """An event to be added to an entity; fields as of ``EntityEvent``."""

    event: str
    date: str | None = None


class NewRelationship(_New):
    """A relation to be added to an entity; fields as of ``EntityRelationship``."""

    target_entity_id: str
    type: str
    description: str | None = None


def _named(field: str) -> BeforeValidator:
    return BeforeValidator(lambda value: {field: value} if isinstance(value, str) else value)


class NewEntity(BaseModel):
    """
    An entity to be made or added to. Without ``entity_id`` the name says which it is: see
    ``name_key``. A property that is None is removed. Facts and events may be plain texts.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    entity_type: str
    entity_id: str | None = None
    description: str | None = None
    properties: dict[str, Any] = Field(default_factory=dict)
    facts: tuple[Annotated[NewEntityFact, _named("fact")], ...] = ()
    events: tuple[Annotated[NewEntityEvent, _named("event")], ...] = ()
    relationships: tuple[NewRelationship, ...] = ()


@dataclass(frozen=True, slots=True)
class Known:
    """An entity and the memories that it was read from, its nearest record first."""

    entity: Entity
    states: tuple[MemoryState, ...]


def name_key(name: str) -> str:
    """The id of what has a name and no other id: canonical text with ``_`` for spaces."""
    return canonical_text_v1(name).replace(" ", "_")


def seen_from(path: str | None, stored_at: str | None) -> bool:
    """Whether what is kept at one path is seen from another: what lies at it or above it is."""
    return stored_at is None or (path is not None and scope_matches(stored_at, path))


def entities_of(
    seen: Slice | None,
    path: str | None,
    valid_at: datetime | None = None,
    *,
    include_ended: bool = False,
    only: Collection[str] | None = None,
) -> list[Known]:
    """
    The entities as seen from a path, by when they were made.

    An entity may have a record at several paths, one above the other: the nearest says its name
    and type, and each property that it has. Statements are seen from all of these paths.

    Args:
        seen: The owner's memories of ``ENTITY_KINDS``.
        path: From where.
        valid_at: Statements that are true at this time; None is the time of the read.
        include_ended: Also the statements that ended or are not true at that time.
        only: Ids of the entities that are asked for; None is all.
    """
    if seen is None:
        return []
    at = seen.now if valid_at is None else valid_at
    records: dict[str, list[MemoryState]] = defaultdict(list)
    statements: dict[str, list[MemoryState]] = defaultdict(list)
    for state in seen.states.values():
        payload = state.payload
        if (
            not isinstance(payload, EntityPayload | FactPayload | EventPayload | Relationship)
            or (only is not None and payload.entity_id not in only)
            or not seen_from(path, state.namespace)
        ):
            continue
        if not isinstance(payload, EntityPayload):
            statements[payload.entity_id].append(state)
        elif state.is_current(seen.now) and state.is_valid(at):
            records[payload.entity_id].append(state)
    return [
        _known(entity_id, found, statements[entity_id], seen.now, at, include_ended)
        for entity_id, found in records.items()
    ]


def names_of(seen: Slice, path: str | None) -> dict[str, str]:
    """The names of the entities as seen from a path, by id."""
    found: dict[str, tuple[int, str]] = {}
    for state in seen.current(ENTITY):
        payload = state.payload
        if isinstance(payload, EntityPayload) and seen_from(path, state.namespace):
            nearer = _depth(state.namespace), payload.name
            found[payload.entity_id] = max(found.get(payload.entity_id, nearer), nearer)
    return {entity_id: name for entity_id, (_, name) in found.items()}


def _known(
    entity_id: str,
    records: list[MemoryState],
    statements: list[MemoryState],
    now: datetime,
    at: datetime,
    include_ended: bool,
) -> Known:
    nearest_first = sorted(records, key=lambda state: -_depth(state.namespace))
    payloads = [s.payload for s in nearest_first if isinstance(s.payload, EntityPayload)]
    properties: dict[str, JsonValue] = {}
    for payload in reversed(payloads):
        properties.update(payload.properties)
    told = [
        state
        for state in statements
        if include_ended or (state.is_current(now) and state.is_valid(at))
    ]
    entity = Entity(
        entity_id=entity_id,
        entity_type=payloads[0].entity_type,
        name=payloads[0].name,
        description=next((p.description for p in payloads if p.description is not None), None),
        properties={name: value for name, value in properties.items() if value is not None},
        facts=tuple(_fact(s, s.payload, at) for s in told if isinstance(s.payload, FactPayload)),
        events=tuple(_event(s, s.payload, at) for s in told if isinstance(s.payload, EventPayload)),
        relationships=tuple(
            _relation(s, s.payload, at) for s in told if isinstance(s.payload, Relationship)
        ),
        namespace=nearest_first[0].namespace,
        created_at=min(state.created_at for state in records),
        updated_at=max(state.changed_at for state in (*records, *statements)),
    )
    return Known(entity, (*nearest_first, *told))


def _fact(state: MemoryState, payload: FactPayload, at: datetime) -> EntityFact:
    return EntityFact(fact=payload.content, **_shared(state, at))


def _event(state: MemoryState, payload: EventPayload, at: datetime) -> EntityEvent:
    return EntityEvent(event=payload.content, date=payload.date, **_shared(state, at))


def _relation(state: MemoryState, payload: Relationship, at: datetime) -> EntityRelationship:
    return EntityRelationship(
        target_entity_id=payload.target_entity_id,
        type=payload.type,
        description=payload.description,
        **_shared(state, at),
    )


def _shared(state: MemoryState, at: datetime) -> Mapping[str, Any]:
    columns, ended = state.columns, state.status is not Status.CURRENT
    until = columns.valid_until
    past = until if until is not None and until <= at else None
    return {
        "id": state.memory_id,
        "importance": None if state.importance is None else state.importance / 1000,
        "valid_from": columns.valid_from or state.created_at,
        "valid_until": until,
        "invalidated_at": state.changed_at if ended else past,
        "created_at": state.created_at,
        "source": "auto" if state.source_tier is SourceTier.LLM_EXTRACTED else "manual",
    }


def _depth(path: str | None) -> int:
    return 0 if path is None else path.count("/") + 1


def merged_batch(entities: Sequence[NewEntity]) -> dict[str, NewEntity]:
    """Entities to be upserted by their id; what names one twice is one, the later word last."""
    merged: dict[str, NewEntity] = {}
    for new in entities:
        entity_id = new.entity_id or name_key(new.name)
        before = merged.get(entity_id)
        merged[entity_id] = new if before is None else _together(before, new)
    return merged


def _together(before: NewEntity, after: NewEntity) -> NewEntity:
    return after.model_copy(
        update={
            "description": after.description or before.description,
            "properties": {**before.properties, **after.properties},
            "facts": (*before.facts, *after.facts),
            "events": (*before.events, *after.events),
            "relationships": (*before.relationships, *after.relationships),
        }
    )
