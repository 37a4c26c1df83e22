"""``agent_memory``: makes a memory from its options, all of them checked before anything begins."""

from collections.abc import Mapping
from typing import Any

from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.operations.agent_memory import AgentMemory
from memoriale.adapters.library.operations.options import (
    GraphOption,
    model_of,
    refuse,
    retries_of,
    shared_of,
)
from memoriale.adapters.library.operations.storing import CONCURRENCY, MOST_CONCURRENT, Rules
from memoriale.adapters.library.operations.vectors import (
    Embed,
    ManyOwners,
    check_dimensions,
    own_embedder,
)
from memoriale.domain.chat import ModelProvider
from memoriale.domain.errors import InputError
from memoriale.domain.operations.items import DEDUP_THRESHOLD
from memoriale.domain.values import check_unit, check_whole


def agent_memory(
    ledger: Ledger,
    *,
    tenant: str,
    llm: ModelProvider | None = None,
    embed: Embed | Any | None = None,
    dimensions: int | None = None,
    embedding_concurrency: int = CONCURRENCY,
    extraction_retry: Mapping[str, Any] | None = None,
    dedup_threshold: float = DEDUP_THRESHOLD,
    knowledge_graph: Any = None,
    graph_llm: ModelProvider | None = None,
    graph_extraction_prompt: str | None = None,
    shared: Mapping[str, Any] | None = None,
    **others: Any,
) -> AgentMemory:
    """
    Memory that is fed with messages, with a handle for every operation. What an earlier process
    accepted for the tenant and did not finish is taken up at once.

    Taken from ``agentMemory`` of reference system B; ``docs/parity.md`` says what is different.

    Args:
        ledger: An open ledger.
        tenant: Whose memory.
        llm: Takes facts from messages; default: the model of the settings.
        embed: A function from a text to its vector, or an ``Embedder``; questions are then
            compared by these vectors alone, and adds are finished only where it is. Default: the
            embedder of the ledger, with keywords beside.
        dimensions: How wide vectors are, checked before anything is stored; required with a
            function.
        embedding_concurrency: Texts that are embedded at a time, 1..64.
        extraction_retry: ``{"max_retries": 3}``: tries after the first one, 0..20, of the model
            and of the embedder, with pauses of 0.1 s, 0.2 s and so on up to 30 s.
        dedup_threshold: Least cosine (0..1) from which on what is said counts as said again; 0
            keeps everything apart.
        knowledge_graph: True: the graph of the ledger, that of the scope's user; or a
            ``GraphStore`` of the program's own. Relations are added in a job of their own.
        graph_llm: Takes nodes and edges from messages; required with ``knowledge_graph``.
        graph_extraction_prompt: Instructions for it instead of those of this release.
        shared: ``{}`` or a mapping with ``transport``, ``topic_name``, ``filter`` and
            ``bridge_name`` has ``events`` tell also what other processes change, of every owner
            (right ``audit``, and ``content`` for their words); see ``SharedOptions``. None: only
            what this memory changes.
        **others: ``adapter`` and ``search_overfetch`` are refused, and the error says why.

    Raises:
        InputError: A wrong option; says which, and what is allowed.
    """
    refuse(others)
    if not isinstance(ledger, Ledger):
        raise InputError(
            "ledger must be an open ledger, as memoriale.open returns it.",
            code="bad_value",
            field="ledger",
            value=type(ledger).__name__,
            allowed="a Ledger",
        )
    services = ledger.tenant(tenant)
    embedder = None if embed is None else own_embedder(embed, dimensions)
    graph = GraphOption(knowledge_graph, graph_llm, graph_extraction_prompt)
    rules = Rules(
        dedup_threshold=check_unit("dedup_threshold", dedup_threshold),
        dimensions=check_dimensions(
            dimensions, embedder or (None if dimensions is None else services.embedder)
        ),
        concurrency=check_whole("embedding_concurrency", embedding_concurrency, 1, MOST_CONCURRENT),
        max_retries=retries_of(extraction_retry),
        graph=graph.job,
        graph_prompt=graph.prompt,
    )
    vectors = None if embedder is None else ManyOwners(embedder, services.log.erasures)
    model, bridge = model_of("llm", llm), shared_of(shared)
    return AgentMemory(ledger, tenant, rules, model, vectors, graph, bridge)
