"""What happened to a resource and in its sessions, read backwards from the log."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final
from uuid import UUID

from memoriale.adapters.application.branching import BranchView, branch_scope
from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.adapters.postgres.episode_reading import EpisodeReader, Wanted
from memoriale.domain.access import AccessScope
from memoriale.domain.branches import Branch, Line
from memoriale.domain.episodes import EpisodicEntry
from memoriale.domain.events import RecordedEvent
from memoriale.domain.keys import Subject
from memoriale.domain.principal import Principal
from memoriale.domain.record import Columns, Row

_LEAST_PAGE: Final = 32
_MOST_PAGE: Final = 2_000
_DECIDED_BY_FIRST: Final = ("user", "agent", "team")
"""Visibilities that are about who made a memory, which its first event says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """
    From where to where entries count.

    Args:
        after: Only after this index.
        before: Only before this one.
        index: Index of the last event of the log that counts.
    """

    after: int
    before: int
    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """
    Whose entries are read, and as who.

    Args:
        owners: Resources and sessions whose events count.
        sessions: Sessions in which whatever was recorded counts.
        lines: Branches, each up to an index.
        scope: What the caller may see there.
        until: Only up to this index; None for all.
    """

    owners: frozenset[UUID]
    sessions: frozenset[UUID]
    lines: Sequence[Line]
    scope: AccessScope
    until: int | None = None

    def wanted(self, stretch: Stretch) -> Wanted:
        """The events in a stretch."""
        end = stretch.before if self.until is None else min(stretch.before, self.until + 1)
        return Wanted(
            owners=self.owners,
            sessions=self.sessions,
            lines=self.lines,
            after=stretch.after,
            before=end,
        )


