"""Taking checkpoints to the anchors, off the path of whoever writes."""

import logging
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from threading import Condition, Thread
from typing import Final

from memoriale.adapters.anchors.anchor import Results
from memoriale.adapters.anchors.handing import Handing
from memoriale.adapters.anchors.opening import Anchors
from memoriale.adapters.anchors.places import Place
from memoriale.adapters.sealing.publisher import Published
from memoriale.domain.errors import MemorialeError

CLOSE_SECONDS: Final = 5.0
"""How long the end of a process waits for anchors. What they miss they get next time."""

_log = logging.getLogger("memoriale.anchors")


class AnchorPublisher:
    """
    Hands checkpoints to every anchor, each in a thread of its own, so that none waits for another
    and no writer for any. While an anchor is busy newer checkpoints replace those that wait:
    the newest one of a log covers all before it.

    Args:
        anchors: The anchors.
    """

    def __init__(self, anchors: Anchors) -> None:
        self._anchors = anchors
        self._workers = [
            _Worker(Handing(anchors, place), anchors.places.every)
            for place in anchors.places.places
        ]

    def publish(self, checkpoints: Sequence[Published]) -> None:
        """Returns at once."""
        for worker in self._workers:
            worker.offer(checkpoints)

    def close(self, wait: float = CLOSE_SECONDS) -> None:
        """
        Waits for what is under way, but not for long.

        Args:
            wait: Seconds, for all anchors together.
        """
        deadline = time.monotonic() + wait
        for worker in self._workers:
            worker.finish()
        ended = [worker.join(deadline) for worker in self._workers]
        # A thread that goes on still holds the lock of its anchor.
        if all(ended):
            self._anchors.close()


def push(anchors: Anchors, checkpoints: Sequence[Published]) -> dict[Place, Results]:
    """
    Hands checkpoints to every anchor now, and waits for all answers.

    Args:
        anchors: The anchors.
        checkpoints: The present ones of the logs that are meant.
    """
    places = anchors.places.places
    with ThreadPoolExecutor(max(1, len(places))) as threads:
        results = threads.map(lambda place: Handing(anchors, place).hand(checkpoints), places)
        return dict(zip(places, results, strict=True))


class _Worker:
    """The thread of one anchor; started when there is something to do."""

    def __init__(self, handing: Handing, every: int) -> None:
        self._handing, self._every = handing, every
        self._changed = Condition()
        self._waiting: dict[str, Published] = {}
        self._finishing = False
        self._thread: Thread | None = None
        self._not_before = 0.0

    def offer(self, checkpoints: Sequence[Published]) -> None:
        self._handing.memory.begin()
        with self._changed:
            self._waiting.update((checkpoint.origin, checkpoint) for checkpoint in checkpoints)
            if self._thread is None:
                # A daemon, because an anchor that hangs must not keep a process alive.
                self._thread = Thread(target=self._run, name="memoriale-anchor", daemon=True)
                self._thread.start()
            self._changed.notify()

    def finish(self) -> None:
        with self._changed:
            self._finishing = True
            self._changed.notify()

    def join(self, deadline: float) -> bool:
        """Whether it ended in time."""
        if self._thread is not None:
            self._thread.join(max(0.0, deadline - time.monotonic()))
        ended = self._thread is None or not self._thread.is_alive()
        if not ended:
            _log.warning(
                "the anchor %s did not answer in time; it gets what it missed next time",
                self._handing.place.shown,
            )
        return ended

    def _run(self) -> None:
        left_over = self._handing.memory.is_left_over()
        self._not_before = self._due_again()
        while checkpoints := self._next():
            try:
                left_over = not self._handed(checkpoints, left_over)
            except MemorialeError as error:
                # A damaged file of our own; the anchor itself never raises.
                _log.warning("%s", error.message)

    def _next(self) -> dict[str, Published]:
        """What waits, once it may be handed over; nothing when the process ends."""
        with self._changed:
            while True:
                pause = self._not_before - time.monotonic()
                if self._waiting and pause <= 0:
                    break
                if self._finishing:
                    return {}
                self._changed.wait(pause if self._waiting else None)
            taken, self._waiting = self._waiting, {}
            return taken

    def _handed(self, checkpoints: Mapping[str, Published], left_over: bool) -> bool:
        missed = {one.origin: one for one in self._handing.behind()} if left_over else {}
        results = self._handing.hand({**missed, **checkpoints}.values())
        self._not_before = time.monotonic() + self._every
        errors = {error.message for error in results.values() if error is not None}
        for message in errors:
            _log.warning("%s", message)
        with self._changed:
            if not errors and not self._waiting:
                self._handing.memory.end()
        return not errors

    def _due_again(self) -> float:
        """When the anchor may be used again, also after it was used by another process."""
        last = self._handing.memory.health().last_success
        if last is None or not self._every:
            return 0.0
        ago = (datetime.now(UTC) - datetime.fromisoformat(last)).total_seconds()
        return time.monotonic() + max(0.0, self._every - ago)
