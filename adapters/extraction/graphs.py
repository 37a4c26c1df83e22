"""What conversations say of how things hang together: nodes and edges of a user's graph."""

import json
from typing import Any, Final

from pydantic import Field, JsonValue

from memoriale.adapters.application.reading import AsOf
from memoriale.adapters.extraction.asking import Answer
from memoriale.adapters.extraction.extractor import Config, Conversation, Day, Extractor, Reply
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.stores.ledger_graph import LedgerGraph
from memoriale.domain.chat import model_code
from memoriale.domain.stores.entities import name_key
from memoriale.domain.stores.graph import GraphNode, GraphStore, NewEdge, NewNode
from memoriale.domain.text import MAX_QUERY_CHARACTERS

_KNOWN: Final = 20


class NodeReply(Reply):
    """A thing."""

    id: str
    type: str
    name: str | None = None
    properties: dict[str, JsonValue] = Field(default_factory=dict)


class EdgeReply(Reply):
    """How one thing is related to another, from one day up to another."""

    source_id: str
    target_id: str
    type: str
    properties: dict[str, JsonValue] = Field(default_factory=dict)
    valid_from: Day | None = None
    valid_until: Day | None = None


class GraphReply(Reply):
    """Things and how they are related."""

    nodes: tuple[NodeReply, ...] = ()
    edges: tuple[EdgeReply, ...] = ()


def graph_extractor(given: GraphStore | None = None) -> Extractor[GraphReply]:
    """
    The extractor of graphs.

    Args:
        given: Where the graph is; None is the ledger.
    """

    def store_of(memory: Memory, config: Config) -> GraphStore:
        return LedgerGraph(memory, **config) if given is None else given

    def asked(memory: Memory, said: Conversation, config: Config, as_of: AsOf) -> dict[str, str]:
        # A store of somebody else's may not know how it was.
        point = as_of if given is None else None
        known = [
            {"id": node.id, "type": node.type, "name": node.name}
            for node in _near(store_of(memory, config), memory, said, point)
        ]
        return {"known": json.dumps(known, ensure_ascii=False)}

    def store(
        memory: Memory, answer: Answer[GraphReply], said: Conversation, config: Config
    ) -> dict[str, Any]:
        return _store(store_of(memory, config), memory, answer, said)

    return Extractor(name="graph", version=1, reply=GraphReply, asked=asked, store=store)


def _near(store: GraphStore, memory: Memory, said: Conversation, as_of: AsOf) -> list[GraphNode]:
    """The nodes that the conversation is about."""
    about = "\n".join(message.text() for message in said.messages).strip()
    if not about:
        return []
    query = about[-MAX_QUERY_CHARACTERS:]
    return store.search(query, limit=_KNOWN, user_id=memory.principal.user, as_of=as_of)


def _store(
    store: GraphStore, memory: Memory, answer: Answer[GraphReply], said: Conversation
) -> dict[str, Any]:
    """
    What is known by its id, or by its name among what the conversation is about, is the same
    node. An edge to what neither is known nor in the reply is left out and counted.
    """
    user, told = memory.principal.user, answer.value
    ids = {name_key(node.name): node.id for node in _near(store, memory, said, None)}

    def id_of(text: str) -> str:
        known = store.get_node(text, user_id=user)
        return text if known is not None else ids.get(name_key(text), name_key(text))

    nodes = [
        NewNode(
            id=id_of(node.id),
            type=node.type,
            name=node.name or (None if store.get_node(id_of(node.id), user_id=user) else node.id),
            properties=node.properties,
        )
        for node in told.nodes
    ]
    there = {node.id for node in nodes}
    edges = [
        NewEdge(
            source_id=id_of(edge.source_id),
            target_id=id_of(edge.target_id),
            type=edge.type,
            properties=edge.properties,
            valid_from=said.begin_of(edge.valid_from),
            valid_until=said.begin_of(edge.valid_until),
        )
        for edge in told.edges
    ]
    linked = [
        edge
        for edge in edges
        if all(
            end in there or store.get_node(end, user_id=user) is not None
            for end in (edge.source_id, edge.target_id)
        )
    ]
    if not nodes and not linked:
        return {"stored": [], "unrelated": len(edges)}
    if isinstance(store, LedgerGraph):
        added = store.add(
            nodes,
            linked,
            user_id=user,
            source="auto",
            model=model_code(answer.model),
            prompt_version=answer.prompt,
            idempotency_key=said.key("graph"),
        )
    else:
        added = store.add(nodes, linked, user_id=user)
    stored = [node.id for node in added.nodes] + [str(edge.id) for edge in added.edges]
    return {"stored": stored, "unrelated": len(edges) - len(linked)}


GRAPH: Final = graph_extractor()
