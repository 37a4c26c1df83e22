"""Sessions and their messages, read from the newest end of the log, strongly consistent."""

import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID, uuid4

from memoriale.adapters.application.branching import (
    BranchView,
    branch_scope,
    renewed,
    unchanged,
)
from memoriale.adapters.application.drafting import Drafting
from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.adapters.postgres.session_reading import opened_rows
from memoriale.adapters.postgres.slice_ends import newest_rows, oldest_rows
from memoriale.domain.branches import NO_LIMIT, Lineage
from memoriale.domain.errors import ConflictError
from memoriale.domain.events import Body, Event, Header, NewEvent, RecordedEvent
from memoriale.domain.guards import NothingNew
from memoriale.domain.keys import PersonKey, Subject
from memoriale.domain.memory import MemoryState
from memoriale.domain.payloads import Message
from memoriale.domain.principal import Principal
from memoriale.domain.record import Columns
from memoriale.domain.sessions import (
    SESSION_KIND,
    SessionOpened,
    SessionState,
    SessionStateBody,
    SessionStateUpdated,
    changed_keys,
    merged,
    project_session,
)
from memoriale.domain.slices import fold_slice
from memoriale.domain.stores.sessions import MESSAGE

MAX_ATTEMPTS: Final = 64
_PAUSE_SECONDS: Final = 0.002
_PAGE: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """
    What is known of a session id.

    Args:
        owner: The session.
        user: Pseudonym of the user for whom it was first opened, on whatever branch; None for
            an anonymous one.
        session: The session as the branch sees it; None when it was not opened there.
    """

    owner: PersonKey
    user: UUID | None
    session: SessionState | None


