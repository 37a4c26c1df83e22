"""Graphs on the ledger: identity, bad input, many writers, large ones, prompts and tools."""

from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest

from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.stores.graph import GraphMemory
from memoriale.adapters.library.stores.ledger_graph import LedgerGraph
from memoriale.domain.errors import InputError
from memoriale.domain.stores.graph import GraphEdge, GraphMemoryConfig, GraphStore
from tests.fixtures.graphs import CITIES, FEB, JAN, MAR, edge, lives


def test_nodes_merge(graph: LedgerGraph) -> None:
    """A node of an id is one: type and given name are the latest, properties are merged."""
    graph.add([{"id": "ann", "type": "friend", "properties": {"age": 4, "city": "Oslo"}}])
    added = graph.add([{"id": "ann", "type": "friend", "properties": {"age": None}}])
    (node,) = added.nodes
    assert (node.type, node.name, node.properties) == ("friend", "Ann Lee", {"city": "Oslo"})
    head = graph.storage.list().index
    graph.add([{"id": "ann", "type": "friend"}])
    assert graph.storage.list().index == head
    assert [n.id for n in graph.search("oslo", type="FRIEND")] == ["ann"]


@pytest.mark.parametrize("node_id", ["a:b", "a_b", "100%", "org/team", "a b", "東京", "' OR 1=1"])
def test_any_text_is_an_id(node_id: str, graph: LedgerGraph) -> None:
    """An id is matched whole, whatever its characters, and finds its node."""
    others = (node_id + "%", "_" + node_id[1:])
    graph.add([{"id": one, "type": "t", "name": "n"} for one in (node_id, *others)])
    graph.add(edges=[edge("ann", node_id)])
    assert [one.node.id for one in graph.neighbours("ann")] == [node_id]
    assert [n.id for n in graph.search(node_id)][:1] == [node_id]
    assert graph.delete_node(node_id) == 2
    assert graph.get_node(others[0]) is not None


def test_unknown_ids_and_bad_values_store_nothing(graph: LedgerGraph) -> None:
    """What is not there or cannot be is an error that names its field; nothing is stored."""
    head = graph.storage.list().index
    for call in (
        lambda: graph.neighbours("x"),
        lambda: graph.traverse(["ann", "x"]),
        lambda: graph.shortest_path("ann", "x"),
        lambda: graph.close_edge(UUID(int=1)),
        lambda: graph.delete_edge("no id"),
        lambda: graph.neighbours("ann", direction="up"),
        lambda: graph.traverse("ann", -1),
        lambda: graph.traverse("ann", max_nodes=0),
        lambda: graph.add([{"id": "b", "type": " "}]),
        lambda: graph.add([{"id": "b", "type": "t", "properties": {"x": float("inf")}}]),
        lambda: graph.add([{"id": "b\ud800", "type": "t"}]),
        lambda: graph.add(edges=[edge("ann", "oslo", valid_from=MAR, valid_until=JAN)]),
        lambda: graph.add(edges=[edge("ann", "oslo", valid_from="yesterday")]),
        lambda: graph.add(edges=[edge("ann", "oslo", colour="red")]),
        lambda: LedgerGraph(graph.storage, single_valued=[""]),
    ):
        with pytest.raises(InputError) as error:
            call()
        assert error.value.field
    assert graph.storage.list().index == head
    assert graph.get_node("x") is None
    assert graph.delete_node("x") == 0


def test_two_writers_lose_nothing(graph: LedgerGraph) -> None:
    """Of what eight threads add at once all is kept: properties, edges, one home at a time."""

    def say(n: int) -> None:
        node = {"id": "ann", "type": "person", "properties": {f"p{n}": n}}
        home = edge("ann", CITIES[n % 3], "lives_in")
        graph.add([node], [edge("ann", "oslo", f"t{n}"), home])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(say, range(24)))
    node = graph.get_node("ann")
    assert node is not None
    assert node.properties == {f"p{n}": n for n in range(24)}
    assert len(lives(graph)) == 1
    assert len(graph.neighbours("ann")) == 25


