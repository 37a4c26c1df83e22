"""What a published snapshot has besides the tables of the view: its stamp, and analysts' views."""

from functools import cache
from hashlib import sha256
from typing import Final, NamedTuple

from memoriale.projections.stats.schema import (
    FORMAT,
    TABLES,
    Column,
    Table,
    comment_on,
    make_table,
)


class StarView(NamedTuple):
    """A view over the tables; ``query`` gives its columns in declared order."""

    name: str
    meaning: str
    columns: tuple[Column, ...]
    query: str


_INDEX: Final = Column("index", "BIGINT", "Index of the event.")
_MEMORY: Final = Column("memory_id", "UUID", "The memory.")
_BRANCH: Final = Column("branch", "UUID", "The branch; main has the log's id.")
_KIND: Final = Column("kind", "VARCHAR", "Kind of the memory.")
_OWNER: Final = (
    Column("owner", "UUID", "Pseudonym of whose it is."),
    Column("owner_type", "VARCHAR", "user, agent, team, resource, session, tenant."),
)
_ACTOR: Final = (
    Column("actor", "UUID", "Pseudonym of who acted."),
    Column("actor_kind", "VARCHAR", "What kind of actor it was."),
)
_RECORDED: Final = Column("recorded_at", "TIMESTAMPTZ", "When the ledger learnt it.", "UTC")
_TIER: Final = Column("source_tier", "VARCHAR", "Where it comes from, such as manual.")
_MODEL: Final = Column("model", "VARCHAR", "The language model that extracted it.")
_RUN: Final = Column("source_run", "UUID", "Pseudonym of the run that produced it.")
_IMPORTANCE: Final = Column("importance", "INTEGER", "How important it is.", "thousandths")
_LENGTH: Final = Column("content_length", "BIGINT", "Length of the content.", "characters")
_FIRST: Final = Column("first_recorded_at", "TIMESTAMPTZ", "When its first event was.", "UTC")
_LAST: Final = Column("last_recorded_at", "TIMESTAMPTZ", "When its last event was.", "UTC")
_MADE_AT: Final = Column("created_at", "TIMESTAMPTZ", "When the memory was made.", "UTC")
_OPEN: Final = "recorded_until = 9223372036854775807"

SNAPSHOT: Final = Table(
    "snapshot",
    "position",
    "One row: which part of which log this file holds.",
    (
        Column("log_id", "UUID NOT NULL", "The log; also the id of branch main."),
        Column("position", "BIGINT NOT NULL", "Events in it: those from 0 to position - 1."),
        Column(
            "root",
            "BLOB NOT NULL",
            "Root of the Merkle tree over the leaf hashes of these events (RFC 6962).",
            "SHA-256",
        ),
        Column("published_at", "TIMESTAMPTZ NOT NULL", "Clock of the machine that made it.", "UTC"),
        Column("format", "VARCHAR NOT NULL", "Format of its tables and views."),
    ),
)

MEMORIES_CURRENT: Final = StarView(
    "memories_current",
    "Memories as they are now, one row for each branch that they were written on. What a branch "
    "inherits from its parent is in branch_memories. Expiry and valid times are not applied.",
    (
        _MEMORY,
        _BRANCH,
        Column("version", "BIGINT", "Number of events of the memory so far."),
        Column("index", "BIGINT", "Index of its last event."),
        Column("first_index", "BIGINT", "Index of its first event."),
        _KIND,
        *_OWNER,
        Column("visibility", "VARCHAR", "Who may see it besides its owner."),
        _MADE_AT,
        Column("changed_at", "TIMESTAMPTZ", "When its last event was recorded.", "UTC"),
        Column("valid_from", "TIMESTAMPTZ", "Since when it is true; null: always.", "UTC"),
        Column("valid_until", "TIMESTAMPTZ", "When it stops being true; null: open.", "UTC"),
        Column("expires_at", "TIMESTAMPTZ", "From when it is not recalled; null: never.", "UTC"),
        _IMPORTANCE,
        Column("confidence", "INTEGER", "How sure its source is.", "thousandths"),
        _TIER,
        _LENGTH,
        _MODEL,
        Column("language", "VARCHAR", "Language of the content."),
        _RUN,
    ),
    f"""
    SELECT memory_id, branch, version, recorded_from AS "index", first_index, kind, owner,
           owner_type, visibility, created_at, recorded_at AS changed_at, valid_from, valid_until,
           expires_at, importance, confidence, source_tier, content_length, model, language,
           source_run
    FROM memory_versions
    WHERE {_OPEN} AND status = 'current'
    """,
)

BRANCH_LINES: Final = StarView(
    "branch_lines",
    "The lines of history that each branch sees: itself, and each ancestor up to where it left.",
    (
        _BRANCH,
        Column("line", "UUID", "The branch itself, or one of its ancestors."),
        Column("depth", "BIGINT", "Steps from the branch to that line.", "branches"),
        Column("last_index", "BIGINT", "Index of the last event of that line that it sees."),
    ),
    """
    WITH RECURSIVE lines AS (
        SELECT branch, branch AS line, CAST(0 AS BIGINT) AS depth,
               CAST(9223372036854775807 AS BIGINT) AS last_index, parent, fork_index
        FROM branches
        UNION ALL
        SELECT lines.branch, above.branch, lines.depth + 1,
               least(lines.last_index, lines.fork_index), above.parent, above.fork_index
        FROM lines JOIN branches AS above ON above.branch = lines.parent
        WHERE lines.depth < 100
    )
    SELECT branch, line, depth, last_index FROM lines
    """,
)

