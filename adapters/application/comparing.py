"""Comparing branches: what one changed since another, which hits differ, and the tree of all."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from memoriale.adapters.application.branching import BranchView, branch_scope
from memoriale.adapters.application.presenting import as_json
from memoriale.adapters.application.reading import hidden_of
from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.adapters.postgres.branch_reading import BranchReader
from memoriale.domain.access import AccessScope
from memoriale.domain.branches import Branch, Lineage
from memoriale.domain.diffs import (
    Difference,
    MemoryChange,
    common_lineage,
    memory_changes,
    own_stretches,
)
from memoriale.domain.events import Amended, Invalidated, RecordedEvent
from memoriale.domain.keys import Subject
from memoriale.domain.memory import MemoryState, Status
from memoriale.domain.principal import Principal
from memoriale.domain.record import Row
from memoriale.domain.slices import on_lineage

if TYPE_CHECKING:
    from memoriale.adapters.application.recalling import Recall

_FOLDED_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffEntry:
    """
    One memory in one difference.

    Args:
        memory_id: Which memory.
        kind: Its kind.
        before: Its content where the branches parted; None if it was not current there.
        after: Its content on the branch; None if it is not current there.
        index: Index of the last event that made the difference.
        recorded_at: When that was recorded.
        actor: Who did it; None if the name was erased.
        reason: Why, as given.
        reason_code: Of an invalidation.
        replaced_by: Of an invalidation, the memory that replaces it.
        changed: Fields that the amendment named.
        branch: The branch that the event stands on.
        also_changed: Whether the other branch has changed the same memory since.
    """

    memory_id: UUID
    kind: str
    before: str | None
    after: str | None
    index: int
    recorded_at: datetime
    actor: Subject | None
    reason: str | None
    reason_code: str | None
    replaced_by: UUID | None
    changed: tuple[str, ...]
    branch: str
    also_changed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionDiff:
    """
    How the answers to one question differ.

    Args:
        question: The question.
        hits_a: What the first branch answers.
        hits_b: What the second one answers.
        only_a: Ids of memories that the first branch alone finds, best first.
        only_b: Those that the second one alone finds.
        changed: Those that both find, in different versions.
    """

    question: str
    hits_a: "Recall"
    hits_b: "Recall"
    only_a: tuple[UUID, ...]
    only_b: tuple[UUID, ...]
    changed: tuple[UUID, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchDiff:
    """
    What branch ``b`` changed since it and branch ``a`` parted, for what the caller may see.

    Args:
        a: Name of the branch that is compared with.
        b: Name of the branch whose changes these are.
        base: Name of the nearest branch that both are on or come from.
        base_index: Index of the last event of it that both see.
        index: Index of the last event of the log that was looked at.
        added: Memories that ``b`` made and that are current.
        corrected: Memories of other content.
        amended: Memories of other importance, tags, metadata or times.
        invalidated: Memories that are no longer current.
        reinstated: Memories that are current again.
        questions: How the answers to the questions differ.
    """

    a: str
    b: str
    base: str
    base_index: int
    index: int
    added: tuple[DiffEntry, ...]
    corrected: tuple[DiffEntry, ...]
    amended: tuple[DiffEntry, ...]
    invalidated: tuple[DiffEntry, ...]
    reinstated: tuple[DiffEntry, ...]
    questions: tuple[QuestionDiff, ...] = ()

    @property
    def entries(self) -> dict[str, tuple[DiffEntry, ...]]:
        """The five lists by name."""
        return {difference.value: getattr(self, difference.value) for difference in Difference}


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchNode:
    """
    A branch in the tree of branches.

    Args:
        branch: Its name; its id if the name was erased.
        id: Its id.
        parent: Name of the branch that it left; None for a root, and when the caller may not
            use that branch.
        parent_id: Id of the branch that it left; None for ``main``.
        depth: Steps to the root that it is shown under.
        at: Index of the last event of the parent that it sees; None for ``main``.
        index: Index of the event that made it; None for ``main``.
        recorded_at: When it was made; None for ``main``.
        owner_type: Type of the owner that it is limited to; None for the whole tenant.
        events: How many events stand on it itself, of memories that the caller may see.
    """

    branch: str
    id: UUID
    parent: str | None
    parent_id: UUID | None
    depth: int
    at: int | None
    index: int | None
    recorded_at: datetime | None
    owner_type: str | None
    events: int

    def as_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {f.name: as_json(getattr(self, f.name)) for f in fields(self)}


@dataclass(frozen=True, slots=True)
class _Side:
    """A branch as far as it is read, and what the caller sees there."""

    view: BranchView
    lineage: Lineage
    scope: AccessScope


class Comparing:
    """Compares the branches of one tenant's memory log, from the log itself."""

    def __init__(self, log: TenantLog) -> None:
        self._log = log
        self._reader = BranchReader(log.reader.datastore, log.reader.log)

    def diff(
        self,
        principal: Principal,
        a: BranchView,
        b: BranchView,
        limit: int,
        questions: tuple[QuestionDiff, ...] = (),
    ) -> BranchDiff:
        """
        What ``b`` changed since it and ``a`` parted.

        Args:
            principal: The caller.
            a: Compared with.
            b: Whose changes.
            limit: Index of the last event to look at.
            questions: How answers differ, to go with it.
        """
        scope = self._log.identities.scope(principal)
        one, other = (
            _Side(view, view.lineage(limit), branch_scope(scope, view)) for view in (b, a)
        )
        common = common_lineage(one.lineage, other.lineage)
        names = {branch.id: _name(branch) for view in (a, b) for branch in view.known.values()}
        changes = list(self._changes(one, other, common))
        entries = {
            difference.value: self._told(found, one.scope)
            for difference, found in self._entries(changes, names).items()
        }
        return BranchDiff(
            a=_name(a.branch),
            b=_name(b.branch),
            base=names[common[0].branch],
            base_index=common[0].limit,
            index=limit,
            questions=questions,
            **entries,
        )

    def tree(self, principal: Principal, branches: Sequence[Branch]) -> list[BranchNode]:
        """
        Branches as a tree, each before those that left it, these in the order they were made.

        Args:
            principal: The caller.
            branches: Those that it may use.
        """
        counts = self._reader.counts(self._log.identities.scope(principal))
        known = {branch.id: branch for branch in branches}
        return [_node(branch, depth, known, counts) for branch, depth in _in_order(known)]

    def _changes(
        self, one: _Side, other: _Side, common: Lineage
    ) -> Iterator[tuple[MemoryChange, bool]]:
        branches = [*{line.branch for line in (*one.lineage, *other.lineage)}]
        for memory_ids in self._changed(one, common):
            rows = self._reader.of_memories(memory_ids, branches)
            for events in self._visible(rows, one.scope):
                changes = memory_changes(events, one.lineage, common)
                also = bool(changes) and _has_changed(events, other, common)
                yield from ((change, also) for change in changes)

    def _changed(self, side: _Side, common: Lineage) -> Iterator[list[UUID]]:
        stretches = own_stretches(side.lineage, common)
        owners = side.scope.owners
        found = [i for stretch in stretches for i in self._reader.changed(stretch, owners)]
        distinct = list(dict.fromkeys(found))
        for start in range(0, len(distinct), _FOLDED_AT_ONCE):
            yield distinct[start : start + _FOLDED_AT_ONCE]

    def _visible(
        self, rows: dict[UUID, list[Row]], scope: AccessScope
    ) -> list[list[RecordedEvent]]:
        """The events of each memory that the caller may see; nothing of another is opened."""
        # The first event made the memory, and its columns say who may see it.
        seen = [found for found in rows.values() if scope.allows(found[0].columns)]
        # Opened together, so that keys are fetched once.
        opened = iter(self._log.mapper.decode([row for found in seen for row in found]))
        return [list(islice(opened, len(found))) for found in seen]

    def _told(self, entries: tuple[DiffEntry, ...], scope: AccessScope) -> tuple[DiffEntry, ...]:
        """The entries without the ids of replacements that the caller may not see."""
        hidden = hidden_of(self._log, (entry.replaced_by for entry in entries), scope)
        return tuple(
            replace(entry, replaced_by=None) if entry.replaced_by in hidden else entry
            for entry in entries
        )

    def _entries(
        self, changes: Sequence[tuple[MemoryChange, bool]], names: dict[UUID, str]
    ) -> dict[Difference, tuple[DiffEntry, ...]]:
        actors = self._log.identities.names([c.event.columns.actor for c, _ in changes])
        ordered = sorted(changes, key=lambda found: found[0].event.index)
        return {
            difference: tuple(
                _entry(change, also, actors, names)
                for change, also in ordered
                if change.difference is difference
            )
            for difference in Difference
        }


