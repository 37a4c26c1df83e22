"""Memories that every tenant sees: when there are any, and who writes them."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar
from uuid import UUID

from memoriale.adapters.application.branching import BranchView
from memoriale.adapters.application.deciding import Request
from memoriale.adapters.application.identities import Identities
from memoriale.adapters.postgres.datastore import Datastore
from memoriale.adapters.postgres.logs import find_log
from memoriale.domain.access import GLOBAL_TENANT, Visibility
from memoriale.domain.branches import main_branch
from memoriale.domain.commands import Command, Remember
from memoriale.domain.errors import InputError
from memoriale.domain.keys import KeyStore, Subject
from memoriale.domain.kinds import KINDS
from memoriale.domain.principal import GlobalPrincipal, Principal
from memoriale.domain.stores.scopes import GLOBAL_OWNER

if TYPE_CHECKING:
    from memoriale.adapters.composition import Tenant

C = TypeVar("C", bound=Command)
A = TypeVar("A", bound=Command | Request)
_ACTOR_KINDS: Final = ("user", "agent")


class GlobalMemories:
    """
    The services of ``_global`` for a process.

    Args:
        is_known: Whether the key store has a key of ``_global``, which is made before its first
            event; it is asked for other keys at each read anyway.
        exists: Whether the log is there; asks the database.
        open_tenant: Opens its services, and makes the log.
    """

    def __init__(
        self,
        is_known: Callable[[], bool],
        exists: Callable[[], bool],
        open_tenant: Callable[[], "Tenant"],
    ) -> None:
        self._is_known, self._exists, self._open = is_known, exists, open_tenant
        self._there = False

    @classmethod
    def of(
        cls, datastore: Datastore, keys: KeyStore, open_tenant: Callable[[], "Tenant"]
    ) -> "GlobalMemories":
        """Those of an installation."""
        return cls(
            lambda: keys.find(GLOBAL_TENANT, GLOBAL_OWNER) is not None,
            lambda: find_log(datastore, GLOBAL_TENANT) is not None,
            open_tenant,
        )

    def find(self) -> "Tenant | None":
        """
        The services; None while nobody has made a global memory. Then nothing is made, and the
        database is not asked.
        """
        if not self._there:
            self._there = self._is_known() and self._exists()
        return self._open() if self._there else None

    def make(self) -> "Tenant":
        """The services, for a write."""
        services = self._open()
        services.log.require_its_keys()
        self._there = True
        return services


def main_of(services: "Tenant") -> BranchView:
    """The one branch of global memories."""
    main = main_branch(services.log.log_id)
    return BranchView(main, {main.id: main})


class Authors:
    """
    Names in the log of ``_global`` as callers of one tenant see them: those of their own, and of
    other tenants nobody's.

    Args:
        shared: Of ``_global``.
        own: Of the tenant.
        tenant: Its name.
    """

    def __init__(self, shared: Identities, own: Identities, tenant: str) -> None:
        self._shared, self._own, self._tenant = shared, own, tenant

    def names(self, pseudonyms: Iterable[UUID | None]) -> dict[UUID, Subject]:
        """Outside names by pseudonym, as far as the caller may know them."""
        found = self._shared.names(pseudonyms)
        acting = {p: actor_of(name, self._tenant) for p, name in found.items()}
        known = self._own.names(acting.values())
        named = {p: known[own] for p, own in acting.items() if own in known}
        owners = {p: name for p, name in found.items() if name == GLOBAL_OWNER}
        return {**owners, **named}


def author(principal: Principal, identities: Identities) -> GlobalPrincipal:
    """
    Who writes for all tenants: nobody but the actor, named by tenant and pseudonym.

    The key store of ``_global`` so holds no name of a person; only with the tenant's own key
    store does the pseudonym lead to one, and not any more when that person was erased there.

    Args:
        principal: The caller.
        identities: Of the caller's tenant.
    """
    acting = principal.acting()
    pseudonym = identities.key(acting).pseudonym
    return GlobalPrincipal(
        actor=f"{principal.tenant}/{pseudonym.hex}",
        actor_kind=acting.type if acting.type in _ACTOR_KINDS else "service",
        authentication=principal.authentication,
        purpose=principal.purpose,
    )


def actor_of(name: Subject, tenant: str) -> UUID | None:
    """The pseudonym within a tenant behind an author's name; None for another tenant's."""
    whose, _, pseudonym = name.id.rpartition("/")
    return UUID(hex=pseudonym) if whose == tenant else None


def require_main(branch: BranchView) -> None:
    """
    Refuses to write for all tenants from a branch.

    Raises:
        InputError: Says what to do.
    """
    if branch.branch.parent is not None:
        raise InputError(
            "global memories have no branches: what is written on a branch stays there; write "
            "for all tenants from main.",
            code="no_branches",
            field="branch",
            value=branch.branch.name,
            allowed="main",
        )


def as_global(command: C, tenant: str) -> C:
    """
    A command for the log of ``_global``. An idempotency key counts for the caller's tenant.

    Raises:
        InputError: It says something that a memory for all tenants cannot have.
    """
    if isinstance(command, Remember):
        _check(command)
        command = replace(command, owner="tenant")
    return idempotency_for_all(command, tenant)


def idempotency_for_all(asked: A, tenant: str) -> A:
    """The same with an idempotency key that no other tenant can use."""
    if asked.idempotency_key is None:
        return asked
    return replace(asked, idempotency_key=f"{tenant}/{asked.idempotency_key}")


def _check(command: Remember) -> None:
    if command.owner is not None:
        raise _impossible("owner", command.owner, "belongs to nobody", "no owner")
    if command.about:
        raise _impossible("about", len(command.about), "is about no person", "nobody")
    if KINDS.require(command.kind).follow_up is not None:
        raise _impossible(
            "kind", command.kind, "starts no work of a tenant", "a kind without a follow-up"
        )


def _impossible(field: str, value: object, why: str, allowed: str) -> InputError:
    return InputError(
        f"a memory of visibility {Visibility.GLOBAL.value} {why}; leave {field} out, or take "
        "visibility tenant.",
        code="not_for_all",
        field=field,
        value=value,
        allowed=allowed,
    )
