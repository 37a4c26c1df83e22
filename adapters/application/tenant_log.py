"""One log of a tenant with everything needed to write and read it."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from threading import Event
from typing import Final, Protocol
from uuid import UUID
from weakref import WeakSet

from memoriale.adapters.application.identities import Identities
from memoriale.adapters.application.mapper import LedgerMapper
from memoriale.adapters.keys.sealer import Sealer
from memoriale.adapters.postgres.append import Append
from memoriale.adapters.postgres.application import LedgerApplication
from memoriale.adapters.postgres.datastore import Datastore
from memoriale.adapters.postgres.log_batches import log_batches
from memoriale.adapters.postgres.logs import open_log
from memoriale.adapters.postgres.notifying import hints_of
from memoriale.adapters.postgres.reading import LedgerReader
from memoriale.adapters.postgres.recorder import LedgerRecorder
from memoriale.adapters.postgres.roles import Role
from memoriale.adapters.postgres.rows import rows_of
from memoriale.domain.envelope import parse_envelope, split_key_ids
from memoriale.domain.errors import MemorialeError, UnavailableError
from memoriale.domain.events import NewEvent
from memoriale.domain.guards import Guard
from memoriale.domain.keys import KeyStore
from memoriale.domain.record import AppendReceipt, Row
from memoriale.projections.view import Batch

FOLLOWED: Final = "memory"
"""The kind of log that is followed, so that others are told when it grows."""
_LOOKED_AT: Final = 16
"""Last events whose keys tell whether the key store is the log's; some may be erased."""


class Follower(Protocol):
    """Follows a log until it is told to stop."""

    def stop(self) -> None:
        """Ends it; called from any thread."""
        ...


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
        self.datastore = datastore
        self.sealer = Sealer(store, self.log_id, tenant)
        self.mapper = LedgerMapper(self.sealer, self.log_id)
        self.application = LedgerApplication(datastore, self.log, mapper=self.mapper)
        self.reader = self.application.reader
        self.recorder = LedgerRecorder(self.application.committer, self.reader)
        self._posting = LedgerReader(datastore, self.log, Role.PROJECT)
        self._store = store
        self._keys_fit = False
        self._followers: WeakSet[Follower] = WeakSet()
        self._hints = hints_of(datastore)
        if kind == FOLLOWED:
            self.application.committer.tell(partial(self._hints.tell, self.log_id))

    def require_its_keys(self) -> None:
        """
        Refuses a key store that has none of the keys that sealed the last events: it is another
        one, or was made anew. Reading with it would show an empty memory without a word, and
        what is written with it could not be read with the right one. Whatever opens or seals
        bodies asks first; ``verify`` needs no keys.

        Raises:
            UnavailableError: ``wrong_key_store``.
        """
        if self._keys_fit:
            return
        ids = {i for row in self.reader.last(_LOOKED_AT) for i in _key_ids(row)}
        if ids and not self._store.get_many(sorted(ids)):
            raise UnavailableError(
                f"the key store has none of the keys that the log of tenant {self.tenant!r} was "
                "sealed with; name the right one in MEMORIALE_KEYSTORE, or restore its backup.",
                code="wrong_key_store",
                field="MEMORIALE_KEYSTORE",
            )
        self._keys_fit = True

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

    def save_and_show(
        self, events: Sequence[NewEvent], guards: Sequence[Guard] = ()
    ) -> tuple[AppendReceipt, list[Row]]:
        """
        Appends as ``save`` does; also the rows as a reader finds them, none when an earlier call
        had stored the append.
        """
        new = tuple(self.mapper.to_row(event) for event in events)
        receipt = self.application.committer.submit(Append(new, tuple(guards)))
        return receipt, rows_of(new, receipt) if receipt.created else []

    def save_many(
        self, appends: Sequence[tuple[Sequence[NewEvent], Sequence[Guard]]]
    ) -> list[AppendReceipt | MemorialeError]:
        """
        Independent appends in as few calls as possible; an answer for each, in order.

        Args:
            appends: The events and the guards of each.
        """
        rows = [
            Append(tuple(self.mapper.to_row(e) for e in events), tuple(guards))
            for events, guards in appends
        ]
        return self.application.committer.submit_many(rows)

    def head(self) -> int:
        """Number of events in the log."""
        return self.reader.head()

    def clock(self) -> datetime:
        """The time of the database."""
        return self.reader.now()[1]

    def batches(self, position: int, stop: int, size: int) -> Iterator[Batch]:
        """The log for views, read as who posts them; see ``EventSource``."""
        return log_batches(self._posting, self.mapper.decode, position, stop, size)

    def erasures(self) -> int:
        """A number that changes with every key destroyed: then bodies read before tell too much."""
        return self._store.generation()

    def follow(self, follower: "Follower", wakeup: Event) -> None:
        """
        Stops a follower when the log is closed, unless nobody refers to it any more.

        Args:
            follower: Who follows the log.
            wakeup: Set when another process says that the log grew.
        """
        self._followers.add(follower)
        self._hints.listen(self.log_id, wakeup)

    def unfollow(self, follower: "Follower", wakeup: Event) -> None:
        """Ends ``follow``. Called twice, or for somebody else, it does nothing."""
        self._followers.discard(follower)
        self._hints.forget(self.log_id, wakeup)

    def close(self) -> None:
        """Ends followers, waits for what is being written and lets go of the application."""
        for follower in list(self._followers):
            follower.stop()
        self.application.close()


def _key_ids(row: Row) -> list[bytes]:
    try:
        sections = parse_envelope(row.state or b"")
    except UnavailableError:
        # Somebody changed it; to tell which is the work of verify.
        return []
    return [key_id for section in sections for key_id in split_key_ids(section.key_ids)]
