"""The tree of branches: what the caller may use, with counts of what the caller may see."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final
from xml.etree import ElementTree

import pytest

from memoriale.adapters.application.comparing import BranchNode
from memoriale.adapters.drawing.branch_tree import svg
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory

SVG: Final = "{http://www.w3.org/2000/svg}"
HOSTILE: Final = '</text><script>alert("x")</script>&amp; \x00\x1b[31m\u202e\ud800 ü 木'


def shown(nodes: list[BranchNode]) -> list[tuple[str, str | None, int, int]]:
    return [(node.branch, node.parent, node.depth, node.events) for node in nodes]


def test_the_tree_lists_each_branch_under_the_one_it_left(alice: Memory) -> None:
    """Depth first, siblings in the order they were made, each with its own events counted."""
    memory_id = alice.remember("root").memory_id
    first = alice.fork("first")
    first.correct(memory_id, "changed")
    deeper = first.fork("deeper")
    deeper.remember("one")
    deeper.remember("two")
    alice.fork("second")
    assert shown(alice.tree()) == [
        ("main", None, 0, 1),
        ("first", "main", 1, 1),
        ("deeper", "first", 2, 2),
        ("second", "main", 1, 0),
    ]
    main, node = alice.tree()[:2]
    assert (main.at, main.index, main.recorded_at, main.parent_id) == (None, None, None, None)
    assert (node.at, node.index, node.owner_type) == (0, 1, "user")
    assert node.parent_id == main.id
    assert node.recorded_at is not None


def test_the_tree_of_one_shows_and_counts_nothing_of_others(
    shared_ledger: Ledger, tenant: str, as_user: Callable[[str], Memory]
) -> None:
    """Another's branches are absent, and main counts the events of visible memories alone."""
    as_user("bob").remember("his")
    as_user("bob").remember("for all", visibility="tenant")
    as_user("bob").fork("his own")
    as_user("alice").remember("hers")
    shared_ledger.memory(tenant=tenant).fork("of everybody")
    assert shown(as_user("alice").tree()) == [("main", None, 0, 2), ("of everybody", "main", 1, 0)]
    assert [n.branch for n in as_user("bob").tree()] == ["main", "his own", "of everybody"]
    assert shown(shared_ledger.memory(tenant=tenant).tree())[0] == ("main", None, 0, 1)


def test_a_branch_whose_parent_the_caller_may_not_use_is_a_root(
    shared_ledger: Ledger, tenant: str
) -> None:
    """A child owner's branch of its parent's own branch shows no name of that one."""
    parent = shared_ledger.memory(tenant=tenant, resource="parent")
    child = parent.fork("private").fork("for the child", resource="child")
    assert shown(child.tree()) == [("main", None, 0, 0), ("for the child", None, 0, 0)]


@pytest.mark.parametrize("visibility", ["owner", "user", "agent", "team", "tenant"])
def test_counts_follow_the_access_rule(shared_ledger: Ledger, tenant: str, visibility: str) -> None:
    """However memories are shared, the server counts exactly the events of those that
    ``AccessScope`` allows, whoever changed them last."""
    everyone = {"user": "alice", "agent": "support", "team": "blue", "session": "s1"}
    writers = [
        {"user": "alice"},
        {"agent": "support"},
        {"team": "blue", "user": "bob"},
        {"session": "s1"},
        {"session": "s1", "user": "bob"},
        {"user": "bob", "agent": "support"},
        everyone,
    ]
    for whose in writers:
        writer = shared_ledger.memory(tenant=tenant, **whose)
        for owner in whose:
            if visibility in ("owner", "tenant") or visibility in whose:
                made = writer.remember("x", owner=owner, visibility=visibility).memory_id
                reviewer = shared_ledger.memory(tenant=tenant, **{**everyone, **whose})
                reviewer.amend(made, importance=0.5, actor="carol")
    log = shared_ledger.tenant(tenant).log
    rows = [row for rows in log.reader.stream_rows() for row in rows]
    first = {r.columns.memory_id: r.columns for r in reversed(rows)}
    for caller in ({}, *writers, {"user": "bob"}, {"user": "stranger"}):
        handle = shared_ledger.memory(tenant=tenant, **caller)
        scope = log.identities.scope(handle.principal)
        expected = sum(scope.allows(first[row.columns.memory_id]) for row in rows)
        assert handle.tree()[0].events == expected


def drawn(nodes: list[BranchNode]) -> ElementTree.Element:
    return ElementTree.fromstring(svg(nodes).encode())


def test_the_drawing_is_an_svg_with_every_branch(alice: Memory) -> None:
    """Each branch has one mark and its name, each but main one line to its parent, and equal
    trees are drawn alike."""
    alice.fork("first").fork("deeper")
    alice.fork("second")
    nodes = alice.tree()
    root = drawn(nodes)
    assert root.tag == f"{SVG}svg"
    assert [title.text for title in root.findall(f"{SVG}g/{SVG}title")] == [
        "main",
        "first",
        "deeper",
        "second",
    ]
    assert len(root.findall(f"{SVG}path")) == 3
    assert svg(nodes) == svg(alice.tree())


def test_names_are_escaped_in_the_drawing(alice: Memory) -> None:
    """A name adds no element, and what XML cannot hold or turns the text around is replaced."""
    names = [HOSTILE.replace("\x00", "").replace("\ud800", ""), "x" * 200]
    for name in names:
        alice.fork(name)
    nodes = [replace(node) for node in alice.tree()]
    nodes[1] = replace(nodes[1], branch=HOSTILE)
    root = drawn(nodes)
    assert {element.tag.removeprefix(SVG) for element in root.iter()} == {
        *("svg", "title", "style", "path", "g", "circle", "text", "tspan")
    }
    title = root.findall(f"{SVG}g/{SVG}title")[1].text or ""
    assert title.startswith('</text><script>alert("x")</script>&amp; ')
    assert title.endswith("\N{REPLACEMENT CHARACTER} ü 木")
    assert not set(title) & {"\x00", "\x1b", "\u202e"}
    assert len("".join(root.findall(f"{SVG}g/{SVG}text")[2].itertext())) < 150


def test_a_branch_without_a_shown_parent_has_no_line(alice: Memory) -> None:
    """A root is drawn alone, and an empty tree is a valid drawing."""
    alice.fork("first")
    roots = [replace(node, parent=None) for node in alice.tree()]
    assert drawn(roots).findall(f"{SVG}path") == []
    assert drawn([]).tag == f"{SVG}svg"
