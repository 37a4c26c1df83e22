"""What changes entities: identity, equal statements, and what ends together."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from pydantic import BaseModel

from memoriale.domain.commands import Amend, Remember, payload_of
from memoriale.domain.errors import InputError
from memoriale.domain.events import ReasonCode
from memoriale.domain.memory import MemoryState, Status
from memoriale.domain.namespaces import is_ancestor
from memoriale.domain.payloads import Entity as EntityPayload
from memoriale.domain.payloads import EntityEvent, EntityFact, Payload, Relationship
from memoriale.domain.steps import Adjust, End, Make, Replace, Slice, Step
from memoriale.domain.stores.entities import (
    ENTITY,
    ENTITY_EVENT,
    ENTITY_FACT,
    RELATIONSHIP,
    Entity,
    Known,
    NewEntity,
    NewEntityEvent,
    NewEntityFact,
    NewRelationship,
    entities_of,
    merged_batch,
    name_key,
    names_of,
    seen_from,
)
from memoriale.domain.stores.facts import canonical_fact
from memoriale.domain.text import shown

CommandOf = Callable[[str, str, Mapping[str, Any], Mapping[str, Any]], Remember]
"""Makes a checked command from kind, content, details, and other arguments of ``remember``."""

NewStatement = NewEntityFact | NewEntityEvent | NewRelationship
_SPANNED: Final = {"importance", "valid_from", "valid_until"}


class UpsertEntities:
    """
    The decision to make entities or to add to them, all in one append.

    1. Who has the id is the same entity. Name and type are the latest, a description stays
       unless a new one is given, properties are merged, and one that is None is removed.
    2. A statement that holds already, compared in canonical form, changes nothing; a relation
       that is told with another description gets that.
    3. A relation leads to an entity that exists, or that the same call makes.
    4. Everything is kept at the path; records above it stay as they are.

    Args:
        entities: What to upsert.
        path: Where it is kept; None for no path.
        command_of: Makes the commands.
    """

    def __init__(
        self, entities: Sequence[NewEntity], path: str | None, command_of: CommandOf
    ) -> None:
        self.entities = merged_batch(entities)
        self.path, self.command_of = path, command_of

    def __call__(self, seen: Slice) -> list[Step]:
        """The steps; see ``Decision``."""
        found = entities_of(seen, self.path, only=self.entities.keys())
        known = {one.entity.entity_id: one for one in found}
        statements = Statements(seen, self.path, self.command_of)
        names = names_of(seen, self.path) | {
            entity_id: new.name for entity_id, new in self.entities.items()
        }
        steps: list[Step] = []
        for entity_id, new in self.entities.items():
            steps += self._record(entity_id, new, known.get(entity_id))
        for entity_id, new in self.entities.items():
            told: list[NewStatement] = [*new.facts, *new.events, *new.relationships]
            for statement in told:
                statements.add(entity_id, statement, names)
        return [*steps, *statements.steps]

    def _record(self, entity_id: str, new: NewEntity, known: Known | None) -> list[Step]:
        own = None if known is None else _record_at(known, self.path)
        if known is not None and own is None and _says(known.entity, new):
            return []
        above = {} if known is None else _above(known, own)
        before = None if own is None else own.payload
        assert before is None or isinstance(before, EntityPayload)
        properties = {**(before.properties if before else {}), **new.properties}
        description = new.description or (before.description if before else None)
        details = {
            "entity_id": entity_id,
            "entity_type": new.entity_type,
            "name": new.name,
            "description": description,
            # Only what a record above says must be taken back in so many words.
            "properties": {k: v for k, v in properties.items() if v is not None or k in above},
        }
        content = new.name if description is None else f"{new.name}: {description}"
        command = self.command_of(ENTITY, content, details, {})
        if own is None:
            return [Make(command=command)]
        same = payload_of(command) == own.payload
        return [] if same else [Replace(memory_id=own.memory_id, command=command)]


class AddStatement:
    """
    The decision to add one fact, event or relation to an entity that exists.

    Args:
        entity_id: Which entity.
        statement: What is said of it.
        path: Where it is kept.
        command_of: Makes the command.
    """

    def __init__(
        self, entity_id: str, statement: NewStatement, path: str | None, command_of: CommandOf
    ) -> None:
        self.entity_id, self.statement = entity_id, statement
        self.path, self.command_of = path, command_of
        self.memory_id: UUID | None = None
        """The memory that says it, made or there already; known once it was decided."""

    def __call__(self, seen: Slice) -> list[Step]:
        """
        The steps; see ``Decision``.

        Raises:
            InputError: There is no such entity, or none that the relation leads to.
        """
        names = names_of(seen, self.path)
        if self.entity_id not in names:
            raise unknown_entity(self.entity_id)
        statements = Statements(seen, self.path, self.command_of)
        self.memory_id = statements.add(self.entity_id, self.statement, names)
        return statements.steps


class Statements:
    """
    Adds facts, events and relations, each equal one once.

    Args:
        seen: What the owner has.
        path: Where they are kept; what is seen from there counts as said.
        command_of: Makes the commands.
    """

    def __init__(self, seen: Slice, path: str | None, command_of: CommandOf) -> None:
        self.steps: list[Step] = []
        self._command_of = command_of
        self._said: dict[tuple[str, ...], tuple[UUID, Payload]] = {}
        for state in seen.states.values():
            if (
                _holds(state, seen.now)
                and seen_from(path, state.namespace)
                and (key := statement_key(state.payload)) is not None
                and state.payload is not None
            ):
                self._said[key] = state.memory_id, state.payload

    def add(self, entity_id: str, new: NewStatement, names: Mapping[str, str]) -> UUID:
        """
        Adds one, unless it is said already.

        Args:
            entity_id: Of which entity.
            new: What is said.
            names: The entities that there are, with their names.

        Returns:
            The memory that says it.

        Raises:
            InputError: A relation to an entity that does not exist.
        """
        if isinstance(new, NewRelationship) and new.target_entity_id not in names:
            raise unknown_entity(new.target_entity_id, "target_entity_id")
        kind, content, details = _worded(entity_id, new, names)
        more = new.model_dump(include=_SPANNED)
        command = self._command_of(kind, content, details, more)
        payload = payload_of(command)
        key = statement_key(payload)
        assert key is not None
        if key not in self._said:
            made = Make(command=command)
            self._said[key] = made.memory_id, payload
            self.steps.append(made)
            return made.memory_id
        memory_id, before = self._said[key]
        if isinstance(new, NewRelationship) and new.description is not None and payload != before:
            self._said[key] = memory_id, payload
            self.steps.append(Replace(memory_id=memory_id, command=command))
        return memory_id


def statement_key(payload: BaseModel | None) -> tuple[str, ...] | None:
    """What makes two statements about an entity the same; None for what is no statement."""
    match payload:
        case EntityFact():
            return ENTITY_FACT, payload.entity_id, canonical_fact(payload.content)
        case EntityEvent():
            date = canonical_fact(payload.date or "")
            return ENTITY_EVENT, payload.entity_id, canonical_fact(payload.content), date
        case Relationship():
            type_ = name_key(payload.type)
            return RELATIONSHIP, payload.entity_id, payload.target_entity_id, type_
    return None


def end_entity(seen: Slice, entity_id: str, path: str | None) -> list[Step]:
    """
    The end of an entity at a path and below it, with all that was said of it, and the relations
    of others that lead to it.

    Raises:
        InputError: It is kept above the path alone, where others see it too.
    """
    ended: list[Step] = [
        End(memory_id=state.memory_id, because=ReasonCode.RETRACTED)
        for state in seen.states.values()
        if state.status is Status.CURRENT
        and _within(path, state.namespace)
        and entity_id in entities_named(state.payload)
    ]
    kept = entities_of(seen, path, only=(entity_id,))
    if kept and not _within(path, kept[0].entity.namespace):
        place = kept[0].entity.namespace or "no namespace"
        raise InputError(
            f"entity {shown(entity_id)!r} is kept at {place}; delete it from there.",
            code="other_namespace",
            field="entity_id",
            value=shown(entity_id),
            allowed=kept[0].entity.namespace,
        )
    return ended


def end_entities(seen: Slice, path: str | None) -> list[Step]:
    """The end of every entity at a path and below it, with all that was said of them."""
    return [
        End(memory_id=state.memory_id, because=ReasonCode.RETRACTED)
        for state in seen.states.values()
        if state.status is Status.CURRENT and _within(path, state.namespace)
    ]


def end_statement(
    seen: Slice, memory_id: UUID, path: str | None, since: datetime | None
) -> list[Step]:
    """
    A fact, event or relation no longer holds.

    Args:
        seen: What the owner has.
        memory_id: Which.
        path: From where it is seen.
        since: The end of its valid span; None: it is taken back, as ``retracted``.

    Raises:
        InputError: There is none that is current.
    """
    state = seen.states.get(memory_id)
    if (
        state is None
        or state.status is not Status.CURRENT
        or not seen_from(path, state.namespace)
        or statement_key(state.payload) is None
    ):
        raise InputError(
            f"there is no current fact, event or relation {memory_id} of an entity.",
            code="unknown_memory",
            field="statement_id",
            value=str(memory_id),
        )
    if since is None:
        return [End(memory_id=memory_id, because=ReasonCode.RETRACTED)]
    if state.columns.valid_until == since:
        return []
    return [Adjust(command=Amend(memory_id=memory_id, valid_until=since))]


def unknown_entity(entity_id: str, field: str = "entity_id") -> InputError:
    """The error for an entity that does not exist."""
    return InputError(
        f"there is no entity {shown(entity_id)!r}; upsert_entity makes one.",
        code="unknown_entity",
        field=field,
        value=shown(entity_id),
        allowed="the entity_id of an entity that exists",
    )


def _worded(
    entity_id: str, new: NewStatement, names: Mapping[str, str]
) -> tuple[str, str, dict[str, Any]]:
    """Kind, content and details of a statement."""
    if isinstance(new, NewEntityFact):
        return ENTITY_FACT, new.fact, {"entity_id": entity_id}
    if isinstance(new, NewEntityEvent):
        return ENTITY_EVENT, new.event, {"entity_id": entity_id, "date": new.date}
    words = f"{names[entity_id]} {new.type} {names[new.target_entity_id]}"
    details = {
        "entity_id": entity_id,
        "target_entity_id": new.target_entity_id,
        "type": new.type,
        "description": new.description,
    }
    return (
        RELATIONSHIP,
        words if new.description is None else f"{words}: {new.description}",
        details,
    )


def _holds(state: MemoryState, now: datetime) -> bool:
    """Whether a statement holds, or will."""
    until = state.columns.valid_until
    return state.is_current(now) and (until is None or now < until)


def _says(entity: Entity, new: NewEntity) -> bool:
    """Whether an entity as seen says already what is new."""
    return (
        (entity.name, entity.entity_type) == (new.name, new.entity_type)
        and new.description in (None, entity.description)
        and all(entity.properties.get(name) == value for name, value in new.properties.items())
    )


def _records(known: Known) -> int:
    return sum(isinstance(state.payload, EntityPayload) for state in known.states)


def _record_at(known: Known, path: str | None) -> MemoryState | None:
    records = known.states[: _records(known)]
    return next((state for state in records if state.namespace == path), None)


def _above(known: Known, own: MemoryState | None) -> dict[str, Any]:
    """The properties that records above say."""
    others = (s.payload for s in known.states[: _records(known)] if s is not own)
    payloads = [p for p in others if isinstance(p, EntityPayload)]
    return {name: value for p in payloads for name, value in p.properties.items()}


def _within(path: str | None, stored_at: str | None) -> bool:
    """Whether what is kept somewhere lies at a path or below it."""
    return path is None or (stored_at is not None and is_ancestor(path, stored_at))


def entities_named(payload: BaseModel | None) -> tuple[str, ...]:
    """The ids of the entities that a memory is of, or about."""
    match payload:
        case EntityPayload() | EntityFact() | EntityEvent():
            return (payload.entity_id,)
        case Relationship():
            return payload.entity_id, payload.target_entity_id
    return ()
