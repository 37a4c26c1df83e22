"""Reading what two branches have of the memories that one of them changed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final
from uuid import UUID

from memoriale.adapters.application.branching import BranchView
from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.adapters.keys.tags import adopted_id
from memoriale.adapters.postgres.branch_reading import BranchReader
from memoriale.domain.branches import Branch, Lineage, Merge
from memoriale.domain.diffs import common_lineage, own_stretches
from memoriale.domain.events import RecordedEvent
from memoriale.domain.memory import Status, project_memory
from memoriale.domain.merging import Meeting, aspects
from memoriale.domain.slices import on_lineage

_FOLDED_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Met:
    """
    What a merge is about.

    Args:
        changes: What the branch has to give.
        others: What the parent changed since, as far as it may clash.
        renamed: Ids on the parent of memories that get another owner there.
        passing: Memories that were made and ended on the branch, so that the parent never has
            them, with what replaced each.
        head: Index of the last event that the parent was read up to.
        seen: The same of the branch.
    """

    changes: list[Meeting]
    others: list[Meeting]
    renamed: dict[UUID, UUID]
    passing: dict[UUID, UUID | None]
    head: int
    seen: int


@dataclass(frozen=True, slots=True)
class _Sides:
    """Both branches as far as they are read."""

    below: Lineage
    above: Lineage
    common: Lineage
    merges: tuple[Merge, ...]
    settled: int
    """Index up to which whole merges of the branch have dealt with its changes."""
    adopted: dict[UUID, UUID]
    renamed: dict[UUID, UUID] = field(default_factory=dict)

    def is_taken_over(self, recorded: RecordedEvent) -> bool:
        return any(merge.first <= recorded.index <= merge.last for merge in self.merges)


class Meetings:
    """Puts the two sides of a merge together, for one tenant's memory log."""

    def __init__(self, log: TenantLog) -> None:
        self._log = log
        self._reader = BranchReader(log.reader.datastore, log.reader.log)

    def read(self, child: BranchView, into: Branch, head: int, seen: int) -> Met:
        """
        What a branch and one that it comes from have changed since they parted.

        Args:
            child: The branch.
            into: The one that it comes from.
            head: Index up to which the parent counts.
            seen: Index up to which the branch counts.
        """
        sides = _sides(child, into, head, seen)
        ids = [
            memory_id
            for stretch in own_stretches(sides.below, sides.common)
            for memory_id in self._reader.changed(stretch, None)
        ]
        met = self._meetings(dict.fromkeys(ids), sides)
        changes = [meeting for meeting in met if meeting.is_to_take]
        others = {m.target: m for m in met if m.has_changed_above}
        named = {(m.owner, m.child.kind) for m in changes if m.child and _aspects(m)}
        more = dict.fromkeys(self._changed_above(named, into, sides)) - others.keys()
        for meeting in self._meetings(more, sides):
            if meeting.has_changed_above:
                others.setdefault(meeting.target, meeting)
        return Met(
            changes=changes,
            others=list(others.values()),
            renamed=sides.renamed,
            passing={m.target: m.child.replaced_by for m in met if m.child and _passed(m)},
            head=head,
            seen=seen,
        )

    def _changed_above(
        self, named: Iterable[tuple[UUID, str]], into: Branch, sides: _Sides
    ) -> Iterable[UUID]:
        after = sides.common[0].limit
        for owner, kind in named:
            rows = self._log.reader.slice(
                owner, kind, sides.above[0].limit, branches=[into.id], after=after
            )
            yield from (r.columns.memory_id for r in rows if r.columns.memory_id is not None)

    def _meetings(self, memory_ids: Iterable[UUID], sides: _Sides) -> list[Meeting]:
        ids, found = [*memory_ids], []
        for start in range(0, len(ids), _FOLDED_AT_ONCE):
            events = self._events(ids[start : start + _FOLDED_AT_ONCE], sides)
            renamed = [self._renamed(own[0], sides) for own in events.values()]
            theirs = self._events([i for i in renamed if i is not None], sides)
            for own, target in zip(events.values(), renamed, strict=True):
                above = own if target is None else theirs.get(target, [])
                found.append(_meeting(own, above, target, sides))
        return found

    def _renamed(self, first: RecordedEvent, sides: _Sides) -> UUID | None:
        """The id on the parent of a memory that gets another owner there."""
        memory_id, owner = first.columns.memory_id, sides.adopted.get(first.columns.owner)
        if owner is None or memory_id is None:
            return None
        identities = self._log.identities
        target = adopted_id(identities.tag_key(identities.tenant()), memory_id, owner)
        sides.renamed[memory_id] = target
        return target

    def _events(self, memory_ids: Sequence[UUID], sides: _Sides) -> dict[UUID, list[RecordedEvent]]:
        branches = {line.branch for line in (*sides.below, *sides.above)}
        rows = self._reader.of_memories(memory_ids, [*branches])
        opened = iter(self._log.mapper.decode([row for found in rows.values() for row in found]))
        return {memory_id: list(islice(opened, len(found))) for memory_id, found in rows.items()}


