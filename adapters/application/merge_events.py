"""From the changes that a merge takes over to the events that record them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from uuid import UUID

from memoriale.adapters.application.branching import BranchView
from memoriale.adapters.application.drafting import Drafting
from memoriale.adapters.application.meetings import Met
from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.adapters.keys import tags
from memoriale.domain.branches import Branch
from memoriale.domain.decisions import Draft
from memoriale.domain.events import Corrected, NewEvent, RecordedEvent, Remembered
from memoriale.domain.guards import Guard, NothingNew
from memoriale.domain.holds import (
    HELD_REASONS,
    HOLD_KIND,
    active_holds,
    no_new_hold,
    refuse_if_held,
)
from memoriale.domain.keys import PersonKey
from memoriale.domain.memory import MemoryState, Status
from memoriale.domain.merging import Meeting, Unit, identity, rivals
from memoriale.domain.principal import Principal
from memoriale.domain.takeovers import Place, decide_takeover, decide_yield


class MergeEvents:
    """
    Makes the events of one merge on the parent.

    Args:
        log: The memory log.
        principal: Who merges.
        met: Both sides.
        into: The parent.
        take: All that is taken over.
        correlation_id: What all of the events belong to.
    """

    def __init__(
        self,
        log: TenantLog,
        principal: Principal,
        met: Met,
        into: Branch,
        take: Sequence[Unit],
        correlation_id: UUID,
    ) -> None:
        self._log = log
        self._met = met
        self._take = take
        self._view = BranchView(into, {into.id: into})
        self._drafting = Drafting(log)
        self._stamp = log.identities.stamp(principal, correlation_id, None)
        self._by_target = {meeting.target: meeting for unit in take for meeting in unit.changes}
        self._people: dict[tuple[UUID, ...], tuple[PersonKey, ...]] = {}

    def events(self, unit: Unit) -> list[NewEvent]:
        """The events of one unit, in the order in which the branch made the changes."""
        drafts = [draft for meeting in unit.changes for draft in self._taken(meeting)]
        # Who gives way is ended first, so that never two are current of one aspect.
        return [self._sealed(draft) for draft in (*self._given_way(unit), *drafts)]

    def guards(self, after: int) -> tuple[Guard, ...]:
        """
        What must not have happened on the parent since an index: anything of an owner and kind
        among which at most one memory of an aspect is current, or a new hold on what ends.

        Raises:
            RefusedError: Something that would end is under legal hold.
        """
        branch = self._view.branch.id
        named = {
            (meeting.owner, meeting.child.kind)
            for meeting in self._by_target.values()
            if meeting.child is not None and identity(meeting.child) is not None
        }
        found: list[Guard] = [NothingNew(o, k, after, branch) for o, k in sorted(named)]
        for owner in sorted({meeting.owner for meeting in self._ended_by_upkeep()}):
            rows = self._log.reader.slice(owner, HOLD_KIND)
            holds = active_holds(self._log.mapper.decode(rows))
            for meeting in self._ended_by_upkeep():
                assert meeting.child is not None and meeting.child.reason_code is not None
                if meeting.owner == owner:
                    refuse_if_held(holds, meeting.child.reason_code)
            found.append(no_new_hold(owner, after))
        return tuple(found)

    def _ended_by_upkeep(self) -> Iterator[Meeting]:
        for meeting in self._by_target.values():
            child, parent = meeting.child, meeting.parent
            if child is None or parent is None or parent.status is not Status.CURRENT:
                continue
            if child.status is Status.INVALIDATED and child.reason_code in HELD_REASONS:
                yield meeting

    def _taken(self, meeting: Meeting) -> list[Draft]:
        assert meeting.child is not None and meeting.child_event is not None
        cause = meeting.child_event
        stamp = replace(self._stamp, causation_id=cause.columns.event_id)
        place = self._place(meeting, meeting.child)
        return decide_takeover(meeting.child, meeting.parent, place, stamp, _reason(cause))

    def _given_way(self, unit: Unit) -> Iterator[Draft]:
        for other, heir in rivals(unit):
            assert other.parent is not None
            place = self._place(other, other.parent)
            cause = unit.changes[-1].child_event
            assert cause is not None
            stamp = replace(self._stamp, causation_id=cause.columns.event_id)
            yield decide_yield(other.parent, heir, place, stamp, _reason(cause))

    def _place(self, meeting: Meeting, state: MemoryState) -> Place:
        own = state.columns.owner == meeting.owner
        owner = self._persons((meeting.owner,))[0]
        return Place(
            memory_id=meeting.target,
            branch=self._view.branch.id,
            stream_id=self._drafting.stream(meeting.target, self._view),
            owner=owner.pseudonym,
            owner_type=owner.subject.type,
            aspect=state.aspect if own else self._aspect(owner, state),
            replaced_by=self._heir(state.replaced_by),
        )

    def _aspect(self, owner: PersonKey, state: MemoryState) -> str | None:
        subject = getattr(state.payload, "subject", None)
        if state.aspect is None or subject is None:
            return None
        return tags.aspect_tag(self._log.identities.tag_key(owner), subject).hex()

    def _heir(self, replaced_by: UUID | None) -> UUID | None:
        """
        What stands on the parent in place of an ended memory: what was made and replaced again
        on the branch is not there.
        """
        passed: set[UUID] = set()
        while replaced_by is not None and replaced_by not in passed:
            passed.add(replaced_by)
            target = self._met.renamed.get(replaced_by, replaced_by)
            if target not in self._met.passing:
                return target
            replaced_by = self._met.passing[target]
        return None

    def _sealed(self, draft: Draft) -> NewEvent:
        columns = draft.columns
        sealed_for = self._persons(columns.about or (columns.owner,))
        if not isinstance(draft.event, Remembered | Corrected) or draft.event.body is None:
            return NewEvent(draft.event, columns, sealed_for)
        owner = self._persons((columns.owner,))[0]
        tag = self._drafting.content_tag(owner, draft.event.body.payload.content)
        return NewEvent(draft.event, replace(columns, content_tag=tag), sealed_for)

    def _persons(self, pseudonyms: tuple[UUID, ...]) -> tuple[PersonKey, ...]:
        if pseudonyms not in self._people:
            self._people[pseudonyms] = self._log.identities.by_pseudonyms(pseudonyms)
        return self._people[pseudonyms]


def _reason(cause: RecordedEvent) -> str | None:
    return None if cause.event.body is None else cause.event.body.reason
