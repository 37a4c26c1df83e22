"""The stores to be awaited: each method calls the one of the store itself, in a thread."""

from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial, wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from memoriale.adapters.library.awaiting import Threads, Twin, awaited
from memoriale.adapters.library.stores.corrections import CorrectionStore
from memoriale.adapters.library.stores.curator import Curator
from memoriale.adapters.library.stores.decisions import DecisionLog
from memoriale.adapters.library.stores.entities import EntityMemory
from memoriale.adapters.library.stores.facts import UserFacts
from memoriale.adapters.library.stores.files import FileMemory
from memoriale.adapters.library.stores.graph import GraphMemory
from memoriale.adapters.library.stores.learnings import LearnedKnowledge
from memoriale.adapters.library.stores.ledger_graph import LedgerGraph
from memoriale.adapters.library.stores.procedures import ProcedureMemory
from memoriale.adapters.library.stores.profile import UserProfile
from memoriale.adapters.library.stores.sessions import SessionManager
from memoriale.adapters.library.stores.summaries import Summaries
from memoriale.adapters.library.stores.working import WorkingStore
from memoriale.domain.tools import ToolDef

P = ParamSpec("P")
H = TypeVar("H")
S = TypeVar("S")


class AsyncStore(Generic[S]):
    """
    A store for programs with an event loop.

    Args:
        store: The store itself.
        threads: Where its calls run.
    """

    def __init__(self, store: S, threads: Threads) -> None:
        self.synchronous, self.threads = store, threads


def awaitable_tool(tool: ToolDef, threads: Threads) -> ToolDef:
    """The tool with a handler to be awaited."""

    async def handler(given: Any) -> Any:
        return await threads.run(partial(tool.handler, given))

    return replace(tool, handler=handler)


def offering(
    method: Callable[Concatenate[H, P], list[ToolDef]],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, list[ToolDef]]]:
    """
    As ``awaited``, for a method that returns tools: their handlers are to be awaited, too.

    Args:
        method: The method.
    """
    call = awaited(method)

    @wraps(method)
    async def wrapped(self: Twin, /, *args: P.args, **kwargs: P.kwargs) -> list[ToolDef]:
        found = await call(self, *args, **kwargs)
        return [awaitable_tool(tool, self.threads) for tool in found]

    return wrapped


def offering_one(
    method: Callable[Concatenate[H, P], ToolDef],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, ToolDef]]:
    """
    The same for a method that returns one tool.

    Args:
        method: The method.
    """
    call = awaited(method)

    @wraps(method)
    async def wrapped(self: Twin, /, *args: P.args, **kwargs: P.kwargs) -> ToolDef:
        return awaitable_tool(await call(self, *args, **kwargs), self.threads)

    return wrapped


class AsyncUserFacts(AsyncStore[UserFacts]):
    """``UserFacts``, awaited."""

    get_facts = awaited(UserFacts.get_facts)
    get_active_facts = awaited(UserFacts.get_active_facts)
    add_facts = awaited(UserFacts.add_facts)
    remove_fact = awaited(UserFacts.remove_fact)
    forget_by_text = awaited(UserFacts.forget_by_text)
    clear = awaited(UserFacts.clear)
    get_context_string = awaited(UserFacts.get_context_string)
    as_tool = offering_one(UserFacts.as_tool)
    get_tools = offering(UserFacts.get_tools)
    extract_and_store = awaited(UserFacts.extract_and_store)


class AsyncUserProfile(AsyncStore[UserProfile]):
    """``UserProfile``, awaited."""

    get_profile = awaited(UserProfile.get_profile)
    update_profile = awaited(UserProfile.update_profile)
    clear = awaited(UserProfile.clear)
    get_context_string = awaited(UserProfile.get_context_string)
    as_tool = offering_one(UserProfile.as_tool)
    get_tools = offering(UserProfile.get_tools)
    extract_and_update = awaited(UserProfile.extract_and_update)


class AsyncEntityMemory(AsyncStore[EntityMemory]):
    """``EntityMemory``, awaited."""

    get_entity = awaited(EntityMemory.get_entity)
    list_entities = awaited(EntityMemory.list_entities)
    search_entities = awaited(EntityMemory.search_entities)
    get_context_string = awaited(EntityMemory.get_context_string)
    upsert_entity = awaited(EntityMemory.upsert_entity)
    upsert_entities = awaited(EntityMemory.upsert_entities)
    add_fact = awaited(EntityMemory.add_fact)
    add_event = awaited(EntityMemory.add_event)
    add_relationship = awaited(EntityMemory.add_relationship)
    invalidate = awaited(EntityMemory.invalidate)
    delete_entity = awaited(EntityMemory.delete_entity)
    clear = awaited(EntityMemory.clear)
    get_tools = offering(EntityMemory.get_tools)
    extract_entities = awaited(EntityMemory.extract_entities)


class AsyncDecisionLog(AsyncStore[DecisionLog]):
    """``DecisionLog``, awaited."""

    log_decision = awaited(DecisionLog.log_decision)
    record_outcome = awaited(DecisionLog.record_outcome)
    get_decisions = awaited(DecisionLog.get_decisions)
    search_decisions = awaited(DecisionLog.search_decisions)
    clear = awaited(DecisionLog.clear)
    get_context_string = awaited(DecisionLog.get_context_string)
    log_tool_call_as_decision = awaited(DecisionLog.log_tool_call_as_decision)
    get_tools = offering(DecisionLog.get_tools)


