"""One log of a tenant with everything needed to write and read it."""

from collections.abc import Iterator, Sequence
from uuid import UUID

from memoriale.adapters.application.identities import Identities
from memoriale.adapters.application.mapper import LedgerMapper
from memoriale.adapters.keys.sealer import Sealer
from memoriale.adapters.postgres.append import Append
from memoriale.adapters.postgres.application import LedgerApplication
from memoriale.adapters.postgres.datastore import Datastore
from memoriale.adapters.postgres.logs import open_log
from memoriale.domain.errors import MemorialeError
from memoriale.domain.events import NewEvent
from memoriale.domain.guards import Guard
from memoriale.domain.keys import KeyStore
from memoriale.domain.record import AppendReceipt
from memoriale.projections.view import Batch


class TenantLog:
    """
    A log by tenant and kind; it is made when it does not exist.

    Args:
        datastore: The database, shared by every log of the process.
        store: The key store.
        tenant: Whose.
        kind: ``memory`` or ``access``.
    """

    def __init__(self, datastore: Datastore, store: KeyStore, tenant: str, kind: str) -> None:
        self.tenant = tenant
        self._store = store
        self.log = open_log(datastore, tenant, kind)
        self.log_id: UUID = self.log.log_id
        self.identities = Identities(store, tenant)
        self.mapper = LedgerMapper(Sealer(store, self.log_id, tenant), self.log_id)
        self.application = LedgerApplication(datastore, self.log, mapper=self.mapper)
        self.reader = self.application.reader

    def save(self, events: Sequence[NewEvent], guards: Sequence[Guard] = ()) -> AppendReceipt:
        """
        Appends events, all or nothing, through the library's application.

        Raises:
            ConflictError: A guard or a stream version refused.
            InputError: The idempotency key was used for another request.
            UnavailableError: The database cannot be reached.
        """
        recordings = self.application.save(*events, guards=tuple(guards))
        receipt: AppendReceipt = recordings[0].notification.id.receipt  # type: ignore[attr-defined]
        return receipt

    def save_many(
        self, appends: Sequence[Sequence[NewEvent]]
    ) -> list[AppendReceipt | MemorialeError]:
        """Independent appends in as few calls as possible; an answer for each, in order."""
        rows = [Append(tuple(self.mapper.to_row(e) for e in events)) for events in appends]
        return self.application.committer.submit_many(rows)

    def head(self) -> int:
        """Number of events in the log."""
        return self.reader.head()

    def batches(self, position: int, stop: int, size: int) -> Iterator[Batch]:
        """The log for views; see ``EventSource``."""
        for rows in self.reader.stream_rows(position, batch=size, stop=stop, whole_appends=True):
            yield Batch(rows=rows, decode=self.mapper.decode)

    def erasures(self) -> int:
        """A number that changes with every key destroyed: then bodies read before tell too much."""
        return self._store.generation()

    def close(self) -> None:
        """Waits for what is being written and lets go of the application."""
        self.application.close()
