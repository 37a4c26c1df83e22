"""The logs of a tenant: find one or make it."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from memoriale.adapters.postgres.datastore import Datastore
from memoriale.adapters.postgres.values import clear_word
from memoriale.domain.errors import InputError

LOG_KINDS: Final = ("memory", "access", "deployment")


@dataclass(frozen=True, slots=True)
class Log:
    """
    One gapless sequence of events of a tenant.

    ``log_id`` is random; ``incarnation`` counts from 1 and grows when the log is restored from
    a backup.
    """

    tenant: str
    kind: str
    log_id: UUID
    incarnation: int
    created_at: datetime


def find_log(datastore: Datastore, tenant: str, kind: str = "memory") -> Log | None:
    """
    The log of a tenant and kind, in its present incarnation; None if there is none. Unlike
    ``open_log`` it makes nothing.

    Args:
        datastore: The migrated database.
        tenant: Whose.
        kind: One of ``LOG_KINDS``.

    Raises:
        UnavailableError: The database cannot be used.
    """
    with datastore.read(tenant) as connection:
        row = connection.execute(
            "SELECT log_id, incarnation, created_at FROM ledger.ledger_logs"
            " WHERE tenant = %s AND log_kind = %s ORDER BY incarnation DESC LIMIT 1",
            [tenant, kind],
        ).fetchone()
    if row is None:
        return None
    log_id, incarnation, created_at = row
    return Log(tenant, kind, log_id, incarnation, created_at.astimezone(UTC))


def open_log(datastore: Datastore, tenant: str, kind: str = "memory") -> Log:
    """
    The log of a tenant and kind; the first call makes it.

    Args:
        datastore: The migrated database.
        tenant: 1 to 64 characters of ``A-Za-z0-9_.:/-``.
        kind: One of ``LOG_KINDS``.

    Raises:
        InputError: The tenant or the kind is not allowed.
        UnavailableError: The database cannot be used.
    """
    if kind not in LOG_KINDS:
        raise InputError(
            f"There is no log of kind {kind!r}. Take one of {', '.join(LOG_KINDS)}.",
            code="unknown_kind",
            field="kind",
            value=kind,
            allowed=list(LOG_KINDS),
        )
    clear_word("tenant", tenant)
    # A reading connection is lent and kept; the one below is made for this and closed again.
    found = find_log(datastore, tenant, kind)
    if found is not None:
        return found
    with datastore.appending() as connection:
        row = connection.execute(
            "SELECT log_id, incarnation, created_at FROM ledger.open_log(%s, %s)", [tenant, kind]
        ).fetchone()
    if row is None:
        raise AssertionError("ledger.open_log returned no row")
    log_id, incarnation, created_at = row
    return Log(tenant, kind, log_id, incarnation, created_at.astimezone(UTC))
