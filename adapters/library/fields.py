"""The optional arguments of writes, typed for editors and checkers."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict
from uuid import UUID


class ChangeFields(TypedDict, total=False):
    """What every write may carry."""

    reason: str | None
    actor: str | None
    idempotency_key: str | None
    correlation_id: UUID | str | None
    causation_id: UUID | str | None


class RememberFields(ChangeFields, total=False):
    """Optional arguments of ``Memory.remember``; see there."""

    kind: str
    owner: str | None
    subject: str | None
    supersedes: Sequence[UUID | str]
    importance: float | None
    confidence: float | None
    tags: Sequence[str]
    namespace: str | None
    metadata: Mapping[str, Any] | None
    visibility: str | None
    about: Sequence[str]
    valid_from: datetime | str | None
    valid_until: datetime | str | None
    expires_at: datetime | str | None
    created_at: datetime | str | None
    source: str | None
    source_tier: str | None
    source_run: str | None
    evidence: Sequence[str]
    retention_class: str | None
    language: str | None
    model: str | None
    prompt_version: str | None
    speaker: str | None
    role: str | None
    caption: str | None
    details: Mapping[str, Any] | None
    receipt: str | None


class AmendFields(ChangeFields, total=False):
    """Optional arguments of ``Memory.amend``; None clears a field."""

    importance: float | None
    tags: Sequence[str]
    metadata: Mapping[str, Any] | None
    valid_from: datetime | str | None
    valid_until: datetime | str | None
    expires_at: datetime | str | None


class InvalidateFields(ChangeFields, total=False):
    """Optional arguments of ``Memory.invalidate``."""

    because: str | None
