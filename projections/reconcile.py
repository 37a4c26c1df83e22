"""Reconcile: a live view is compared with the log row by row, and repaired."""

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final, Generic, TypeVar

from memoriale.domain.errors import CorruptViewError
from memoriale.projections.building import Build
from memoriale.projections.catch_up import catch_up
from memoriale.projections.kind import Discrepancy, ViewKind
from memoriale.projections.posted import PostedView
from memoriale.projections.replay import Progress
from memoriale.projections.succession import PATIENCE, busy
from memoriale.projections.view import EventSource, View

V = TypeVar("V", bound=View)

MOST_FINDINGS: Final = 50
"""Rows that a report names; all are counted."""


@dataclass(frozen=True, slots=True)
class ReconcileReport:
    """
    In which rows a view disagreed with the log.

    Args:
        view: Name of the view.
        position: Events of the log that the comparison covers.
        ok: Whether both agreed.
        missing: Rows that the view lacked.
        orphaned: Rows that nothing in the log makes.
        stale: Rows of which a column differed, the position among them.
        duplicated: Rows whose key was there more than once.
        vectors: Rows whose vector was missing, damaged or of another model.
        unreadable: Why the view could not be read at all; None when it could.
        repaired: Number of the rows above that are right now.
        findings: The first 50 of them by table, key and columns; never values.
    """

    view: str
    position: int
    ok: bool = True
    missing: int = 0
    orphaned: int = 0
    stale: int = 0
    duplicated: int = 0
    vectors: int = 0
    unreadable: str | None = None
    repaired: int = 0
    findings: list[str] = field(default_factory=list)

    @property
    def settled(self) -> bool:
        """Whether the view agrees with the log now."""
        return self.ok or self.repaired > 0


def reconcile(
    posted: PostedView[V],
    source: EventSource,
    *,
    repair: bool = False,
    progress: Progress | None = None,
) -> ReconcileReport:
    """
    Posts the log once more beside the live view and compares both row by row, in bounded memory.

    Repair puts the freshly posted rows in place of the live ones in one swap, as replay does:
    readers that keep rows in memory follow a swap, but would never learn of a row that was
    rewritten without an event. The view goes on being read meanwhile; for the last events, the
    comparison and the swap its writer lock is held. A killed run is gone on with by the next.

    Args:
        posted: The view; its kind says how to compare.
        source: The log.
        repair: Put right what is found.
        progress: Told the number of events done and the number in all.

    Raises:
        UnavailableError: ``busy``: another process holds the view all the time. Other codes:
            the log, the disk or a model cannot be used; the live view is as it was.
    """
    build = Build.begin(posted.kind, posted.generations, source)
    try:
        report = _Reconciliation(posted, source, build, progress).run(repair)
        if not report.repaired:
            build.discard()
        return report
    except BaseException:
        build.discard()
        raise


class _Reconciliation(Generic[V]):
    def __init__(
        self,
        posted: PostedView[V],
        source: EventSource,
        build: Build[V],
        progress: Progress | None,
    ) -> None:
        self.posted, self.source, self.build = posted, source, build
        self.progress = progress or (lambda done, total: None)

    def run(self, repair: bool) -> ReconcileReport:
        self._post(self.source.head())
        with self.posted.generations.writer_lock(time.monotonic() + PATIENCE) as held:
            if not held:
                raise busy(self.posted.kind.name)
            head = self.source.head()
            self._post(head)
            report = self._compared(head)
            if repair and not report.ok:
                self.build.publish()
                self.posted.forget()
                return replace(report, repaired=max(1, _count(report)))
            return report

    def _post(self, head: int) -> None:
        self.build.post(head, progress=lambda done: self.progress(done, head))

    def _compared(self, head: int) -> ReconcileReport:
        kind = self.posted.kind
        report = ReconcileReport(view=kind.name, position=head)
        self.posted.forget()
        live = self.posted.generations.current()
        if live is None:
            # It is made by the next read; there is nothing that could be wrong with it.
            return report
        if live.fingerprint != kind.fingerprint:
            return _unreadable(report, "it was built by another version or with another model")
        try:
            view = kind.open(live.folder)
        except CorruptViewError as damage:
            return _unreadable(report, damage.message)
        try:
            _bring_up(kind, view, self.source, head)
            assert kind.compare is not None
            return _summed(report, kind.compare(view, self.build.view))
        except CorruptViewError as damage:
            return _unreadable(report, damage.message)
        finally:
            _close(view)


def _bring_up(kind: ViewKind[V], view: V, source: EventSource, head: int) -> None:
    position = view.position()
    # Posting from a position that is too low would write over rows that may be right.
    if position <= head and not (kind.beyond is not None and kind.beyond(view)):
        catch_up(view, source, stop=head, size=kind.batch)


def _summed(report: ReconcileReport, found: Iterable[Discrepancy]) -> ReconcileReport:
    counts, findings = Counter[str](), list[str]()
    for one in found:
        counts[one.what] += 1
        if len(findings) < MOST_FINDINGS:
            findings.append(f"{one.row}: {one.what}{one.detail and f' ({one.detail})'}")
    return replace(
        report,
        ok=not counts,
        missing=counts["missing"],
        orphaned=counts["orphaned"],
        stale=counts["stale"],
        duplicated=counts["duplicated"],
        vectors=counts["vectors"],
        findings=findings,
    )


def _unreadable(report: ReconcileReport, why: str) -> ReconcileReport:
    return replace(report, ok=False, unreadable=why, findings=[why])


def _count(report: ReconcileReport) -> int:
    counted = (report.missing, report.orphaned, report.stale, report.duplicated, report.vectors)
    return sum(counted)


def _close(view: View) -> None:
    # What it held was compared before.
    try:
        view.close()
    except CorruptViewError:
        return
