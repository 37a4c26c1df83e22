"""The stores of a handle, and what they tell together."""

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING
from uuid import UUID

from memoriale.adapters.application.explaining import Explanation
from memoriale.adapters.application.reading import AsOf
from memoriale.adapters.library.bound import Bound
from memoriale.domain.fields import choice, parse_id
from memoriale.domain.principal import Right
from memoriale.domain.stores.context import WEIGHTS, Context, check_priorities
from memoriale.domain.values import check_whole

if TYPE_CHECKING:
    from memoriale.adapters.library.memory import Memory
    from memoriale.adapters.library.stores.corrections import CorrectionStore
    from memoriale.adapters.library.stores.decisions import DecisionLog
    from memoriale.adapters.library.stores.entities import EntityMemory
    from memoriale.adapters.library.stores.facts import UserFacts
    from memoriale.adapters.library.stores.files import FileMemory
    from memoriale.adapters.library.stores.learnings import LearnedKnowledge
    from memoriale.adapters.library.stores.ledger_graph import LedgerGraph
    from memoriale.adapters.library.stores.procedures import ProcedureMemory
    from memoriale.adapters.library.stores.profile import UserProfile
    from memoriale.adapters.library.stores.sessions import SessionManager
    from memoriale.adapters.library.stores.stores import Stores
    from memoriale.adapters.library.stores.summaries import Summaries
    from memoriale.adapters.library.stores.working import WorkingStore
    from memoriale.domain.tools import ToolDef


class WithStores(Bound):
    """The part of ``Memory`` that hands out stores; each has the defaults of its class."""

    @cached_property
    def facts(self) -> "UserFacts":
        """Facts of the user."""
        from memoriale.adapters.library.stores.facts import UserFacts

        return UserFacts(self._handle())

    @cached_property
    def profile(self) -> "UserProfile":
        """The profile of the user."""
        from memoriale.adapters.library.stores.profile import UserProfile

        return UserProfile(self._handle())

    @cached_property
    def entities(self) -> "EntityMemory":
        """Entities that the user spoke of, at the handle's path."""
        from memoriale.adapters.library.stores.entities import EntityMemory

        return EntityMemory(self._handle())

    @cached_property
    def decisions(self) -> "DecisionLog":
        """Decisions of the agent."""
        from memoriale.adapters.library.stores.decisions import DecisionLog

        return DecisionLog(self._handle())

    @cached_property
    def learnings(self) -> "LearnedKnowledge":
        """Insights of the user, the agent and the tenant."""
        from memoriale.adapters.library.stores.learnings import LearnedKnowledge

        return LearnedKnowledge(self._handle())

    @cached_property
    def corrections(self) -> "CorrectionStore":
        """What people put right."""
        from memoriale.adapters.library.stores.corrections import CorrectionStore

        return CorrectionStore(self._handle())

    @cached_property
    def procedures(self) -> "ProcedureMemory":
        """Calls of tools that led to success."""
        from memoriale.adapters.library.stores.procedures import ProcedureMemory

        return ProcedureMemory(self._handle())

    @cached_property
    def summaries(self) -> "Summaries":
        """Summaries of sessions."""
        from memoriale.adapters.library.stores.summaries import Summaries

        return Summaries(self._handle())

    @cached_property
    def files(self) -> "FileMemory":
        """The notebooks of the agent and about the user."""
        from memoriale.adapters.library.stores.files import FileMemory

        return FileMemory(self._handle())

    @cached_property
    def graph(self) -> "LedgerGraph":
        """The knowledge graph of the user."""
        from memoriale.adapters.library.stores.ledger_graph import LedgerGraph

        return LedgerGraph(self._handle())

    @cached_property
    def sessions(self) -> "SessionManager":
        """The conversations of the user."""
        from memoriale.adapters.library.stores.sessions import SessionManager

        return SessionManager(self._handle())

    @cached_property
    def working(self) -> "WorkingStore":
        """Values by key, of the resource."""
        from memoriale.adapters.library.stores.working import WorkingStore

        return WorkingStore(self._handle())

    def context(
        self,
        query: str | None = None,
        *,
        max_tokens: int | None = None,
        priorities: Mapping[str, float] | None = None,
        as_of: AsOf = None,
    ) -> Context:
        """
        What a model is to know for a question, from every store: one fenced block of data with a
        section for each store that has something. The access log keeps which memories it told.

        Args:
            query: What is asked; learnings, corrections, the graph and procedures need it.
            max_tokens: Most tokens of the whole text; None for no limit.
            priorities: Weights of sections over the defaults; 0 leaves one out. See
                ``domain.stores.context.WEIGHTS``.
            as_of: As then: an index or a time.
        """
        self.allow("context", Right.USE)
        if max_tokens is not None:
            check_whole("max_tokens", max_tokens, 1, 10**9)
        weights = check_priorities(priorities or {})
        for name in weights:
            choice("priorities", name, WEIGHTS)
        budget = {"max_tokens": max_tokens, "priorities": weights}
        return self._every_store(budget).context(None, None, query, as_of=as_of)

    def get_tools(self) -> "list[ToolDef]":
        """The tools of every store, for this handle."""
        self.allow("tools", Right.USE)
        return [tool for store in self._every_store({}).active() for tool in store.get_tools()]

    def explain(
        self, memory_id: UUID | str, *, as_of: AsOf = None, all_owners: bool = False
    ) -> Explanation:
        """
        Where a memory comes from: who said it, on what it rests, which model and prompt made it,
        what it replaced, what replaced it and what it was made from, and in which appends.
        It is read from the log alone.

        Args:
            memory_id: Its id.
            as_of: As then: an index or a time.
            all_owners: Whoever's it is; right ``audit``, and what people wrote only with
                ``content`` too.
        """
        scope, text = self._reader_scope("explain", all_owners)
        branch, pin = self._resolved(), self.services.reading.pin(as_of)
        found = parse_id("memory_id", memory_id)
        explained = self.services.explaining.explain(
            found, branch, scope, pin.limit, self._presenter(branch, scope)
        )
        if not text:
            return explained.without_text()
        versions = [(found, version.index) for version in explained.versions]
        self.given("explain", versions, index=pin.index, as_of=as_of, branch=branch)
        return explained

    def _handle(self) -> "Memory":
        from memoriale.adapters.library.memory import Memory

        assert isinstance(self, Memory)
        return self

    def _every_store(self, budget: Mapping[str, object]) -> "Stores":
        from memoriale.adapters.library.stores.stores import Stores, every_store

        return Stores(every_store(self._handle(), budget))
