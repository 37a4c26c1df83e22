"""An event-sourced memory ledger for AI agents."""

from typing import TYPE_CHECKING, Any

from memoriale.domain.errors import (
    BehindError,
    ConflictError,
    CorruptViewError,
    ForkedHandleError,
    InputError,
    MemorialeError,
    MemoryAccessDeniedError,
    MemoryCapabilityError,
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
    from memoriale.adapters.library.opening import open, open_async
    from memoriale.adapters.library.resources.access import (
        with_team_access_control,
        with_team_access_control_semantic,
    )
    from memoriale.adapters.library.resources.checked import CheckedWorkingMemory
    from memoriale.adapters.library.resources.compaction import compact_semantic_memory
    from memoriale.adapters.library.resources.forking import ForkMemoryResult
    from memoriale.adapters.library.resources.hooks import (
        SandboxHooks,
        create_memory_lifecycle_hooks,
    )
    from memoriale.adapters.library.resources.ledger_semantic import LedgerSemanticMemory
    from memoriale.adapters.library.resources.ledger_working import LedgerWorkingMemory
    from memoriale.adapters.library.resources.memory import ResourceMemory
    from memoriale.adapters.library.resources.snippet import build_context_snippet
    from memoriale.adapters.library.resources.tools import create_memory_tools
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
    from memoriale.adapters.library.stores.working import WorkingStore
    from memoriale.adapters.providers.embedding import ModelEmbeddings, load_embeddings
    from memoriale.adapters.providers.in_memory import (
        InMemorySemanticMemoryProvider,
        InMemoryWorkingMemoryProvider,
    )
    from memoriale.adapters.providers.postgres import (
        PostgresSemanticMemoryProvider,
        PostgresWorkingMemoryProvider,
    )
    from memoriale.adapters.providers.sqlite.semantic import SQLiteSemanticMemoryProvider
    from memoriale.adapters.providers.sqlite.working import SQLiteWorkingMemoryProvider
    from memoriale.domain.chat import ChatMessage, ModelProvider, ModelReply, ToolCall
    from memoriale.domain.payloads import ProcedureStep
    from memoriale.domain.principal import Principal, Right
    from memoriale.domain.receipt import Receipt
    from memoriale.domain.resources.compaction import AutoCompactOptions, CompactionResult
    from memoriale.domain.resources.facts import (
        FactVersion,
        MemoryFact,
        RememberedFact,
        SourceRef,
        Verification,
    )
    from memoriale.domain.resources.providers import (
        BulkSemanticMemoryProvider,
        EmbeddingProvider,
        ForkingProvider,
        HistoricalSemanticMemoryProvider,
        PrunableSemanticMemoryProvider,
        ReplacingSemanticMemoryProvider,
        SemanticMemoryProvider,
        WorkingMemoryProvider,
        WorkingPage,
        is_bulk_rememberable,
        is_prunable,
    )
    from memoriale.domain.resources.ref import ResourceRef
    from memoriale.domain.resources.rows import fact_from_row
    from memoriale.domain.resources.similarity import cosine_similarity
    from memoriale.domain.resources.teams import TeamAccessChecker
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
    from memoriale.domain.stores.working import WorkingEntry
    from memoriale.domain.tokens import CharacterCounter, TokenCounter
    from memoriale.domain.tools import ToolDef

__all__ = [
    "Appended",
    "AsyncLedger",
    "AsyncMemory",
    "AsyncMemoryManager",
    "AutoCompactOptions",
    "BehindError",
    "BulkSemanticMemoryProvider",
    "CharacterCounter",
    "ChatMessage",
    "CheckedWorkingMemory",
    "CompactionResult",
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
    "EmbeddingProvider",
    "Entity",
    "EntityConfig",
    "EntityEvent",
    "EntityFact",
    "EntityMemory",
    "EntityRelationship",
    "EvalCase",
    "EventBus",
    "Explanation",
    "FactVersion",
    "FileMemory",
    "FileMemoryConfig",
    "FileMemoryTarget",
    "FileReply",
    "ForkMemoryResult",
    "ForkedHandleError",
    "ForkingProvider",
    "GraphMemory",
    "GraphMemoryConfig",
    "GraphMemoryFeatureConfig",
    "GraphStore",
    "HistoricalSemanticMemoryProvider",
    "ImportInterruptedError",
    "InMemorySemanticMemoryProvider",
    "InMemoryWorkingMemoryProvider",
    "InputError",
    "LearnedKnowledge",
    "Learning",
    "LearningScope",
    "LearningSource",
    "LearningsConfig",
    "Ledger",
    "LedgerGraph",
    "LedgerSemanticMemory",
    "LedgerWorkingMemory",
    "MemorialeError",
    "Memory",
    "MemoryAccessDeniedError",
    "MemoryCapabilityError",
    "MemoryFact",
    "MemoryManager",
    "MemoryScope",
    "MissingRightError",
    "ModelEmbeddings",
    "ModelProvider",
    "ModelReply",
    "NewCorrection",
    "NewDecision",
    "NewEntity",
    "NewFact",
    "NewLearning",
    "NewProcedure",
    "PostgresSemanticMemoryProvider",
    "PostgresWorkingMemoryProvider",
    "Principal",
    "Procedure",
    "ProcedureMemory",
    "ProcedureMemoryConfig",
    "ProcedureScope",
    "ProcedureStep",
    "ProceduresConfig",
    "PrunableSemanticMemoryProvider",
    "PruneOptions",
    "Receipt",
    "RefusedError",
    "RememberedFact",
    "ReplacingSemanticMemoryProvider",
    "ResourceMemory",
    "ResourceRef",
    "Right",
    "SQLiteSemanticMemoryProvider",
    "SQLiteWorkingMemoryProvider",
    "SandboxHooks",
    "ScoredMemory",
    "ScoringWeights",
    "SemanticMemoryProvider",
    "Session",
    "SessionEntry",
    "SessionManager",
    "SourceRef",
    "Summaries",
    "SummaryConfig",
    "SummaryEntry",
    "TeamAccessChecker",
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
    "Verification",
    "WorkingEntry",
    "WorkingMemoryProvider",
    "WorkingPage",
    "WorkingStore",
    "__version__",
    "build_context_snippet",
    "compact_semantic_memory",
    "compute_composite_score",
    "cosine_similarity",
    "create_memory_lifecycle_hooks",
    "create_memory_tools",
    "fact_from_row",
    "is_ancestor",
    "is_bulk_rememberable",
    "is_prunable",
    "load_embeddings",
    "open",
    "open_async",
    "recency_decay",
    "resolve_scope",
    "scope_key",
    "scope_matches",
    "with_team_access_control",
    "with_team_access_control_semantic",
]

# Loaded when first asked for, so that the command line starts fast.
_BY_MODULE = {
    "memoriale.adapters.application.explaining": "Explanation",
    "memoriale.adapters.importing.report": "ImportInterruptedError",
    "memoriale.adapters.library.async_manager": "AsyncMemoryManager",
    "memoriale.adapters.library.asynchronous": "AsyncLedger AsyncMemory",
    "memoriale.adapters.library.ledger": "Ledger",
    "memoriale.adapters.library.memory": "Memory",
    "memoriale.adapters.library.opening": "open open_async",
    "memoriale.adapters.library.resources.access": (
        "with_team_access_control with_team_access_control_semantic"
    ),
    "memoriale.adapters.library.resources.checked": "CheckedWorkingMemory",
    "memoriale.adapters.library.resources.compaction": "compact_semantic_memory",
    "memoriale.adapters.library.resources.forking": "ForkMemoryResult",
    "memoriale.adapters.library.resources.hooks": "SandboxHooks create_memory_lifecycle_hooks",
    "memoriale.adapters.library.resources.memory": "ResourceMemory",
    "memoriale.adapters.library.resources.snippet": "build_context_snippet",
    "memoriale.adapters.library.resources.tools": "create_memory_tools",
    "memoriale.adapters.library.resources.ledger_semantic": "LedgerSemanticMemory",
    "memoriale.adapters.library.resources.ledger_working": "LedgerWorkingMemory",
    "memoriale.adapters.library.stores.config": "UnifiedMemoryConfig",
    "memoriale.adapters.library.stores.corrections": "CorrectionStore",
    "memoriale.adapters.library.stores.curated": "CuratorStores",
    "memoriale.adapters.library.stores.curator": "Curator",
    "memoriale.adapters.library.stores.decisions": "DecisionLog",
    "memoriale.adapters.library.stores.entities": "EntityMemory",
    "memoriale.adapters.library.stores.facts": "UserFacts",
    "memoriale.adapters.library.stores.files": "FileMemory",
    "memoriale.adapters.library.stores.graph": "GraphMemory",
    "memoriale.adapters.library.stores.keeping": "ScoredMemory",
    "memoriale.adapters.library.stores.learnings": "LearnedKnowledge",
    "memoriale.adapters.library.stores.ledger_graph": "LedgerGraph",
    "memoriale.adapters.library.stores.manager": "Appended MemoryManager",
    "memoriale.adapters.library.stores.procedures": "ProcedureMemory",
    "memoriale.adapters.library.stores.profile": "UserProfile",
    "memoriale.adapters.library.stores.sessions": "SessionManager",
    "memoriale.adapters.library.stores.summaries": "Summaries",
    "memoriale.adapters.library.stores.working": "WorkingStore",
    "memoriale.adapters.providers.embedding": "ModelEmbeddings load_embeddings",
    "memoriale.adapters.providers.in_memory": (
        "InMemorySemanticMemoryProvider InMemoryWorkingMemoryProvider"
    ),
    "memoriale.adapters.providers.postgres": (
        "PostgresSemanticMemoryProvider PostgresWorkingMemoryProvider"
    ),
    "memoriale.adapters.providers.sqlite.semantic": "SQLiteSemanticMemoryProvider",
    "memoriale.adapters.providers.sqlite.working": "SQLiteWorkingMemoryProvider",
    "memoriale.domain.chat": "ChatMessage ModelProvider ModelReply ToolCall",
    "memoriale.domain.payloads": "ProcedureStep",
    "memoriale.domain.principal": "Principal Right",
    "memoriale.domain.receipt": "Receipt",
    "memoriale.domain.resources.compaction": "AutoCompactOptions CompactionResult",
    "memoriale.domain.resources.facts": (
        "FactVersion MemoryFact RememberedFact SourceRef Verification"
    ),
    "memoriale.domain.resources.providers": (
        "BulkSemanticMemoryProvider EmbeddingProvider ForkingProvider "
        "HistoricalSemanticMemoryProvider PrunableSemanticMemoryProvider "
        "ReplacingSemanticMemoryProvider SemanticMemoryProvider WorkingMemoryProvider "
        "WorkingPage is_bulk_rememberable is_prunable"
    ),
    "memoriale.domain.resources.ref": "ResourceRef",
    "memoriale.domain.resources.rows": "fact_from_row",
    "memoriale.domain.resources.similarity": "cosine_similarity",
    "memoriale.domain.resources.teams": "TeamAccessChecker",
    "memoriale.domain.stores.configs": (
        "ConsolidateOptions ContextBudgetConfig CorrectionsConfig DecisionConfig EventBus "
        "FileMemoryConfig LearningsConfig PruneOptions UserFactsConfig UserProfileConfig"
    ),
    "memoriale.domain.stores.context": "Context",
    "memoriale.domain.stores.corrections": "Correction CorrectionStats EvalCase NewCorrection",
    "memoriale.domain.stores.curation": "CurationReport",
    "memoriale.domain.stores.decisions": "Decision NewDecision",
    "memoriale.domain.stores.entities": (
        "Entity EntityConfig EntityEvent EntityFact EntityRelationship NewEntity"
    ),
    "memoriale.domain.stores.facts": "NewFact UserFact",
    "memoriale.domain.stores.files": "FileMemoryTarget FileReply",
    "memoriale.domain.stores.graph": "GraphMemoryConfig GraphMemoryFeatureConfig GraphStore",
    "memoriale.domain.stores.learnings": "Learning LearningSource NewLearning",
    "memoriale.domain.stores.procedures": (
        "NewProcedure Procedure ProcedureMemoryConfig ProceduresConfig"
    ),
    "memoriale.domain.stores.profile": "UserProfileData",
    "memoriale.domain.stores.scopes": "LearningScope ProcedureScope",
    "memoriale.domain.stores.sessions": "Session SessionEntry",
    "memoriale.domain.stores.summaries": "SummaryConfig SummaryEntry",
    "memoriale.domain.stores.working": "WorkingEntry",
    "memoriale.domain.tokens": "CharacterCounter TokenCounter",
    "memoriale.domain.tools": "ToolDef",
}
_LAZY = {name: module for module, names in _BY_MODULE.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("memoriale")
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'memoriale' has no attribute {name!r}")
