"""Compaction of a resource's facts, over any provider that can list and forget."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from memoriale.domain.errors import ConflictError, MemoryCapabilityError
from memoriale.domain.resources.compaction import (
    CompactionOptions,
    CompactionPlan,
    CompactionResult,
    Summarize,
    plan_compaction,
    with_summaries,
)
from memoriale.domain.resources.limits import MAX_PAGE, check_ref
from memoriale.domain.resources.providers import (
    PrunableSemanticMemoryProvider,
    ReplacingSemanticMemoryProvider,
    is_bulk_rememberable,
    is_prunable,
)
from memoriale.domain.resources.ref import ResourceRef
from memoriale.domain.times import parse_time, to_utc

_TRIES: Final = 5


def compact_semantic_memory(
    provider: object,
    ref: ResourceRef,
    *,
    max_facts: int | None = None,
    max_age: timedelta | None = None,
    summarize: Summarize | None = None,
    now: datetime | str | None = None,
    dry_run: bool = False,
) -> CompactionResult:
    """
    Retires facts of a resource: first those that are too old, then the oldest of the rest
    (reference system C, ``compactSemanticMemory``).

    With ``summarize``, what it makes of the retired facts takes their place, in the same step
    where the provider has ``replace``; else they are stored first and the others forgotten then.

    Args:
        provider: Lists and forgets facts.
        ref: The resource.
        max_facts: How many may be left, replacements included; None: any number.
        max_age: Facts that are strictly older are retired; None: none is.
        summarize: From the facts that are retired, oldest first, to texts. When it raises,
            nothing is changed. It is called again when its texts leave too little room.
        now: To which ages are counted; default: this computer's time.
        dry_run: Only says what would be retired; ``summarize`` is not called.

    Raises:
        MemoryCapabilityError: ``prunable``: the provider cannot list and forget.
        InputError: A wrong limit, or what ``summarize`` gave is no list of texts or too long.
        ConflictError: Others retired the same facts again and again.
    """
    check_ref(ref)
    options = CompactionOptions(max_facts=max_facts, max_age=max_age, summarize=summarize)
    prunable = checked_prunable(provider)
    at = None if now is None else to_utc(parse_time("now", now))
    for _ in range(_TRIES - 1):
        try:
            return _compacted(prunable, ref, options, at, dry_run)
        except ConflictError:
            # Somebody retired one of the facts meanwhile: what is left is another list.
            continue
    return _compacted(prunable, ref, options, at, dry_run)


def checked_prunable(provider: object) -> PrunableSemanticMemoryProvider:
    """
    A provider that can list and forget.

    Raises:
        MemoryCapabilityError: ``prunable``.
    """
    if not is_prunable(provider):
        raise missing("prunable", "list_all, list_recent and forget")
    return provider


def missing(capability: str, methods: str) -> MemoryCapabilityError:
    """The error of a call that needs what the provider does not have."""
    return MemoryCapabilityError(
        f"this needs a {capability} provider, and the memory has none; give one with {methods}.",
        field="provider",
        allowed=capability,
    )


def _compacted(
    provider: PrunableSemanticMemoryProvider,
    ref: ResourceRef,
    options: CompactionOptions,
    now: datetime | None,
    dry_run: bool,
) -> CompactionResult:
    most = options.max_facts
    if options.max_age is None and most is not None and most < MAX_PAGE:
        few = provider.list_recent(ref, most + 1)
        if len(few) <= most:
            # Most often nothing is to be done: then not everything need be read.
            return CompactionResult(removed=0, remaining=len(few), summarized=0)
    facts = provider.list_all(ref)
    plan = plan_compaction(facts, options, now or datetime.now(UTC))
    if dry_run or not plan.retired:
        return plan.result()
    return _carried_out(provider, ref, with_summaries(plan, options))


def _carried_out(
    provider: PrunableSemanticMemoryProvider, ref: ResourceRef, plan: CompactionPlan
) -> CompactionResult:
    ids = [fact.id for fact in plan.retired]
    if isinstance(provider, ReplacingSemanticMemoryProvider):
        removed, _ = provider.replace(ref, ids, plan.replacements)
    else:
        _remember(provider, ref, plan)
        removed = provider.forget(ref, ids)
    return replace(plan.result(), removed=removed)


def _remember(
    provider: PrunableSemanticMemoryProvider, ref: ResourceRef, plan: CompactionPlan
) -> None:
    facts = plan.replacements
    if facts and is_bulk_rememberable(provider):
        provider.remember_many(ref, facts)
    else:
        for fact in facts:
            provider.remember(ref, fact)
