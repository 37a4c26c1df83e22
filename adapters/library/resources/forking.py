"""Forks of a resource's whole memory, over any providers."""

from collections.abc import Callable
from dataclasses import dataclass, field

from pydantic import JsonValue

from memoriale.adapters.library.resources.compaction import checked_prunable
from memoriale.domain.errors import InputError
from memoriale.domain.resources.facts import MemoryFact
from memoriale.domain.resources.limits import MAX_PAGE, is_bookkeeping
from memoriale.domain.resources.providers import (
    ForkingProvider,
    PrunableSemanticMemoryProvider,
    SemanticMemoryProvider,
    WorkingMemoryProvider,
    is_bulk_rememberable,
)
from memoriale.domain.resources.ref import ResourceRef

_Count = Callable[[], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkMemoryResult:
    """
    A fork (reference system C, ``ForkMemoryResult``). The numbers are counted when they are
    read: what the child has of its parent as it got it.

    Args:
        ref: The child.
    """

    ref: ResourceRef
    count_working: _Count = field(repr=False, compare=False)
    count_semantic: _Count = field(repr=False, compare=False)

    @property
    def working_keys(self) -> int:
        """Keys of working memory that the child has from its parent; bookkeeping is none."""
        return self.count_working()

    @property
    def semantic_facts(self) -> int:
        """Facts that the child has from its parent."""
        return self.count_semantic()


def fork_memory(
    working: WorkingMemoryProvider,
    semantic: SemanticMemoryProvider | None,
    parent: ResourceRef,
    child: ResourceRef,
) -> ForkMemoryResult:
    """
    Gives a child what its parent has.

    Facts go first. When the keys cannot follow, the facts are taken back, so that the fork can
    be tried again.

    Raises:
        InputError: The child is the parent, or has something already.
        MemoryCapabilityError: The facts cannot be listed; nothing was forked.
    """
    if child == parent:
        raise _refused("same_resource", child, "is the parent itself")
    copying = None
    if semantic is not None and not isinstance(semantic, ForkingProvider):
        copying = checked_prunable(semantic)
    _check_new(working, semantic, child)
    if isinstance(working, ForkingProvider) and isinstance(semantic, ForkingProvider):
        together = working.forked_with == semantic.forked_with
    else:
        together = False
    if semantic is None:
        count_facts: _Count = _none
    elif isinstance(semantic, ForkingProvider):
        count_facts = _forked(semantic, parent, child)
    else:
        assert copying is not None
        count_facts = _copied_facts(copying, parent, child)
    try:
        if isinstance(working, ForkingProvider):
            count_keys = _forked(working, parent, child, done=together)
        else:
            count_keys = _copied_keys(working, parent, child)
    except BaseException:
        if isinstance(semantic, PrunableSemanticMemoryProvider):
            _take_back(semantic, parent, child)
        raise
    return ForkMemoryResult(ref=child, count_working=count_keys, count_semantic=count_facts)


def _take_back(
    provider: PrunableSemanticMemoryProvider, parent: ResourceRef, child: ResourceRef
) -> None:
    """Forgets what came from the parent, and nothing that somebody remembered meanwhile."""
    given = {fact.content for fact in provider.list_all(parent)}
    there = provider.list_all(child)
    provider.forget(child, [fact.id for fact in there if fact.content in given])


def _check_new(
    working: WorkingMemoryProvider, semantic: SemanticMemoryProvider | None, child: ResourceRef
) -> None:
    has = bool(working.list(child, limit=1))
    if isinstance(semantic, PrunableSemanticMemoryProvider):
        has = has or bool(semantic.list_recent(child, 1))
    if has:
        raise _refused("not_empty", child, "has memories already")


def _forked(
    provider: ForkingProvider, parent: ResourceRef, child: ResourceRef, *, done: bool = False
) -> _Count:
    if not done:
        provider.fork(parent, child)
    return lambda: provider.inherited(parent, child)


def _copied_facts(
    provider: PrunableSemanticMemoryProvider, parent: ResourceRef, child: ResourceRef
) -> _Count:
    facts = [
        MemoryFact(content=fact.content, source_ref=fact.source_ref, evidence=fact.evidence)
        for fact in provider.list_all(parent)
    ]
    ids: set[str] = set()
    if facts and is_bulk_rememberable(provider):
        ids |= {fact.id for fact in provider.remember_many(child, facts)}
    else:
        try:
            for fact in facts:
                ids.add(provider.remember(child, fact).id)
        except BaseException:
            provider.forget(child, [*ids])
            raise
    return lambda: sum(fact.id in ids for fact in provider.list_all(child))


def _copied_keys(
    provider: WorkingMemoryProvider, parent: ResourceRef, child: ResourceRef
) -> _Count:
    values = all_keys(provider, parent)
    try:
        for key, value in values.items():
            provider.set(child, key, value)
    except BaseException:
        for key in values:
            provider.delete(child, key)
        raise

    def count() -> int:
        now = all_keys(provider, child)
        return sum(key in now and now[key] == value for key, value in values.items())

    return count


def all_keys(provider: WorkingMemoryProvider, ref: ResourceRef) -> dict[str, JsonValue]:
    """Every key but bookkeeping, page by page."""
    found: dict[str, JsonValue] = {}
    after: str | None = None
    while True:
        page = provider.list(ref, after=after, limit=MAX_PAGE)
        found |= {key: value for key, value in page.items() if not is_bookkeeping(key)}
        after = page.next
        if after is None:
            return found


def _refused(code: str, child: ResourceRef, why: str) -> InputError:
    return InputError(
        f"the resource {child.resource_id!r} {why}; fork to a new one. Nothing was forked.",
        code=code,
        field="child_resource_id",
        value=child.resource_id,
        allowed="a resource without memories",
    )


def _none() -> int:
    return 0
