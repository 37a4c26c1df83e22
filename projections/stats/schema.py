"""Tables and columns of the stats view, each with its unit and its meaning."""

from typing import Final, NamedTuple

FORMAT: Final = "stats/2"
"""Changes whenever a table, a column or the meaning of one changes: then views are rebuilt."""


class Column(NamedTuple):
    """A column as analysts see it: ``unit`` is empty where there is nothing to measure."""

    name: str
    type: str
    meaning: str
    unit: str = ""


class Table(NamedTuple):
    """A table; ``key`` is unique in it and orders its rows."""

    name: str
    key: str
    meaning: str
    columns: tuple[Column, ...]


_PERSONS: Final = (
    Column("principal_user", "UUID", "Pseudonym of the user that wrote it."),
    Column("principal_agent", "UUID", "Pseudonym of the agent that wrote it."),
    Column("principal_resource", "UUID", "Pseudonym of the resource that it was written for."),
    Column("principal_session", "UUID", "Pseudonym of the session that it was written in."),
    Column("principal_team", "UUID", "Pseudonym of the team that it was written for."),
)
_SPANS: Final = (
    Column("valid_from", "TIMESTAMPTZ", "Since when it is true in the world; null: always.", "UTC"),
    Column("valid_until", "TIMESTAMPTZ", "When it stops being true; null: open.", "UTC"),
    Column("expires_at", "TIMESTAMPTZ", "From when it is not recalled; null: never.", "UTC"),
)
_FACTS: Final = (
    Column("importance", "INTEGER", "How important it is.", "thousandths"),
    Column("confidence", "INTEGER", "How sure its source is.", "thousandths"),
    Column("source_tier", "VARCHAR", "Where it comes from, such as manual or llm-extracted."),
    Column("content_length", "BIGINT", "Length of the content.", "characters"),
    Column("has_evidence", "BOOLEAN", "Whether it names what it rests on."),
    Column("aspect", "VARCHAR", "Keyed tag of what a fact is about; equal aspects, equal tags."),
    Column("model", "VARCHAR", "The language model that extracted it."),
    Column("prompt_version", "VARCHAR", "Version of the prompt that extracted it."),
    Column("language", "VARCHAR", "Language of the content."),
    Column("reason_code", "VARCHAR", "Why it stopped being current."),
    Column("replaced_by", "UUID", "The memory that took its place."),
)

EVENTS: Final = Table(
    "events",
    "index",
    "Every event of the log, one row each.",
    (
        Column("index", "BIGINT NOT NULL", "Place in the log, from 0 and without holes."),
        Column("event_id", "UUID NOT NULL", "Identity of the event."),
        Column("append_first", "BIGINT NOT NULL", "Index of the first event stored with it."),
        Column("append_last", "BIGINT NOT NULL", "Index of the last event stored with it."),
        Column("stream_id", "UUID NOT NULL", "The stream: one for each memory and branch."),
        Column("stream_version", "BIGINT NOT NULL", "Place in the stream."),
        Column(
            "continues", "BIGINT", "Index of the event on a parent branch that it goes on from."
        ),
        Column("memory_id", "UUID", "The memory that it is about."),
        Column("branch", "UUID", "The branch that it is on; main has the log's id."),
        Column("kind", "VARCHAR", "Kind of the memory."),
        Column("topic", "VARCHAR NOT NULL", "What happened, such as memory.corrected."),
        Column("schema_version", "INTEGER NOT NULL", "Version of the event's format."),
        Column("recorded_at", "TIMESTAMPTZ NOT NULL", "When the ledger learnt it.", "UTC"),
        *_SPANS,
        Column("owner", "UUID NOT NULL", "Pseudonym of whose it is."),
        Column("owner_type", "VARCHAR NOT NULL", "user, agent, team, resource, session, tenant."),
        *_PERSONS,
        Column("about", "UUID[]", "Pseudonyms of the persons that it is about."),
        Column("visibility", "VARCHAR", "Who may see it besides its owner."),
        Column("namespace_tags", "VARCHAR[]", "One keyed tag for each prefix of the namespace."),
        Column("actor", "UUID NOT NULL", "Pseudonym of who acted."),
        Column("actor_kind", "VARCHAR NOT NULL", "What kind of actor it was."),
        Column("authentication", "VARCHAR NOT NULL", "How the actor was known."),
        Column("on_behalf_of", "UUID", "Pseudonym of whom the actor acted for."),
        Column("purpose", "VARCHAR", "The declared purpose."),
        Column("correlation_id", "UUID NOT NULL", "Groups what one request caused."),
        Column("causation_id", "UUID", "The event that caused it."),
        Column("source_run", "UUID", "Pseudonym of the run that produced it."),
        Column("retention_class", "VARCHAR NOT NULL", "How long it is kept."),
        *_FACTS,
        Column("changed", "VARCHAR[]", "Names of the fields that an amendment changed."),
        Column(
            "leaf_hash", "BLOB NOT NULL", "Hash of the event in the log's Merkle tree.", "SHA-256"
        ),
    ),
)

