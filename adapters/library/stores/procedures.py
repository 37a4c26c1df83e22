"""``ProcedureMemory``: workflows of tools that worked, suggested for what they are about."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from memoriale.adapters.application.reading import AsOf
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.stores.extracting import Messages, extract_now
from memoriale.adapters.library.stores.parsing import parsed
from memoriale.adapters.library.stores.scoped import ScopedStore
from memoriale.domain.chat import ModelProvider
from memoriale.domain.commands import Remember
from memoriale.domain.events import ReasonCode, SourceTier
from memoriale.domain.memory import MemoryState, Status
from memoriale.domain.rendering import bullet
from memoriale.domain.stores.context import Section, line_of
from memoriale.domain.stores.ending import end_all
from memoriale.domain.stores.procedures import (
    MAX_PROCEDURES,
    PROCEDURE,
    NewProcedure,
    Procedure,
    SaveProcedure,
    by_success,
    procedure_of,
    suggested,
)
from memoriale.domain.stores.scopes import (
    GLOBAL_OWNER,
    SHARED_SCOPES,
    is_global,
    refuse_extracted,
    scopes_of,
)
from memoriale.domain.text import MAX_QUERY_CHARACTERS, check_text
from memoriale.domain.tools import ToolDef
from memoriale.domain.values import check_whole

_MOST: Final = 100_000
_WHO: Final = {"user": "user_id", "agent": "agent_name", "tenant": "tenant_id"}


class ProcedureMemory(ScopedStore):
    """
    Procedures of users, agents, the tenant and all tenants.

    Taken from ``ProcedureMemory`` of reference system A; ``docs/parity.md`` says what is
    different.

    Args:
        storage: A memory handle; its user and agent are meant where none is given.
        max_procedures: How many of each user, agent and tenant are kept; beyond it those used
            longest ago end as ``pruned``.
    """

    scopes = SHARED_SCOPES

    def __init__(self, storage: Memory, *, max_procedures: int = MAX_PROCEDURES) -> None:
        super().__init__(storage)
        self.max_procedures = check_whole("max_procedures", max_procedures, 1, _MOST)

    def get_procedures(
        self,
        user_id: str | None = None,
        agent_name: str | None = None,
        tenant_id: str | None = None,
        *,
        as_of: AsOf = None,
    ) -> list[Procedure]:
        """
        The current procedures of a user, an agent, the tenant and all tenants together, those
        that were successful most often first.

        Args:
            user_id, agent_name, tenant_id: The caller; default: the handle's.
            as_of: As then: an index or a time.
        """
        memory = self._caller(user_id, agent_name, tenant_id)
        states = by_success(self._seen(memory, as_of))
        self._on_record(memory, "procedure.list", states, as_of)
        return self._presented(memory, states, procedure_of)

    def get_procedure(
        self, scope: str, owner: str | None = None, id: UUID | str = ""
    ) -> Procedure | None:
        """
        A current procedure by id; None when there is none at that scope for that owner.

        Args:
            scope: ``user``, ``agent``, ``tenant`` or ``global``.
            owner: Which user, agent or tenant; default: the handle's.
            id: Which.
        """
        memory = self._owning(scope, owner)
        of = self._owner_of_scope(memory, scope)
        state = self._one(memory, "id", id, PROCEDURE)
        if state is None or state.status is not Status.CURRENT or self._owned(memory, state) != of:
            return None
        return next(iter(self._presented(memory, [state], procedure_of)), None)

    def save_procedure(
        self,
        procedure: NewProcedure | Mapping[str, Any],
        *,
        model: str | None = None,
        prompt_version: str | None = None,
        idempotency_key: str | None = None,
    ) -> Procedure:
        """
        Saves a procedure that led to success. One of the same scope and trigger gets the new
        description and steps, and counts one more success.

        Args:
            procedure: ``trigger``, ``description`` and ``steps``, and what else ``NewProcedure``
                has. ``scope``: ``user`` (default), ``agent`` (within the tenant), ``tenant``, or
                ``global``: every tenant (right ``admin``).
            model, prompt_version: What extracted it.
            idempotency_key: A repeated call with it changes nothing.

        Raises:
            InputError: A scope without its owner, or a wrong field; nothing was stored.
        """
        new = parsed("procedure", NewProcedure, procedure)
        refuse_extracted(new.scope, new.source)
        check_text("procedure.trigger", new.trigger)
        check_text("procedure.description", new.description)
        memory = self._caller(new.user_id, new.agent_name, new.tenant_id)

        def command(fields: dict[str, Any], tier: SourceTier) -> Remember:
            return self._command_of(memory, fields, tier, model, prompt_version)

        decided = self._decide(
            memory,
            self._owner_of_scope(memory, new.scope),
            (PROCEDURE,),
            SaveProcedure(new, command, self.max_procedures),
            "procedure.save",
            new.model_dump(mode="json"),
            idempotency_key,
        )
        states = self._states(memory, decided.made())
        return self._presented(memory, [*states.values()], procedure_of)[0]

    def suggest_procedure(
        self,
        input: str,
        user_id: str | None = None,
        agent_name: str | None = None,
        tenant_id: str | None = None,
        *,
        as_of: AsOf = None,
    ) -> Procedure | None:
        """
        The procedure that fits an input best; None when none is about it. Popularity decides
        between equals alone, and suggesting changes nothing.

        Args:
            input: What is to be done.
            user_id, agent_name, tenant_id: The caller; default: the handle's.
            as_of: As then: an index or a time.
        """
        memory = self._caller(user_id, agent_name, tenant_id)
        state = self._suggested(memory, input, as_of)
        found = [] if state is None else [state]
        self._on_record(memory, "procedure.suggest", found, as_of)
        return next(iter(self._presented(memory, found, procedure_of)), None)

    def get_context_string(
        self,
        current_input: str | None = None,
        user_id: str | None = None,
        agent_name: str | None = None,
        tenant_id: str | None = None,
        *,
        as_of: AsOf = None,
    ) -> str:
        """
        The procedure that fits an input as a line for a prompt: its tools and what came of each,
        never the arguments, which may be somebody's data. Empty when none fits.
        """
        section = self.context_section(current_input, user_id, agent_name, tenant_id, as_of=as_of)
        memory = self._caller(user_id, agent_name, tenant_id)
        return self._shown(memory, "procedure.context", section, as_of)

    def context_section(
        self,
        current_input: str | None = None,
        user_id: str | None = None,
        agent_name: str | None = None,
        tenant_id: str | None = None,
        *,
        as_of: AsOf = None,
    ) -> Section:
        """The same as a section of a larger context, which puts it on record."""
        memory = self._caller(user_id, agent_name, tenant_id)
        state = self._suggested(memory, current_input or "", as_of)
        states = [] if state is None else [state]
        told = [(one, self._presented(memory, [one], procedure_of)) for one in states]
        lines = [line_of(one, _line(found[0])) for one, found in told if found]
        return Section(name="procedures", visible_to=scopes_of(states), lines=lines)

    def extract_procedures(
        self,
        user_id: str | None = None,
        messages: Messages = (),
        model: ModelProvider | None = None,
        timezone: str | None = None,
    ) -> dict[str, Any]:
        """Workflows from the calls of tools in a conversation; see ``extract_now``."""
        return extract_now(
            "procedures",
            self._as(user=user_id),
            messages,
            model,
            timezone,
            max_procedures=self.max_procedures,
        )

    def clear(self, scope: str = "user", owner: str | None = None) -> int:
        """
        Ends all procedures of a scope's owner as ``retracted``; only ``erase`` destroys.

        Args:
            scope: ``user``, ``agent``, ``tenant`` or ``global``.
            owner: Which user, agent or tenant; default: the handle's.

        Returns:
            How many ended.
        """
        memory = self._owning(scope, owner)
        decided = self._decide(
            memory,
            self._owner_of_scope(memory, scope),
            (PROCEDURE,),
            lambda seen: end_all(seen, PROCEDURE, ReasonCode.RETRACTED),
            "procedure.clear",
            {"scope": scope},
        )
        return len(decided.ended())

    def get_tools(self) -> list[ToolDef]:
        """``recall_procedure`` for the handle's user and agent."""
        text = {"type": "string"}
        return [
            ToolDef(
                name="recall_procedure",
                description=(
                    "Finds a workflow of tools that worked before for a task: the tools in their "
                    "order and what came of each, without the arguments."
                ),
                parameters={
                    "type": "object",
                    "properties": {
                        "task": {**text, "description": "What is to be done."},
                        "as_of": text,
                    },
                    "required": ["task"],
                    "additionalProperties": False,
                },
                handler=lambda given: _without_arguments(
                    self.suggest_procedure(given["task"], as_of=given.get("as_of"))
                ),
            )
        ]

    def _owning(self, scope: str, owner: str | None) -> Memory:
        """The handle as the owner of a scope; a wrong scope is refused by whoever asks next."""
        given = dict.fromkeys(_WHO.values()) | {_WHO.get(scope, ""): owner}
        return self._caller(given["user_id"], given["agent_name"], given["tenant_id"])

    def _seen(self, memory: Memory, as_of: AsOf) -> list[MemoryState]:
        found: list[MemoryState] = []
        for scope in self.scopes:
            owner = GLOBAL_OWNER if scope == "global" else memory.principal.identity(scope)
            if owner is not None:
                seen = self._read(memory, owner, (PROCEDURE,), "procedure.list", as_of)
                found += [] if seen is None else seen.current(PROCEDURE)
        return [state for state in found if state.payload is not None]

    def _suggested(self, memory: Memory, task: str, as_of: AsOf) -> MemoryState | None:
        from memoriale.projections.recall.words import words

        asked = task[:MAX_QUERY_CHARACTERS]
        return suggested(self._seen(memory, as_of), asked, words) if asked.strip() else None

    def _on_record(
        self, memory: Memory, command: str, states: Sequence[MemoryState], as_of: AsOf
    ) -> None:
        versions = [(state.memory_id, state.index) for state in states]
        pin = memory.services.reading.pin(as_of)
        memory.given(
            command,
            versions,
            index=pin.index,
            as_of=as_of,
            global_index=pin.global_index,
            shared=[state.memory_id for state in states if is_global(state)],
        )

    def _command_of(
        self,
        memory: Memory,
        fields: dict[str, Any],
        tier: SourceTier,
        model: str | None,
        prompt_version: str | None,
    ) -> Remember:
        given = {
            "kind": PROCEDURE,
            "source_tier": tier,
            "model": model,
            "prompt_version": prompt_version,
            "details": fields,
        }
        content = f"{fields['trigger']}: {fields['description']}"
        return self._command(memory, content, **self._scoped(memory, fields["scope"], given))


def _line(procedure: Procedure) -> str:
    steps = "; ".join(
        f"{n}. {step.tool_name}" + (f" ({step.result_summary})" if step.result_summary else "")
        for n, step in enumerate(procedure.steps, 1)
    )
    times = "once" if procedure.success_count == 1 else f"{procedure.success_count} times"
    text = f"{procedure.trigger}: {procedure.description} (worked {times})"
    marks: list[str] = [] if procedure.scope == "user" else [procedure.scope]
    if procedure.source == "llm-extracted":
        marks.append("unverified")
    return bullet(f"{text} — {steps}" if steps else text, *marks)


def _without_arguments(procedure: Procedure | None) -> Any:
    if procedure is None:
        return "No procedure fits this task."
    told = procedure.model_dump(mode="json", exclude_none=True, exclude={"steps"})
    steps = [
        step.model_dump(mode="json", exclude_none=True, exclude={"args_snapshot"})
        for step in procedure.steps
    ]
    return {**told, "steps": steps}
