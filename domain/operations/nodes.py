"""Items as operations hand them out."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from memoriale.domain.keys import Subject
from memoriale.domain.memory import MemoryState
from memoriale.domain.operations.scopes import OperationScope
from memoriale.domain.payloads import Item


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryNode:
    """
    An item. ``tags`` are those of its scope, ``labels`` the model's words for it; importance is
    in 0..1; ``index`` is that of its last event.
    """

    id: UUID
    content: str
    importance: float | None
    category: str | None
    tags: tuple[str, ...]
    labels: tuple[str, ...]
    input: str | None
    user_id: str | None
    agent_id: str | None
    created_at: datetime
    updated_at: datetime
    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentMemorySearchResult:
    """
    An item that was found. ``score`` in 0..1 is what results are ordered by, ``similarity`` the
    cosine with the question, None where it is not known.
    """

    id: UUID
    content: str
    score: float
    similarity: float | None
    node: MemoryNode


def node_of(state: MemoryState, names: Mapping[UUID, Subject]) -> MemoryNode | None:
    """
    An item as folded; None when its words were erased.

    Args:
        state: The memory.
        names: Outside names by pseudonym.
    """
    payload = state.payload
    if not isinstance(payload, Item):
        return None
    owner = names.get(state.columns.owner)
    agent = state.columns.principal_agent
    through = None if agent is None else names.get(agent)
    return MemoryNode(
        id=state.memory_id,
        content=payload.content,
        importance=None if state.importance is None else state.importance / 1000,
        category=payload.category,
        tags=state.tags,
        labels=payload.labels,
        input=payload.input,
        user_id=owner.id if owner is not None and owner.type == "user" else None,
        agent_id=None if through is None else through.id,
        created_at=state.created_at,
        updated_at=state.changed_at,
        index=state.index,
    )


def scope_of_node(node: MemoryNode) -> OperationScope:
    """The scope that an item belongs to."""
    return OperationScope(node.user_id, node.agent_id, node.tags)