class Conversations:
    """
    The sessions of one tenant.

    Args:
        log: The memory log.
        clock: The time by which messages expire.
    """

    def __init__(self, log: TenantLog, clock: Callable[[], datetime]) -> None:
        self._log = log
        self._clock = clock
        self._drafting = Drafting(log)

    def find(self, session_id: str, branch: BranchView, limit: int = NO_LIMIT) -> Known | None:
        """What is known of a session id as of an index; None when nothing is."""
        branch.branch.require_live(limit)
        owner = self._log.identities.find(Subject("session", session_id))
        if owner is None:
            return None
        first = self._decoded(owner.pseudonym, oldest=True, edge=-1, limit=1)
        if not first:
            return None
        user = first[0].columns.principal_user
        ends = self._ends(owner.pseudonym, branch.lineage(limit))
        return Known(owner=owner, user=user, session=project_session(None, ends))

    def of_user(
        self, user: UUID, branch: BranchView, limit: int, before: int
    ) -> Iterator[tuple[int, SessionState]]:
        """
        A user's sessions as a branch sees them, the last opened first.

        Args:
            user: The user's pseudonym.
            branch: As which branch sees them.
            limit: Index of the last event that counts.
            before: Only those opened before this index.

        Yields:
            The index at which each was opened, and the session.
        """
        branch.branch.require_live(limit)
        lineage = branch.lineage(limit)
        limits = {line.branch: line.limit for line in lineage}
        before = min(before, limit + 1)
        while rows := opened_rows(self._log.reader, user, before=before, limit=_PAGE):
            before = rows[-1].recorded.index
            for row in rows:
                owner, index = row.columns.owner, row.recorded.index
                seen = row.columns.branch in limits and index <= limits[row.columns.branch]
                if seen and self._opened_for(owner) == user:
                    session = project_session(None, self._ends(owner, lineage))
                    if session is not None:
                        yield index, session

    def open(self, principal: Principal, branch: BranchView) -> SessionState | None:
        """
        Opens the principal's session for its user, when it is not opened yet.

        Returns:
            The session; None when it belongs to another user.
        """
        assert principal.session is not None
        for attempt in range(MAX_ATTEMPTS):
            after = self._log.head() - 1
            known = self.find(principal.session, branch)
            if known is not None and known.user not in (None, self._user(principal)):
                return None
            if known is not None and known.session is not None:
                return known.session
            event = SessionOpened(header=Header(), body=Body())
            if not self._try(principal, branch, event, after, None, attempt):
                branch = renewed(self._log, branch)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def update(
        self, principal: Principal, branch: BranchView, session_id: str, patch: Mapping[str, Any]
    ) -> SessionState:
        """
        Merges a patch into the state of a session that is open; one that changes nothing stores
        nothing.

        Raises:
            InputError: The patch, or the state that it would make.
            ConflictError: Others kept changing it.
        """
        for attempt in range(MAX_ATTEMPTS):
            after = self._log.head() - 1
            known = self.find(session_id, branch)
            assert known is not None and known.session is not None
            before = known.session.state
            state = merged(before, patch)
            changed = changed_keys(before, state)
            if not changed:
                return known.session
            body = SessionStateBody(state=state, changed=changed)
            event = SessionStateUpdated(header=Header(), body=body)
            if self._try(principal, branch, event, after, branch.branch.id, attempt):
                updated = self.find(session_id, branch)
                assert updated is not None and updated.session is not None
                return updated.session
            branch = renewed(self._log, branch)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def messages(
        self, principal: Principal, branch: BranchView, owner: UUID, most: int, last: int
    ) -> list[MemoryState]:
        """
        The newest messages of a session that the principal may see, oldest first.

        Args:
            principal: Who asks.
            branch: As which branch sees them.
            owner: The session's pseudonym.
            most: How many at most.
            last: Index of the last event that counts.
        """
        scope = branch_scope(self._log.identities.scope(principal), branch)
        now, lineage = self._clock(), branch.lineage(last)
        events: list[RecordedEvent] = []
        before, page = last + 1, most + _PAGE
        while True:
            rows = newest_rows(self._log.reader, owner, MESSAGE, before=before, limit=page)
            events = [*self._log.mapper.decode(rows[::-1]), *events]
            # What happened to a message stands after it, so a tail has all of its messages' events.
            states = fold_slice(events, lineage).values()
            found = [
                state
                for state in states
                if isinstance(state.payload, Message)
                and state.is_current(now)
                and scope.allows(state.columns)
            ]
            if len(found) >= most or len(rows) < page:
                found.sort(key=lambda state: state.first_index)
                return found[max(0, len(found) - most) :]
            before, page = rows[-1].recorded.index, page * 2

    def _opened_for(self, owner: UUID) -> UUID | None:
        rows = oldest_rows(self._log.reader, owner, SESSION_KIND, after=-1, limit=1)
        return rows[0].columns.principal_user if rows else None

    def _ends(self, owner: UUID, lineage: Lineage) -> list[RecordedEvent]:
        """The first and the newest event of a session that a branch sees."""
        first = self._first_seen(owner, lineage, oldest=True)
        if first is None:
            return []
        newest = self._first_seen(owner, lineage, oldest=False)
        assert newest is not None
        return [first] if newest.index == first.index else [first, newest]

    def _first_seen(self, owner: UUID, lineage: Lineage, *, oldest: bool) -> RecordedEvent | None:
        limits = {line.branch: line.limit for line in lineage}
        edge, limit = (-1 if oldest else lineage[0].limit), 1
        while events := self._decoded(owner, oldest=oldest, edge=edge, limit=limit):
            for recorded in events:
                branch = recorded.columns.branch
                if branch in limits and recorded.index <= limits[branch]:
                    return recorded
            edge = events[-1].index if oldest else events[-1].index - 1
            limit = _PAGE
        return None

    def _decoded(self, owner: UUID, *, oldest: bool, edge: int, limit: int) -> list[RecordedEvent]:
        reader = self._log.reader
        if oldest:
            rows = oldest_rows(reader, owner, SESSION_KIND, after=edge, limit=limit)
        else:
            before = edge if edge == NO_LIMIT else edge + 1
            rows = newest_rows(reader, owner, SESSION_KIND, before=before, limit=limit)
        return self._log.mapper.decode(rows)

    def _user(self, principal: Principal) -> UUID | None:
        user = principal.identity("user")
        return None if user is None else self._log.identities.key(user).pseudonym

    def _try(
        self,
        principal: Principal,
        branch: BranchView,
        event: Event,
        after: int,
        guarded: UUID | None,
        attempt: int,
    ) -> bool:
        """Appends an event of a session unless somebody was faster; then the fold begins anew."""
        session = principal.identity("session")
        assert session is not None
        users = () if principal.user is None else (principal.user,)
        owner = self._drafting.owner(session, users)
        self._drafting.require_branch(branch, owner.key.pseudonym, "session", self._user(principal))
        stream = self._drafting.stream(owner.key.pseudonym, branch)
        written = self._log.reader.stream(stream, desc=True, limit=1)
        columns = Columns(
            **self._log.identities.stamp(principal, None, None).fields(),
            event_id=uuid4(),
            stream_id=stream,
            stream_version=written[0].columns.stream_version + 1 if written else 1,
            topic=type(event).TOPIC,
            schema_version=type(event).SCHEMA_VERSION,
            branch=branch.branch.id,
            kind=SESSION_KIND,
            owner=owner.key.pseudonym,
            owner_type="session",
            about=tuple(person.pseudonym for person in owner.about),
        )
        guards = (
            NothingNew(owner.key.pseudonym, SESSION_KIND, after, guarded),
            *unchanged(branch.branch),
        )
        try:
            self._log.save([NewEvent(event, columns, owner.sealed_for)], guards)
        except ConflictError:
            if attempt == MAX_ATTEMPTS - 1:
                raise
            time.sleep(random.uniform(0, _PAUSE_SECONDS * (attempt + 1)))
            return False
        return True
