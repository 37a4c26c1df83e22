"""Verify: a log against itself, against its own checkpoints, and against those kept elsewhere."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from heapq import merge
from typing import Any, Final, Self
from uuid import UUID

from memoriale.adapters.anchors.anchor import log_of
from memoriale.adapters.anchors.outside import Outside, OutsideReader
from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.adapters.notes.checkpoint import Checkpoint
from memoriale.adapters.postgres.leaves import HASH_BYTES
from memoriale.adapters.proving.at_once import verified_at_once
from memoriale.adapters.sealing.deployment import KnownLog
from memoriale.adapters.sealing.log_tree import LogTree, origin_of
from memoriale.adapters.sealing.sealing import Sealing, target_of
from memoriale.domain.errors import MemorialeError, UnavailableError
from memoriale.domain.governance import LedgerRestoredHeader
from memoriale.projections.proofs.inclusion import inclusion_holds, inclusion_proof
from memoriale.projections.proofs.tiles import TILE_WIDTH, TileReader
from memoriale.projections.proofs.verify import Expected, Problem, VerifyReport, verify

HERE: Final = "the checkpoint of this machine"
NOTED: Final = "the deployment log"
OUTSIDE: Final = "the checkpoint that was given"


@dataclass(frozen=True, slots=True)
class LogReport(VerifyReport):
    """
    What verify found in one log; further fields as in ``VerifyReport``.

    Args:
        tenant: Whose.
        log: Which of the tenant's logs.
        log_id: Its id; that of the vanished one when there is none any more.
        incarnation: In which it is; above 1 it came back from a backup.
        restored: For each time what the restore says: events, sealed, lost.
        anchored: How many of the checkpoints were read back from anchors.
        unreached: By anchor, why it could not be asked.
    """

    tenant: str
    log: str
    log_id: UUID
    incarnation: int
    restored: list[dict[str, int]]
    anchored: int = 0
    unreached: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, found: VerifyReport, **whose: Any) -> Self:
        """
        Args:
            found: What was found.
            **whose: The fields of this class.
        """
        return cls(**{field.name: getattr(found, field.name) for field in fields(found)}, **whose)


class Verification:
    """
    Checks logs of an installation.

    Args:
        sealing: Has checkpoints, tiles and the deployment log.
        outside: Checkpoints kept elsewhere, their signatures checked; of any log.
        anchors: Reads back what anchors hold; None leaves them out.
    """

    def __init__(
        self,
        sealing: Sealing,
        outside: Sequence[Checkpoint] = (),
        anchors: OutsideReader | None = None,
    ) -> None:
        self._sealing, self._anchors = sealing, anchors
        self._outside = outside
        self.used: set[Checkpoint] = set()
        """Those of the outside checkpoints that a log was held against."""

    def check(
        self, log: TenantLog, progress: Callable[[int, int], None] | None = None
    ) -> LogReport:
        """Reads a whole log again, in bounded memory, and holds it against every checkpoint."""
        target = target_of(log)
        stand = self._sealing.sealer.leaves(target).stand()
        tree = self._sealing.sealer.tree(target, stand.incarnation)
        restored = self._sealing.deployment.restored(log.log_id)
        given, problems = self._given(log.log_id, stand.incarnation, restored)
        anchored = self._anchored(log.log_id, stand.incarnation, restored)
        problems += _rolled_back(tree, stand.incarnation, stand.head)
        noted = self._noted(target.log_id, stand.incarnation)

        def expected() -> Iterator[Expected]:
            return merge(_stored(tree), noted, given, anchored.expected, key=_size)

        # Where anything may be wrong the log is read once more, to say what.
        found = verified_at_once(log, expected(), progress) or verify(
            log.reader.rows_as_stored(),
            log.head,
            tenant=log.tenant,
            log_id=log.log_id,
            expected=expected(),
            locate=lambda held, broken: self._locate(log, tree, held, broken),
            progress=progress,
        )
        return LogReport.of(
            _with(found, problems),
            tenant=log.tenant,
            log=log.log.kind,
            log_id=log.log_id,
            incarnation=stand.incarnation,
            restored=[
                {"events": one.events, "sealed": one.sealed, "lost": one.lost} for one in restored
            ],
            anchored=len(anchored.expected),
            unreached=anchored.unreached,
        )

    def vanished(self, known: KnownLog, other: UUID | None = None) -> LogReport:
        """The report of a log that the deployment log knows and the database does not."""
        size = known.size
        what = "it is gone" if other is None else f"log {other} is in its place"
        problem = Problem(0, "log_missing", f"the log is known with {size} events, and {what}")
        return LogReport(
            leaves=0,
            root="",
            ok=False,
            unsealed=0,
            lost=size,
            checkpoints=0,
            first_bad_index=0,
            problem_count=1,
            problems=[problem],
            tenant=known.tenant,
            log=known.kind,
            log_id=known.log_id,
            incarnation=known.incarnation,
            restored=[],
        )

    def vanished_outside(self, known: Iterable[UUID]) -> list[LogReport]:
        """
        Reports of logs that an anchor knows as ours, and nobody here.

        Args:
            known: Ids of the logs that somebody here knows.
        """
        if self._anchors is None:
            return []
        here, gone = {str(log_id) for log_id in known}, dict[str, Checkpoint]()
        for checkpoint in self._anchors.newest()[0]:
            log_id = checkpoint.origin.split("/")[1]
            if log_id not in here and _is_id(log_id):
                gone[log_id] = max(gone.get(log_id, checkpoint), checkpoint, key=lambda c: c.size)
        return [
            self.vanished(KnownLog("", "", UUID(log_id), 0, checkpoint.size))
            for log_id, checkpoint in gone.items()
        ]

    def _noted(self, log_id: UUID, incarnation: int) -> list[Expected]:
        known = self._sealing.known(log_id)
        if known is None or known.root is None or known.incarnation != incarnation:
            return []
        return [Expected(known.size, bytes.fromhex(known.root), NOTED)]

    def _anchored(
        self, log_id: UUID, incarnation: int, restored: Sequence[LedgerRestoredHeader]
    ) -> Outside:
        if self._anchors is None:
            return Outside([], {})
        log = log_of(origin_of(log_id, incarnation))
        return self._anchors.of(log, _survivors(incarnation, restored))

    def _given(
        self, log_id: UUID, incarnation: int, restored: Sequence[LedgerRestoredHeader]
    ) -> tuple[list[Expected], list[Problem]]:
        expected, problems = [], []
        survivors = _survivors(incarnation, restored)
        for checkpoint in self._outside:
            number = next((n for n in survivors if checkpoint.origin == origin_of(log_id, n)), None)
            if number is None:
                if checkpoint.origin.startswith(origin_of(log_id, 0)[:-1]):
                    self.used.add(checkpoint)
                    detail = f"{checkpoint.origin} was signed; the log is in {incarnation}"
                    problems.append(Problem(0, "rolled_back", detail))
                continue
            self.used.add(checkpoint)
            kept = survivors[number]
            # What a declared restore lost is on record, and is no finding.
            if kept is None or checkpoint.size <= kept:
                expected.append(Expected(checkpoint.size, checkpoint.root, OUTSIDE))
        return sorted(expected, key=_size), problems

    def _locate(self, log: TenantLog, tree: LogTree, held: int, broken: int) -> int | None:
        """Where the log differs from tiles that are proved to be those that were sealed."""
        try:
            last = tree.last()
            if last is None:
                return None
            size, reader = last.checkpoint.size, tree.reader(last.checkpoint.size)
            index = self._first_difference(log, reader, held, min(broken, size))
            if index is None:
                return None
            (leaf_hash,) = reader.leaf_hashes(index, index + 1)
            path = inclusion_proof(reader.node, index, size)
            proved = inclusion_holds(leaf_hash, index, size, path, last.checkpoint.root)
        except MemorialeError:
            return None
        return index if proved else None

    def _first_difference(
        self, log: TenantLog, reader: TileReader, start: int, stop: int
    ) -> int | None:
        place = start - start % TILE_WIDTH
        leaves = self._sealing.sealer.leaves(target_of(log))
        for piece in leaves.hashes(place, stop):
            for at in range(0, len(piece), TILE_WIDTH * HASH_BYTES):
                found = piece[at : at + TILE_WIDTH * HASH_BYTES]
                tile = reader.tile(0, place // TILE_WIDTH)[: len(found)]
                if tile != found:
                    return place + _differs(tile, found)
                place += len(found) // HASH_BYTES
        return None


def _stored(tree: LogTree) -> Iterator[Expected]:
    """The checkpoints on disk, smallest first, each read when it is its turn."""
    sizes = tree.sizes()
    try:
        last = tree.last()
    except MemorialeError as error:
        yield Expected(sizes[-1] if sizes else 0, None, HERE, error.message)
        last = None
    for size in sizes:
        try:
            signed = tree.at(size)
        except MemorialeError as error:
            yield Expected(size, None, HERE, error.message)
            continue
        if signed is None or signed.checkpoint.size != size:
            yield Expected(size, None, HERE, f"the file of size {size} holds another checkpoint")
        else:
            yield Expected(size, signed.checkpoint.root, HERE)
    if last is not None and last.checkpoint.size not in sizes:
        yield Expected(last.checkpoint.size, last.checkpoint.root, HERE)


def _rolled_back(tree: LogTree, incarnation: int, head: int) -> list[Problem]:
    later = [
        int(folder.name)
        for folder in tree.folder.parent.glob("*")
        if folder.name.isdecimal() and int(folder.name) > incarnation
    ]
    if not later:
        return []
    detail = f"this machine sealed it in incarnation {max(later)}, it is in {incarnation}"
    return [Problem(head, "rolled_back", detail)]


def _survivors(incarnation: int, restored: Sequence[LedgerRestoredHeader]) -> dict[int, int | None]:
    """How many events of each incarnation are still there; None: all."""
    kept: dict[int, int | None] = {incarnation: None}
    least: int | None = None
    for header in sorted(restored, key=lambda one: -one.incarnation):
        survived = header.sealed - header.lost
        least = survived if least is None else min(least, survived)
        kept[header.incarnation - 1] = least
    return kept


def _with(found: VerifyReport, problems: Sequence[Problem]) -> VerifyReport:
    if not problems:
        return found
    first = min(problem.index for problem in problems)
    bad = found.first_bad_index
    return replace(
        found,
        ok=False,
        first_bad_index=first if bad is None else min(first, bad),
        problem_count=found.problem_count + len(problems),
        problems=[*problems, *found.problems],
    )


def _differs(one: bytes, other: bytes) -> int:
    pairs = range(0, len(other), HASH_BYTES)
    return next(
        number
        for number, at in enumerate(pairs)
        if one[at : at + HASH_BYTES] != other[at : at + HASH_BYTES]
    )


def _is_id(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


def _size(expected: Expected) -> int:
    return expected.size


def not_of_these_logs(checkpoint: Checkpoint) -> UnavailableError:
    """An outside checkpoint whose log is not among those that were verified."""
    return UnavailableError(
        f"The checkpoint is of {checkpoint.origin}, which is no log of this tenant; name the "
        "tenant, or verify --all-tenants.",
        code="foreign_origin",
        field="checkpoint",
        value=checkpoint.origin,
    )
