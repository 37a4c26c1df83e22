"""The tree of what happened: branches that come from one another, or sessions with parents."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from memoriale.adapters.application.branching import Branching, BranchView
from memoriale.adapters.application.episodes import EpisodeLog, Source, Stretch, names_of
from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.domain.access import AccessScope
from memoriale.domain.branches import Branch, Line
from memoriale.domain.episodes import (
    EpisodicBranch,
    EpisodicSession,
    EpisodicTree,
    arranged,
)
from memoriale.domain.keys import Subject
from memoriale.domain.principal import Principal


@dataclass(frozen=True, slots=True)
class _Node:
    """A branch in the tree: whose entries count on it, up to where, and as who they are read."""

    branch: Branch
    owner: UUID
    until: int
    scope: AccessScope


class EpisodicTrees:
    """
    Trees of one tenant.

    Args:
        log: The memory log.
        branching: Its branches.
        episodes: Its episodes.
    """

    def __init__(self, log: TenantLog, branching: Branching, episodes: EpisodeLog) -> None:
        self._log = log
        self._branching = branching
        self._episodes = episodes

    def of_branches(
        self, principal: Principal, focus: BranchView, owner: UUID, stretch: Stretch, limit: int
    ) -> EpisodicTree:
        """
        The branches that one comes from and those that come from it.

        Args:
            principal: The caller.
            focus: The branch.
            owner: The resource whose entries count on it.
            stretch: Which entries count.
            limit: How many of each node at most, the newest.
        """
        known = self._branching.everything()
        view = BranchView(known[focus.branch.id], known)
        own = self._episodes.scope(principal)
        names = names_of(known.values(), own)
        nodes = [*_above(view, owner, stretch.index, self._episodes.scope(principal, view))]
        nodes += _below(known, view.branch, owner, stretch.index, own)
        shown = {node.branch.id for node in nodes}
        made = [self._made(node, known, shown, names, stretch, limit) for node in nodes]
        order = {str(node.branch.id): node.branch.index for node in nodes}
        return arranged(made, stretch.index, order)

    def of_sessions(
        self,
        principal: Principal,
        branch: BranchView,
        resource: Subject,
        sessions: Sequence[EpisodicSession],
        stretch: Stretch,
        limit: int,
    ) -> EpisodicTree:
        """
        Sessions by their parents. A parent that was not resolved stands in the tree as well, up
        to the point where the last of its children left.

        Args:
            principal: The caller.
            branch: As which branch sees them.
            resource: Whose they are.
            sessions: The sessions.
            stretch: Which entries count.
            limit: How many of each node at most, the newest.
        """
        scope, lines = self._episodes.scope(principal, branch), branch.lineage(stretch.index)
        owner = self._episodes.find(resource)
        names = names_of(branch.known.values(), scope)
        found: list[EpisodicBranch] = []
        left: dict[str, int] = {}
        order: dict[str, int] = {}
        for session in sessions:
            source = self._episodes.of_session(session.session, owner, lines, scope)
            first = self._episodes.first(source, replace(stretch, after=-1))
            at = session.at if session.at is not None or first is None else first
            if first is not None:
                order[session.session] = first
            if session.parent is not None and at is not None:
                left[session.parent] = max(left.get(session.parent, -1), at)
            node = EpisodicBranch(
                id=session.session,
                name=session.session,
                resource=resource,
                parent=session.parent,
                at=None if session.parent is None else at,
            )
            found.append(self._filled(node, source, names, stretch, limit))
        given = {session.session for session in sessions}
        for parent in dict.fromkeys(s.parent for s in sessions if s.parent not in (None, *given)):
            assert parent is not None
            source = self._episodes.of_session(parent, owner, lines, scope)
            source = replace(source, until=left.get(parent, -1))
            node = EpisodicBranch(id=parent, name=parent, resource=resource, parent=None, at=None)
            order[parent] = -1
            found.append(self._filled(node, source, names, stretch, limit))
        return arranged(found, stretch.index, order)

    def _made(
        self,
        node: _Node,
        known: dict[UUID, Branch],
        shown: set[UUID],
        names: dict[UUID, str],
        stretch: Stretch,
        limit: int,
    ) -> EpisodicBranch:
        branch = node.branch
        lines = (Line(branch.id, node.until),)
        source = self._episodes.of_owners([node.owner], lines, node.scope)
        parent = branch.parent
        while parent is not None and parent not in shown:
            parent = known[parent].parent
        made = EpisodicBranch(
            id=str(branch.id),
            name=names.get(branch.id, str(branch.id)),
            resource=self._log.identities.names([node.owner]).get(node.owner),
            parent=None if parent is None else str(parent),
            at=None if branch.parent is None else branch.at,
            readable=node.owner in node.scope.owners,
        )
        return self._filled(made, source, names, stretch, limit)

    def _filled(
        self,
        node: EpisodicBranch,
        source: Source,
        names: dict[UUID, str],
        stretch: Stretch,
        limit: int,
    ) -> EpisodicBranch:
        rows, more = self._episodes.page([source], stretch, limit, newest_first=True)
        return replace(node, entries=tuple(self._episodes.entries(rows, names)), more=more)


def _above(view: BranchView, owner: UUID, until: int, scope: AccessScope) -> Iterator[_Node]:
    """The branch and those that it comes from, each with whose memories are inherited from it."""
    for line in view.lineage(until):
        branch = view.known[line.branch]
        yield _Node(branch, owner, line.limit, scope)
        owner = owner if branch.parent_owner is None else branch.parent_owner


def _below(
    known: dict[UUID, Branch], focus: Branch, owner: UUID, until: int, scope: AccessScope
) -> Iterator[_Node]:
    """
    The branches that come from one and that the caller may use or has made for another resource.
    """
    children: dict[UUID | None, list[Branch]] = {}
    for branch in known.values():
        children.setdefault(branch.parent, []).append(branch)
    waiting = [(branch, owner) for branch in children.get(focus.id, ())]
    while waiting:
        branch, owner = waiting.pop()
        if branch.parent_owner is not None and branch.owner is not None:
            owner = branch.owner
        lives = branch.index <= until and (branch.discarded is None or branch.discarded > until)
        if lives and (branch.owner is None or scope.owners & {branch.owner, branch.parent_owner}):
            yield _Node(branch, owner, until, scope)
        waiting += [(child, owner) for child in children.get(branch.id, ())]
