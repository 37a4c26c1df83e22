"""Episodes: what happened, entry by entry, and the tree of the branches that it happened on."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from uuid import UUID

from memoriale.domain.errors import InputError
from memoriale.domain.keys import Subject
from memoriale.domain.text import check_outside_id, shown


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodicEntry:
    """
    One thing that happened.

    Args:
        index: Index of the event in the memory log.
        event: What happened, such as ``memory.remembered``.
        at: When it was recorded.
        session: In which session; None outside of one, or when its name was erased.
        branch: On which branch; its id where the caller may not use it.
        event_id: Id of the event.
        memory_id: The memory that it made or changed, if any.
        kind: Kind of that memory, or of the event.
        content: What the memory says from there on, where the event says so.
        owner: Whose it is.
        actor: Who did it; None if the name was erased.
        reason: Why, as given.
    """

    index: int
    event: str
    at: datetime
    session: str | None
    branch: str
    event_id: UUID
    memory_id: UUID | None
    kind: str | None
    content: str | None
    owner: Subject | None
    actor: Subject | None
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Episodes:
    """
    A page of entries, oldest first.

    Args:
        entries: The entries.
        next: What to pass as ``after`` for what follows; None when nothing more does.
        earlier: What to pass as ``until`` for the page before; None when nothing was before.
        index: Index of the last event of the log that counted.
    """

    entries: tuple[EpisodicEntry, ...]
    next: int | None
    earlier: int | None
    index: int

    def __iter__(self) -> Iterator[EpisodicEntry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodicSession:
    """
    A session as ``resolve_sessions`` names it.

    Args:
        session: Its outside id.
        parent: The session that it was spawned from.
        at: Index of the last event of the parent that it could know; default: where it was
            opened.
    """

    session: str
    parent: str | None = None
    at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodicBranch:
    """
    A node of the tree: a branch, or a session where sessions were resolved.

    Args:
        id: Id of the branch, or outside id of the session.
        name: Name of the branch, or that id.
        resource: Whose entries it holds; None where the caller may not know.
        parent: Id of the node that it left, also when that is not in the tree.
        at: Index of the last event of the parent that it knows; None for a root.
        entries: Its own, oldest first; an ancestor's up to the point where the tree left it.
        more: Whether there are older ones than these.
        readable: Whether the caller may read what is that resource's.
        in_cycle: Whether following the parents leads back to it.
        depth: Steps to its root.
        children: The nodes that left from it, in the order of the log.
    """

    id: str
    name: str
    resource: Subject | None
    parent: str | None
    at: int | None
    entries: tuple[EpisodicEntry, ...] = ()
    more: bool = False
    readable: bool = True
    in_cycle: bool = False
    depth: int = 0
    children: tuple["EpisodicBranch", ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodicTree:
    """
    What happened on branches that come from one another.

    Args:
        roots: The nodes without a parent in the tree, in the order of the log.
        cycles: Ids of the nodes of each ring of parents; the first stands among the roots.
        index: Index of the last event of the log that counted.
    """

    roots: tuple[EpisodicBranch, ...]
    cycles: tuple[tuple[str, ...], ...]
    index: int

    @property
    def nodes(self) -> tuple[EpisodicBranch, ...]:
        """All nodes, each before those that left it."""
        found, waiting = [], [*reversed(self.roots)]
        while waiting:
            found.append(waiting.pop())
            waiting += reversed(found[-1].children)
        return tuple(found)


def check_sessions(resolved: object) -> list[EpisodicSession]:
    """
    What ``resolve_sessions`` gave: ids, or ids with parents; each session once.

    Raises:
        InputError: Neither, or one session with two parents.
    """
    if isinstance(resolved, str) or not isinstance(resolved, Iterable):
        raise _bad_sessions(resolved)
    found: dict[str, EpisodicSession] = {}
    for item in resolved:
        made = EpisodicSession(session=item) if isinstance(item, str) else item
        if not isinstance(made, EpisodicSession):
            raise _bad_sessions(item)
        for value in (made.session, made.parent):
            if value is not None:
                check_outside_id("resolve_sessions", value)
        if found.setdefault(made.session, made) != made:
            raise InputError(
                f"resolve_sessions gave session {shown(made.session)!r} twice, with other parents.",
                code="bad_value",
                field="resolve_sessions",
                value=shown(made.session),
            )
    return list(found.values())


def arranged(nodes: Sequence[EpisodicBranch], index: int, order: Mapping[str, int]) -> EpisodicTree:
    """
    Nodes as a tree. A ring of parents is opened at its first node, and told.

    Args:
        nodes: Without children; their parents may be missing.
        index: Index of the last event that counted.
        order: By id, where a node stands among its siblings.
    """
    known = {node.id: node for node in nodes}
    cycles = _cycles(known, order)
    ringed = {node_id for cycle in cycles for node_id in cycle}
    opened = {cycle[0] for cycle in cycles}
    below: dict[str | None, list[EpisodicBranch]] = {}
    for node in sorted(nodes, key=lambda node: (order.get(node.id, index), node.id)):
        apart = node.parent not in known or node.id in opened
        below.setdefault(None if apart else node.parent, []).append(node)

    made: dict[str, EpisodicBranch] = {}
    for node, depth in reversed(list(_walked(below))):
        children = tuple(made[child.id] for child in below.get(node.id, ()))
        made[node.id] = replace(node, children=children, depth=depth, in_cycle=node.id in ringed)
    roots = tuple(made[node.id] for node in below.get(None, ()))
    return EpisodicTree(roots=roots, cycles=cycles, index=index)


def _walked(
    below: Mapping[str | None, Sequence[EpisodicBranch]],
) -> Iterator[tuple[EpisodicBranch, int]]:
    waiting = [(node, 0) for node in reversed(below.get(None, ()))]
    while waiting:
        node, depth = waiting.pop()
        yield node, depth
        waiting += [(child, depth + 1) for child in reversed(below.get(node.id, ()))]


def _cycles(
    known: Mapping[str, EpisodicBranch], order: Mapping[str, int]
) -> tuple[tuple[str, ...], ...]:
    found: list[tuple[str, ...]] = []
    settled: set[str] = set()
    for start in known:
        path: dict[str, None] = {}
        current: str | None = start
        while current is not None and current in known and current not in settled:
            if current in path:
                ring = [*path][[*path].index(current) :]
                first = min(range(len(ring)), key=lambda i: (order.get(ring[i], 0), ring[i]))
                found.append(tuple(ring[first:] + ring[:first]))
                break
            path[current] = None
            current = known[current].parent
        settled |= path.keys()
    return tuple(found)


def _bad_sessions(value: object) -> InputError:
    return InputError(
        "resolve_sessions gives a list of session ids, or of EpisodicSession.",
        code="bad_value",
        field="resolve_sessions",
        value=shown(value),
        allowed="a list of texts or EpisodicSession",
    )
