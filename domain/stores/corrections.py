"""Corrections: what a person put right in an agent's output, field by field."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from pydantic import BaseModel, ConfigDict

from memoriale.domain.keys import Subject
from memoriale.domain.kinds import KINDS
from memoriale.domain.memory import MemoryState
from memoriale.domain.payloads import Correction as CorrectionPayload
from memoriale.domain.stores.scopes import LearningScope

CORRECTION: Final = "correction"
RETIRE_JOB: Final = KINDS.require(CORRECTION).follow_up or ""
"""The job that retires what a correction contradicts."""


class Correction(BaseModel):
    """
    A person's correction of what an agent produced. ``scope`` says who profits: by default
    every user of the agent. Both values may be empty texts: an output can be missing.
    """

    model_config = ConfigDict(frozen=True)

    id: UUID
    agent_name: str | None = None
    run_id: str | None = None
    session_id: str | None = None
    original_input: str | None = None
    field: str | None = None
    original_value: str
    corrected_value: str
    reason: str | None = None
    entity_key: str | None = None
    tags: tuple[str, ...] = ()
    scope: LearningScope
    user_id: str | None = None
    tenant_id: str | None = None
    created_at: datetime


class NewCorrection(BaseModel):
    """A correction to be recorded; fields as of ``Correction``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    original_value: str
    corrected_value: str
    agent_name: str | None = None
    run_id: str | None = None
    session_id: str | None = None
    original_input: str | None = None
    field: str | None = None
    reason: str | None = None
    entity_key: str | None = None
    tags: tuple[str, ...] = ()
    scope: LearningScope = "agent"
    user_id: str | None = None
    tenant_id: str | None = None


class CorrectionStats(BaseModel):
    """How many corrections there are: in all, by entity, and by field."""

    model_config = ConfigDict(frozen=True)

    total: int
    by_entity_key: dict[str, int]
    by_field: dict[str, int]


class EvalCase(BaseModel):
    """A case for an evaluation: given ``input`` the agent should produce ``expected``."""

    model_config = ConfigDict(frozen=True)

    input: str
    expected: str
    field: str | None
    correction_id: UUID


def sentence_of(new: NewCorrection) -> str:
    """A correction in words, as recall searches it."""
    about = f" for {new.entity_key}" if new.entity_key else ""
    what = f"{new.field}{about}: " if new.field else about.strip()
    told = f"{what}not {_quoted(new.original_value)} but {_quoted(new.corrected_value)}"
    return f"{told}. {new.reason}" if new.reason else told


def entity_tag(entity_key: str | None) -> str | None:
    """The tag by which the corrections of an entity are found."""
    return None if entity_key is None else f"entity:{entity_key}"


def collision_text(payload: CorrectionPayload) -> str:
    """What learnings are compared with to find those that a correction contradicts."""
    parts = (payload.field, payload.original_value, payload.corrected_value, payload.explanation)
    return " ".join(part for part in parts if part)


def correction_of(
    state: MemoryState, names: Mapping[UUID, Subject], tenant: str
) -> Correction | None:
    """A correction as folded; None when its text was erased."""
    payload = state.payload
    if not isinstance(payload, CorrectionPayload):
        return None
    columns = state.columns

    def named(pseudonym: UUID | None) -> str | None:
        return names[pseudonym].id if pseudonym is not None and pseudonym in names else None

    return Correction(
        id=state.memory_id,
        agent_name=named(columns.principal_agent),
        run_id=named(columns.source_run),
        session_id=named(columns.principal_session),
        original_input=payload.original_input,
        field=payload.field,
        original_value=payload.original_value,
        corrected_value=payload.corrected_value,
        reason=payload.explanation,
        entity_key=payload.entity_key,
        tags=tuple(tag for tag in state.tags if tag != entity_tag(payload.entity_key)),
        scope=payload.scope,  # type: ignore[arg-type]
        user_id=named(columns.principal_user) if payload.scope == "user" else None,
        tenant_id=tenant if payload.scope == "tenant" else None,
        created_at=state.created_at,
    )


def statistics(corrections: Sequence[Correction]) -> CorrectionStats:
    """Counts of corrections; one without entity or field counts in the total alone."""
    return CorrectionStats(
        total=len(corrections),
        by_entity_key=dict(Counter(c.entity_key for c in corrections if c.entity_key)),
        by_field=dict(Counter(c.field for c in corrections if c.field)),
    )


def eval_cases(corrections: Sequence[Correction]) -> list[EvalCase]:
    """Cases from the corrections whose input is known."""
    return [
        EvalCase(
            input=c.original_input,
            expected=c.corrected_value,
            field=c.field,
            correction_id=c.id,
        )
        for c in corrections
        if c.original_input is not None
    ]


def _quoted(value: str) -> str:
    return f'"{value}"' if value else "nothing"
