"""Memories and their history as callers see them: with names in place of pseudonyms."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from datetime import datetime
from enum import Enum
from typing import Any, Protocol
from uuid import UUID

from memoriale.adapters.application.reading import pin_text
from memoriale.domain.branches import MAIN
from memoriale.domain.events import Amended, Invalidated, RecordedEvent
from memoriale.domain.keys import Subject
from memoriale.domain.memory import MemoryState

Hidden = Callable[[Iterable[UUID | None]], frozenset[UUID]]


def as_json(value: Any) -> Any:
    """Any value of a result as JSON values."""
    if hasattr(value, "__dataclass_fields__"):
        return {f.name: as_json(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Subject):
        return {"type": value.type, "id": value.id}
    if isinstance(value, dict):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple | frozenset | set):
        return [as_json(item) for item in value]
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, bytes):
        return value.hex()
    return str(value) if isinstance(value, UUID) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRecord:
    """
    One memory as of a point of the log.

    ``index`` is that of the event that made this version, ``version`` counts them.
    ``valid_from`` and ``valid_until`` span when it is true in the world; ``given_times`` holds
    times as they were given, with their offset. Importance and confidence are in 0..1.
    """

    memory_id: UUID
    kind: str
    status: str
    content: str | None
    index: int
    version: int
    branch: str
    created_at: datetime
    changed_at: datetime
    owner: Subject | None
    visibility: str | None
    importance: float | None
    confidence: float | None
    source_tier: str | None
    source: str | None
    subject: str | None
    tags: tuple[str, ...]
    namespace: str | None
    metadata: dict[str, Any]
    evidence: tuple[str, ...]
    valid_from: datetime | None
    valid_until: datetime | None
    expires_at: datetime | None
    given_times: dict[str, str]
    about: tuple[Subject, ...]
    reason_code: str | None
    replaced_by: UUID | None
    details: dict[str, Any]
    """Further fields of the kind, such as a message's speaker."""

    def without_text(self) -> "MemoryRecord":
        """The same without anything that people wrote."""
        return replace(
            self,
            content=None,
            source=None,
            subject=None,
            tags=(),
            namespace=None,
            metadata={},
            evidence=(),
            given_times={},
            details={},
        )

    def as_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {f.name: as_json(getattr(self, f.name)) for f in fields(self)}


@dataclass(frozen=True, slots=True)
class MemoryPage:
    """A page of memories; ask again with ``after=next`` until that is None."""

    memories: tuple[MemoryRecord, ...]
    next: int | None
    index: int
    """Index of the last event seen."""
    behind: int
    """Events that the view had not posted yet."""
    global_index: int | None = None
    """The same of the log of global memories, which come last; None when there are none."""

    @property
    def pin(self) -> str:
        """What to ask as of to see the same: ``i``, or ``i@g``."""
        return pin_text(self.index, self.global_index)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One version: the event, what it made of the memory, who did it, why and when."""

    index: int
    event: str
    event_id: UUID
    content: str | None
    actor: Subject | None
    actor_kind: str
    authentication: str
    on_behalf_of: Subject | None
    reason: str | None
    reason_code: str | None
    replaced_by: UUID | None
    changed: tuple[str, ...]
    recorded_at: datetime
    branch: str
    correlation_id: UUID
    causation_id: UUID | None

    def without_text(self) -> "HistoryEntry":
        """The same without anything that people wrote."""
        return replace(self, content=None, reason=None)

    def as_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {f.name: as_json(getattr(self, f.name)) for f in fields(self)}


class Names(Protocol):
    """Outside names by pseudonym."""

    def names(self, pseudonyms: Iterable[UUID | None]) -> dict[UUID, Subject]:
        """The names that are known; others are absent."""
        ...


class Presenter:
    """
    Puts names in place of pseudonyms; an erased name is None.

    Args:
        identities: The tenant's names.
        branches: Names of branches by id.
        hidden: Those of some memories that the reader may not see: nothing is said to be
            replaced by one of them.
    """

    def __init__(self, identities: Names, branches: dict[UUID, str], hidden: Hidden) -> None:
        self._identities = identities
        self._branches = branches
        self._hidden = hidden

    def memory(self, state: MemoryState) -> MemoryRecord:
        """A folded memory for its reader."""
        columns, payload = state.columns, state.payload
        names = self._identities.names([columns.owner, *columns.about])
        details = {} if payload is None else payload.model_dump(exclude_defaults=True)
        for known in ("kind", "content", "subject"):
            details.pop(known, None)
        return MemoryRecord(
            memory_id=state.memory_id,
            kind=state.kind,
            status=state.status.value,
            content=None if payload is None else payload.content,
            index=state.index,
            version=state.version,
            branch=self._branch(columns.branch),
            created_at=state.created_at,
            changed_at=state.changed_at,
            owner=names.get(columns.owner),
            visibility=columns.visibility,
            importance=_unit(state.importance),
            confidence=_unit(state.confidence),
            source_tier=None if state.source_tier is None else state.source_tier.value,
            source=state.source,
            subject=getattr(payload, "subject", None),
            tags=state.tags,
            namespace=state.namespace,
            metadata=dict(state.metadata),
            evidence=state.evidence,
            valid_from=columns.valid_from,
            valid_until=columns.valid_until,
            expires_at=columns.expires_at,
            given_times=dict(state.given_times),
            about=tuple(names[p] for p in columns.about if p in names),
            reason_code=None if state.reason_code is None else state.reason_code.value,
            replaced_by=self._told(state.replaced_by, self._hidden([state.replaced_by])),
            details=details,
        )

    def history(self, events: list[RecordedEvent]) -> list[HistoryEntry]:
        """The events of one memory, oldest first."""
        persons = [p for e in events for p in (e.columns.actor, e.columns.on_behalf_of)]
        names = self._identities.names(persons)
        hidden = self._hidden([replaced_by_of(e) for e in events])
        return [self._entry(recorded, names, hidden) for recorded in events]

    def _entry(
        self, recorded: RecordedEvent, names: dict[UUID, Subject], hidden: frozenset[UUID]
    ) -> HistoryEntry:
        columns, event = recorded.columns, recorded.event
        ended = event.header if isinstance(event, Invalidated) else None
        behalf = columns.on_behalf_of
        payload = getattr(event.body, "payload", None)
        return HistoryEntry(
            index=recorded.index,
            event=columns.topic,
            event_id=columns.event_id,
            content=None if payload is None else payload.content,
            actor=names.get(columns.actor),
            actor_kind=columns.actor_kind,
            authentication=columns.authentication,
            on_behalf_of=None if behalf is None else names.get(behalf),
            reason=None if event.body is None else event.body.reason,
            reason_code=None if ended is None else ended.reason_code.value,
            replaced_by=self._told(replaced_by_of(recorded), hidden),
            changed=event.header.changed if isinstance(event, Amended) else (),
            recorded_at=recorded.recorded.recorded_at,
            branch=self._branch(columns.branch),
            correlation_id=columns.correlation_id,
            causation_id=columns.causation_id,
        )

    def _told(self, memory_id: UUID | None, hidden: frozenset[UUID]) -> UUID | None:
        return None if memory_id in hidden else memory_id

    def _branch(self, branch: UUID | None) -> str:
        return MAIN if branch is None else self._branches.get(branch, str(branch))


def replaced_by_of(recorded: RecordedEvent) -> UUID | None:
    """Of an invalidation, the memory that stands in the place of the ended one."""
    event = recorded.event
    return event.header.replaced_by if isinstance(event, Invalidated) else None


def _unit(value: int | None) -> float | None:
    return None if value is None else value / 1000