BRANCH_MEMORIES: Final = StarView(
    "branch_memories",
    "Every memory as each branch has it now, inherited ones too, current or not. Filter by "
    "branch. Who may see it is not applied.",
    (
        _BRANCH,
        _MEMORY,
        Column("line", "UUID", "The branch that this version was recorded on."),
        Column("index", "BIGINT", "Index of the event that made this version."),
        Column("status", "VARCHAR", "current or invalidated."),
        _KIND,
        *_OWNER,
        _MADE_AT,
        _IMPORTANCE,
        _TIER,
        _LENGTH,
    ),
    f"""
    SELECT l.branch, v.memory_id, l.line, v.recorded_from AS "index", v.status, v.kind, v.owner,
           v.owner_type, v.created_at, v.importance, v.source_tier, v.content_length
    FROM branch_lines AS l JOIN memory_versions AS v
      ON v.branch = l.line AND v.recorded_from <= l.last_index
     AND (v.recorded_until > l.last_index OR v.{_OPEN})
    QUALIFY row_number() OVER (PARTITION BY l.branch, v.memory_id ORDER BY l.depth) = 1
    """,
)

CORRECTIONS: Final = StarView(
    "corrections",
    "Every correction with the version that it corrected.",
    (
        _INDEX,
        _RECORDED,
        _MEMORY,
        _BRANCH,
        _KIND,
        *_OWNER,
        *_ACTOR,
        _TIER,
        _MODEL,
        _IMPORTANCE,
        _LENGTH,
        Column("previous_index", "BIGINT", "Index of the event that made the corrected version."),
        Column("previous_source_tier", "VARCHAR", "Where the corrected version came from."),
        Column("previous_model", "VARCHAR", "The language model that extracted that version."),
        Column("previous_content_length", "BIGINT", "Length of its content.", "characters"),
        Column("stood_seconds", "BIGINT", "How long the corrected version stood.", "seconds"),
    ),
    """
    SELECT v.recorded_from AS "index", v.recorded_at, v.memory_id, v.branch, v.kind, v.owner,
           v.owner_type, e.actor, e.actor_kind, v.source_tier, v.model, v.importance,
           v.content_length, p.recorded_from AS previous_index,
           p.source_tier AS previous_source_tier, p.model AS previous_model,
           p.content_length AS previous_content_length,
           date_diff('second', p.recorded_at, v.recorded_at) AS stood_seconds
    FROM memory_versions AS v
    JOIN events AS e ON e."index" = v.recorded_from
    LEFT JOIN memory_versions AS p ON p.memory_id = v.memory_id
     AND ((v.continues IS NOT NULL AND p.recorded_from = v.continues)
       OR (v.continues IS NULL AND p.branch = v.branch AND p.recorded_until = v.recorded_from))
    WHERE v.topic = 'memory.corrected'
    """,
)

INVALIDATIONS: Final = StarView(
    "invalidations",
    "Every invalidation: which memory stopped being current, why, and after how long.",
    (
        _INDEX,
        _RECORDED,
        _MEMORY,
        _BRANCH,
        _KIND,
        *_OWNER,
        *_ACTOR,
        Column("reason_code", "VARCHAR", "Why it stopped being current."),
        Column("replaced_by", "UUID", "The memory that took its place."),
        _TIER,
        _MODEL,
        _RUN,
        _MADE_AT,
        Column("lived_seconds", "BIGINT", "From its first event to this one.", "seconds"),
        Column("reinstated_index", "BIGINT", "Index of the event that took it back; null: none."),
    ),
    """
    SELECT v.recorded_from AS "index", v.recorded_at, v.memory_id, v.branch, v.kind, v.owner,
           v.owner_type, e.actor, e.actor_kind, v.reason_code, v.replaced_by, v.source_tier,
           v.model, v.source_run, v.created_at,
           date_diff('second', v.created_at, v.recorded_at) AS lived_seconds,
           r.recorded_from AS reinstated_index
    FROM memory_versions AS v
    JOIN events AS e ON e."index" = v.recorded_from
    LEFT JOIN memory_versions AS r ON r.memory_id = v.memory_id AND r.branch = v.branch
     AND r.recorded_from = v.recorded_until AND r.topic = 'memory.reinstated'
    WHERE v.topic = 'memory.invalidated'
    """,
)

