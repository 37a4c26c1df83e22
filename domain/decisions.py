"""Deciding: from a checked command and the folded state to the events that record it."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from memoriale.domain.commands import (
    UNSET,
    Amend,
    Correct,
    Invalidate,
    Reinstate,
    Remember,
    payload_of,
)
from memoriale.domain.errors import InputError
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
    Restated,
    RestatedBody,
    RestatedHeader,
    SourceTier,
)
from memoriale.domain.memory import MemoryState, Status
from memoriale.domain.record import Columns
from memoriale.domain.times import check_span, iso, to_utc
from memoriale.domain.values import thousandths


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """Who is acting, as pseudonyms, and what the events belong to: the same on all of an append."""

    actor: UUID
    actor_kind: str
    authentication: str
    correlation_id: UUID
    principal_user: UUID | None = None
    principal_agent: UUID | None = None
    principal_resource: UUID | None = None
    principal_session: UUID | None = None
    principal_team: UUID | None = None
    on_behalf_of: UUID | None = None
    purpose: str | None = None
    causation_id: UUID | None = None

    def fields(self) -> dict[str, Any]:
        """The columns that it fills."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Birth:
    """Ids and tags of a memory to be made, which only the key store can give."""

    memory_id: UUID
    stream_id: UUID
    branch: UUID
    owner: UUID
    owner_type: str
    about: tuple[UUID, ...] = ()
    namespace_tags: tuple[bytes, ...] = ()
    aspect: str | None = None
    source_run: UUID | None = None


@dataclass(frozen=True, slots=True)
class Draft:
    """An event and its clear columns, before tags and sealing."""

    event: Event
    columns: Columns


def decide_remember(command: Remember, birth: Birth, stamp: Stamp) -> Draft:
    """The event that makes a memory."""
    event = Remembered(header=_content_header(command, birth.aspect), body=_body(command))
    columns = Columns(
        **stamp.fields(),
        event_id=uuid4(),
        stream_id=birth.stream_id,
        stream_version=1,
        topic=Remembered.TOPIC,
        schema_version=Remembered.SCHEMA_VERSION,
        memory_id=birth.memory_id,
        branch=birth.branch,
        kind=command.kind,
        owner=birth.owner,
        owner_type=birth.owner_type,
        about=tuple(sorted(birth.about)),
        visibility=command.visibility.value,
        namespace_tags=birth.namespace_tags,
        retention_class=command.retention_class,
        source_run=birth.source_run,
        valid_from=_utc(command.valid_from),
        valid_until=_utc(command.valid_until),
        expires_at=_utc(command.expires_at),
    )
    return Draft(event, columns)


def decide_supersede(
    states: Iterable[MemoryState],
    replacement: UUID,
    stamp: Stamp,
    branch: UUID,
    stream_ids: dict[UUID, UUID],
) -> list[Draft]:
    """One ``invalidated`` event for each memory that another one replaces."""
    header = InvalidatedHeader(reason_code=ReasonCode.SUPERSEDED, replaced_by=replacement)
    return [
        draft_change(
            state,
            Invalidated(header=header, body=Body()),
            stamp,
            branch,
            stream_ids[state.memory_id],
        )
        for state in states
    ]


def decide_correct(
    command: Correct, state: MemoryState, stamp: Stamp, branch: UUID, stream_id: UUID
) -> Draft:
    """
    The event that replaces a memory's content.

    Raises:
        InputError: The memory is not current.
    """
    require_current(state)
    assert state.payload is not None
    by_person = stamp.actor_kind == "user"
    header = ContentHeader(
        content_length=len(command.content),
        importance=state.importance,
        confidence=state.confidence,
        source_tier=SourceTier.HUMAN_CORRECTION if by_person else state.source_tier,
        has_evidence=bool(state.evidence),
        aspect=state.aspect,
    )
    payload = state.payload.model_copy(update={"content": command.content})
    event = Corrected(header=header, body=CorrectedBody(payload=payload, reason=command.reason))
    return draft_change(state, event, stamp, branch, stream_id)


def decide_replace(
    command: Remember,
    state: MemoryState,
    aspect: str | None,
    stamp: Stamp,
    branch: UUID,
    stream_id: UUID,
) -> Draft:
    """
    The event that replaces a memory's content and payload as a store says.

    Raises:
        InputError: The memory is not current.
    """
    require_current(state)
    header = _content_header(command, aspect)
    body = CorrectedBody(payload=payload_of(command), reason=command.reason)
    return draft_change(state, Corrected(header=header, body=body), stamp, branch, stream_id)


def decide_restate(
    command: Remember,
    similarity: float | None,
    state: MemoryState,
    stamp: Stamp,
    branch: UUID,
    stream_id: UUID,
) -> Draft:
    """
    The event that says a memory again; its aspect stays.

    Raises:
        InputError: The memory is not current.
    """
    require_current(state)
    header = RestatedHeader(
        **_content_header(command, state.aspect).model_dump(),
        similarity=None if similarity is None else thousandths(similarity),
    )
    body = RestatedBody(payload=payload_of(command), tags=command.tags, reason=command.reason)
    return draft_change(state, Restated(header=header, body=body), stamp, branch, stream_id)


