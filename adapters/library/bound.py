"""What a memory handle is bound to: a principal, a branch and the services of a tenant."""

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, Self
from uuid import UUID

from memoriale.adapters.application.access_recording import Given
from memoriale.adapters.application.branching import BranchView, branch_scope
from memoriale.adapters.application.global_memories import Authors, main_of
from memoriale.adapters.application.global_writing import GlobalWriting
from memoriale.adapters.application.presenting import Presenter
from memoriale.adapters.application.reading import AsOf
from memoriale.adapters.composition import Tenant
from memoriale.adapters.settings import Settings
from memoriale.domain import commands
from memoriale.domain.access import GLOBAL_SCOPE, GLOBAL_TENANT, AccessScope
from memoriale.domain.branches import MAIN
from memoriale.domain.errors import ForkedHandleError, InputError
from memoriale.domain.guards import StreamAt
from memoriale.domain.principal import Principal, Right
from memoriale.domain.receipt import Receipt
from memoriale.domain.text import shown

PRINCIPAL_FIELDS: Final = ("user", "agent", "resource", "session", "team")


class Bound:
    """
    A principal on a branch of a tenant's ledger.

    Args:
        tenant: Services of the principal's tenant.
        settings: Limits and waiting times.
        principal: Who acts.
        branch: Name of the branch.
        job: The stream of the job that the handle acts for; what the stores do with it is
            stored only while the job goes on.
    """

    def __init__(
        self,
        tenant: Tenant,
        settings: Settings,
        principal: Principal,
        branch: str = MAIN,
        job: StreamAt | None = None,
    ) -> None:
        self.services, self._settings, self._pid = tenant, settings, os.getpid()
        self.principal = principal
        self.branch_name = branch
        self.job = job

    def allow(self, command: str, *rights: Right) -> None:
        """Checks rights and records their use, for surfaces of this package."""
        if self._pid != os.getpid():
            raise ForkedHandleError(
                "this handle was made before os.fork; open a ledger in the child process."
            )
        self.services.gate.allow(self.principal, command, *rights)

    @property
    def settings(self) -> Settings:
        """Limits and waiting times, for surfaces of this package."""
        return self._settings

    def rebound(self, principal: Principal) -> Self:
        """A handle of the same kind on the same branch for another principal of the tenant."""
        return type(self)(self.services, self._settings, principal, self.branch_name, self.job)

    def for_job(self, job: StreamAt) -> Self:
        """The same handle, acting for a job, for surfaces of this package."""
        return type(self)(self.services, self._settings, self.principal, self.branch_name, job)

    def branch_view(self) -> BranchView:
        """The branch that the handle acts on, for surfaces of this package."""
        return self._resolved()

    def _reader_scope(self, command: str, all_owners: bool) -> tuple[AccessScope, bool]:
        """
        What a read of one memory may see, and whether its text too: of all owners' memories an
        auditor sees the headers, and the text only with the right ``content``.
        """
        text = not all_owners or Right.CONTENT in self.principal.rights
        auditing = (Right.AUDIT, Right.CONTENT) if text else (Right.AUDIT,)
        self.allow(command, *(auditing if all_owners else (Right.USE,)))
        identities = self.services.log.identities
        scope = identities.scope(self.principal, everything=all_owners)
        return branch_scope(scope, self._resolved()), text

    def given(
        self,
        command: str,
        memories: Iterable[tuple[UUID, int]],
        *,
        index: int,
        as_of: AsOf = None,
        behind: int = 0,
        degraded: tuple[str, ...] = (),
        branch: BranchView | None = None,
        question: str | None = None,
        global_index: int | None = None,
        shared: Collection[UUID] = (),
    ) -> None:
        """
        Puts what the caller is about to be given on record, for surfaces of this package.

        Args:
            command: By which call.
            memories: In the order of the answer, with the index of their version.
            index: The pin.
            as_of: What the caller asked as of.
            behind, degraded: What the answer may lack.
            branch: Where; default: this handle's.
            question: What was asked.
            global_index: The pin in the log of global memories.
            shared: Which of the memories are global.
        """
        given = Given(
            command=command,
            memories=tuple(memories),
            index=index,
            branch=(branch or self._resolved()).branch.id,
            pinned=as_of is not None,
            behind=behind,
            degraded=degraded,
            question=question,
            global_index=global_index,
            shared=shared,
        )
        self.services.recorder.record(self.principal, given)

    def _resolved(self, name: str | None = None) -> BranchView:
        return self.services.branching.resolve(
            self.principal, self.branch_name if name is None else name
        )

    def _presenter(self, branch: BranchView, scope: AccessScope) -> Presenter:
        names = {b.id: b.name or str(b.id) for b in branch.known.values()}
        reading = self.services.reading
        return Presenter(
            self.services.log.identities, names, lambda ids: reading.hidden(ids, branch, scope)
        )

    @property
    def for_all(self) -> GlobalWriting:
        """Global memories, for surfaces of this package that have asked for ``admin``."""
        return GlobalWriting(self.services)

    def _global_presenter(self, services: Tenant) -> Presenter:
        own, shared = self.services.log.identities, services.log.identities
        authors = Authors(shared, own, self.principal.tenant)
        reading, main = services.reading, main_of(services)
        return Presenter(
            authors,
            {services.log.log_id: MAIN},
            lambda ids: reading.hidden(ids, main, GLOBAL_SCOPE),
        )

    def _acting(self, given: Mapping[str, Any]) -> tuple[Principal, dict[str, Any]]:
        rest = dict(given)
        actor = rest.pop("actor", None)
        principal = self.principal if actor is None else replace(self.principal, actor=actor)
        return principal, rest

    def remember_command(self, content: Any, given: dict[str, Any]) -> commands.Remember:
        """A checked command from the arguments of ``remember``; None counts as not given."""
        given = {k: v for k, v in given.items() if v is not None}
        if self.principal.namespace is not None:
            given.setdefault("namespace", self.principal.namespace)
        return commands.remember(self._settings.limits, content, **given)

    def _proved(self, receipt: Receipt) -> Receipt:
        from memoriale.adapters.proving.receipts import with_proof

        shared = self.services.shared
        is_global = receipt.tenant == GLOBAL_TENANT and shared is not None
        services = shared.make() if is_global and shared is not None else self.services
        return with_proof(receipt, services.log, services.sealing)

    def _is_anothers(self, item: str | Mapping[str, Any]) -> bool:
        if not isinstance(item, Mapping):
            return False
        named = {f: item[f] for f in PRINCIPAL_FIELDS if item.get(f) is not None}
        return any(value != getattr(self.principal, f) for f, value in named.items())

    def _for_item(self, item: str | Mapping[str, Any]) -> tuple[Principal, dict[str, Any]]:
        given = dict(item) if isinstance(item, Mapping) else {"content": item}
        whose: dict[str, Any] = {
            f: given.pop(f) for f in PRINCIPAL_FIELDS if given.get(f) is not None
        }
        given = {k: v for k, v in given.items() if k not in PRINCIPAL_FIELDS}
        return (replace(self.principal, **whose) if whose else self.principal), given


def wants_proof(receipt: object) -> bool:
    """Whether a write is to be sealed before it returns, from its argument ``receipt``."""
    if receipt not in (None, "durable", "sealed"):
        raise InputError(
            f"receipt is {shown(receipt)!r}; take durable or sealed.",
            code="bad_value",
            field="receipt",
            value=shown(receipt),
            allowed=["durable", "sealed"],
        )
    return receipt == "sealed"