IMPORT_RUNS: Final = StarView(
    "import_runs",
    "Every run that memories came from, such as one import or one extraction.",
    (
        _RUN,
        Column("first_index", "BIGINT", "Index of its first event."),
        Column("last_index", "BIGINT", "Index of its last event."),
        Column("events", "BIGINT", "Its events.", "events"),
        Column("memories", "BIGINT", "Memories that it made.", "memories"),
        Column("current_memories", "BIGINT", "Those that are current on some branch.", "memories"),
        _FIRST,
        _LAST,
    ),
    """
    WITH made AS (
        SELECT source_run, count(DISTINCT memory_id) AS current_memories
        FROM memories_current GROUP BY source_run
    )
    SELECT e.source_run, min(e."index") AS first_index, max(e."index") AS last_index,
           count(*) AS events,
           count(DISTINCT e.memory_id) FILTER (e.topic = 'memory.remembered') AS memories,
           coalesce(any_value(made.current_memories), 0) AS current_memories,
           min(e.recorded_at) AS first_recorded_at, max(e.recorded_at) AS last_recorded_at
    FROM events AS e LEFT JOIN made USING (source_run)
    WHERE e.source_run IS NOT NULL
    GROUP BY e.source_run
    """,
)

DAILY_ACTIVITY: Final = StarView(
    "daily_activity",
    "What happened on each day, by topic.",
    (
        Column("day", "DATE", "The day in UTC.", "UTC"),
        Column("topic", "VARCHAR", "What happened, such as memory.corrected."),
        Column("events", "BIGINT", "Events of that topic.", "events"),
        Column("memories", "BIGINT", "Different memories that they are about.", "memories"),
        Column("owners", "BIGINT", "Different owners.", "owners"),
        Column("actors", "BIGINT", "Different actors.", "actors"),
    ),
    """
    SELECT CAST(recorded_at AT TIME ZONE 'UTC' AS DATE) AS "day", topic, count(*) AS events,
           count(DISTINCT memory_id) AS memories, count(DISTINCT owner) AS owners,
           count(DISTINCT actor) AS actors
    FROM events GROUP BY ALL
    """,
)

OWNERS: Final = StarView(
    "owners",
    "Every owner that has a memory or a branch.",
    (
        *_OWNER,
        Column("events", "BIGINT", "Events about what it owns.", "events"),
        Column("memories", "BIGINT", "Memories that were made for it.", "memories"),
        Column("current_memories", "BIGINT", "Those that are current on some branch.", "memories"),
        _FIRST,
        _LAST,
    ),
    """
    WITH made AS (
        SELECT owner, owner_type, count(DISTINCT memory_id) AS current_memories
        FROM memories_current GROUP BY ALL
    )
    SELECT e.owner, e.owner_type, count(*) AS events,
           count(DISTINCT e.memory_id) FILTER (e.topic = 'memory.remembered') AS memories,
           coalesce(any_value(made.current_memories), 0) AS current_memories,
           min(e.recorded_at) AS first_recorded_at, max(e.recorded_at) AS last_recorded_at
    FROM events AS e LEFT JOIN made USING (owner, owner_type)
    GROUP BY e.owner, e.owner_type
    """,
)

ACTORS: Final = StarView(
    "actors",
    "Everyone who wrote.",
    (
        *_ACTOR,
        Column("events", "BIGINT", "Events that the actor caused.", "events"),
        Column("memories", "BIGINT", "Different memories that they are about.", "memories"),
        _FIRST,
        _LAST,
    ),
    """
    SELECT actor, actor_kind, count(*) AS events, count(DISTINCT memory_id) AS memories,
           min(recorded_at) AS first_recorded_at, max(recorded_at) AS last_recorded_at
    FROM events GROUP BY ALL
    """,
)

KINDS: Final = StarView(
    "kinds",
    "Every kind of memory that is in use.",
    (
        _KIND,
        Column("memories", "BIGINT", "Memories that were made.", "memories"),
        Column("current_memories", "BIGINT", "Those that are current on some branch.", "memories"),
        Column("corrections", "BIGINT", "How often one was corrected.", "events"),
        Column("invalidations", "BIGINT", "How often one was invalidated.", "events"),
    ),
    f"""
    SELECT kind, count(DISTINCT memory_id) AS memories,
           count(DISTINCT memory_id) FILTER ({_OPEN} AND status = 'current') AS current_memories,
           count(*) FILTER (topic = 'memory.corrected') AS corrections,
           count(*) FILTER (topic = 'memory.invalidated') AS invalidations
    FROM memory_versions GROUP BY kind
    """,
)

VIEWS: Final = (
    MEMORIES_CURRENT,
    BRANCH_LINES,
    BRANCH_MEMORIES,
    CORRECTIONS,
    INVALIDATIONS,
    IMPORT_RUNS,
    DAILY_ACTIVITY,
    OWNERS,
    ACTORS,
    KINDS,
)


def statements() -> list[str]:
    """The SQL that makes, in a copy of the tables, the stamp's table and the views."""
    made = make_table(SNAPSHOT)
    for view in VIEWS:
        made.append(f'CREATE VIEW "{view.name}" AS {view.query}')
        made += comment_on("VIEW", view.name, view.meaning, view.columns)
    return made


@cache
def fingerprint() -> str:
    """The format of a snapshot: that of the tables, and a hash of the SQL of everything else."""
    text = "\n".join([*statements(), *(sql for table in TABLES for sql in make_table(table))])
    return f"{FORMAT}+{sha256(text.encode()).hexdigest()[:16]}"