def test_as_of_and_replay(graph: LedgerGraph, shared_ledger: Ledger, tenant: str) -> None:
    """The graph is told as it was recorded then; views rebuilt are equal."""
    graph.add(edges=[edge("ann", "oslo", "lives_in", valid_from=JAN)])
    index = graph.storage.list().index
    graph.add(edges=[edge("ann", "rome", "lives_in", valid_from=FEB)])
    graph.delete_node("oslo")
    assert lives(graph, FEB) == ["rome"]
    assert lives(graph, FEB, as_of=index) == ["oslo"]
    graph.delete_edge(graph.list_edges("ann")[0].id)
    assert lives(graph) == []
    assert all(report.equal for report in shared_ledger.replay(tenant=tenant, verify=True))


@pytest.mark.slow
def test_a_large_graph_is_walked_within_bounds(graph: LedgerGraph) -> None:
    """Of 10,000 nodes in a ring around a hub a walk gives as many as were asked for."""
    nodes = [{"id": f"n{n}", "type": "t"} for n in range(10_000)]
    ring = [edge(f"n{n}", f"n{(n + 1) % 10_000}", "next") for n in range(10_000)]
    graph.add(nodes, ring)
    near = graph.traverse("n0", 100, max_nodes=50, max_edges=20)
    assert (len(near.nodes), len(near.edges), near.truncated) == (50, 20, True)
    whole = graph.traverse("n0", 3)
    assert ([n.id for n in whole.nodes][-1], whole.truncated) == ("n9997", False)
    path = graph.shortest_path("n0", "n5000")
    assert path is not None
    assert len(path.edges) == 5_000


def test_context_tools_and_record(graph: LedgerGraph, shared_ledger: Ledger, tenant: str) -> None:
    """The tools query, walk and relate; prompts are quoted, and on record once."""
    memory = GraphMemory(graph.storage, GraphMemoryConfig(single_valued=("lives_in",)))
    query, traverse, relate = memory.get_tools()
    told = relate.handler({"source_id": "ann", "target_id": "oslo", "type": "<b>likes"})
    assert told == "- ann → &lt;b&gt;likes → oslo"
    assert query.handler({"query": "who is Ann"}) == "- Ann Lee (person, id ann)"
    assert query.handler({"query": "nothing"}) == "Nothing is found."
    near = traverse.handler({"entity_id": "ann"})
    assert near.split("\n") == ["- Ann Lee (person, id ann)", "- oslo (city, id oslo)", told]
    assert memory.get_context_string("about Ann") == near
    assert memory.get_context_string() == memory.get_context_string("unheard of") == ""
    with pytest.raises(InputError, match="'x'"):
        relate.handler({"source_id": "ann", "target_id": "x", "type": "knows"})
    node = graph.get_node("ann")
    assert node is not None
    assert node.memory_id is not None
    entries = shared_ledger.access.who_saw(node.memory_id, tenant=tenant)
    commands = [entry.command for entry in entries]
    assert commands.count("graph.context") == 1
    assert commands.count("graph.traverse") == 1


class Elsewhere(LedgerGraph):
    """Another graph store than the default one."""


def test_another_store_takes_its_place(alice: Memory, shared_ledger: Ledger, tenant: str) -> None:
    """A store that is given is used; what only the ledger's graph knows is refused with it."""
    other = Elsewhere(shared_ledger.memory(tenant=tenant, user="carol"))
    other.add([{"id": "zoe", "type": "person"}])
    memory = GraphMemory(alice, {"graph_store": other})
    memory.initialize()
    assert memory.get_store() is other
    assert isinstance(GraphMemory(alice).get_store(), GraphStore)
    assert memory.get_context_string("zoe", "carol") == "- zoe (person, id zoe)"
    assert memory.get_context_string("zoe") == ""
    with pytest.raises(InputError, match="single_valued"):
        GraphMemory(alice, {"graph_store": other, "single_valued": ["x"]})
    with pytest.raises(InputError, match="max_context_nodes"):
        GraphMemory(alice, {"max_context_nodes": 0})


def test_edges_are_plain_values(graph: LedgerGraph) -> None:
    """An edge cannot be changed in place."""
    (made,) = graph.add(edges=[edge("ann", "oslo")]).edges
    assert isinstance(made, GraphEdge)
    with pytest.raises(ValueError, match="frozen"):
        made.type = "other"
