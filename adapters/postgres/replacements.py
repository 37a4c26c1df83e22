"""Reading which memories ended because another one took their place."""

from typing import Final
from uuid import UUID

from memoriale.adapters.postgres.reading import LedgerReader
from memoriale.adapters.postgres.rows import row_of, select_list
from memoriale.domain.record import Columns, Row

_COLUMNS: Final = select_list("e", with_state=False)
_ENDED: Final = "e.topic = 'memory.invalidated' AND position(%(by)s in e.header) > 0"
_OF_OWNER: Final = (
    f"SELECT {_COLUMNS} FROM ledger.ledger_events e"
    " WHERE e.tenant = %(tenant)s AND e.log_id = %(log_id)s"
    f" AND e.owner = %(owner)s AND e.kind = %(kind)s AND {_ENDED}"
)
_OF_APPENDS: Final = (
    f"SELECT {_COLUMNS} FROM unnest(%(firsts)s::bigint[], %(lasts)s::bigint[]) AS a (first, last)"
    " JOIN ledger.ledger_events e ON e.tenant = %(tenant)s AND e.log_id = %(log_id)s"
    f" AND e.index BETWEEN a.first AND a.last AND {_ENDED}"
)


def replaced_rows(
    reader: LedgerReader, memory_id: UUID, own: Columns, appends: list[tuple[int, int]]
) -> list[Row]:
    """
    The events that ended other memories and may name a memory as what took their place: those of
    its owner and kind at any time, and those of anybody in its own appends. The state is left
    out.

    Args:
        reader: Of the log.
        memory_id: The memory.
        own: Its columns.
        appends: First and last index of each append that it stands in.
    """
    log = reader.log
    arguments = {
        "tenant": log.tenant,
        "log_id": log.log_id,
        "by": str(memory_id),
        "owner": own.owner,
        "kind": own.kind,
        "firsts": [first for first, _ in appends],
        "lasts": [last for _, last in appends],
    }
    found: dict[int, Row] = {}
    for statement in (_OF_OWNER, _OF_APPENDS):
        rows = [
            row_of(values) for values in reader.datastore.fetch(log.tenant, statement, arguments)
        ]
        found |= {row.recorded.index: row for row in rows}
    return [row for _, row in sorted(found.items())]
