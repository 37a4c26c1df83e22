"""Group commit: concurrent writers of one process share calls of ledger.append."""

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from copy import copy
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Final, Self
from weakref import WeakSet

import psycopg

from memoriale.adapters.postgres.append import Answer, Append, Wait, call_append
from memoriale.adapters.postgres.datastore import Datastore
from memoriale.adapters.postgres.errors import is_lost_connection, translate
from memoriale.adapters.postgres.logs import Log
from memoriale.domain.errors import InputError, MemorialeError, UnavailableError
from memoriale.domain.record import AppendReceipt

MAX_APPENDS: Final = 1000
"""Appends in one call at most."""
MAX_BYTES: Final = 8 * 1024 * 1024
"""Bytes in one call at most, unless one append alone is larger."""
RETRY_SECONDS: Final = 10.0
"""How long a call is repeated after its connection was lost."""

IDLE_SECONDS: Final = 10.0
"""After which a committer's thread ends; the next append starts another."""

_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 1.0


class _Slot:
    """An append and the place where its caller waits for the answer."""

    __slots__ = ("answer", "append", "done")

    def __init__(self, append: Append) -> None:
        self.append = append
        self.answer: AppendReceipt | MemorialeError | None = None
        self.done = threading.Lock()
        self.done.acquire()

    def give(self, answer: AppendReceipt | MemorialeError) -> None:
        self.answer = answer
        self.done.release()

    def wait(self) -> AppendReceipt | MemorialeError:
        self.done.acquire()
        if self.answer is None:
            raise AssertionError("the committer released a caller without an answer")
        return self.answer


