"""Following a log: every event once, in order, for as long as wanted."""

import threading
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from eventsourcing.persistence import ApplicationRecorder, Notification, Subscription

from memoriale.adapters.postgres.reading import HOLE
from memoriale.domain.errors import UnavailableError

if TYPE_CHECKING:
    from memoriale.adapters.postgres.recorder import LedgerRecorder

BATCH: Final = 500
"""Events read at once."""

_SHORTEST_PAUSE: Final = 0.01
_LONGEST_PAUSE: Final = 1.0


class LedgerSubscription(Subscription[ApplicationRecorder]):
    """
    An endless iterator over the notifications of a log.

    It asks the log, at most a second after an event was stored, and at once when this process
    stored it. It reads contiguous indices of committed appends, so it neither skips an event
    nor sees part of an append. An event that is missing ends it with an error.

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
        self._wakeup = threading.Event()
        recorder.committer.listen(self._wakeup)

    def stop(self) -> None:
        """End the iteration, also while another thread waits in it."""
        super().stop()
        self._wakeup.set()

    def __next__(self) -> Notification:
        """
        The next notification; waits for one.

        Raises:
            UnavailableError: An event is missing (``hole``) or the database cannot be used.
        """
        pause = _SHORTEST_PAUSE
        while not self._has_been_stopped:
            if self._ready:
                return self._ready.popleft()
            # Cleared before reading: what is stored after the read sets it again.
            self._wakeup.clear()
            if not self._has_been_stopped and not self._pull():
                self._wakeup.wait(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
        raise StopIteration

    def _pull(self) -> bool:
        try:
            found = self._ledger.select_notifications(
                self._last_notification_id or 0, BATCH, inclusive_of_start=False
            )
        except UnavailableError as error:
            if error.code == HOLE:
                self.stop()
            raise
        if found:
            self._last_notification_id = found[-1].id
        self._ready.extend(
            event for event in found if not self._wanted or event.topic in self._wanted
        )
        return bool(found)
