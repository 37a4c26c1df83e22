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
from memoriale.domain.namespaces import (
    MemoryScope,
    is_ancestor,
    resolve_scope,
    scope_key,
    scope_matches,
)
from memoriale.domain.scoring import ScoringWeights, compute_composite_score, recency_decay

if TYPE_CHECKING:
    from memoriale.adapters.application.explaining import Explanation
    from memoriale.adapters.importing.report import ImportInterruptedError
    from memoriale.adapters.library.async_manager import AsyncMemoryManager
    from memoriale.adapters.library.asynchronous import AsyncLedger, AsyncMemory
    from memoriale.adapters.library.ledger import Ledger
    from memoriale.adapters.library.memory import Memory
    from memoriale.adapters.library.stores.config import UnifiedMemoryConfig
    from memoriale.adapters.library.stores.corrections import CorrectionStore
    from memoriale.adapters.library.stores.curated import CuratorStores
    from memoriale.adapters.library.stores.curator import Curator
    from memoriale.adapters.library.stores.decisions import DecisionLog
    from memoriale.adapters.library.stores.entities import EntityMemory
    from memoriale.adapters.library.stores.facts import UserFacts
    from memoriale.adapters.library.stores.files import FileMemory
    from memoriale.adapters.library.stores.graph import GraphMemory
    from memoriale.adapters.library.stores.keeping import ScoredMemory
    from memoriale.adapters.library.stores.learnings import LearnedKnowledge
    from memoriale.adapters.library.stores.ledger_graph import LedgerGraph
    from memoriale.adapters.library.stores.manager import Appended, MemoryManager
    from memoriale.adapters.library.stores.procedures import ProcedureMemory
    from memoriale.adapters.library.stores.profile import UserProfile
    from memoriale.adapters.library.stores.sessions import SessionManager
    from memoriale.adapters.library.stores.summaries import Summaries
    from memoriale.domain.chat import ChatMessage, ModelProvider, ModelReply, ToolCall
    from memoriale.domain.payloads import ProcedureStep
    from memoriale.domain.principal import Principal, Right
    from memoriale.domain.receipt import Receipt
    from memoriale.domain.stores.configs import (
        ConsolidateOptions,
        ContextBudgetConfig,
        CorrectionsConfig,
        DecisionConfig,
        EventBus,
        FileMemoryConfig,
        LearningsConfig,
        PruneOptions,
        UserFactsConfig,
        UserProfileConfig,
    )
    from memoriale.domain.stores.context import Context
    from memoriale.domain.stores.corrections import (
        Correction,
        CorrectionStats,
        EvalCase,
        NewCorrection,
    )
    from memoriale.domain.stores.curation import CurationReport
    from memoriale.domain.stores.decisions import Decision, NewDecision
    from memoriale.domain.stores.entities import (
        Entity,
        EntityConfig,
        EntityEvent,
        EntityFact,
        EntityRelationship,
        NewEntity,
    )
    from memoriale.domain.stores.facts import NewFact, UserFact
    from memoriale.domain.stores.files import FileMemoryTarget, FileReply
    from memoriale.domain.stores.graph import (
        GraphMemoryConfig,
        GraphMemoryFeatureConfig,
        GraphStore,
    )
    from memoriale.domain.stores.learnings import Learning, LearningSource, NewLearning
    from memoriale.domain.stores.procedures import (
        NewProcedure,
        Procedure,
        ProcedureMemoryConfig,
        ProceduresConfig,
    )
    from memoriale.domain.stores.profile import UserProfileData
    from memoriale.domain.stores.scopes import LearningScope, ProcedureScope
    from memoriale.domain.stores.sessions import Session, SessionEntry
    from memoriale.domain.stores.summaries import SummaryConfig, SummaryEntry
    from memoriale.domain.tokens import CharacterCounter, TokenCounter
    from memoriale.domain.tools import ToolDef