def compare_answers(question: str, a: "Recall", b: "Recall") -> QuestionDiff:
    """How the answers of two branches to one question differ."""
    versions_a = {hit.memory_id: hit.index for hit in a}
    versions_b = {hit.memory_id: hit.index for hit in b}
    return QuestionDiff(
        question=question,
        hits_a=a,
        hits_b=b,
        only_a=tuple(i for i in versions_a if i not in versions_b),
        only_b=tuple(i for i in versions_b if i not in versions_a),
        changed=tuple(i for i, v in versions_b.items() if versions_a.get(i, v) != v),
    )


def _has_changed(events: Sequence[RecordedEvent], side: _Side, common: Lineage) -> bool:
    if not side.scope.allows(events[0].columns):
        return False
    shared = {recorded.index for recorded in on_lineage([*events], common)}
    return any(e.index not in shared for e in on_lineage([*events], side.lineage))


def _entry(
    change: MemoryChange, also: bool, actors: dict[UUID, Subject], names: dict[UUID, str]
) -> DiffEntry:
    event, columns = change.event.event, change.event.columns
    ended = event.header if isinstance(event, Invalidated) else None
    assert columns.branch is not None
    return DiffEntry(
        memory_id=change.after.memory_id,
        kind=change.after.kind,
        before=_content(change.before),
        after=_content(change.after),
        index=change.event.index,
        recorded_at=change.event.recorded.recorded_at,
        actor=actors.get(columns.actor),
        reason=None if event.body is None else event.body.reason,
        reason_code=None if ended is None else ended.reason_code.value,
        replaced_by=None if ended is None else ended.replaced_by,
        changed=event.header.changed if isinstance(event, Amended) else (),
        branch=names[columns.branch],
        also_changed=also,
    )


