"""Branches: lines of history that begin at an index of their parent and copy nothing."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final
from uuid import UUID

from memoriale.domain.branch_events import Discarded, MergeApproved, Merged, MergeProposed
from memoriale.domain.errors import InputError, RefusedError, UnavailableError
from memoriale.domain.events import Forked, ForkedBody, RecordedEvent
from memoriale.domain.text import check_text, shown

MAIN: Final = "main"
NO_LIMIT: Final = 2**63 - 1
MAX_DEPTH: Final = 100
RESERVED: Final = "__"
"""How names of branches begin that the library makes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """
    An append that took changes of a branch over.

    Args:
        into: The branch that it changed.
        seen: Index of the last event up to which the branch was looked at.
        first: Index of the append's first event.
        last: Index of its last one.
        complete: Whether it left nothing for a further append.
    """

    into: UUID
    seen: int
    first: int
    last: int
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """
    A merge that somebody asked for.

    Args:
        id: What it is approved by.
        into: The branch to be changed.
        prefer: Who wins where both sides changed the same.
        seen: Index of the last event whose changes are meant.
        approved: Whether it was carried out.
    """

    id: UUID
    into: UUID
    prefer: str
    seen: int
    approved: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """
    A branch as recorded by ``branch.forked`` and what followed in its stream.

    ``at`` is the index of the last event of ``parent`` that the branch sees. ``owner`` is the
    pseudonym of the owner that it is limited to, None for the whole tenant. With a
    ``parent_owner`` the owner is a child: it inherits that owner's memories up to ``at``, under
    that owner's access rules. ``discarded`` is the index of the event that ended it. ``version``
    counts the events of its stream, ``stream_id``; ``main`` has none.
    """

    id: UUID
    name: str | None
    parent: UUID | None
    at: int
    owner: UUID | None
    owner_type: str | None = None
    parent_owner: UUID | None = None
    parent_owner_type: str | None = None
    index: int = -1
    recorded_at: datetime | None = None
    discarded: int | None = None
    merges: tuple[Merge, ...] = ()
    proposals: tuple[Proposal, ...] = ()
    stream_id: UUID | None = None
    version: int = 0

    def require_live(self, limit: int = NO_LIMIT) -> None:
        """
        Refuses to act on a branch that is discarded, or to read it as of a point after its end.

        Args:
            limit: Index of the last event that a read sees.

        Raises:
            RefusedError: ``discarded``.
        """
        if self.discarded is None or limit < self.discarded:
            return
        raise RefusedError(
            f"branch {shown(self.name or str(self.id))!r} was discarded; it can be read as of a "
            f"point before index {self.discarded}, for anything else take another branch.",
            code="discarded",
            field="branch",
            value=shown(self.name or str(self.id)),
            allowed=f"an as-of below {self.discarded}",
        )


@dataclass(frozen=True, slots=True)
class Line:
    """One branch of a lineage, and the index up to which its events are seen (inclusive)."""

    branch: UUID
    limit: int


Lineage = tuple[Line, ...]
"""From the branch itself to ``main``."""


def main_branch(log_id: UUID) -> Branch:
    """The branch that every log has; its id is the log's."""
    return Branch(id=log_id, name=MAIN, parent=None, at=NO_LIMIT, owner=None)


def project_branch(branch: Branch | None, events: Iterable[RecordedEvent]) -> Branch | None:
    """Folds the stream of one branch; the library's projector signature."""
    for recorded in events:
        if isinstance(recorded.event, Forked):
            branch = _forked(recorded, recorded.event)
        elif branch is not None and branch.id == recorded.columns.branch:
            branch = _evolved(branch, recorded)
    return branch


def project_branches(events: Iterable[RecordedEvent]) -> dict[UUID, Branch]:
    """Folds the streams of several branches, in index order, to the branches by id."""
    found: dict[UUID, Branch] = {}
    for recorded in events:
        known = None if recorded.columns.branch is None else found.get(recorded.columns.branch)
        branch = project_branch(known, [recorded])
        if branch is not None:
            found[branch.id] = branch
    return found


