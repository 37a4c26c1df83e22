"""A memory as folded from its events."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from memoriale.domain.events import (
    Amended,
    Corrected,
    Event,
    Invalidated,
    ReasonCode,
    RecordedEvent,
    Reinstated,
    Remembered,
    Restated,
    SourceTier,
)
from memoriale.domain.payloads import AnyPayload
from memoriale.domain.record import Columns


class Status(StrEnum):
    """Whether a memory is recalled as current."""

    CURRENT = "current"
    INVALIDATED = "invalidated"
    ERASED = "erased"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryState:
    """
    One memory on one branch, at one index.

    ``columns`` are those of the last event, with the memory's own owner, span and visibility;
    ``version`` counts its events along the lineage; ``first_index`` and ``index`` are those of
    its first and last event. Importance and confidence are thousandths.
    """

    memory_id: UUID
    kind: str
    columns: Columns
    status: Status
    version: int
    first_index: int
    index: int
    created_at: datetime
    changed_at: datetime
    payload: AnyPayload | None = None
    importance: int | None = None
    confidence: int | None = None
    source_tier: SourceTier | None = None
    aspect: str | None = None
    reason_code: ReasonCode | None = None
    replaced_by: UUID | None = None
    namespace: str | None = None
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)
    source: str | None = None
    evidence: tuple[str, ...] = ()
    given_times: dict[str, str] = field(default_factory=dict)

    def is_current(self, at: datetime) -> bool:
        """Whether recall may return it at a time: current and not expired."""
        expires = self.columns.expires_at
        return self.status is Status.CURRENT and (expires is None or at < expires)

    def is_valid(self, at: datetime) -> bool:
        """Whether it is true in the world at a time; the end of the span is excluded."""
        since, until = self.columns.valid_from, self.columns.valid_until
        return (since is None or since <= at) and (until is None or at < until)


def project_memory(
    state: MemoryState | None, events: Iterable[RecordedEvent]
) -> MemoryState | None:
    """
    Folds the events of one memory, in index order; the library's projector signature.

    An event whose key was destroyed makes the memory erased for good: no later event brings any
    part of it back.
    """
    for recorded in events:
        state = _evolve(state, recorded)
    return state


def _evolve(state: MemoryState | None, recorded: RecordedEvent) -> MemoryState | None:
    event = recorded.event
    if isinstance(event, Remembered):
        return _remembered(recorded, event)
    if state is None or type(event) not in _CHANGES:
        return state
    erased = state.status is Status.ERASED
    changed = state if erased else _CHANGES[type(event)](state, event, recorded.columns)
    return replace(
        changed,
        columns=_carried(changed.columns, recorded.columns),
        version=state.version + 1,
        index=recorded.index,
        changed_at=recorded.recorded.recorded_at,
    )


def _remembered(recorded: RecordedEvent, event: Remembered) -> MemoryState:
    columns, header, body = recorded.columns, event.header, event.body
    assert columns.memory_id is not None and columns.kind is not None
    state = MemoryState(
        memory_id=columns.memory_id,
        kind=columns.kind,
        columns=columns,
        status=Status.CURRENT,
        version=1,
        first_index=recorded.index,
        index=recorded.index,
        created_at=recorded.recorded.recorded_at,
        changed_at=recorded.recorded.recorded_at,
        importance=header.importance,
        confidence=header.confidence,
        source_tier=header.source_tier,
        aspect=header.aspect,
    )
    if body is None:
        return replace(state, status=Status.ERASED)
    return replace(
        state,
        payload=body.payload,
        namespace=body.namespace,
        tags=body.tags,
        metadata=body.metadata,
        source=body.source,
        evidence=body.evidence,
        given_times=body.given_times,
    )


def _erased(state: MemoryState) -> MemoryState:
    return replace(
        state,
        status=Status.ERASED,
        payload=None,
        namespace=None,
        tags=(),
        metadata={},
        source=None,
        evidence=(),
        given_times={},
    )


def _corrected(state: MemoryState, event: Corrected, columns: Columns) -> MemoryState:
    if event.body is None:
        return _erased(state)
    header = event.header
    return replace(
        state,
        payload=event.body.payload,
        importance=state.importance if header.importance is None else header.importance,
        confidence=state.confidence if header.confidence is None else header.confidence,
        source_tier=header.source_tier or state.source_tier,
        aspect=header.aspect or state.aspect,
    )


def _restated(state: MemoryState, event: Restated, columns: Columns) -> MemoryState:
    if event.body is None:
        return _erased(state)
    header, tags = event.header, event.body.tags
    return replace(
        state,
        payload=event.body.payload,
        importance=state.importance if header.importance is None else header.importance,
        confidence=state.confidence if header.confidence is None else header.confidence,
        source_tier=header.source_tier or state.source_tier,
        tags=state.tags if tags is None else tags,
    )


def _amended(state: MemoryState, event: Amended, columns: Columns) -> MemoryState:
    if event.body is None:
        return _erased(state)
    changed, body = set(event.header.changed), event.body
    own = state.columns
    spans = {
        name: getattr(columns, name) if name in changed else getattr(own, name)
        for name in ("valid_from", "valid_until", "expires_at")
    }
    given = {k: v for k, v in state.given_times.items() if k not in changed}
    return replace(
        state,
        columns=replace(own, **spans),
        importance=event.header.importance if "importance" in changed else state.importance,
        tags=(body.tags or ()) if "tags" in changed else state.tags,
        metadata=(body.metadata or {}) if "metadata" in changed else state.metadata,
        given_times={**given, **body.given_times},
    )


def _invalidated(state: MemoryState, event: Invalidated, columns: Columns) -> MemoryState:
    if event.body is None:
        return _erased(state)
    return replace(
        state,
        status=Status.INVALIDATED,
        reason_code=event.header.reason_code,
        replaced_by=event.header.replaced_by,
    )


def _reinstated(state: MemoryState, event: Reinstated, columns: Columns) -> MemoryState:
    if event.body is None:
        return _erased(state)
    return replace(state, status=Status.CURRENT, reason_code=None, replaced_by=None)


def _carried(own: Columns, last: Columns) -> Columns:
    """The memory's own columns, placed in the stream and branch of its last event."""
    return replace(
        own,
        event_id=last.event_id,
        stream_id=last.stream_id,
        stream_version=last.stream_version,
        branch=last.branch,
        topic=last.topic,
        continues=last.continues,
    )


_CHANGES: Final[dict[type[Event], Callable[[MemoryState, Any, Columns], MemoryState]]] = {
    Corrected: _corrected,
    Restated: _restated,
    Amended: _amended,
    Invalidated: _invalidated,
    Reinstated: _reinstated,
}
