"""Rows of ``ledger_owner_snapshots``: what was folded of an owner, sealed, beside the log."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from memoriale.adapters.postgres.datastore import Datastore
from memoriale.adapters.postgres.logs import Log
from memoriale.adapters.postgres.roles import Role

KEPT: Final = 3
"""Snapshots of one place that are kept; older ones serve reads of the past."""

_HERE: Final = "tenant = %(tenant)s AND log_id = %(log_id)s "
_PLACE: Final = _HERE + "AND owner = %(owner)s AND kind = %(kind)s AND branch = %(branch)s "
_NEWEST: Final = (
    "SELECT index, state FROM ledger.ledger_owner_snapshots WHERE " + _PLACE + "AND"
    " fold_version = %(version)s AND index <= %(index)s"
    " ORDER BY tenant DESC, log_id DESC, owner DESC, kind DESC, branch DESC, fold_version DESC,"
    " index DESC LIMIT 1"
)
_INSERT: Final = (
    "INSERT INTO ledger.ledger_owner_snapshots"
    " (tenant, log_id, owner, kind, branch, fold_version, index, state) VALUES (%(tenant)s,"
    " %(log_id)s, %(owner)s, %(kind)s, %(branch)s, %(version)s, %(index)s, %(state)s)"
    " ON CONFLICT DO NOTHING"
)
_THIN_OUT: Final = (
    "DELETE FROM ledger.ledger_owner_snapshots WHERE " + _PLACE + "AND (fold_version <>"
    " %(version)s OR index NOT IN (SELECT s.index FROM ledger.ledger_owner_snapshots s WHERE "
    + _PLACE
    + f"AND fold_version = %(version)s ORDER BY s.index DESC LIMIT {KEPT}))"
)
_REMOVE: Final = (
    "DELETE FROM ledger.ledger_owner_snapshots WHERE " + _PLACE + "AND"
    " fold_version = %(version)s AND index = %(index)s"
)
_LIST: Final = (
    "SELECT owner, kind, branch, fold_version, index FROM ledger.ledger_owner_snapshots WHERE "
    + _HERE
    + "ORDER BY tenant, log_id, owner, kind, branch, fold_version, index"
)


class Place(NamedTuple):
    """Whose memories of which kind, as which branch sees them."""

    owner: UUID
    kind: str
    branch: UUID


@dataclass(frozen=True, slots=True)
class SnapshotRow:
    """Which snapshot: where, by which code it was folded, and up to which index."""

    place: Place
    version: int
    index: int


class SnapshotTable:
    """
    The snapshots of one log.

    Args:
        datastore: The database.
        log: The log.
    """

    def __init__(self, datastore: Datastore, log: Log) -> None:
        self._datastore = datastore
        self._log = log

    def newest(self, place: Place, version: int, index: int) -> tuple[int, bytes] | None:
        """The index and sealed state of the last one of a place up to an index."""
        asked = self._of(place) | {"version": version, "index": index}
        found = self._datastore.fetch(self._log.tenant, _NEWEST, asked)
        return (found[0][0], bytes(found[0][1])) if found else None

    def save(self, place: Place, version: int, index: int, state: bytes) -> None:
        """Stores one, and removes those of the place that are too many or of other code."""
        given = self._of(place) | {"version": version, "index": index, "state": state}
        with self._datastore.write_snapshots(self._log.tenant) as connection:
            connection.execute(_INSERT, given, binary=True)
            connection.execute(_THIN_OUT, given, binary=True)

    def remove(self, row: SnapshotRow) -> None:
        """Removes one; none to remove is no error."""
        asked = self._of(row.place) | {"version": row.version, "index": row.index}
        with self._datastore.write_snapshots(self._log.tenant) as connection:
            connection.execute(_REMOVE, asked, binary=True)

    def rows(self) -> Iterator[SnapshotRow]:
        """All that there are, without their states."""
        found = self._datastore.fetch(self._log.tenant, _LIST, self._here(), Role.PROJECT)
        for *place, version, index in found:
            yield SnapshotRow(Place(*place), version, index)

    def _here(self) -> dict[str, object]:
        return {"tenant": self._log.tenant, "log_id": self._log.log_id}

    def _of(self, place: Place) -> dict[str, object]:
        return self._here() | place._asdict()
