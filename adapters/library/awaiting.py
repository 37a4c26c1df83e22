"""Synchronous calls made awaitable: in threads, so many at once, never in the event loop."""

import asyncio
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from functools import partial, wraps
from inspect import signature
from itertools import islice
from types import TracebackType
from typing import Any, Concatenate, Final, Generic, ParamSpec, Protocol, Self, TypeVar
from weakref import WeakSet

from memoriale.domain.errors import ForkedHandleError, InputError

P = ParamSpec("P")
H = TypeVar("H")
R = TypeVar("R")
T = TypeVar("T")

THREADS: Final = 8
"""Calls of one asynchronous ledger that run at once; further ones wait their turn."""
MOST_THREADS: Final = 256

_READ_AT_ONCE: Final = 100


class Threads:
    """
    The threads in which the calls of one asynchronous ledger run.

    Args:
        count: How many calls run at once.
    """

    def __init__(self, count: int = THREADS) -> None:
        if isinstance(count, bool) or not 1 <= count <= MOST_THREADS:
            raise InputError(
                f"threads is {count}; allowed is 1..{MOST_THREADS}.",
                code="out_of_range",
                field="threads",
                value=count,
                allowed=f"1..{MOST_THREADS}",
            )
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="memoriale-async")
        self._pid = os.getpid()
        self._iterations: WeakSet[Iteration[Any]] = WeakSet()

    async def run(self, call: Callable[[], R]) -> R:
        """
        Calls in a thread and waits for it, with the caller's context variables.

        When the awaiter is cancelled, a call that has not begun never does; one that has begun
        goes on to its end in its thread.
        """
        return await asyncio.wrap_future(self.submit(call))

    def submit(self, call: Callable[[], R]) -> "Future[R]":
        """Calls in a thread."""
        if self._pid != os.getpid():
            raise ForkedHandleError(
                "this ledger was opened before os.fork; open one in the child process."
            )
        try:
            return self._pool.submit(copy_context().run, call)
        except RuntimeError:
            raise InputError("this ledger is closed; open it again.", code="closed") from None

    def iterate(self, start: Callable[[], Iterator[T]], *, endless: bool) -> "Iteration[T]":
        """
        An iterator whose items are made in a thread.

        Args:
            start: Makes the synchronous iterator.
            endless: It waits for items; then it has a thread of its own and holds up no call.
        """
        iteration = _Following(start) if endless else Iteration(start, self.submit, _READ_AT_ONCE)
        self._iterations.add(iteration)
        return iteration

    def end(self, last: Callable[[], None]) -> None:
        """Ends iterations, waits for running calls and then calls ``last``; blocks meanwhile."""
        for iteration in list(self._iterations):
            iteration.close(wait=True)
        self._pool.shutdown(wait=True)
        last()


class Submit(Protocol):
    """Calls in a thread."""

    def __call__(self, call: Callable[[], R]) -> "Future[R]":
        """The result to come."""


