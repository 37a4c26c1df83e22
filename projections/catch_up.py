"""Posting a view from the log, the same before a read, in the background and in replay."""

import time
from collections.abc import Callable

from memoriale.domain.errors import UnavailableError
from memoriale.projections.view import Batch, EventSource, View

BATCH_SIZE = 1000


def catch_up(
    view: View,
    source: EventSource,
    *,
    stop: int | None = None,
    deadline: float | None = None,
    size: int = BATCH_SIZE,
    before: Callable[[Batch], None] | None = None,
    progress: Callable[[int], None] | None = None,
    stopped: Callable[[], bool] | None = None,
) -> int:
    """
    Posts batches until the view stands at ``stop`` or time runs out; posts one at least.

    Args:
        view: Written by nobody else meanwhile: the caller holds its writer lock.
        source: The log.
        stop: Position to reach; None: the head of the log at the start.
        deadline: No batch is begun after it, as told by ``time.monotonic()``; None: no limit.
        size: Rows of a batch, about: an append is never split.
        before: Told each batch before it is posted.
        progress: Told the position after each batch.
        stopped: Asked after each batch whether to end early.

    Returns:
        Where the view stands now.

    Raises:
        CorruptViewError: The view cannot be read or written.
        UnavailableError: The log cannot be read, or has a hole.
    """
    position = view.position()
    end = source.head() if stop is None else stop
    if position >= end:
        return position
    for batch in source.batches(position, end, size):
        _check_contiguous(view, position, batch.position)
        if before is not None:
            before(batch)
        view.apply(batch, position)
        position = batch.end
        if progress is not None:
            progress(position)
        if deadline is not None and time.monotonic() >= deadline:
            break
        if stopped is not None and stopped():
            break
    return position


def _check_contiguous(view: View, position: int, start: int) -> None:
    if start != position:
        raise UnavailableError(
            f"view {view.name} stands at {position}, but the log gave events from {start}; "
            "run verify to see whether events are missing.",
            code="hole",
            field="index",
            value=start,
            allowed=position,
        )
