"""Verify: a log against itself, against its own checkpoints, and against those kept elsewhere."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
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
from memoriale.adapters.proving.lineage import Survivors, noted, rolled_back, stored, trees_of
from memoriale.adapters.sealing.deployment import KnownLog
from memoriale.adapters.sealing.log_tree import MARK, LogTree, origin_of
from memoriale.adapters.sealing.sealing import Sealing, target_of
from memoriale.domain.errors import MemorialeError, UnavailableError, ViolationError
from memoriale.projections.proofs.inclusion import inclusion_holds, inclusion_proof
from memoriale.projections.proofs.tiles import TILE_WIDTH, TileReader
from memoriale.projections.proofs.verify import Expected, Problem, VerifyReport, verify

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
        try:
            stand = self._sealing.sealer.leaves(target).stand()
        except ViolationError:
            # Its head is gone, and without it nothing of the log can be read.
            return self.vanished(self._sealing.known(log.log_id) or _nameless(log))
        tree = self._sealing.sealer.tree(target, stand.incarnation)
        restored = self._sealing.deployment.restored(log.log_id)
        survivors = Survivors(stand.incarnation, restored)
        trees = trees_of(tree, stand.incarnation)
        given, problems = self._given(log.log_id, survivors)
        anchored = self._anchored(log.log_id, stand.incarnation, survivors)
        problems += rolled_back(tree, stand.incarnation, stand.head)
        problems += survivors.undeclared(stand.head)
        known = self._sealing.known(log.log_id) or _nameless(log)
        last = (known.incarnation, known.size)
        missing = noted(self._noted(log.log_id), last, trees, survivors)

        def expected() -> Iterator[Expected]:
            here = (stored(one, number, survivors) for number, one in trees)
            return merge(*here, missing, given, anchored.expected, key=_size)

        # Where anything may be wrong the log is read once more, to say what.
        found = verified_at_once(log, expected, progress) or verify(
            log.reader.rows_as_stored(),
            log.head,
            tenant=log.tenant,
            log_id=log.log_id,
            expected=expected(),
            locate=lambda held, broken: self._located(log, trees, held, broken),
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

    def vanished_elsewhere(self, known: Iterable[UUID]) -> list[LogReport]:
        """
        Reports of logs that this machine sealed or an anchor knows as ours, and that nobody
        names any more.

        Args:
            known: Ids of the logs that the deployment log names, and its own.
        """
        found = [
            *self._sealed_here(),
            *([] if self._anchors is None else self._anchors.newest()[0]),
        ]
        here, gone = {str(log_id) for log_id in known}, dict[str, Checkpoint]()
        for checkpoint in found:
            log_id = checkpoint.origin.split("/")[1]
            if log_id not in here and _is_id(log_id):
                gone[log_id] = max(gone.get(log_id, checkpoint), checkpoint, key=lambda c: c.size)
        return [
            self.vanished(KnownLog("", "", UUID(log_id), 0, checkpoint.size))
            for log_id, checkpoint in gone.items()
        ]

    def deployment_is_gone(self, own: TenantLog) -> bool:
        """Whether this machine noted checkpoints in the deployment log, and it is empty."""
        marks = self._sealing.tiles.glob(f"*/*/{MARK}")
        return not own.reader.last(1) and any(True for _ in marks)

    def _sealed_here(self) -> Iterator[Checkpoint]:
        for folder in sorted(self._sealing.tiles.glob("*/*")):
            if _is_id(folder.parent.name) and folder.name.isdecimal():
                log_id, number = UUID(folder.parent.name), int(folder.name)
                tree = LogTree(self._sealing.tiles, log_id, number, self._sealing.key)
                with suppress(MemorialeError):
                    # What cannot be believed names no log.
                    last = tree.last()
                    if last is not None:
                        yield last.checkpoint

    def _noted(self, log_id: UUID) -> Iterator[KnownLog]:
        own = self._sealing.deployment_log().log_id
        return iter(()) if log_id == own else self._sealing.deployment.noted(log_id)

    def _anchored(self, log_id: UUID, incarnation: int, survivors: Survivors) -> Outside:
        if self._anchors is None:
            return Outside([], {})
        return self._anchors.of(log_of(origin_of(log_id, incarnation)), survivors)

    def _given(self, log_id: UUID, survivors: Survivors) -> tuple[list[Expected], list[Problem]]:
        expected, problems = [], []
        ours = origin_of(log_id, 0)[:-1]
        for checkpoint in self._outside:
            if not checkpoint.origin.startswith(ours):
                continue
            self.used.add(checkpoint)
            rest = checkpoint.origin.removeprefix(ours)
            number = int(rest) if rest.isdecimal() else 0
            if number not in survivors:
                detail = f"{checkpoint.origin} was signed; the log is in {len(survivors)}"
                problems.append(Problem(0, "rolled_back", detail))
            elif survivors.still_there(number, checkpoint.size):
                # What a declared restore lost is on record, and is no finding.
                expected.append(Expected(checkpoint.size, checkpoint.root, OUTSIDE))
        return sorted(expected, key=_size), problems

    def _located(
        self, log: TenantLog, trees: Sequence[tuple[int, LogTree]], held: int, broken: int
    ) -> int | None:
        found = (self._locate(log, tree, held, broken) for _, tree in trees)
        return next((index for index in found if index is not None), None)

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


def _nameless(log: TenantLog) -> KnownLog:
    """A log that was never sealed."""
    return KnownLog(log.tenant, log.log.kind, log.log_id, log.log.incarnation)


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