class Iteration(AsyncIterator[T]):
    """
    An asynchronous iterator. A cancelled wait for the next item loses none: the next wait gets
    it. It ends by ``aclose``, with its ledger, or when it is no longer referenced.
    """

    def __init__(self, start: Callable[[], Iterator[T]], submit: Submit, at_once: int) -> None:
        self._source = _Source(start)
        self._submit, self._at_once = submit, at_once
        self._ready: deque[T] = deque()
        self._pending: asyncio.Future[list[T]] | None = None
        self._one_at_a_time = asyncio.Lock()
        self._ended = False
        self._position: int | None = None

    @property
    def position(self) -> int | None:
        """Index of the last event that was handed out; None before the first."""
        return self._position

    async def __anext__(self) -> T:
        async with self._one_at_a_time:
            while not self._ready and not self._ended:
                await self._fill()
        if not self._ready:
            raise StopAsyncIteration
        found = self._ready.popleft()
        self._position = getattr(found, "index", self._position)
        return found

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Ends the iteration."""
        self.close()

    def stop(self) -> None:
        """Ends the iteration, from any thread."""
        self.close()

    def close(self, *, wait: bool = False) -> None:
        """
        Ends the iteration, from any thread.

        Args:
            wait: Until its thread has left it, if it has one of its own.
        """
        self._ended = True
        self._source.close()

    def __del__(self) -> None:
        self.close()

    async def _fill(self) -> None:
        if self._pending is None:
            read = partial(self._source.read, self._at_once)
            self._pending = asyncio.wrap_future(self._submit(read))
            self._pending.add_done_callback(_look_at)
        try:
            items = await asyncio.shield(self._pending)
        except asyncio.CancelledError:
            # What is being read belongs to the next wait.
            raise
        except BaseException:
            self._pending, self._ended = None, True
            raise
        self._pending = None
        self._ended = self._ended or not items
        self._ready.extend(items)


class _Following(Iteration[T]):
    """An iteration that waits for items in a thread of its own."""

    def __init__(self, start: Callable[[], Iterator[T]]) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="memoriale-async-follower")
        super().__init__(start, _submitting(self._pool), 1)

    def close(self, *, wait: bool = False) -> None:
        super().close()
        self._pool.shutdown(wait=wait)


def _submitting(pool: ThreadPoolExecutor) -> Submit:
    # Not a method of the iteration, which would then hold itself and never be dropped.
    def submit(call: Callable[[], R]) -> "Future[R]":
        return pool.submit(call)

    return submit


class _Source(Generic[T]):
    """A synchronous iterator, started by its first read."""

    def __init__(self, start: Callable[[], Iterator[T]]) -> None:
        self._start, self._lock, self._closed = start, threading.Lock(), False
        self._iterator: Iterator[T] | None = None

    def read(self, count: int) -> list[T]:
        with self._lock:
            if self._iterator is None and not self._closed:
                self._iterator = self._start()
        return [] if self._iterator is None else list(islice(self._iterator, count))

    def close(self) -> None:
        with self._lock:
            self._closed = True
        # A generator that is running in its thread refuses: it is finite and ends by itself.
        with suppress(ValueError):
            getattr(self._iterator, "close", int)()


class _Stopped(BaseException):
    """Ends a long operation in its thread after its awaiter was cancelled."""


class _Progress:
    """
    The progress callback of an operation that runs in a thread: it passes calls on into the
    event loop, and stops the operation once it was cancelled.
    """

    def __init__(self, told: Callable[..., object] | None) -> None:
        self._told, self._loop = told, asyncio.get_running_loop()
        self.cancelled = False

    def __call__(self, *arguments: object) -> None:
        if self.cancelled:
            raise _Stopped
        if self._told is not None:
            self._loop.call_soon_threadsafe(self._told, *arguments)


class Twin(Protocol):
    """An asynchronous handle and the synchronous one under it."""

    @property
    def threads(self) -> Threads:
        """Where its calls run."""

    @property
    def synchronous(self) -> Any:
        """The handle whose methods it calls."""


def awaited(
    method: Callable[Concatenate[H, P], R],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]:
    """
    A method of the synchronous surface as a method of its twin, to be awaited.

    A ``progress`` callback is called in the event loop. Cancelling the awaiter of a method that
    has one stops the operation at its next progress.

    Args:
        method: The method, which alone has the rules.
    """
    reports = "progress" in signature(method).parameters

    @wraps(method)
    async def call(self: Twin, /, *args: P.args, **kwargs: P.kwargs) -> R:
        given: dict[str, Any] = dict(kwargs)
        if reports:
            given["progress"] = _Progress(given.get("progress"))
        try:
            return await self.threads.run(partial(method, self.synchronous, *args, **given))
        except asyncio.CancelledError:
            if reports:
                given["progress"].cancelled = True
            raise

    return call


def iterated(
    method: Callable[Concatenate[H, P], Iterator[T]], *, endless: bool = False
) -> Callable[Concatenate[Any, P], Iteration[T]]:
    """
    A method that returns an iterator as one whose iterator is asynchronous; not to be awaited.

    Args:
        method: The method.
        endless: Whether its iterator waits for items.
    """

    @wraps(method)
    def call(self: Twin, /, *args: P.args, **kwargs: P.kwargs) -> Iteration[T]:
        start = partial(method, self.synchronous, *args, **kwargs)
        return self.threads.iterate(start, endless=endless)

    return call


def _look_at(done: "asyncio.Future[Any]") -> None:
    # Nobody may be waiting for it any more; then its error is nobody's.
    if not done.cancelled():
        done.exception()
