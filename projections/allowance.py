"""What a read allows its embedder: how much time, and whether it may be done without."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final

from memoriale.domain.errors import UnavailableError

FAILURES: Final = frozenset(("embedder_failed", "embedder_timeout", "bad_vectors"))
"""Codes of an ``UnavailableError`` that the embedder is the cause of."""


@dataclass(slots=True)
class Allowance:
    """
    The time that a read gives its embedder.

    Args:
        seconds: For the passages that the view lacks, and once more for the question.
        optional: Whether rows are posted without vectors when the embedder fails. Otherwise the
            failure is the read's.
        failure: The first failure that was put up with.
    """

    seconds: float
    optional: bool
    failure: UnavailableError | None = None
    _started: float = field(default_factory=time.monotonic)

    def left(self) -> float:
        """Seconds that are left for passages."""
        return max(0.0, self._started + self.seconds - time.monotonic())

    def puts_up_with(self, error: UnavailableError) -> bool:
        """Whether a failure can be done without; if so, it is kept."""
        if not self.optional or error.code not in FAILURES:
            return False
        self.failure = self.failure or error
        return True


_current: ContextVar[Allowance | None] = ContextVar("allowance", default=None)


@contextmanager
def allowing(allowance: Allowance) -> Iterator[Allowance]:
    """Whatever is embedded in this block, in this thread, is embedded under an allowance."""
    token = _current.set(allowance)
    try:
        yield allowance
    finally:
        _current.reset(token)


def allowance() -> Allowance | None:
    """What is allowed here; None: any time, and a failure is an error. So it is in a replay."""
    return _current.get()
