"""What the stores of learnings, corrections and procedures share: scopes, and search by meaning."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar
from uuid import UUID

from memoriale.adapters.application.reading import AsOf
from memoriale.adapters.application.recalling import Question
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.stores.base import Store
from memoriale.adapters.library.stores.curated import reconcile_recall
from memoriale.domain.errors import InputError
from memoriale.domain.fields import parse_id, several
from memoriale.domain.keys import Subject
from memoriale.domain.memory import MemoryState
from memoriale.domain.principal import Right
from memoriale.domain.stores.scopes import (
    GLOBAL_OWNER,
    SCOPES,
    is_global,
    owner_of_scope,
    visibility_of_scope,
)
from memoriale.domain.text import MAX_QUERY_CHARACTERS

T = TypeVar("T")


class ScopedStore(Store):
    """
    A store whose memories belong to a user, an agent or the tenant, by their scope.

    ``top_k`` and ``min_score`` are what a search finds at most and at least, ``scopes`` those
    that the store has.
    """

    scopes: tuple[str, ...] = SCOPES

    top_k: int
    min_score: float | None

    def reconcile(self) -> int:
        """
        Repairs what searches look into, the recall view, from the ledger. One view holds what
        every store of the tenant keeps, so all of it is put right, at the cost of a replay.

        Returns:
            How many rows were missing, orphaned, stale or doubled. Right: ``operate``.
        """
        return reconcile_recall(self.storage, repair=True).repaired

    def _caller(self, user_id: str | None, agent_name: str | None, tenant_id: str | None) -> Memory:
        """
        The handle as the given caller.

        Raises:
            InputError: Another tenant than the handle's.
        """
        tenant = self.storage.principal.tenant
        if tenant_id is not None and tenant_id != tenant:
            raise InputError(
                f"this handle is bound to tenant {tenant!r}; open one for the other tenant.",
                code="wrong_tenant",
                field="tenant_id",
                value=str(tenant_id)[:80],
                allowed=tenant,
            )
        return self._as(user=user_id, agent=agent_name)

    def _scoped(self, memory: Memory, scope: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments of a command for a memory at a scope; the owner is decided apart."""
        return {**given, "visibility": visibility_of_scope(scope).value}

    def _owner_of_scope(self, memory: Memory, scope: str) -> Subject:
        return owner_of_scope(memory.principal, scope, self.scopes)

    def _search(
        self,
        memory: Memory,
        query: str,
        kind: str,
        top_k: int,
        min_score: float | None,
        as_of: AsOf = None,
        tags: Sequence[str] = (),
        *,
        on_record: bool = True,
    ) -> list[MemoryState]:
        """
        The memories of a kind that answer a question best, from those that the caller may see.
        ``on_record`` is False when the caller of this method says what is told.
        """
        memory.allow(f"{kind}.search", Right.USE)
        question = Question(
            query=query,
            kinds=(kind,),
            top_k=top_k,
            min_score=min_score,
            namespace=memory.principal.namespace,
            tags=several("tags", tags),
            as_of=as_of,
            wait=memory.settings.wait,
        )
        branch = memory.branch_view()
        found = memory.services.recalling.recall(memory.principal, branch, question)
        if on_record:
            memory.given(
                f"{kind}.search",
                [(hit.memory_id, hit.index) for hit in found],
                index=found.index,
                as_of=as_of,
                behind=found.behind,
                degraded=found.degraded,
                branch=branch,
                question=query,
                global_index=found.global_index,
                shared=[hit.memory_id for hit in found if hit.is_global],
            )
        states = self._states(memory, [hit.memory_id for hit in found], as_of)
        return [states[hit.memory_id] for hit in found if hit.memory_id in states]

    def _fitting(
        self, memory: Memory, current_input: str | None, kind: str, as_of: AsOf
    ) -> list[MemoryState]:
        """What fits an input, for a prompt; nothing without an input."""
        if not current_input or not current_input.strip():
            return []
        query = current_input[:MAX_QUERY_CHARACTERS]
        return self._search(memory, query, kind, self.top_k, self.min_score, as_of, on_record=False)

    def _states(
        self, memory: Memory, memory_ids: Sequence[UUID], as_of: AsOf = None
    ) -> dict[UUID, MemoryState]:
        """Memories as folded from the log, those that the caller may see."""
        services = memory.services
        branch = memory.branch_view()
        pin = services.reading.pin(as_of)
        scope = services.writing.scope(memory.principal, branch)
        found = services.reading.folded(list(memory_ids), branch, pin.limit)
        missing = [i for i in memory_ids if i not in found]
        shared = memory.for_all.folded(missing, pin) if missing else {}
        return {i: state for i, state in found.items() if scope.allows(state.columns)} | shared

    def _one(
        self, memory: Memory, name: str, memory_id: UUID | str, kind: str
    ) -> MemoryState | None:
        """One memory of a kind by id; None when there is none that the caller may see."""
        memory.allow(f"{kind}.show", Right.USE)
        found = parse_id(name, memory_id)
        state = self._states(memory, [found]).get(found)
        if state is None or state.kind != kind:
            return None
        shared = (found,) if is_global(state) else ()
        index = memory.services.reading.pin(None).index if shared else state.index
        memory.given(f"{kind}.show", [(found, state.index)], index=index, shared=shared)
        return state

    def _owned(self, memory: Memory, state: MemoryState) -> Subject:
        """Who owns a memory that the caller may see."""
        if is_global(state):
            return GLOBAL_OWNER
        names = memory.services.log.identities.names([state.columns.owner])
        return names[state.columns.owner]

    def _presented(
        self,
        memory: Memory,
        states: Sequence[MemoryState],
        present: Callable[[MemoryState, Mapping[UUID, Subject], str], T | None],
    ) -> list[T]:
        """Memories for their reader, with outside names; those whose text was erased left out."""
        wanted = [
            pseudonym
            for state in states
            for pseudonym in (
                state.columns.owner,
                state.columns.principal_user,
                state.columns.principal_agent,
                state.columns.principal_session,
                state.columns.source_run,
            )
        ]
        services = memory.services
        names = services.log.identities.names(wanted)
        hidden = services.reading.hidden(
            (state.replaced_by for state in states),
            memory.branch_view(),
            services.log.identities.scope(memory.principal),
        )
        tenant = memory.principal.tenant
        told = (replace(s, replaced_by=None) if s.replaced_by in hidden else s for s in states)
        found = (present(state, names, tenant) for state in told)
        return [one for one in found if one is not None]
