"""Branches: lines of history that begin at an index of their parent and copy nothing."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from memoriale.domain.errors import InputError, UnavailableError
from memoriale.domain.events import Forked, ForkedBody, RecordedEvent
from memoriale.domain.text import check_text

MAIN: Final = "main"
NO_LIMIT: Final = 2**63 - 1
MAX_DEPTH: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """
    A branch as recorded by ``branch.forked``.

    ``at`` is the index of the last event of ``parent`` that the branch sees. ``owner`` is the
    pseudonym of the owner that it is limited to, None for the whole tenant. With a
    ``parent_owner`` the owner is a child: it inherits that owner's memories up to ``at``, under
    that owner's access rules.
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
    return branch


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
    )
