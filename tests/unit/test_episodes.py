"""The tree of episodes: every node once, whatever its parents are."""

from hypothesis import given
from hypothesis import strategies as st

from memoriale.domain.episodes import EpisodicBranch, arranged

NAMES = "abcdefgh"


def node(name: str, parent: str | None = None) -> EpisodicBranch:
    return EpisodicBranch(id=name, name=name, resource=None, parent=parent, at=None)


@given(
    st.dictionaries(
        st.sampled_from(NAMES), st.one_of(st.none(), st.sampled_from([*NAMES, "unknown"]))
    )
)
def test_no_node_is_lost_and_every_ring_is_told(parents: dict[str, str | None]) -> None:
    """Each node is in the tree once, below its parent or among the roots; rings are exactly what
    following the parents leads back to."""
    tree = arranged([node(*pair) for pair in parents.items()], 0, {})
    assert sorted(n.id for n in tree.nodes) == sorted(parents)
    below = {child.id: n.id for n in tree.nodes for child in n.children}
    opened = {cycle[0] for cycle in tree.cycles}
    for name, parent in parents.items():
        apart = parent not in parents or name in opened
        assert below.get(name) == (None if apart else parent)
    ringed = {name for name in parents if name in followed(parents, name)}
    assert {name for cycle in tree.cycles for name in cycle} == ringed
    assert {n.id for n in tree.nodes if n.in_cycle} == ringed


def followed(parents: dict[str, str | None], name: str) -> set[str]:
    """Everything that following the parents of a node comes by."""
    passed: set[str] = set()
    current = parents[name]
    while current is not None and current in parents and current not in passed:
        passed.add(current)
        current = parents[current]
    return passed


def test_a_deep_tree_is_no_recursion() -> None:
    """Ten thousand nodes below one another are arranged, with their depths."""
    chain = [node(str(n), None if n == 0 else str(n - 1)) for n in range(10_000)]
    tree = arranged(chain, 0, {str(n): n for n in range(10_000)})
    assert [n.depth for n in tree.nodes] == list(range(10_000))


def test_siblings_stand_in_the_order_of_the_log() -> None:
    """Those without a place come last, by their ids."""
    nodes = [node("c", "a"), node("b", "a"), node("a"), node("d", "a"), node("e", "a")]
    tree = arranged(nodes, 9, {"a": 0, "b": 3, "c": 1})
    assert [n.id for n in tree.nodes] == ["a", "c", "b", "d", "e"]
