"""Finding branches by name, following their lineage, and forking."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID, uuid4

from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.adapters.keys.tags import branch_stream_id
from memoriale.adapters.postgres.branch_reading import BranchReader
from memoriale.domain.access import AccessScope
from memoriale.domain.branches import (
    MAIN,
    MAX_DEPTH,
    NO_LIMIT,
    Branch,
    Lineage,
    check_branch_name,
    lineage,
    main_branch,
    project_branch,
    project_branches,
)
from memoriale.domain.errors import ConflictError, InputError
from memoriale.domain.events import Event, Forked, ForkedBody, ForkedHeader, NewEvent
from memoriale.domain.guards import Guard, StreamAt
from memoriale.domain.keys import PersonKey, Subject
from memoriale.domain.kinds import OWNER_TYPES
from memoriale.domain.principal import Principal, Right
from memoriale.domain.record import Columns
from memoriale.domain.text import check_characters, shown

BRANCH_KIND: Final = "branch"
_MAX_ATTEMPTS: Final = 64


@dataclass(frozen=True, slots=True)
class BranchView:
    """A branch with every branch that its lineage may pass through."""

    branch: Branch
    known: dict[UUID, Branch]

    def lineage(self, as_of: int = NO_LIMIT) -> Lineage:
        """The lines that a read follows, none beyond ``as_of``."""
        return lineage(self.branch, self.known, as_of)

    def parent_owners(self) -> tuple[UUID, ...]:
        """
        Whose memories the branch inherits, the nearest first: the parent owner of the branch and
        of each ancestor. The lineage ends each one's where the branch of its child left.
        """
        found: list[UUID] = []
        current: Branch | None = self.branch
        while current is not None:
            if current.parent_owner is not None:
                found.append(current.parent_owner)
            current = None if current.parent is None else self.known[current.parent]
        return tuple(dict.fromkeys(found))


class Branching:
    """The branches of one tenant's memory log."""

    def __init__(self, log: TenantLog) -> None:
        self._log = log

    def resolve(self, principal: Principal, name: str) -> BranchView:
        """
        The branch that a principal means by a name: its own first, then the tenant's.

        Raises:
            InputError: ``unknown_branch``, or no text.
        """
        check_characters("branch", name)
        main = main_branch(self._log.log_id)
        if name == MAIN:
            return BranchView(main, {main.id: main})
        for scope in self._scopes(principal):
            branch = self.named(scope, name)
            if branch is not None:
                # A branch of main needs no other one to be read.
                known = {main.id: main} if branch.parent == main.id else self._load(principal)
                return BranchView(branch, self._with_ancestors(branch, known))
        known = self._load(principal)
        raise InputError(
            f"unknown branch {shown(name)!r}; list the branches or fork it first.",
            code="unknown_branch",
            field="branch",
            value=shown(name),
            allowed=[MAIN, *(b.name for b in known.values() if b.name and _is_listed(b))],
        )

    def by_id(self, principal: Principal, branch_id: UUID) -> BranchView:
        """
        The branch of an id, for a principal that may use it.

        Raises:
            InputError: ``unknown_branch``.
        """
        main = main_branch(self._log.log_id)
        if branch_id == main.id:
            return BranchView(main, {main.id: main})
        for branch in self.visible(principal, discarded=True):
            if branch.id == branch_id:
                return BranchView(branch, self._with_ancestors(branch, self._load(principal)))
        raise InputError(
            f"there is no branch {branch_id} that this principal may use.",
            code="unknown_branch",
            field="branch",
            value=str(branch_id),
        )

    def named(self, owner: PersonKey, name: str) -> Branch | None:
        """The branch of an owner's own by its name; one look-up by key."""
        return self._by_stream(self.stream_of(owner, name))

    def stream_of(self, owner: PersonKey, name: str) -> UUID:
        """The stream that tells of an owner's branch of a name, whether there is one or not."""
        return branch_stream_id(self._log.identities.tag_key(owner), name)

    def everything(self) -> dict[UUID, Branch]:
        """Every branch of the log by id, whosever it is, discarded ones too."""
        log = self._log
        rows = BranchReader(log.reader.datastore, log.reader.log).branches()
        main = main_branch(log.log_id)
        return {main.id: main, **project_branches(log.mapper.decode(rows))}

    def visible(self, principal: Principal, *, discarded: bool = False) -> list[Branch]:
        """Every branch that a principal may use, oldest first; discarded ones where asked for."""
        known = self._load(principal)
        scopes = {key.pseudonym for key in self._scopes(principal)}
        mine = [b for b in known.values() if b.owner is None or b.owner in scopes]
        mine = [b for b in mine if discarded or b.discarded is None]
        return sorted(mine, key=lambda branch: branch.index)

    def fork(
        self,
        principal: Principal,
        name: str,
        parent: BranchView,
        at: int,
        *,
        child: Subject | None = None,
        reason: str | None = None,
        guards: Sequence[Guard] = (),
    ) -> Branch:
        """
        Makes a branch in one append that copies nothing.

        Args:
            principal: The caller; the branch holds the memories of the first owner it is, or of
                the whole tenant when it is none (right ``review``).
            name: Unique among the owner's branches, for ever.
            parent: Where it leaves from.
            at: Index of the last event of the parent that it sees; whole appends.
            child: Another owner, which inherits the caller's memories up to ``at``.
            reason: Why; sealed.
            guards: Further conditions under which it may be made.

        Raises:
            InputError: The name is taken or cannot be used, or the lineage would be over 100
                deep.
        """
        check_branch_name(name)
        if len(parent.lineage()) >= MAX_DEPTH:
            raise InputError(
                f"a lineage can be at most {MAX_DEPTH} branches deep.",
                code="too_deep",
                field="branch",
                value=name,
                allowed=MAX_DEPTH,
            )
        own = _first_owner(principal)
        if own is None:
            principal.require(Right.REVIEW)
        new = self._forked(principal, name, parent.branch, at, own, child, reason)
        stream, left = new.columns.stream_id, parent.branch
        for attempt in range(_MAX_ATTEMPTS):
            left.require_live()
            if self._by_stream(stream) is not None:
                raise _taken(name)
            try:
                self._log.save([new], [*unchanged(left), *guards])
                break
            except ConflictError:
                # Somebody took the name, or something happened to the parent.
                after = self._current(left)
                refused = guards and after == left and self._by_stream(stream) is None
                if refused or attempt == _MAX_ATTEMPTS - 1:
                    raise
                left = after
        branch = self._by_stream(stream)
        assert branch is not None
        return branch

    def happened(
        self,
        principal: Principal,
        branch: Branch,
        event: Event,
        version: int,
        correlation_id: UUID | None = None,
    ) -> NewEvent:
        """
        The next event in a branch's stream.

        Args:
            principal: Who acts.
            branch: The branch, not ``main``.
            event: What happens to it.
            version: Its place in the stream.
            correlation_id: What it belongs to.
        """
        assert branch.stream_id is not None
        identities = self._log.identities
        owner = branch.owner
        scope = identities.tenant() if owner is None else identities.by_pseudonyms([owner])[0]
        columns = Columns(
            **identities.stamp(principal, correlation_id, None).fields(),
            event_id=uuid4(),
            stream_id=branch.stream_id,
            stream_version=version,
            topic=type(event).TOPIC,
            schema_version=type(event).SCHEMA_VERSION,
            branch=branch.id,
            kind=BRANCH_KIND,
            owner=scope.pseudonym,
            owner_type=scope.subject.type,
        )
        return NewEvent(event, columns, (scope,))

    def _current(self, branch: Branch) -> Branch:
        found = None if branch.stream_id is None else self._by_stream(branch.stream_id)
        return branch if found is None else found

    def _forked(
        self,
        principal: Principal,
        name: str,
        parent: Branch,
        at: int,
        own: Subject | None,
        child: Subject | None,
        reason: str | None,
    ) -> NewEvent:
        identities = self._log.identities
        scope = identities.key(child or own or Subject("tenant", principal.tenant))
        above = identities.find(own) if child is not None else None
        event = Forked(
            header=ForkedHeader(
                parent=parent.id,
                at=at,
                scope="tenant" if own is None and child is None else "owner",
                parent_owner=above.pseudonym if above else None,
                parent_owner_type=above.subject.type if above else None,
            ),
            body=ForkedBody(name=name, reason=reason),
        )
        columns = Columns(
            **identities.stamp(principal, None, None).fields(),
            event_id=uuid4(),
            stream_id=branch_stream_id(self._log.identities.tag_key(scope), name),
            stream_version=1,
            topic=Forked.TOPIC,
            schema_version=Forked.SCHEMA_VERSION,
            branch=uuid4(),
            kind=BRANCH_KIND,
            owner=scope.pseudonym,
            owner_type=scope.subject.type,
        )
        return NewEvent(event, columns, (scope,))

    def _by_stream(self, stream_id: UUID) -> Branch | None:
        rows = self._log.reader.stream(stream_id)
        return project_branch(None, self._log.mapper.decode(rows))

    def _scopes(self, principal: Principal) -> list[PersonKey]:
        subjects = [*principal.identities(), Subject("tenant", principal.tenant)]
        return [key for s in subjects if (key := self._log.identities.find(s)) is not None]

    def _load(self, principal: Principal) -> dict[UUID, Branch]:
        main = main_branch(self._log.log_id)
        known = {main.id: main}
        for key in self._scopes(principal):
            known.update(self._of_owner(key.pseudonym))
        return known

    def _of_owner(self, owner: UUID) -> dict[UUID, Branch]:
        rows = self._log.reader.slice(owner, BRANCH_KIND)
        return project_branches(self._log.mapper.decode(rows))

    def _with_ancestors(self, branch: Branch, known: dict[UUID, Branch]) -> dict[UUID, Branch]:
        known = {**known, branch.id: branch}
        current = branch
        while current.parent is not None:
            if current.parent not in known:
                owner = current.parent_owner
                # Without a parent's owner it is one of whoever forked, who is more than the caller.
                parents = self.everything() if owner is None else self._of_owner(owner)
                # Followed, not named: they are another owner's.
                known = {**{i: replace(b, name=None) for i, b in parents.items()}, **known}
            current = known[current.parent]
        return known


