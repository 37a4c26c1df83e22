"""Merging a branch into one that it comes from, proposing that, and discarding a branch."""

import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, TypeVar
from uuid import UUID, uuid4

from memoriale.adapters.application.branching import Branching, BranchView, unchanged
from memoriale.adapters.application.meetings import Meetings, Met
from memoriale.adapters.application.merge_events import MergeEvents
from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.domain.branch_events import (
    Discarded,
    MergeApproved,
    MergeApprovedHeader,
    Merged,
    MergedHeader,
    MergeProposed,
    MergeProposedHeader,
)
from memoriale.domain.branches import Branch, Proposal, require_discardable
from memoriale.domain.errors import ConflictError, InputError, RefusedError
from memoriale.domain.events import Body, Event, Forked, Header, NewEvent
from memoriale.domain.guards import Guard, NoEvent
from memoriale.domain.merging import MOST_EVENTS, Prefer, Unit, units
from memoriale.domain.principal import Principal
from memoriale.domain.record import AppendReceipt

T = TypeVar("T")
_MAX_ATTEMPTS: Final = 64
_PAUSE_SECONDS: Final = 0.002


@dataclass(frozen=True, slots=True, kw_only=True)
class Merging:
    """
    What is asked of a merge.

    Args:
        child: The branch.
        into: The one that it comes from.
        prefer: Who wins where both sides changed the same.
        reason: Why; sealed.
        proposal: What is approved by it; only what was proposed is taken over then, and what
            clashes with later changes of the parent is decided anew.
    """

    child: UUID
    into: UUID
    prefer: Prefer
    reason: str | None = None
    proposal: Proposal | None = None


@dataclass(slots=True)
class Outcome:
    """
    What became of a merge.

    Args:
        index: Index of the last event that was stored; None if nothing was.
        recorded_at: When it was recorded.
        appends: How many appends it took.
        taken: What was taken over.
        left: What clashed and was left as the parent has it.
        clashes: What clashed and stopped the merge.
        proposal: The proposal that was stored.
    """

    index: int | None = None
    recorded_at: datetime | None = None
    appends: int = 0
    taken: list[Unit] = field(default_factory=list)
    left: list[Unit] = field(default_factory=list)
    clashes: list[Unit] = field(default_factory=list)
    proposal: UUID | None = None

    def stored(self, receipt: AppendReceipt) -> None:
        """Counts an append."""
        self.index, self.recorded_at = receipt.last, receipt.recorded_at
        self.appends += 1


@dataclass(frozen=True, slots=True)
class _Plan:
    """One look at both sides, and what follows from it."""

    met: Met
    child: Branch
    into: Branch
    take: list[Unit]
    left: list[Unit]
    clashes: list[Unit]


