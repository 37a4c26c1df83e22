"""Stores decide here: what an owner has is folded, a rule says what changes, one append does it."""

import random
import time
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from memoriale.adapters.application.access_log import Gate
from memoriale.adapters.application.branching import (
    BranchView,
    branch_scope,
    renewed,
    unchanged,
)
from memoriale.adapters.application.drafting import (
    Drafting,
    Planned,
    request_of,
)
from memoriale.adapters.application.newest import newest_current
from memoriale.adapters.application.reading import Reading
from memoriale.adapters.application.slices import Slices
from memoriale.adapters.application.step_events import StepEvents
from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.adapters.keys import tags
from memoriale.adapters.postgres.repeats import stored_before
from memoriale.domain.branches import NO_LIMIT
from memoriale.domain.errors import ConflictError, JobEndedError
from memoriale.domain.events import Invalidated, NewEvent
from memoriale.domain.guards import Guard, NothingNew, StreamAt
from memoriale.domain.holds import (
    HELD_REASONS,
    HOLD_KIND,
    active_holds,
    no_new_hold,
    refuse_if_held,
)
from memoriale.domain.jobs import EffectKey, JobCompleted, JobRequested
from memoriale.domain.keys import PersonKey, Subject
from memoriale.domain.memory import MemoryState
from memoriale.domain.principal import Principal, Right
from memoriale.domain.record import AppendReceipt, Columns
from memoriale.domain.steps import Decision, End, Slice, Step
from memoriale.domain.text import check_outside_id

MAX_ATTEMPTS: Final = 64
_PAUSE_SECONDS: Final = 0.002

Closing = Callable[[Sequence[Step]], NewEvent]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """
    What a store was asked.

    Args:
        command: Its name, such as ``facts.add``.
        arguments: As given, as JSON values; a repeated idempotency key must bring the same.
        idempotency_key: The caller's; a repeated request with it changes nothing. That of a
            job's effect is not asked whether the arguments are the same.
        others: Memories of other owners that the decision may end.
        inherits: Whether the decision looks at what the branch inherits from other owners.
        guards: Further conditions under which what it decides may be stored.
        correlation_id: What the events belong to.
        causation_id: The event that made the caller ask.
        job: The stream of the job that this is done for, as its attempt began; when it has gone
            on since, because the job was cancelled or taken over, nothing is stored.
        closing: Makes the event that ends that job, from the steps that are stored with it.
    """

    command: str
    arguments: dict[str, Any] = field(default_factory=dict)
    idempotency_key: str | None = None
    others: tuple[UUID, ...] = ()
    inherits: bool = False
    guards: tuple[Guard, ...] = ()
    correlation_id: UUID | None = None
    causation_id: UUID | None = None
    job: StreamAt | None = None
    closing: Closing | None = None

    def __post_init__(self) -> None:
        if self.idempotency_key is not None:
            check_outside_id("idempotency_key", self.idempotency_key)


@dataclass(frozen=True, slots=True)
class Decided:
    """
    What became of a request.

    Args:
        events: For each event its memory (of a job's: the job) and topic; none when nothing had
            to change.
        event_ids: Their ids.
        index: Index of the last event; None when nothing had to change.
        recorded_at: When it was recorded; aware UTC.
        created: False when an earlier call with the same idempotency key stored it.
    """

    events: tuple[tuple[UUID, str], ...] = ()
    event_ids: tuple[UUID, ...] = ()
    index: int | None = None
    recorded_at: datetime | None = None
    created: bool = True

    def made(self) -> list[UUID]:
        """The memories that are current through it: made, replaced or made current again."""
        last = dict(self.events)
        other = (Invalidated.TOPIC, JobRequested.TOPIC, JobCompleted.TOPIC)
        return [memory_id for memory_id, topic in last.items() if topic not in other]

    def ended(self) -> list[UUID]:
        """The memories that ended through it."""
        last = dict(self.events)
        return [memory_id for memory_id, topic in last.items() if topic == Invalidated.TOPIC]

    def jobs(self) -> list[UUID]:
        """The jobs that were asked for with it."""
        return [job for job, topic in self.events if topic == JobRequested.TOPIC]


