"""Verify: every row of a log is read again, hashed again, and held against what it claims."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Final, NamedTuple
from uuid import UUID

from memoriale.domain.leaf import leaf_hash
from memoriale.domain.record import LEAF_VERSION, Recorded, Row
from memoriale.domain.topics import KNOWN_TOPICS
from memoriale.projections.proofs.merkle import MerkleTree

MAX_PROBLEMS: Final = 100

Locate = Callable[[int, int], int | None]


@dataclass(frozen=True, slots=True)
class Problem:
    """
    Something that does not hold.

    Args:
        index: Where in the log.
        code: ``missing``, ``out_of_order``, ``beyond_head``, ``wrong_tenant``, ``wrong_log``,
            ``unknown_topic``, ``unknown_leaf_version``, ``missing_state``, ``state_changed``,
            ``leaf_changed``, ``bad_append``, ``bad_time``, ``not_what_was_sealed``,
            ``events_lost`` or ``bad_checkpoint``.
        detail: The same for people; never the content of an event.
    """

    index: int
    code: str
    detail: str


@dataclass(frozen=True, slots=True)
class Expected:
    """
    A root that was signed over the first events of a log.

    Args:
        size: How many events.
        root: Root over them; None when the checkpoint cannot be believed.
        source: Where it comes from, for people.
        problem: Why it cannot be believed.
        keeper: Who keeps it, where ``source`` names a single file of theirs.
    """

    size: int
    root: bytes | None
    source: str
    problem: str = ""
    keeper: str = ""

    @property
    def kept_by(self) -> str:
        """Who vouches for it, and for the smaller ones of the same keeper."""
        return self.keeper or self.source


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """
    What verify found.

    Args:
        leaves: Rows that were read.
        root: Root of the Merkle tree over their leaves, as hexadecimal text.
        ok: Whether there is no problem.
        unsealed: Leaves that no checkpoint covers: a change of these is seen only while the
            hashes stored beside them are not recomputed too.
        lost: Events that were sealed and are not there any more.
        checkpoints: How many checkpoints were compared, each with the root over its events.
        first_bad_index: Lowest index with a problem.
        problem_count: Number of problems.
        problems: The first hundred of them.
    """

    leaves: int
    root: str
    ok: bool
    unsealed: int
    lost: int
    checkpoints: int
    first_bad_index: int | None
    problem_count: int
    problems: list[Problem]


def verify(
    rows: Iterable[Sequence[Row]],
    head: int | Callable[[], int],
    *,
    tenant: str,
    log_id: UUID,
    expected: Iterable[Expected] = (),
    locate: Locate | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> VerifyReport:
    """
    Checks a whole log in bounded memory: no index is missing; state and leaf hashes are those
    of the rows; appends are whole, do not overlap, and have one strictly increasing time each.

    Versions within a stream are not checked: that takes memory for every stream, and they are
    under the leaf.

    Args:
        rows: Every row as stored, in the order of the index, in batches; may have holes.
        head: How many events the log claims to have; a function while others append, which is
            asked again when a row stands beyond what it said.
        tenant: Whose log it is.
        log_id: Which log it is.
        expected: Roots that were signed, smallest size first; read as the check goes on.
        locate: Told two sizes, the root over the first as it was signed and over the second not,
            says at which index the log differs from what was sealed; None if it cannot.
        progress: Told the number of rows done and the head after each batch.
    """
    read_head = head if callable(head) else lambda: head
    check = _Check(read_head, tenant, log_id, iter(expected), locate)
    for batch in rows:
        for row in batch:
            check.row(row)
        if progress is not None:
            progress(check.tree.size, check.head)
    check.end()
    return check.report()


@dataclass(slots=True)
class _Problems:
    kept: list[Problem] = field(default_factory=list)
    count: int = 0
    first: int | None = None

    def add(self, index: int, code: str, detail: str) -> None:
        self.count += 1
        self.first = index if self.first is None else min(self.first, index)
        if len(self.kept) < MAX_PROBLEMS:
            self.kept.append(Problem(index, code, detail))

    def add_missing(self, start: int, stop: int) -> None:
        room = min(stop - start, MAX_PROBLEMS - len(self.kept))
        for index in range(start, start + room):
            self.kept.append(Problem(index, "missing", "there is no event at this index"))
        if stop > start:
            self.count += stop - start
            self.first = start if self.first is None else min(self.first, start)


class _Roots:
    """Holds signed roots against the tree while it grows."""

    def __init__(
        self,
        tree: MerkleTree,
        problems: _Problems,
        expected: Iterator[Expected],
        locate: Locate | None,
    ) -> None:
        self.tree, self.problems, self.expected = tree, problems, expected
        self.locate = locate or (lambda held, broken: None)
        self.sealed = self.compared = self.lost = 0
        self._held: dict[str, int] = {}
        """By source the largest size whose root was as it was signed: sources may contradict."""
        self._located: set[str] = set()
        """Sources for which the place was looked for."""
        self.next = next(expected, None)
        self.compare()

    def compare(self) -> None:
        """Compares every root over as many leaves as there are now."""
        while self.next is not None and self.next.size <= self.tree.size:
            if self.next.root is None:
                self.problems.add(self.next.size, "bad_checkpoint", self.next.problem)
            elif self.next.size == self.tree.size:
                self._one(self.next, self.next.root)
            self.next = next(self.expected, None)

    def end(self) -> None:
        """What is left covers events that are not there."""
        largest, count = self.tree.size, self.tree.size
        while self.next is not None:
            if self.next.root is None:
                self.problems.add(self.next.size, "bad_checkpoint", self.next.problem)
            else:
                largest = max(largest, self.next.size)
            self.next = next(self.expected, None)
        self.lost = largest - count
        if self.lost:
            detail = f"{self.lost} events that were sealed are gone from the end of the log"
            self.problems.add(count, "events_lost", detail)

    def _one(self, expected: Expected, root: bytes) -> None:
        self.compared += 1
        self.sealed = expected.size
        if self.tree.root() == root:
            self._held[expected.kept_by] = expected.size
            return
        first, held = self.problems.first, self._held.get(expected.kept_by, 0)
        explained = first is not None and first < expected.size
        if explained and expected.kept_by in self._located:
            return
        self._located.add(expected.kept_by)
        index = self.locate(held, expected.size)
        if explained and (index is None or first is None or index >= first):
            # What is known to be wrong already explains it.
            return
        where = f"{expected.source}, over {expected.size} events"
        if index is None:
            detail = f"it or a later one is not what was sealed in {where}"
            self.problems.add(held, "not_what_was_sealed", detail)
        else:
            detail = f"it is not the event that was sealed in {where}"
            self.problems.add(index, "not_what_was_sealed", detail)


class _Append(NamedTuple):
    first: int
    last: int
    recorded_at: datetime


class _Check:
    def __init__(
        self,
        read_head: Callable[[], int],
        tenant: str,
        log_id: UUID,
        expected: Iterator[Expected],
        locate: Locate | None,
    ) -> None:
        self.read_head, self.tenant, self.log_id = read_head, tenant, log_id
        self.head = read_head()
        self.tree = MerkleTree()
        self.problems = _Problems()
        self.roots = _Roots(self.tree, self.problems, expected, locate)
        self.next = 0
        self.append: _Append | None = None

    def row(self, row: Row) -> None:
        recorded = row.recorded
        self._place(recorded)
        self._append(recorded)
        self._origin(row)
        self._hashes(row)
        self.next = max(self.next, recorded.index + 1)
        self.roots.compare()

    def end(self) -> None:
        self.problems.add_missing(self.next, self.head)
        if self.append is not None and self.append.last >= max(self.next, self.head):
            detail = f"its append goes on to {self.append.last}, where there is no event"
            self.problems.add(self.next - 1, "bad_append", detail)
        self.roots.end()

    def report(self) -> VerifyReport:
        problems, leaves = self.problems, self.tree.size
        return VerifyReport(
            leaves=leaves,
            root=self.tree.root().hex(),
            ok=not problems.count,
            unsealed=max(0, leaves - self.roots.sealed),
            lost=self.roots.lost,
            checkpoints=self.roots.compared,
            first_bad_index=problems.first,
            problem_count=problems.count,
            problems=problems.kept,
        )

    def _place(self, recorded: Recorded) -> None:
        index = recorded.index
        if index >= self.head:
            # Whoever appended this row moved the head before it could be read.
            self.head = self.read_head()
        if index >= self.head:
            detail = f"the log claims to have {self.head} events"
            self.problems.add(index, "beyond_head", detail)
        if index > self.next:
            self.problems.add_missing(self.next, min(index, self.head))
        elif index < self.next:
            self.problems.add(index, "out_of_order", f"it comes after event {self.next - 1}")

    def _append(self, recorded: Recorded) -> None:
        append = _Append(recorded.append_first, recorded.append_last, recorded.recorded_at)
        last, self.append = self.append, append
        if append == last:
            if recorded.index > append.last:
                self._bad_append(recorded.index, "it stands after the end of its append")
        elif last is not None and append[:2] == last[:2]:
            self.problems.add(recorded.index, "bad_time", "its append has two recorded times")
        else:
            self._new_append(recorded.index, last, append)

    def _new_append(self, index: int, last: _Append | None, append: _Append) -> None:
        begins, whole = last.last + 1 if last else 0, index == self.next
        # After a hole the rest of an append can be all that is left.
        starts = append.first == index if whole else begins <= append.first <= index
        ends = begins == index if whole else begins <= index
        if not (starts and ends and index <= append.last):
            self._bad_append(index, f"it claims the append {append.first} to {append.last}")
        if last is not None and append.recorded_at <= last.recorded_at:
            detail = "it was not recorded later than the append before it"
            self.problems.add(index, "bad_time", detail)

    def _bad_append(self, index: int, detail: str) -> None:
        self.problems.add(index, "bad_append", detail)

    def _origin(self, row: Row) -> None:
        recorded, add = row.recorded, self.problems.add
        if recorded.tenant != self.tenant:
            add(recorded.index, "wrong_tenant", "it belongs to another tenant")
        if recorded.log_id != self.log_id:
            add(recorded.index, "wrong_log", f"it belongs to log {recorded.log_id}")
        if row.columns.topic not in KNOWN_TOPICS:
            add(recorded.index, "unknown_topic", f"its topic is {row.columns.topic[:64]!r}")
        if recorded.leaf_version != LEAF_VERSION:
            add(recorded.index, "unknown_leaf_version", f"it is {recorded.leaf_version}")

    def _hashes(self, row: Row) -> None:
        recorded, leaf = row.recorded, leaf_hash(row)
        if row.state is None:
            detail = "its body is gone, and no event of the log says so"
            self.problems.add(recorded.index, "missing_state", detail)
        elif sha256(row.state).digest() != recorded.state_hash:
            self.problems.add(recorded.index, "state_changed", "its body has another hash")
        if leaf != recorded.leaf_hash:
            self.problems.add(recorded.index, "leaf_changed", "a column has been changed")
        self.tree.append(leaf)
