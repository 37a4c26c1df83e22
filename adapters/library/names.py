"""Public names that are loaded when first asked for, so that the command line starts fast."""

from typing import Final

BY_MODULE: Final[dict[str, str]] = {
    "memoriale.adapters.application.subscribing": "Subscription",
    "memoriale.adapters.application.explaining": "Explanation",
    "memoriale.adapters.application.merge_results": "MergeConflict MergeResult MergeSide",
    "memoriale.adapters.importing.report": "ImportInterruptedError",
    "memoriale.adapters.library.async_manager": "AsyncMemoryManager",
    "memoriale.adapters.library.asynchronous": "AsyncLedger AsyncMemory",
    "memoriale.adapters.library.episodes": "episodic_recall episodic_tree",
    "memoriale.adapters.library.jobs": "NoModelError",
    "memoriale.adapters.library.ledger": "Ledger",
    "memoriale.adapters.library.memory": "Memory",
    "memoriale.adapters.library.opening": "open open_async",
    "memoriale.adapters.library.operations.agent_memory": "AgentMemory",
    "memoriale.adapters.library.operations.asynchronous": "AsyncAgentMemory",
    "memoriale.adapters.library.operations.bridge": "SharedOptions",
    "memoriale.adapters.library.operations.handles": (
        "AddResult AgentMemoryAddOperation AgentMemorySearchOperation"
    ),
    "memoriale.adapters.library.operations.making": "agent_memory",
    "memoriale.adapters.library.operations.transports": (
        "Hub InProcessTransport SocketTransport Transport"
    ),
    "memoriale.adapters.library.resources.access": (
        "with_team_access_control with_team_access_control_semantic"
    ),
    "memoriale.adapters.library.resources.asynchronous": "AsyncResourceMemory",
    "memoriale.adapters.library.resources.checked": "CheckedWorkingMemory",
    "memoriale.adapters.library.resources.compaction": "compact_semantic_memory",
    "memoriale.adapters.library.resources.forking": "ForkMemoryResult",
    "memoriale.adapters.library.resources.hooks": "SandboxHooks create_memory_lifecycle_hooks",
    "memoriale.adapters.library.resources.ledger_semantic": "LedgerSemanticMemory",
    "memoriale.adapters.library.resources.ledger_working": "LedgerWorkingMemory",
    "memoriale.adapters.library.resources.memory": "ResourceMemory",
    "memoriale.adapters.library.resources.snippet": "build_context_snippet",
    "memoriale.adapters.library.resources.tools": "create_memory_tools",
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
    "memoriale.domain.operations.items": "ExtractedFact",
    "memoriale.domain.operations.nodes": "AgentMemorySearchResult MemoryNode",
    "memoriale.domain.operations.scopes": "OperationScope",
    "memoriale.domain.operations.states": "OperationStatus",
    "memoriale.domain.episodes": (
        "Episodes EpisodicBranch EpisodicEntry EpisodicSession EpisodicTree"
    ),
    "memoriale.domain.payloads": "ProcedureStep",
    "memoriale.domain.principal": "Principal Right",
    "memoriale.domain.receipt": "Receipt",
    "memoriale.domain.resources.compaction": "AutoCompactOptions CompactionResult",
    "memoriale.domain.resources.facts": (
        "FactVersion MemoryFact RememberedFact SourceRef Verification"
    ),
    "memoriale.domain.resources.providers": (
        "BulkSemanticMemoryProvider CorrectingSemanticMemoryProvider EmbeddingProvider "
        "ForkingProvider HistoricalSemanticMemoryProvider PrunableSemanticMemoryProvider "
        "ReplacingSemanticMemoryProvider SemanticMemoryProvider WorkingMemoryProvider "
        "WorkingPage is_bulk_rememberable is_prunable"
    ),
    "memoriale.domain.resources.ref": "ResourceRef",
    "memoriale.domain.resources.rows": "fact_from_row",
    "memoriale.domain.resources.similarity": "cosine_similarity",
    "memoriale.domain.resources.teams": "TeamAccessChecker check_team_access",
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
    "memoriale.domain.subscriptions": "EventFilter MemoryEvent",
    "memoriale.domain.tokens": "CharacterCounter TokenCounter",
    "memoriale.domain.tools": "ToolDef",
}
"""For each module the names that ``memoriale`` has of it, separated by blanks."""