def _content(state: MemoryState | None) -> str | None:
    if state is None or state.status is not Status.CURRENT or state.payload is None:
        return None
    return state.payload.content


def _in_order(known: dict[UUID, Branch]) -> Iterator[tuple[Branch, int]]:
    children: dict[UUID | None, list[Branch]] = {}
    for branch in sorted(known.values(), key=lambda branch: branch.index):
        children.setdefault(_shown_parent(branch, known), []).append(branch)
    waiting = [(branch, 0) for branch in reversed(children.get(None, []))]
    while waiting:
        branch, depth = waiting.pop()
        yield branch, depth
        waiting += [(child, depth + 1) for child in reversed(children.get(branch.id, []))]


def _shown_parent(branch: Branch, known: dict[UUID, Branch]) -> UUID | None:
    # A parent is older than its child; only a changed log says otherwise.
    parent = None if branch.parent is None else known.get(branch.parent)
    return parent.id if parent is not None and parent.index < branch.index else None


def _node(
    branch: Branch, depth: int, known: dict[UUID, Branch], counts: dict[UUID, int]
) -> BranchNode:
    parent, forked = _shown_parent(branch, known), branch.parent is not None
    return BranchNode(
        branch=_name(branch),
        id=branch.id,
        parent=None if parent is None else _name(known[parent]),
        parent_id=branch.parent,
        depth=depth,
        at=branch.at if forked else None,
        index=branch.index if forked else None,
        recorded_at=branch.recorded_at,
        owner_type=branch.owner_type,
        events=counts.get(branch.id, 0),
    )


def _name(branch: Branch) -> str:
    return branch.name or str(branch.id)
