"""A user's knowledge graph: nodes, edges with valid spans, and the port of graph stores."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal, Protocol, runtime_checkable
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from memoriale.domain.chat import ModelProvider
from memoriale.domain.memory import MemoryState, Status
from memoriale.domain.payloads import Edge as EdgePayload
from memoriale.domain.payloads import Node as NodePayload

NODE: Final = "node"
EDGE: Final = "edge"
GRAPH_KINDS: Final = (NODE, EDGE)
CONTEXT_NODES: Final = 10
MOST_NODES: Final = 10_000
DEFAULT_NODES: Final = 100
DIRECTIONS: Final = ("out", "in", "both")

Direction = Literal["out", "in", "both"]
Point = int | str | datetime | None
"""An index or a time of the log; None is now."""
Time = datetime | str | None
"""An aware time or RFC 3339 text with an offset; None is open, or now for a read."""


class GraphNode(BaseModel):
    """
    A node. ``memory_id`` and ``index`` say which memory holds it and in which version; they are
    None in a graph store that is not the ledger's.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    type: str
    name: str
    properties: dict[str, JsonValue] = Field(default_factory=dict)
    created_at: datetime | None = None
    updated_at: datetime | None = None
    memory_id: UUID | None = None
    index: int | None = None


class GraphEdge(BaseModel):
    """
    A directed edge, true in the world from ``valid_from`` to ``valid_until``; None is open.
    ``invalidated_at`` is when it was taken back. ``index`` as of ``GraphNode``.
    """

    model_config = ConfigDict(frozen=True)

    id: UUID
    source_id: str
    target_id: str
    type: str
    properties: dict[str, JsonValue] = Field(default_factory=dict)
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    invalidated_at: datetime | None = None
    created_at: datetime | None = None
    index: int | None = None


class NewNode(BaseModel):
    """A node to be made or added to; the name is the id when none is given."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    type: str
    name: str | None = None
    properties: dict[str, Any] = Field(default_factory=dict)


class NewEdge(BaseModel):
    """An edge to be made or added to; fields as of ``GraphEdge``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source_id: str
    target_id: str
    type: str
    properties: dict[str, Any] = Field(default_factory=dict)
    valid_from: Time = None
    valid_until: Time = None


class Added(BaseModel):
    """The nodes and edges after something was added, in the order of the request."""

    model_config = ConfigDict(frozen=True)

    nodes: tuple[GraphNode, ...] = ()
    edges: tuple[GraphEdge, ...] = ()


class Subgraph(BaseModel):
    """
    A part of a graph, the nearest nodes first. ``truncated`` tells that there is more within the
    depth than was asked for.
    """

    model_config = ConfigDict(frozen=True)

    nodes: tuple[GraphNode, ...] = ()
    edges: tuple[GraphEdge, ...] = ()
    truncated: bool = False


class Neighbour(BaseModel):
    """A node beside another one, and the edge between them."""

    model_config = ConfigDict(frozen=True)

    node: GraphNode
    edge: GraphEdge


class GraphPath(BaseModel):
    """Nodes from one to another, and the edges between them: one fewer."""

    model_config = ConfigDict(frozen=True)

    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]


@runtime_checkable
class GraphStore(Protocol):
    """
    Keeps one graph for each user. No method tells or changes another user's; a user of None is
    the store's own.

    ``as_of`` reads as the graph was recorded then, ``valid_at`` takes the edges that are true in
    the world at a time, by default the time of the read. A store that cannot do either refuses
    it with an ``InputError``. Ids are opaque texts, compared whole; an id that must exist and
    does not is an ``InputError``.
    """

    def initialize(self) -> None:
        """Makes the store ready; called before the first use, and harmless afterwards."""

    def add(
        self,
        nodes: Sequence[NewNode | Mapping[str, Any]] = (),
        edges: Sequence[NewEdge | Mapping[str, Any]] = (),
        *,
        user_id: str | None = None,
    ) -> Added:
        """Makes nodes and edges or adds to them, all or nothing; ends of edges must exist."""

    def get_node(
        self, node_id: str, *, user_id: str | None = None, as_of: Point = None
    ) -> GraphNode | None:
        """A node; None when there is none of that id."""

    def neighbours(
        self,
        node_id: str,
        *,
        direction: str = "both",
        types: Sequence[str] = (),
        limit: int = DEFAULT_NODES,
        user_id: str | None = None,
        as_of: Point = None,
        valid_at: Time = None,
    ) -> list[Neighbour]:
        """The nodes at the other ends of a node's edges, of the given types or of all."""

    def traverse(
        self,
        node_ids: str | Sequence[str],
        depth: int = 2,
        *,
        direction: str = "both",
        types: Sequence[str] = (),
        max_nodes: int = DEFAULT_NODES,
        max_edges: int = 10 * DEFAULT_NODES,
        user_id: str | None = None,
        as_of: Point = None,
        valid_at: Time = None,
    ) -> Subgraph:
        """What can be reached from some nodes in at most ``depth`` steps, the nearest first."""

    def shortest_path(
        self,
        source_id: str,
        target_id: str,
        *,
        direction: str = "both",
        types: Sequence[str] = (),
        user_id: str | None = None,
        as_of: Point = None,
        valid_at: Time = None,
    ) -> GraphPath | None:
        """A path of the fewest edges; None when there is none."""

    def search(
        self,
        query: str,
        *,
        type: str | None = None,
        limit: int = CONTEXT_NODES,
        user_id: str | None = None,
        as_of: Point = None,
    ) -> list[GraphNode]:
        """Nodes that share a word with a question, or have it for a name or id; best first."""


class GraphMemoryConfig(BaseModel):
    """
    How ``GraphMemory`` works.

    Args:
        graph_store: Where the graph is; None is the ledger.
        model: Extracts nodes and edges from conversations; None is the caller's.
        auto_extract: Whether conversations are looked through.
        max_context_nodes: Nodes in a prompt at most, 1..1,000; twice as many edges.
        single_valued: Types of edges of which a node has one at a time, such as ``lives_in``:
            adding one closes the one before. Only for the ledger's graph.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    graph_store: GraphStore | None = None
    model: ModelProvider | None = None
    auto_extract: bool = True
    max_context_nodes: int = Field(default=CONTEXT_NODES, ge=1, le=1_000)
    single_valued: tuple[str, ...] = ()


class GraphMemoryFeatureConfig(BaseModel):
    """The graph as a part of a manager's memory; ``store`` is its ``graph_store``, and so on."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    store: GraphStore | None = None
    auto_extract: bool = True
    max_context_nodes: int = Field(default=CONTEXT_NODES, ge=1, le=1_000)
    single_valued: tuple[str, ...] = ()


def node_of(state: MemoryState) -> GraphNode:
    """A node as folded; its text must not be erased."""
    payload = state.payload
    assert isinstance(payload, NodePayload)
    return GraphNode(
        id=payload.node_id,
        type=payload.type,
        name=payload.name,
        properties=payload.properties,
        created_at=state.created_at,
        updated_at=state.changed_at,
        memory_id=state.memory_id,
        index=state.index,
    )


def edge_of(state: MemoryState) -> GraphEdge:
    """An edge as folded; its text must not be erased."""
    payload = state.payload
    assert isinstance(payload, EdgePayload)
    return GraphEdge(
        id=state.memory_id,
        source_id=payload.source_id,
        target_id=payload.target_id,
        type=payload.type,
        properties=payload.properties,
        valid_from=state.columns.valid_from,
        valid_until=state.columns.valid_until,
        invalidated_at=state.changed_at if state.status is Status.INVALIDATED else None,
        created_at=state.created_at,
        index=state.index,
    )
