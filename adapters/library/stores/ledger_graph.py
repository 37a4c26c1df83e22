"""``LedgerGraph``: users' knowledge graphs, kept on the ledger."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from memoriale.adapters.application.deciding import Decided
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.stores.graph_reading import GraphReading
from memoriale.adapters.library.stores.parsing import parsed
from memoriale.domain.commands import Remember
from memoriale.domain.errors import ConflictError
from memoriale.domain.events import ReasonCode, SourceTier
from memoriale.domain.fields import choice, optional_time, parse_id
from memoriale.domain.payloads import Edge, Node
from memoriale.domain.steps import Decision, Slice
from memoriale.domain.stores.ending import end_all
from memoriale.domain.stores.graph import (
    EDGE,
    GRAPH_KINDS,
    NODE,
    Added,
    NewEdge,
    NewNode,
    Time,
    edge_of,
    node_of,
)
from memoriale.domain.stores.graph_changes import AddToGraph, end_edge, end_node
from memoriale.domain.text import check_outside_id, check_text
from memoriale.domain.values import check_metadata

_TIERS: Final = {"manual": SourceTier.MANUAL, "auto": SourceTier.LLM_EXTRACTED}


class LedgerGraph(GraphReading):
    """
    One knowledge graph for each user. Nodes and edges are memories, with their history.

    Args:
        storage: A memory handle; its user is meant where ``user_id`` is not given.
        single_valued: Types of edges of which a node has one at a time, such as ``lives_in``;
            case and spaces do not count. See ``AddToGraph``.
    """

    def add(
        self,
        nodes: Sequence[NewNode | Mapping[str, Any]] = (),
        edges: Sequence[NewEdge | Mapping[str, Any]] = (),
        *,
        user_id: str | None = None,
        source: str = "manual",
        model: str | None = None,
        prompt_version: str | None = None,
        source_run: str | None = None,
        idempotency_key: str | None = None,
    ) -> Added:
        """
        Adds nodes and edges in one append; see ``AddToGraph``.

        Args:
            nodes: ``id`` and ``type``, and what else ``NewNode`` has.
            edges: ``source_id``, ``target_id`` and ``type``, and what else ``NewEdge`` has.
            user_id: Whose; default: the handle's user.
            source: ``manual``: somebody said so; ``auto``: a model extracted them.
            model, prompt_version, source_run: What extracted them.
            idempotency_key: A repeated call with it changes nothing, and answers what the first
                one changed.

        Returns:
            They as they are after it.

        Raises:
            InputError: A wrong field, or an edge without one of its ends; nothing was stored.
        """
        memory = self._as(user=user_id)
        asked = [_node(f"nodes[{n}]", node) for n, node in enumerate(nodes)]
        between = [_edge(f"edges[{n}]", edge) for n, edge in enumerate(edges)]
        shared = {
            "source_tier": _TIERS[choice("source", source, _TIERS) or "manual"],
            "model": model,
            "prompt_version": prompt_version,
            "source_run": source_run,
        }

        def command(
            kind: str, content: str, details: Mapping[str, Any], spans: Mapping[str, Any]
        ) -> Remember:
            details = dict(details)
            return self._command(memory, content, kind=kind, details=details, **shared, **spans)

        decision = AddToGraph(asked, between, self.single_valued, command)
        arguments = {
            "nodes": [node.model_dump(mode="json") for node in asked],
            "edges": [edge.model_dump(mode="json") for edge in between],
        }
        decided = self._change(memory, decision, "graph.add", arguments, idempotency_key)
        # As of the append itself: what others delete meanwhile is in the answer all the same.
        read = self._graph(user_id, "graph.show", decided.index)
        states = {} if read.seen is None else read.seen.states
        if not decided.created:
            again = [states[i] for i in decided.made() if i in states]
            self._given(read, "graph.show", again)
            return Added(
                nodes=tuple(node_of(one) for one in again if isinstance(one.payload, Node)),
                edges=tuple(edge_of(one) for one in again if isinstance(one.payload, Edge)),
            )
        found = [read.graph.nodes.get(node.id) for node in asked]
        made = [state for state in found if state is not None]
        linked = [states[i] for i in decision.edge_ids if i in states]
        if (len(made), len(linked)) != (len(asked), len(between)):
            raise ConflictError("a node was deleted in this moment; try again.")
        self._given(read, "graph.show", [*made, *linked])
        return Added(
            nodes=tuple(map(node_of, made)), edges=tuple(edge_of(state) for state in linked)
        )

    def delete_node(self, node_id: str, *, user_id: str | None = None) -> int:
        """
        Ends a node as ``retracted``, with all of its edges, in one append.

        Returns:
            How many memories ended; 0 when there is no such node.
        """
        wanted = check_outside_id("node_id", node_id)
        return self._ended(
            user_id, lambda seen: end_node(seen, wanted), "graph.delete_node", {"id": wanted}
        )

    def close_edge(
        self, edge_id: UUID | str, *, at: Time = None, user_id: str | None = None
    ) -> bool:
        """
        An edge is no longer true in the world from a time on; as of before it still is.

        Args:
            edge_id: Which.
            at: From when on; None: now.
            user_id: Whose; default: the handle's user.

        Returns:
            Whether anything changed.

        Raises:
            InputError: There is no such edge, or its span would end before it begins.
        """
        found, end = parse_id("edge_id", edge_id), optional_time("at", {"at": at})
        arguments = {"id": str(found), "at": None if end is None else end.isoformat()}
        decided = self._change(
            self._as(user=user_id),
            lambda seen: end_edge(seen, found, end, retract=False),
            "graph.close_edge",
            arguments,
        )
        return bool(decided.events)

    def delete_edge(self, edge_id: UUID | str, *, user_id: str | None = None) -> None:
        """
        Ends an edge that was never true, as ``retracted``.

        Raises:
            InputError: There is no such edge.
        """
        found = parse_id("edge_id", edge_id)
        self._ended(
            user_id,
            lambda seen: end_edge(seen, found, None, retract=True),
            "graph.delete_edge",
            {"id": str(found)},
        )

    def clear(self, user_id: str | None = None) -> int:
        """
        Ends all nodes and edges of a user as ``retracted``; only ``erase`` destroys.

        Returns:
            How many memories ended.
        """

        def everything(seen: Slice) -> list[Any]:
            ends = (end_all(seen, kind, ReasonCode.RETRACTED) for kind in (EDGE, NODE))
            return [step for steps in ends for step in steps]

        return self._ended(user_id, everything, "graph.clear", {})

    def _ended(
        self, user_id: str | None, decision: Decision, command: str, arguments: Mapping[str, Any]
    ) -> int:
        return len(self._change(self._as(user=user_id), decision, command, arguments).ended())

    def _change(
        self,
        memory: Memory,
        decision: Decision,
        command: str,
        arguments: Mapping[str, Any],
        idempotency_key: str | None = None,
    ) -> Decided:
        owner = self._owner(memory, "user")
        return self._decide(
            memory, owner, GRAPH_KINDS, decision, command, arguments, idempotency_key
        )


def _node(field: str, node: NewNode | Mapping[str, Any]) -> NewNode:
    """A node that can be stored; the error names its place."""
    new = parsed(field, NewNode, node)
    check_outside_id(f"{field}.id", new.id)
    check_text(f"{field}.type", new.type)
    check_text(f"{field}.name", new.name or new.id)
    check_metadata(f"{field}.properties", new.properties)
    return new


def _edge(field: str, edge: NewEdge | Mapping[str, Any]) -> NewEdge:
    """An edge that can be stored; the error names its place."""
    new = parsed(field, NewEdge, edge)
    check_outside_id(f"{field}.source_id", new.source_id)
    check_outside_id(f"{field}.target_id", new.target_id)
    check_text(f"{field}.type", new.type)
    check_metadata(f"{field}.properties", new.properties)
    return new
