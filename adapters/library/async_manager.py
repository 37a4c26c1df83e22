"""``AsyncMemoryManager``: the manager of sessions and stores, to be awaited."""

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from memoriale.adapters.library.async_stores import (
    AsyncCorrectionStore,
    AsyncCurator,
    AsyncDecisionLog,
    AsyncEntityMemory,
    AsyncFileMemory,
    AsyncGraphMemory,
    AsyncLearnedKnowledge,
    AsyncProcedureMemory,
    AsyncSessionManager,
    AsyncSummaries,
    AsyncUserFacts,
    AsyncUserProfile,
    offering,
)
from memoriale.adapters.library.asynchronous import AsyncMemory
from memoriale.adapters.library.awaiting import Threads, Twin, awaited
from memoriale.adapters.library.stores.manager import MemoryManager
from memoriale.domain.errors import InputError

P = ParamSpec("P")
H = TypeVar("H")
S = TypeVar("S")
T = TypeVar("T")


def handing_out(
    method: Callable[Concatenate[H, P], S | None], twin: Callable[[S, Threads], T]
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T | None]]:
    """
    As ``awaited``, for a method that returns a store, or None.

    Args:
        method: The method.
        twin: Makes the store's twin.
    """
    call = awaited(method)

    @wraps(method)
    async def wrapped(self: Twin, /, *args: P.args, **kwargs: P.kwargs) -> T | None:
        found = await call(self, *args, **kwargs)
        return None if found is None else twin(found, self.threads)

    return wrapped


class AsyncMemoryManager:
    """
    ``MemoryManager`` for programs with an event loop: its methods, awaited. Models and the event
    bus are called in threads.

    Args:
        storage: An asynchronous memory handle.
        **fields: The other fields of ``UnifiedMemoryConfig``.

    Raises:
        InputError: A field that is wrong.
    """

    def __init__(self, *, storage: AsyncMemory, **fields: Any) -> None:
        if not isinstance(storage, AsyncMemory):
            raise InputError(
                "storage must be an asynchronous memory handle, as ledger.memory(tenant=...) of "
                "memoriale.open_async returns it.",
                code="bad_value",
                field="storage",
                value=type(storage).__name__,
                allowed="an asynchronous memory handle",
            )
        self.storage, self.threads = storage, storage.threads
        self.synchronous = MemoryManager(storage=storage.synchronous, **fields)

    @property
    def session_manager(self) -> AsyncSessionManager:
        """The sessions."""
        return AsyncSessionManager(self.synchronous.session_manager, self.threads)

    @property
    def curator(self) -> AsyncCurator:
        """Maintenance of the stores."""
        return AsyncCurator(self.synchronous.curator, self.threads)

    ensure_ready = awaited(MemoryManager.ensure_ready)
    get_or_create_session = awaited(MemoryManager.get_or_create_session)
    append_messages = awaited(MemoryManager.append_messages)
    get_history = awaited(MemoryManager.get_history)
    update_state = awaited(MemoryManager.update_state)
    build_context = awaited(MemoryManager.build_context)
    context = awaited(MemoryManager.context)
    after_run = awaited(MemoryManager.after_run)
    await_extractions = awaited(MemoryManager.await_extractions)
    remember = awaited(MemoryManager.remember)
    recall = awaited(MemoryManager.recall)
    record_correction = awaited(MemoryManager.record_correction)
    forget = awaited(MemoryManager.forget)
    get_tools = offering(MemoryManager.get_tools)
    get_max_tokens = awaited(MemoryManager.get_max_tokens)
    get_max_messages = awaited(MemoryManager.get_max_messages)
    is_on = awaited(MemoryManager.is_on)
    get_user_facts = handing_out(MemoryManager.get_user_facts, AsyncUserFacts)
    get_user_profile = handing_out(MemoryManager.get_user_profile, AsyncUserProfile)
    get_entity_memory = handing_out(MemoryManager.get_entity_memory, AsyncEntityMemory)
    get_decision_log = handing_out(MemoryManager.get_decision_log, AsyncDecisionLog)
    get_learned_knowledge = handing_out(MemoryManager.get_learned_knowledge, AsyncLearnedKnowledge)
    get_correction_store = handing_out(MemoryManager.get_correction_store, AsyncCorrectionStore)
    get_summaries = handing_out(MemoryManager.get_summaries, AsyncSummaries)
    get_graph_memory = handing_out(MemoryManager.get_graph_memory, AsyncGraphMemory)
    get_procedure_memory = handing_out(MemoryManager.get_procedure_memory, AsyncProcedureMemory)
    get_file_memory = handing_out(MemoryManager.get_file_memory, AsyncFileMemory)
