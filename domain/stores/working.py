"""Working memory: which value a key has, and what a new one does to the others."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from uuid import UUID

from pydantic import BaseModel, ConfigDict, JsonValue

from memoriale.domain.commands import Remember
from memoriale.domain.events import ReasonCode
from memoriale.domain.memory import MemoryState, Status
from memoriale.domain.payloads.resources import Working
from memoriale.domain.resources.entries import value_text
from memoriale.domain.resources.limits import is_bookkeeping
from memoriale.domain.steps import End, Make, Replace, Revive, Slice, Step

WORKING = "working"


class WorkingEntry(BaseModel):
    """
    The value of a key. ``index`` is that of the event that set it, ``memory_id`` tells its
    history.
    """

    model_config = ConfigDict(frozen=True)

    key: str
    value: JsonValue = None
    index: int
    memory_id: UUID


@dataclass(frozen=True, slots=True)
class WorkingMemory:
    """
    What a branch holds: the resource's own entries, and those that the branch inherits.

    Of several entries of a key the newest counts. A bookkeeping key is of one branch alone.

    Args:
        seen: The slice, with what is inherited.
    """

    seen: Slice

    def of_key(self, key: str) -> list[MemoryState]:
        """The current entries of a key, the newest first."""
        groups = [self.seen.grouped(WORKING, working_key)]
        groups += [h.of_kind(WORKING).grouped(working_key) for h in self.seen.inherited]
        found = [state for group in groups for state in group.get(key, ()) if self._counts(state)]
        return sorted(found, key=lambda state: state.index, reverse=True)

    def former(self, key: str) -> MemoryState | None:
        """An ended entry of a key of the resource's own, to be used again."""
        own = self.seen.grouped(WORKING, working_key).get(key, ())
        return next((state for state in own if state.status is Status.INVALIDATED), None)

    def entries(self) -> dict[str, MemoryState]:
        """The entry of every key that has one."""
        found: dict[str, MemoryState] = {}
        for state in self._current():
            key = working_key(state)
            if key is not None and self._counts(state):
                other = found.get(key)
                if other is None or other.index < state.index:
                    found[key] = state
        return found

    def _current(self) -> Iterator[MemoryState]:
        yield from self.seen.current(WORKING)
        for holdings in self.seen.inherited:
            yield from holdings.of_kind(WORKING).current(self.seen.now)

    def _counts(self, state: MemoryState) -> bool:
        key = working_key(state)
        if key is None or (is_bookkeeping(key) and state.columns.branch != self.seen.branch):
            return False
        return self.seen.is_current(state)


@dataclass(slots=True)
class SetKey:
    """
    The decision to set a key. The value that it has already changes nothing; an inherited entry
    ends on this branch, and nowhere else.

    Args:
        key: Which.
        value: The value, checked.
        command: The same as a command.
    """

    key: str
    value: JsonValue
    command: Remember
    kept: MemoryState | None = None
    """The entry that has the value already, if one has."""

    def __call__(self, seen: Slice) -> list[Step]:
        """The steps; see ``Decision``."""
        memory = WorkingMemory(seen)
        found = memory.of_key(self.key)
        self.kept = None
        if found and value_text(value_of(found[0])) == value_text(self.value):
            self.kept = found[0]
            return []
        own = next((state for state in found if state.columns.owner == seen.owner), None)
        steps, memory_id = self._stored(memory, own)
        rest = [state for state in found if state is not own]
        return [*(_superseded(state, memory_id) for state in rest), *steps]

    def _stored(self, memory: WorkingMemory, own: MemoryState | None) -> tuple[list[Step], UUID]:
        if own is not None:
            return [Replace(memory_id=own.memory_id, command=self.command)], own.memory_id
        former = memory.former(self.key)
        if former is None:
            made = Make(command=self.command)
            return [made], made.memory_id
        again = former.memory_id
        return [Revive(memory_id=again), Replace(memory_id=again, command=self.command)], again


def delete_key(seen: Slice, key: str) -> list[Step]:
    """The end of every current entry of a key, as ``forgotten``."""
    found = WorkingMemory(seen).of_key(key)
    return [End(memory_id=state.memory_id, because=ReasonCode.FORGOTTEN) for state in found]


def entry_of(state: MemoryState) -> WorkingEntry:
    """A current entry as folded, copied."""
    key = working_key(state)
    assert key is not None
    return WorkingEntry(
        key=key, value=value_of(state), index=state.index, memory_id=state.memory_id
    )


def working_key(state: MemoryState) -> str | None:
    """The key of an entry; None when it was erased."""
    return state.payload.key if isinstance(state.payload, Working) else None


def value_of(state: MemoryState) -> JsonValue:
    """The value of an entry, copied."""
    assert isinstance(state.payload, Working)
    return deepcopy(state.payload.value)


def _superseded(state: MemoryState, by: UUID) -> Step:
    return End(memory_id=state.memory_id, because=ReasonCode.SUPERSEDED, replaced_by=by)
