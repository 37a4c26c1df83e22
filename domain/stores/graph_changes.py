"""What changes a graph: one node for an id, equal edges once, single-valued ones in succession."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from memoriale.domain.commands import Amend, Remember, payload_of
from memoriale.domain.errors import InputError
from memoriale.domain.events import ReasonCode
from memoriale.domain.fields import optional_time
from memoriale.domain.memory import MemoryState, Status
from memoriale.domain.payloads import Edge, Node
from memoriale.domain.rendering import in_words
from memoriale.domain.steps import Adjust, End, Make, Replace, Slice, Step
from memoriale.domain.stores.entities import name_key
from memoriale.domain.stores.graph import EDGE, NODE, NewEdge, NewNode
from memoriale.domain.stores.graph_walks import unknown_node
from memoriale.domain.times import check_span

CommandOf = Callable[[str, str, Mapping[str, Any], Mapping[str, Any]], Remember]
"""Makes a checked command from kind, content, details, and other arguments of ``remember``."""


@dataclass(slots=True)
class _Edge:
    """An edge with its valid span, as the steps so far leave it."""

    memory_id: UUID
    payload: Edge
    start: datetime | None
    until: datetime | None

    def valid_at(self, at: datetime) -> bool:
        return (self.start is None or self.start <= at) and (self.until is None or at < self.until)

    def overlaps(self, start: datetime | None, until: datetime | None) -> bool:
        begins = until is None or self.start is None or self.start < until
        return begins and (self.until is None or start is None or start < self.until)


class AddToGraph:
    """
    The decision to add nodes and edges, all in one append.

    1. Who has the id is the same node: its type is the latest, its name too where one is given,
       properties are merged, and one that is None is removed.
    2. Both ends of an edge exist, or the same call makes them.
    3. An edge of the same ends and type, whose span meets the new one's, is the same edge: its
       properties are merged, its span begins at the earlier time and ends where it is said.
    4. Of a single-valued type a node has one edge at any time. A new one begins now unless it
       says when: the edge before it ends there, and it ends where a later one begins. One that
       it covers ends as ``superseded``. What was valid before stays in the graph as of then.

    Args:
        nodes, edges: What to add.
        single_valued: Keys of the types of which a node has one edge at a time.
        command_of: Makes the commands.
    """

    def __init__(
        self,
        nodes: Sequence[NewNode],
        edges: Sequence[NewEdge],
        single_valued: frozenset[str],
        command_of: CommandOf,
    ) -> None:
        self.nodes, self.edges = nodes, edges
        self.single_valued, self.command_of = single_valued, command_of
        self.edge_ids: list[UUID] = []
        """For each edge the memory that holds it; known once it was decided."""

    def __call__(self, seen: Slice) -> list[Step]:
        """The steps; see ``Decision``."""
        self._steps: list[Step] = []
        self._seen, self._now = seen, seen.now
        self._nodes: dict[str, tuple[UUID, Node]] = {}
        self._edges: dict[tuple[str, str], list[_Edge]] = {}
        for node in self.nodes:
            self._node(node)
        self.edge_ids = [self._edge(edge) for edge in self.edges]
        return self._steps

    def _known_node(self, node_id: str) -> tuple[UUID, Node] | None:
        """A node as it is by now, and the memory that holds it."""
        if node_id not in self._nodes:
            for state in self._seen.grouped(NODE, node_key).get(node_id, ()):
                if state.is_current(self._now) and isinstance(state.payload, Node):
                    self._nodes[node_id] = state.memory_id, state.payload
        return self._nodes.get(node_id)

    def _beside(self, key: tuple[str, str]) -> list[_Edge]:
        """The edges of a type out of a node, as they are by now."""
        if key not in self._edges:
            self._edges[key] = [
                _known(state, state.payload)
                for state in self._seen.grouped(EDGE, edge_key).get(key, ())
                if state.is_current(self._now) and isinstance(state.payload, Edge)
            ]
        return self._edges[key]

    def _node(self, new: NewNode) -> None:
        memory_id, before = self._known_node(new.id) or (None, None)
        properties = _merged(before.properties if before else {}, new.properties)
        name = new.name or (before.name if before else new.id)
        told = [name, new.type, *(f"{n}: {in_words(v)}" for n, v in properties.items())]
        details = {"node_id": new.id, "type": new.type, "name": name, "properties": properties}
        command = self.command_of(NODE, " | ".join(told), details, {})
        payload = payload_of(command)
        assert isinstance(payload, Node)
        if memory_id is None:
            made = Make(command=command)
            self._steps.append(made)
            memory_id = made.memory_id
        elif payload != before:
            self._steps.append(Replace(memory_id=memory_id, command=command))
        self._nodes[new.id] = memory_id, payload

    def _edge(self, new: NewEdge) -> UUID:
        self._require_ends(new)
        start = optional_time("valid_from", {"valid_from": new.valid_from})
        until = optional_time("valid_until", {"valid_until": new.valid_until})
        check_span(start, until)
        payload = self._payload(new, _merged({}, new.properties))
        key = _siblings(payload)
        same = next((e for e in self._beside(key) if self._is_same(e, new, start, until)), None)
        if same is not None:
            return self._add_to(same, new, start, until)
        if key[1] in self.single_valued:
            start = start or self._now
            until = self._room_until(self._beside(key), start, until)
        return self._make(payload, start, until)

    def _require_ends(self, new: NewEdge) -> None:
        for field, node_id in (("source_id", new.source_id), ("target_id", new.target_id)):
            if self._known_node(node_id) is None:
                raise unknown_node(node_id, field)

    def _is_same(
        self, edge: _Edge, new: NewEdge, start: datetime | None, until: datetime | None
    ) -> bool:
        if edge.payload.target_id != new.target_id:
            return False
        if start is None and until is None:
            return edge.valid_at(self._now)
        return edge.overlaps(start, until)

    def _add_to(
        self, edge: _Edge, new: NewEdge, start: datetime | None, until: datetime | None
    ) -> UUID:
        merged = self._payload(new, _merged(edge.payload.properties, new.properties))
        begins = edge.start if start is None or edge.start is None else min(start, edge.start)
        ends = edge.until if until is None else until
        if _siblings(merged)[1] in self.single_valued and begins is not None:
            others = [e for e in self._beside(_siblings(merged)) if e is not edge]
            ends = self._room_until(others, begins, ends, edge.memory_id)
        if merged.properties != edge.payload.properties:
            command = self._command(merged, edge.start, edge.until)
            self._steps.append(Replace(memory_id=edge.memory_id, command=command))
            edge.payload = merged
        self._span(edge, begins, ends)
        return edge.memory_id

    def _make(self, payload: Edge, start: datetime | None, until: datetime | None) -> UUID:
        """The new edge, once there is room for it."""
        made = Make(command=self._command(payload, start, until))
        self._steps.append(made)
        key = _siblings(payload)
        if key[1] in self.single_valued and start is not None:
            self._make_room(list(self._beside(key)), start, until, made.memory_id)
        self._beside(key).append(_Edge(made.memory_id, payload, start, until))
        return made.memory_id

    def _room_until(
        self,
        others: Iterable[_Edge],
        start: datetime,
        until: datetime | None,
        by: UUID | None = None,
    ) -> datetime | None:
        """The end that is given, else where the next of the other edges begins."""
        later = [e.start for e in others if e.start is not None and e.start > start]
        ends = until if until is not None or not later else min(later)
        if by is not None:
            self._make_room(list(others), start, ends, by)
        return ends

    def _make_room(
        self, others: Iterable[_Edge], start: datetime, until: datetime | None, by: UUID
    ) -> None:
        """Takes a span away from the other edges: what is left of each is kept."""
        for edge in others:
            if not edge.overlaps(start, until):
                continue
            before = edge.start is None or edge.start < start
            after = until is not None and (edge.until is None or until < edge.until)
            former = edge.until
            if before:
                self._span(edge, edge.start, start)
                if after:
                    self._again(edge, until, former)
            elif after:
                self._span(edge, until, edge.until)
            else:
                self._beside(_siblings(edge.payload)).remove(edge)
                ended = End(memory_id=edge.memory_id, because=ReasonCode.SUPERSEDED, replaced_by=by)
                self._steps.append(ended)

    def _again(self, edge: _Edge, start: datetime | None, until: datetime | None) -> None:
        """The part of an edge behind a span that was taken out of its middle."""
        made = Make(command=self._command(edge.payload, start, until))
        self._steps.append(made)
        self._beside(_siblings(edge.payload)).append(
            _Edge(made.memory_id, edge.payload, start, until)
        )

    def _span(self, edge: _Edge, start: datetime | None, until: datetime | None) -> None:
        changed: dict[str, Any] = {}
        if start != edge.start:
            changed["valid_from"] = start
        if until != edge.until:
            changed["valid_until"] = until
        if changed:
            self._steps.append(Adjust(command=Amend(memory_id=edge.memory_id, **changed)))
            edge.start, edge.until = start, until

    def _payload(self, new: NewEdge, properties: dict[str, Any]) -> Edge:
        names = [self._nodes[node_id][1].name for node_id in (new.source_id, new.target_id)]
        words = f"{names[0]} {new.type} {names[1]}"
        told = [words, *(f"{name}: {in_words(value)}" for name, value in properties.items())]
        return Edge(
            kind=EDGE,
            content=" | ".join(told),
            source_id=new.source_id,
            target_id=new.target_id,
            type=new.type,
            properties=properties,
        )

    def _command(self, payload: Edge, start: datetime | None, until: datetime | None) -> Remember:
        details = payload.model_dump(mode="json", exclude={"kind", "content"})
        spans = {"valid_from": start, "valid_until": until}
        return self.command_of(EDGE, payload.content, details, spans)


def end_node(seen: Slice, node_id: str) -> list[Step]:
    """The end of a node as ``retracted``, with all edges that lead to it or away from it."""
    return [
        End(memory_id=state.memory_id, because=ReasonCode.RETRACTED)
        for state in seen.states.values()
        if state.status is Status.CURRENT and node_id in nodes_named(state)
    ]


def end_edge(seen: Slice, edge_id: UUID, at: datetime | None, *, retract: bool) -> list[Step]:
    """
    An edge is no longer valid, or never was.

    Args:
        seen: What the owner has.
        edge_id: Which.
        at: The end of its valid span; None is now.
        retract: It was wrong: it ends as ``retracted``, whatever its span.

    Raises:
        InputError: There is no such edge, or its span would end before it begins.
    """
    state = seen.states.get(edge_id)
    if state is None or state.status is not Status.CURRENT or not isinstance(state.payload, Edge):
        raise InputError(
            f"there is no edge {edge_id} in this graph.",
            code="unknown_memory",
            field="edge_id",
            value=str(edge_id),
        )
    if retract:
        return [End(memory_id=edge_id, because=ReasonCode.RETRACTED)]
    until, end = state.columns.valid_until, seen.now if at is None else at
    if until == end or (at is None and until is not None and until <= end):
        return []
    return [Adjust(command=Amend(memory_id=edge_id, valid_until=end))]


def _known(state: MemoryState, payload: Edge) -> _Edge:
    columns = state.columns
    return _Edge(state.memory_id, payload, columns.valid_from, columns.valid_until)


def _siblings(payload: Edge) -> tuple[str, str]:
    return payload.source_id, name_key(payload.type)


def node_key(state: MemoryState) -> str | None:
    """What a node is looked for by."""
    return state.payload.node_id if isinstance(state.payload, Node) else None


def edge_key(state: MemoryState) -> tuple[str, str] | None:
    """What an edge is looked for by: where it begins, and its type."""
    return _siblings(state.payload) if isinstance(state.payload, Edge) else None


def nodes_named(state: MemoryState) -> tuple[str, ...]:
    """The id of a node, or those of an edge's two ends."""
    if isinstance(state.payload, Node):
        return (state.payload.node_id,)
    if isinstance(state.payload, Edge):
        return state.payload.source_id, state.payload.target_id
    return ()


def _merged(before: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in {**before, **new}.items() if value is not None}
