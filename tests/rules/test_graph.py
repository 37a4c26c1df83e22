"""The rules of the graph (R18), each with the reference's behaviour planted to see it fail."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import pytest

from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.stores.graph import GraphMemory
from memoriale.adapters.library.stores.graph_reading import GraphReading
from memoriale.adapters.library.stores.ledger_graph import LedgerGraph
from memoriale.domain.errors import InputError
from memoriale.domain.memory import MemoryState
from memoriale.domain.payloads import Node
from memoriale.domain.stores.graph import NewEdge
from memoriale.domain.stores.graph_changes import AddToGraph
from memoriale.domain.stores.graph_walks import Graph, Reached, Step, _ends
from tests.fixtures.graphs import APR, FEB, JAN, MAR, edge, lives
from tests.rules.planting import Planted


def r18_valid_time(graph: LedgerGraph) -> None:
    """An edge is walked at the times at which it is true, and closing one ends it from then on."""
    (been,) = graph.add(
        edges=[edge("ann", "oslo", "visits", valid_from=JAN, valid_until=MAR)]
    ).edges
    assert [n.edge for n in graph.neighbours("ann", valid_at=FEB)] == [been]
    assert graph.neighbours("ann", valid_at=MAR) == []
    assert graph.neighbours("ann") == []
    assert graph.close_edge(been.id, at=FEB)
    assert graph.neighbours("ann", valid_at=FEB) == []
    assert graph.shortest_path("ann", "oslo", valid_at=JAN) is not None


def r18_single_valued(graph: LedgerGraph) -> None:
    """A new edge of a single-valued type closes the one before it, which stays as of then."""
    graph.add(edges=[edge("ann", "oslo", "lives in", valid_from=JAN)])
    graph.add(edges=[edge("ann", "rome", "Lives in", valid_from=FEB)])
    assert lives(graph) == ["rome"]
    assert lives(graph, JAN) == ["oslo"]
    graph.add(edges=[edge("ann", "paris", "lives_in")])
    assert lives(graph) == ["paris"]
    assert lives(graph, APR) == ["rome"]


def r18_ends_exist(graph: LedgerGraph) -> None:
    """Both ends of an edge exist or are made with it; else nothing is stored."""
    with pytest.raises(InputError, match="nobody"):
        graph.add([{"id": "bob", "type": "person"}], [edge("bob", "nobody")])
    assert graph.get_node("bob") is None
    graph.add([{"id": "bob", "type": "person"}], [edge("bob", "ann")])
    assert graph.delete_node("bob") == 2
    assert graph.neighbours("ann") == []


def r18_once(graph: LedgerGraph) -> None:
    """The same edge is kept once, with what both calls say of it."""
    (first,) = graph.add(edges=[edge("ann", "oslo", "works at", properties={"a": 1, "b": 1})]).edges
    more = edge("ann", "oslo", "Works_At", properties={"b": None, "c": 2}, valid_until=MAR)
    (second,) = graph.add(edges=[more]).edges
    assert second.id == first.id
    assert second.properties == {"a": 1, "c": 2}
    assert second.valid_until == datetime.fromisoformat(MAR)
    assert len(graph.list_edges(include_ended=True)) == 1


def r18_owner(graph: LedgerGraph) -> None:
    """Two users have a node of one id each, and neither sees or reaches the other's."""
    graph.add([{"id": "ann", "type": "horse"}], user_id="bob")
    found = graph.get_node("ann"), graph.get_node("ann", user_id="bob")
    assert [node and node.type for node in found] == ["person", "horse"]
    assert graph.get_node("oslo", user_id="bob") is None
    assert graph.clear("bob") == 1


