"""Learnings: insights with provenance, and when a correction retires one."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict

from memoriale.domain.chat import ChatMessage
from memoriale.domain.events import ReasonCode, SourceTier
from memoriale.domain.keys import Subject
from memoriale.domain.memory import MemoryState, Status
from memoriale.domain.payloads import Learning as LearningPayload
from memoriale.domain.steps import End, Slice, Step
from memoriale.domain.stores.scopes import LearningScope
from memoriale.domain.text import canonical_text_v1

LEARNING: Final = "learning"
CONTRADICTION: Final = 0.85
"""Least similarity, as in the reference, from which a learning may contradict a correction."""
LEAST_EVIDENCE_WORDS: Final = 2

LearningSource = Literal["human-correction", "manual", "llm-extracted"]
TIERS: Final = {
    "human-correction": SourceTier.HUMAN_CORRECTION,
    "manual": SourceTier.MANUAL,
    "llm-extracted": SourceTier.LLM_EXTRACTED,
}


class Learning(BaseModel):
    """
    An insight. ``source`` says how far to trust it: what a model extracted is a hint until a
    person confirms it. ``invalidated_at`` is None while it is current. Importance is in 0..1.
    """

    model_config = ConfigDict(frozen=True)

    id: UUID
    title: str
    content: str
    context: str = ""
    tags: tuple[str, ...] = ()
    namespace: str = ""
    importance: float | None = None
    scope: LearningScope
    source: LearningSource | None
    source_run_id: str | None = None
    evidence: str | None = None
    invalidated_at: datetime | None = None
    invalidation_reason: ReasonCode | None = None
    superseded_by: UUID | None = None
    user_id: str | None = None
    agent_name: str | None = None
    tenant_id: str | None = None
    created_at: datetime


class NewLearning(BaseModel):
    """A learning to be saved; fields as of ``Learning``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str
    content: str
    context: str = ""
    tags: tuple[str, ...] = ()
    namespace: str = ""
    importance: float | None = None
    scope: LearningScope = "user"
    source: LearningSource = "manual"
    source_run_id: str | None = None
    evidence: str | None = None
    user_id: str | None = None
    agent_name: str | None = None
    tenant_id: str | None = None


def learning_of(state: MemoryState, names: Mapping[UUID, Subject], tenant: str) -> Learning | None:
    """A learning as folded; None when its text was erased."""
    payload = state.payload
    if not isinstance(payload, LearningPayload):
        return None
    owner, ended = names.get(state.columns.owner), state.status is not Status.CURRENT
    tier = state.source_tier
    run = state.columns.source_run
    return Learning(
        id=state.memory_id,
        title=payload.title,
        content=payload.text,
        context=payload.context or "",
        tags=state.tags,
        namespace=state.namespace or "",
        importance=None if state.importance is None else state.importance / 1000,
        scope=payload.scope,  # type: ignore[arg-type]
        source=tier.value if tier in TIERS.values() else None,  # type: ignore[arg-type,union-attr]
        source_run_id=names[run].id if run is not None and run in names else None,
        evidence=state.evidence[0] if state.evidence else None,
        invalidated_at=state.changed_at if ended else None,
        invalidation_reason=state.reason_code if ended else None,
        superseded_by=state.replaced_by,
        user_id=owner.id if owner is not None and owner.type == "user" else None,
        agent_name=owner.id if owner is not None and owner.type == "agent" else None,
        tenant_id=tenant if payload.scope == "tenant" else None,
        created_at=state.created_at,
    )


def contradicted(
    states: Iterable[MemoryState],
    by: UUID,
    *,
    original: str | None = None,
    corrected: str | None = None,
) -> list[Step]:
    """
    The end of learnings that a correction contradicts.

    Only what a model extracted ends: what a person wrote never does by itself. One that says
    the corrected value and not the original one agrees with the correction, and stays.

    Args:
        states: Learnings that are similar enough.
        by: The correction or learning that stands in their place.
        original: What was wrong.
        corrected: What it should have been.
    """
    return [
        End(memory_id=state.memory_id, because=ReasonCode.CONTRADICTED, replaced_by=by)
        for state in states
        if state.kind == LEARNING
        and state.status is Status.CURRENT
        and state.source_tier is SourceTier.LLM_EXTRACTED
        and not _agrees(state, original, corrected)
    ]


def outdated(seen: Slice, max_age_days: float, sources: Sequence[str]) -> list[Step]:
    """
    The end, as ``pruned``, of learnings older than an age, of the given tiers; none under a hold.

    Args:
        seen: What the owner has.
        max_age_days: The age in days of 24 hours, from when it was made.
        sources: Tiers that may end.
    """
    if seen.held():
        return []
    since = seen.now - timedelta(days=max_age_days)
    tiers = {TIERS[source] for source in sources}
    return [
        End(memory_id=state.memory_id, because=ReasonCode.PRUNED)
        for state in seen.current(LEARNING)
        if state.created_at < since and state.source_tier in tiers
    ]


def grounded(evidence: str, messages: Sequence[ChatMessage]) -> bool:
    """
    Whether a quotation stands in what people and tools said: word for word but for case and
    white space, of at least two words, and not only in what the assistant said itself.
    """
    quotation = canonical_text_v1(evidence)
    if len(quotation.split(" ")) < LEAST_EVIDENCE_WORDS:
        return False
    said = (m.text() for m in messages if m.role in ("user", "tool"))
    return any(quotation in canonical_text_v1(text) for text in said)


def _agrees(state: MemoryState, original: str | None, corrected: str | None) -> bool:
    if not original or not corrected or state.payload is None:
        return False
    text = canonical_text_v1(state.payload.content)
    return canonical_text_v1(corrected) in text and canonical_text_v1(original) not in text
