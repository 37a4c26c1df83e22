"""The table that tells whom each event is about, compared with the events, and put right."""

from typing import Any, Final

import psycopg

from memoriale.adapters.postgres.datastore import Datastore
from memoriale.adapters.postgres.errors import translated
from memoriale.adapters.postgres.location import connection_settings, place_of
from memoriale.adapters.postgres.logs import Log
from memoriale.projections.reconcile import MOST_FINDINGS, ReconcileReport

VIEW: Final = "persons"
_PLACE: Final = "tenant = %(tenant)s AND log_id = %(log_id)s"
# As the append function fills it.
_BOTH: Final = (
    "WITH made AS (SELECT e.owner AS subject, e.index FROM ledger.ledger_events e"
    f" WHERE {_PLACE} AND e.owner_type = 'user' UNION SELECT a.subject, e.index"
    " FROM ledger.ledger_events e CROSS JOIN LATERAL unnest(e.about) AS a (subject)"
    f" WHERE {_PLACE}), kept AS"
    f" (SELECT s.subject, s.index FROM ledger.ledger_subjects s WHERE {_PLACE}),"
    " missing AS (SELECT * FROM made EXCEPT SELECT * FROM kept),"
    " orphaned AS (SELECT * FROM kept EXCEPT SELECT * FROM made) "
)
_COMPARE: Final = (
    _BOTH + "SELECT (SELECT count(*) FROM missing), (SELECT count(*) FROM orphaned),"
    " ARRAY(SELECT index FROM missing ORDER BY index LIMIT %(most)s),"
    " ARRAY(SELECT index FROM orphaned ORDER BY index LIMIT %(most)s),"
    f" (SELECT next FROM ledger.ledger_heads WHERE {_PLACE})"
)
_ADD: Final = (
    _BOTH + "INSERT INTO ledger.ledger_subjects (tenant, log_id, subject, index)"
    " SELECT %(tenant)s, %(log_id)s, subject, index FROM missing ON CONFLICT DO NOTHING"
)
_REMOVE: Final = (
    _BOTH + f"DELETE FROM ledger.ledger_subjects s USING orphaned o WHERE {_PLACE}"
    " AND s.subject = o.subject AND s.index = o.index"
)


def reconcile_persons(
    datastore: Datastore, log: Log, admin_url: str, *, repair: bool = False
) -> ReconcileReport:
    """
    Compares the persons by whom events are found with those that the events name.

    Args:
        datastore: The database.
        log: The log.
        admin_url: A login that may act as the owner of the ledger; used for repairs alone.
        repair: Put right what is found.

    Raises:
        UnavailableError: The database cannot be used, or not by that login.
    """
    place: dict[str, Any] = {"tenant": log.tenant, "log_id": log.log_id, "most": MOST_FINDINGS}
    with datastore.read(log.tenant) as connection:
        found = connection.execute(_COMPARE, place).fetchone()
    assert found is not None
    missing, orphaned, absent, odd, head = found
    differs = missing + orphaned
    if repair and differs:
        _repair(admin_url, place)
    findings = [
        *(f"ledger_subjects, index {index}: a person is missing" for index in absent),
        *(f"ledger_subjects, index {index}: the event does not name the person" for index in odd),
    ]
    return ReconcileReport(
        view=VIEW,
        position=head or 0,
        ok=not differs,
        missing=missing,
        orphaned=orphaned,
        repaired=differs if repair else 0,
        findings=findings[:MOST_FINDINGS],
    )


def _repair(admin_url: str, place: dict[str, Any]) -> None:
    settings = connection_settings(admin_url)
    with translated(place_of(settings)), psycopg.connect(**settings) as connection:
        connection.execute("SET LOCAL ROLE memoriale_owner")
        connection.execute("SELECT set_config('ledger.tenant', %(tenant)s, true)", place)
        connection.execute(_ADD, place)
        connection.execute(_REMOVE, place)
