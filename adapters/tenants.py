"""The tenants that a process has touched, each with its services."""

from contextlib import ExitStack
from threading import RLock

from memoriale.adapters.application.global_memories import GlobalMemories
from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.adapters.composition import Infrastructure, Tenant
from memoriale.domain.access import GLOBAL_TENANT


class Tenants:
    """The tenants that a process has touched."""

    def __init__(self, infrastructure: Infrastructure) -> None:
        self._infrastructure = infrastructure
        self._lock = RLock()
        self._open: dict[str, Tenant] = {}
        self.shared = GlobalMemories.of(
            infrastructure.datastore, infrastructure.keys, lambda: self.get(GLOBAL_TENANT)
        )
        self.written: list[TenantLog] = []
        """Logs that were written to, known when all is closed."""

    def get(self, name: str) -> Tenant:
        """The services of a tenant whose name was checked."""
        with self._lock:
            if name not in self._open:
                self._open[name] = Tenant(self._infrastructure, name, self.shared)
            return self._open[name]

    def names(self) -> list[str]:
        """Tenants touched so far."""
        with self._lock:
            return list(self._open)

    def close(self) -> None:
        """Closes them all."""
        with self._lock:
            opened = list(self._open.values())
            self._open.clear()
            with ExitStack() as closing:
                # Called last, whatever a tenant raises.
                closing.callback(
                    lambda: self.written.extend(log for t in opened for log in t.written)
                )
                for tenant in opened:
                    closing.callback(tenant.close)
