"""Synchronous calls made awaitable: in threads, so many at once, never in the event loop."""

import asyncio
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial, wraps
from inspect import signature
from itertools import islice
from queue import SimpleQueue
from typing import Any, Concatenate, Final, Generic, ParamSpec, Protocol, TypeVar
from weakref import WeakSet

from memoriale.domain.errors import ForkedHandleError, InputError

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

THREADS: Final = 8
"""Calls of one asynchronous ledger that run at once; further ones wait their turn."""
_READ_AT_ONCE: Final = 100


class Stopped(BaseException):
    """Ends a long operation in its thread after its awaiter was cancelled."""


class Threads:
    """
    The threads in which the calls of one asynchronous ledger run.

    Args:
        count: How many calls run at once.
    """

    def __init__(self, count: int = THREADS) -> None:
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= 256:
            raise InputError(
                f"threads is {count!r}; allowed is 1..256.",
                code="out_of_range",
                field="threads",
                value=str(count)[:80],
                allowed="1..256",
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
            endless: It waits for items; then it has a thread of its own and blocks no call.
        """
        submit = Lane().submit if endless else self.submit
        iteration = Iteration(start, submit, 1 if endless else _READ_AT_ONCE)
        self._iterations.add(iteration)
        return iteration

    def end(self, last: Callable[[], None]) -> None:
        """Ends iterations, waits for running calls and then calls ``last``; blocks meanwhile."""
        for iteration in list(self._iterations):
            iteration.close()
        self._pool.shutdown(wait=True)
        last()


class Lane:
    """One daemon thread that makes calls in order, for as long as it is referenced."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._started = False

    def submit(self, call: Callable[[], R]) -> "Future[R]":
        """Calls in the thread."""
        future: Future[R] = Future()
        self._calls.put(partial(_answer, future, call))
        if not self._started:
            self._started = True
            name = "memoriale-async-follower"
            threading.Thread(target=_serve, args=(self._calls,), name=name, daemon=True).start()
        return future

    def __del__(self) -> None:
        self._calls.put(None)


def _serve(calls: "SimpleQueue[Callable[[], None] | None]") -> None:
    while call := calls.get():
        call()
        del call


def _answer(future: "Future[R]", call: Callable[[], R]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(call())
    except BaseException as error:
        # The awaiter raises it.
        future.set_exception(error)


class Submit(Protocol):
    """Calls in a thread."""

    def __call__(self, call: Callable[[], R]) -> "Future[R]":
        """The call's result to come."""


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
        # A generator that runs refuses to be closed; it is finite and ends by itself.
        close = getattr(self._iterator, "close", None)
        if close is not None and not getattr(self._iterator, "gi_running", False):
            close()


class Iteration(AsyncIterator[T]):
    """
    An asynchronous iterator. A cancelled wait for the next item loses none: the next wait gets
    it. It ends by ``aclose``, with its ledger, or when it is no longer referenced.
    """

    def __init__(
        self, start: Callable[[], Iterator[T]], submit: Submit, at_once: int
    ) -> None:
        self._source = _Source(start)
        self._submit, self._at_once = submit, at_once
        self._ready: deque[T] = deque()
        self._pending: asyncio.Future[list[T]] | None = None
        self._ended = False

    def __aiter__(self) -> "Iteration[T]":
        return self

    async def __anext__(self) -> T:
        while not self._ready and not self._ended:
            await self._fill()
        if not self._ready:
            raise StopAsyncIteration
        return self._ready.popleft()

    async def aclose(self) -> None:
        """Ends the iteration."""
        self.close()

    def close(self) -> None:
        """Ends the iteration, from any thread."""
        self._ended = True
        self._source.close()

    def __del__(self) -> None:
        self._source.close()

    async def _fill(self) -> None:
        if self._pending is None:
            read = partial(self._source.read, self._at_once)
            self._pending = asyncio.wrap_future(self._submit(read))
        waited, items = self._pending, Sequence[T]
        try:
            items = await asyncio.shield(waited)
        finally:
            if waited.done():
                self._pending = None
        self._ended = self._ended or not items
        self._ready.extend(items)
