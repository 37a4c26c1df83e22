"""``CorrectionStore``: what people put right, so that it is not done wrong again."""

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from memoriale.adapters.application.reading import AsOf
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.stores.parsing import parsed
from memoriale.adapters.library.stores.scoped import ScopedStore
from memoriale.adapters.library.stores.similar import similar_in_time
from memoriale.domain.commands import Remember
from memoriale.domain.errors import is_callers_end
from memoriale.domain.events import ReasonCode, SourceTier
from memoriale.domain.memory import MemoryState
from memoriale.domain.rendering import quoted
from memoriale.domain.steps import Ask, Make, Slice, Step
from memoriale.domain.stores.context import Section, line_of
from memoriale.domain.stores.corrections import (
    CORRECTION,
    RETIRE_JOB,
    Correction,
    CorrectionStats,
    EvalCase,
    NewCorrection,
    correction_of,
    entity_tag,
    eval_cases,
    sentence_of,
    statistics,
)
from memoriale.domain.stores.ending import end_one
from memoriale.domain.stores.learnings import CONTRADICTION, contradicted
from memoriale.domain.stores.scopes import scopes_of
from memoriale.domain.times import parse_time
from memoriale.domain.tools import ToolDef
from memoriale.domain.values import check_seconds, check_unit, check_whole

TOP_K: Final = 3
SEARCH_SECONDS: Final = 0.2
"""How long recording waits for the search of what it contradicts before that becomes a job."""
_MOST: Final = 1_000
_log = logging.getLogger(__name__)

OnRecorded = Callable[[Correction], None]
OnRetired = Callable[[list[UUID], Correction], None]


