"""``LearnedKnowledge``: insights from working, with their provenance."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from memoriale.adapters.application.reading import AsOf
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.stores.extracting import Messages, extract_now
from memoriale.adapters.library.stores.parsing import parsed
from memoriale.adapters.library.stores.scoped import ScopedStore
from memoriale.adapters.library.stores.similar import similar_learnings
from memoriale.domain.chat import ModelProvider
from memoriale.domain.commands import Remember
from memoriale.domain.events import ReasonCode
from memoriale.domain.fields import choice, parse_id
from memoriale.domain.keys import Subject
from memoriale.domain.memory import MemoryState, Status
from memoriale.domain.principal import Right
from memoriale.domain.rendering import bullet
from memoriale.domain.steps import Make
from memoriale.domain.stores.context import Section, line_of
from memoriale.domain.stores.corrections import RETIRE_JOB
from memoriale.domain.stores.ending import end_one
from memoriale.domain.stores.learnings import (
    CONTRADICTION,
    LEARNING,
    TIERS,
    Learning,
    NewLearning,
    contradicted,
    learning_of,
    outdated,
)
from memoriale.domain.stores.scopes import SHARED_SCOPES, refuse_extracted, scopes_of
from memoriale.domain.tools import ToolDef
from memoriale.domain.values import check_unit, check_whole

TOP_K: Final = 3
_MOST: Final = 1_000
_CAVEAT: Final = "What is marked unverified or contested is a hint, not a fact: check it first."


class LearnedKnowledge(ScopedStore):
    """
    Learnings of users, agents and the tenant. A search finds what the caller may see, and
    nothing else is looked at; without user and agent that is what the tenant may see.

    Taken from ``LearnedKnowledge`` of reference system A; ``docs/parity.md`` says what is
    different.

    Args:
        storage: A memory handle; its user and agent are meant where none is given.
        top_k: Learnings in a prompt or an answer at most.
        min_score: Least similarity (cosine, 0..1) of what is found; None for none.
    """

    scopes = SHARED_SCOPES

    def __init__(
        self, storage: Memory, *, top_k: int = TOP_K, min_score: float | None = None
    ) -> None:
        super().__init__(storage)
        self.top_k = check_whole("top_k", top_k, 1, _MOST)
        self.min_score = None if min_score is None else check_unit("min_score", min_score)

    def save_learning(
        self,
        learning: NewLearning | Mapping[str, Any],
        *,
        model: str | None = None,
        prompt_version: str | None = None,
        idempotency_key: str | None = None,
    ) -> Learning:
        """
        Saves a learning.

        Args:
            learning: ``title`` and ``content``, and what else ``NewLearning`` has. ``scope`` says
                who may see it: ``user`` (default), ``agent`` (within the tenant), ``tenant``, or
                ``global``: every tenant (right ``admin``).
            model, prompt_version: What extracted it.
            idempotency_key: A repeated call with it changes nothing.

        Raises:
            InputError: A scope without its owner, or a wrong field; nothing was stored.
        """
        new = parsed("learning", NewLearning, learning)
        refuse_extracted(new.scope, new.source)
        memory = self._caller(new.user_id, new.agent_name, new.tenant_id)
        command = self._command_of(memory, new, model, prompt_version)
        decided = self._decide(
            memory,
            self._owner_of_scope(memory, new.scope),
            (LEARNING,),
            lambda seen: [Make(command=command)],
            "learning.save",
            new.model_dump(mode="json"),
            idempotency_key,
        )
        return self._learnings(memory, [*self._states(memory, decided.made()).values()])[0]

    def extract_learnings(
        self,
        messages: Messages = (),
        model: ModelProvider | None = None,
        user_id: str | None = None,
        timezone: str | None = None,
    ) -> dict[str, Any]:
        """Insights of the user from a conversation; see ``extract_now``."""
        return extract_now(
            "learnings", self._caller(user_id, None, None), messages, model, timezone
        )

    def search_learnings(
        self,
        query: str,
        top_k: int | None = None,
        user_id: str | None = None,
        agent_name: str | None = None,
        tenant_id: str | None = None,
        min_score: float | None = None,
        *,
        as_of: AsOf = None,
    ) -> list[Learning]:
        """
        The learnings that answer a question best.

        Args:
            query: The question.
            top_k: How many at most; default: the store's.
            user_id, agent_name, tenant_id: The caller; default: the handle's.
            min_score: Least similarity; default: the store's.
            as_of: As then: an index or a time.
        """
        memory = self._caller(user_id, agent_name, tenant_id)
        found = self._search(
            memory,
            query,
            LEARNING,
            self.top_k if top_k is None else top_k,
            self.min_score if min_score is None else min_score,
            as_of,
        )
        return self._learnings(memory, found)

    def get_learning(self, id: UUID | str) -> Learning | None:
        """A learning by id, current or not; None when the caller sees none of that id."""
        state = self._one(self.storage, "id", id, LEARNING)
        found = [] if state is None else self._learnings(self.storage, [state])
        return found[0] if found else None

    def delete_learning(self, id: UUID | str) -> bool:
        """
        Ends a learning as ``retracted``; history keeps it, only ``erase`` destroys.

        Returns:
            Whether there was a current one of that id.
        """
        return self._end(id, ReasonCode.RETRACTED, None, "learning.delete")

    def invalidate_learning(self, id: UUID | str, superseded_by: UUID | str | None = None) -> bool:
        """
        Ends a learning: as ``superseded`` when something stands in its place, else as
        ``retracted``. One that has ended keeps its time.

        Returns:
            Whether there was a current one of that id.
        """
        by = None if superseded_by is None else parse_id("superseded_by", superseded_by)
        because = ReasonCode.RETRACTED if by is None else ReasonCode.SUPERSEDED
        return self._end(id, because, by, "learning.invalidate")

    def invalidate_contradicted(
        self,
        query: str,
        superseded_by: UUID | str,
        threshold: float = CONTRADICTION,
        user_id: str | None = None,
        agent_name: str | None = None,
        tenant_id: str | None = None,
        *,
        original: str | None = None,
        corrected: str | None = None,
        wait: float = 60.0,
    ) -> list[UUID]:
        """
        Ends every learning that a model extracted and whose similarity to a text reaches a
        threshold, however many; never one that a person wrote, nor one that says the corrected
        value and not the original one.

        Args:
            query: The text.
            superseded_by: The correction or learning that stands in their place.
            threshold: Least similarity, 0..1.
            user_id, agent_name, tenant_id: The caller; default: the handle's.
            original, corrected: What was wrong, and what it should have been.
            wait: Seconds that the view may take.

        Returns:
            Ids of the learnings that ended.

        Raises:
            BehindError: The view was not caught up in time; nothing was stored.
            UnavailableError: View or embedder cannot be used; nothing was stored.
        """
        memory = self._caller(user_id, agent_name, tenant_id)
        memory.allow("learning.retire", Right.USE)
        by = parse_id("superseded_by", superseded_by)
        found = similar_learnings(memory, query, check_unit("threshold", threshold), wait)
        if not found:
            return []
        # Only memories of ``others`` end; whoever asks is the owner of nothing here.
        own = memory.principal.identities()
        owner = own[0] if own else Subject("tenant", memory.principal.tenant)
        decided = self._decide(
            memory,
            owner,
            (),
            lambda seen: contradicted(
                seen.others.values(), by, original=original, corrected=corrected
            ),
            "learning.retire",
            {"by": str(by), "threshold": str(threshold)},
            others=tuple(found),
        )
        return decided.ended()

    def prune_learnings(
        self,
        max_age_days: float,
        sources: Sequence[str] = ("llm-extracted",),
        agent_name: str | None = None,
        user_id: str | None = None,
    ) -> int:
        """
        Ends learnings older than an age as ``pruned``; what is under legal hold stays.

        Args:
            max_age_days: Age in days of 24 hours, strictly more.
            sources: Tiers that may end; by default only what a model extracted.
            agent_name: Those of this agent.
            user_id: Those of this user. With neither: those of the handle's user and agent.

        Returns:
            How many ended.
        """
        for source in sources:
            choice("sources", source, TIERS)
        memory = self._as(user=user_id, agent=agent_name)
        given = {"user": user_id, "agent": agent_name}
        types = [t for t, v in given.items() if v is not None] or ["user", "agent"]
        owners = [memory.principal.identity(type_) for type_ in types]
        return sum(
            len(
                self._decide(
                    memory,
                    owner,
                    (LEARNING,),
                    lambda seen: outdated(seen, max_age_days, sources),
                    "learning.prune",
                    {"max_age_days": str(max_age_days), "sources": [*sources]},
                ).ended()
            )
            for owner in owners
            if owner is not None
        )

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
        The learnings that fit an input as lines for a prompt, each with its trust; empty without
        an input. While a correction's work is not finished, unverified ones are ``contested``.
        """
        section = self.context_section(current_input, user_id, agent_name, tenant_id, as_of=as_of)
        memory = self._caller(user_id, agent_name, tenant_id)
        return self._shown(memory, "learning.context", section, as_of)

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
        states = self._fitting(memory, current_input, LEARNING, as_of)
        contested = bool(states) and as_of is None and self._contested(memory)
        told = [(state, self._learnings(memory, [state])) for state in states]
        unverified = any(f and f[0].source == "llm-extracted" for _, f in told)
        return Section(
            name="learnings",
            visible_to=scopes_of(states),
            lines=[line_of(state, _line(found[0], contested)) for state, found in told if found],
            notes=(_CAVEAT,) if unverified else (),
        )

    def get_tools(self) -> list[ToolDef]:
        """``save_learning`` and ``search_learnings`` for the handle's user and agent."""
        text = {"type": "string"}
        return [
            ToolDef(
                name="save_learning",
                description=(
                    "Keeps an insight for later. It counts as unverified until a person "
                    "confirms it. scope: user (default), agent or tenant."
                ),
                parameters={
                    "type": "object",
                    "properties": {
                        "title": text,
                        "content": text,
                        "context": {**text, "description": "When it applies."},
                        "tags": {"type": "array", "items": text},
                        "scope": {"type": "string", "enum": ["user", "agent", "tenant"]},
                    },
                    "required": ["title", "content", "context"],
                    "additionalProperties": False,
                },
                handler=lambda given: {
                    "id": str(self.save_learning({**given, "source": "llm-extracted"}).id)
                },
            ),
            ToolDef(
                name="search_learnings",
                description="Finds insights from earlier work.",
                parameters={
                    "type": "object",
                    "properties": {
                        "query": text,
                        "limit": {"type": "integer", "minimum": 1, "default": 5},
                        "as_of": text,
                    },
                    "required": ["query"],
                    "additionalProperties": False,
                },
                handler=lambda given: [
                    learning.model_dump(mode="json", exclude_none=True)
                    for learning in self.search_learnings(
                        given["query"], given.get("limit", 5), as_of=given.get("as_of")
                    )
                ],
            ),
        ]

    def _contested(self, memory: Memory) -> bool:
        """Whether work of a correction that the caller profits from is still to be done."""
        owners = set(memory.services.log.identities.scope(memory.principal).owners)
        owners.add(memory.services.log.identities.tenant().pseudonym)
        return any(
            job.type == RETIRE_JOB and job.columns.owner in owners
            for job in memory.services.jobs.open()
        )

    def _end(self, id: UUID | str, because: ReasonCode, by: UUID | None, command: str) -> bool:
        state = self._one(self.storage, "id", id, LEARNING)
        if state is None or state.status is not Status.CURRENT:
            return False
        decided = self._decide(
            self.storage,
            self._owned(self.storage, state),
            (LEARNING,),
            lambda seen: end_one(seen, state.memory_id, because, by),
            command,
            {"id": str(state.memory_id)},
        )
        return bool(decided.ended())

    def _command_of(
        self, memory: Memory, new: NewLearning, model: str | None, prompt_version: str | None
    ) -> Remember:
        return self._command(
            memory,
            f"{new.title}: {new.content}",
            **self._scoped(
                memory,
                new.scope,
                {
                    "kind": LEARNING,
                    "importance": new.importance,
                    "tags": list(new.tags),
                    "namespace": new.namespace or None,
                    "source_tier": TIERS[new.source],
                    "source_run": new.source_run_id,
                    "evidence": None if new.evidence is None else [new.evidence],
                    "model": model,
                    "prompt_version": prompt_version,
                    "details": {
                        "title": new.title,
                        "text": new.content,
                        "context": new.context or None,
                        "scope": new.scope,
                    },
                },
            ),
        )

    def _learnings(self, memory: Memory, states: Sequence[MemoryState]) -> list[Learning]:
        return self._presented(memory, states, learning_of)


def _line(learning: Learning, contested: bool) -> str:
    marks: list[str] = [] if learning.scope == "user" else [learning.scope]
    if learning.source == "llm-extracted":
        marks.append("contested" if contested else "unverified")
    elif learning.source is not None:
        marks.append("verified")
    when = f" (applies: {learning.context})" if learning.context else ""
    return bullet(f"{learning.title}: {learning.content}{when}", *marks)