class AsyncLearnedKnowledge(AsyncStore[LearnedKnowledge]):
    """``LearnedKnowledge``, awaited."""

    save_learning = awaited(LearnedKnowledge.save_learning)
    search_learnings = awaited(LearnedKnowledge.search_learnings)
    get_learning = awaited(LearnedKnowledge.get_learning)
    delete_learning = awaited(LearnedKnowledge.delete_learning)
    invalidate_learning = awaited(LearnedKnowledge.invalidate_learning)
    invalidate_contradicted = awaited(LearnedKnowledge.invalidate_contradicted)
    prune_learnings = awaited(LearnedKnowledge.prune_learnings)
    get_context_string = awaited(LearnedKnowledge.get_context_string)
    get_tools = offering(LearnedKnowledge.get_tools)
    extract_learnings = awaited(LearnedKnowledge.extract_learnings)
    reconcile = awaited(LearnedKnowledge.reconcile)


class AsyncCorrectionStore(AsyncStore[CorrectionStore]):
    """``CorrectionStore``, awaited."""

    record_correction = awaited(CorrectionStore.record_correction)
    search_corrections = awaited(CorrectionStore.search_corrections)
    get_correction = awaited(CorrectionStore.get_correction)
    delete_correction = awaited(CorrectionStore.delete_correction)
    list_corrections = awaited(CorrectionStore.list_corrections)
    to_eval_cases = awaited(CorrectionStore.to_eval_cases)
    get_stats = awaited(CorrectionStore.get_stats)
    get_context_string = awaited(CorrectionStore.get_context_string)
    get_tools = offering(CorrectionStore.get_tools)
    reconcile = awaited(CorrectionStore.reconcile)


class AsyncProcedureMemory(AsyncStore[ProcedureMemory]):
    """``ProcedureMemory``, awaited."""

    get_procedures = awaited(ProcedureMemory.get_procedures)
    get_procedure = awaited(ProcedureMemory.get_procedure)
    save_procedure = awaited(ProcedureMemory.save_procedure)
    suggest_procedure = awaited(ProcedureMemory.suggest_procedure)
    get_context_string = awaited(ProcedureMemory.get_context_string)
    clear = awaited(ProcedureMemory.clear)
    get_tools = offering(ProcedureMemory.get_tools)
    extract_procedures = awaited(ProcedureMemory.extract_procedures)
    reconcile = awaited(ProcedureMemory.reconcile)


class AsyncSummaries(AsyncStore[Summaries]):
    """``Summaries``, awaited."""

    summarize = awaited(Summaries.summarize)
    request_summary = awaited(Summaries.request_summary)
    get_summaries = awaited(Summaries.get_summaries)
    list_summaries = awaited(Summaries.list_summaries)
    get_context_string = awaited(Summaries.get_context_string)
    clear = awaited(Summaries.clear)


class AsyncWorkingStore(AsyncStore[WorkingStore]):
    """``WorkingStore``, awaited."""

    get = awaited(WorkingStore.get)
    entry = awaited(WorkingStore.entry)
    set = awaited(WorkingStore.set)
    list = awaited(WorkingStore.list)
    delete = awaited(WorkingStore.delete)


class AsyncFileMemory(AsyncStore[FileMemory]):
    """``FileMemory``, awaited."""

    get_entries = awaited(FileMemory.get_entries)
    add = awaited(FileMemory.add)
    replace = awaited(FileMemory.replace)
    remove = awaited(FileMemory.remove)
    get_context_string = awaited(FileMemory.get_context_string)
    get_tools = offering(FileMemory.get_tools)


class AsyncLedgerGraph(AsyncStore[LedgerGraph]):
    """``LedgerGraph``, awaited."""

    initialize = awaited(LedgerGraph.initialize)
    get_node = awaited(LedgerGraph.get_node)
    list_edges = awaited(LedgerGraph.list_edges)
    neighbours = awaited(LedgerGraph.neighbours)
    traverse = awaited(LedgerGraph.traverse)
    shortest_path = awaited(LedgerGraph.shortest_path)
    search = awaited(LedgerGraph.search)
    add = awaited(LedgerGraph.add)
    delete_node = awaited(LedgerGraph.delete_node)
    close_edge = awaited(LedgerGraph.close_edge)
    delete_edge = awaited(LedgerGraph.delete_edge)
    clear = awaited(LedgerGraph.clear)


class AsyncGraphMemory(AsyncStore[GraphMemory]):
    """``GraphMemory``, awaited."""

    initialize = awaited(GraphMemory.initialize)
    get_store = awaited(GraphMemory.get_store)
    get_context_string = awaited(GraphMemory.get_context_string)
    get_tools = offering(GraphMemory.get_tools)
    extract_from_conversation = awaited(GraphMemory.extract_from_conversation)


class AsyncSessionManager(AsyncStore[SessionManager]):
    """``SessionManager``, awaited."""

    get_or_create_session = awaited(SessionManager.get_or_create_session)
    get_session = awaited(SessionManager.get_session)
    list_sessions = awaited(SessionManager.list_sessions)
    append_messages = awaited(SessionManager.append_messages)
    get_history = awaited(SessionManager.get_history)
    update_state = awaited(SessionManager.update_state)


class AsyncCurator(AsyncStore[Curator]):
    """``Curator``, awaited."""

    prune = awaited(Curator.prune)
    deduplicate = awaited(Curator.deduplicate)
    consolidate = awaited(Curator.consolidate)
    clear_all = awaited(Curator.clear_all)
    reconcile = awaited(Curator.reconcile)
