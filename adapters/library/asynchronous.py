"""The asynchronous surface: the methods of ``Ledger`` and ``Memory``, to be awaited."""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from memoriale.adapters.library.access import LedgerAccess
from memoriale.adapters.library.async_stores import (
    AsyncCorrectionStore,
    AsyncDecisionLog,
    AsyncEntityMemory,
    AsyncFileMemory,
    AsyncLearnedKnowledge,
    AsyncLedgerGraph,
    AsyncProcedureMemory,
    AsyncSessionManager,
    AsyncSummaries,
    AsyncUserFacts,
    AsyncUserProfile,
    AsyncWorkingStore,
    offering,
)
from memoriale.adapters.library.awaiting import THREADS, Threads, Twin, awaited, iterated
from memoriale.adapters.library.jobs import LedgerJobs
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.settings import Settings
from memoriale.domain.errors import InputError
from memoriale.domain.principal import Principal, Right

P = ParamSpec("P")
H = TypeVar("H")


def handing_out(
    method: Callable[Concatenate[H, P], Memory],
) -> "Callable[Concatenate[Any, P], Coroutine[Any, Any, AsyncMemory]]":
    """
    As ``awaited``, for a method that returns a handle.

    Args:
        method: The method.
    """
    call = awaited(method)

    @wraps(method)
    async def wrapped(self: Twin, /, *args: P.args, **kwargs: P.kwargs) -> "AsyncMemory":
        return AsyncMemory(await call(self, *args, **kwargs), self.threads)

    return wrapped


class AsyncMemory:
    """
    ``Memory`` for programs with an event loop: its methods, awaited.

    A write whose awaiter was cancelled may be stored or not; repeat it with an idempotency key
    to find out. Made by ``AsyncLedger.memory``.
    """

    def __init__(self, memory: Memory, threads: Threads) -> None:
        self.synchronous, self.threads = memory, threads

    @property
    def principal(self) -> Principal:
        """Who acts."""
        return self.synchronous.principal

    @property
    def branch_name(self) -> str:
        """The branch that it acts on."""
        return self.synchronous.branch_name

    branch = handing_out(Memory.branch)
    fork = handing_out(Memory.fork)
    branches = awaited(Memory.branches)
    tree = awaited(Memory.tree)
    diff = awaited(Memory.diff)
    merge = awaited(Memory.merge)
    approve = awaited(Memory.approve)
    discard = awaited(Memory.discard)
    episodic = awaited(Memory.episodic)
    episodic_tree = awaited(Memory.episodic_tree)
    remember = awaited(Memory.remember)
    remember_many = awaited(Memory.remember_many)
    import_lines = awaited(Memory.import_lines)
    correct = awaited(Memory.correct)
    amend = awaited(Memory.amend)
    invalidate = awaited(Memory.invalidate)
    reinstate = awaited(Memory.reinstate)
    recall = awaited(Memory.recall)
    show = awaited(Memory.show)
    history = awaited(Memory.history)
    list = awaited(Memory.list)
    context = awaited(Memory.context)
    get_tools = offering(Memory.get_tools)
    explain = awaited(Memory.explain)
    subscribe = iterated(Memory.subscribe, endless=True)

    @property
    def facts(self) -> AsyncUserFacts:
        """Facts of the user."""
        return AsyncUserFacts(self.synchronous.facts, self.threads)

    @property
    def profile(self) -> AsyncUserProfile:
        """The profile of the user."""
        return AsyncUserProfile(self.synchronous.profile, self.threads)

    @property
    def entities(self) -> AsyncEntityMemory:
        """Entities that the user spoke of, at the handle's path."""
        return AsyncEntityMemory(self.synchronous.entities, self.threads)

    @property
    def decisions(self) -> AsyncDecisionLog:
        """Decisions of the agent."""
        return AsyncDecisionLog(self.synchronous.decisions, self.threads)

    @property
    def learnings(self) -> AsyncLearnedKnowledge:
        """Insights of the user, the agent and the tenant."""
        return AsyncLearnedKnowledge(self.synchronous.learnings, self.threads)

    @property
    def corrections(self) -> AsyncCorrectionStore:
        """What people put right."""
        return AsyncCorrectionStore(self.synchronous.corrections, self.threads)

    @property
    def procedures(self) -> AsyncProcedureMemory:
        """Calls of tools that led to success."""
        return AsyncProcedureMemory(self.synchronous.procedures, self.threads)

    @property
    def summaries(self) -> AsyncSummaries:
        """Summaries of sessions."""
        return AsyncSummaries(self.synchronous.summaries, self.threads)

    @property
    def working(self) -> AsyncWorkingStore:
        """Values by key, of the resource."""
        return AsyncWorkingStore(self.synchronous.working, self.threads)

    @property
    def files(self) -> AsyncFileMemory:
        """The notebooks of the agent and about the user."""
        return AsyncFileMemory(self.synchronous.files, self.threads)

    @property
    def graph(self) -> AsyncLedgerGraph:
        """The knowledge graph of the user."""
        return AsyncLedgerGraph(self.synchronous.graph, self.threads)

    @property
    def sessions(self) -> AsyncSessionManager:
        """The conversations of the user."""
        return AsyncSessionManager(self.synchronous.sessions, self.threads)


