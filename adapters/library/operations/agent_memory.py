"""``agent_memory``: adds and searches with handles, over the items of a tenant."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from types import TracebackType
from typing import Final, Self
from uuid import UUID

from memoriale.adapters.application.deciding import Request
from memoriale.adapters.language_models.factory import make_model
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.operations.adding import (
    ADD_JOB,
    OWN_ADD_JOB,
    Watch,
    add_handlers,
    request_add,
)
from memoriale.adapters.library.operations.bridge import SharedBridge, SharedOptions
from memoriale.adapters.library.operations.handles import (
    AgentMemoryAddOperation,
    AgentMemorySearchOperation,
)
from memoriale.adapters.library.operations.messages import Messages, parse_messages
from memoriale.adapters.library.operations.observing import Observable, Topic
from memoriale.adapters.library.operations.options import GraphOption
from memoriale.adapters.library.operations.reading import Count, Items, item_by_id, nodes_of
from memoriale.adapters.library.operations.relating import relating_handlers
from memoriale.adapters.library.operations.storing import (
    Rules,
    Stored,
)
from memoriale.adapters.library.operations.telling import memory_events
from memoriale.adapters.library.operations.vectors import (
    ManyOwners,
)
from memoriale.adapters.library.operations.working import Worker
from memoriale.domain.chat import ModelProvider
from memoriale.domain.errors import InputError
from memoriale.domain.events import ReasonCode, SourceTier
from memoriale.domain.fields import parse_id
from memoriale.domain.jobs import Job
from memoriale.domain.memory import MemoryState
from memoriale.domain.operations.items import ITEM
from memoriale.domain.operations.nodes import MemoryNode, scope_of_node
from memoriale.domain.operations.op_ids import OperationIds
from memoriale.domain.operations.scopes import OperationScope, Scope, parse_scope
from memoriale.domain.payloads import Item
from memoriale.domain.principal import Principal, Right
from memoriale.domain.steps import End, Replace, Slice, Step
from memoriale.domain.subscriptions import MemoryEvent
from memoriale.domain.text import check_query
from memoriale.domain.values import check_whole

SEARCHES_AT_ONCE: Final = 4
MOST_RESULTS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Inner:
    """
    What an ``AgentMemory`` is made of.

    Args:
        ledger: Where everything is.
        tenant: Whose.
        events: As of the memory.
        shared: The bridge that shares them; None without one.
    """

    ledger: Ledger
    tenant: str
    events: Topic[MemoryEvent]
    shared: SharedBridge | None


class AgentMemory:
    """
    Memory that is fed with messages and asked questions, every operation with a handle. Made by
    ``agent_memory``; end it with ``destroy``, or use it as a context.

    Safe to share between threads. Every method raises ``InputError`` for a wrong argument and
    ``MissingRightError`` without the right ``use``; nothing is stored then.
    """

    events: Topic[MemoryEvent]
    """Each change of an item that this memory makes, told after it was stored; with ``shared``
    those of others as well."""
    size: Observable[int]
    """How many items the tenant has that have not ended, over all owners."""

    def __init__(
        self,
        ledger: Ledger,
        tenant: str,
        rules: Rules,
        model: ModelProvider | None,
        vectors: ManyOwners | None,
        graph: GraphOption,
        shared: SharedOptions | None,
    ) -> None:
        self._ledger, self._tenant, self._rules = ledger, tenant, rules
        self._services = ledger.tenant(tenant)
        self._model = model
        self._items = Items(vectors)
        self._ids = OperationIds()
        self._lock = Lock()
        self._destroyed = False
        self._searches: set[AgentMemorySearchOperation] = set()
        self._searching = ThreadPoolExecutor(SEARCHES_AT_ONCE, "memoriale-search")
        self._add_job = ADD_JOB if vectors is None else OWN_ADD_JOB
        self.events = Topic()
        self.size = Observable(Count(self._services.log))
        watch = Watch(
            started=lambda job_id: self._worker.started(job_id),
            extracted=lambda job_id, facts: self._worker.extracted(job_id, facts),
            stored=self._stored,
            ended=lambda job_id: self._worker.ended(job_id),
            correlation=self._correlation,
        )
        self._bridge = None if shared is None else self._bridged(shared)
        given = None if vectors is None else (lambda memory: vectors)
        handlers = add_handlers(
            self._acting, self._language_model, given, type_=self._add_job, watch=watch
        )
        relating = graph.model
        if relating is not None:
            handlers |= relating_handlers(self._acting, lambda: relating, graph.own)
        self._worker = Worker(self._services.jobs, handlers, self._can_take_up)
        self._worker.start()

    @property
    def inner(self) -> Inner:
        """What it is made of."""
        return Inner(self._ledger, self._tenant, self.events, self._bridge)

    def add(
        self,
        messages: Messages,
        scope: Scope | OperationScope | None,
        op_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> AgentMemoryAddOperation:
        """
        Has messages looked through for what is worth keeping, in the background. They are in the
        ledger when this returns: whatever happens to the process, they are worked on, and what
        comes of them is stored once.

        Args:
            messages: What was said: texts with ``role`` and ``content``.
            scope: Whose: ``user_id``, ``agent_id``, ``tags``; at least one. See
                ``OperationScope``.
            op_id: A label for the handle; see ``OperationIds.take``.
            idempotency_key: A repeated call of this owner with it and the same messages and
                scope gives the handle of the first one, and nothing is done twice.

        Raises:
            InputError: Also when the key was used for something else.
            UnavailableError: The ledger cannot be reached; nothing was accepted.
        """
        memory, meant = self._as(scope)
        if self._rules.graph is not None and meant.user_id is None:
            raise InputError(
                "a knowledge graph is a user's: the scope of an add must name user_id.",
                code="no_owner",
                field="scope.user_id",
                allowed="a text",
            )
        turns = parse_messages(messages)
        label = self._ids.take(op_id, "add")
        try:
            decided = request_add(
                memory,
                turns,
                meant,
                self._rules,
                op_id=label,
                idempotency_key=idempotency_key,
                type_=self._add_job,
                correlation_id=self._correlation(),
            )
        except BaseException:
            self._ids.release(label)
            raise
        (job_id,) = decided.jobs()
        handle = AgentMemoryAddOperation(label, job_id, self._ids.release, self._cancel)
        if not decided.created:
            handle.follow(self._services.jobs.get(job_id))
        self._worker.add(job_id, handle)
        return handle

    def search(
        self,
        query: str,
        scope: Scope | OperationScope | None,
        k: int = 10,
        op_id: str | None = None,
    ) -> AgentMemorySearchOperation:
        """
        Looks for the items of a scope that answer a question best, in a thread. Only the scope's
        items are searched at all, so a small owner gets its full ``k``.

        Args:
            query: The question; at most 16,384 characters.
            scope: As for ``add``; items must fit every field that is given.
            k: How many at most, 1..1,000.
            op_id: As for ``add``.
        """
        memory, meant = self._as(scope)
        check_query(query)
        check_whole("k", k, 1, MOST_RESULTS)
        memory.allow("items.search", Right.USE)
        handle = AgentMemorySearchOperation(
            self._ids.take(op_id, "search"), lambda label: self._search_over(handle, label)
        )
        with self._lock:
            self._require_open()
            self._searches.add(handle)
            self._searching.submit(handle.run, lambda: self._items.search(memory, meant, query, k))
        return handle

    def get_all(self, scope: Scope | OperationScope | None) -> list[MemoryNode]:
        """Every item of a scope, in the order in which they were made; read from the log."""
        memory, meant = self._as(scope)
        return self._items.all(memory, meant)

    def update(self, id: UUID | str, content: str) -> None:
        """
        Gives an item other words; the former ones stay in history. No model overwrites them
        afterwards with words that only mean nearly the same.

        Args:
            id: Which.
            content: The words.

        Raises:
            InputError: There is no such item now (``unknown_memory``).
        """
        memory, state = self._one(id)

        def reworded(now: MemoryState) -> Replace:
            assert isinstance(now.payload, Item)
            kept = now.payload.model_dump(
                mode="json", exclude={"kind", "content"}, exclude_none=True
            )
            given = {"kind": ITEM, "details": kept, "source_tier": SourceTier.MANUAL}
            return Replace(memory_id=now.memory_id, command=memory.remember_command(content, given))

        if state is None or not self._changed("items.update", memory, state, reworded):
            raise InputError(
                f"there is no item {parse_id('id', id)}.",
                code="unknown_memory",
                field="id",
                value=str(id),
            )

    def delete(self, id: UUID | str) -> bool:
        """
        Ends an item as ``forgotten``; history keeps it, and only ``erase`` destroys.

        Returns:
            Whether there was one; False for an unknown id, where ``update``, which answers
            nothing, raises. Both are as in reference system B.
        """
        memory, state = self._one(id)
        if state is None:
            return False

        def forgotten(now: MemoryState) -> End:
            return End(memory_id=now.memory_id, because=ReasonCode.FORGOTTEN)

        return self._changed("items.delete", memory, state, forgotten)

    def destroy(self) -> None:
        """
        Ends the background work and lets go of everything. What was accepted and is not done
        stays in the ledger: the next ``agent_memory`` of this tenant or ``jobs run`` does it.
        Handles that are open say so to whoever waits for them. Calling it again does nothing.
        """
        with self._lock:
            if self._destroyed:
                return
            self._destroyed = True
        self._worker.close()
        if self._bridge is not None:
            self._bridge.close()
        self._searching.shutdown(wait=True, cancel_futures=True)
        with self._lock:
            left = list(self._searches)
        for search in left:
            search.leave()
        self.events.close()
        self.size.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.destroy()

    def _as(self, scope: object) -> tuple[Memory, OperationScope]:
        """A handle as whom a scope means."""
        with self._lock:
            self._require_open()
        meant = parse_scope(scope, self._ledger.settings.limits)
        return self._of(meant), meant

    def _require_open(self) -> None:
        if self._destroyed:
            raise InputError("this memory was destroyed; make another one.", code="closed")

    def _of(self, scope: OperationScope) -> Memory:
        return self._ledger.memory(tenant=self._tenant, user=scope.user_id, agent=scope.agent_id)

    def _bridged(self, shared: SharedOptions) -> SharedBridge:
        everybody = self._ledger.memory(tenant=self._tenant)
        return SharedBridge(everybody, self._told, shared, kinds=(ITEM,), all_owners=True)

    def _told(self, event: MemoryEvent) -> None:
        self.events.publish(event)
        self.size.changed()

    def _correlation(self) -> UUID | None:
        return None if self._bridge is None else self._bridge.correlation_id()

    def _acting(self, principal: Principal, branch: str) -> Memory:
        return Memory(self._services, self._ledger.settings, principal, branch)

    def _language_model(self) -> ModelProvider:
        settings = self._ledger.settings
        return self._model or make_model(settings.model, settings.openai_endpoint)

    def _can_take_up(self, type_: str) -> bool:
        """Whether what others accepted is done here, and would not fail for want of a model."""
        if type_ == self._add_job and self._model is None:
            try:
                self._language_model()
            except InputError:
                return False
        return True

    def _cancel(self, job_id: UUID) -> tuple[Job, bool]:
        principal = Principal(tenant=self._tenant, rights=self._ledger.rights)
        try:
            job = self._services.jobs.cancel(principal, job_id)
        except InputError:
            # Somebody was faster, and has perhaps not told the handle yet.
            return self._services.jobs.get(job_id), False
        self._worker.cancelled(job)
        return job, True

    def _one(self, given: object) -> tuple[Memory, MemoryState | None]:
        """An item by its id, and a handle as whose it is."""
        with self._lock:
            self._require_open()
        memory_id = parse_id("id", given)
        anybody = self._ledger.memory(tenant=self._tenant)
        anybody.allow("items.show", Right.USE)
        state = item_by_id(anybody, memory_id)
        nodes = [] if state is None else nodes_of(anybody, [state])
        return (self._of(scope_of_node(nodes[0])), state) if nodes else (anybody, None)

    def _changed(
        self,
        command: str,
        memory: Memory,
        state: MemoryState,
        step: Callable[[MemoryState], Replace | End],
    ) -> bool:
        """Changes an item of whoever has it, as it is by then, unless it has ended meanwhile."""
        memory.allow(command, Right.USE)
        (node,) = nodes_of(memory, [state])
        scope, first = scope_of_node(node), step(state)

        def decision(seen: Slice) -> Sequence[Step]:
            now = seen.states.get(state.memory_id)
            return [step(now)] if now is not None and seen.is_current(now) else []

        content = first.command.content if isinstance(first, Replace) else None
        correlation_id = self._correlation()
        decided = self._services.deciding.decide(
            memory.principal,
            memory.branch_view(),
            scope.owner(self._tenant),
            (ITEM,),
            decision,
            Request(
                command=command,
                arguments={"id": str(state.memory_id), "content": content},
                correlation_id=correlation_id,
            ),
        )
        contents = {} if content is None else {0: content}
        for event in memory_events(decided, contents, scope, correlation_id):
            self._told(event)
        return bool(decided.events)

    def _stored(self, scope: OperationScope, stored: Stored, correlation_id: UUID) -> None:
        for job_id in stored.decided.jobs():
            self._worker.add(job_id)
        for event in memory_events(stored.decided, stored.contents, scope, correlation_id):
            self._told(event)

    def _search_over(self, handle: AgentMemorySearchOperation, label: str) -> None:
        with self._lock:
            self._searches.discard(handle)
        self._ids.release(label)