class EpisodeLog:
    """The episodes of one tenant's memory log."""

    def __init__(self, log: TenantLog) -> None:
        self._log = log
        self._reader = EpisodeReader(log.reader)

    def scope(self, principal: Principal, branch: BranchView | None = None) -> AccessScope:
        """What the caller may see, on a branch with what that inherits."""
        own = self._log.identities.scope(principal)
        return own if branch is None else branch_scope(own, branch)

    def find(self, subject: Subject) -> UUID | None:
        """The pseudonym of a name; None when the tenant never saw it."""
        key = self._log.identities.find(subject)
        return None if key is None else key.pseudonym

    def of_owners(
        self, owners: Iterable[UUID], lines: Sequence[Line], scope: AccessScope
    ) -> Source:
        """
        What resources and their sessions did. Who may read a resource may read its sessions too,
        but for what was said there for a user.

        Args:
            owners: The resources.
            lines: Where.
            scope: What the caller may see there.
        """
        sessions: set[UUID] = set()
        for owner in owners:
            its = self._reader.sessions(owner)
            sessions.update(its)
            if owner in scope.owners:
                scope = replace(scope, owners=scope.owners.union(its))
        return Source(
            owners=frozenset({*owners, *sessions}),
            sessions=frozenset(sessions),
            lines=lines,
            scope=scope,
        )

    def of_session(
        self, session: str, resource: UUID | None, lines: Sequence[Line], scope: AccessScope
    ) -> Source:
        """
        What happened in one session, which may be read as one of the resource's if it is one.

        Args:
            session: Its outside id.
            resource: The resource.
            lines: Where.
            scope: What the caller may see there.
        """
        found = self.find(Subject("session", session))
        one = frozenset() if found is None else frozenset({found})
        if resource in scope.owners and resource is not None and one:
            scope = replace(
                scope, owners=scope.owners | one.intersection(self._reader.sessions(resource))
            )
        return Source(owners=one, sessions=one, lines=lines, scope=scope)

    def first(self, source: Source, stretch: Stretch) -> int | None:
        """Index of the first event of a source, whoever may see it; None if there is none."""
        rows = self._reader.rows(source.wanted(stretch), 1, newest_first=False)
        return rows[0].recorded.index if rows else None

    def page(
        self, sources: Sequence[Source], stretch: Stretch, limit: int, *, newest_first: bool
    ) -> tuple[list[Row], bool]:
        """
        Events that the caller may see from one end of a stretch, oldest first, and whether there
        are more.

        Args:
            sources: Whose.
            stretch: From where to where.
            limit: How many at most.
            newest_first: From which end.
        """
        found: dict[int, Row] = {}
        size = min(max(limit + 1, _LEAST_PAGE), _MOST_PAGE)
        while len(found) <= limit:
            rows, seen = self._next(sources, stretch, size, newest_first)
            found |= {row.recorded.index: row for row in seen}
            if len(rows) < size:
                break
            edge = rows[-1].recorded.index
            stretch = replace(stretch, **{"before" if newest_first else "after": edge})
            size = min(size * 2, _MOST_PAGE)
        order = sorted(found, reverse=newest_first)
        return [found[i] for i in sorted(order[:limit])], len(order) > limit

    def entries(self, rows: Sequence[Row], names: dict[UUID, str]) -> list[EpisodicEntry]:
        """
        Events as entries; what was erased is left out.

        Args:
            rows: The events.
            names: Names of branches by id.
        """
        events = [e for e in self._log.mapper.decode(rows) if e.event.body is not None]
        persons = [
            person
            for e in events
            for person in (e.columns.owner, e.columns.principal_session, e.columns.actor)
        ]
        known = self._log.identities.names(persons)
        return [_entry(recorded, known, names) for recorded in events]

    def _next(
        self, sources: Sequence[Source], stretch: Stretch, size: int, newest_first: bool
    ) -> tuple[list[Row], list[Row]]:
        """The next events of all sources together, and those of them that may be seen."""
        read = partial(self._reader.rows, limit=size, newest_first=newest_first)
        from_each = [(read(source.wanted(stretch)), source.scope) for source in sources]
        rows = {row.recorded.index: row for found, _ in from_each for row in found}
        order = sorted(rows, reverse=newest_first)[:size]
        kept = set(order)
        seen = {
            row.recorded.index
            for found, scope in from_each
            for row in self._visible([r for r in found if r.recorded.index in kept], scope)
        }
        return [rows[i] for i in order], [rows[i] for i in order if i in seen]

    def _visible(self, rows: Sequence[Row], scope: AccessScope) -> list[Row]:
        asked = {
            row.columns.memory_id
            for row in rows
            if row.columns.memory_id is not None and _is_decided_by_first(row.columns)
        }
        first = self._reader.first(asked)
        return [row for row in rows if scope.allows(_decisive(row, first))]


def names_of(branches: Iterable[Branch], scope: AccessScope) -> dict[UUID, str]:
    """The names of branches that the caller may use or that left from what is the caller's."""
    own = scope.owners
    return {
        branch.id: branch.name
        for branch in branches
        if branch.name is not None
        and (branch.owner is None or own & {branch.owner, branch.parent_owner})
    }


def _is_decided_by_first(columns: Columns) -> bool:
    return columns.owner_type == "session" or columns.visibility in _DECIDED_BY_FIRST


def _decisive(row: Row, first: dict[UUID, Row]) -> Columns:
    """The columns that say who may see an event: those of the one that made the memory."""
    memory_id = row.columns.memory_id
    made = None if memory_id is None else first.get(memory_id)
    return row.columns if made is None else made.columns


def _entry(
    recorded: RecordedEvent, known: dict[UUID, Subject], names: dict[UUID, str]
) -> EpisodicEntry:
    columns, event = recorded.columns, recorded.event
    in_session = columns.owner if columns.owner_type == "session" else columns.principal_session
    session = None if in_session is None else known.get(in_session)
    payload = getattr(event.body, "payload", None)
    assert columns.branch is not None
    return EpisodicEntry(
        index=recorded.index,
        event=columns.topic,
        at=recorded.recorded.recorded_at,
        session=None if session is None else session.id,
        branch=names.get(columns.branch, str(columns.branch)),
        event_id=columns.event_id,
        memory_id=columns.memory_id,
        kind=columns.kind,
        content=None if payload is None else payload.content,
        owner=known.get(columns.owner),
        actor=known.get(columns.actor),
        reason=None if event.body is None else event.body.reason,
    )
