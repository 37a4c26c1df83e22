"""What a memory of each kind holds. All of it is sealed: it may be personal data."""

from memoriale.domain.payloads.base import AnyPayload, Payload, payload_model, register_payload
from memoriale.domain.payloads.conversations import FileEntry, Message, Summary
from memoriale.domain.payloads.experience import (
    Correction,
    Decision,
    Learning,
    Procedure,
    ProcedureStep,
)
from memoriale.domain.payloads.people import Fact, Note, ProfileField
from memoriale.domain.payloads.resources import Item, Semantic, Working
from memoriale.domain.payloads.things import (
    Edge,
    Entity,
    EntityEvent,
    EntityFact,
    Node,
    Relationship,
)

__all__ = [
    "AnyPayload",
    "Correction",
    "Decision",
    "Edge",
    "Entity",
    "EntityEvent",
    "EntityFact",
    "Fact",
    "FileEntry",
    "Item",
    "Learning",
    "Message",
    "Node",
    "Note",
    "Payload",
    "Procedure",
    "ProcedureStep",
    "ProfileField",
    "Relationship",
    "Semantic",
    "Summary",
    "Working",
    "payload_model",
    "register_payload",
]
