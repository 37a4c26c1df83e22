"""What an owner has of a kind, folded from the log and kept: later reads fold what is new."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock
from typing import Final
from uuid import UUID

from memoriale.adapters.application.branching import BranchView
from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.domain.events import RecordedEvent
from memoriale.domain.memory import MemoryState, project_memory
from memoriale.domain.slices import fold_slice

MOST_EVENTS: Final = 100_000
"""Opened events kept in memory, over all owners of a tenant; one of 200 characters takes 3 kB."""

States = dict[UUID, MemoryState]


@dataclass(slots=True)
class _Kept:
    index: int = -1
    events: list[RecordedEvent] = field(default_factory=list)
    on_main: States = field(default_factory=dict)


class Slices:
    """
    Reads owners' memories by kind, strongly consistent.

    What is kept in memory is thrown away when a key was destroyed: it holds opened bodies.

    Args:
        log: The memory log.
        most_events: Events kept; those of the owner who was asked for longest ago go first.
    """

    def __init__(self, log: TenantLog, most_events: int = MOST_EVENTS) -> None:
        self._log = log
        self._most = most_events
        self._lock = Lock()
        self._erasures = log.erasures()
        self._kept: OrderedDict[tuple[UUID, str], _Kept] = OrderedDict()

    def read(
        self, owner: UUID, kinds: Sequence[str], branch: BranchView, limit: int | None = None
    ) -> tuple[States, int, datetime]:
        """
        An owner's memories of some kinds as a branch sees them, current or not.

        Args:
            owner: The owner's pseudonym.
            kinds: Which kinds.
            branch: As which branch sees them.
            limit: Last index that counts; None for all that is recorded at the call.

        Returns:
            The memories by id, oldest first, the index of the last event that counts, and the
            database's time of the read.
        """
        head, now = self._log.reader.now()
        index = head - 1 if limit is None else min(limit, head - 1)
        states: States = {}
        for kind in kinds:
            states.update(self._of_kind(owner, kind, branch, index))
        return dict(sorted(states.items(), key=lambda item: item[1].first_index)), index, now

    def _of_kind(self, owner: UUID, kind: str, branch: BranchView, index: int) -> States:
        with self._lock:
            kept = self._caught_up((owner, kind), index)
            if kept.index == index and len(branch.lineage()) == 1:
                return dict(kept.on_main)
            events = [e for e in kept.events if e.index <= index]
        return fold_slice(events, branch.lineage(index))

    def _caught_up(self, key: tuple[UUID, str], index: int) -> _Kept:
        erasures = self._log.erasures()
        if erasures != self._erasures:
            self._kept.clear()
            self._erasures = erasures
        kept = self._kept.setdefault(key, _Kept())
        self._kept.move_to_end(key)
        if kept.index < index:
            rows = self._log.reader.slice(*key, up_to=index, after=kept.index)
            new = self._log.mapper.decode(rows)
            kept.events.extend(new)
            _fold(kept.on_main, new, self._log.log_id)
            kept.index = index
            self._forget_oldest()
        return kept

    def _forget_oldest(self) -> None:
        held = sum(len(kept.events) for kept in self._kept.values())
        while held > self._most and len(self._kept) > 1:
            _, oldest = self._kept.popitem(last=False)
            held -= len(oldest.events)


def _fold(states: States, events: list[RecordedEvent], main: UUID) -> None:
    for recorded in events:
        memory_id = recorded.columns.memory_id
        if memory_id is not None and recorded.columns.branch == main:
            state = project_memory(states.get(memory_id), [recorded])
            if state is not None:
                states[memory_id] = state
