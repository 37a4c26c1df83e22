"""What sealing reads of a log: how far it is, in which incarnation, and its leaf hashes."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from memoriale.adapters.postgres.datastore import Datastore
from memoriale.adapters.postgres.errors import HOLE, head_missing
from memoriale.domain.errors import UnavailableError

HASH_BYTES: Final = 32
_AT_ONCE: Final = 65_536

_STAND: Final = (
    "SELECT h.next, (SELECT max(l.incarnation) FROM ledger.ledger_logs l"
    " WHERE l.tenant = h.tenant AND l.log_id = h.log_id)"
    " FROM ledger.ledger_heads h WHERE h.tenant = %(tenant)s AND h.log_id = %(log_id)s"
)
# One value for many leaves: rows of one hash each would cost ten times as much.
_HASHES: Final = (
    "SELECT coalesce(string_agg(e.leaf_hash, ''::bytea ORDER BY e.index), ''::bytea),"
    " min(e.index), max(e.index) FROM ledger.ledger_events e"
    " WHERE e.tenant = %(tenant)s AND e.log_id = %(log_id)s"
    " AND e.index >= %(start)s AND e.index < %(stop)s"
)


@dataclass(frozen=True, slots=True)
class Stand:
    """How many events a log has, all of whole appends, and its present incarnation."""

    head: int
    incarnation: int


class Leaves:
    """
    The leaf hashes of a log as stored.

    Args:
        datastore: The database.
        tenant: Whose log.
        log_id: Which.
    """

    def __init__(self, datastore: Datastore, tenant: str, log_id: UUID) -> None:
        self._datastore = datastore
        self._tenant, self._log_id = tenant, log_id
        self._place = {"tenant": tenant, "log_id": log_id}

    def stand(self) -> Stand:
        """
        How far the log is now.

        Raises:
            ViolationError: The head of the log is gone (``head_missing``).
        """
        with self._datastore.read(self._tenant) as connection:
            found = connection.execute(_STAND, self._place).fetchone()
        if found is None or found[1] is None:
            raise head_missing(self._tenant, self._log_id)
        return Stand(*found)

    def hashes(self, start: int, stop: int) -> Iterator[bytes]:
        """
        The leaf hashes from one index to before another, joined, in pieces of bounded size.

        Args:
            start: The first index.
            stop: The first index that is not wanted; not beyond the head.

        Raises:
            UnavailableError: An event is missing (``hole``).
        """
        while start < stop:
            upper = min(start + _AT_ONCE, stop)
            yield self._piece(start, upper)
            start = upper

    def _piece(self, start: int, stop: int) -> bytes:
        with self._datastore.read(self._tenant) as connection:
            found = connection.execute(
                _HASHES, {**self._place, "start": start, "stop": stop}, binary=True
            ).fetchone()
        hashes, first, last = found or (b"", None, None)
        whole = first == start and last == stop - 1 and len(hashes) == (stop - start) * HASH_BYTES
        if not whole:
            raise UnavailableError(
                f"The log lacks events between {start} and {stop - 1}: somebody deleted them."
                " Run 'memoriale verify'.",
                code=HOLE,
                value=start,
            )
        return bytes(hashes)
