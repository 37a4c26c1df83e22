"""What agents learn by working: decisions, learnings, corrections and procedures."""

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from memoriale.domain.payloads.base import Payload, register_payload


class Decision(Payload):
    """What an agent decided (``content``) and why; the outcome is added when it is known."""

    reasoning: str
    decision_type: str
    context: str | None = None
    alternatives: tuple[str, ...] = ()
    outcome: str | None = None
    outcome_quality: str | None = None
    """``good``, ``bad`` or ``neutral``."""
    session_id: str | None = None
    """The conversation in which it was made."""


class Learning(Payload):
    """An insight; ``content`` is the title and the text as recall searches them."""

    title: str
    text: str
    context: str | None = None
    """When it applies."""
    scope: str
    """Who may see it: ``user``, ``agent``, ``tenant`` or ``global``."""


class Correction(Payload):
    """A person's correction of an agent's output; ``content`` says it in a sentence."""

    original_value: str
    corrected_value: str
    field: str | None = None
    explanation: str | None = None
    """Why, in the words of who corrected."""
    original_input: str | None = None
    entity_key: str | None = None
    scope: str


class ProcedureStep(BaseModel):
    """One call of a tool in a procedure."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tool_name: str
    args_snapshot: dict[str, JsonValue] = Field(default_factory=dict)
    result_summary: str | None = None


class Procedure(Payload):
    """Calls of tools that led to success; ``content`` is the trigger and the description."""

    trigger: str
    description: str
    steps: tuple[ProcedureStep, ...] = ()
    success_count: int
    scope: str


register_payload("decision", Decision)
register_payload("learning", Learning)
register_payload("correction", Correction)
register_payload("procedure", Procedure)