class BranchMerging:
    """
    Merges and ends the branches of one tenant's memory log. Whoever calls has checked rights.

    Args:
        log: The memory log.
        branching: Its branches.
    """

    def __init__(self, log: TenantLog, branching: Branching) -> None:
        self._log = log
        self._branching = branching
        self._meetings = Meetings(log)

    def merge(self, principal: Principal, asked: Merging) -> Outcome:
        """
        Makes the branch's changes changes of the other one, in one append where they fit, else
        in several. Whoever repeats a merge that was cut off goes on where it stopped.

        Args:
            principal: Who merges.
            asked: What.

        Raises:
            RefusedError: One of the branches is discarded, or a hold forbids it.
            ConflictError: Others kept changing the same memories.
        """
        outcome = Outcome()
        self._attempt(lambda: self._merge(principal, asked, outcome))
        return outcome

    def propose(self, principal: Principal, asked: Merging) -> Outcome:
        """
        Stores that somebody wants a merge, unless it clashes and nobody is preferred.

        Args:
            principal: Who asks.
            asked: What.
        """

        def attempt() -> Outcome:
            plan = self._plan(asked)
            outcome = Outcome(clashes=plan.clashes)
            if plan.clashes or not (plan.take or plan.left):
                return outcome
            header = MergeProposedHeader(
                into=asked.into, prefer=asked.prefer.value, seen=plan.met.seen
            )
            event = MergeProposed(header=header, body=Body(reason=asked.reason))
            proposed = self._of_branch(principal, plan.child, event, plan.child.version + 1)
            outcome.proposal = proposed.columns.event_id
            outcome.stored(self._log.save([proposed], unchanged(plan.child)))
            return outcome

        return self._attempt(attempt)

    def find_proposal(self, event_id: UUID) -> tuple[Branch, Proposal]:
        """
        A proposal with its branch.

        Raises:
            InputError: ``unknown_proposal``.
        """
        for branch in self._branching.everything().values():
            for proposal in branch.proposals:
                if proposal.id == event_id:
                    return branch, proposal
        raise InputError(
            f"there is no proposal {event_id} in this tenant.",
            code="unknown_proposal",
            field="proposal",
            value=str(event_id),
        )

    def discard(self, principal: Principal, branch_id: UUID, reason: str | None) -> AppendReceipt:
        """
        Ends a branch that no live one comes from.

        Raises:
            RefusedError: It is discarded already, the library made it, or branches left from it.
        """

        def attempt() -> AppendReceipt:
            # Read before the branches, so that a fork in between is seen by the guard.
            head = self._log.head() - 1
            known = self._branching.everything()
            branch = known[branch_id]
            branch.require_live()
            require_discardable(branch)
            children = [b for b in known.values() if b.parent == branch.id and b.discarded is None]
            if children:
                raise _has_children(branch, len(children))
            event = Discarded(header=Header(), body=Body(reason=reason))
            new = self._of_branch(principal, branch, event, branch.version + 1)
            return self._log.save(
                [new], (*unchanged(branch), NoEvent(topics=(Forked.TOPIC,), after=head))
            )

        return self._attempt(attempt)

    def _merge(self, principal: Principal, asked: Merging, outcome: Outcome) -> None:
        plan = self._plan(asked)
        outcome.clashes = plan.clashes
        if plan.clashes:
            return
        version, waiting, correlation = plan.child.version, plan.take, uuid4()
        makes = MergeEvents(self._log, principal, plan.met, plan.into, plan.take, correlation)
        guards: tuple[Guard, ...] = (*makes.guards(plan.met.head), *unchanged(plan.into))
        is_open = asked.proposal is not None and not asked.proposal.approved
        while waiting or (outcome.index is None and (plan.left or is_open)):
            part, waiting = _part(waiting, makes)
            events = [event for _, made in part for event in made]
            heads = [self._merged(asked, plan, len(part), not waiting)] if part or plan.left else []
            if asked.proposal is not None and is_open and not waiting:
                header = MergeApprovedHeader(proposal=asked.proposal.id)
                heads.insert(0, MergeApproved(header=header, body=Body(reason=asked.reason)))
            own = [
                self._of_branch(principal, plan.child, event, version + place, correlation)
                for place, event in enumerate(heads, 1)
            ]
            version += len(own)
            receipt = self._log.save([*own, *events], guards)
            outcome.stored(receipt)
            outcome.taken += [unit for unit, _ in part]
            # What this append guarded is unchanged up to its end, so the next goes on from there.
            guards = (*makes.guards(receipt.last), *unchanged(plan.into))
            is_open = is_open and bool(waiting)
        outcome.left = plan.left

    def _plan(self, asked: Merging) -> _Plan:
        head = self._log.head() - 1
        known = self._branching.everything()
        child, into = known[asked.child], known[asked.into]
        child.require_live()
        into.require_live()
        seen = head if asked.proposal is None else asked.proposal.seen
        met = self._meetings.read(BranchView(child, known), into, head, seen)
        found = units(met.changes, met.others, met.renamed)
        clashing = [unit for unit in found if unit.against]
        open_ = [unit for unit in clashing if _is_undecided(unit, asked)]
        by_parent = asked.prefer is Prefer.PARENT
        left = [unit for unit in clashing if by_parent and unit not in open_]
        take = [unit for unit in found if not (unit.against and by_parent)]
        return _Plan(met=met, child=child, into=into, take=take, left=left, clashes=open_)

    def _merged(self, asked: Merging, plan: _Plan, changes: int, complete: bool) -> Event:
        header = MergedHeader(
            into=plan.into.id,
            prefer=asked.prefer.value,
            seen=plan.met.seen,
            changes=changes,
            complete=complete,
            proposal=None if asked.proposal is None else asked.proposal.id,
        )
        return Merged(header=header, body=Body(reason=asked.reason))

    def _of_branch(
        self,
        principal: Principal,
        branch: Branch,
        event: Event,
        version: int,
        correlation: UUID | None = None,
    ) -> NewEvent:
        return self._branching.happened(principal, branch, event, version, correlation)

    def _attempt(self, act: Callable[[], T]) -> T:
        for attempt in range(_MAX_ATTEMPTS):
            try:
                return act()
            except ConflictError:
                # Somebody changed what the plan rests on: look again.
                if attempt == _MAX_ATTEMPTS - 1:
                    raise
                time.sleep(random.uniform(0, _PAUSE_SECONDS * (attempt + 1)))
        raise AssertionError("unreachable: the last attempt returns or raises")


def _part(
    waiting: Sequence[Unit], makes: MergeEvents
) -> tuple[list[tuple[Unit, list[NewEvent]]], list[Unit]]:
    """
    The next units that fit into one append together with their events, and what is left. A unit
    that is larger than an append stands alone, so that it is never cut.
    """
    part: list[tuple[Unit, list[NewEvent]]] = []
    # Two for what the branch's own stream says.
    room = MOST_EVENTS - 2
    for place, unit in enumerate(waiting):
        made = makes.events(unit)
        if part and len(made) > room:
            return part, list(waiting[place:])
        part.append((unit, made))
        room -= len(made)
    return part, []


def _is_undecided(unit: Unit, asked: Merging) -> bool:
    """Whether nobody has said who wins: what came after a proposal was not known to it."""
    if asked.prefer is Prefer.NONE or asked.proposal is None:
        return asked.prefer is Prefer.NONE
    seen = asked.proposal.seen
    return any(o.parent_event is not None and o.parent_event.index > seen for o in unit.against)


def ancestors(child: Branch, known: dict[UUID, Branch]) -> Iterable[Branch]:
    """The branches that a branch comes from, nearest first."""
    while child.parent is not None:
        child = known[child.parent]
        yield child


def _has_children(branch: Branch, count: int) -> RefusedError:
    left = "a branch that is in use left" if count == 1 else f"{count} branches in use left"
    return RefusedError(
        f"{left} from this one; discard them first.",
        code="has_children",
        field="branch",
        value=branch.name,
    )
