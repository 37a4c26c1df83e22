"""Compaction of a resource's facts on the ledger, with the report of other maintenance."""

from datetime import timedelta
from uuid import UUID

from memoriale.adapters.library.resources.compaction import compact_semantic_memory
from memoriale.adapters.library.resources.ledger_semantic import LedgerSemanticMemory
from memoriale.domain.resources.compaction import CompactionOptions, plan_compaction
from memoriale.domain.resources.ref import ResourceRef
from memoriale.domain.stores.curation import CurationReport, Skipped


def compact(
    facts: LedgerSemanticMemory,
    ref: ResourceRef,
    *,
    max_facts: int | None = None,
    max_age: timedelta | None = None,
    dry_run: bool = False,
) -> CurationReport:
    """
    Retires facts of a resource as ``compacted``: first those that are too old, then the oldest
    of the rest. Under a legal hold none goes.

    Args:
        facts: The facts of resources on a ledger.
        ref: Which resource.
        max_facts: How many may be left.
        max_age: Facts that are strictly older are retired, counted to the database's time.
        dry_run: Only say what would be done.

    Returns:
        How many facts were looked at and retired, and which were left and why.
    """
    options = CompactionOptions(max_facts=max_facts, max_age=max_age)
    now, held = facts.standing(ref)
    there = facts.list_all(ref)
    going = plan_compaction(there, options, now).retired
    if held:
        kept = tuple(Skipped(id=UUID(fact.id), reason="legal hold") for fact in going)
        return CurationReport(checked=len(there), skipped=kept)
    changed = len(going)
    if going and not dry_run:
        done = compact_semantic_memory(facts, ref, max_facts=max_facts, max_age=max_age, now=now)
        changed = done.removed
    return CurationReport(checked=len(there), changed=changed)
