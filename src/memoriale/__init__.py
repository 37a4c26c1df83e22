"""An event-sourced memory ledger for AI agents."""

from typing import TYPE_CHECKING, Any

from memoriale.adapters.library.names import BY_MODULE
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
    OperationCancelledError,
    OperationError,
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
    from memoriale.adapters.application.merge_results import MergeConflict, MergeResult, MergeSide
    from memoriale.adapters.application.subscribing import Subscription
    from memoriale.adapters.importing.report import ImportInterruptedError
    from memoriale.adapters.library.async_manager import AsyncMemoryManager
    from memoriale.adapters.library.asynchronous import AsyncLedger, AsyncMemory
    from memoriale.adapters.library.episodes import episodic_recall, episodic_tree
    from memoriale.adapters.library.jobs import NoModelError
    from memoriale.adapters.library.ledger import Ledger
    from memoriale.adapters.library.memory import Memory
    from memoriale.adapters.library.opening import open, open_async
    from memoriale.adapters.library.operations.agent_memory import AgentMemory
    from memoriale.adapters.library.operations.asynchronous import AsyncAgentMemory
    from memoriale.adapters.library.operations.bridge import SharedOptions
    from memoriale.adapters.library.operations.handles import (
        AddResult,
        AgentMemoryAddOperation,
        AgentMemorySearchOperation,
    )
    from memoriale.adapters.library.operations.making import agent_memory
    from memoriale.adapters.library.operations.transports import (
        Hub,
        InProcessTransport,
        SocketTransport,
        Transport,
    )
    from memoriale.adapters.library.resources.access import (
        with_team_access_control,
        with_team_access_control_semantic,
    )
    from memoriale.adapters.library.resources.asynchronous import AsyncResourceMemory
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
    from memoriale.domain.episodes import (
        Episodes,
        EpisodicBranch,
        EpisodicEntry,
        EpisodicSession,
        EpisodicTree,
    )
    from memoriale.domain.operations.items import ExtractedFact
    from memoriale.domain.operations.nodes import AgentMemorySearchResult, MemoryNode
    from memoriale.domain.operations.scopes import OperationScope
    from memoriale.domain.operations.states import OperationStatus
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
        CorrectingSemanticMemoryProvider,
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
    from memoriale.domain.resources.teams import TeamAccessChecker, check_team_access
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
    from memoriale.domain.subscriptions import EventFilter, MemoryEvent
    from memoriale.domain.tokens import CharacterCounter, TokenCounter
    from memoriale.domain.tools import ToolDef

__all__ = [
    "AddResult",
    "AgentMemory",
    "AgentMemoryAddOperation",
    "AgentMemorySearchOperation",
    "AgentMemorySearchResult",
    "Appended",
    "AsyncAgentMemory",
    "AsyncLedger",
    "AsyncMemory",
    "AsyncMemoryManager",
    "AsyncResourceMemory",
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
    "CorrectingSemanticMemoryProvider",
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
    "Episodes",
    "EpisodicBranch",
    "EpisodicEntry",
    "EpisodicSession",
    "EpisodicTree",
    "EvalCase",
    "EventBus",
    "EventFilter",
    "Explanation",
    "ExtractedFact",
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
    "Hub",
    "ImportInterruptedError",
    "InMemorySemanticMemoryProvider",
    "InMemoryWorkingMemoryProvider",
    "InProcessTransport",
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
    "MemoryEvent",
    "MemoryFact",
    "MemoryManager",
    "MemoryNode",
    "MemoryScope",
    "MergeConflict",
    "MergeResult",
    "MergeSide",
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
    "NoModelError",
    "OperationCancelledError",
    "OperationError",
    "OperationScope",
    "OperationStatus",
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
    "SharedOptions",
    "SocketTransport",
    "SourceRef",
    "Subscription",
    "Summaries",
    "SummaryConfig",
    "SummaryEntry",
    "TeamAccessChecker",
    "TokenCounter",
    "ToolCall",
    "ToolDef",
    "Transport",
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
    "agent_memory",
    "build_context_snippet",
    "check_team_access",
    "compact_semantic_memory",
    "compute_composite_score",
    "cosine_similarity",
    "create_memory_lifecycle_hooks",
    "create_memory_tools",
    "episodic_recall",
    "episodic_tree",
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

_LAZY = {name: module for module, names in BY_MODULE.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("memoriale")
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'memoriale' has no attribute {name!r}")