class Committer:
    """
    The one writer of a log in this process.

    Callers hand in appends from any thread and wait; a thread of the committer's own takes what
    is there, makes one call of it and gives each caller its answer. It starts with the first
    append, and anew in a child after ``os.fork``. After a lost connection it repeats the same
    call for ``RETRY_SECONDS``: what was stored already is recognised by its event ids.

    Args:
        datastore: The database.
        log: The log to append to.
    """

    def __init__(self, datastore: Datastore, log: Log) -> None:
        self.datastore = datastore
        self.log = log
        self.used = False
        """Whether anything was handed in, so that there may be something to seal."""
        self._listeners: WeakSet[threading.Event] = WeakSet()
        self._tell: Callable[[], None] | None = None
        self._closed = False
        self._start_anew()
        _committers.add(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def submit(self, append: Append) -> AppendReceipt:
        """
        Store an append and return its receipt when it is durable.

        Args:
            append: Events and guards.

        Raises:
            StreamConflictError: A version of a stream is taken, or its guard does not hold.
            GuardRefusedError: Another guard does not hold.
            IdempotencyMismatchError: The idempotency key or an event id stands for something
                else.
            UnavailableError: The database cannot be used. With the code ``append_uncertain``
                the append may be stored or not; repeat it with the same event ids or
                idempotency key.
            InputError: The database does not take a value, or the committer is closed.
        """
        answer = self._enqueue([append])[0].wait()
        if isinstance(answer, MemorialeError):
            raise answer
        return answer

    def submit_many(self, appends: Iterable[Append]) -> list[AppendReceipt | MemorialeError]:
        """
        Store many independent appends and return their answers in the same order, an error in
        place of the receipt of each that was not stored.

        Args:
            appends: Appends; each is stored or refused on its own.

        Raises:
            InputError: The committer is closed.
        """
        return [slot.wait() for slot in self._enqueue(appends)]

    def listen(self, wakeup: threading.Event) -> None:
        """
        Set an event after each successful call, for as long as the event is referenced.

        Args:
            wakeup: Set, never cleared, by the committer.
        """
        self._listeners.add(wakeup)

    def tell(self, told: Callable[[], None]) -> None:
        """
        Call something after each call that stored an append, when everybody has the answer.

        Args:
            told: Returns at once and raises nothing.
        """
        self._tell = told

    def close(self) -> None:
        """Store what was handed in, then stop. Calling it again does nothing."""
        with self._lock:
            self._closed = True
            thread = self._thread
            if thread is not None:
                self._queue.put(None)
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _start_anew(self) -> None:
        self._lock = threading.Lock()
        self._queue: SimpleQueue[_Slot | None] = SimpleQueue()
        self._held: deque[_Slot] = deque()
        self._thread: threading.Thread | None = None

    def _forked(self) -> None:
        # The parent's thread will answer what is queued.
        self._start_anew()

    def _enqueue(self, appends: Iterable[Append]) -> list[_Slot]:
        slots = [_Slot(append) for append in appends]
        with self._lock:
            if self._closed:
                raise InputError(
                    "This ledger is closed. Open it again.", code="closed", field="ledger"
                )
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name=f"memoriale-committer-{self.log.kind}", daemon=True
                )
                self._thread.start()
            self.used = True
            for slot in slots:
                self._queue.put(slot)
        return slots

    def _run(self) -> None:
        batch: list[_Slot] = []
        try:
            while batch := self._next_batch(batch):
                batch = self._commit(batch)
        except BaseException as error:
            self._abandon(batch, error)
            raise

    def _abandon(self, batch: list[_Slot], error: BaseException) -> None:
        """Answer everybody when the thread ends by a defect, so that nobody waits for ever."""
        with self._lock:
            self._thread = None
            left = [*batch, *self._held]
            self._held.clear()
            while not self._queue.empty():
                if slot := self._queue.get():
                    left.append(slot)
        for slot in left:
            if slot.answer is None:
                slot.give(_uncertain(f"the committer failed: {type(error).__name__}"))

    def _next_batch(self, waiting: list[_Slot]) -> list[_Slot]:
        batch = waiting
        size = sum(slot.append.size for slot in batch)
        while len(batch) < MAX_APPENDS:
            slot = self._next_slot(block=not batch)
            if slot is None:
                break
            size += slot.append.size
            if batch and size > MAX_BYTES:
                self._held.appendleft(slot)
                break
            batch.append(slot)
        return batch

    def _next_slot(self, *, block: bool) -> _Slot | None:
        if self._held:
            return self._held.popleft()
        try:
            slot = self._queue.get(block=block, timeout=IDLE_SECONDS)
        except Empty:
            return self._rest() if block else None
        if slot is None and not block:
            # The sign to stop is the last item; it is read again when nothing else is left.
            self._queue.put(None)
        return slot

    def _rest(self) -> _Slot | None:
        """Ends an idle thread, so that a log at rest costs nothing; the next append starts one."""
        with self._lock:
            if not self._queue.empty():
                return self._queue.get()
            self._thread = None
            return None

    def _commit(self, batch: list[_Slot]) -> list[_Slot]:
        """Give every slot of a batch its answer and return those that go into the next one."""
        answers = self._call(batch)
        again = []
        for slot, answer in zip(batch, answers, strict=True):
            if isinstance(answer, Wait):
                again.append(slot)
            else:
                slot.give(answer)
        for wakeup in list(self._listeners):
            wakeup.set()
        if self._tell is not None and any(_is_new(answer) for answer in answers):
            self._tell()
        return again

    def _call(self, batch: list[_Slot]) -> list[Answer]:
        try:
            return self._call_repeatedly([slot.append for slot in batch])
        except psycopg.Error as error:
            if is_lost_connection(error) or len(batch) == 1:
                return [translate(error, self.datastore.place) for _ in batch]
        except MemorialeError as error:
            return [copy(error) for _ in batch]
        # One append that the server cannot take must not fail its neighbours.
        return [answer for slot in batch for answer in self._call([slot])]

    def _call_repeatedly(self, appends: list[Append]) -> list[Answer]:
        deadline = time.monotonic() + RETRY_SECONDS
        pause = _FIRST_PAUSE
        sent = False
        while True:
            try:
                with self.datastore.lent_appender() as connection:
                    sent = True
                    return call_append(connection, self.log.tenant, self.log.log_id, appends)
            except (psycopg.Error, UnavailableError) as error:
                if isinstance(error, psycopg.Error) and not is_lost_connection(error):
                    raise
                if not sent:
                    raise
                if time.monotonic() + pause > deadline:
                    raise _uncertain(str(error).partition("\n")[0]) from error
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)


def _is_new(answer: Answer) -> bool:
    return isinstance(answer, AppendReceipt) and answer.created


def _uncertain(why: str) -> UnavailableError:
    return UnavailableError(
        f"The connection to the database was lost during an append ({why}). It may be stored or"
        " not: repeat it with the same idempotency key to find out.",
        code="append_uncertain",
    )


_committers: WeakSet[Committer] = WeakSet()


def _after_fork() -> None:
    for committer in list(_committers):
        committer._forked()


os.register_at_fork(after_in_child=_after_fork)
