"""Which memories a caller may see, as plain data that every view and fold applies alike."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from uuid import UUID

from memoriale.domain.record import Columns

GLOBAL_TENANT: Final = "_global"
"""The reserved tenant of the memories that every tenant sees."""


class Visibility(StrEnum):
    """
    Who may see a memory besides its owner. What is global lives in the log of ``_global``, and
    nothing else does.
    """

    OWNER = "owner"
    USER = "user"
    AGENT = "agent"
    TEAM = "team"
    TENANT = "tenant"
    GLOBAL = "global"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessScope:
    """
    The caller as pseudonyms. A name that the tenant has never seen has none and matches nothing.

    Args:
        owners: Pseudonyms of every owner that the caller is.
        user: The caller's user.
        agent: The caller's agent.
        teams: The caller's teams.
        everything: Sees all owners of the tenant (rights ``audit`` and ``content``).
        shared: The visibility that all callers of this log see: in ``_global`` that is
            ``global``, for callers of whatever tenant.
    """

    owners: frozenset[UUID] = frozenset()
    user: UUID | None = None
    agent: UUID | None = None
    teams: frozenset[UUID] = frozenset()
    everything: bool = False
    shared: Visibility = Visibility.TENANT

    def allows(self, row: Columns) -> bool:
        """
        Whether the caller may see a memory with these columns.

        The owner sees it, and so does whom its visibility names: the same user, the same agent
        within the tenant, a member of the team, or the whole tenant. A session's memories that
        were recorded for a user do not become another's because that one knows the session's id.
        """
        if self.everything or row.visibility == self.shared:
            return True
        if row.owner in self.owners and not is_anothers_in_session(row, self.user):
            return True
        return (
            (row.visibility == Visibility.USER and _same(row.principal_user, self.user))
            or (row.visibility == Visibility.AGENT and _same(row.principal_agent, self.agent))
            or (row.visibility == Visibility.TEAM and row.principal_team in self.teams)
        )


GLOBAL_SCOPE: Final = AccessScope(shared=Visibility.GLOBAL)
"""What callers of every tenant see of the log of ``_global``."""


def is_anothers_in_session(row: Columns, user: UUID | None) -> bool:
    """Whether a session's memory was recorded for a user, and not for this one."""
    return row.owner_type == "session" and row.principal_user not in (None, user)


def _same(recorded: UUID | None, caller: UUID | None) -> bool:
    return recorded is not None and recorded == caller
