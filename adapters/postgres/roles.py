"""The roles of the ledger, and the logins by which they are taken."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final


class Role(StrEnum):
    """What somebody does with the database; each may do that and no more."""

    OWNER = "memoriale_owner"
    """Owns every object. Nobody logs in as it; only migrations act as it."""
    APPEND = "memoriale_append"
    READ = "memoriale_read"
    PROJECT = "memoriale_project"
    """Reads the log to post views from it."""
    ERASE = "memoriale_erase"
    ADMIN = "memoriale_admin"
    """Migrates."""


VARIABLES: Final = {
    Role.APPEND: "MEMORIALE_DATABASE_URL",
    Role.READ: "MEMORIALE_DATABASE_URL",
    Role.PROJECT: "MEMORIALE_PROJECT_URL",
    Role.ERASE: "MEMORIALE_ERASE_URL",
    Role.ADMIN: "MEMORIALE_ADMIN_URL",
}
"""Which setting names the login of a role."""


@dataclass(frozen=True, slots=True)
class Logins:
    """
    Connection strings by what they are for. Where one is None its role is taken on the first.

    Args:
        first: Appends and reads.
        project: Posts views.
        erase: Removes payloads.
        admin: Migrates.
    """

    first: str = field(repr=False)
    project: str | None = field(default=None, repr=False)
    erase: str | None = field(default=None, repr=False)
    admin: str | None = field(default=None, repr=False)

    def own(self, role: Role) -> str | None:
        """The connection string that was given for a role, None where it falls back."""
        if role in (Role.APPEND, Role.READ):
            return self.first
        given = {Role.PROJECT: self.project, Role.ERASE: self.erase, Role.ADMIN: self.admin}
        return given.get(role)

    def of(self, role: Role) -> str:
        """The connection string by which a role is taken."""
        return self.own(role) or self.first