VERSIONS: Final = Table(
    "memory_versions",
    "recorded_from",
    "Every version of every memory on every branch: what each of its events left behind. "
    "Read as of index i: recorded_from <= i AND recorded_until > i. Whether a body was "
    "erased cannot be told from headers, so status does not say it.",
    (
        Column("recorded_from", "BIGINT NOT NULL", "Index of the event that made the version."),
        Column(
            "recorded_until",
            "BIGINT NOT NULL",
            "Index of the next event of the memory on this branch; 9223372036854775807: none yet.",
        ),
        Column("memory_id", "UUID NOT NULL", "The memory."),
        Column("branch", "UUID NOT NULL", "The branch; main has the log's id."),
        Column("version", "BIGINT NOT NULL", "Number of events of the memory so far."),
        Column("continues", "BIGINT", "The version on a parent branch that it goes on from."),
        Column("first_index", "BIGINT NOT NULL", "Index of the memory's first event."),
        Column("topic", "VARCHAR NOT NULL", "The event that made the version."),
        Column("status", "VARCHAR NOT NULL", "current or invalidated."),
        Column("kind", "VARCHAR NOT NULL", "Kind of the memory."),
        Column("owner", "UUID NOT NULL", "Pseudonym of whose it is."),
        Column("owner_type", "VARCHAR NOT NULL", "user, agent, team, resource, session, tenant."),
        Column("visibility", "VARCHAR", "Who may see it besides its owner."),
        *_PERSONS,
        Column("namespace", "VARCHAR NOT NULL", "Keyed tag of its namespace; empty: none."),
        Column("recorded_at", "TIMESTAMPTZ NOT NULL", "When the version was recorded.", "UTC"),
        Column("created_at", "TIMESTAMPTZ NOT NULL", "When the memory was made.", "UTC"),
        *_SPANS,
        *_FACTS,
        Column("source_run", "UUID", "Pseudonym of the run that produced it."),
        Column("retention_class", "VARCHAR NOT NULL", "How long it is kept."),
    ),
)

BRANCHES: Final = Table(
    "branches",
    "index",
    "Every branch. main has no parent.",
    (
        Column("index", "BIGINT NOT NULL", "Index of the event that made it; -1: main."),
        Column("branch", "UUID NOT NULL", "Identity of the branch."),
        Column("parent", "UUID", "The branch that it was forked from."),
        Column(
            "fork_index", "BIGINT NOT NULL", "Index of the last event of the parent that it sees."
        ),
        Column("scope", "VARCHAR NOT NULL", "owner or tenant: whose memories it holds."),
        Column("owner", "UUID", "Pseudonym of the owner that it is limited to."),
        Column("owner_type", "VARCHAR", "Type of that owner."),
        Column("child_owner", "UUID", "Pseudonym of the owner that goes on from it."),
        Column("child_owner_type", "VARCHAR", "Type of that owner."),
        Column("recorded_at", "TIMESTAMPTZ", "When it was made; null: main.", "UTC"),
    ),
)

POSITION: Final = Table(
    "position",
    "position",
    "One row: how far the log was read.",
    (Column("position", "BIGINT NOT NULL", "Events of the log that are in these tables."),),
)

TABLES: Final = (EVENTS, VERSIONS, BRANCHES, POSITION)


def statements() -> list[str]:
    """The SQL that makes an empty view: tables, their comments, and position 0."""
    made = [statement for table in TABLES for statement in make_table(table)]
    return [*made, "INSERT INTO position VALUES (0)"]


def make_table(table: Table) -> list[str]:
    """The SQL that makes an empty table with its comments."""
    columns = ", ".join(f'"{column.name}" {column.type}' for column in table.columns)
    comments = comment_on("TABLE", table.name, table.meaning, table.columns)
    return [f'CREATE TABLE "{table.name}" ({columns})', *comments]


def comment_on(what: str, name: str, meaning: str, columns: tuple[Column, ...]) -> list[str]:
    """
    The SQL that explains a table or a view and each of its columns.

    Args:
        what: ``TABLE`` or ``VIEW``.
        name: Of the table or view.
        meaning: Its own comment.
        columns: Its columns.
    """
    own = f'COMMENT ON {what} "{name}" IS {_quoted(meaning)}'
    return [
        own,
        *(
            f'COMMENT ON COLUMN "{name}"."{column.name}" IS {_quoted(_comment(column))}'
            for column in columns
        ),
    ]


def _comment(column: Column) -> str:
    return f"{column.meaning} Unit: {column.unit}." if column.unit else column.meaning


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
