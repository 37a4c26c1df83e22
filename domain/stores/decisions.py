"""What an agent decided, why, and how it turned out."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict

from memoriale.domain.commands import Remember
from memoriale.domain.errors import InputError
from memoriale.domain.memory import MemoryState, Status
from memoriale.domain.payloads import Decision as DecisionPayload
from memoriale.domain.steps import Replace, Slice, Step
from memoriale.domain.stores.matching import Words, relevances

DECISION: Final = "decision"
SHOWN_DECISIONS: Final = 5
QUALITIES: Final = ("good", "bad", "neutral")


CommandOf = Callable[[DecisionPayload, MemoryState], Remember]
"""Makes a checked command from a payload and the state that it replaces."""


class Decision(BaseModel):
    """A decision of an agent. Confidence and importance are in 0..1; ``outcome`` comes later."""

    model_config = ConfigDict(frozen=True)

    id: UUID
    decision: str
    reasoning: str
    decision_type: str
    context: str | None = None
    alternatives: tuple[str, ...] = ()
    confidence: float | None = None
    importance: float | None = None
    outcome: str | None = None
    outcome_quality: Literal["good", "bad", "neutral"] | None = None
    agent_name: str
    session_id: str | None = None
    created_at: datetime


class NewDecision(BaseModel):
    """A decision to be logged; fields as of ``Decision``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    decision: str
    reasoning: str
    decision_type: str
    context: str | None = None
    alternatives: tuple[str, ...] = ()
    confidence: float | None = None
    importance: float | None = None
    outcome: str | None = None
    outcome_quality: Literal["good", "bad", "neutral"] | None = None


def decision_of(state: MemoryState, agent_name: str) -> Decision | None:
    """A decision as folded; None when its text was erased."""
    payload = state.payload
    if not isinstance(payload, DecisionPayload):
        return None
    return Decision(
        id=state.memory_id,
        decision=payload.content,
        agent_name=agent_name,
        confidence=None if state.confidence is None else state.confidence / 1000,
        importance=None if state.importance is None else state.importance / 1000,
        created_at=state.created_at,
        **payload.model_dump(exclude={"kind", "content"}),
    )


def of_session(seen: Slice | None, session_id: str | None, user: UUID | None) -> list[MemoryState]:
    """
    The current decisions, newest first.

    Args:
        seen: The agent's.
        session_id: Only those of this session; None for all.
        user: Leave out those that were made for another user than this one; None for none.
    """
    states = [] if seen is None else seen.current(DECISION)
    kept = [
        state
        for state in states
        if isinstance(state.payload, DecisionPayload)
        and (session_id is None or state.payload.session_id == session_id)
        and (user is None or state.columns.principal_user in (None, user))
    ]
    return kept[::-1]


def searched(states: Sequence[MemoryState], query: str, words: Words) -> list[MemoryState]:
    """Those that share a word with a question, in whatever was written of them; best first."""
    scores = relevances(query, [_all_words(state) for state in states], words)
    order = sorted(range(len(states)), key=lambda place: -scores[place])
    return [states[place] for place in order if scores[place] > 0]


def with_outcome(
    seen: Slice, decision_id: UUID, command_of: CommandOf, outcome: str, quality: str | None
) -> list[Step]:
    """
    The decision with its outcome.

    Raises:
        InputError: There is no such decision, or its text was erased.
    """
    state = seen.states.get(decision_id)
    if (
        state is None
        or state.status is not Status.CURRENT
        or not isinstance(state.payload, DecisionPayload)
    ):
        raise InputError(
            f"there is no decision {decision_id} of this agent.",
            code="unknown_memory",
            field="decision_id",
            value=str(decision_id),
        )
    changed = state.payload.model_copy(update={"outcome": outcome, "outcome_quality": quality})
    if changed == state.payload:
        return []
    return [Replace(memory_id=decision_id, command=command_of(changed, state))]


def _all_words(state: MemoryState) -> str:
    payload = state.payload
    assert isinstance(payload, DecisionPayload)
    told = (
        payload.content,
        payload.reasoning,
        payload.decision_type,
        payload.context,
        *payload.alternatives,
        payload.outcome,
        payload.outcome_quality,
    )
    return "\n".join(text for text in told if text)
