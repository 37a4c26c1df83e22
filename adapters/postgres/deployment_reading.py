"""Looking through the deployment log."""

from typing import Final
from uuid import UUID

from memoriale.adapters.postgres.datastore import Datastore
from memoriale.adapters.postgres.logs import Log
from memoriale.domain.values import canonical_json

_STREAMS: Final = (
    "SELECT DISTINCT e.stream_id FROM ledger.ledger_events e"
    " WHERE e.tenant = %(tenant)s AND e.log_id = %(log_id)s AND strpos(e.header, %(needle)s) > 0"
)


def streams_about(datastore: Datastore, log: Log, tenant: str) -> list[UUID]:
    """
    Streams of the deployment log that are about a tenant; the server looks through the headers.

    Args:
        datastore: The database.
        log: The deployment log.
        tenant: About whom.
    """
    needle = canonical_json({"tenant": tenant})[1:-1].decode()
    place = {"tenant": log.tenant, "log_id": log.log_id, "needle": needle}
    with datastore.read(log.tenant) as connection:
        return [stream for (stream,) in connection.execute(_STREAMS, place)]
