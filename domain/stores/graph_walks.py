"""Walking a graph: neighbours, what is within reach, shortest paths, and search by words."""

from collections import deque
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cached_property
from typing import NamedTuple

from memoriale.domain.errors import InputError
from memoriale.domain.memory import MemoryState
from memoriale.domain.payloads import Edge, Node
from memoriale.domain.steps import Slice
from memoriale.domain.stores.entities import name_key
from memoriale.domain.stores.graph import EDGE, NODE
from memoriale.domain.stores.matching import Named, Words, best_named
from memoriale.domain.text import shown


class Step(NamedTuple):
    """An edge, and the node at its other end."""

    edge: MemoryState
    other: str


class Reached(NamedTuple):
    """What a walk came by, the nearest first, and whether there was more."""

    nodes: list[MemoryState]
    edges: list[MemoryState]
    truncated: bool


class Graph:
    """
    The nodes of a slice, and the edges between them that are true at a time.

    Args:
        seen: The owner's memories of ``GRAPH_KINDS``; None is the empty graph.
        valid_at: The time; None is that of the read.
    """

    def __init__(self, seen: Slice | None, valid_at: datetime | None = None) -> None:
        self._seen = seen
        self._valid_at = valid_at

    @cached_property
    def nodes(self) -> dict[str, MemoryState]:
        """The nodes by id."""
        if self._seen is None:
            return {}
        now = self._seen.now
        return {
            state.payload.node_id: state
            for state in self._seen.states.of_kind(NODE).all()
            if isinstance(state.payload, Node) and state.is_current(now)
        }

    @cached_property
    def _ways(self) -> tuple[dict[str, list[MemoryState]], dict[str, list[MemoryState]]]:
        """For each node the edges out of it, and those into it."""
        # Lists of what is there already: thousands of new objects would wake the collector.
        out: dict[str, list[MemoryState]] = {}
        in_: dict[str, list[MemoryState]] = {}
        if self._seen is None:
            return out, in_
        now = self._seen.now
        at = now if self._valid_at is None else self._valid_at
        for state in self._seen.states.of_kind(EDGE).all():
            if not (isinstance(state.payload, Edge) and state.is_current(now)):
                continue
            source, target = _ends(state)
            # A node may be ended by itself, as any memory; an edge without an end is not shown.
            if state.is_valid(at) and source in self.nodes and target in self.nodes:
                out.setdefault(source, []).append(state)
                in_.setdefault(target, []).append(state)
        return out, in_

    @property
    def _out(self) -> dict[str, list[MemoryState]]:
        return self._ways[0]

    @property
    def _in(self) -> dict[str, list[MemoryState]]:
        return self._ways[1]

    def require(self, node_id: str, field: str = "node_id") -> str:
        """
        The id of a node that is there.

        Raises:
            InputError: There is none.
        """
        if node_id not in self.nodes:
            raise unknown_node(node_id, field)
        return node_id

    def edges(self, node_id: str | None = None) -> list[MemoryState]:
        """The edges of a node, or all, in the order in which they were made."""
        if node_id is None:
            found = [edge for edges in self._out.values() for edge in edges]
        else:
            out, back = self._out.get(node_id, ()), self._in.get(node_id, ())
            # An edge from a node to itself is in both.
            found = [*{edge.memory_id: edge for edge in (*out, *back)}.values()]
        return sorted(found, key=lambda state: state.first_index)

    def steps(self, node_id: str, direction: str, types: frozenset[str]) -> Iterator[Step]:
        """
        The steps from a node to others: out of it first, in the order in which edges were made.

        Args:
            node_id: From where.
            direction: Along edges (``out``), against them (``in``), or ``both``.
            types: Keys of types of edges; none for all.
        """
        ways = ((self._out, 1, "in"), (self._in, 0, "out"))
        for edges, other, against in ways:
            for edge in edges.get(node_id, ()) if direction != against else ():
                end = _ends(edge)[other]
                if end != node_id and (not types or _type_key(edge) in types):
                    yield Step(edge, end)

    def reach(
        self,
        starts: Sequence[str],
        depth: int,
        direction: str,
        types: frozenset[str],
        max_nodes: int,
        max_edges: int,
    ) -> Reached:
        """What can be reached from some nodes in at most ``depth`` steps, breadth first."""
        distance = dict.fromkeys(starts[:max_nodes], 0)
        truncated = len(set(starts)) > len(distance)
        waiting = deque(distance)
        while waiting:
            node_id = waiting.popleft()
            if distance[node_id] == depth:
                continue
            for step in self.steps(node_id, direction, types):
                if step.other in distance:
                    continue
                if len(distance) >= max_nodes:
                    truncated = True
                    break
                distance[step.other] = distance[node_id] + 1
                waiting.append(step.other)
        edges: list[MemoryState] = []
        for node_id in distance:
            for edge in self._out.get(node_id, ()):
                if _ends(edge)[1] not in distance or (types and _type_key(edge) not in types):
                    continue
                if len(edges) >= max_edges:
                    return Reached([self.nodes[n] for n in distance], edges, truncated=True)
                edges.append(edge)
        return Reached([self.nodes[n] for n in distance], edges, truncated)

    def path(
        self, source: str, target: str, direction: str, types: frozenset[str]
    ) -> tuple[list[MemoryState], list[MemoryState]] | None:
        """Nodes and edges of a path of the fewest edges; None when there is none."""
        came: dict[str, Step | None] = {source: None}
        waiting = deque([source])
        while waiting and target not in came:
            node_id = waiting.popleft()
            for step in self.steps(node_id, direction, types):
                if step.other not in came:
                    came[step.other] = Step(step.edge, node_id)
                    waiting.append(step.other)
        if target not in came:
            return None
        nodes, edges = [self.nodes[target]], []
        back = came[target]
        while back is not None:
            edges.append(back.edge)
            nodes.append(self.nodes[back.other])
            back = came[back.other]
        return nodes[::-1], edges[::-1]

    def search(self, query: str, type_: str | None, words: Words) -> list[MemoryState]:
        """Nodes of a type, or of all, that share a word with a question, best first."""
        key = None if type_ is None else name_key(type_)
        among: list[tuple[MemoryState, Named]] = []
        for state in self.nodes.values():
            payload = state.payload
            assert isinstance(payload, Node)
            if key is None or name_key(payload.type) == key:
                keys = frozenset((name_key(payload.node_id), name_key(payload.name)))
                among.append((state, Named(keys, payload.name, payload.content)))
        found = best_named(query, [named for _, named in among], words, name_key)
        return [among[place][0] for place in found]


def unknown_node(node_id: str, field: str) -> InputError:
    """The error for a node that does not exist."""
    return InputError(
        f"there is no node {shown(node_id)!r} in this graph; add makes one.",
        code="unknown_node",
        field=field,
        value=shown(node_id),
        allowed="the id of a node that exists",
    )


def _ends(state: MemoryState) -> tuple[str, str]:
    assert isinstance(state.payload, Edge)
    return state.payload.source_id, state.payload.target_id


def _type_key(state: MemoryState) -> str:
    assert isinstance(state.payload, Edge)
    return name_key(state.payload.type)
