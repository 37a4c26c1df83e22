"""Writing memories: from a checked command to an append that is durable when it returns."""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Final
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
    Owner,
    Planned,
    owner_subject,
    request_of_command,
    require_viewers,
)
from memoriale.adapters.application.reading import Reading, unknown_memory
from memoriale.adapters.application.step_events import requested
from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.adapters.keys import tags
from memoriale.domain.access import AccessScope, is_anothers_in_session
from memoriale.domain.commands import (
    Amend,
    Command,
    Correct,
    Invalidate,
    Reinstate,
    Remember,
)
from memoriale.domain.decisions import (
    Birth,
    Draft,
    Stamp,
    decide_amend,
    decide_correct,
    decide_invalidate,
    decide_reinstate,
    decide_remember,
    decide_supersede,
    require_current,
)
from memoriale.domain.errors import ConflictError, MemorialeError
from memoriale.domain.events import NewEvent
from memoriale.domain.guards import Guard, NothingNew
from memoriale.domain.holds import HOLD_KIND, active_holds, no_new_hold, refuse_if_held
from memoriale.domain.kinds import KINDS
from memoriale.domain.memory import MemoryState, Status
from memoriale.domain.principal import Principal, Right
from memoriale.domain.receipt import Receipt
from memoriale.domain.record import AppendReceipt
from memoriale.domain.steps import Ask

MAX_ATTEMPTS: Final = 64
_PAUSE_SECONDS: Final = 0.002

Change = Correct | Amend | Invalidate | Reinstate


