"""The composition root: builds everything from one ``Settings``."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic import SecretStr

from memoriale.adapters.application.access_log import Gate
from memoriale.adapters.application.access_recording import AccessRecorder
from memoriale.adapters.application.global_memories import GlobalMemories
from memoriale.adapters.application.reading import Reading
from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.adapters.application.writing import Writing
from memoriale.adapters.branch_services import BranchServices
from memoriale.adapters.keys.file_store import FileKeyStore
from memoriale.adapters.postgres.datastore import Datastore
from memoriale.adapters.postgres.migrate import migrate, plan
from memoriale.adapters.postgres.roles import Logins
from memoriale.adapters.settings import Settings
from memoriale.domain.access import GLOBAL_TENANT
from memoriale.domain.errors import UnavailableError
from memoriale.domain.governance import DEPLOYMENT_LOG, DEPLOYMENT_TENANT
from memoriale.domain.keys import KeyStore

if TYPE_CHECKING:
    from memoriale.adapters.anchors.opening import Anchors
    from memoriale.adapters.application.accesses import Accesses
    from memoriale.adapters.application.conversations import Conversations
    from memoriale.adapters.application.deciding import Deciding
    from memoriale.adapters.application.explaining import Explaining
    from memoriale.adapters.application.jobs import Jobs
    from memoriale.adapters.application.owner_snapshots import OwnerSnapshots
    from memoriale.adapters.application.recalling import Recalling
    from memoriale.adapters.embedded.server import EmbeddedServer
    from memoriale.adapters.embeddings.cache import EmbeddingCache
    from memoriale.adapters.embeddings.cached import CachedEmbedder
    from memoriale.adapters.sealing.publisher import Publisher
    from memoriale.adapters.sealing.sealing import Sealing
    from memoriale.projections.embedding import Embedder
    from memoriale.projections.posted import PostedView

VIEW_NAMES: Final = ("recall", "stats")
T = TypeVar("T")


@dataclass(frozen=True)
class Infrastructure:
    """
    What every tenant of a process shares. ``server`` is None with an outside database, ``clock``
    where reads take the database's time, ``embedder`` where the settings name it.
    """

    settings: Settings
    datastore: Datastore
    keys: KeyStore
    server: "EmbeddedServer | None"
    logins: Logins
    clock: Callable[[], datetime] | None = None
    embedder: "Embedder | None" = None

    @cached_property
    def sealing(self) -> "Sealing":
        """What seals the logs of this installation."""
        from memoriale.adapters.sealing.sealing import Sealing
        from memoriale.adapters.sealing.signing_key import SigningKey

        settings = self.settings
        return Sealing(
            self.datastore,
            SigningKey(settings.signing_key_file, settings.signing_folder),
            settings.tiles_folder,
            lambda: TenantLog(self.datastore, self.keys, DEPLOYMENT_TENANT, DEPLOYMENT_LOG),
            self._publisher,
        )

    @cached_property
    def anchors(self) -> "Anchors":
        """Outside places of checkpoints."""
        from memoriale.adapters.anchors.opening import Anchors
        from memoriale.adapters.anchors.trees import Trees

        settings = self.settings
        return Anchors(
            settings.anchor_places, settings.anchors_folder, Trees(settings.tiles_folder)
        )

    @cached_property
    def _publisher(self) -> "Publisher":
        from memoriale.adapters.sealing.publisher import Nowhere

        if not self.settings.anchors:
            return Nowhere()
        from memoriale.adapters.anchors.publishing import AnchorPublisher

        return AnchorPublisher(self.anchors)

    def close(self) -> None:
        """Lets go of everything; the anchors last, because they may take their time."""
        if "sealing" in self.__dict__:
            self.sealing.close()
        self.datastore.close()
        self.keys.close()
        if self.server is not None:
            self.server.release()
        if "_publisher" in self.__dict__:
            self._publisher.close()


def build(
    settings: Settings,
    *,
    clock: Callable[[], datetime] | None = None,
    embedder: "Embedder | None" = None,
) -> Infrastructure:
    """
    Starts or reaches the database, brings its schema up when it is the embedded one, and opens
    the key store.

    Args:
        settings: How.
        clock: The time of reads without as-of; default: the database's.
        embedder: Makes vectors in place of the one that the settings name.

    Raises:
        UnavailableError: Database or home cannot be used; with an outside database also when
            its schema is missing or old, and then says to migrate.
    """
    server = None
    if settings.database_url is None:
        from memoriale.adapters.embedded.server import start

        server = start(settings.home, idle_seconds=settings.embedded_idle)
        logins = Logins(
            server.app_url, server.projector_url, server.eraser_url, server.superuser_url
        )
    else:
        logins = Logins(
            settings.database_url.get_secret_value(),
            project=_revealed(settings.project_url),
            erase=_revealed(settings.erase_url),
            admin=_revealed(settings.admin_url),
        )
    try:
        return replace(_connected(settings, logins, server), clock=clock, embedder=embedder)
    except BaseException:
        if server is not None:
            server.release()
        raise


def _revealed(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()


def _connected(
    settings: Settings, logins: Logins, server: "EmbeddedServer | None"
) -> Infrastructure:
    datastore = Datastore(logins.first, project_url=logins.project)
    try:
        _require_schema(logins.first, logins.admin if server is not None else None)
        keys = FileKeyStore(settings.keys_folder, master_key=settings.master_key)
    except BaseException:
        datastore.close()
        raise
    return Infrastructure(settings, datastore, keys, server, logins)


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


class Tenant(BranchServices):
    """
    Every service of one tenant, built when first used; safe to share between threads. ``shared``
    are the memories that it sees with all others.
    """

    def __init__(
        self, infrastructure: Infrastructure, name: str, shared: GlobalMemories | None = None
    ) -> None:
        self.name = name
        self.shared = None if name == GLOBAL_TENANT else shared
        self._shared = infrastructure
        self.written: list[TenantLog] = []
        """Logs that were written to, known when it is closed."""
        self._lock = RLock()
        self._made: dict[str, Any] = {}

    @property
    def log(self) -> TenantLog:
        """The memory log."""
        return self._once("log", lambda: self._open("memory"))

    @property
    def access(self) -> TenantLog:
        """The access log."""
        return self._once("access", lambda: self._open("access"))

    @property
    def gate(self) -> Gate:
        """Where rights are checked."""
        return self._once("gate", lambda: Gate(lambda: self.access))

    @property
    def recorder(self) -> AccessRecorder:
        """Records what callers are given."""
        mode = self._shared.settings.access_log
        return self._once(
            "recorder",
            lambda: AccessRecorder(lambda: self.access, lambda: self.log.identities, mode),
        )

    @property
    def accesses(self) -> "Accesses":
        """Questions to the access log."""
        from memoriale.adapters.application.accesses import Accesses

        return self._once(
            "accesses", lambda: Accesses(self.access, self.log, self.recorder, self.shared)
        )

    @property
    def reading(self) -> Reading:
        """Reads that need no view."""
        self.log.require_its_keys()
        return self._once("reading", lambda: Reading(self.log, self._shared.clock, self.shared))

    @property
    def writing(self) -> Writing:
        """Writes."""
        return self._once("writing", lambda: Writing(self.log, self.reading, self.gate))

    @property
    def snapshots(self) -> "OwnerSnapshots":
        """What folds of an owner begin with."""
        from memoriale.adapters.application.owner_snapshots import OwnerSnapshots

        self.log.require_its_keys()
        return self._once("snapshots", lambda: OwnerSnapshots(self.log))

    @property
    def deciding(self) -> "Deciding":
        """Changes by the rules of the stores."""
        from memoriale.adapters.application.deciding import Deciding
        from memoriale.adapters.application.slices import Slices

        self.log.require_its_keys()
        return self._once(
            "deciding",
            lambda: Deciding(
                self.log,
                self.reading,
                Slices(self.log, self.snapshots),
                self._shared.clock,
                self.gate,
            ),
        )

    @property
    def explaining(self) -> "Explaining":
        """Where memories come from."""
        from memoriale.adapters.application.explaining import Explaining

        self.log.require_its_keys()
        return self._once("explaining", lambda: Explaining(self.log, self.reading))

    @property
    def jobs(self) -> "Jobs":
        """Work that is done later."""
        from memoriale.adapters.application.jobs import Jobs

        clock = self._shared.clock or self.log.clock
        return self._once(
            "jobs", lambda: Jobs(self.log, self.branching, self._shared.datastore, clock)
        )

    @property
    def conversations(self) -> "Conversations":
        """Sessions and their messages."""
        from memoriale.adapters.application.conversations import Conversations

        self.log.require_its_keys()
        clock = self._shared.clock or self.log.clock
        return self._once("conversations", lambda: Conversations(self.log, clock))

    @property
    def recalling(self) -> "Recalling":
        """Recall."""
        from memoriale.adapters.application.recalling import Recalling

        return self._once(
            "recalling",
            lambda: Recalling(self.log, self.reading, self.view("recall"), self.shared),
        )

    def view(self, name: str) -> "PostedView[Any]":
        """A view of the memory log by name."""
        from memoriale.adapters.application.posting import make_view

        self.log.require_its_keys()
        folder, settings = self.views_folder / name, self._shared.settings
        return self._once(
            f"view {name}",
            lambda: make_view(name, folder, self.log, settings, self._embedding_model),
        )

    @property
    def embedder(self) -> "CachedEmbedder":
        """The embedder of the settings, over the cache of the memory log."""
        from memoriale.adapters.embeddings.cached import CachedEmbedder

        self.log.require_its_keys()
        return self._once(
            "embedder",
            lambda: CachedEmbedder(
                self._embedding_model(), self.embedding_cache, self.log.identities
            ),
        )

    def _embedding_model(self) -> "Embedder":
        from memoriale.adapters.application.posting import configured_embedder

        shared = self._shared
        return self._once(
            "embedding model", lambda: shared.embedder or configured_embedder(shared.settings)
        )

    @property
    def embedding_cache(self) -> "EmbeddingCache":
        """Where vectors of the memory log are kept, sealed; who is erased is purged from it."""
        from memoriale.adapters.embeddings.cache import EmbeddingCache

        return EmbeddingCache.of_log(self._shared.settings.cache_folder, self.log.log_id)

    @property
    def sealing(self) -> "Sealing":
        """What seals its logs, shared with the other tenants."""
        return self._shared.sealing

    @property
    def anchors(self) -> "Anchors":
        """Outside places of checkpoints, shared with the other tenants."""
        return self._shared.anchors

    @property
    def views_folder(self) -> Path:
        """Where this tenant's views lie: named by log id, never by tenant."""
        return self._shared.settings.views_folder / self.log.log_id.hex

    def close(self) -> None:
        """
        Writes what is still to be recorded and closes what was opened, views before the logs
        that they are posted from.

        Raises:
            UnavailableError: What callers were given could not be recorded.
        """
        # Outside the lock: what is still to be recorded opens the access log.
        recorder = self._made.get("recorder")
        with ExitStack() as closing:
            closing.callback(self._close_rest)
            if recorder is not None:
                recorder.close()

    def _close_rest(self) -> None:
        with self._lock:
            views = [made for name, made in self._made.items() if name.startswith("view ")]
            logs = [self._made[name] for name in ("log", "access") if name in self._made]
            for opened in (*views, *logs):
                opened.close()
            self.written = [log for log in logs if log.application.committer.used]
            self._made.clear()

    def _once(self, name: str, make: Callable[[], T]) -> T:
        with self._lock:
            if name not in self._made:
                self._made[name] = make()
            made: T = self._made[name]
            return made

    def _open(self, kind: str) -> TenantLog:
        shared = self._shared
        return TenantLog(shared.datastore, shared.keys, self.name, kind)
