"""What an owner has of a kind, folded from the log and kept: later reads fold what is new."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock
from typing import Final
from uuid import UUID

from memoriale.adapters.application.branching import BranchView
from memoriale.adapters.application.owner_snapshots import Folded, OwnerSnapshots, size_of
from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.adapters.postgres.owner_snapshots import Place
from memoriale.domain.branches import Lineage
from memoriale.domain.envelope import sealed_with
from memoriale.domain.errors import MemorialeError
from memoriale.domain.events import RecordedEvent, Remembered
from memoriale.domain.holdings import Holding, Holdings
from memoriale.domain.memory import MemoryState, project_memory
from memoriale.domain.record import Row
from memoriale.domain.slices import fold_slice

MOST_BYTES: Final = 256 * 2**20
"""Memory for what is kept, over all owners of a tenant, as ``size_of`` reckons it."""
LONG_FOLD: Final = 500
"""Events from which on a fold leaves a snapshot behind; a quarter of what there is, if more."""
_LOOKS: Final = 3

_Key = tuple[UUID, str, UUID, int | None]
"""Owner, kind, branch, and the index of a read of the past; None follows the log."""


@dataclass(slots=True)
class _Kept:
    lock: Lock = field(default_factory=Lock)
    index: int = -1
    folded: Folded = field(default_factory=Folded)


class Slices:
    """
    Reads owners' memories by kind, strongly consistent. Safe to share between threads.

    What is kept in memory is thrown away when a key was destroyed: it holds opened bodies.

    Args:
        log: The memory log.
        snapshots: Where long folds begin.
        most_bytes: Memory for what is kept; what was asked for longest ago goes first.
        long_fold: Events from which on a fold leaves a snapshot behind.
    """

    def __init__(
        self,
        log: TenantLog,
        snapshots: OwnerSnapshots,
        most_bytes: int = MOST_BYTES,
        long_fold: int = LONG_FOLD,
    ) -> None:
        self._log = log
        self._snapshots = snapshots
        self._most = most_bytes
        self._long = long_fold
        self._lock = Lock()
        self._erasures = log.erasures()
        self._kept: OrderedDict[_Key, _Kept] = OrderedDict()

    def read(
        self, owner: UUID, kinds: Sequence[str], branch: BranchView, limit: int | None = None
    ) -> tuple[Holdings, int, datetime]:
        """
        An owner's memories of some kinds as a branch sees them, current or not.

        Args:
            owner: The owner's pseudonym.
            kinds: Which kinds.
            branch: As which branch sees them.
            limit: Last index that counts; None for all that is recorded at the call.

        Returns:
            The memories, the index of the last event that counts, and the database's time of the
            read.
        """
        found: dict[str, Holding] = {}
        for _ in range(_LOOKS if limit is None else 1):
            head, now = self._log.reader.now()
            index = head - 1 if limit is None else min(limit, head - 1)
            live = {kind: self._live(owner, kind, branch, index) for kind in kinds}
            found = {kind: holding for kind, holding in live.items() if holding is not None}
            if len(found) == len(live):
                break
            # Another thread has followed the log further already.
        for kind in kinds:
            if kind not in found:
                found[kind] = self._past(owner, kind, branch, index)
        return Holdings({kind: found[kind] for kind in kinds}), index, now

    def keeps(self, owner: UUID, kind: str, branch: UUID) -> bool:
        """Whether what follows the log has been folded here already."""
        with self._lock:
            kept = self._kept.get((owner, kind, branch, None))
            return kept is not None and kept.index >= 0 and self._erasures == self._log.erasures()

    def grew(
        self, owner: UUID, kinds: Sequence[str], branch: BranchView, after: int, rows: Sequence[Row]
    ) -> None:
        """
        Takes over what the caller appended, so that the next read need not fetch it.

        Args:
            owner: The owner's pseudonym.
            kinds: Kinds of which nothing new came on the branch between ``after`` and the append;
                a guard of the append has said so.
            branch: Where it was appended.
            after: The index up to which the caller had read.
            rows: The append, as a reader finds it.
        """
        if not rows or any(map(_has_times, rows)):
            # The log tells times in UTC, and what is kept is what the log tells.
            return
        for kind in kinds:
            with self._lock:
                kept = self._kept.get((owner, kind, branch.branch.id, None))
                if kept is None or self._erasures != self._log.erasures():
                    continue
            own = [row for row in rows if _is_of(row, owner, kind, branch.branch.id)]
            with kept.lock:
                if after <= kept.index < rows[0].recorded.append_first:
                    self._take_over(kept, own, branch, rows[0].recorded.append_last)

    def _take_over(self, kept: _Kept, own: list[Row], branch: BranchView, index: int) -> None:
        cold = kept.folded.last < 0
        try:
            folded = self._folded(kept.folded, own, branch.lineage(index), cold=cold)
        except MemorialeError:
            # It is stored whatever happens here; whoever reads next is told what is wrong.
            return
        if folded is not None:
            kept.folded, kept.index = folded, index

    def held(self) -> int:
        """Bytes that what is kept takes, as reckoned."""
        with self._lock:
            return sum(kept.folded.size for kept in self._kept.values())

    def _live(self, owner: UUID, kind: str, branch: BranchView, index: int) -> Holding | None:
        """What follows the log, caught up to an index; None when it has events after that."""
        return self._caught_up((owner, kind, branch.branch.id, None), branch, index)

    def _past(self, owner: UUID, kind: str, branch: BranchView, index: int) -> Holding:
        found = self._caught_up((owner, kind, branch.branch.id, index), branch, index)
        assert found is not None
        return found

    def _caught_up(self, key: _Key, branch: BranchView, index: int) -> Holding | None:
        kept = self._entry(key)
        with kept.lock:
            if kept.index < index:
                self._follow(kept, key, branch, index)
            found = kept.folded
        self._forget_oldest()
        return found.holding if found.last <= index else None

    def _entry(self, key: _Key) -> _Kept:
        with self._lock:
            erasures = self._log.erasures()
            if erasures != self._erasures:
                self._kept.clear()
                self._erasures = erasures
            kept = self._kept.setdefault(key, _Kept())
            self._kept.move_to_end(key)
            return kept

    def _follow(self, kept: _Kept, key: _Key, branch: BranchView, index: int) -> None:
        owner, kind, branch_id, past = key
        place = Place(owner, kind, branch_id)
        lineage = branch.lineage(index)
        folded, rows = kept.folded, None
        if kept.index < 0:
            folded, rows = self._snapshots.begin(place, [line.branch for line in lineage], index)
        if rows is None:
            rows = self._rows(key, lineage, kept.index, index)
        after = self._folded(folded, rows, lineage, cold=folded.last < 0)
        if after is None:
            # A branch goes on from what it no longer sees as it was: all of it is folded again.
            rows = self._rows(key, lineage, -1, index)
            after = self._folded(Folded(), rows, lineage, cold=True)
            assert after is not None
        if past is None and len(rows) >= max(self._long, len(after.holding) // 4):
            self._snapshots.save(place, index, after)
        kept.folded, kept.index = after, index

    def _rows(self, key: _Key, lineage: Lineage, after: int, index: int) -> list[Row]:
        branches = [line.branch for line in lineage]
        return self._log.reader.slice(key[0], key[1], index, branches, after)

    def _folded(
        self, before: Folded, rows: Sequence[Row], lineage: Lineage, *, cold: bool
    ) -> Folded | None:
        """What rows make of what was folded; None when they cannot be put on top of it."""
        limits = {line.branch: line.limit for line in lineage}
        seen = [
            row
            for row in rows
            if row.columns.branch is not None and row.recorded.index <= limits[row.columns.branch]
        ]
        if not seen:
            return before
        events = self._log.mapper.decode(seen)
        if cold and len(lineage) > 1:
            changed = fold_slice(events, lineage)
        elif len(lineage) > 1 and not _goes_on(before.holding, events, lineage):
            return None
        else:
            changed = _evolved(before.holding, events)
        last = seen[-1].recorded
        grown = sum(map(size_of, changed.values()))
        shrunk = sum(size_of(before.holding[i]) for i in changed if i in before.holding)
        return Folded(
            holding=_in_order(changed) if cold else before.holding.changed(changed),
            last=last.index,
            leaf=last.leaf_hash,
            keys=_keys(before.keys, seen),
            size=before.size + grown - shrunk,
        )

    def _forget_oldest(self) -> None:
        with self._lock:
            held = sum(kept.folded.size for kept in self._kept.values())
            while held > self._most and len(self._kept) > 1:
                _, oldest = self._kept.popitem(last=False)
                held -= oldest.folded.size


def _is_of(row: Row, owner: UUID, kind: str, branch: UUID) -> bool:
    columns = row.columns
    return (columns.owner, columns.kind, columns.branch) == (owner, kind, branch)


def _has_times(row: Row) -> bool:
    columns = row.columns
    times = columns.valid_from, columns.valid_until, columns.expires_at
    return any(time is not None for time in times)


def _in_order(states: Mapping[UUID, MemoryState]) -> Holding:
    order = sorted(states.values(), key=lambda state: state.first_index)
    return Holding({state.memory_id: state for state in order})


def _evolved(
    before: Mapping[UUID, MemoryState], events: Iterable[RecordedEvent]
) -> dict[UUID, MemoryState]:
    changed: dict[UUID, MemoryState] = {}
    for recorded in events:
        memory_id = recorded.columns.memory_id
        if memory_id is not None:
            former = changed.get(memory_id) or before.get(memory_id)
            state = project_memory(former, [recorded])
            if state is not None:
                changed[memory_id] = state
    return changed


def _goes_on(
    before: Mapping[UUID, MemoryState], events: Iterable[RecordedEvent], lineage: Lineage
) -> bool:
    """Whether events of a branch continue what it saw of each memory."""
    own = lineage[0].branch
    for recorded in events:
        columns = recorded.columns
        if columns.branch != own:
            return False
        if isinstance(recorded.event, Remembered):
            # Taken over by a merge: it continues what another branch saw, and stands alone here.
            continue
        if columns.continues is not None and columns.memory_id is not None:
            state = before.get(columns.memory_id)
            if state is None or state.index != columns.continues:
                return False
    return True


def _keys(
    before: Mapping[UUID, frozenset[bytes]], rows: Iterable[Row]
) -> dict[UUID, frozenset[bytes]]:
    found = dict(before)
    same: dict[frozenset[bytes], frozenset[bytes]] = {}
    for row in rows:
        memory_id = row.columns.memory_id
        if memory_id is not None and row.state is not None:
            keys = found.get(memory_id, frozenset()) | {sealed_with(row.state)}
            found[memory_id] = same.setdefault(keys, keys)
    return found
