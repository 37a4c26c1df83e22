"""What can be watched: events of a memory, and a value that changes."""

import logging
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

from memoriale.domain.errors import is_callers_end

T = TypeVar("T")
Unsubscribe = Callable[[], None]
_log = logging.getLogger("memoriale.operations")


class Topic(Generic[T]):
    """Hands what is published to every subscriber, in order. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._told: dict[int, Callable[[T], None]] = {}
        self._next = 0

    def subscribe(self, callback: Callable[[T], None]) -> Unsubscribe:
        """
        Has a function called with everything that is published from now on.

        Args:
            callback: Called in the thread that publishes, so it should be quick; what it raises
                is logged and stops nothing.

        Returns:
            Ends it.
        """
        with self._lock:
            number, self._next = self._next, self._next + 1
            self._told[number] = callback

        def unsubscribe() -> None:
            with self._lock:
                self._told.pop(number, None)

        return unsubscribe

    def publish(self, value: T) -> None:
        """Calls every subscriber."""
        with self._lock:
            told = list(self._told.values())
        for callback in told:
            try:
                callback(value)
            except BaseException as error:
                if is_callers_end(error):
                    raise
                _log.exception("a subscriber failed")

    def has_subscribers(self) -> bool:
        """Whether anybody is told."""
        with self._lock:
            return bool(self._told)

    def close(self) -> None:
        """Forgets all subscribers."""
        with self._lock:
            self._told.clear()


class Observable(Generic[T]):
    """
    A value that is looked up when it is asked for, and told when it changes.

    Args:
        look: Gives the value.
    """

    def __init__(self, look: Callable[[], T]) -> None:
        self._look = look
        self._topic: Topic[T] = Topic()

    def get(self) -> T:
        """The value now."""
        return self._look()

    def subscribe(self, callback: Callable[[T], None]) -> Unsubscribe:
        """Has a function called with the value after each change that this process makes."""
        return self._topic.subscribe(callback)

    def changed(self) -> None:
        """Tells the subscribers."""
        if self._topic.has_subscribers():
            self._topic.publish(self._look())

    def close(self) -> None:
        """Forgets all subscribers."""
        self._topic.close()
