"""Episodic memory: what happened to a resource and in its sessions, and the tree of it."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Final
from uuid import UUID

from memoriale.adapters.application.branching import BranchView
from memoriale.adapters.application.episodes import Source, Stretch, names_of
from memoriale.adapters.application.reading import AsOf, parse_as_of
from memoriale.adapters.library.bound import Bound
from memoriale.domain.branches import NO_LIMIT
from memoriale.domain.episodes import (
    Episodes,
    EpisodicEntry,
    EpisodicSession,
    EpisodicTree,
    check_sessions,
)
from memoriale.domain.errors import InputError
from memoriale.domain.keys import Subject
from memoriale.domain.principal import Right
from memoriale.domain.resources.ref import ResourceRef
from memoriale.domain.resources.teams import TeamAccessChecker, check_team_access
from memoriale.domain.text import shown
from memoriale.domain.values import check_whole

if TYPE_CHECKING:
    from memoriale.adapters.library.memory import Memory

MOST: Final = 1_000
_NEWEST: Final = 100
NOBODY: Final = UUID(int=0)
"""A pseudonym that none has."""
_MODES: Final = ("flat", "lineage")

Resolver = Callable[[ResourceRef], Iterable[str | EpisodicSession]]
"""From a resource to its sessions, by their outside ids."""


class Episodic(Bound):
    """The part of ``Memory`` that tells what happened."""

    def episodic(
        self,
        ref: ResourceRef | None = None,
        *,
        limit: int = _NEWEST,
        branch: str = "flat",
        since: AsOf = None,
        until: AsOf = None,
        after: int | None = None,
        before: int | None = None,
        resolve_sessions: Resolver | None = None,
    ) -> Episodes:
        """
        What happened to a resource and in its sessions, read from the log, for what the principal
        may see: events of what the resource owns, and all that was recorded in sessions that were
        opened for it.

        Args:
            ref: The resource; default: the principal's.
            limit: How many at most, 0..1000: the newest ones, or with ``after`` the next ones.
            branch: ``flat``: what is the resource's own on this branch and before that left;
                ``lineage``: also that of the resources that the branch inherits from, each up to
                the point where it was left.
            since: Only from this point on: an index, or an aware time or its text.
            until: Only up to this point; a discarded branch takes one before its end.
            after: Only what follows this index; ``next`` of the page before.
            before: Only what is before this index; ``earlier`` of the page after.
            resolve_sessions: Names the sessions in place of the log; then only what happened in
                them counts, in ``lineage`` also in their parents up to where they left. What the
                principal may see stays the same.

        Returns:
            The entries, oldest first.
        """
        self.allow("episodic", Right.USE)
        if branch not in _MODES:
            raise _bad_mode(branch)
        check_whole("limit", limit, 0, MOST)
        stretch = self._stretch(since, until, after, before)
        wanted, view = self._whose(ref), self._resolved()
        view.branch.require_live(stretch.index if until is not None else NO_LIMIT)
        sources = self._sources(view, wanted, branch == "lineage", stretch, resolve_sessions)
        log = self.services.episodes
        rows, more = log.page(sources, stretch, limit, newest_first=after is None)
        scope = log.scope(self.principal)
        entries = tuple(log.entries(rows, names_of(view.known.values(), scope)))
        self._tell("episodic", entries, stretch, view, until)
        ends = [row.recorded.index for row in (rows[:1] if after is None else rows[-1:])]
        edge = ends[0] if more and ends else None
        return Episodes(
            entries=entries,
            next=None if after is None else edge,
            earlier=edge if after is None else None,
            index=stretch.index,
        )

    def episodic_tree(
        self,
        ref: ResourceRef | None = None,
        *,
        limit: int = _NEWEST,
        since: AsOf = None,
        until: AsOf = None,
        resolve_sessions: Resolver | None = None,
    ) -> EpisodicTree:
        """
        What happened, as a tree: the branches that this one comes from, each up to the point
        where it was left, and those that come from it; with the entries of the resource that each
        is for. The access rules hold at every node.

        Args:
            ref: The resource; default: the principal's.
            limit: Entries of each node at most, the newest, 0..1000.
            since: Only entries from this point on.
            until: Only up to this point, branches and entries.
            resolve_sessions: Names sessions with their parents; these are then the nodes, and a
                ring of parents is told in ``cycles``.
        """
        self.allow("episodic_tree", Right.USE)
        check_whole("limit", limit, 0, MOST)
        stretch = self._stretch(since, until, None, None)
        wanted, view = self._whose(ref), self._resolved()
        view.branch.require_live(stretch.index if until is not None else NO_LIMIT)
        owner, trees = Subject("resource", wanted.key), self.services.episodic_trees
        if resolve_sessions is not None:
            sessions = check_sessions(resolve_sessions(wanted))
            found = trees.of_sessions(self.principal, view, owner, sessions, stretch, limit)
        else:
            # A resource that the tenant never saw did nothing; its branches are there all the same.
            known = self.services.episodes.find(owner) or NOBODY
            found = trees.of_branches(self.principal, view, known, stretch, limit)
        entries = [entry for node in found.nodes for entry in node.entries]
        self._tell("episodic_tree", entries, stretch, view, until)
        return found

    def _sources(
        self,
        view: BranchView,
        wanted: ResourceRef,
        lineage: bool,
        stretch: Stretch,
        resolve_sessions: Resolver | None,
    ) -> list[Source]:
        log = self.services.episodes
        lines, scope = view.lineage(stretch.index), log.scope(self.principal, view)
        owner = log.find(Subject("resource", wanted.key))
        if resolve_sessions is None:
            owners = [] if owner is None else [owner]
            if lineage:
                owners += [parent for parent in view.parent_owners() if parent != owner]
            return [log.of_owners(owners, lines, scope)] if owners else []
        sessions = check_sessions(resolve_sessions(wanted))
        found = {s.session: log.of_session(s.session, owner, lines, scope) for s in sessions}
        if not lineage:
            return list(found.values())
        given = set(found)
        for session in sessions:
            if session.parent is None or session.parent in given:
                continue
            whole = Stretch(after=-1, before=stretch.index + 1, index=stretch.index)
            at = session.at if session.at is not None else log.first(found[session.session], whole)
            parent = log.of_session(session.parent, owner, lines, scope)
            # By the child, since each leaves at a point of its own.
            found[f"before {session.session}"] = replace(parent, until=-1 if at is None else at)
        return list(found.values())

    def _stretch(self, since: AsOf, until: AsOf, after: int | None, before: int | None) -> Stretch:
        pin = self.services.reading.pin(until, field="until")
        first = self._first(since)
        low = -1 if after is None else check_whole("after", after, -1, NO_LIMIT)
        high = NO_LIMIT if before is None else check_whole("before", before, 0, NO_LIMIT)
        return Stretch(after=max(low, first - 1), before=min(high, pin.index + 1), index=pin.index)

    def _first(self, since: AsOf) -> int:
        """The first index from a point on; one inside an append means the whole append."""
        pin = self.services.reading.pin(since, field="since")
        if since is None or pin.index < 0:
            return 0
        row = self.services.log.reader.rows(after=pin.index - 1, stop=pin.index + 1)[0]
        point = parse_as_of(since)
        if isinstance(point, datetime) and row.recorded.recorded_at < point:
            return pin.index + 1
        return row.recorded.append_first

    def _whose(self, ref: ResourceRef | None) -> ResourceRef:
        if isinstance(ref, ResourceRef):
            return ref
        if ref is not None:
            raise _bad_ref(ref)
        if self.principal.resource is None:
            raise InputError(
                "episodes are those of a resource; name one, or act as one.",
                code="no_owner",
                field="resource",
                allowed="a ResourceRef",
            )
        return ResourceRef(self.principal.resource, self.principal.team)

    def _tell(
        self,
        command: str,
        entries: Iterable[EpisodicEntry],
        stretch: Stretch,
        view: BranchView,
        until: AsOf,
    ) -> None:
        told = [(e.memory_id, e.index) for e in entries if e.memory_id is not None]
        self.given(command, told, index=stretch.index, as_of=until, branch=view)


def episodic_recall(
    memory: "Memory",
    ref: ResourceRef | None = None,
    *,
    limit: int = _NEWEST,
    branch: str = "flat",
    since: AsOf = None,
    until: AsOf = None,
    after: int | None = None,
    before: int | None = None,
    resolve_sessions: Resolver | None = None,
    checker: TeamAccessChecker | None = None,
) -> Episodes:
    """
    ``Memory.episodic`` as a function (reference system C, ``episodicRecall``).

    Args:
        memory: A handle; what its principal may see is told.
        ref: The resource; default: the principal's.
        limit, branch, since, until, after, before, resolve_sessions: As there.
        checker: Says whether the team's memory may be read, besides what the principal may see.
            A lineage never leaves the team, so it is asked once.

    Raises:
        MemoryAccessDeniedError: The checker says anything but True.
    """
    _check_team(memory, ref, checker)
    return memory.episodic(
        ref,
        limit=limit,
        branch=branch,
        since=since,
        until=until,
        after=after,
        before=before,
        resolve_sessions=resolve_sessions,
    )


def episodic_tree(
    memory: "Memory",
    ref: ResourceRef | None = None,
    *,
    limit: int = _NEWEST,
    since: AsOf = None,
    until: AsOf = None,
    resolve_sessions: Resolver | None = None,
    checker: TeamAccessChecker | None = None,
) -> EpisodicTree:
    """
    ``Memory.episodic_tree`` as a function (reference system C, ``episodicTree``).

    Args:
        memory: A handle; what its principal may see is told.
        ref: The resource; default: the principal's.
        limit, since, until, resolve_sessions: As there.
        checker: As for ``episodic_recall``.

    Raises:
        MemoryAccessDeniedError: The checker says anything but True.
    """
    _check_team(memory, ref, checker)
    return memory.episodic_tree(
        ref, limit=limit, since=since, until=until, resolve_sessions=resolve_sessions
    )


def _check_team(
    memory: "Memory", ref: ResourceRef | None, checker: TeamAccessChecker | None
) -> None:
    if checker is None:
        return
    principal = memory.principal
    if ref is None and principal.resource is not None:
        ref = ResourceRef(principal.resource, principal.team)
    if isinstance(ref, ResourceRef):
        # Without any resource the read itself says what is missing.
        check_team_access(checker, ref)


def _bad_mode(branch: object) -> InputError:
    return InputError(
        f"branch is {shown(branch)}; take {' or '.join(_MODES)}.",
        code="bad_value",
        field="branch",
        value=shown(branch),
        allowed=list(_MODES),
    )


def _bad_ref(ref: object) -> InputError:
    return InputError(
        "ref must be a ResourceRef.",
        code="bad_value",
        field="ref",
        value=shown(ref),
        allowed="a ResourceRef",
    )