def lineage(branch: Branch, branches: Mapping[UUID, Branch], as_of: int = NO_LIMIT) -> Lineage:
    """
    The lines that a read of ``branch`` follows: each ancestor up to the point where the next
    branch left it, and none beyond ``as_of``.

    Args:
        branch: Where the read starts.
        branches: Every branch of the log by id.
        as_of: Last index that the read may see.

    Raises:
        UnavailableError: An ancestor is missing, or there are more than 100: the log was changed.
    """
    lines, current, limit = [Line(branch.id, as_of)], branch, as_of
    while current.parent is not None:
        limit = min(limit, current.at)
        parent = branches.get(current.parent)
        if parent is None or len(lines) > MAX_DEPTH:
            raise UnavailableError(
                f"the lineage of branch {branch.id} does not lead to main; verify the log.",
                code="bad_lineage",
                field="branch",
                value=str(branch.id),
            )
        current = parent
        lines.append(Line(current.id, limit))
    return tuple(lines)


def check_branch_name(name: object) -> str:
    """
    A name for a new branch.

    Raises:
        InputError: Blank, over 256 bytes, or ``main``.
    """
    text = check_text("branch", name, max_bytes=256)
    if text == MAIN:
        raise InputError(
            "every log has the branch 'main' already; choose another name.",
            code="taken",
            field="branch",
            value=text,
        )
    return text


def check_own_name(name: object) -> str:
    """
    A name that a caller gives a new branch: those with two underscores at the beginning are for
    branches that the library makes and finds by their names.

    Raises:
        InputError: As ``check_branch_name``, or ``reserved``.
    """
    text = check_branch_name(name)
    if text.startswith(RESERVED):
        raise InputError(
            f"branch names that begin with {RESERVED!r} are reserved; choose another one.",
            code="reserved",
            field="branch",
            value=shown(text),
        )
    return text


def require_discardable(branch: Branch) -> None:
    """
    Refuses to end a branch that the library made and looks for: what lies on it could not be
    reached any more, and nothing could be made in its place.

    Raises:
        RefusedError: ``reserved``.
    """
    if branch.name is None or not branch.name.startswith(RESERVED):
        return
    raise RefusedError(
        f"branch {shown(branch.name)!r} holds the memory of a resource that was forked, which "
        "would be lost with it; delete its keys and forget its facts, or fork the parent to "
        "another resource.",
        code="reserved",
        field="branch",
        value=shown(branch.name),
        allowed="a branch that was made with fork",
    )


def _forked(recorded: RecordedEvent, event: Forked) -> Branch:
    columns, header = recorded.columns, event.header
    assert columns.branch is not None
    scoped = header.scope == "owner"
    return Branch(
        id=columns.branch,
        name=event.body.name if isinstance(event.body, ForkedBody) else None,
        parent=header.parent,
        at=header.at,
        owner=columns.owner if scoped else None,
        owner_type=columns.owner_type if scoped else None,
        parent_owner=header.parent_owner,
        parent_owner_type=header.parent_owner_type,
        index=recorded.index,
        recorded_at=recorded.recorded.recorded_at,
        stream_id=columns.stream_id,
        version=columns.stream_version,
    )


def _evolved(branch: Branch, recorded: RecordedEvent) -> Branch:
    event, place = recorded.event, recorded.recorded
    branch = replace(branch, version=recorded.columns.stream_version)
    if isinstance(event, MergeProposed):
        header = event.header
        proposal = Proposal(
            id=recorded.columns.event_id, into=header.into, prefer=header.prefer, seen=header.seen
        )
        return replace(branch, proposals=(*branch.proposals, proposal))
    if isinstance(event, MergeApproved):
        wanted = event.header.proposal
        settled = (replace(p, approved=p.approved or p.id == wanted) for p in branch.proposals)
        return replace(branch, proposals=tuple(settled))
    if isinstance(event, Merged):
        merge = Merge(
            into=event.header.into,
            seen=event.header.seen,
            first=place.append_first,
            last=place.append_last,
            complete=event.header.complete,
        )
        return replace(branch, merges=(*branch.merges, merge))
    return replace(branch, discarded=place.index) if isinstance(event, Discarded) else branch
