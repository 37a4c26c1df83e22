"""A log that is entirely in order, told at the speed of hashing."""

import logging
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from typing import Final

from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.adapters.postgres.raw_rows import raw_rows
from memoriale.adapters.proving.piece_readers import MOST_PROCESSES, PieceReaders, processors
from memoriale.projections.proofs.unbroken import PIECE, Joining, unbroken
from memoriale.projections.proofs.verify import Expected, VerifyReport

APART: Final = 4
"""Whole pieces from which on it pays to start processes (a third of a second each)."""
_TOLD_AFTER: Final = 5_000
_log = logging.getLogger(__name__)

Progress = Callable[[int, int], None]


def verified_at_once(
    log: TenantLog,
    expected: Callable[[], Iterator[Expected]],
    progress: Progress | None,
    *,
    processes: int | None = None,
    piece: int = PIECE,
) -> VerifyReport | None:
    """
    The report of a log in which nothing is wrong; None where something may be.

    Args:
        log: The log.
        expected: Gives the signed roots as for ``verify``, from the beginning.
        progress: Told the number of rows done and the head now and then.
        processes: How many read a long log; default: as many as there are processors, at most 8.
        piece: Events that a process reads at once, a power of two.
    """
    head, joining = log.head(), Joining(expected())
    count = min(processors(), MOST_PROCESSES) if processes is None else processes
    whole = head - head % piece
    if count > 1 and whole >= APART * piece:
        try:
            if not _apart(log, joining, whole, piece, count, progress):
                return None
        except OSError as error:
            _log.warning("the log is read in this process alone: %s", error)
            joining = Joining(expected())
    rows = _counted(
        raw_rows(log.reader.datastore, log.log, joining.tree.size),
        joining.tree.size,
        head,
        progress,
    )
    with closing(rows):
        in_order = unbroken(rows, head, joining, tenant=log.tenant, log_id=log.log_id)
    tree = joining.tree
    if not in_order or tree.size > log.head():
        return None
    return VerifyReport(
        leaves=tree.size,
        root=tree.root().hex(),
        ok=True,
        unsealed=tree.size - joining.sealed,
        lost=0,
        checkpoints=joining.compared,
        first_bad_index=None,
        problem_count=0,
        problems=[],
    )


def _apart(
    log: TenantLog,
    joining: Joining,
    stop: int,
    size: int,
    count: int,
    progress: Progress | None,
) -> bool:
    with PieceReaders(log, count) as readers:
        for piece, roots in readers.pieces(joining, stop, size):
            if piece is None or piece.size < size or not joining.add(piece, roots):
                return False
            if progress is not None:
                progress(joining.tree.size, stop)
    return True


def _counted(
    rows: Iterator[bytes], start: int, head: int, progress: Progress | None
) -> Generator[bytes, None, None]:
    if progress is None:
        yield from rows
        return
    for number, row in enumerate(rows, start):
        if number % _TOLD_AFTER == 0:
            progress(number, max(head, number))
        yield row