class Deciding:
    """
    Changes what one owner has of some kinds, by the rules of a store; ``gate`` is asked for
    ``review``.
    """

    def __init__(
        self,
        log: TenantLog,
        reading: Reading,
        slices: Slices,
        clock: Callable[[], datetime] | None,
        gate: Gate,
    ) -> None:
        self._log = log
        self._reading = reading
        self._gate = gate
        self._slices = slices
        self._clock = clock
        self._drafting = Drafting(log)
        self._step_events = StepEvents(self._drafting)

    def read(
        self,
        principal: Principal,
        branch: BranchView,
        owner: Subject,
        kinds: Sequence[str],
        limit: int | None = None,
        now: datetime | None = None,
        *,
        inherits: bool = False,
    ) -> Slice | None:
        """
        What an owner has, without making the owner known; None when the tenant never saw it.

        Args:
            principal: Who asks; what it may not see is left out.
            branch: As which branch sees it.
            owner: Whose.
            kinds: Of which kinds.
            limit: Last index that counts; None for all.
            now: The time of the read; None: the clock's, or the database's.
            inherits: Also what the branch inherits from other owners.
        """
        branch.branch.require_live(NO_LIMIT if limit is None else limit)
        known = self._log.identities.find(owner)
        if known is None:
            return None
        return self._slice(principal, known, kinds, branch, limit, now, inherits=inherits)

    def newest(
        self, principal: Principal, branch: BranchView, owner: Subject, kind: str, count: int
    ) -> tuple[list[MemoryState], int]:
        """
        An owner's memories of a kind that are current, with those that the branch inherits; those
        that were made last first. Where all of it was not folded yet, its end alone is read.

        Args:
            principal: Who asks; what it may not see is left out.
            branch: As which branch sees them.
            owner: Whose.
            kind: Of which kind.
            count: How many at most.

        Returns:
            The memories, and the index of the last event that counts.
        """
        branch.branch.require_live()
        known = self._log.identities.find(owner)
        if known is None:
            return [], -1
        owners = (known.pseudonym, *branch.parent_owners())
        if all(self._slices.keeps(one, kind, branch.branch.id) for one in owners):
            seen = self._slice(principal, known, (kind,), branch, inherits=True)
            held = [seen.states, *seen.inherited]
            states = [state for one in held for state in one.of_kind(kind).current(seen.now)]
            states.sort(key=lambda state: state.first_index, reverse=True)
            return states[:count], seen.index
        head, read_at = self._log.reader.now()
        now = self._clock() if self._clock else read_at
        scope = branch_scope(self._log.identities.scope(principal), branch)
        lineage = branch.lineage(head - 1)
        return newest_current(self._log, owners, kind, lineage, scope, now, count), head - 1

    def decide(
        self,
        principal: Principal,
        branch: BranchView,
        owner: Subject,
        kinds: Sequence[str],
        decision: Decision,
        request: Request,
    ) -> Decided:
        """
        Folds, decides, appends; and again when somebody else changed the same kinds meanwhile.

        Args:
            principal: Who asks; another owner's memories need the right ``review``.
            branch: Where.
            owner: Whose memories; made known when new.
            kinds: All kinds that the decision looks at or makes.
            decision: The rule.
            request: What was asked.

        Raises:
            InputError: From the rule; nothing was stored.
            RefusedError: Held, or the branch holds another owner's memories.
            MissingRightError: Somebody else's memories, without the right ``review``.
            ConflictError: Others kept changing them.
            JobEndedError: The job that this is done for was cancelled or taken over.
            UnavailableError: The database cannot be reached.
        """
        own = {*principal.owners(), Subject("tenant", principal.tenant)}
        if owner not in own:
            self._gate.allow(principal, request.command, Right.REVIEW)
        key = self._drafting.owner(owner).key
        user = self._log.identities.find(principal.identity("user"))
        recorded_for = None if user is None else user.pseudonym
        self._drafting.require_branch(branch, key.pseudonym, owner.type, recorded_for)
        marks = self._marks(principal, branch, key, request)
        for attempt in range(MAX_ATTEMPTS):
            if before := self._before(key, marks, request):
                return before
            seen = self._slice(principal, key, kinds, branch, inherits=request.inherits)
            seen = replace(seen, others=self._others(principal, branch, request.others))
            steps = tuple(decision(seen))
            if not steps:
                return Decided()
            planned = self._planned(principal, branch, key, kinds, seen, steps, request, marks)
            try:
                receipt, rows = self._log.save_and_show(planned.events, planned.guards)
                # A repeat that was faster is read back by the next turn.
                if receipt.created:
                    self._slices.grew(key.pseudonym, kinds, branch, seen.index, rows)
                    return _decided(planned, receipt)
            except ConflictError:
                self._require_going_on(request.job)
                if attempt == MAX_ATTEMPTS - 1:
                    raise
                branch = renewed(self._log, branch)
                branch.branch.require_live()
                time.sleep(random.uniform(0, _PAUSE_SECONDS * (attempt + 1)))
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _slice(
        self,
        principal: Principal,
        owner: PersonKey,
        kinds: Sequence[str],
        branch: BranchView,
        limit: int | None = None,
        now: datetime | None = None,
        *,
        inherits: bool = False,
    ) -> Slice:
        states, index, read_at = self._slices.read(owner.pseudonym, kinds, branch, limit)
        if now is None:
            now = self._clock() if self._clock else read_at
        scope = branch_scope(self._log.identities.scope(principal), branch)
        parents = branch.parent_owners() if inherits else ()
        inherited = (self._slices.read(parent, kinds, branch, index)[0] for parent in parents)
        return Slice(
            owner=owner.pseudonym,
            states=states.visible(scope),
            branch=branch.branch.id,
            inherited=tuple(holdings.visible(scope) for holdings in inherited),
            index=index,
            now=now,
            content_tag=lambda text: self._drafting.content_tag(owner, text),
            held=lambda: any(map(self._holds, (owner.pseudonym, *parents))),
        )

    def _others(
        self, principal: Principal, branch: BranchView, memory_ids: Sequence[UUID]
    ) -> dict[UUID, MemoryState]:
        if not memory_ids:
            return {}
        scope = branch_scope(self._log.identities.scope(principal), branch)
        found = self._reading.folded(list(memory_ids), branch)
        return {i: state for i, state in found.items() if scope.allows(state.columns)}

    def _planned(
        self,
        principal: Principal,
        branch: BranchView,
        owner: PersonKey,
        kinds: Sequence[str],
        seen: Slice,
        steps: Sequence[Step],
        request: Request,
        marks: "_Marks",
    ) -> Planned:
        stamp = self._log.identities.stamp(principal, request.correlation_id, request.causation_id)
        events: list[NewEvent] = []
        # An other's place in its stream is its guard: who changed it meanwhile is a conflict.
        known = [seen.states, *seen.inherited, seen.others]
        states = ChainMap[UUID, MemoryState]({}, *known)  # type: ignore[arg-type]
        ending = [step.memory_id for step in steps if isinstance(step, End)]
        owners = {i: states[i].columns.owner for i in ending if i in states}
        for step in steps:
            events.append(self._step_events.event(principal, branch, owner, step, stamp, states))
        guards: list[Guard] = [
            NothingNew(owner.pseudonym, kind, seen.index, branch.branch.id) for kind in kinds
        ]
        guards += self._check_holds(owner.pseudonym, steps, seen.index, owners)
        # A branch that is discarded meanwhile takes nothing.
        guards += (*request.guards, *unchanged(branch.branch))
        if request.job is not None:
            guards.append(request.job)
        if request.closing is not None:
            events.append(request.closing(steps))
        columns = replace(
            events[0].columns,
            request_tag=marks.request_tag,
            idempotency_tag=marks.idempotency_tag,
        )
        events[0] = replace(events[0], columns=columns)
        return Planned(events, tuple(guards))

    def _marks(
        self, principal: Principal, branch: BranchView, owner: PersonKey, request: Request
    ) -> "_Marks":
        key, asked = self._log.identities.tag_key(owner), request.idempotency_key
        canonical = request_of(principal, branch, request.command, request.arguments)
        return _Marks(
            request_tag=tags.request_tag(key, canonical),
            idempotency_tag=None if asked is None else tags.idempotency_tag(key, asked),
        )

    def _before(self, owner: PersonKey, marks: "_Marks", request: Request) -> Decided | None:
        if marks.idempotency_tag is None:
            return None
        reader, tag = self._log.reader, marks.idempotency_tag
        same = None if isinstance(request.idempotency_key, EffectKey) else marks.request_tag
        rows = stored_before(reader, owner.pseudonym, tag, same)
        if not rows:
            return None
        return Decided(
            events=tuple((_subject_of(row.columns), row.columns.topic) for row in rows),
            event_ids=tuple(row.columns.event_id for row in rows),
            index=rows[-1].recorded.index,
            recorded_at=rows[-1].recorded.recorded_at,
            created=False,
        )

    def _require_going_on(self, job: StreamAt | None) -> None:
        if job is None:
            return
        if self._log.reader.stream(job.stream_id, gt=job.version, limit=1):
            raise JobEndedError(
                f"job {job.stream_id} was cancelled or taken over meanwhile; nothing was stored.",
                field="job_id",
                value=str(job.stream_id),
            )

    def _check_holds(
        self, owner: UUID, steps: Sequence[Step], index: int, owners: Mapping[UUID, UUID]
    ) -> list[Guard]:
        """Refuses what a hold forbids, on the owner or on whose memory ends; then the guards."""
        ended = [s for s in steps if isinstance(s, End) and s.because in HELD_REASONS]
        if not ended:
            return []
        whose = dict.fromkeys([owner, *(owners.get(s.memory_id, owner) for s in ended)])
        for each in whose:
            holds = self._holds(each)
            for step in ended:
                refuse_if_held(holds, step.because)
        return [no_new_hold(each, index) for each in whose]

    def _holds(self, owner: UUID) -> list[UUID]:
        return active_holds(self._log.mapper.decode(self._log.reader.slice(owner, HOLD_KIND)))


@dataclass(frozen=True, slots=True)
class _Marks:
    request_tag: bytes
    idempotency_tag: bytes | None


def _decided(planned: Planned, receipt: AppendReceipt) -> Decided:
    return Decided(
        events=tuple((_subject_of(e.columns), e.columns.topic) for e in planned.events),
        event_ids=tuple(e.columns.event_id for e in planned.events),
        index=receipt.last,
        recorded_at=receipt.recorded_at,
    )


def _subject_of(columns: Columns) -> UUID:
    return columns.stream_id if columns.memory_id is None else columns.memory_id
