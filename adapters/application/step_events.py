"""From the steps of a decision to events, in their order."""

from collections.abc import MutableMapping
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID, uuid4

from memoriale.adapters.application.branching import BranchView
from memoriale.adapters.application.drafting import Drafting, Owner, require_viewers
from memoriale.domain.commands import Invalidate, Reinstate
from memoriale.domain.decisions import (
    Draft,
    Stamp,
    decide_amend,
    decide_invalidate,
    decide_reinstate,
    decide_remember,
    decide_replace,
    decide_restate,
)
from memoriale.domain.events import NewEvent
from memoriale.domain.jobs import JOB_KIND, JobRequested, JobRequestedBody, JobRequestedHeader
from memoriale.domain.keys import PersonKey
from memoriale.domain.kinds import OWNER_TYPES
from memoriale.domain.memory import MemoryState, Status
from memoriale.domain.principal import Principal
from memoriale.domain.record import Columns
from memoriale.domain.steps import Adjust, Ask, End, Make, Replace, Restate, Revive, Step


class StepEvents:
    """
    Makes the events of steps; a later step of an append sees what earlier ones did.

    Args:
        drafting: Gives ids, tags and sealing sets.
    """

    def __init__(self, drafting: Drafting) -> None:
        self._drafting = drafting

    def event(
        self,
        principal: Principal,
        branch: BranchView,
        owner: PersonKey,
        step: Step,
        stamp: Stamp,
        states: MutableMapping[UUID, MemoryState],
    ) -> NewEvent:
        """
        The event of a step, before the tags of its append.

        Args:
            principal: Who asks.
            branch: Where.
            owner: The owner of what is made.
            step: What changes.
            stamp: The same of every event of the append.
            states: The memories that steps may name; what the step makes of one is put there.

        Raises:
            InputError: The memory is in a state that does not allow it.
        """
        if isinstance(step, Make):
            require_viewers(principal, step.command)
            whole = self._drafting.owner(owner.subject, step.command.about)
            whole = Owner(owner, whole.about)
            birth = self._drafting.birth(branch, step.command, whole, step.memory_id)
            draft = decide_remember(step.command, birth, stamp)
            states[step.memory_id] = _made(step, draft)
            return self._tagged(owner, draft, step.command.content, whole.sealed_for)
        if isinstance(step, Ask):
            return NewEvent(*requested(step, principal, owner, branch, stamp), (owner,))
        # A second step for one memory goes on from the first one's place in the stream.
        state = states[step.memory_id]
        stream = self._drafting.stream(state.memory_id, branch)
        draft = self._change(owner, step, state, stamp, branch.branch.id, stream)
        states[state.memory_id] = _after(step, state, draft)
        content = step.command.content if isinstance(step, Replace | Restate) else None
        return self._tagged(owner, draft, content, self._drafting.sealing_set(draft))

    def _change(
        self,
        owner: PersonKey,
        step: Replace | Restate | Adjust | End | Revive,
        state: MemoryState,
        stamp: Stamp,
        branch: UUID,
        stream: UUID,
    ) -> Draft:
        if isinstance(step, Replace):
            aspect = self._drafting.aspect(owner, step.command)
            return decide_replace(step.command, state, aspect, stamp, branch, stream)
        if isinstance(step, Restate):
            return decide_restate(step.command, step.similarity, state, stamp, branch, stream)
        if isinstance(step, Adjust):
            return decide_amend(step.command, state, stamp, branch, stream)
        if isinstance(step, Revive):
            command = Reinstate(memory_id=state.memory_id, reason=step.reason)
            return decide_reinstate(command, state, stamp, branch, stream)
        ended = Invalidate(memory_id=state.memory_id, because=step.because, reason=step.reason)
        return decide_invalidate(ended, state, stamp, branch, stream, step.replaced_by)

    def _tagged(
        self,
        owner: PersonKey,
        draft: Draft,
        content: str | None,
        sealed_for: tuple[PersonKey, ...],
    ) -> NewEvent:
        if content is None:
            return NewEvent(draft.event, draft.columns, sealed_for)
        tag = self._drafting.content_tag(owner, content)
        return NewEvent(draft.event, replace(draft.columns, content_tag=tag), sealed_for)


def requested(
    step: Ask, principal: Principal, owner: PersonKey, branch: BranchView, stamp: Stamp
) -> tuple[JobRequested, Columns]:
    """The event that asks for work of an owner, and its columns."""
    event = JobRequested(
        header=JobRequestedHeader(type=step.type),
        body=JobRequestedBody(arguments=step.arguments, principal=named(principal)),
    )
    columns = Columns(
        **stamp.fields(),
        event_id=uuid4(),
        stream_id=step.job_id,
        stream_version=1,
        topic=JobRequested.TOPIC,
        schema_version=JobRequested.SCHEMA_VERSION,
        branch=branch.branch.id,
        kind=JOB_KIND,
        owner=owner.pseudonym,
        owner_type=owner.subject.type,
    )
    return event, columns


def _made(step: Make, draft: Draft) -> MemoryState:
    """A memory that a later step of the same append may name; its place is not known yet."""
    unknown = datetime.min.replace(tzinfo=UTC)
    return MemoryState(
        memory_id=step.memory_id,
        kind=step.command.kind,
        columns=draft.columns,
        status=Status.CURRENT,
        version=1,
        first_index=-1,
        index=-1,
        created_at=unknown,
        changed_at=unknown,
    )


def _after(step: Step, state: MemoryState, draft: Draft) -> MemoryState:
    """A memory as the next step of the same append finds it: its place, and whether current."""
    status = state.status
    if isinstance(step, Revive):
        status = Status.CURRENT
    elif isinstance(step, End):
        status = Status.INVALIDATED
    return replace(state, columns=draft.columns, status=status)


def named(principal: Principal) -> dict[str, str]:
    """As whom a job acts that a principal asks for."""
    fields = (*OWNER_TYPES, "actor", "actor_kind", "on_behalf_of", "namespace")
    return {f: value for f in fields if (value := getattr(principal, f)) is not None}
