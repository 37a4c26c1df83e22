"""What is remembered of the world: entities with their facts and events, and a graph."""

from pydantic import Field, JsonValue

from memoriale.domain.payloads.base import Payload, register_payload


class Entity(Payload):
    """A company, person, project or thing; ``content`` is its name and description."""

    entity_id: str
    entity_type: str
    name: str
    description: str | None = None
    properties: dict[str, JsonValue] = Field(default_factory=dict)


class EntityFact(Payload):
    """A statement about an entity."""

    entity_id: str


class EntityEvent(Payload):
    """Something that happened to an entity."""

    entity_id: str
    date: str | None = None
    """As it was told, such as ``2026-03`` or ``last spring``."""


class Relationship(Payload):
    """A relation of one entity to another; ``content`` says it in words."""

    entity_id: str
    target_entity_id: str
    type: str
    description: str | None = None


class Node(Payload):
    """A node of an owner's knowledge graph."""

    node_id: str
    type: str
    name: str
    properties: dict[str, JsonValue] = Field(default_factory=dict)


class Edge(Payload):
    """A directed edge of an owner's knowledge graph; valid for its valid span."""

    source_id: str
    target_id: str
    type: str
    properties: dict[str, JsonValue] = Field(default_factory=dict)


register_payload("entity", Entity)
register_payload("entity_fact", EntityFact)
register_payload("entity_event", EntityEvent)
register_payload("relationship", Relationship)
register_payload("node", Node)
register_payload("edge", Edge)
