"""``ResourceRef``: whose memory is meant."""

from dataclasses import dataclass

from memoriale.domain.namespaces import scope_key
from memoriale.domain.text import check_outside_id


@dataclass(frozen=True, slots=True)
class ResourceRef:
    """
    A resource, of a team if one is given (reference system C, ``ResourceRef``).

    A resource is a durable identity that several agents or sandboxes share one after the other.
    The resource of a team and the one of the same name without a team are two.

    Args:
        resource_id: Outside id; at most 256 bytes together with the team.
        team_id: Outside id of the team; empty means none.

    Raises:
        InputError: An id that is blank, too long, or no text.
    """

    resource_id: str
    team_id: str | None = None

    def __post_init__(self) -> None:
        if self.team_id == "":
            object.__setattr__(self, "team_id", None)
        check_outside_id("resource_id", self.resource_id)
        if self.team_id is not None:
            check_outside_id("team_id", self.team_id)
        check_outside_id("resource_id", self.key)

    @property
    def key(self) -> str:
        """One text that names it and no other; see ``scope_key``."""
        return scope_key(self.resource_id, self.team_id)