def branch_scope(scope: AccessScope, branch: BranchView) -> AccessScope:
    """
    What a caller with this scope sees on a branch: the memories that the branch inherits from
    other owners as well, under those owners' rules.
    """
    parents = branch.parent_owners()
    return replace(scope, owners=scope.owners.union(parents)) if parents else scope


def unchanged(branch: Branch) -> tuple[Guard, ...]:
    """The guard for what rests on a branch being as it was read; ``main`` never changes."""
    return () if branch.stream_id is None else (StreamAt(branch.stream_id, branch.version),)


def renewed(log: TenantLog, view: BranchView) -> BranchView:
    """
    A branch as it stands now, for who was refused under ``unchanged``: it may have been merged,
    or discarded.
    """
    branch = view.branch
    if branch.stream_id is None:
        return view
    found = project_branch(None, log.mapper.decode(log.reader.stream(branch.stream_id)))
    # Whose name the caller may not know keeps none.
    now = branch if found is None else replace(found, name=branch.name)
    return BranchView(now, {**view.known, now.id: now})


def _is_listed(branch: Branch) -> bool:
    return branch.name != MAIN and branch.discarded is None


def _first_owner(principal: Principal) -> Subject | None:
    own = (principal.identity(type_) for type_ in OWNER_TYPES)
    return next((subject for subject in own if subject is not None), None)


def _taken(name: str) -> InputError:
    return InputError(
        f"a branch named {shown(name)!r} exists already; names are never used again.",
        code="taken",
        field="branch",
        value=shown(name),
    )
