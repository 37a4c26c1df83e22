"""A clock for reads that stands still until it is told to move."""

from datetime import datetime, timedelta
from threading import Lock

from memoriale.domain.errors import InputError
from memoriale.domain.times import parse_time, to_utc


class FixedClock:
    """
    The time of reads without as-of: ages, expiry and the default valid time are counted to it.
    What is recorded has the database's time all the same, and so have questions as of a point.

    Args:
        now: An aware time, or RFC 3339 text with an offset.

    Raises:
        InputError: A naive time, or text that is no time.
    """

    def __init__(self, now: datetime | str) -> None:
        self._lock = Lock()
        self._now = to_utc(parse_time("now", now))

    def __call__(self) -> datetime:
        """The time, in UTC."""
        return self._now

    def set(self, now: datetime | str) -> None:
        """
        Moves the clock.

        Args:
            now: As for the constructor; it may lie before the present one.
        """
        moved = to_utc(parse_time("now", now))
        with self._lock:
            self._now = moved

    def advance(self, by: timedelta) -> datetime:
        """
        Moves the clock and returns its time.

        Args:
            by: How far; negative moves it back.

        Raises:
            InputError: Beyond the times that Python has.
        """
        with self._lock:
            try:
                self._now += by
            except OverflowError:
                raise InputError(
                    f"the clock cannot be moved by {by}.", code="out_of_range", field="by"
                ) from None
            return self._now