class CorrectionStore(ScopedStore):
    """
    Corrections of agents' outputs. Recording one retires, in the same append, the learnings
    that a model extracted and that it contradicts; when these cannot be found within a time
    limit, a job is asked for in that append and does it.

    Taken from ``CorrectionStore`` of reference system A; ``docs/parity.md`` says what is
    different.

    Args:
        storage: A memory handle; its agent and user are meant where none is given.
        top_k: Corrections in a prompt or an answer at most.
        min_score: Least similarity (cosine, 0..1) of what is found; None for none.
        on_recorded: Called with each correction after it was stored; what it raises is logged
            and fails nothing.
        on_retired: Called likewise with the ids of the learnings that ended, and the correction.
        invalidate_contradicted: Whether recording one retires learnings.
        contradiction_threshold: Least similarity from which a learning may contradict, 0..1.
        search_seconds: Time limit of the search in seconds.
    """

    def __init__(
        self,
        storage: Memory,
        *,
        top_k: int = TOP_K,
        min_score: float | None = None,
        on_recorded: OnRecorded | None = None,
        on_retired: OnRetired | None = None,
        invalidate_contradicted: bool = True,
        contradiction_threshold: float = CONTRADICTION,
        search_seconds: float = SEARCH_SECONDS,
    ) -> None:
        super().__init__(storage)
        self.top_k = check_whole("top_k", top_k, 1, _MOST)
        self.min_score = None if min_score is None else check_unit("min_score", min_score)
        self.on_recorded, self.on_retired = on_recorded, on_retired
        self.invalidate_contradicted = invalidate_contradicted
        self.threshold = check_unit("contradiction_threshold", contradiction_threshold)
        self.search_seconds = check_seconds("search_seconds", search_seconds)

    def record_correction(
        self,
        correction: NewCorrection | Mapping[str, Any],
        *,
        idempotency_key: str | None = None,
    ) -> Correction:
        """
        Records a correction.

        Args:
            correction: ``original_value`` and ``corrected_value``, and what else
                ``NewCorrection`` has. ``scope``: ``agent`` (default), ``user`` or ``tenant``.
            idempotency_key: A repeated call with it changes nothing.

        Raises:
            InputError: A scope without its owner, or a wrong field; nothing was stored.
        """
        new = parsed("correction", NewCorrection, correction)
        memory = self._caller(new.user_id, new.agent_name, new.tenant_id)
        if new.session_id is not None:
            memory = memory.rebound(memory.principal.with_(session=new.session_id))
        command = self._command_of(memory, new)
        made = Make(command=command)
        similar = self._similar(memory, new)
        decided = self._decide(
            memory,
            self._owner_of_scope(memory, new.scope),
            (CORRECTION,),
            lambda seen: [made, *self._consequences(seen, made.memory_id, new, similar)],
            "correction.record",
            new.model_dump(mode="json"),
            idempotency_key,
            others=similar or (),
        )
        (memory_id,) = decided.made()
        recorded = self._corrections(memory, [*self._states(memory, [memory_id]).values()])[0]
        if decided.created:
            self._tell(recorded, decided.ended())
        return recorded

    def search_corrections(
        self,
        query: str,
        top_k: int | None = None,
        user_id: str | None = None,
        agent_name: str | None = None,
        tenant_id: str | None = None,
        entity_key: str | None = None,
        *,
        as_of: AsOf = None,
    ) -> list[Correction]:
        """
        The corrections that fit a question best, from those that the caller may see.

        Args:
            query: The question.
            top_k: How many at most; default: the store's.
            user_id, agent_name, tenant_id: The caller; default: the handle's.
            entity_key: Only those of this entity.
            as_of: As then: an index or a time.
        """
        memory = self._caller(user_id, agent_name, tenant_id)
        most = self.top_k if top_k is None else check_whole("top_k", top_k, 1, _MOST)
        tag = entity_tag(entity_key)
        tags = () if tag is None else (tag,)
        found = self._search(memory, query, CORRECTION, most, self.min_score, as_of, tags)
        return self._corrections(memory, found)

    def get_correction(self, id: UUID | str) -> Correction | None:
        """A correction by id, current or not; None when the caller sees none of that id."""
        state = self._one(self.storage, "id", id, CORRECTION)
        found = [] if state is None else self._corrections(self.storage, [state])
        return found[0] if found else None

    def delete_correction(self, id: UUID | str) -> bool:
        """
        Ends a correction as ``retracted``; history keeps it, only ``erase`` destroys.

        Returns:
            Whether there was a current one of that id.
        """
        state = self._one(self.storage, "id", id, CORRECTION)
        if state is None:
            return False
        decided = self._decide(
            self.storage,
            self._owned(self.storage, state),
            (CORRECTION,),
            lambda seen: end_one(seen, state.memory_id, ReasonCode.RETRACTED),
            "correction.delete",
            {"id": str(state.memory_id)},
        )
        return bool(decided.ended())

    def list_corrections(
        self,
        agent_name: str | None = None,
        entity_key: str | None = None,
        since: datetime | str | None = None,
        *,
        as_of: AsOf = None,
    ) -> list[Correction]:
        """
        The current corrections of an agent, of the user and of the tenant, oldest first.

        Args:
            agent_name: Whose; default: the handle's agent.
            entity_key: Only those of this entity.
            since: Only those recorded at this time or later.
            as_of: As then: an index or a time.
        """
        memory = self._caller(None, agent_name, None)
        after = None if since is None else parse_time("since", since)
        found = [
            correction
            for state in self._of_caller(memory, as_of)
            for correction in self._corrections(memory, [state])
        ]
        return [
            correction
            for correction in found
            if (entity_key is None or correction.entity_key == entity_key)
            and (after is None or correction.created_at >= after)
        ]

    def to_eval_cases(
        self,
        agent_name: str | None = None,
        entity_key: str | None = None,
        since: datetime | str | None = None,
    ) -> list[EvalCase]:
        """The corrections whose input is known, as cases; arguments as ``list_corrections``."""
        return eval_cases(self.list_corrections(agent_name, entity_key, since))

    def get_stats(
        self, agent_name: str | None = None, since: datetime | str | None = None
    ) -> CorrectionStats:
        """How many corrections there are, by entity and by field."""
        return statistics(self.list_corrections(agent_name, None, since))

    def get_context_string(
        self,
        current_input: str | None = None,
        user_id: str | None = None,
        agent_name: str | None = None,
        tenant_id: str | None = None,
        *,
        as_of: AsOf = None,
    ) -> str:
        """The corrections that fit an input as lines for a prompt; empty without an input."""
        section = self.context_section(current_input, user_id, agent_name, tenant_id, as_of=as_of)
        memory = self._caller(user_id, agent_name, tenant_id)
        return self._shown(memory, "correction.context", section, as_of)

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
        states = self._fitting(memory, current_input, CORRECTION, as_of)
        told = [(state, self._corrections(memory, [state])) for state in states]
        lines = [line_of(state, _line(found[0])) for state, found in told if found]
        return Section(name="corrections", visible_to=scopes_of(states), lines=lines)

    def get_tools(self) -> list[ToolDef]:
        """``record_correction`` and ``search_corrections`` for the handle's agent and user."""
        text = {"type": "string"}
        return [
            ToolDef(
                name="record_correction",
                description="Records that a person corrected what you produced.",
                parameters={
                    "type": "object",
                    "properties": {
                        "field": text,
                        "original_value": text,
                        "corrected_value": text,
                        "reason": text,
                        "entity_key": text,
                        "tags": {"type": "array", "items": text},
                    },
                    "required": ["original_value", "corrected_value"],
                    "additionalProperties": False,
                },
                handler=lambda given: {"id": str(self.record_correction(given).id)},
            ),
            ToolDef(
                name="search_corrections",
                description="Finds what people corrected before.",
                parameters={
                    "type": "object",
                    "properties": {
                        "query": text,
                        "entity_key": text,
                        "limit": {"type": "integer", "minimum": 1, "default": 5},
                        "as_of": text,
                    },
                    "required": ["query"],
                    "additionalProperties": False,
                },
                handler=lambda given: [
                    correction.model_dump(mode="json", exclude_none=True)
                    for correction in self.search_corrections(
                        given["query"],
                        given.get("limit", 5),
                        entity_key=given.get("entity_key"),
                        as_of=given.get("as_of"),
                    )
                ],
            ),
        ]

    def _similar(self, memory: Memory, new: NewCorrection) -> list[UUID] | None:
        """Learnings that may contradict; None when that is not known in time."""
        if not self.invalidate_contradicted:
            return []
        parts = (new.field, new.original_value, new.corrected_value, new.reason)
        text = " ".join(part for part in parts if part)
        if not text.strip():
            return []
        return similar_in_time(memory, text, self.threshold, self.search_seconds)

    def _consequences(
        self, seen: Slice, by: UUID, new: NewCorrection, similar: list[UUID] | None
    ) -> Sequence[Step]:
        if similar is None:
            arguments = {"memory_id": str(by), "threshold": round(self.threshold * 1000)}
            return [Ask(type=RETIRE_JOB, arguments=arguments)]
        return contradicted(
            seen.others.values(),
            by,
            original=new.original_value,
            corrected=new.corrected_value,
        )

    def _tell(self, recorded: Correction, retired: list[UUID]) -> None:
        if self.on_recorded is not None:
            told(self.on_recorded, recorded)
        if retired and self.on_retired is not None:
            told(self.on_retired, retired, recorded)

    def _of_caller(self, memory: Memory, as_of: AsOf) -> list[MemoryState]:
        states: list[MemoryState] = []
        for scope in ("agent", "user", "tenant"):
            owner = memory.principal.identity(scope)
            if owner is not None:
                seen = self._read(memory, owner, (CORRECTION,), "correction.list", as_of)
                current = [] if seen is None else seen.current(CORRECTION)
                self._told(memory, "correction.list", current, seen, as_of)
                states += current
        return sorted(states, key=lambda state: state.first_index)

    def _command_of(self, memory: Memory, new: NewCorrection) -> Remember:
        tag = entity_tag(new.entity_key)
        tags = [*new.tags] if tag is None else [*new.tags, tag]
        return self._command(
            memory,
            sentence_of(new),
            **self._scoped(
                memory,
                new.scope,
                {
                    "kind": CORRECTION,
                    "tags": tags,
                    "source_tier": SourceTier.HUMAN_CORRECTION,
                    "source_run": new.run_id,
                    "details": {
                        "original_value": new.original_value,
                        "corrected_value": new.corrected_value,
                        "field": new.field,
                        "explanation": new.reason,
                        "original_input": new.original_input,
                        "entity_key": new.entity_key,
                        "scope": new.scope,
                    },
                },
            ),
        )

    def _corrections(self, memory: Memory, states: Sequence[MemoryState]) -> list[Correction]:
        return self._presented(memory, states, correction_of)


def told(listener: Callable[..., None], *what: object) -> None:
    """Calls a listener after the fact; its error is logged, what happened has happened."""
    try:
        listener(*what)
    except BaseException as error:
        if is_callers_end(error):
            raise
        _log.exception("a listener of %s failed", getattr(listener, "__qualname__", listener))


def _line(correction: Correction) -> str:
    what = f"{quoted(correction.field)}: " if correction.field else ""
    about = f" [{quoted(correction.entity_key)}]" if correction.entity_key else ""
    wrong = quoted(correction.original_value) or "nothing"
    told_line = f"- {what}not {wrong} but {quoted(correction.corrected_value) or 'nothing'}{about}"
    return f"{told_line} — {quoted(correction.reason)}" if correction.reason else told_line
