"""An open installation: its tenants by name, and the rights that its calls are made with."""

import logging
import os
from collections.abc import Iterable
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from memoriale.adapters.application.global_memories import GlobalMemories
from memoriale.adapters.composition import Infrastructure, Tenant
from memoriale.adapters.tenants import Tenants
from memoriale.domain.access import GLOBAL_TENANT
from memoriale.domain.errors import ForkedHandleError, InputError, MemorialeError
from memoriale.domain.principal import ALL_RIGHTS, GlobalPrincipal, Principal, Right, parse_rights
from memoriale.domain.text import check_tenant

_log = logging.getLogger("memoriale.sealing")


class Opened:
    """
    What every call on a ledger stands on.

    Args:
        infrastructure: Database, keys and settings; closed with this.
        rights: Rights that the embedding program asserts.
    """

    def __init__(
        self, infrastructure: Infrastructure, rights: Iterable[Right | str] = ALL_RIGHTS
    ) -> None:
        self.infrastructure = infrastructure
        self.settings = infrastructure.settings
        self.rights = parse_rights(rights)
        self._tenants = Tenants(infrastructure)
        self._pid = os.getpid()
        self._closed = False

    def tenant(self, name: str) -> Tenant:
        """The services of a tenant, for surfaces of this package."""
        if self._pid != os.getpid():
            raise ForkedHandleError(
                "this ledger was opened before os.fork; open one in the child process."
            )
        if self._closed:
            raise InputError("this ledger is closed; open it again.", code="closed")
        return self._tenants.get(check_tenant(name))

    @property
    def shared(self) -> GlobalMemories:
        """The memories of all tenants, for surfaces of this package."""
        return self._tenants.shared

    def close(self) -> None:
        """
        Waits for what is being written, has it sealed if the database is the embedded one, and
        lets go of everything. Closing twice is allowed.

        Raises:
            UnavailableError: What callers were given could not be written into an access log.
        """
        if not self._closed and self._pid == os.getpid():
            self._closed = True
            with ExitStack() as closing:
                closing.callback(self.infrastructure.close)
                closing.callback(self._seal)
                self._tenants.close()

    def _seal(self) -> None:
        """Seals what was written; what is in the way leaves it unsealed and is logged, no more."""
        written = self._tenants.written
        if not written or self.infrastructure.server is None:
            return
        from memoriale.adapters.sealing.sealing import target_of

        for answer in self.infrastructure.sealing.seal(target_of(log) for log in written):
            if isinstance(answer, MemorialeError):
                _log.warning("not sealed: %s", answer.message)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _chosen(self, tenant: str | None, *, shared: bool = False) -> list[Tenant]:
        """One tenant or all that were touched; with ``shared`` the log of ``_global`` as well."""
        touched = [name for name in self._tenants.names() if name != GLOBAL_TENANT]
        chosen = [self.tenant(name) for name in (touched if tenant is None else [tenant])]
        if not chosen:
            raise InputError("no tenant was used yet; name one.", code="missing", field="tenant")
        services = self._tenants.shared.find() if shared and tenant is None else None
        return chosen if services is None else [*chosen, services]

    def _for_all_tenants(self) -> list[Tenant]:
        services = self._tenants.shared.find()
        if services is None:
            raise InputError("there are no global memories.", code="missing", field="shared")
        return [services]

    def asked(self, tenant: str | None, command: str, *rights: Right) -> list[Tenant]:
        """
        The tenants that a call acts on, after its rights were checked and their use recorded on
        each, for surfaces of this package; None means all that were touched.
        """
        chosen = self._chosen(tenant)
        for services in chosen:
            self._allow(services, command, *rights)
        return chosen

    def _allow(self, services: Tenant, command: str, *rights: Right) -> None:
        is_global = services.name == GLOBAL_TENANT
        kind = GlobalPrincipal if is_global else Principal
        principal = kind(tenant=services.name, rights=self.rights)
        services.gate.allow(principal, command, *rights)