class AsyncLedgerAccess:
    """``LedgerAccess`` for programs with an event loop: its answers are asynchronous iterators."""

    def __init__(self, access: LedgerAccess, threads: Threads) -> None:
        self.synchronous, self.threads = access, threads

    who_saw = iterated(LedgerAccess.who_saw)
    what_was_told = iterated(LedgerAccess.what_was_told)
    by = iterated(LedgerAccess.by)


class AsyncLedgerJobs:
    """``LedgerJobs`` for programs with an event loop: its methods, awaited."""

    def __init__(self, jobs: LedgerJobs, threads: Threads) -> None:
        self.synchronous, self.threads = jobs, threads

    get = awaited(LedgerJobs.get)
    cancel = awaited(LedgerJobs.cancel)
    retry = awaited(LedgerJobs.retry)
    run = awaited(LedgerJobs.run)
    worker = awaited(LedgerJobs.worker)
    compare = awaited(LedgerJobs.compare)
    list = awaited(LedgerJobs.list)


class AsyncLedger:
    """
    ``Ledger`` for programs with an event loop: its methods, awaited; ``events`` and
    ``subscribe`` are asynchronous iterators. Made by ``memoriale.open_async``.

    Nothing of it blocks the event loop: calls run in threads, ``threads`` of them at once, and
    each subscription waits in a thread of its own. Cancelling leaves the ledger usable.

    Args:
        opening: Opens the ledger.
        threads: How many calls run at once, 1..256.
    """

    def __init__(self, opening: Callable[[], Ledger], threads: int = THREADS) -> None:
        self.threads = Threads(threads)
        self._opening = opening
        self._ledger: Ledger | None = None

    @property
    def synchronous(self) -> Ledger:
        """The ledger under it."""
        if self._ledger is None:
            raise InputError(
                "this ledger is not open; use it as 'async with memoriale.open_async() as ledger'.",
                code="not_open",
            )
        return self._ledger

    @property
    def settings(self) -> Settings:
        """How it runs."""
        return self.synchronous.settings

    @property
    def rights(self) -> frozenset[Right]:
        """What this program asserts."""
        return self.synchronous.rights

    @property
    def access(self) -> AsyncLedgerAccess:
        """Who was given which memory."""
        return AsyncLedgerAccess(self.synchronous.access, self.threads)

    @property
    def jobs(self) -> AsyncLedgerJobs:
        """Background work."""
        return AsyncLedgerJobs(self.synchronous.jobs, self.threads)

    memory = handing_out(Ledger.memory)
    replay = awaited(Ledger.replay)
    reconcile = awaited(Ledger.reconcile)
    verify = awaited(Ledger.verify)
    checkpoint = awaited(Ledger.checkpoint)
    receipt = awaited(Ledger.receipt)
    bundle = awaited(Ledger.bundle)
    consistency = awaited(Ledger.consistency)
    restored = awaited(Ledger.restored)
    signing_keys = awaited(Ledger.signing_keys)
    rotate_signing_key = awaited(Ledger.rotate_signing_key)
    anchors = awaited(Ledger.anchors)
    witness_keys = awaited(Ledger.witness_keys)
    push = awaited(Ledger.push)
    witnessed = awaited(Ledger.witnessed)
    position = awaited(Ledger.position)
    wait = awaited(Ledger.wait)
    ahead = awaited(Ledger.ahead)
    sql = awaited(Ledger.sql)
    snapshot = awaited(Ledger.snapshot)
    stats = awaited(Ledger.stats)
    describe = awaited(Ledger.describe)
    events = iterated(Ledger.events)
    subscribe = iterated(Ledger.subscribe, endless=True)

    async def close(self) -> None:
        """Ends subscriptions, waits for running calls and lets go of everything."""
        close = (lambda: None) if self._ledger is None else self._ledger.close
        await asyncio.to_thread(self.threads.end, close)

    async def __aenter__(self) -> Self:
        opened = self.threads.submit(self._opening)
        try:
            self._ledger = await asyncio.wrap_future(opened)
        except asyncio.CancelledError:
            opened.add_done_callback(_close_again)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


def _close_again(opened: "Future[Ledger]") -> None:
    if not opened.cancelled() and opened.exception() is None:
        opened.result().close()
