"""What a manager keeps, finds and ends, whichever store it is in."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from pydantic import BaseModel, ConfigDict

from memoriale.adapters.application.reading import AsOf
from memoriale.adapters.library.stores.curator import Curator
from memoriale.adapters.library.stores.stores import Stores
from memoriale.domain.errors import InputError
from memoriale.domain.stores.corrections import Correction, NewCorrection
from memoriale.domain.stores.facts import canonical_fact
from memoriale.domain.text import shown

_TITLE: Final = 60
_SOURCES: Final = {
    "fact": "user_facts",
    "entity": "entities",
    "entity_fact": "entities",
    "entity_event": "entities",
    "relationship": "entities",
    "decision": "decisions",
    "learning": "learnings",
    "correction": "corrections",
    "node": "graph",
    "edge": "graph",
}
"""The store that each kind of memory that recall finds belongs to."""


class ScoredMemory(BaseModel):
    """A memory that was recalled: its text, score (0..1), store, id, and index of its version."""

    model_config = ConfigDict(frozen=True)

    content: str
    score: float
    source: str
    memory_id: UUID
    index: int


class Keeping(Stores):
    """The part of ``MemoryManager`` that looks at all stores at once."""

    def remember(
        self,
        content: str,
        user_id: str | None = None,
        scope: str | None = None,
        importance: float | None = None,
    ) -> UUID:
        """
        Keeps a piece of information: a fact of the user, else a learning of the scope.

        Args:
            content: What to remember.
            user_id: Whose; default: the handle's user.
            scope: ``user`` (default), ``agent`` or ``tenant``; the last two are learnings.
            importance: 0..1.

        Raises:
            InputError: No store that is on can keep it; nothing was stored.
        """
        facts, learnings = self.get_user_facts(), self.get_learned_knowledge()
        whose = user_id or self.storage.principal.user
        if facts is not None and whose is not None and scope in (None, "user"):
            made = facts.add_facts(user_id, [{"fact": content, "importance": importance}])
            return made[0] if made else self._known_fact(content, user_id)
        if learnings is not None:
            new = {
                "title": content[:_TITLE],
                "content": content,
                "scope": scope or "user",
                "user_id": user_id,
                "importance": importance,
            }
            return learnings.save_learning(new).id
        raise InputError(
            "nothing that is switched on can keep this: facts need a user, other scopes need "
            "learnings.",
            code="no_store",
            field="scope",
            value=shown(scope),
            allowed=["user_facts", "learnings"],
        )

    def recall(
        self,
        query: str,
        user_id: str | None = None,
        top_k: int = 10,
        agent_name: str | None = None,
        *,
        namespace: str | None = None,
        as_of: AsOf = None,
    ) -> list[ScoredMemory]:
        """
        What answers a question best, from every store that is on, by the composite of similarity,
        recency and importance; only what the caller may see is looked at.

        Args:
            query: The question.
            user_id, agent_name: The caller; default: the handle's.
            top_k: How many at most.
            namespace: Look from this path: what is kept at it or above it; default: the handle's.
            as_of: As then: an index or a time.
        """
        kinds = [kind for kind, store in _SOURCES.items() if self.is_on(store)]
        if not kinds:
            return []
        hits = self._acting(user_id, agent_name, None).recall(
            query,
            kinds=kinds,
            top_k=top_k,
            namespace=namespace,
            rank="composite",
            as_of=as_of,
        )
        return [
            ScoredMemory(
                content=hit.content,
                score=hit.score,
                source=_SOURCES[hit.kind],
                memory_id=hit.memory_id,
                index=hit.index,
            )
            for hit in hits
        ]

    def record_correction(self, correction: NewCorrection | Mapping[str, Any]) -> Correction:
        """
        See ``CorrectionStore.record_correction``.

        Raises:
            InputError: Corrections are not switched on.
        """
        store = self.get_correction_store()
        if store is None:
            raise InputError(
                "corrections are off; set 'corrections' of the configuration.",
                code="no_store",
                field="corrections",
                allowed=True,
            )
        return store.record_correction(correction)

    def forget(
        self,
        user_id: str | None = None,
        fact_id: UUID | str | None = None,
        entity_id: str | None = None,
    ) -> int:
        """
        Ends a fact, an entity with all that belongs to it, or everything of a user.

        Args:
            user_id: Whose; default: the handle's user.
            fact_id: Only this fact.
            entity_id: Only this entity.

        Returns:
            How many memories ended; 0 when there was no such one.
        """
        facts, entities = self.get_user_facts(), self.get_entity_memory()
        if fact_id is not None:
            return int(facts is not None and facts.remove_fact(user_id, fact_id))
        if entity_id is not None:
            return 0 if entities is None else entities.delete_entity(user_id, entity_id)
        memory = self._acting(user_id, None, None)
        return Curator(memory).clear_all(user_id).changed

    def _known_fact(self, content: str, user_id: str | None) -> UUID:
        facts, text = self.get_user_facts(), canonical_fact(content)
        assert facts is not None
        known = facts.get_active_facts(user_id)
        return next(fact.id for fact in known if canonical_fact(fact.fact) == text)
