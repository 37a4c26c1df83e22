"""Taking over: the events that bring a memory on one branch to how another branch has it."""

from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID, uuid4

from memoriale.domain.decisions import Draft, Stamp, draft_change
from memoriale.domain.events import (
    Amended,
    AmendedBody,
    AmendedHeader,
    Body,
    ContentHeader,
    Corrected,
    CorrectedBody,
    Event,
    Header,
    Invalidated,
    InvalidatedHeader,
    ReasonCode,
    Reinstated,
    Remembered,
    RememberedBody,
)
from memoriale.domain.memory import MemoryState, Status

_SPANS = ("valid_from", "valid_until", "expires_at")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """
    Where a memory is taken over to.

    Args:
        memory_id: Its id there.
        branch: The branch.
        stream_id: Of the memory on that branch.
        owner: Whose it becomes, a pseudonym.
        owner_type: Of what type the owner is.
        aspect: The tag of its subject under that owner's key.
        replaced_by: What stands in its place there, if it ended.
    """

    memory_id: UUID
    branch: UUID
    stream_id: UUID
    owner: UUID
    owner_type: str
    aspect: str | None
    replaced_by: UUID | None


def decide_takeover(
    source: MemoryState,
    target: MemoryState | None,
    place: Place,
    stamp: Stamp,
    reason: str | None,
) -> list[Draft]:
    """
    The events after which a memory is as the source has it.

    Args:
        source: As it shall be; its content is there.
        target: As it is; None makes it, unless it has ended already.
        place: Where.
        stamp: Who does it, and what caused it.
        reason: Why, as given where it was changed.
    """
    if target is None:
        current = source.status is Status.CURRENT
        return [_made(source, place, stamp, reason)] if current else []
    drafts: list[Draft] = []
    for event, spans in _steps(source, target, place, reason):
        draft = draft_change(target, event, stamp, place.branch, place.stream_id)
        draft = Draft(draft.event, replace(draft.columns, **spans))
        drafts.append(draft)
        target = replace(target, columns=draft.columns)
    return drafts


def decide_yield(
    state: MemoryState, replaced_by: UUID | None, place: Place, stamp: Stamp, reason: str | None
) -> Draft:
    """The event that ends a memory in whose place the other side has another, or none."""
    because = ReasonCode.RETRACTED if replaced_by is None else ReasonCode.SUPERSEDED
    header = InvalidatedHeader(reason_code=because, replaced_by=replaced_by)
    event = Invalidated(header=header, body=Body(reason=reason))
    return draft_change(state, event, stamp, place.branch, place.stream_id)


def _made(source: MemoryState, place: Place, stamp: Stamp, reason: str | None) -> Draft:
    assert source.payload is not None
    event = Remembered(
        header=_content(source, place),
        body=RememberedBody(
            payload=source.payload,
            reason=reason,
            namespace=source.namespace,
            tags=source.tags,
            metadata=source.metadata,
            source=source.source,
            evidence=source.evidence,
            given_times=source.given_times,
        ),
    )
    # The principal's columns say for whom it was recorded, which decides who may see it.
    acting = {k: v for k, v in stamp.fields().items() if not k.startswith("principal_")}
    columns = replace(
        source.columns,
        **acting,
        event_id=uuid4(),
        stream_id=place.stream_id,
        stream_version=1,
        continues=source.index,
        memory_id=place.memory_id,
        branch=place.branch,
        owner=place.owner,
        owner_type=place.owner_type,
        topic=Remembered.TOPIC,
        schema_version=Remembered.SCHEMA_VERSION,
        request_tag=None,
        content_tag=None,
        idempotency_tag=None,
    )
    return Draft(event, columns)


def _steps(
    source: MemoryState, target: MemoryState, place: Place, reason: str | None
) -> list[tuple[Event, dict[str, Any]]]:
    assert source.payload is not None
    found: list[tuple[Event, dict[str, Any]]] = []
    was, becomes = (state.status is Status.CURRENT for state in (target, source))
    if becomes and not was:
        found.append((Reinstated(header=Header(), body=Body(reason=reason)), {}))
    rewritten = source.payload != target.payload
    if rewritten:
        corrected = CorrectedBody(payload=source.payload, reason=reason)
        found.append((Corrected(header=_content(source, place), body=corrected), {}))
    if rewritten and source.importance is not None:
        target = replace(target, importance=source.importance)
    if amended := _amended(source, target, reason):
        found.append(amended)
    if was and not becomes:
        assert source.reason_code is not None
        ended = InvalidatedHeader(reason_code=source.reason_code, replaced_by=place.replaced_by)
        found.append((Invalidated(header=ended, body=Body(reason=reason)), {}))
    return found


def _amended(
    source: MemoryState, target: MemoryState, reason: str | None
) -> tuple[Event, dict[str, Any]] | None:
    spans = {name: getattr(source.columns, name) for name in _SPANS}
    changed = [n for n in ("importance", "tags", "metadata") if _differs(source, target, n)]
    changed += [n for n in _SPANS if getattr(target.columns, n) != spans[n]]
    if not changed:
        return None
    given = source.given_times
    body = AmendedBody(
        tags=source.tags if "tags" in changed else None,
        metadata=source.metadata if "metadata" in changed else None,
        given_times={n: given[n] for n in _SPANS if n in changed and n in given},
        reason=reason,
    )
    header = AmendedHeader(
        changed=tuple(changed), importance=source.importance if "importance" in changed else None
    )
    return Amended(header=header, body=body), {n: spans[n] for n in _SPANS if n in changed}


def _differs(source: MemoryState, target: MemoryState, name: str) -> bool:
    return bool(getattr(source, name) != getattr(target, name))


def _content(source: MemoryState, place: Place) -> ContentHeader:
    assert source.payload is not None
    return ContentHeader(
        content_length=len(source.payload.content),
        importance=source.importance,
        confidence=source.confidence,
        source_tier=source.source_tier,
        has_evidence=bool(source.evidence),
        aspect=place.aspect,
    )
