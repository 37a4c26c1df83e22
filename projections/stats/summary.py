"""The stats view in a few tables for people."""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from memoriale.projections.stats.star import VIEWS

if TYPE_CHECKING:
    import duckdb

DAYS: Final = 30
"""Days that the table of days goes back from the last one with an event."""

Counted = dict[str, Any]

_QUERIES: Final = {
    "topics": """
        SELECT topic, count(*) AS events, max("index") AS last_index,
               max(recorded_at) AS last_recorded_at
        FROM events GROUP BY topic ORDER BY events DESC, topic
    """,
    "kinds": "SELECT * FROM kinds ORDER BY memories DESC, kind",
    "branches": """
        SELECT b.branch, b.parent,
               CASE WHEN b.parent IS NOT NULL THEN b.fork_index END AS fork_index,
               (SELECT count(*) FROM events AS e WHERE e.branch = b.branch) AS events,
               (SELECT count(*) FROM memories_current AS m WHERE m.branch = b.branch)
                   AS current_memories
        FROM branches AS b ORDER BY b."index" LIMIT 100
    """,
    "days": f"""
        SELECT "day", CAST(sum(events) AS BIGINT) AS events,
               CAST(sum(events) FILTER (topic = 'memory.remembered') AS BIGINT) AS remembered,
               CAST(sum(events) FILTER (topic = 'memory.corrected') AS BIGINT) AS corrected,
               CAST(sum(events) FILTER (topic = 'memory.invalidated') AS BIGINT) AS invalidated
        FROM daily_activity
        WHERE "day" > (SELECT max("day") FROM daily_activity) - {DAYS}
        GROUP BY "day" ORDER BY "day" DESC
    """,
    "owner_types": """
        SELECT owner_type, count(*) AS owners, CAST(sum(memories) AS BIGINT) AS memories,
               CAST(sum(current_memories) AS BIGINT) AS current_memories
        FROM owners GROUP BY owner_type ORDER BY owner_type
    """,
    "sources": """
        SELECT source_tier, count(DISTINCT memory_id) AS current_memories
        FROM memories_current GROUP BY source_tier ORDER BY current_memories DESC, source_tier
    """,
    "reasons": """
        SELECT reason_code, count(*) AS invalidations
        FROM invalidations GROUP BY reason_code ORDER BY invalidations DESC, reason_code
    """,
    "runs": """
        SELECT * FROM import_runs ORDER BY last_index DESC LIMIT 20
    """,
}


@dataclass(frozen=True, slots=True)
class Summary:
    """
    What a log holds, counted.

    Args:
        position: Events that were counted.
        first_recorded_at: When the first of them was recorded; None: there is none.
        last_recorded_at: When the last one was.
        tables: ``topics``, ``kinds``, ``branches`` (the first 100), ``days`` (the last 30),
            ``owner_types``, ``sources``, ``reasons`` and ``runs`` (the last 20), each a list of
            rows by column.
    """

    position: int
    first_recorded_at: datetime | None
    last_recorded_at: datetime | None
    tables: dict[str, list[Counted]]


def summarize(connection: "duckdb.DuckDBPyConnection") -> Summary:
    """
    Counts what a stats view holds.

    Args:
        connection: Open on the view; analysts' views are made in it for this connection alone.
    """
    for view in VIEWS:
        connection.execute(f'CREATE OR REPLACE TEMP VIEW "{view.name}" AS {view.query}')
    ((position, first, last),) = connection.execute(
        "SELECT (SELECT position FROM position), min(recorded_at), max(recorded_at) FROM events"
    ).fetchall()
    tables = {name: _rows(connection, sql) for name, sql in _QUERIES.items()}
    return Summary(position, first, last, tables)


def _rows(connection: "duckdb.DuckDBPyConnection", sql: str) -> list[Counted]:
    found = connection.execute(sql)
    names = [column[0] for column in found.description or ()]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]