def decide_amend(
    command: Amend, state: MemoryState, stamp: Stamp, branch: UUID, stream_id: UUID
) -> Draft:
    """
    The event that changes importance, tags, metadata or spans of a memory.

    Raises:
        InputError: The memory is not current, or its valid span would end before it begins.
    """
    require_current(state)
    given = {
        name: getattr(command, name)
        for name in ("importance", "tags", "metadata", "valid_from", "valid_until", "expires_at")
        if getattr(command, name) is not UNSET
    }
    times = {k: v for k, v in given.items() if isinstance(v, datetime)}
    importance = given.get("importance")
    event = Amended(
        header=AmendedHeader(
            changed=tuple(given),
            importance=None if importance is None else thousandths(importance),
        ),
        body=AmendedBody(
            tags=given.get("tags"),
            metadata=given.get("metadata"),
            given_times={name: iso(time) for name, time in times.items()},
            reason=command.reason,
        ),
    )
    draft = draft_change(state, event, stamp, branch, stream_id)
    spans = ("valid_from", "valid_until", "expires_at")
    changed: dict[str, Any] = {name: _utc(given[name]) for name in spans if name in given}
    columns = replace(draft.columns, **changed)
    check_span(columns.valid_from, columns.valid_until)
    return Draft(event, columns)


def decide_invalidate(
    command: Invalidate,
    state: MemoryState,
    stamp: Stamp,
    branch: UUID,
    stream_id: UUID,
    replaced_by: UUID | None = None,
) -> Draft:
    """
    The event that ends a memory; ``replaced_by`` names the one that stands in its place.

    Raises:
        InputError: The memory is not current.
    """
    require_current(state)
    event = Invalidated(
        header=InvalidatedHeader(reason_code=command.because, replaced_by=replaced_by),
        body=Body(reason=command.reason),
    )
    return draft_change(state, event, stamp, branch, stream_id)


def decide_reinstate(
    command: Reinstate, state: MemoryState, stamp: Stamp, branch: UUID, stream_id: UUID
) -> Draft:
    """
    The event that makes an invalidated memory current again.

    Raises:
        InputError: The memory is current, or its content was erased.
    """
    if state.status is not Status.INVALIDATED:
        raise InputError(
            f"memory {state.memory_id} is {state.status.value}; only an invalidated memory can "
            "be reinstated.",
            code="not_invalidated",
            field="memory_id",
            value=str(state.memory_id),
            allowed=Status.INVALIDATED.value,
        )
    event = Reinstated(header=Header(), body=Body(reason=command.reason))
    return draft_change(state, event, stamp, branch, stream_id)


def require_current(state: MemoryState) -> None:
    """
    Refuses to change a memory that is not current.

    Raises:
        InputError: Says what it is and what to do.
    """
    if state.status is not Status.CURRENT:
        raise InputError(
            f"memory {state.memory_id} is {state.status.value}; reinstate it first, or remember "
            "a new one.",
            code="not_current",
            field="memory_id",
            value=str(state.memory_id),
            allowed=Status.CURRENT.value,
        )


def draft_change(
    state: MemoryState, event: Event, stamp: Stamp, branch: UUID, stream_id: UUID
) -> Draft:
    """The next event of a memory that exists, in its place on a branch."""
    own = state.columns
    same_branch = own.branch == branch
    columns = replace(
        own,
        **stamp.fields(),
        event_id=uuid4(),
        stream_id=stream_id,
        stream_version=own.stream_version + 1 if same_branch else 1,
        continues=None if same_branch else state.index,
        branch=branch,
        topic=type(event).TOPIC,
        schema_version=type(event).SCHEMA_VERSION,
        request_tag=None,
        content_tag=None,
        idempotency_tag=None,
    )
    return Draft(event, columns)


def _content_header(command: Remember, aspect: str | None) -> ContentHeader:
    numbers = {
        name: None if value is None else thousandths(value)
        for name, value in (
            ("importance", command.importance),
            ("confidence", command.confidence),
        )
    }
    return ContentHeader(
        content_length=len(command.content),
        **numbers,
        source_tier=command.source_tier,
        model=command.model,
        prompt_version=command.prompt_version,
        language=command.language,
        has_evidence=bool(command.evidence),
        aspect=aspect,
        supersedes=command.supersedes,
    )


def _body(command: Remember) -> RememberedBody:
    names = ("valid_from", "valid_until", "expires_at", "created_at")
    given = {name: getattr(command, name) for name in names}
    return RememberedBody(
        payload=payload_of(command),
        reason=command.reason,
        namespace=command.namespace,
        tags=command.tags,
        metadata=command.metadata,
        source=command.source,
        evidence=command.evidence,
        given_times={name: iso(time) for name, time in given.items() if time is not None},
    )


def _utc(time: datetime | None) -> datetime | None:
    return None if time is None else to_utc(time)