def _sides(child: BranchView, into: Branch, head: int, seen: int) -> _Sides:
    below = child.lineage(seen)
    above = BranchView(into, child.known).lineage(head)
    common = common_lineage(below, above)
    between = []
    for line in below:
        if line.branch == into.id:
            break
        between.append(child.known[line.branch])
    settled = (m.seen for m in child.branch.merges if m.into == into.id and m.complete)
    return _Sides(
        below=below,
        above=above,
        common=common,
        merges=tuple(m for branch in between for m in branch.merges if m.into == into.id),
        settled=max(settled, default=-1),
        adopted=_adopted(between),
    )


def _adopted(between: Sequence[Branch]) -> dict[UUID, UUID]:
    """Whose a memory becomes, by whose it is: the owner where the outermost branch left."""
    found: dict[UUID, UUID] = {}
    for branch in reversed(between):
        if branch.owner is not None and branch.parent_owner not in (None, branch.owner):
            assert branch.parent_owner is not None
            found[branch.owner] = found.get(branch.parent_owner, branch.parent_owner)
    return found


def _passed(meeting: Meeting) -> bool:
    ended = meeting.child is not None and meeting.child.status is not Status.CURRENT
    return ended and meeting.parent is None


def _aspects(meeting: Meeting) -> set[tuple[object, ...]]:
    return aspects(meeting, (meeting.before, meeting.child))


def _meeting(
    own: Sequence[RecordedEvent],
    above: Sequence[RecordedEvent],
    target: UUID | None,
    sides: _Sides,
) -> Meeting:
    first = own[0].columns
    assert first.memory_id is not None
    shared = on_lineage([*above], sides.common)
    known = {recorded.index for recorded in shared}
    below, theirs = on_lineage([*own], sides.below), on_lineage([*above], sides.above)
    since = [recorded for recorded in theirs if recorded.index not in known]
    taken = next((e for e in reversed(since) if sides.is_taken_over(e)), None)
    changed_above = [e for e in since if taken is None or e.index > taken.index]
    settled = max(sides.settled, _source(below, taken))
    changed = [e for e in below if e.index not in known and e.index > settled]
    return Meeting(
        target=first.memory_id if target is None else target,
        owner=sides.adopted.get(first.owner, first.owner),
        before=project_memory(None, shared),
        child=project_memory(None, below),
        parent=project_memory(None, theirs),
        child_event=changed[-1] if changed else None,
        parent_event=changed_above[-1] if changed_above else None,
    )


def _source(below: Sequence[RecordedEvent], taken: RecordedEvent | None) -> int:
    """Index of the branch's event that the parent took over last."""
    if taken is None:
        return -1
    cause = taken.columns.causation_id
    return max((e.index for e in below if e.columns.event_id == cause), default=-1)
