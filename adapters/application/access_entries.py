"""Entries of the access log as an auditor sees them: with names in place of pseudonyms."""

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any
from uuid import UUID

from memoriale.adapters.application.presenting import as_json


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody in the log; ``id`` is the outside name, None when it was erased."""

    type: str
    id: str | None
    pseudonym: UUID


@dataclass(frozen=True, slots=True)
class GivenMemory:
    """
    A memory in an answer: its place from 1, and the index that its version begins with. That of
    a global one is an index of their log.
    """

    memory_id: UUID
    version: int
    rank: int
    is_global: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """
    One entry of an access log.

    Args:
        index: Its place in the access log.
        event: Its topic, such as ``access.recalled``.
        recorded_at: When it was recorded.
        at: When the answer was given, by the clock of the process; None for other entries.
        command: What was called.
        actor: Who did it; ``actor_kind`` and ``authentication`` say as what and how that is known.
        user, agent, resource, session, team, on_behalf_of: As whom.
        purpose: What for.
        branch: On which branch: ``main``, or the branch's id.
        call: Equal for the entries of one answer.
        memories: What was given, in the order of the answer.
        question: What was asked, when it was kept and content was asked for.
        details: Everything else that the entry says.
    """

    tenant: str
    index: int
    event: str
    recorded_at: datetime
    at: datetime | None
    command: str | None
    actor: Person
    actor_kind: str
    authentication: str
    user: Person | None
    agent: Person | None
    resource: Person | None
    session: Person | None
    team: Person | None
    on_behalf_of: Person | None
    purpose: str | None
    branch: str | None
    call: UUID
    memories: tuple[GivenMemory, ...]
    question: str | None
    details: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {f.name: as_json(getattr(self, f.name)) for f in fields(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """
    A memory that was given in a session.

    Args:
        access: Place of the entry in the access log.
        memory_id, version, rank: As in ``GivenMemory``.
        at: When it was given.
        command: By which call.
        actor: To whom.
        branch: On which branch.
        current: Whether that version is still the current one on that branch: neither corrected
            nor invalidated since.
        since: The last event of the memory on that branch since: its topic, index, time and
            reason code; None when there is none.
        content: What was told, when content was asked for; None when it was erased.
    """

    tenant: str
    access: int
    memory_id: UUID
    version: int
    rank: int
    at: datetime
    command: str
    actor: Person
    branch: str
    current: bool
    since: dict[str, Any] | None
    content: str | None

    def as_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {f.name: as_json(getattr(self, f.name)) for f in fields(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Which part of an access log: after an index, recorded in a time span, so many entries."""

    since: datetime | None = None
    until: datetime | None = None
    after: int = -1
    limit: int | None = None
