"""Owner snapshots compared with the log: each is folded once more from its events."""

from collections.abc import Callable
from functools import cached_property
from typing import Final
from uuid import UUID

from memoriale.adapters.application.owner_snapshots import Folded, OwnerSnapshots
from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.adapters.postgres.owner_snapshots import SnapshotRow
from memoriale.domain.branches import Branch, Lineage, lineage, main_branch, project_branch
from memoriale.domain.events import Forked
from memoriale.domain.fold_version import fold_version
from memoriale.domain.holdings import Holding
from memoriale.domain.kinds import KINDS
from memoriale.domain.slices import fold_slice
from memoriale.projections.reconcile import MOST_FINDINGS, ReconcileReport

SNAPSHOTS: Final = "owner-snapshots"
"""What reports call the owner snapshots."""

Progress = Callable[[int, int], None]


class SnapshotChecking:
    """
    Finds snapshots that are not what their events give, those that cannot be opened among them.

    Args:
        log: The memory log.
        snapshots: Its snapshots.
    """

    def __init__(self, log: TenantLog, snapshots: OwnerSnapshots) -> None:
        self._log = log
        self._snapshots = snapshots

    def reconcile(
        self, *, repair: bool = False, progress: Progress | None = None
    ) -> ReconcileReport:
        """
        Compares every snapshot with the log.

        Args:
            repair: Remove what is found; the next long fold leaves a right one behind.
            progress: Told how many are done, and how many there are.

        Returns:
            What was found. ``orphaned`` are those of an owner, branch or index that the log does
            not have; ``stale`` are all others that are not what the log gives.
        """
        head = self._log.head()
        rows = list(self._snapshots.table.rows())
        found: dict[SnapshotRow, str] = {}
        for done, row in enumerate(rows, 1):
            if (wrong := self._wrong(row, head)) is not None:
                found[row] = wrong
            if progress is not None:
                progress(done, len(rows))
        if repair:
            for row in found:
                self._snapshots.table.remove(row)
        orphaned = sum(wrong == _FOREIGN for wrong in found.values())
        return ReconcileReport(
            view=SNAPSHOTS,
            position=head,
            ok=not found,
            orphaned=orphaned,
            stale=len(found) - orphaned,
            repaired=len(found) if repair else 0,
            findings=[_named(row, wrong) for row, wrong in found.items()][:MOST_FINDINGS],
        )

    def _wrong(self, row: SnapshotRow, head: int) -> str | None:
        """What is wrong with a snapshot; None when nothing is."""
        lines = self._lineage(row)
        if lines is None or row.index >= head or row.place.kind not in KINDS.names():
            return _FOREIGN
        fresh = self._folded(row, lines)
        if fresh is None:
            return _FOREIGN
        if row.version != fold_version(row.place.kind):
            return "folded by other code"
        saved = self._snapshots.load(row)
        if saved is None:
            return "it cannot be opened"
        same = (
            (saved.last, saved.leaf) == (fresh.last, fresh.leaf)
            and list(saved.holding) == list(fresh.holding)
            and all(saved.holding[i] == state for i, state in fresh.holding.items())
        )
        return None if same else "not what the log gives"

    def _folded(self, row: SnapshotRow, lines: Lineage) -> Folded | None:
        limits = {line.branch: line.limit for line in lines}
        owner, kind, _ = row.place
        rows = self._log.reader.slice(owner, kind, row.index, list(limits))
        seen = [
            one
            for one in rows
            if one.columns.branch is not None and one.recorded.index <= limits[one.columns.branch]
        ]
        if not seen:
            return None
        states = fold_slice(self._log.mapper.decode(seen), lines)
        order = sorted(states.values(), key=lambda state: state.first_index)
        last = seen[-1].recorded
        holding = Holding({state.memory_id: state for state in order})
        return Folded(holding, last.index, last.leaf_hash)

    def _lineage(self, row: SnapshotRow) -> Lineage | None:
        main = main_branch(self._log.log_id)
        if row.place.branch == main.id:
            return lineage(main, {}, row.index)
        branch = self._branches.get(row.place.branch)
        return None if branch is None else lineage(branch, self._branches, row.index)

    @cached_property
    def _branches(self) -> dict[UUID, Branch]:
        main = main_branch(self._log.log_id)
        rows = self._log.reader.with_topics([Forked.TOPIC], -1, None, None)
        forked = (project_branch(None, [event]) for event in self._log.mapper.decode(rows))
        return {main.id: main} | {branch.id: branch for branch in forked if branch is not None}


_FOREIGN: Final = "the log has no such owner, kind, branch or index"


def _named(row: SnapshotRow, wrong: str) -> str:
    owner, kind, branch = row.place
    return f"owner {owner}, kind {kind}, branch {branch}, index {row.index}: {wrong}"
