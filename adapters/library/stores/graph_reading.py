"""Reading users' knowledge graphs on the ledger: nodes, neighbours, walks, paths, search."""

from collections.abc import Iterable, Sequence
from copy import copy
from typing import Final, NamedTuple, Self

from memoriale.adapters.application.reading import AsOf
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.stores.base import Store
from memoriale.domain.fields import choice, optional_time
from memoriale.domain.memory import MemoryState
from memoriale.domain.steps import Slice
from memoriale.domain.stores.entities import name_key
from memoriale.domain.stores.graph import (
    CONTEXT_NODES,
    DEFAULT_NODES,
    DIRECTIONS,
    EDGE,
    GRAPH_KINDS,
    MOST_NODES,
    GraphEdge,
    GraphNode,
    GraphPath,
    Neighbour,
    Subgraph,
    Time,
    edge_of,
    node_of,
)
from memoriale.domain.stores.graph_walks import Graph
from memoriale.domain.text import check_outside_id, check_query, check_text
from memoriale.domain.values import check_whole

_MOST_EDGES: Final = 10 * MOST_NODES


class GraphReading(Store):
    """What ``LedgerGraph`` tells; arguments as there."""

    _recording = True

    def __init__(self, storage: Memory, *, single_valued: Sequence[str] = ()) -> None:
        super().__init__(storage)
        self.single_valued = frozenset(
            name_key(check_text("single_valued", type_)) for type_ in single_valued
        )

    def unrecorded(self) -> Self:
        """The same graph for a caller that puts on record itself what it gives."""
        graph = copy(self)
        graph._recording = False
        return graph

    def initialize(self) -> None:
        """Nothing: the ledger is ready when it is open."""

    def get_node(
        self, node_id: str, *, user_id: str | None = None, as_of: AsOf = None
    ) -> GraphNode | None:
        """
        A node; None when there is none of that id.

        Args:
            node_id: Which; compared as it is.
            user_id: Whose; default: the handle's user.
            as_of: As then: an index or a time.
        """
        wanted = check_outside_id("node_id", node_id)
        read = self._graph(user_id, "graph.show", as_of)
        state = read.graph.nodes.get(wanted)
        if state is None:
            return None
        self._given(read, "graph.show", [state])
        return node_of(state)

    def list_edges(
        self,
        node_id: str | None = None,
        *,
        user_id: str | None = None,
        as_of: AsOf = None,
        valid_at: Time = None,
        include_ended: bool = False,
    ) -> list[GraphEdge]:
        """
        Edges in the order in which they were made.

        Args:
            node_id: Only those that lead to it or away from it; None for all.
            user_id, as_of: As for ``get_node``.
            valid_at: Those that are true in the world at this time; default: the time of the
                read.
            include_ended: Also those that are not, and those that were taken back.
        """
        read = self._graph(user_id, "graph.list", as_of, valid_at)
        states = read.graph.edges(None if node_id is None else check_outside_id("node_id", node_id))
        if include_ended and read.seen is not None:
            every = [s for s in read.seen.states.values() if s.kind == EDGE and s.payload]
            edges = [(s, edge_of(s)) for s in every]
            states = [s for s, e in edges if node_id in (None, e.source_id, e.target_id)]
        self._given(read, "graph.list", states)
        return [edge_of(state) for state in states]

    def neighbours(
        self,
        node_id: str,
        *,
        direction: str = "both",
        types: Sequence[str] = (),
        limit: int = DEFAULT_NODES,
        user_id: str | None = None,
        as_of: AsOf = None,
        valid_at: Time = None,
    ) -> list[Neighbour]:
        """
        The nodes at the other ends of a node's edges: of those out of it first, the oldest first.

        Args:
            node_id: Which.
            direction: ``out`` along edges, ``in`` against them, or ``both``.
            types: Types of edges; none for all.
            limit: How many at most, 1..10,000.
            user_id, as_of, valid_at: As for ``list_edges``.

        Raises:
            InputError: There is no such node.
        """
        check_whole("limit", limit, 1, MOST_NODES)
        way, keys = _way(direction), _keys(types)
        read = self._graph(user_id, "graph.neighbours", as_of, valid_at)
        graph, start = read.graph, check_outside_id("node_id", node_id)
        steps = [*graph.steps(graph.require(start), way, keys)][:limit]
        nodes = [graph.nodes[step.other] for step in steps]
        self._given(read, "graph.neighbours", [*nodes, *(step.edge for step in steps)])
        return [
            Neighbour(node=node_of(node), edge=edge_of(step.edge))
            for node, step in zip(nodes, steps, strict=True)
        ]

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
        as_of: AsOf = None,
        valid_at: Time = None,
    ) -> Subgraph:
        """
        What can be reached from some nodes, the nearest first, with the edges between.

        Args:
            node_ids: From where.
            depth: Steps at most, 0..100.
            direction, types, user_id, as_of, valid_at: As for ``neighbours``.
            max_nodes: Nodes at most, 1..10,000.
            max_edges: Edges at most, 0..100,000.

        Raises:
            InputError: There is no such node.
        """
        check_whole("depth", depth, 0, 100)
        check_whole("max_nodes", max_nodes, 1, MOST_NODES)
        check_whole("max_edges", max_edges, 0, _MOST_EDGES)
        way, keys = _way(direction), _keys(types)
        given = [node_ids] if isinstance(node_ids, str) else [*node_ids]
        starts = [check_outside_id("node_ids", node_id) for node_id in given]
        read = self._graph(user_id, "graph.traverse", as_of, valid_at)
        for node_id in starts:
            read.graph.require(node_id, "node_ids")
        found = read.graph.reach(starts, depth, way, keys, max_nodes, max_edges)
        self._given(read, "graph.traverse", [*found.nodes, *found.edges])
        return Subgraph(
            nodes=tuple(map(node_of, found.nodes)),
            edges=tuple(map(edge_of, found.edges)),
            truncated=found.truncated,
        )

    def shortest_path(
        self,
        source_id: str,
        target_id: str,
        *,
        direction: str = "both",
        types: Sequence[str] = (),
        user_id: str | None = None,
        as_of: AsOf = None,
        valid_at: Time = None,
    ) -> GraphPath | None:
        """A path of the fewest edges; None when there is none. Arguments as for ``neighbours``."""
        way, keys = _way(direction), _keys(types)
        read = self._graph(user_id, "graph.path", as_of, valid_at)
        source = read.graph.require(check_outside_id("source_id", source_id), "source_id")
        target = read.graph.require(check_outside_id("target_id", target_id), "target_id")
        found = read.graph.path(source, target, way, keys)
        if found is None:
            return None
        nodes, edges = found
        self._given(read, "graph.path", [*nodes, *edges])
        return GraphPath(nodes=tuple(map(node_of, nodes)), edges=tuple(map(edge_of, edges)))

    def search(
        self,
        query: str,
        *,
        type: str | None = None,
        limit: int = CONTEXT_NODES,
        user_id: str | None = None,
        as_of: AsOf = None,
    ) -> list[GraphNode]:
        """
        Nodes that share a word with a question in name, type or properties, best first; one that
        has the whole question for a name or id comes first.

        Args:
            query: The question.
            type: Only nodes of this type.
            limit: How many at most, 1..10,000.
            user_id, as_of: As for ``get_node``.
        """
        from memoriale.projections.recall.words import words

        check_whole("limit", limit, 1, MOST_NODES)
        asked = check_query(query)
        wanted = None if type is None else check_text("type", type)
        read = self._graph(user_id, "graph.search", as_of)
        states = read.graph.search(asked, wanted, words)[:limit]
        self._given(read, "graph.search", states)
        return [node_of(state) for state in states]

    def _graph(
        self, user_id: str | None, command: str, as_of: AsOf, valid_at: Time = None
    ) -> "Read":
        memory = self._as(user=user_id)
        at = optional_time("valid_at", {"valid_at": valid_at})
        seen = self._read(memory, self._owner(memory, "user"), GRAPH_KINDS, command, as_of)
        return Read(memory, seen, Graph(seen, at), as_of)

    def _given(self, read: "Read", command: str, states: Iterable[MemoryState]) -> None:
        if self._recording:
            self._told(read.memory, command, states, read.seen, read.as_of)


class Read(NamedTuple):
    """What a call read: as whom, the memories, the graph that they make, and as of when."""

    memory: Memory
    seen: Slice | None
    graph: Graph
    as_of: AsOf


def _way(direction: str) -> str:
    return choice("direction", direction, DIRECTIONS) or "both"


def _keys(types: Sequence[str]) -> frozenset[str]:
    given = [types] if isinstance(types, str) else types
    return frozenset(name_key(check_text("types", type_)) for type_ in given)
