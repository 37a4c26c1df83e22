"""Reading items: by scope, by id, by question, and how many there are."""

from threading import Lock
from typing import TYPE_CHECKING
from uuid import UUID

from memoriale.adapters.application.questions import Question
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.operations.vectors import ManyOwners, texts_of
from memoriale.adapters.postgres.item_counting import counted
from memoriale.domain.memory import MemoryState
from memoriale.domain.operations.items import ITEM
from memoriale.domain.operations.nodes import AgentMemorySearchResult, MemoryNode, node_of
from memoriale.domain.operations.scopes import OperationScope
from memoriale.domain.principal import Right

if TYPE_CHECKING:
    from memoriale.adapters.application.tenant_log import TenantLog


class Items:
    """
    The items that a scope means, as its caller may see them.

    Args:
        vectors: Of an embedder of the program's own; None: questions are put to the recall view.
    """

    def __init__(self, vectors: ManyOwners | None = None) -> None:
        self._vectors = vectors

    def all(self, memory: Memory, scope: OperationScope) -> list[MemoryNode]:
        """Every current item of a scope, in the order in which they were made; from the log."""
        memory.allow("items.list", Right.USE)
        states, index = self._current(memory, scope)
        memory.given("items.list", [(s.memory_id, s.index) for s in states], index=index)
        return nodes_of(memory, states)

    def search(
        self, memory: Memory, scope: OperationScope, query: str, k: int
    ) -> list[AgentMemorySearchResult]:
        """The items of a scope that answer a question best."""
        memory.allow("items.search", Right.USE)
        if self._vectors is not None:
            return self._by_vector(memory, scope, query, k, self._vectors)
        identities = memory.services.log.identities
        owner = identities.find(scope.owner(memory.principal.tenant))
        through = memory.principal.identity("agent")
        agent = identities.find(through)
        if owner is None or (through is not None and agent is None):
            return []
        question = Question(
            query=query,
            top_k=k,
            kinds=(ITEM,),
            tags=scope.tags,
            owner=owner.pseudonym,
            agent=None if agent is None else agent.pseudonym,
            wait=memory.settings.wait,
        )
        branch = memory.branch_view()
        found = memory.services.recalling.recall(memory.principal, branch, question)
        hits = [hit for hit in found if not hit.is_global]
        memory.given(
            "items.search",
            [(hit.memory_id, hit.index) for hit in hits],
            index=found.index,
            behind=found.behind,
            degraded=found.degraded,
            branch=branch,
            question=query,
        )
        states = memory.services.reading.folded(
            [hit.memory_id for hit in hits], branch, found.index
        )
        nodes = {n.id: n for n in nodes_of(memory, list(states.values()))}
        return [
            AgentMemorySearchResult(
                id=hit.memory_id,
                content=hit.content,
                score=hit.score,
                similarity=hit.similarity,
                node=nodes[hit.memory_id],
            )
            for hit in hits
            if hit.memory_id in nodes
        ]

    def _by_vector(
        self, memory: Memory, scope: OperationScope, query: str, k: int, vectors: ManyOwners
    ) -> list[AgentMemorySearchResult]:
        states, index = self._current(memory, scope)
        if not states:
            return []
        ranked = vectors.of(states[0].columns.owner).ranked(query, texts_of(states))[:k]
        by_id = {state.memory_id: state for state in states}
        chosen = [by_id[memory_id] for memory_id, _ in ranked]
        memory.given(
            "items.search",
            [(state.memory_id, state.index) for state in chosen],
            index=index,
            question=query,
        )
        nodes = {node.id: node for node in nodes_of(memory, chosen)}
        return [
            AgentMemorySearchResult(
                id=memory_id,
                content=nodes[memory_id].content,
                score=cosine,
                similarity=cosine,
                node=nodes[memory_id],
            )
            for memory_id, cosine in ranked
            if memory_id in nodes
        ]

    def _current(self, memory: Memory, scope: OperationScope) -> tuple[list[MemoryState], int]:
        services = memory.services
        owner = scope.owner(memory.principal.tenant)
        seen = services.deciding.read(memory.principal, memory.branch_view(), owner, (ITEM,))
        if seen is None:
            return [], -1
        through = memory.principal.identity("agent")
        agent = services.log.identities.find(through)
        if through is not None and agent is None:
            return [], seen.index
        wanted = set(scope.tags)
        found = [
            state
            for state in seen.current(ITEM)
            if wanted <= set(state.tags)
            and (agent is None or state.columns.principal_agent == agent.pseudonym)
        ]
        return found, seen.index


def nodes_of(memory: Memory, states: list[MemoryState]) -> list[MemoryNode]:
    """Items with outside names; those whose words were erased left out."""
    who = [p for s in states for p in (s.columns.owner, s.columns.principal_agent)]
    names = memory.services.log.identities.names(who)
    found = (node_of(state, names) for state in states)
    return [node for node in found if node is not None]


def item_by_id(memory: Memory, memory_id: UUID) -> MemoryState | None:
    """A current item of any owner of the tenant; None for everything else."""
    services = memory.services
    state = services.reading.folded([memory_id], memory.branch_view()).get(memory_id)
    if state is None or state.kind != ITEM or state.payload is None:
        return None
    return state if state.is_current(services.reading.pin(None).now) else None


class Count:
    """
    How many items of the tenant have not ended, over all owners; counted on from look to look.

    Args:
        log: The tenant's memory log.
    """

    def __init__(self, log: "TenantLog") -> None:
        self._log = log
        self._lock = Lock()
        self._index, self._count = -1, 0

    def __call__(self) -> int:
        with self._lock:
            self._index, change = counted(self._log.reader, ITEM, self._index)
            self._count += change
            return self._count
