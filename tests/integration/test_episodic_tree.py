"""The tree of what happened: ancestors up to each fork, descendants, and nobody else's branches."""

from collections.abc import Callable
from typing import Any

import pytest

from memoriale import ResourceRef, episodic_tree
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.domain.episodes import EpisodicBranch, EpisodicSession, EpisodicTree
from memoriale.domain.errors import InputError

AsResource = Callable[..., Memory]


@pytest.fixture
def acting(shared_ledger: Ledger, tenant: str) -> AsResource:
    def handle(resource: str | None = "r", **given: Any) -> Memory:
        return shared_ledger.memory(tenant=tenant, resource=resource, **given)

    return handle


def said(node: EpisodicBranch) -> list[str]:
    return [entry.content for entry in node.entries if entry.content is not None]


def drawn(tree: EpisodicTree) -> list[tuple[int, str, list[str]]]:
    return [(node.depth, node.name, said(node)) for node in tree.nodes]


def test_ancestors_and_descendants_stand_in_one_tree(acting: AsResource) -> None:
    """From the middle one sees what it comes from, up to where it left, and what came from it;
    a cousin is not there."""
    memory = acting()
    memory.remember("before")
    middle = memory.fork("middle")
    memory.remember("after")
    memory.fork("cousin").remember("cousin's")
    middle.remember("in the middle")
    middle.fork("leaf").remember("on the leaf")
    middle.remember("later")
    expected = [
        (0, "main", ["before"]),
        (1, "middle", ["in the middle", "later"]),
        (2, "leaf", ["on the leaf"]),
    ]
    assert drawn(middle.episodic_tree()) == expected
    main, middle_node, leaf = middle.episodic_tree().nodes
    assert (middle_node.parent, leaf.parent) == (main.id, middle_node.id)
    assert main.at is None
    assert middle_node.at == main.entries[-1].index
    assert [name for _, name, _ in drawn(memory.episodic_tree())] == [
        "main",
        "middle",
        "leaf",
        "cousin",
    ]


def test_each_branch_tells_of_the_resource_that_it_is_for(acting: AsResource) -> None:
    """A child sees its parent's entries up to the fork; the parent sees that the child's branch
    is there and nothing on it that it may not read."""
    parent = acting("p")
    parent.remember("of p")
    child = parent.fork("task", resource="c")
    parent.remember("of p, later")
    child.remember("of c")
    child.remember("of c, for all", visibility="tenant")
    from_below = child.episodic_tree()
    assert [said(node) for node in from_below.nodes] == [["of p"], ["of c", "of c, for all"]]
    assert [n.resource.id for n in from_below.nodes if n.resource] == ["p", "c"]
    assert all(node.readable for node in from_below.nodes)
    above, below = parent.episodic_tree().nodes
    assert said(above) == ["of p", "of p, later"]
    assert (below.name, below.readable, said(below)) == ("task", False, ["of c, for all"])


def test_others_branches_are_not_in_the_tree(
    acting: AsResource, as_user: Callable[[str], Memory]
) -> None:
    """A branch of another owner that left from the same one is not told of."""
    acting().remember("mine")
    as_user("alice").fork("hers").remember("hers")
    acting("other").fork("theirs").remember("theirs")
    tree = acting().episodic_tree()
    assert drawn(tree) == [(0, "main", ["mine"])]
    other = episodic_tree(acting("other"), ResourceRef("r"))
    assert [said(node) for node in other.nodes] == [[], []]


def test_a_tree_as_of_a_point_has_the_branches_of_then(acting: AsResource) -> None:
    """Branches that were made later are not there, and those that were discarded later are."""
    memory = acting()
    index = memory.fork("early").remember("early").index
    memory.discard("early")
    memory.fork("late")
    assert [n.name for n in memory.episodic_tree(until=index).nodes] == ["main", "early"]
    assert [n.name for n in memory.episodic_tree().nodes] == ["main", "late"]


def test_a_node_holds_its_newest_entries(acting: AsResource) -> None:
    """The limit counts for each node, which says when there are older ones."""
    memory = acting()
    for n in range(5):
        memory.remember(f"note {n}")
    (node,) = memory.episodic_tree(limit=2).nodes
    assert (said(node), node.more) == (["note 3", "note 4"], True)
    (whole,) = memory.episodic_tree().nodes
    assert not whole.more


def session(name: str, parent: str | None = None, at: int | None = None) -> EpisodicSession:
    return EpisodicSession(session=name, parent=parent, at=at)


@pytest.fixture
def sessions(acting: AsResource) -> dict[str, int]:
    """Three sessions of the resource, one after the other; where each said something."""
    told = {}
    for name in ("s-1", "s-2", "s-3"):
        handle = acting(session=name)
        handle.sessions.get_or_create_session()
        told[name] = handle.remember(f"in {name}").index
    acting(session="s-1").remember("later in s-1")
    return told


def test_resolved_sessions_are_the_nodes(acting: AsResource, sessions: dict[str, int]) -> None:
    """Sessions hang under their parents; a parent that was not resolved stands there up to where
    its child left."""
    found = [session("s-3", "s-2"), session("s-2", "s-1")]
    tree = acting().episodic_tree(resolve_sessions=lambda ref: found)
    assert drawn(tree) == [
        (0, "s-1", ["in s-1"]),
        (1, "s-2", ["in s-2"]),
        (2, "s-3", ["in s-3"]),
    ]
    early = [session("s-2", "s-1", at=sessions["s-1"] - 1)]
    tree = acting().episodic_tree(resolve_sessions=lambda ref: early)
    assert drawn(tree) == [(0, "s-1", []), (1, "s-2", ["in s-2"])]


def test_a_ring_of_parents_is_told(acting: AsResource, sessions: dict[str, int]) -> None:
    """No node vanishes: the ring is opened at its first session and reported."""
    ring = [session("s-2", "s-3"), session("s-3", "s-2"), session("s-1", "s-2")]
    tree = acting().episodic_tree(resolve_sessions=lambda ref: ring)
    assert [(n.depth, n.name, n.in_cycle) for n in tree.nodes] == [
        (0, "s-2", True),
        (1, "s-1", False),
        (1, "s-3", True),
    ]
    assert tree.cycles == (("s-2", "s-3"),)
    own = acting().episodic_tree(resolve_sessions=lambda ref: [session("s-1", "s-1")])
    assert (own.cycles, [n.name for n in own.nodes]) == ((("s-1",),), ["s-1"])


def test_one_session_has_one_parent(acting: AsResource, sessions: dict[str, int]) -> None:
    """The same session twice is one node; with two parents it is an error."""
    same: list[str | EpisodicSession] = [session("s-1"), "s-1"]
    assert len(acting().episodic_tree(resolve_sessions=lambda ref: same).nodes) == 1
    with pytest.raises(InputError) as refused:
        acting().episodic_tree(
            resolve_sessions=lambda ref: [session("s-1", "s-2"), session("s-1", "s-3")]
        )
    assert refused.value.field == "resolve_sessions"


def test_sessions_of_others_are_empty_nodes(acting: AsResource, sessions: dict[str, int]) -> None:
    """A resolver of another resource may name a session, and is told nothing of it."""
    tree = acting("other").episodic_tree(resolve_sessions=lambda ref: ["s-1"])
    assert drawn(tree) == [(0, "s-1", [])]


def test_a_resource_that_did_nothing_has_an_empty_tree(acting: AsResource) -> None:
    """It gets no key by being asked for, and its branch is there."""
    acting().remember("x")
    (node,) = acting("silent").episodic_tree().nodes
    assert (node.name, node.entries) == ("main", ())
    assert acting("silent").episodic().entries == ()
