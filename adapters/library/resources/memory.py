"""``ResourceMemory``: working and semantic memory of resources, over any providers."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from memoriale.adapters.library.resources.auto_compaction import AutoCompaction
from memoriale.adapters.library.resources.checked import CheckedWorkingMemory
from memoriale.adapters.library.resources.compaction import (
    checked_prunable,
    compact_semantic_memory,
    missing,
)
from memoriale.adapters.library.resources.forking import ForkMemoryResult, fork_memory
from memoriale.domain.errors import InputError
from memoriale.domain.resources.compaction import (
    AutoCompactOptions,
    CompactionResult,
    Summarize,
)
from memoriale.domain.resources.facts import MemoryFact, RememberedFact
from memoriale.domain.resources.limits import (
    PAGE,
    TOP_K,
    check_fact,
    check_facts,
    check_ids,
    check_page,
    check_ref,
    check_top_k,
)
from memoriale.domain.resources.providers import (
    PrunableSemanticMemoryProvider,
    SemanticMemoryProvider,
    WorkingMemoryProvider,
    is_bulk_rememberable,
)
from memoriale.domain.resources.ref import ResourceRef
from memoriale.domain.text import check_query, check_tenant
from memoriale.domain.values import check_patience

if TYPE_CHECKING:
    from memoriale.adapters.library.ledger import Ledger


class ResourceMemory:
    """
    Key-value working memory and semantic facts of resources.

    Taken from ``Memory`` of reference system C; ``docs/parity.md`` says what is different.
    Safe to share between threads when its providers are. The providers stay their maker's: it
    closes none.

    Args:
        tenant: Whose resources they are; a provider of another tenant is refused.
        working_memory: Keeps keys and values.
        semantic: Keeps facts; without, calls about facts are refused.
        auto_compact: Compacts a resource after facts were remembered, in the background.

    Raises:
        MemoryCapabilityError: ``auto_compact`` without facts that can be listed and forgotten.
    """

    def __init__(
        self,
        *,
        tenant: str,
        working_memory: WorkingMemoryProvider,
        semantic: SemanticMemoryProvider | None = None,
        auto_compact: AutoCompactOptions | None = None,
    ) -> None:
        self.tenant = check_tenant(tenant)
        _check_provider("working_memory", working_memory, WorkingMemoryProvider, tenant)
        if semantic is not None:
            _check_provider("semantic", semantic, SemanticMemoryProvider, tenant)
        self._working = CheckedWorkingMemory(working_memory)
        self._semantic = semantic
        self._auto: AutoCompaction | None = None
        if auto_compact is not None:
            if semantic is None:
                raise missing("semantic", "remember and recall")
            self._auto = AutoCompaction(checked_prunable(semantic), auto_compact)

    @classmethod
    def of(
        cls,
        ledger: "Ledger",
        *,
        tenant: str,
        auto_compact: AutoCompactOptions | None = None,
        **who: Any,
    ) -> Self:
        """
        Memory on a ledger: every change is an event, forks copy nothing, and sources of facts are
        looked up at each read.

        Args:
            ledger: An open ledger; close this memory before it.
            tenant: Whose resources they are.
            auto_compact: As for the constructor.
            **who: ``rights``, ``actor``, ``actor_kind`` and ``purpose``, as for
                ``Ledger.memory``.
        """
        # Here, so that who uses other providers loads nothing of the ledger.
        from memoriale.adapters.library.resources.ledger_semantic import LedgerSemanticMemory
        from memoriale.adapters.library.resources.ledger_working import LedgerWorkingMemory

        return cls(
            tenant=tenant,
            working_memory=LedgerWorkingMemory(ledger, tenant=tenant, **who),
            semantic=LedgerSemanticMemory(ledger, tenant=tenant, **who),
            auto_compact=auto_compact,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def working_memory(self) -> CheckedWorkingMemory:
        """Keys and values: ``get``, ``set``, ``list``, ``delete``."""
        return self._working

    working = working_memory

    @property
    def semantic(self) -> SemanticMemoryProvider | None:
        """The provider of facts, as it was given."""
        return self._semantic

    @property
    def has_semantic_memory(self) -> bool:
        """Whether there is a provider of facts."""
        return self._semantic is not None

    def remember(self, ref: ResourceRef, fact: MemoryFact) -> RememberedFact:
        """
        Stores a fact.

        Raises:
            MemoryCapabilityError: ``semantic``: there is no provider of facts.
            UnavailableError: The embeddings failed or gave no usable vector; nothing was stored.
        """
        made = self._facts().remember(check_ref(ref), check_fact(fact))
        self._remembered(ref, 1)
        return made

    def remember_many(
        self, ref: ResourceRef, facts: Sequence[MemoryFact]
    ) -> Sequence[RememberedFact]:
        """
        Stores all facts, or none when one of them cannot be stored.

        Raises:
            MemoryCapabilityError: ``semantic`` or ``bulk``: the provider cannot.
        """
        provider, given = self._facts(), check_facts(facts)
        if not is_bulk_rememberable(provider):
            raise missing("bulk", "remember_many")
        made = provider.remember_many(check_ref(ref), given)
        self._remembered(ref, len(made))
        return made

    def recall(
        self, ref: ResourceRef, query: str, *, top_k: int = TOP_K
    ) -> Sequence[RememberedFact]:
        """
        The facts that answer best, best first.

        Args:
            ref: The resource; another one, or the same of another team, gives nothing.
            query: The question.
            top_k: At most so many, 1..100.

        Raises:
            MemoryCapabilityError: ``semantic``.
        """
        provider = self._facts()
        return provider.recall(check_ref(ref), check_query(query), top_k=check_top_k(top_k))

    def list_all(self, ref: ResourceRef) -> Sequence[RememberedFact]:
        """
        Every fact, oldest first.

        Raises:
            MemoryCapabilityError: ``semantic`` or ``prunable``.
        """
        return self._prunable().list_all(check_ref(ref))

    def list_recent(self, ref: ResourceRef, limit: int = PAGE) -> Sequence[RememberedFact]:
        """
        The newest facts, newest first.

        Args:
            ref: The resource.
            limit: At most so many, 1..1,000.

        Raises:
            MemoryCapabilityError: ``semantic`` or ``prunable``.
        """
        return self._prunable().list_recent(check_ref(ref), check_page(limit))

    def forget(self, ref: ResourceRef, ids: Sequence[str]) -> int:
        """
        Forgets facts; how many were there.

        Raises:
            MemoryCapabilityError: ``semantic`` or ``prunable``.
        """
        return self._prunable().forget(check_ref(ref), check_ids(ids))

    def compact_semantic_memory(
        self,
        ref: ResourceRef,
        *,
        max_facts: int | None = None,
        max_age: timedelta | None = None,
        summarize: Summarize | None = None,
        now: datetime | str | None = None,
        dry_run: bool = False,
    ) -> CompactionResult:
        """
        Retires old facts; arguments as for the function ``compact_semantic_memory``.

        Raises:
            MemoryCapabilityError: ``semantic`` or ``prunable``.
        """
        return compact_semantic_memory(
            self._facts(),
            ref,
            max_facts=max_facts,
            max_age=max_age,
            summarize=summarize,
            now=now,
            dry_run=dry_run,
        )

    def fork(self, parent_ref: ResourceRef, child_resource_id: str) -> ForkMemoryResult:
        """
        Gives a new resource of the same team what a resource has now; from then on each goes its
        way. Over the ledger that is a branch, and copies nothing; other providers copy, each in
        one step. Bookkeeping keys stay with the parent.

        Args:
            parent_ref: The parent.
            child_resource_id: The child's id; nothing may be remembered of it yet.

        Raises:
            InputError: The child is the parent, or has something already.
            MemoryCapabilityError: ``prunable``: the provider of facts cannot list them.
        """
        parent = check_ref(parent_ref, "parent_ref")
        child = ResourceRef(child_resource_id, parent.team_id)
        return fork_memory(self._working.provider, self._semantic, parent, child)

    def wait_for_compaction(self, timeout: float | None = None) -> bool:
        """
        Waits until the compactions that are due are done.

        Args:
            timeout: Seconds at most; None: as long as it takes.

        Returns:
            Whether they are.
        """
        check_patience("timeout", timeout)
        return self._auto is None or self._auto.wait(timeout)

    @property
    def compaction_error(self) -> BaseException | None:
        """What the last compaction in the background failed with; None when it did not."""
        return None if self._auto is None else self._auto.last_error

    @property
    def last_compaction(self) -> CompactionResult | None:
        """What the last compaction in the background came to."""
        return None if self._auto is None else self._auto.last_result

    def close(self) -> None:
        """Waits for the compactions that are due, and starts no more."""
        if self._auto is not None:
            self._auto.close()

    def _remembered(self, ref: ResourceRef, count: int) -> None:
        if self._auto is not None:
            self._auto.remembered(ref, count)

    def _facts(self) -> SemanticMemoryProvider:
        if self._semantic is None:
            raise missing("semantic", "remember and recall")
        return self._semantic

    def _prunable(self) -> PrunableSemanticMemoryProvider:
        return checked_prunable(self._facts())


def _check_provider(field: str, provider: object, port: Any, tenant: str) -> None:
    if not isinstance(provider, port):
        raise InputError(
            f"{field} is no {port.__name__}; give one of the shipped providers or your own.",
            code="bad_value",
            field=field,
            value=type(provider).__name__,
            allowed=port.__name__,
        )
    theirs = getattr(provider, "tenant", tenant)
    if theirs != tenant:
        raise InputError(
            f"{field} is of the tenant {theirs!r}, and this memory of {tenant!r}.",
            code="other_tenant",
            field=field,
            value=theirs,
            allowed=tenant,
        )
