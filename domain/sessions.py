"""Sessions: opened for somebody, with a state that changes. Their messages are memories."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, ClassVar, Final
from uuid import UUID

from pydantic import Field, JsonValue

from memoriale.domain.errors import InputError, RefusedError
from memoriale.domain.events import Body, Event, Header, RecordedEvent
from memoriale.domain.text import shown
from memoriale.domain.values import check_metadata

SESSION_KIND: Final = "session"


class SessionOpened(Event):
    """A conversation began; the columns say for which user. Its owner is the session."""

    TOPIC: ClassVar[str] = "session.opened"
    header: Header
    body: Body | None


class SessionStateBody(Body):
    """The whole state from here on, so that a read needs the newest event alone."""

    state: dict[str, JsonValue] = Field(default_factory=dict)
    changed: tuple[str, ...] = ()
    """The keys that this update gave another value."""


class SessionStateUpdated(Event):
    """The state of a session changed."""

    TOPIC: ClassVar[str] = "session.state_updated"
    header: Header
    body: SessionStateBody | None


SESSION_TYPES: Final[tuple[type[Event], ...]] = (SessionOpened, SessionStateUpdated)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionState:
    """
    A session as folded.

    Args:
        owner: The session's pseudonym.
        user: Pseudonym of the user for whom it was opened; None for an anonymous one.
        opened_at: When it was opened.
        changed_at: When its last event was recorded.
        index: Index of that event.
        state: Its state.
    """

    owner: UUID
    user: UUID | None
    opened_at: datetime
    changed_at: datetime
    index: int
    state: dict[str, Any] = field(default_factory=dict)


def project_session(
    session: SessionState | None, events: Iterable[RecordedEvent]
) -> SessionState | None:
    """
    Folds events of one session in index order: the first one and the newest are enough, as each
    holds the whole state. One whose key was destroyed makes the session unknown.
    """
    for recorded in events:
        session = _evolve(session, recorded)
    return session


def merged(state: Mapping[str, Any], patch: object) -> dict[str, Any]:
    """
    A state after a patch: keys of the patch replace those of the state, at the top level alone.

    Raises:
        InputError: The patch is no JSON object, or the state would be too large.
    """
    checked = check_metadata("patch", patch)
    return check_metadata("patch", {**state, **checked})


def changed_keys(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    """The keys that have another value, or none before."""
    missing = object()
    return tuple(key for key, value in after.items() if before.get(key, missing) != value)


def unknown_session(session_id: str) -> InputError:
    """The same error for a session that does not exist and for one that is somebody else's."""
    return InputError(
        f"there is no session {shown(session_id)!r} that this caller may use; open it first.",
        code="unknown_session",
        field="session_id",
        value=shown(session_id),
    )


def unusable_session(session_id: str) -> RefusedError:
    """Somebody else's session cannot be opened again; nothing is told about it."""
    return RefusedError(
        f"session {shown(session_id)!r} cannot be opened by this caller; choose another id.",
        code="unusable_session",
        field="session_id",
        value=shown(session_id),
    )


def _evolve(session: SessionState | None, recorded: RecordedEvent) -> SessionState | None:
    event, columns, at = recorded.event, recorded.columns, recorded.recorded.recorded_at
    if not isinstance(event, SESSION_TYPES):
        return session
    if event.body is None:
        return None
    if isinstance(event, SessionOpened):
        return SessionState(
            owner=columns.owner,
            user=columns.principal_user,
            opened_at=at,
            changed_at=at,
            index=recorded.index,
        )
    if session is None:
        return None
    assert isinstance(event.body, SessionStateBody)
    state = dict(event.body.state)
    return replace(session, state=state, changed_at=at, index=recorded.index)
