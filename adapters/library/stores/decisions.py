"""``DecisionLog``: what agents decided and why."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from memoriale.adapters.application.reading import AsOf
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.stores.base import Store
from memoriale.domain.commands import Remember
from memoriale.domain.errors import InputError
from memoriale.domain.events import ReasonCode
from memoriale.domain.fields import choice, parse_id
from memoriale.domain.keys import Subject
from memoriale.domain.memory import MemoryState
from memoriale.domain.payloads import Decision as DecisionPayload
from memoriale.domain.rendering import quoted
from memoriale.domain.steps import Make, Slice
from memoriale.domain.stores.context import Section, line_of
from memoriale.domain.stores.decisions import (
    DECISION,
    QUALITIES,
    SHOWN_DECISIONS,
    Decision,
    NewDecision,
    decision_of,
    of_session,
    searched,
    with_outcome,
)
from memoriale.domain.stores.ending import end_all
from memoriale.domain.text import check_query, shown
from memoriale.domain.tools import ToolDef, object_schema
from memoriale.domain.values import check_whole

_MOST: Final = 100_000
_FOUND: Final = 10
_ARGUMENTS_SHOWN: Final = 200


class DecisionLog(Store):
    """
    Decisions of agents, with their outcomes. One made in a session is told within that session,
    and one made for a user to no other user; without either, all of the agent are told.

    Taken from ``DecisionLog`` of reference system A; ``docs/parity.md`` says what is different.

    Args:
        storage: A memory handle; its agent, session and user are meant where none is given.
        max_context_decisions: Decisions in a prompt at most.
    """

    def __init__(self, storage: Memory, *, max_context_decisions: int = SHOWN_DECISIONS) -> None:
        super().__init__(storage)
        self.max_context_decisions = check_whole(
            "max_context_decisions", max_context_decisions, 1, _MOST
        )

    def log_decision(
        self,
        agent_name: str | None = None,
        decision: NewDecision | Mapping[str, Any] | None = None,
        *,
        session_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> Decision:
        """
        Records a decision.

        Args:
            agent_name: Whose; default: the handle's agent.
            decision: ``decision``, ``reasoning`` and ``decision_type``, and what else
                ``NewDecision`` has.
            session_id: Where it was made; default: the handle's session.
            idempotency_key: A repeated call with it changes nothing.
        """
        memory, owner = self._agent(agent_name, session_id)
        new = _parsed(decision)
        payload = DecisionPayload(
            kind=DECISION,
            content=new.decision,
            session_id=memory.principal.session,
            **new.model_dump(exclude={"decision", "confidence", "importance"}),
        )
        command = self._of_payload(memory, payload, new.importance, new.confidence)
        step = Make(command=command)
        decided = self._decide(
            memory,
            owner,
            (DECISION,),
            lambda seen: [step],
            "decision.log",
            new.model_dump(mode="json"),
            idempotency_key,
        )
        assert decided.recorded_at is not None
        return Decision(
            id=decided.made()[0],
            agent_name=owner.id,
            session_id=payload.session_id,
            created_at=decided.recorded_at,
            **new.model_dump(),
        )

    def record_outcome(
        self,
        agent_name: str | None = None,
        decision_id: UUID | str = "",
        outcome: str = "",
        quality: str | None = None,
    ) -> None:
        """
        Adds how a decision turned out; a later call replaces it, and history keeps both.

        Args:
            agent_name: Whose; default: the handle's agent.
            decision_id: Which.
            outcome: What came of it.
            quality: ``good``, ``bad`` or ``neutral``.

        Raises:
            InputError: There is no such decision.
        """
        memory, owner = self._agent(agent_name, None)
        found = parse_id("decision_id", decision_id)
        choice("quality", quality, QUALITIES)

        def command(payload: DecisionPayload, state: MemoryState) -> Remember:
            return self._of_payload(
                memory, payload, _unit(state.importance), _unit(state.confidence)
            )

        self._decide(
            memory,
            owner,
            (DECISION,),
            lambda seen: with_outcome(seen, found, command, outcome, quality),
            "decision.outcome",
            {"decision_id": str(found), "outcome": outcome, "quality": quality},
        )

    def get_decisions(
        self,
        agent_name: str | None = None,
        limit: int | None = None,
        session_id: str | None = None,
        *,
        as_of: AsOf = None,
    ) -> list[Decision]:
        """
        Decisions, newest first.

        Args:
            agent_name: Whose; default: the handle's agent.
            limit: How many at most, from 1; None for all.
            session_id: Only those of this session; default: the handle's session.
            as_of: As then: an index or a time.
        """
        if limit is not None:
            check_whole("limit", limit, 1, _MOST)
        found = self._found(agent_name, session_id, as_of)
        return self._handed(found, found.states[:limit], as_of)

    def search_decisions(
        self,
        agent_name: str | None = None,
        query: str = "",
        session_id: str | None = None,
        *,
        as_of: AsOf = None,
    ) -> list[Decision]:
        """
        Decisions that share a word with a question in their text, reasoning, type, context,
        alternatives or outcome; best first. Arguments as for ``get_decisions``.
        """
        from memoriale.projections.recall.words import words

        asked = check_query(query)
        found = self._found(agent_name, session_id, as_of)
        return self._handed(found, searched(found.states, asked, words), as_of)

    def clear(self, agent_name: str | None = None) -> int:
        """
        Ends all decisions of an agent as ``retracted``; only ``erase`` destroys.

        Returns:
            How many ended.
        """
        memory, owner = self._agent(agent_name, None)
        decided = self._decide(
            memory,
            owner,
            (DECISION,),
            lambda seen: end_all(seen, DECISION, ReasonCode.RETRACTED),
            "decision.clear",
            {},
        )
        return len(decided.ended())

    def get_context_string(
        self,
        agent_name: str | None = None,
        session_id: str | None = None,
        *,
        as_of: AsOf = None,
    ) -> str:
        """The newest decisions as lines for a prompt, newest first; empty when there are none."""
        section = self.context_section(agent_name, session_id, as_of=as_of)
        memory, _ = self._agent(agent_name, session_id)
        return self._shown(memory, "decision.context", section, as_of)

    def context_section(
        self,
        agent_name: str | None = None,
        session_id: str | None = None,
        *,
        as_of: AsOf = None,
    ) -> Section:
        """The same as a section of a larger context, which puts it on record."""
        found = self._found(agent_name, session_id, as_of)
        newest = found.states[: self.max_context_decisions]
        told = [(s, decision_of(s, found.owner.id)) for s in newest]
        lines = [line_of(s, _line(decision)) for s, decision in told if decision is not None]
        visible_to = "agent" if found.memory.principal.session is None else "session"
        return Section(name="decisions", visible_to=visible_to, lines=lines)

    def log_tool_call_as_decision(
        self,
        agent_name: str | None,
        tool_name: str,
        args: object,
        session_id: str | None = None,
    ) -> Decision:
        """
        Records the choice of a tool, as a decision of the type ``tool_selection``.

        Args:
            agent_name: Whose; None: the handle's agent.
            tool_name: Which tool.
            args: Its arguments; the first 200 characters of their JSON are kept.
            session_id: As for ``log_decision``.
        """
        told = json.dumps(args, ensure_ascii=False, default=str)[:_ARGUMENTS_SHOWN]
        new = NewDecision(
            decision=f"Called the tool {tool_name}",
            reasoning=f"arguments: {told}",
            decision_type="tool_selection",
        )
        return self.log_decision(agent_name, new, session_id=session_id)

    def get_tools(self) -> list[ToolDef]:
        """``log_decision``, ``record_outcome`` and ``search_decisions`` for the handle's agent."""
        text = {"type": "string"}
        unit = {"type": "number", "minimum": 0, "maximum": 1}
        return [
            ToolDef(
                name="log_decision",
                description="Records a decision that you made, and why. Answers its id.",
                parameters=object_schema(
                    {
                        "decision": text,
                        "reasoning": text,
                        "decision_type": text,
                        "alternatives": {"type": "array", "items": text},
                        "confidence": unit,
                    },
                    "decision",
                    "reasoning",
                    "decision_type",
                ),
                handler=lambda given: {"id": str(self.log_decision(decision=given).id)},
            ),
            ToolDef(
                name="record_outcome",
                description="Records how a decision turned out.",
                parameters=object_schema(
                    {
                        "decision_id": text,
                        "outcome": text,
                        "quality": {"type": "string", "enum": [*QUALITIES]},
                    },
                    "decision_id",
                    "outcome",
                ),
                handler=self._outcome_told,
            ),
            ToolDef(
                name="search_decisions",
                description="Finds earlier decisions by what was decided, why, and the outcome.",
                parameters=object_schema({"query": text, "as_of": text}, "query"),
                handler=lambda given: [
                    decision.model_dump(mode="json", exclude_none=True)
                    for decision in self.search_decisions(
                        query=given["query"], as_of=given.get("as_of")
                    )[:_FOUND]
                ],
            ),
        ]

    def _agent(self, agent_name: str | None, session_id: str | None) -> tuple[Memory, Subject]:
        memory = self._as(agent=agent_name, session=session_id)
        return memory, self._owner(memory, "agent")

    def _found(self, agent_name: str | None, session_id: str | None, as_of: AsOf) -> "_Found":
        memory, owner = self._agent(agent_name, session_id)
        seen: Slice | None = self._read(memory, owner, (DECISION,), "decision.list", as_of)
        known = memory.services.log.identities.find(memory.principal.identity("user"))
        user = None if known is None else known.pseudonym
        states = of_session(seen, memory.principal.session, user)
        return _Found(memory, owner, seen, states)

    def _handed(
        self, found: "_Found", states: Sequence[MemoryState], as_of: AsOf
    ) -> list[Decision]:
        self._told(found.memory, "decision.list", states, found.seen, as_of)
        decisions = (decision_of(state, found.owner.id) for state in states)
        return [decision for decision in decisions if decision is not None]

    def _of_payload(
        self,
        memory: Memory,
        payload: DecisionPayload,
        importance: float | None,
        confidence: float | None,
    ) -> Remember:
        return self._command(
            memory,
            payload.content,
            kind=DECISION,
            owner="agent",
            importance=importance,
            confidence=confidence,
            details=payload.model_dump(mode="json", exclude={"kind", "content"}, exclude_none=True),
        )

    def _outcome_told(self, given: Mapping[str, Any]) -> str:
        self.record_outcome(None, given["decision_id"], given["outcome"], given.get("quality"))
        return "The outcome is recorded."


class _Found(NamedTuple):
    memory: Memory
    owner: Subject
    seen: Slice | None
    states: list[MemoryState]


def _line(decision: Decision) -> str:
    told = f"- [{quoted(decision.decision_type)}] {quoted(decision.decision)}"
    told += f" — because {quoted(decision.reasoning)}"
    if decision.outcome is None:
        return f"{told} — outcome not known yet"
    quality = f" ({decision.outcome_quality})" if decision.outcome_quality else ""
    return f"{told} — outcome{quality}: {quoted(decision.outcome)}"


def _parsed(decision: NewDecision | Mapping[str, Any] | None) -> NewDecision:
    if isinstance(decision, NewDecision):
        return decision
    try:
        return NewDecision.model_validate(dict(decision or {}))
    except ValueError as error:
        told = shown(" ".join(str(error).split("\n")[1:3]).strip())
        raise InputError(
            f"decision cannot be recorded: {told}.",
            code="bad_value",
            field="decision",
            value=type(decision).__name__,
            allowed=list(NewDecision.model_fields),
        ) from None


def _unit(value: int | None) -> float | None:
    return None if value is None else value / 1000