def r18_walks(graph: LedgerGraph) -> None:
    """Walks follow the direction, end in cycles, stop at the depth; a path has fewest edges."""
    circle = [edge("ann", "oslo"), edge("oslo", "rome"), edge("rome", "ann"), edge("rome", "rome")]
    graph.add(edges=[*circle, edge("rome", "paris")])
    assert ids(graph, "ann", depth=1, direction="out") == ["ann", "oslo"]
    assert ids(graph, "ann", depth=1, direction="in") == ["ann", "rome"]
    assert ids(graph, "ann", depth=9) == ["ann", "oslo", "rome", "paris"]
    forwards = graph.shortest_path("ann", "paris", direction="out")
    either = graph.shortest_path("ann", "paris")
    assert forwards is not None
    assert either is not None
    assert [node.id for node in forwards.nodes] == ["ann", "oslo", "rome", "paris"]
    assert [node.id for node in either.nodes] == ["ann", "rome", "paris"]
    assert [one.target_id for one in either.edges] == ["ann", "paris"]
    assert graph.shortest_path("paris", "ann", direction="out") is None


def r18_sentences(graph: LedgerGraph) -> None:
    """A sentence finds the nodes that it has a word of, and no node by a part of a word."""
    graph.add([{"id": "al", "type": "person", "name": "Al"}])
    assert [n.id for n in graph.search("Where did Ann go on holiday?")] == ["ann"]
    assert graph.search("annual also") == []


def r18_capped(graph: LedgerGraph) -> None:
    """A prompt has at most so many nodes, and twice as many edges."""
    graph.add(edges=[edge("ann", "oslo", f"t{n}") for n in range(9)])
    memory = GraphMemory(graph.storage, {"max_context_nodes": 2})
    lines = memory.get_context_string("tell me of Ann").split("\n")
    assert len(lines) == 2 + 4 + 1
    assert lines[-1] == "(there is more; traverse_entity tells it)"


def ids(graph: LedgerGraph, start: str, **how: Any) -> list[str]:
    """The nodes within reach."""
    return [node.id for node in graph.traverse(start, **how).nodes]


RULES: dict[str, Callable[[LedgerGraph], None]] = {
    r.__name__: r
    for r in (
        r18_valid_time,
        r18_single_valued,
        r18_ends_exist,
        r18_once,
        r18_owner,
        r18_walks,
        r18_sentences,
        r18_capped,
    )
}

REACH = Graph.reach


def always_valid(self: MemoryState, at: datetime) -> bool:
    """As the reference, where nothing sets the end of an edge."""
    return True


def no_room_made(self: AddToGraph, others: object, start: object, until: object, by: UUID) -> None:
    """As the reference, which never ends an edge that a new one contradicts."""


def ends_taken_for_granted(self: AddToGraph, new: NewEdge) -> None:
    """As the reference, which does not look for the ends of an edge."""
    for node_id in (new.source_id, new.target_id):
        made = Node(kind="node", content=node_id, node_id=node_id, type="", name=node_id)
        self._nodes.setdefault(node_id, (uuid4(), made))


def never_the_same(self: AddToGraph, *about: object) -> bool:
    """As the reference's tool, which adds whatever it is told."""
    return False


def of_anybody(self: GraphReading, **who: str | None) -> Memory:
    """As a graph that all users share."""
    return self.storage


def outwards(self: Graph, node_id: str, direction: str, types: frozenset[str]) -> list[Step]:
    """As the reference, which follows edges out alone."""
    return [Step(edge, _ends(edge)[1]) for edge in self._out.get(node_id, ())]


def whole_input(self: Graph, query: str, type_: str | None, words: object) -> list[MemoryState]:
    """As the reference: the whole input in a name, or a name in a part of a word."""
    found = []
    for state in self.nodes.values():
        assert isinstance(state.payload, Node)
        if query.lower() in state.payload.name.lower() or state.payload.name.lower() in query:
            found.append(state)
    return found


def uncapped(
    self: Graph,
    starts: Sequence[str],
    depth: int,
    direction: str,
    types: frozenset[str],
    max_nodes: int,
    max_edges: int,
) -> Reached:
    """As the reference, which tells all edges."""
    return REACH(self, starts, depth, direction, types, max_nodes, 1_000_000)


