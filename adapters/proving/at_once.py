"""A log that is entirely in order, told at the speed of hashing."""

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from typing import Final

from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.adapters.postgres.raw_rows import raw_rows
from memoriale.projections.proofs.unbroken import unbroken
from memoriale.projections.proofs.verify import Expected, VerifyReport

_TOLD_AFTER: Final = 5_000


def verified_at_once(
    log: TenantLog, expected: Iterator[Expected], progress: Callable[[int, int], None] | None
) -> VerifyReport | None:
    """
    The report of a log in which nothing is wrong; None where something may be.

    Args:
        log: The log.
        expected: As for ``verify``.
        progress: Told the number of rows done and the head now and then.
    """
    head = log.head()
    rows = _counted(raw_rows(log.reader.datastore, log.log), head, progress)
    with closing(rows):
        found = unbroken(rows, head, tenant=log.tenant, log_id=log.log_id, expected=expected)
    if found is None or found[0].size > log.head():
        return None
    tree, sealed, compared = found
    return VerifyReport(
        leaves=tree.size,
        root=tree.root().hex(),
        ok=True,
        unsealed=tree.size - sealed,
        lost=0,
        checkpoints=compared,
        first_bad_index=None,
        problem_count=0,
        problems=[],
    )


def _counted(
    rows: Iterator[bytes], head: int, progress: Callable[[int, int], None] | None
) -> Generator[bytes, None, None]:
    if progress is None:
        yield from rows
        return
    for number, row in enumerate(rows):
        if number % _TOLD_AFTER == 0:
            progress(number, max(head, number))
        yield row
