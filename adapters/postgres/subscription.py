"""Following a log: every event once, in order, for as long as wanted."""

import threading
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from eventsourcing.persistence import ApplicationRecorder, Notification, Subscription

from memoriale.adapters.postgres.errors import HOLE
from memoriale.domain.errors import UnavailableError

if TYPE_CHECKING:
    from memoriale.adapters.postgres.recorder import LedgerRecorder

BATCH: Final = 500
"""Events read at once."""
BATCH_BYTES: Final = 4 * 1024 * 1024
"""Of sealed states above which fewer events are read the next time."""

_FIRST_BATCH: Final = 50
_SHORTEST_PAUSE: Final = 0.01
_LONGEST_PAUSE: Final = 1.0


class LedgerSubscription(Subscription[ApplicationRecorder]):
    """
    An endless iterator over the notifications of a log.

    It asks the log, at most a second after an event was stored, and at once when this process
    stored it or ``wakeup`` is set. It reads contiguous indices of committed appends, so it
    neither skips an event nor sees part of an append. An event that is missing ends it with an
    error. It reads on when all that it read was taken, so a slow reader slows the reading.

    Args:
        recorder: The recorder of the log.
        gt: Begin after this notification id, None for the first event.
        topics: Only these topics; none means all.
    """

    def __init__(
        self, recorder: "LedgerRecorder", gt: int | None = None, topics: Sequence[str] = ()
    ) -> None:
        super().__init__(recorder, gt, topics)
        self._ledger = recorder
        self._wanted = frozenset(topics)
        self._ready: deque[Notification] = deque()
        self._limit = _FIRST_BATCH
        self.wakeup = threading.Event()
        """Whoever knows that the log grew may set it."""
        recorder.committer.listen(self.wakeup)

    def stop(self) -> None:
        """End the iteration, also while another thread waits in it."""
        super().stop()
        self.wakeup.set()

    def __next__(self) -> Notification:
        """
        The next notification; waits for one.

        Raises:
            UnavailableError: An event is missing (``hole``) or the database cannot be used.
        """
        while not self._ready:
            if not (found := self.batch()):
                raise StopIteration
            self._ready.extend(
                event for event in found if not self._wanted or event.topic in self._wanted
            )
        if self._has_been_stopped:
            raise StopIteration
        return self._ready.popleft()

    def batch(self) -> Sequence[Notification]:
        """
        The next notifications of all topics; waits for one, and is empty once stopped.

        Raises:
            UnavailableError: As ``__next__``; asked again it goes on where it was.
        """
        pause = _SHORTEST_PAUSE
        while not self._has_been_stopped:
            # Cleared before reading: what is stored after the read sets it again.
            self.wakeup.clear()
            if self._has_been_stopped:
                break
            if found := self._pull():
                return found
            self.wakeup.wait(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
        return ()

    def _pull(self) -> Sequence[Notification]:
        try:
            found = self._ledger.select_notifications(
                self._last_notification_id or 0, self._limit, inclusive_of_start=False
            )
        except UnavailableError as error:
            if error.code == HOLE:
                self.stop()
            raise
        if found:
            self._last_notification_id = found[-1].id
            size = sum(len(event.state) for event in found)
            fits = size <= BATCH_BYTES
            self._limit = min(self._limit * 2, BATCH) if fits else max(self._limit // 4, 1)
        return found
