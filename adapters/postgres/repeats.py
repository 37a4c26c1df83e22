"""What a request with an idempotency key stored when it was made before."""

from typing import Final
from uuid import UUID

from memoriale.adapters.postgres.append import IdempotencyMismatchError
from memoriale.adapters.postgres.reading import LedgerReader
from memoriale.domain.record import Row

# A range in the full order of the key that serves it, as in reading.py.
_PLACE: Final = (
    "SELECT e.append_first, e.append_last FROM ledger.ledger_events e"
    " WHERE e.tenant = %(tenant)s AND e.log_id = %(log_id)s"
    " AND (e.owner, e.idempotency_tag) >= (%(owner)s, %(tag)s)"
    " AND (e.owner, e.idempotency_tag) <= (%(owner)s, %(tag)s)"
    " AND e.idempotency_tag IS NOT NULL ORDER BY e.owner, e.idempotency_tag LIMIT 1"
)


def stored_before(
    reader: LedgerReader, owner: UUID, idempotency_tag: bytes, request_tag: bytes | None
) -> list[Row]:
    """
    The events of the append that an owner's idempotency key belongs to; none when it is new.

    Args:
        reader: Of the log.
        owner: The owner's pseudonym.
        idempotency_tag: Tag of the key.
        request_tag: Tag of the request that brings it now; None when any will do.

    Raises:
        IdempotencyMismatchError: The key was used for another request.
    """
    log = reader.log
    arguments = {
        "tenant": log.tenant,
        "log_id": log.log_id,
        "owner": owner,
        "tag": idempotency_tag,
    }
    found = reader.datastore.fetch(log.tenant, _PLACE, arguments)
    if not found:
        return []
    first, last = found[0]
    rows = reader.rows(after=first - 1, stop=last + 1)
    if request_tag is not None and rows[0].columns.request_tag != request_tag:
        raise IdempotencyMismatchError(
            "This idempotency key was used for another request. Take a new key, or repeat the"
            " request as it was.",
            field="idempotency_key",
        )
    return rows
