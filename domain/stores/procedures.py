"""Procedures: calls of tools that led to success, saved by their trigger and suggested by it."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, JsonValue

from memoriale.domain.chat import ChatMessage, ToolCall
from memoriale.domain.commands import Remember
from memoriale.domain.events import ReasonCode, SourceTier
from memoriale.domain.keys import Subject
from memoriale.domain.memory import MemoryState
from memoriale.domain.payloads import Procedure as ProcedurePayload
from memoriale.domain.payloads import ProcedureStep
from memoriale.domain.steps import End, Make, Replace, Slice, Step
from memoriale.domain.stores.matching import Words, relevances
from memoriale.domain.stores.scopes import ProcedureScope
from memoriale.domain.text import canonical_text_v1
from memoriale.domain.values import parse_json_strictly

PROCEDURE: Final = "procedure"
MAX_PROCEDURES: Final = 50
LEAST_CALLS: Final = 2
"""Of tools, that make a workflow."""
TRIGGER_WEIGHT: Final = 3
LEAST_MATCH: Final = 3
"""As in the reference: a shared word counts 3 in the trigger, 1 in the description."""
_FAILED: Final = re.compile(
    r"(error|exception|failed|failure|traceback|timed? ?out)\b|\w*(error|exception):", re.I
)


class ProcedureMemoryConfig(BaseModel):
    """How many procedures are kept for each user, agent and tenant."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_procedures: int = MAX_PROCEDURES


class ProceduresConfig(ProcedureMemoryConfig):
    """The same, as a part of ``UnifiedMemoryConfig``."""


class Procedure(BaseModel):
    """
    Calls of tools that led to success. ``trigger`` says when to repeat them, ``success_count``
    how often they were saved, and ``last_used`` when last.
    """

    model_config = ConfigDict(frozen=True)

    id: UUID
    trigger: str
    description: str
    steps: tuple[ProcedureStep, ...] = ()
    success_count: int
    last_used: datetime
    created_at: datetime
    scope: ProcedureScope
    source: Literal["manual", "llm-extracted"]
    user_id: str | None = None
    agent_name: str | None = None
    tenant_id: str | None = None


