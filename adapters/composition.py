"""The composition root: builds everything from one ``Settings``."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

from memoriale.adapters.application.access_log import Gate
from memoriale.adapters.application.branching import Branching
from memoriale.adapters.application.reading import Reading
from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.adapters.application.writing import Writing
from memoriale.adapters.keys.file_store import FileKeyStore
from memoriale.adapters.postgres.datastore import Datastore
from memoriale.adapters.postgres.migrate import migrate, plan
from memoriale.adapters.settings import Settings
from memoriale.domain.errors import UnavailableError
from memoriale.domain.keys import KeyStore

if TYPE_CHECKING:
    from memoriale.adapters.application.recalling import Recalling
    from memoriale.adapters.embedded.server import EmbeddedServer
    from memoriale.projections.posted import PostedView

VIEW_NAMES = ("recall", "stats")


@dataclass(frozen=True)
class Infrastructure:
    """What every tenant of a process shares. ``server`` is None with an outside database."""

    settings: Settings
    datastore: Datastore
    keys: KeyStore
    server: "EmbeddedServer | None"
    admin_url: str

    def close(self) -> None:
        """Lets go of everything, the embedded server last."""
        self.datastore.close()
        self.keys.close()
        if self.server is not None:
            self.server.release()


def build(settings: Settings) -> Infrastructure:
    """
    Starts or reaches the database, brings its schema up when it is the embedded one, and opens
    the key store.

    Raises:
        UnavailableError: Database or home cannot be used; with an outside database also when
            its schema is missing or old, and then says to migrate.
    """
    server = None
    if settings.database_url is None:
        from memoriale.adapters.embedded.server import start

        server = start(settings.home, idle_seconds=settings.embedded_idle)
        url, admin_url = server.app_url, server.superuser_url
    else:
        url = settings.database_url.get_secret_value()
        admin_url = settings.admin_url.get_secret_value() if settings.admin_url else url
    try:
        return _connected(settings, url, admin_url, server)
    except BaseException:
        if server is not None:
            server.release()
        raise


def _connected(
    settings: Settings, url: str, admin_url: str, server: "EmbeddedServer | None"
) -> Infrastructure:
    datastore = Datastore(url)
    try:
        _require_schema(url, admin_url if server is not None else None)
        keys = FileKeyStore(settings.keys_folder, master_key=settings.master_key)
    except BaseException:
        datastore.close()
        raise
    return Infrastructure(settings, datastore, keys, server, admin_url)


def _require_schema(url: str, superuser_url: str | None) -> None:
    missing = plan(url)
    if missing and superuser_url is not None:
        migrate(superuser_url)
    elif missing:
        raise UnavailableError(
            f"the database lacks {len(missing)} migrations, from {missing[0].name} on; run "
            "'memoriale migrate' with a login that may create roles and schemas.",
            code="not_migrated",
            value=missing[0].version,
        )


class Tenant:
    """Every service of one tenant, built when first used."""

    def __init__(self, infrastructure: Infrastructure, name: str) -> None:
        self.name = name
        self._shared = infrastructure
        self._lock = RLock()
        self._views: dict[str, PostedView[Any]] = {}

    @cached_property
    def log(self) -> TenantLog:
        """The memory log."""
        return self._open("memory")

    @cached_property
    def access(self) -> TenantLog:
        """The access log."""
        return self._open("access")

    @cached_property
    def gate(self) -> Gate:
        """Where rights are checked."""
        return Gate(lambda: self.access)

    @cached_property
    def reading(self) -> Reading:
        """Reads that need no view."""
        return Reading(self.log)

    @cached_property
    def writing(self) -> Writing:
        """Writes."""
        return Writing(self.log, self.reading)

    @cached_property
    def branching(self) -> Branching:
        """Branches."""
        return Branching(self.log)

    @cached_property
    def recalling(self) -> "Recalling":
        """Recall."""
        from memoriale.adapters.application.recalling import Recalling

        return Recalling(self.log, self.reading, self.view("recall"))

    def view(self, name: str) -> "PostedView[Any]":
        """A view of the memory log by name."""
        with self._lock:
            if name not in self._views:
                from memoriale.adapters.application.posting import make_view

                folder = self.views_folder / name
                settings = self._shared.settings
                self._views[name] = make_view(name, folder, self.log, settings.embedder)
            return self._views[name]

    @property
    def views_folder(self) -> Path:
        """Where this tenant's views lie: named by log id, never by tenant."""
        return self._shared.settings.views_folder / self.log.log_id.hex

    def close(self) -> None:
        """Closes what was opened."""
        for view in self._views.values():
            view.close()
        for name in ("log", "access"):
            opened = self.__dict__.get(name)
            if opened is not None:
                opened.close()

    def _open(self, kind: str) -> TenantLog:
        shared = self._shared
        return TenantLog(shared.datastore, shared.keys, self.name, kind)


class Tenants:
    """The tenants that a process has touched."""

    def __init__(self, infrastructure: Infrastructure) -> None:
        self._infrastructure = infrastructure
        self._lock = RLock()
        self._open: dict[str, Tenant] = {}

    def get(self, name: str) -> Tenant:
        """The services of a tenant whose name was checked."""
        with self._lock:
            if name not in self._open:
                self._open[name] = Tenant(self._infrastructure, name)
            return self._open[name]

    def names(self) -> list[str]:
        """Tenants touched so far."""
        with self._lock:
            return list(self._open)

    def close(self) -> None:
        """Closes them all."""
        with self._lock:
            for tenant in self._open.values():
                tenant.close()
            self._open.clear()