__all__ = [
    "Appended",
    "AsyncLedger",
    "AsyncMemory",
    "AsyncMemoryManager",
    "BehindError",
    "CharacterCounter",
    "ChatMessage",
    "ConflictError",
    "ConsolidateOptions",
    "Context",
    "ContextBudgetConfig",
    "Correction",
    "CorrectionStats",
    "CorrectionStore",
    "CorrectionsConfig",
    "CorruptViewError",
    "CurationReport",
    "Curator",
    "CuratorStores",
    "Decision",
    "DecisionConfig",
    "DecisionLog",
    "Entity",
    "EntityConfig",
    "EntityEvent",
    "EntityFact",
    "EntityMemory",
    "EntityRelationship",
    "EvalCase",
    "EventBus",
    "Explanation",
    "FileMemory",
    "FileMemoryConfig",
    "FileMemoryTarget",
    "FileReply",
    "ForkedHandleError",
    "GraphMemory",
    "GraphMemoryConfig",
    "GraphMemoryFeatureConfig",
    "GraphStore",
    "ImportInterruptedError",
    "InputError",
    "LearnedKnowledge",
    "Learning",
    "LearningScope",
    "LearningSource",
    "LearningsConfig",
    "Ledger",
    "LedgerGraph",
    "MemorialeError",
    "Memory",
    "MemoryManager",
    "MemoryScope",
    "MissingRightError",
    "ModelProvider",
    "ModelReply",
    "NewCorrection",
    "NewDecision",
    "NewEntity",
    "NewFact",
    "NewLearning",
    "NewProcedure",
    "Principal",
    "Procedure",
    "ProcedureMemory",
    "ProcedureMemoryConfig",
    "ProcedureScope",
    "ProcedureStep",
    "ProceduresConfig",
    "PruneOptions",
    "Receipt",
    "RefusedError",
    "Right",
    "ScoredMemory",
    "ScoringWeights",
    "Session",
    "SessionEntry",
    "SessionManager",
    "Summaries",
    "SummaryConfig",
    "SummaryEntry",
    "TokenCounter",
    "ToolCall",
    "ToolDef",
    "UnavailableError",
    "UnifiedMemoryConfig",
    "UserFact",
    "UserFacts",
    "UserFactsConfig",
    "UserProfile",
    "UserProfileConfig",
    "UserProfileData",
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
    "Appended": "memoriale.adapters.library.stores.manager",
    "AsyncLedger": "memoriale.adapters.library.asynchronous",
    "AsyncMemory": "memoriale.adapters.library.asynchronous",
    "AsyncMemoryManager": "memoriale.adapters.library.async_manager",
    "CharacterCounter": "memoriale.domain.tokens",
    "ChatMessage": "memoriale.domain.chat",
    "ConsolidateOptions": "memoriale.domain.stores.configs",
    "Context": "memoriale.domain.stores.context",
    "ContextBudgetConfig": "memoriale.domain.stores.configs",
    "Correction": "memoriale.domain.stores.corrections",
    "CorrectionStats": "memoriale.domain.stores.corrections",
    "CorrectionStore": "memoriale.adapters.library.stores.corrections",
    "CorrectionsConfig": "memoriale.domain.stores.configs",
    "CurationReport": "memoriale.domain.stores.curation",
    "CuratorStores": "memoriale.adapters.library.stores.curated",
    "Curator": "memoriale.adapters.library.stores.curator",
    "Decision": "memoriale.domain.stores.decisions",
    "DecisionConfig": "memoriale.domain.stores.configs",
    "DecisionLog": "memoriale.adapters.library.stores.decisions",
    "Entity": "memoriale.domain.stores.entities",
    "EntityConfig": "memoriale.domain.stores.entities",
    "EntityEvent": "memoriale.domain.stores.entities",
    "EntityFact": "memoriale.domain.stores.entities",
    "EntityMemory": "memoriale.adapters.library.stores.entities",
    "EntityRelationship": "memoriale.domain.stores.entities",
    "EvalCase": "memoriale.domain.stores.corrections",
    "EventBus": "memoriale.domain.stores.configs",
    "Explanation": "memoriale.adapters.application.explaining",
    "FileMemory": "memoriale.adapters.library.stores.files",
    "FileMemoryConfig": "memoriale.domain.stores.configs",
    "FileMemoryTarget": "memoriale.domain.stores.files",
    "FileReply": "memoriale.domain.stores.files",
    "GraphMemory": "memoriale.adapters.library.stores.graph",
    "GraphMemoryConfig": "memoriale.domain.stores.graph",
    "GraphMemoryFeatureConfig": "memoriale.domain.stores.graph",
    "GraphStore": "memoriale.domain.stores.graph",
    "ImportInterruptedError": "memoriale.adapters.importing.report",
    "LearnedKnowledge": "memoriale.adapters.library.stores.learnings",
    "Learning": "memoriale.domain.stores.learnings",
    "LearningScope": "memoriale.domain.stores.scopes",
    "LearningSource": "memoriale.domain.stores.learnings",
    "LearningsConfig": "memoriale.domain.stores.configs",
    "Ledger": "memoriale.adapters.library.ledger",
    "LedgerGraph": "memoriale.adapters.library.stores.ledger_graph",
    "Memory": "memoriale.adapters.library.memory",
    "MemoryManager": "memoriale.adapters.library.stores.manager",
    "ModelProvider": "memoriale.domain.chat",
    "ModelReply": "memoriale.domain.chat",
    "NewCorrection": "memoriale.domain.stores.corrections",
    "NewDecision": "memoriale.domain.stores.decisions",
    "NewEntity": "memoriale.domain.stores.entities",
    "NewFact": "memoriale.domain.stores.facts",
    "NewLearning": "memoriale.domain.stores.learnings",
    "NewProcedure": "memoriale.domain.stores.procedures",
    "Principal": "memoriale.domain.principal",
    "Procedure": "memoriale.domain.stores.procedures",
    "ProcedureMemory": "memoriale.adapters.library.stores.procedures",
    "ProcedureMemoryConfig": "memoriale.domain.stores.procedures",
    "ProcedureScope": "memoriale.domain.stores.scopes",
    "ProcedureStep": "memoriale.domain.payloads",
    "ProceduresConfig": "memoriale.domain.stores.procedures",
    "PruneOptions": "memoriale.domain.stores.configs",
    "Receipt": "memoriale.domain.receipt",
    "Right": "memoriale.domain.principal",
    "ScoredMemory": "memoriale.adapters.library.stores.keeping",
    "Session": "memoriale.domain.stores.sessions",
    "SessionEntry": "memoriale.domain.stores.sessions",
    "SessionManager": "memoriale.adapters.library.stores.sessions",
    "Summaries": "memoriale.adapters.library.stores.summaries",
    "SummaryConfig": "memoriale.domain.stores.summaries",
    "SummaryEntry": "memoriale.domain.stores.summaries",
    "TokenCounter": "memoriale.domain.tokens",
    "ToolCall": "memoriale.domain.chat",
    "ToolDef": "memoriale.domain.tools",
    "UnifiedMemoryConfig": "memoriale.adapters.library.stores.config",
    "UserFact": "memoriale.domain.stores.facts",
    "UserFacts": "memoriale.adapters.library.stores.facts",
    "UserFactsConfig": "memoriale.domain.stores.configs",
    "UserProfile": "memoriale.adapters.library.stores.profile",
    "UserProfileConfig": "memoriale.domain.stores.configs",
    "UserProfileData": "memoriale.domain.stores.profile",
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
