"""``GraphMemory``: what a user's knowledge graph tells a language model."""

from collections.abc import Mapping
from typing import Any, Final

from memoriale.adapters.application.reading import AsOf
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.stores.base import Store
from memoriale.adapters.library.stores.extracting import Messages, extract_now
from memoriale.adapters.library.stores.ledger_graph import LedgerGraph
from memoriale.adapters.library.stores.parsing import parsed
from memoriale.domain.chat import ModelProvider
from memoriale.domain.errors import InputError
from memoriale.domain.rendering import bullet, in_words
from memoriale.domain.stores.context import Line, Section
from memoriale.domain.stores.graph import (
    GraphEdge,
    GraphMemoryConfig,
    GraphNode,
    GraphStore,
    Subgraph,
    Time,
)
from memoriale.domain.tools import ToolDef, object_schema

_SEEDS: Final = 5
_DEPTH: Final = 2
_FOUND: Final = 10


class GraphMemory(Store):
    """
    A user's knowledge graph for prompts and tools.

    Taken from ``GraphMemory`` of reference system A; ``docs/parity.md`` says what is different.

    Args:
        storage: A memory handle; its user is meant where ``user_id`` is not given.
        config: See ``GraphMemoryConfig``; default: the graph is on the ledger.
    """

    def __init__(
        self, storage: Memory, config: GraphMemoryConfig | Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(storage)
        self.config = parsed("config", GraphMemoryConfig, config)
        given, single_valued = self.config.graph_store, self.config.single_valued
        if given is not None and single_valued:
            raise InputError(
                "config.single_valued is for the ledger's graph; tell the graph_store itself.",
                code="bad_value",
                field="config.single_valued",
                value=list(single_valued),
                allowed=[],
            )
        ledger = LedgerGraph(storage, single_valued=single_valued)
        self._store: GraphStore = ledger if given is None else given

    def initialize(self) -> None:
        """Makes the graph store ready."""
        self._store.initialize()

    def get_store(self) -> GraphStore:
        """Where the graph is."""
        return self._store

    def get_context_string(
        self,
        current_input: str | None = None,
        user_id: str | None = None,
        *,
        as_of: AsOf = None,
        valid_at: Time = None,
    ) -> str:
        """
        What is near the nodes that an input is about, as lines for a prompt: at most
        ``max_context_nodes`` nodes and twice as many edges. Empty without an input.

        Args:
            current_input: Nodes that share a word with it are where the walk begins.
            user_id: Whose; default: the handle's user.
            as_of: As then: an index or a time.
            valid_at: Edges that are true in the world at this time; default: the time of the
                read.
        """
        section = self.context_section(current_input, user_id, as_of=as_of, valid_at=valid_at)
        return self._shown(self._as(user=user_id), "graph.context", section, as_of)

    def context_section(
        self,
        current_input: str | None = None,
        user_id: str | None = None,
        *,
        as_of: AsOf = None,
        valid_at: Time = None,
    ) -> Section:
        """The same as a section of a larger context, which puts it on record."""
        near = Subgraph()
        if current_input is not None and current_input.strip():
            near = self._near(current_input, user_id, as_of, valid_at)
        lines = [*map(_node_line, near.nodes), *map(_edge_line, near.edges)]
        notes = ("(there is more; traverse_entity tells it)",) if near.truncated else ()
        return Section(name="graph", visible_to="user", lines=lines, notes=notes)

    def extract_from_conversation(
        self,
        user_id: str | None = None,
        messages: Messages = (),
        model: ModelProvider | None = None,
        timezone: str | None = None,
    ) -> dict[str, Any]:
        """Nodes and edges from a conversation if ``auto_extract`` is on; see ``extract_now``."""
        if not self.config.auto_extract:
            return {"stored": []}
        from memoriale.adapters.extraction.graphs import graph_extractor

        given, memory = self.config.graph_store, self._as(user=user_id)
        single_valued = {} if given else {"single_valued": self.config.single_valued}
        return extract_now(
            graph_extractor(given),
            memory,
            messages,
            model or self.config.model,
            timezone,
            **single_valued,
        )

    def get_tools(self) -> list[ToolDef]:
        """``query_graph``, ``traverse_entity`` and ``add_relationship`` for the handle's user."""
        text = {"type": "string"}
        points = {"as_of": text, "valid_at": text}
        return [
            ToolDef(
                name="query_graph",
                description="Finds things in the user's knowledge graph. Answers them with ids.",
                parameters=object_schema({"query": text, "type": text, "as_of": text}, "query"),
                handler=self._queried,
            ),
            ToolDef(
                name="traverse_entity",
                description="Tells what is near a thing of the knowledge graph, and how.",
                parameters=object_schema(
                    {
                        "entity_id": text,
                        "max_depth": {"type": "integer", "minimum": 0, "maximum": 10},
                        **points,
                    },
                    "entity_id",
                ),
                handler=self._traversed,
            ),
            ToolDef(
                name="add_relationship",
                description="Relates two things that are in the knowledge graph already.",
                parameters=object_schema(
                    {"source_id": text, "target_id": text, "type": text},
                    "source_id",
                    "target_id",
                    "type",
                ),
                handler=self._related,
            ),
        ]

    def _near(
        self, current_input: str, user_id: str | None, as_of: AsOf, valid_at: Time
    ) -> Subgraph:
        memory = self._as(user=user_id)
        user = self._owner(memory, "user").id
        store = self._store.unrecorded() if isinstance(self._store, LedgerGraph) else self._store
        seeds = store.search(current_input, limit=_SEEDS, user_id=user, as_of=as_of)
        if not seeds:
            return Subgraph()
        most = self.config.max_context_nodes
        return store.traverse(
            [seed.id for seed in seeds],
            _DEPTH,
            max_nodes=most,
            max_edges=2 * most,
            user_id=user,
            as_of=as_of,
            valid_at=valid_at,
        )

    def _user(self) -> str:
        return self._owner(self.storage, "user").id

    def _queried(self, given: Mapping[str, Any]) -> str:
        found = self._store.search(
            given["query"],
            type=given.get("type"),
            limit=_FOUND,
            user_id=self._user(),
            as_of=given.get("as_of"),
        )
        return "\n".join(_node_line(node).text for node in found) or "Nothing is found."

    def _related(self, given: Mapping[str, Any]) -> str:
        added = self._store.add(edges=[given], user_id=self._user())
        return "\n".join(_edge_line(edge).text for edge in added.edges)

    def _traversed(self, given: Mapping[str, Any]) -> str:
        near = self._store.traverse(
            given["entity_id"],
            given.get("max_depth", _DEPTH),
            user_id=self._user(),
            as_of=given.get("as_of"),
            valid_at=given.get("valid_at"),
        )
        lines = [*map(_node_line, near.nodes), *map(_edge_line, near.edges)]
        told = [line.text for line in lines] + ["(there is more)"] * near.truncated
        return "\n".join(told)


def _node_line(node: GraphNode) -> Line:
    properties = "; ".join(f"{n}: {in_words(v)}" for n, v in node.properties.items())
    told = f"{node.name} ({node.type}, id {node.id})"
    text = bullet(f"{told}: {properties}" if properties else told)
    known = node.memory_id is not None and node.index is not None
    return Line(text, ((node.memory_id, node.index),) if known else ())  # type: ignore[arg-type]


def _edge_line(edge: GraphEdge) -> Line:
    properties = "; ".join(f"{n}: {in_words(v)}" for n, v in edge.properties.items())
    told = f"{edge.source_id} → {edge.type} → {edge.target_id}"
    text = bullet(f"{told}: {properties}" if properties else told)
    return Line(text, () if edge.index is None else ((edge.id, edge.index),))