class Writing:
    """Writes to one tenant's memory log; ``gate`` is asked for ``review``."""

    def __init__(self, log: TenantLog, reading: Reading, gate: Gate) -> None:
        self._log = log
        self._gate = gate
        self._reading = reading
        self._drafting = Drafting(log)

    def remember(self, principal: Principal, branch: BranchView, command: Remember) -> Receipt:
        """
        Makes a memory; it replaces current ones of equal subject, or those it supersedes.

        Raises:
            InputError: No owner, a memory to supersede that cannot be, or the idempotency key
                was used for another request.
            ConflictError: Others kept changing the same facts.
            UnavailableError: The database cannot be reached.
        """
        return self._attempt(branch, lambda at: self._plan_remember(principal, at, command))

    def remember_many(
        self, principals: Sequence[Principal], branch: BranchView, commands: Sequence[Remember]
    ) -> list[Receipt | MemorialeError]:
        """
        Makes many memories, each its own append, in order; an answer for each.

        Those that replace nothing go into the ledger in common calls.
        """
        answers: dict[int, Receipt | MemorialeError] = {}
        waiting: dict[int, Planned] = {}

        def flush() -> None:
            for place, answer in self._flush(waiting).items():
                answers[place] = answer
                if isinstance(answer, ConflictError):
                    # Something happened to the branch meanwhile.
                    answers[place] = self._once_more(principals[place], branch, commands[place])
            waiting.clear()

        for place, (principal, command) in enumerate(zip(principals, commands, strict=True)):
            try:
                if command.subject is None and not command.supersedes:
                    waiting[place] = self._plan_remember(principal, branch, command)
                    continue
                flush()
                answers[place] = self.remember(principal, branch, command)
            except MemorialeError as error:
                answers[place] = error
        flush()
        return [answers[place] for place in range(len(commands))]

    def _once_more(
        self, principal: Principal, branch: BranchView, command: Remember
    ) -> Receipt | MemorialeError:
        try:
            return self.remember(principal, branch, command)
        except MemorialeError as error:
            return error

    def change(self, principal: Principal, branch: BranchView, command: Change) -> Receipt:
        """
        Corrects, amends, invalidates or reinstates a memory.

        Raises:
            InputError: Unknown to the caller, or in a state that does not allow it.
            RefusedError: Visible but not the caller's own, without the right ``review``; or held.
            ConflictError: Others kept changing it.
            UnavailableError: The database cannot be reached.
        """
        name = type(command).__name__.lower()
        # Once, however often the change is tried.
        review = cache(lambda: self._gate.allow(principal, name, Right.REVIEW))
        return self._attempt(branch, lambda at: self._plan_change(principal, at, command, review))

    def _attempt(self, branch: BranchView, plan: Callable[[BranchView], Planned]) -> Receipt:
        for attempt in range(MAX_ATTEMPTS):
            planned = plan(branch)
            try:
                return self._receipt(planned, self._log.save(planned.events, planned.guards))
            except ConflictError:
                # Somebody else appended between the fold and the guard: fold again. The random
                # pause lets writers of one process fall out of step.
                if attempt == MAX_ATTEMPTS - 1:
                    raise
                branch = renewed(self._log, branch)
                time.sleep(random.uniform(0, _PAUSE_SECONDS * (attempt + 1)))
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _flush(self, waiting: dict[int, Planned]) -> dict[int, Receipt | MemorialeError]:
        answers = self._log.save_many([(one.events, one.guards) for one in waiting.values()])
        return {
            place: answer if isinstance(answer, MemorialeError) else self._receipt(planned, answer)
            for (place, planned), answer in zip(waiting.items(), answers, strict=True)
        }

    def _receipt(self, planned: Planned, answer: AppendReceipt) -> Receipt:
        first, memory_id = answer.events[0], planned.events[0].columns.memory_id
        assert memory_id is not None
        rest = [event.columns.memory_id for event in planned.events[1:]]
        rest = [i for i in rest if i not in planned.hidden]
        return Receipt(
            memory_id=memory_id,
            event_id=first.event_id,
            tenant=answer.tenant,
            index=first.index,
            recorded_at=answer.recorded_at,
            leaf_hash=first.leaf_hash.hex(),
            created=answer.created,
            superseded=tuple(i for i in rest if i is not None) if answer.created else (),
        )

    def _plan_remember(
        self, principal: Principal, branch: BranchView, command: Remember
    ) -> Planned:
        require_viewers(principal, command)
        owner = self._drafting.owner(owner_subject(principal, command), command.about)
        stamp = self._log.identities.stamp(principal, command.correlation_id, command.causation_id)
        key = owner.key
        self._drafting.require_branch(branch, key.pseudonym, key.subject.type, stamp.principal_user)
        birth = self._drafting.birth(branch, command, owner)
        drafts = [decide_remember(command, birth, stamp)]
        guards: tuple[Guard, ...] = ()
        if command.subject is not None or command.supersedes:
            after = self._log.head() - 1
            scope = self.scope(principal, branch)
            replaced = self._replaced(branch, command, birth, after, scope)
            drafts += self._supersede(replaced, birth.memory_id, stamp, branch)
            guards = (NothingNew(owner.key.pseudonym, command.kind, after, branch.branch.id),)
        planned = self._planned(principal, branch, command, owner, drafts, guards)
        follow_up = KINDS.require(command.kind).follow_up
        if follow_up is not None:
            ask = Ask(type=follow_up, arguments={"memory_id": str(birth.memory_id)})
            job = requested(ask, principal, owner.key, branch, stamp)
            planned.events.append(NewEvent(*job, (owner.key,)))
        return planned

    def _plan_change(
        self,
        principal: Principal,
        branch: BranchView,
        command: Change,
        review: Callable[[], None],
    ) -> Planned:
        identities = self._log.identities
        scope = self.scope(principal, branch)
        after = self._log.head() - 1
        state = self._reading.memory(command.memory_id, branch, scope)
        columns = state.columns
        self._drafting.require_branch(
            branch, columns.owner, columns.owner_type, columns.principal_user
        )
        own = [identities.find(owner) for owner in principal.owners()]
        if columns.owner not in [key.pseudonym for key in own if key is not None]:
            review()
        stamp = identities.stamp(principal, command.correlation_id, command.causation_id)
        stream = self._drafting.stream(command.memory_id, branch)
        drafts, guards = [_decide(command, state, stamp, branch.branch.id, stream)], []
        hidden: set[UUID] = set()
        if isinstance(command, Invalidate):
            guards += self._check_holds(state, command, after)
        if isinstance(command, Reinstate) and state.aspect is not None:
            rivals = self._same_aspect(branch, state, after)
            hidden = {s.memory_id for s in rivals if not scope.allows(s.columns)}
            drafts += self._supersede(rivals, state.memory_id, stamp, branch)
            columns = state.columns
            guards.append(NothingNew(columns.owner, state.kind, after, branch.branch.id))
        owner = self._drafting.owner_of(state)
        planned = self._planned(principal, branch, command, owner, drafts, tuple(guards))
        return replace(planned, hidden=frozenset(hidden))

    def scope(self, principal: Principal, branch: BranchView) -> AccessScope:
        """What the caller may see on a branch; see ``branch_scope``."""
        return branch_scope(self._log.identities.scope(principal), branch)

    def _planned(
        self,
        principal: Principal,
        branch: BranchView,
        command: Command,
        owner: Owner,
        drafts: list[Draft],
        guards: tuple[Guard, ...],
    ) -> Planned:
        first, key = drafts[0], self._log.identities.tag_key(owner.key)
        content = getattr(command, "content", None)
        asked = command.idempotency_key
        tagged = replace(
            first.columns,
            request_tag=tags.request_tag(key, request_of_command(principal, branch, command)),
            content_tag=None if content is None else tags.content_tag(key, content),
            idempotency_tag=None if asked is None else tags.idempotency_tag(key, asked),
        )
        events = [NewEvent(first.event, tagged, owner.sealed_for)]
        for draft in drafts[1:]:
            sealed_for = self._drafting.sealing_set(draft)
            events.append(NewEvent(draft.event, draft.columns, sealed_for))
        # A branch that is discarded meanwhile takes nothing.
        return Planned(events, (*guards, *unchanged(branch.branch)))

    def _replaced(
        self,
        branch: BranchView,
        command: Remember,
        birth: Birth,
        after: int,
        scope: AccessScope,
    ) -> list[MemoryState]:
        found = self._with_aspect(branch, birth.owner, command.kind, birth.aspect)
        folded = self._reading.folded([*found, *command.supersedes], branch)
        folded.pop(birth.memory_id, None)
        # A session holds memories of several users, each for that user alone.
        known = {i: state for i, state in folded.items() if scope.allows(state.columns)}
        for memory_id in command.supersedes:
            state = known.get(memory_id)
            if state is None or (state.columns.owner, state.kind) != (birth.owner, command.kind):
                raise unknown_memory(memory_id, "supersedes")
            require_current(state)
        return [s for s in known.values() if s.status is Status.CURRENT and s.index <= after]

    def _same_aspect(self, branch: BranchView, state: MemoryState, after: int) -> list[MemoryState]:
        found = self._with_aspect(branch, state.columns.owner, state.kind, state.aspect)
        known = self._reading.folded([i for i in found if i != state.memory_id], branch)
        return [
            s
            for s in known.values()
            if s.status is Status.CURRENT
            and s.index <= after
            and not is_anothers_in_session(s.columns, state.columns.principal_user)
        ]

    def _with_aspect(
        self, branch: BranchView, owner: UUID, kind: str, aspect: str | None
    ) -> list[UUID]:
        if aspect is None:
            return []
        branches = [line.branch for line in branch.lineage()]
        needle = f'"aspect":"{aspect}"'
        return list(self._log.reader.aspect(owner, kind, branches, needle, None))

    def _supersede(
        self, states: list[MemoryState], by: UUID, stamp: Stamp, branch: BranchView
    ) -> list[Draft]:
        streams = {s.memory_id: self._drafting.stream(s.memory_id, branch) for s in states}
        return decide_supersede(states, by, stamp, branch.branch.id, streams)

    def _check_holds(self, state: MemoryState, command: Invalidate, after: int) -> list[Guard]:
        owner = state.columns.owner
        rows = self._log.reader.slice(owner, HOLD_KIND)
        refuse_if_held(active_holds(self._log.mapper.decode(rows)), command.because)
        return [no_new_hold(owner, after)]


def _decide(command: Change, state: MemoryState, stamp: Stamp, branch: UUID, stream: UUID) -> Draft:
    if isinstance(command, Correct):
        return decide_correct(command, state, stamp, branch, stream)
    if isinstance(command, Amend):
        return decide_amend(command, state, stamp, branch, stream)
    if isinstance(command, Invalidate):
        return decide_invalidate(command, state, stamp, branch, stream)
    return decide_reinstate(command, state, stamp, branch, stream)
