"""Who may use the memory of a team."""

from typing import Protocol, runtime_checkable

from memoriale.domain.errors import MemoryAccessDeniedError
from memoriale.domain.resources.ref import ResourceRef


@runtime_checkable
class TeamAccessChecker(Protocol):
    """Says which teams' memory may be used (reference system C, ``TeamAccessChecker``)."""

    def can_access(self, team_id: str | None) -> bool:
        """Whether the memory of a team may be used; None: the memory without a team."""


def check_team_access(checker: TeamAccessChecker, ref: ResourceRef) -> None:
    """
    Refuses a resource unless the checker answers True and nothing else: an answer that is only
    truthy, such as a coroutine that nobody awaited, is a no.

    Raises:
        MemoryAccessDeniedError: ``team_id`` names the team.
    """
    if checker.can_access(ref.team_id) is not True:
        whose = "without a team" if ref.team_id is None else f"of the team {ref.team_id!r}"
        raise MemoryAccessDeniedError(
            f"the memory {whose} is closed to this caller; nothing was read or stored.",
            field="team_id",
            value=ref.team_id,
        )
