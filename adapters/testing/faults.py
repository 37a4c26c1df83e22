"""
Faults: named points in the write and the catch-up path that a test can make raise or kill.

The product knows nothing of them: arming a point replaces the method that it lies in until it is
disarmed, so an unarmed point costs nothing.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from threading import RLock
from typing import Any, Final

from memoriale.domain.errors import InputError
from memoriale.domain.text import shown

POINTS: Final[dict[str, str]] = {
    "write.sealing": "An event is about to be sealed: its keys exist, nothing is stored.",
    "write.appending": "Events are about to be stored: nothing is stored.",
    "write.appended": "Events are stored and durable; the caller has no receipt yet.",
    "view.posting": "A batch is about to be posted into a view.",
    "view.posted": "A batch was posted into a view.",
    "view.swapping": "A view is about to become the live one, when it is made or rebuilt.",
    "view.swapped": "A view has become the live one.",
}
"""The points by name, and what is true when each is reached."""

# For each method the point before it and the point after it.
_PLACES: Final[dict[tuple[str, str, str], tuple[str | None, str | None]]] = {
    ("adapters.application.mapper", "LedgerMapper", "to_row"): ("write.sealing", None),
    ("adapters.postgres.committer", "Committer", "submit"): ("write.appending", "write.appended"),
    ("adapters.postgres.committer", "Committer", "submit_many"): (
        "write.appending",
        "write.appended",
    ),
    ("projections.recall.view", "RecallView", "apply"): ("view.posting", "view.posted"),
    ("projections.stats.view", "StatsView", "apply"): ("view.posting", "view.posted"),
    ("projections.generations", "Generations", "publish"): ("view.swapping", "view.swapped"),
}


class FaultError(Exception):
    """What an armed point raises when nothing else was asked for."""


class Fault:
    """
    An armed point.

    Args:
        point: Its name.
        act: What happens there.
        skip: How many times it is passed unharmed first.
        times: How often it acts then; None: every time.
    """

    def __init__(self, point: str, act: Callable[[], None], skip: int, times: int | None) -> None:
        self.point, self.reached = point, 0
        self._act, self._skip, self._times = act, skip, times

    def reach(self) -> None:
        """Counts, and acts when it is time to."""
        with _lock:
            self.reached += 1
            turn = self.reached - self._skip
        if turn > 0 and (self._times is None or turn <= self._times):
            self._act()


_lock = RLock()
_armed: dict[str, list[Fault]] = {}
_replaced: dict[tuple[str, str, str], Callable[..., Any]] = {}


@contextmanager
def raising(
    point: str,
    error: BaseException | type[BaseException] | None = None,
    *,
    skip: int = 0,
    times: int | None = None,
) -> Iterator[Fault]:
    """
    Makes a point raise, in whatever thread reaches it, until the context ends.

    Args:
        point: One of ``POINTS``.
        error: What to raise; default: ``FaultError`` with the point's name.
        skip: How many times it is passed unharmed first.
        times: How often it raises then; default: every time.

    Yields:
        The fault; ``reached`` counts how often its point was reached.

    Raises:
        InputError: An unknown point.
    """
    raised = FaultError(point) if error is None else error

    def act() -> None:
        raise raised

    with _arm(Fault(_known(point), act, skip, times)) as fault:
        yield fault


@contextmanager
def killing(point: str, *, skip: int = 0) -> Iterator[Fault]:
    """
    Makes a point kill this process with SIGKILL, as a crash would; for a process that the test
    has started.

    Args:
        point: One of ``POINTS``.
        skip: How many times it is passed unharmed first.

    Raises:
        InputError: An unknown point.
    """
    with _arm(Fault(_known(point), _kill, skip, None)) as fault:
        yield fault


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _known(point: str) -> str:
    if point not in POINTS:
        raise InputError(
            f"unknown point {shown(point)!r}; there are {', '.join(POINTS)}.",
            code="unknown_point",
            field="point",
            value=shown(point),
            allowed=list(POINTS),
        )
    return point


@contextmanager
def _arm(fault: Fault) -> Iterator[Fault]:
    with _lock:
        _armed.setdefault(fault.point, []).append(fault)
        _install()
    try:
        yield fault
    finally:
        with _lock:
            _armed[fault.point].remove(fault)
            _install()


def _install() -> None:
    """Replaces the methods in which a point is armed, and puts the others back."""
    for place, points in _PLACES.items():
        wanted = any(_armed.get(point) for point in points if point is not None)
        if wanted == (place in _replaced):
            continue
        module, owner, method = place
        cls = getattr(import_module(f"memoriale.{module}"), owner)
        if wanted:
            _replaced[place] = getattr(cls, method)
            setattr(cls, method, _passing(_replaced[place], *points))
        else:
            setattr(cls, method, _replaced.pop(place))


def _passing(
    method: Callable[..., Any], before: str | None, after: str | None
) -> Callable[..., Any]:
    @wraps(method)
    def passed(*args: Any, **kwargs: Any) -> Any:
        _reach(before)
        result = method(*args, **kwargs)
        _reach(after)
        return result

    return passed


def _reach(point: str | None) -> None:
    with _lock:
        faults = [] if point is None else list(_armed.get(point, ()))
    for fault in faults:
        fault.reach()
