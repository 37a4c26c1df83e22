"""An event-sourced memory ledger for AI agents."""

from typing import TYPE_CHECKING, Any

from memoriale.domain.errors import (
    BehindError,
    ConflictError,
    CorruptViewError,
    ForkedHandleError,
    InputError,
    MemorialeError,
    MissingRightError,
    RefusedError,
    UnavailableError,
)
from memoriale.domain.namespaces import is_ancestor, resolve_scope, scope_key, scope_matches
from memoriale.domain.scoring import compute_composite_score, recency_decay

if TYPE_CHECKING:
    from memoriale.adapters.importing.report import ImportInterruptedError
    from memoriale.adapters.library.asynchronous import AsyncLedger, AsyncMemory
    from memoriale.adapters.library.ledger import Ledger
    from memoriale.adapters.library.memory import Memory
    from memoriale.adapters.library.stores.entities import EntityMemory
    from memoriale.adapters.library.stores.graph import GraphMemory
    from memoriale.adapters.library.stores.ledger_graph import LedgerGraph
    from memoriale.adapters.library.stores.procedures import ProcedureMemory
    from memoriale.adapters.library.stores.sessions import SessionManager
    from memoriale.adapters.library.stores.summaries import Summaries
    from memoriale.domain.chat import ChatMessage, ModelProvider, ModelReply, ToolCall
    from memoriale.domain.payloads import ProcedureStep
    from memoriale.domain.principal import Principal, Right
    from memoriale.domain.receipt import Receipt
    from memoriale.domain.stores.entities import (
        Entity,
        EntityConfig,
        EntityEvent,
        EntityFact,
        EntityRelationship,
    )
    from memoriale.domain.stores.graph import (
        GraphMemoryConfig,
        GraphMemoryFeatureConfig,
        GraphStore,
    )
    from memoriale.domain.stores.procedures import (
        NewProcedure,
        Procedure,
        ProcedureMemoryConfig,
        ProceduresConfig,
    )
    from memoriale.domain.stores.sessions import Session
    from memoriale.domain.stores.summaries import SummaryConfig, SummaryEntry
    from memoriale.domain.tokens import CharacterCounter, TokenCounter

__all__ = [
    "AsyncLedger",
    "AsyncMemory",
    "BehindError",
    "CharacterCounter",
    "ChatMessage",
    "ConflictError",
    "CorruptViewError",
    "Entity",
    "EntityConfig",
    "EntityEvent",
    "EntityFact",
    "EntityMemory",
    "EntityRelationship",
    "ForkedHandleError",
    "GraphMemory",
    "GraphMemoryConfig",
    "GraphMemoryFeatureConfig",
    "GraphStore",
    "ImportInterruptedError",
    "InputError",
    "Ledger",
    "LedgerGraph",
    "MemorialeError",
    "Memory",
    "MissingRightError",
    "ModelProvider",
    "ModelReply",
    "NewProcedure",
    "Principal",
    "Procedure",
    "ProcedureMemory",
    "ProcedureMemoryConfig",
    "ProcedureStep",
    "ProceduresConfig",
    "Receipt",
    "RefusedError",
    "Right",
    "Session",
    "SessionManager",
    "Summaries",
    "SummaryConfig",
    "SummaryEntry",
    "TokenCounter",
    "ToolCall",
    "UnavailableError",
    "__version__",
    "compute_composite_score",
    "is_ancestor",
    "open",
    "open_async",
    "recency_decay",
    "resolve_scope",
    "scope_key",
    "scope_matches",
]

# Loaded when first asked for, so that the command line starts fast.
_LAZY = {
    "AsyncLedger": "memoriale.adapters.library.asynchronous",
    "AsyncMemory": "memoriale.adapters.library.asynchronous",
    "Entity": "memoriale.domain.stores.entities",
    "EntityConfig": "memoriale.domain.stores.entities",
    "EntityEvent": "memoriale.domain.stores.entities",
    "EntityFact": "memoriale.domain.stores.entities",
    "EntityMemory": "memoriale.adapters.library.stores.entities",
    "EntityRelationship": "memoriale.domain.stores.entities",
    "GraphMemory": "memoriale.adapters.library.stores.graph",
    "GraphMemoryConfig": "memoriale.domain.stores.graph",
    "GraphMemoryFeatureConfig": "memoriale.domain.stores.graph",
    "GraphStore": "memoriale.domain.stores.graph",
    "ImportInterruptedError": "memoriale.adapters.importing.report",
    "Ledger": "memoriale.adapters.library.ledger",
    "LedgerGraph": "memoriale.adapters.library.stores.ledger_graph",
    "Memory": "memoriale.adapters.library.memory",
    "Principal": "memoriale.domain.principal",
    "CharacterCounter": "memoriale.domain.tokens",
    "ChatMessage": "memoriale.domain.chat",
    "ModelProvider": "memoriale.domain.chat",
    "ModelReply": "memoriale.domain.chat",
    "NewProcedure": "memoriale.domain.stores.procedures",
    "Procedure": "memoriale.domain.stores.procedures",
    "ProcedureMemory": "memoriale.adapters.library.stores.procedures",
    "ProcedureMemoryConfig": "memoriale.domain.stores.procedures",
    "ProceduresConfig": "memoriale.domain.stores.procedures",
    "ProcedureStep": "memoriale.domain.payloads",
    "Receipt": "memoriale.domain.receipt",
    "Right": "memoriale.domain.principal",
    "Session": "memoriale.domain.stores.sessions",
    "SessionManager": "memoriale.adapters.library.stores.sessions",
    "Summaries": "memoriale.adapters.library.stores.summaries",
    "SummaryConfig": "memoriale.domain.stores.summaries",
    "SummaryEntry": "memoriale.domain.stores.summaries",
    "TokenCounter": "memoriale.domain.tokens",
    "ToolCall": "memoriale.domain.chat",
}


def open(*, rights: Any = None, **settings: Any) -> "Ledger":
    """
    Opens a ledger.

    Without arguments it lies in ``~/.memoriale`` and starts its own PostgreSQL there.

    Args:
        rights: Rights that this program asserts; default: all of them.
        **settings: Fields of ``Settings``, such as ``home``, ``database_url``, ``embedder`` or
            ``wait``; each overrides the variable ``MEMORIALE_<NAME>`` and ``memoriale.toml``.

    Raises:
        InputError: A wrong setting; names key, value and what is allowed.
        UnavailableError: Database or home cannot be used.
    """
    from memoriale.adapters.composition import build
    from memoriale.adapters.library.ledger import Ledger
    from memoriale.adapters.settings import load_settings
    from memoriale.domain.principal import ALL_RIGHTS

    infrastructure = build(load_settings(**settings))
    return Ledger(infrastructure, ALL_RIGHTS if rights is None else rights)


def open_async(*, rights: Any = None, threads: int = 8, **settings: Any) -> "AsyncLedger":
    """
    Opens a ledger for programs with an event loop: ``async with open_async() as ledger``.

    Args:
        rights: As for ``open``.
        threads: How many calls run at once, 1..256; further ones wait their turn.
        **settings: As for ``open``.

    Raises:
        InputError: A wrong number of threads; the other errors of ``open`` come when it is
            entered.
    """
    from memoriale.adapters.library.asynchronous import AsyncLedger

    return AsyncLedger(lambda: open(rights=rights, **settings), threads)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("memoriale")
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'memoriale' has no attribute {name!r}")
