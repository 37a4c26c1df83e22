"""The record format: columns of the ledger's table, and an event before and after it is stored."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

LEAF_VERSION: Final = 1
MAX_HEADER_BYTES: Final = 32_768
MAX_ID_LIST: Final = 500
MAX_NAMESPACE_DEPTH: Final = 32


class Column(NamedTuple):
    """A column of ``ledger_events``: its name and its PostgreSQL type."""

    name: str
    type: str


COLUMNS: Final[tuple[Column, ...]] = tuple(
    Column(*pair)
    for pair in (
        ("tenant", "text"),
        ("log_id", "uuid"),
        ("index", "bigint"),
        ("event_id", "uuid"),
        ("append_first", "bigint"),
        ("append_last", "bigint"),
        ("stream_id", "uuid"),
        ("stream_version", "bigint"),
        ("continues", "bigint"),
        ("memory_id", "uuid"),
        ("branch", "uuid"),
        ("kind", "text"),
        ("topic", "text"),
        ("schema_version", "integer"),
        ("recorded_at", "timestamptz"),
        ("valid_from", "timestamptz"),
        ("valid_until", "timestamptz"),
        ("expires_at", "timestamptz"),
        ("owner", "uuid"),
        ("owner_type", "text"),
        ("principal_user", "uuid"),
        ("principal_agent", "uuid"),
        ("principal_resource", "uuid"),
        ("principal_session", "uuid"),
        ("principal_team", "uuid"),
        ("about", "uuid[]"),
        ("visibility", "text"),
        ("namespace_tags", "bytea[]"),
        ("actor", "uuid"),
        ("actor_kind", "text"),
        ("authentication", "text"),
        ("on_behalf_of", "uuid"),
        ("purpose", "text"),
        ("correlation_id", "uuid"),
        ("causation_id", "uuid"),
        ("source_run", "uuid"),
        ("retention_class", "text"),
        ("request_tag", "bytea"),
        ("content_tag", "bytea"),
        ("idempotency_tag", "bytea"),
        ("header", "text"),
        ("state", "bytea"),
        ("state_hash", "bytea"),
        ("leaf_version", "smallint"),
        ("leaf_hash", "bytea"),
    )
)
"""Every column in declared order. The leaf covers all but ``state`` and ``leaf_hash``."""

LEAF_COLUMNS: Final = tuple(c for c in COLUMNS if c.name not in ("state", "leaf_hash"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """
    The clear columns that a writer fills. No personal data: persons stand as pseudonyms, text
    as keyed tags, and free text only in the sealed body.

    Times are aware UTC. ``about`` is sorted. ``namespace_tags`` holds one tag per path prefix,
    shortest first. The three tags stand on the first event of an append only.
    """

    event_id: UUID
    stream_id: UUID
    stream_version: int
    topic: str
    schema_version: int
    owner: UUID
    owner_type: str
    actor: UUID
    actor_kind: str
    authentication: str
    correlation_id: UUID
    retention_class: str = "standard"
    visibility: str | None = None
    continues: int | None = None
    memory_id: UUID | None = None
    branch: UUID | None = None
    kind: str | None = None
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    expires_at: datetime | None = None
    principal_user: UUID | None = None
    principal_agent: UUID | None = None
    principal_resource: UUID | None = None
    principal_session: UUID | None = None
    principal_team: UUID | None = None
    about: tuple[UUID, ...] = ()
    namespace_tags: tuple[bytes, ...] = ()
    on_behalf_of: UUID | None = None
    purpose: str | None = None
    causation_id: UUID | None = None
    source_run: UUID | None = None
    request_tag: bytes | None = None
    content_tag: bytes | None = None
    idempotency_tag: bytes | None = None


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the ledger added to an event when it stored it, as all readers see it."""

    tenant: str
    log_id: UUID
    index: int
    append_first: int
    append_last: int
    recorded_at: datetime
    state_hash: bytes
    leaf_hash: bytes
    leaf_version: int = LEAF_VERSION


@dataclass(frozen=True, slots=True)
class Row:
    """
    One stored row, as read back: columns, place, header text and sealed state.

    ``state`` is None only after a recorded payload removal.
    """

    columns: Columns
    recorded: Recorded
    header: str
    state: bytes | None

    def value(self, column: str) -> Any:
        """The value of a column by its name in ``COLUMNS``."""
        if column in ("header", "state"):
            return getattr(self, column)
        if column in Recorded.__dataclass_fields__:
            return getattr(self.recorded, column)
        return getattr(self.columns, column)


@dataclass(frozen=True, slots=True)
class NewRow:
    """One event ready to be appended: clear columns, canonical header, sealed state."""

    columns: Columns
    header: str
    state: bytes


@dataclass(frozen=True, slots=True)
class StoredRef:
    """Where one event of an append stands."""

    index: int
    event_id: UUID
    leaf_hash: bytes


@dataclass(frozen=True, slots=True)
class AppendReceipt:
    """
    The ledger's answer for one append.

    ``created`` is False when the append was stored before (same event ids, or the same
    idempotency key with the same request): then this is the receipt of that earlier append.
    """

    tenant: str
    log_id: UUID
    first: int
    last: int
    recorded_at: datetime
    events: tuple[StoredRef, ...]
    created: bool = True
