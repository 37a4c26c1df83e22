"""What is remembered of resources: values by key, and facts with their source."""

from typing import ClassVar
from uuid import UUID

from pydantic import JsonValue

from memoriale.domain.payloads.base import Payload, register_payload


class Working(Payload):
    """The value of one key of working memory; ``content`` is the value as canonical JSON."""

    key: str
    value: JsonValue = None


class Semantic(Payload):
    """A fact of a resource, and the ledger entry that it rests on."""

    sandbox_id: str | None = None
    """Outside id of the session of that entry."""
    entry_index: int | None = None
    """Index of that entry in the memory log."""
    quote: str | None = None
    """Words of the entry that bear the fact out."""
    replaces: tuple[UUID, ...] = ()
    """
    The facts in whose place it stands, when a compaction or a correction made it. Of several that
    take the place of more than 500, the first one names them.
    """


class Item(Payload):
    """A fact that an operation took from messages, or that was put in its place."""

    FORMAT: ClassVar[int] = 2

    category: str | None = None
    input: str | None = None
    """The messages' words that it was taken from, where the model named them."""
    labels: tuple[str, ...] = ()
    """What the model calls it. The tags of the memory are those of its scope, and no label is."""


register_payload("working", Working)
register_payload("semantic", Semantic)
register_payload("item", Item)
