"""Who calls, and what they may do."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from memoriale.domain.access import GLOBAL_TENANT
from memoriale.domain.errors import InputError, MissingRightError
from memoriale.domain.keys import Subject
from memoriale.domain.kinds import OWNER_TYPES
from memoriale.domain.namespaces import normalise_path, scope_key
from memoriale.domain.text import (
    check_code,
    check_outside_id,
    check_tenant,
    check_text,
    shown,
)


class Right(StrEnum):
    """A right that a principal carries. Each command names the one that it needs."""

    USE = "use"
    AUDIT = "audit"
    CONTENT = "content"
    ANALYSE = "analyse"
    PRIVACY = "privacy"
    REVIEW = "review"
    OPERATE = "operate"
    ADMIN = "admin"


ALL_RIGHTS: Final = frozenset(Right)


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """
    The caller. The tenant is always there; everything else says as whom.

    Args:
        tenant: Unit of isolation; stored in clear, see ``check_tenant``.
        user: Outside id of a person, an opaque text of at most 256 bytes.
        agent: Outside id of an agent; agent-wide means within the tenant.
        resource: Durable identity that agents share; within ``team`` if one is given.
        session: Outside id of a conversation.
        team: The team acted for.
        teams: Further teams whose memories may be read.
        rights: Rights carried; the embedded default is all of them.
        actor: Who does it, when that is not the user; ``actor_kind`` says of which type.
        actor_kind: user, agent or service.
        authentication: ``asserted`` by the embedding program, or how a server checked it.
        on_behalf_of: A user for whom the actor acts.
        purpose: Code for what the access is for; stored in clear.
        namespace: Path that reads look from and writes are stored at.
    """

    tenant: str
    user: str | None = None
    agent: str | None = None
    resource: str | None = None
    session: str | None = None
    team: str | None = None
    teams: tuple[str, ...] = ()
    rights: frozenset[Right] = field(default=ALL_RIGHTS)
    actor: str | None = None
    actor_kind: str = "user"
    authentication: str = "asserted"
    on_behalf_of: str | None = None
    purpose: str | None = None
    namespace: str | None = None

    def __post_init__(self) -> None:
        check_tenant(self.tenant)
        for name in (*OWNER_TYPES, "actor", "on_behalf_of"):
            value = getattr(self, name)
            if value is not None:
                check_outside_id(name, value)
        if not isinstance(self.teams, tuple | list):
            raise InputError(
                "teams must be a list of names.",
                code="bad_value",
                field="teams",
                value=shown(self.teams),
                allowed="a list of texts",
            )
        for team in self.teams:
            check_outside_id("teams", team)
        object.__setattr__(self, "teams", tuple(self.teams))
        object.__setattr__(self, "rights", parse_rights(self.rights))
        check_code("authentication", self.authentication)
        if self.purpose is not None:
            check_code("purpose", self.purpose)
        if self.actor_kind not in ("user", "agent", "service"):
            raise InputError(
                f"actor_kind is {self.actor_kind!r}; allowed are user, agent and service.",
                code="bad_value",
                field="actor_kind",
                value=self.actor_kind,
                allowed=["user", "agent", "service"],
            )
        if self.namespace is not None:
            check_text("namespace", self.namespace, max_bytes=2_048)
            object.__setattr__(self, "namespace", normalise_path(self.namespace))
        if self.resource is not None:
            check_outside_id("resource", scope_key(self.resource, self.team))

    def with_(self, **changes: object) -> "Principal":
        """The same principal with other values."""
        return replace(self, **changes)  # type: ignore[arg-type]

    def identity(self, type_: str) -> Subject | None:
        """The caller as an owner of one type, or None when the principal has none."""
        if type_ == "tenant":
            return Subject("tenant", self.tenant)
        if type_ == "resource" and self.resource is not None:
            return Subject("resource", scope_key(self.resource, self.team))
        value = getattr(self, type_)
        return None if value is None else Subject(type_, value)

    def owners(self) -> list[Subject]:
        """Every owner that the caller is: what it may change is what any of them owns."""
        own = (self.identity(type_) for type_ in OWNER_TYPES)
        return [identity for identity in own if identity is not None]

    def identities(self) -> list[Subject]:
        """The same with the further teams, whose memories it may read."""
        others = [Subject("team", team) for team in self.teams]
        return [*dict.fromkeys([*self.owners(), *others])]

    def acting(self) -> Subject:
        """
        Who is recorded as the actor: the given one, else the agent that acts for the user, else
        the first that the principal has.
        """
        if self.actor is not None:
            return Subject(self.actor_kind, self.actor)
        own = [self.identity(type_) for type_ in ("agent", *OWNER_TYPES)]
        return next((i for i in own if i is not None), Subject("tenant", self.tenant))

    def require(self, *rights: Right) -> None:
        """
        Refuses the call unless every right is carried.

        Raises:
            MissingRightError: Names the first that is missing.
        """
        for right in rights:
            if right not in self.rights:
                raise MissingRightError(
                    f"this needs the right {right.value!r}, which the principal does not have.",
                    field="rights",
                    value=sorted(r.value for r in self.rights),
                    allowed=right.value,
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalPrincipal(Principal):
    """
    Who acts on the log of ``_global``, which is the owner of all that is there. No caller can be
    one: it is made from a checked principal that has the right ``admin``.
    """

    tenant: str = GLOBAL_TENANT

    def __post_init__(self) -> None:
        """Nothing is checked: the reserved name would be refused."""

    def identities(self) -> list[Subject]:
        """The owner of all global memories."""
        return [Subject("tenant", GLOBAL_TENANT)]


def parse_rights(values: Iterable[str | Right]) -> frozenset[Right]:
    """
    Rights from their names.

    Raises:
        InputError: An unknown name, or not a list.
    """
    names = [right.value for right in Right]
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InputError(
            "rights must be a list of names.",
            code="bad_value",
            field="rights",
            value=shown(values),
            allowed=names,
        )
    values = list(values)
    for value in values:
        if value not in names:
            raise InputError(
                f"unknown right {shown(value)!r}; allowed are {', '.join(names)}.",
                code="unknown_right",
                field="rights",
                value=shown(value),
                allowed=names,
            )
    return frozenset(Right(value) for value in values)