PLANTED = {
    "r18_valid_time": Planted(MemoryState, "is_valid", always_valid),
    "r18_single_valued": Planted(AddToGraph, "_make_room", no_room_made),
    "r18_ends_exist": Planted(AddToGraph, "_require_ends", ends_taken_for_granted),
    "r18_once": Planted(AddToGraph, "_is_same", never_the_same),
    "r18_owner": Planted(GraphReading, "_as", of_anybody),
    "r18_walks": Planted(Graph, "steps", outwards),
    "r18_sentences": Planted(Graph, "search", whole_input),
    "r18_capped": Planted(Graph, "reach", uncapped),
}


@pytest.mark.parametrize("name", RULES)
def test_rule(name: str, graph: LedgerGraph) -> None:
    """Each rule holds."""
    RULES[name](graph)


@pytest.mark.parametrize("name", PLANTED)
def test_the_planted_reference_behaviour_breaks_the_rule(
    name: str, graph: LedgerGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the reference's behaviour in its place each rule's check turns red."""
    PLANTED[name].put(monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        RULES[name](graph)


def spans(graph: LedgerGraph) -> list[tuple[str, str | None, str | None]]:
    """Where Ann lives from when to when, the earliest first."""

    def month(time: datetime | None) -> str | None:
        return None if time is None else time.strftime("%b")

    edges = [e for e in graph.list_edges("ann", include_ended=True) if e.invalidated_at is None]
    edges.sort(key=lambda e: e.valid_from.timestamp() if e.valid_from else 0)
    return [(e.target_id, month(e.valid_from), month(e.valid_until)) for e in edges]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            [("oslo", FEB, None), ("rome", JAN, None)],
            [("rome", "Jan", "Feb"), ("oslo", "Feb", None)],
        ),
        (
            [("oslo", JAN, None), ("rome", FEB, MAR)],
            [("oslo", "Jan", "Feb"), ("rome", "Feb", "Mar"), ("oslo", "Mar", None)],
        ),
        (
            [("oslo", JAN, MAR), ("rome", FEB, None)],
            [("oslo", "Jan", "Feb"), ("rome", "Feb", None)],
        ),
        (
            [("oslo", FEB, APR), ("rome", JAN, MAR)],
            [("rome", "Jan", "Mar"), ("oslo", "Mar", "Apr")],
        ),
        ([("oslo", FEB, MAR), ("rome", JAN, APR)], [("rome", "Jan", "Apr")]),
        ([("oslo", JAN, None), ("rome", JAN, None)], [("rome", "Jan", None)]),
        (
            [("oslo", JAN, FEB), ("rome", FEB, MAR), ("oslo", MAR, None)],
            [("oslo", "Jan", "Feb"), ("rome", "Feb", "Mar"), ("oslo", "Mar", None)],
        ),
        (
            [("oslo", FEB, None), ("rome", MAR, None), ("oslo", JAN, None)],
            [("oslo", "Jan", "Mar"), ("rome", "Mar", None)],
        ),
    ],
)
def test_single_valued_spans_never_overlap(
    given: list[tuple[str, str, str | None]],
    expected: list[tuple[str, str | None, str | None]],
    graph: LedgerGraph,
) -> None:
    """In whatever order edges are told, one at a time or together, one holds at any time."""
    edges = [
        edge("ann", city, "lives_in", valid_from=start, valid_until=until)
        for city, start, until in given
    ]
    for one in edges:
        graph.add(edges=[one])
    assert spans(graph) == expected
    graph.add([{"id": "ann", "type": "person"}, {"id": "twin", "type": "person"}])
    graph.add(edges=[{**one, "source_id": "twin"} for one in edges])
    twins = [e for e in graph.list_edges("twin", include_ended=True) if not e.invalidated_at]
    assert len(twins) == len(expected)