class NewProcedure(BaseModel):
    """A procedure to be saved; fields as of ``Procedure``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    trigger: str
    description: str
    steps: tuple[ProcedureStep, ...] = ()
    scope: ProcedureScope = "user"
    source: Literal["manual", "llm-extracted"] = "manual"
    user_id: str | None = None
    agent_name: str | None = None
    tenant_id: str | None = None


def procedure_of(
    state: MemoryState, names: Mapping[UUID, Subject], tenant: str
) -> Procedure | None:
    """A procedure as folded; None when its text was erased."""
    payload = state.payload
    if not isinstance(payload, ProcedurePayload):
        return None
    owner = names.get(state.columns.owner)
    return Procedure(
        id=state.memory_id,
        last_used=state.changed_at,
        created_at=state.created_at,
        source="llm-extracted" if state.source_tier is SourceTier.LLM_EXTRACTED else "manual",
        user_id=owner.id if owner is not None and owner.type == "user" else None,
        agent_name=owner.id if owner is not None and owner.type == "agent" else None,
        tenant_id=tenant if payload.scope == "tenant" else None,
        **payload.model_dump(exclude={"kind", "content"}),
    )


CommandOf = Callable[[dict[str, Any], SourceTier], Remember]
"""A checked command from the fields of the payload and a tier."""


@dataclass(frozen=True, slots=True)
class SaveProcedure:
    """
    The decision to save a procedure.

    1. One of the same trigger, in canonical form, was successful once more: it gets the new
       description and steps. What a model extracted leaves those that a person wrote.
    2. Beyond ``most`` the least recently used ones end as ``pruned``; none under a legal hold.

    Args:
        new: What to save.
        command_of: Makes the command.
        most: Procedures of the owner at most.
    """

    new: NewProcedure
    command_of: CommandOf
    most: int = MAX_PROCEDURES

    def __call__(self, seen: Slice) -> list[Step]:
        """The steps; see ``Decision``."""
        known = [s for s in seen.current(PROCEDURE) if isinstance(s.payload, ProcedurePayload)]
        trigger = canonical_text_v1(self.new.trigger)
        same = next((s for s in known if canonical_text_v1(payload(s).trigger) == trigger), None)
        if same is not None:
            return [Replace(memory_id=same.memory_id, command=self._again(same))]
        tier = SourceTier(self.new.source)
        made = Make(command=self.command_of(self._fields(1), tier))
        return [made, *self._pruned(seen, known)]

    def _again(self, state: MemoryState) -> Remember:
        before = payload(state)
        fields = self._fields(before.success_count + 1)
        tier = state.source_tier or SourceTier(self.new.source)
        people = tier is not SourceTier.LLM_EXTRACTED
        if people and self.new.source == "llm-extracted":
            kept = before.model_dump(mode="json", include={"trigger", "description", "steps"})
            fields = {**fields, **kept}
        return self.command_of(fields, tier)

    def _fields(self, success_count: int) -> dict[str, Any]:
        given = self.new.model_dump(
            mode="json", include={"trigger", "description", "steps", "scope"}
        )
        return {**given, "success_count": success_count}

    def _pruned(self, seen: Slice, known: Sequence[MemoryState]) -> list[Step]:
        too_many = len(known) + 1 - self.most
        if too_many <= 0 or seen.held():
            return []
        oldest = sorted(known, key=lambda state: state.index)[:too_many]
        return [End(memory_id=s.memory_id, because=ReasonCode.PRUNED) for s in oldest]


def payload(state: MemoryState) -> ProcedurePayload:
    """What a state of kind procedure holds."""
    assert isinstance(state.payload, ProcedurePayload)
    return state.payload


def by_success(states: Sequence[MemoryState]) -> list[MemoryState]:
    """Those that were successful most often first, then those used last."""
    return sorted(states, key=lambda s: (-payload(s).success_count, -s.index))


def suggested(states: Sequence[MemoryState], task: str, words: Words) -> MemoryState | None:
    """
    The procedure that fits a task best; None when none does.

    It must share a word with the trigger, or three with the description, fillers aside, or be
    triggered by the very text. How often it was successful decides between equals alone.

    Args:
        states: Procedures that the caller may see.
        task: What is to be done.
        words: Splits texts.
    """
    asked, text = set(words(task)), canonical_text_v1(task)
    fitting = [state for state in by_success(states) if _fits(payload(state), asked, text, words)]
    if not fitting:
        return None
    triggers = relevances(task, [payload(state).trigger for state in fitting], words)
    descriptions = relevances(task, [payload(state).description for state in fitting], words)
    scores = [
        (canonical_text_v1(payload(state).trigger) == text, TRIGGER_WEIGHT * trigger + description)
        for state, trigger, description in zip(fitting, triggers, descriptions, strict=True)
    ]
    return fitting[max(range(len(fitting)), key=lambda place: (scores[place], -place))]


def _fits(of: ProcedurePayload, asked: set[str], text: str, words: Words) -> bool:
    if text and canonical_text_v1(of.trigger) == text:
        return True
    in_trigger = len(asked & set(words(of.trigger)))
    in_description = len(asked & set(words(of.description)))
    return TRIGGER_WEIGHT * in_trigger + in_description >= LEAST_MATCH


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool that succeeded, with what the tool answered."""

    name: str
    arguments: JsonValue
    result: str


def succeeded(messages: Sequence[ChatMessage]) -> dict[int, Call]:
    """
    The calls of tools in a conversation that were answered with something else than an error, in
    their order, counted from 1.
    """
    asked: dict[str, ToolCall] = {}
    found: list[Call] = []
    for message in messages:
        asked |= {call.id: call for call in message.tool_calls}
        call = asked.pop(message.tool_call_id or "", None) if message.role == "tool" else None
        if call is not None and not is_error(message.text()):
            found.append(Call(call.name, call.arguments, message.text()))
    return dict(enumerate(found, 1))


def is_error(result: str) -> bool:
    """
    Whether a tool's answer says that it failed: it begins with a word for that, or is a JSON
    object that has an ``error``, or whose ``is_error``, ``success``, ``ok`` or ``status`` says so.
    """
    text = result.strip()
    try:
        told = parse_json_strictly(text) if text.startswith("{") else None
    except (RecursionError, ValueError):
        told = None
    if not isinstance(told, dict):
        return _FAILED.match(text) is not None
    status = str(told.get("status", "")).lower()
    return bool(
        told.get("error")
        or told.get("is_error")
        or told.get("isError")
        or told.get("success") is False
        or told.get("ok") is False
        or status in ("error", "failed", "failure")
    )


def steps_of(
    calls: Mapping[int, Call], told: Sequence[tuple[int, str | None]]
) -> list[ProcedureStep] | None:
    """
    The steps of a workflow; None unless it has two calls or more, each of which succeeded.

    Args:
        calls: Those that succeeded, by number.
        told: Numbers of the workflow's calls, and what came of each in words.
    """
    if len({number for number, _ in told}) < LEAST_CALLS or not all(n in calls for n, _ in told):
        return None
    return [
        ProcedureStep(
            tool_name=calls[number].name,
            args_snapshot=_arguments(calls[number].arguments),
            result_summary=summary,
        )
        for number, summary in told
    ]


def _arguments(given: JsonValue) -> dict[str, JsonValue]:
    if isinstance(given, dict):
        return given
    return {} if given is None else {"value": given}
