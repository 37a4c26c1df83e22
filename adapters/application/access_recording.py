"""What callers were given, on record: a bounded queue and one thread that writes it in batches."""

import atexit
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Final
from uuid import UUID, uuid4
from weakref import WeakSet

from memoriale.adapters.application.identities import Identities
from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.domain.decisions import Stamp
from memoriale.domain.errors import ConflictError, InputError, MemorialeError, UnavailableError
from memoriale.domain.events import (
    Body,
    GivenBody,
    GivenHeader,
    NewEvent,
    Recalled,
    SettingChanged,
    SettingChangedHeader,
)
from memoriale.domain.guards import NoEvent
from memoriale.domain.keys import PersonKey, Subject
from memoriale.domain.principal import Principal
from memoriale.domain.record import MAX_ID_LIST, Columns

MODES: Final = ("off", "ids", "full")
DEFAULT_MODE: Final = "ids"
SETTING: Final = "access_log"
GIVEN_KIND: Final = "given"
SETTING_KIND: Final = "setting"

SECONDS: Final = 1.0
"""What was given is durable at most so long after the answer."""
ENTRIES: Final = 500
"""Answers in one append at most; so many waiting ones are written at once."""
MEMORIES: Final = 20_000
"""Memories in one append at most, unless one answer alone has more."""
CAPACITY: Final = 10_000
"""Answers that wait at most; the next reader waits until there is room."""
PATIENCE: Final = 30.0
"""Seconds that a reader waits for room before its answer is refused."""

_IDLE: Final = 10.0
_PAUSE: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """
    One answer: what a call handed to its caller.

    Args:
        command: By which call.
        memories: The memories in the order of the answer, each with the index that its version
            begins with.
        index: The pin that the answer was given as of.
        branch: On which branch it was asked.
        pinned, behind, degraded: As in ``GivenHeader``.
        question: What was asked.
        global_index: The pin in the log of global memories; None when they play no part.
        shared: Which of the memories are global.
    """

    command: str
    memories: Sequence[tuple[UUID, int]]
    index: int
    branch: UUID
    pinned: bool = False
    behind: int = 0
    degraded: tuple[str, ...] = ()
    question: str | None = None
    global_index: int | None = None
    shared: Collection[UUID] = ()


@dataclass(frozen=True, slots=True)
class _Entry:
    """An answer that waits, with its caller as pseudonyms and keys of that moment."""

    given: Given
    at: int
    taken: float
    stamp: Stamp
    owner: PersonKey
    persons: tuple[PersonKey, ...]


class AccessRecorder:
    """
    Records what the callers of one tenant were given, off their path.

    ``record`` puts an answer into a queue; a thread of the recorder's own writes the queue into
    the access log, in the order in which the answers came, within ``seconds`` or as soon as
    ``entries`` wait. Nothing is dropped: when the queue is full readers wait, and when it stays
    full they are refused. While the database cannot be reached the thread tries again. A process
    that is killed loses what it has not written: at most the last ``seconds``.

    Args:
        open_log: Opens the tenant's access log; called from the recorder's thread.
        identities: Of the tenant.
        mode: ``off``, ``ids``, or ``full``, which keeps the question too, sealed for who asked.
        seconds, entries, capacity, patience: See the constants.
    """

    def __init__(
        self,
        open_log: Callable[[], TenantLog],
        identities: Callable[[], Identities],
        mode: str = DEFAULT_MODE,
        *,
        seconds: float = SECONDS,
        entries: int = ENTRIES,
        capacity: int = CAPACITY,
        patience: float = PATIENCE,
    ) -> None:
        self.mode = mode
        self._open_log, self._identities = open_log, identities
        self._seconds, self._entries = seconds, entries
        self._capacity, self._patience = capacity, patience
        self._settled = False
        """Whether the log holds this recorder's mode as the last one."""
        self._start_anew()
        _recorders.add(self)

    def record(self, principal: Principal, given: Given) -> None:
        """
        Takes an answer; it is written soon.

        Raises:
            UnavailableError: ``access_log_full``: the access log could not be written for so
                long that no more may wait. The answer must not be handed out.
        """
        if self.mode == "off" and self._settled:
            return
        entry = self._entry(principal, given)
        with self._changed:
            self._wait_for_room()
            if self._closed:
                raise InputError("this ledger is closed; open it again.", code="closed")
            self._waiting.append(entry)
            self._accepted += 1
            if self._thread is None:
                self._start()
            elif len(self._waiting) in (1, self._entries):
                self._changed.notify_all()

    def flush(self) -> None:
        """
        Returns when everything taken before is durable.

        Raises:
            UnavailableError: It could not be written; it still waits.
        """
        with self._changed:
            wanted, failures = self._accepted, self._failures
            self._urgent = wanted
            self._changed.notify_all()
            while self._written < wanted:
                if self._failures != failures or self._thread is None:
                    raise self._lost(len(self._waiting))
                self._changed.wait()

    def close(self) -> None:
        """
        Writes what waits and ends the thread. Closing twice is allowed.

        Raises:
            UnavailableError: Something could not be written and is lost; says how much.
        """
        try:
            self.flush()
        finally:
            with self._changed:
                self._closed, thread = True, self._thread
                self._changed.notify_all()
            if thread is not None:
                thread.join()

    def _start_anew(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[_Entry] = deque()
        self._thread: threading.Thread | None = None
        self._accepted = self._written = self._urgent = self._failures = 0
        self._failure: BaseException | None = None
        self._closed = False

    def _forked(self) -> None:
        # The parent's thread writes what waits; a child has no handle that could record.
        self._start_anew()

    def _entry(self, principal: Principal, given: Given) -> _Entry:
        identities = self._identities()
        stamp = identities.stamp(principal, None, None)
        owner = identities.key(principal.acting())
        asking = [principal.identity("user")]
        if principal.on_behalf_of is not None:
            asking.append(Subject("user", principal.on_behalf_of))
        persons = identities.keys([subject for subject in asking if subject is not None])
        at, taken = time.time_ns() // 1000, time.monotonic()
        return _Entry(given, at, taken, stamp, owner, tuple(persons))

    def _wait_for_room(self) -> None:
        deadline = time.monotonic() + self._patience
        while len(self._waiting) >= self._capacity:
            left = deadline - time.monotonic()
            if left <= 0:
                raise self._lost(len(self._waiting), code="access_log_full")
            self._changed.wait(left)

    def _lost(self, count: int, code: str = "access_log_unavailable") -> UnavailableError:
        why = "" if self._failure is None else f" ({self._failure})"
        return UnavailableError(
            f"{count} answers could not be written into the access log{why}; answers are not "
            "handed out without a record. Try again when the database can be reached.",
            code=code,
            value=count,
        )

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="memoriale-access-log", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while batch := self._next_batch():
                self._write(batch)
        except BaseException as error:
            with self._changed:
                self._failure, self._thread = error, None
                self._failures += 1
                self._changed.notify_all()
            raise

    def _next_batch(self) -> list[_Entry]:
        """The next answers to write; none when the thread is to end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed, _IDLE)
            while self._waiting and not self._due():
                self._changed.wait(self._seconds - (time.monotonic() - self._waiting[0].taken))
            if not self._waiting:
                self._thread = None
            return _first(self._waiting, self._entries)

    def _due(self) -> bool:
        enough = self._closed or len(self._waiting) >= self._entries
        old = time.monotonic() - self._waiting[0].taken >= self._seconds
        return enough or old or self._written < self._urgent

    def _write(self, batch: list[_Entry]) -> None:
        events: list[NewEvent] | None = None
        while True:
            try:
                log = self._open_log()
                self._settle(log)
                if events is None:
                    events = [event for entry in batch for event in self._events(entry)]
                if events:
                    _save(log, events)
                break
            except MemorialeError as error:
                if self._failed(error):
                    return
        with self._changed:
            self._written += len(batch)
            for _ in batch:
                self._waiting.popleft()
            self._failure = None
            self._changed.notify_all()

    def _failed(self, error: MemorialeError) -> bool:
        """Notes a failure and waits a moment; True when the recorder is closed meanwhile."""
        with self._changed:
            self._failure = error
            self._failures += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._closed, _PAUSE)
            if self._closed:
                self._waiting.clear()
                self._thread = None
            return self._closed

    def _events(self, entry: _Entry) -> list[NewEvent]:
        if self.mode == "off":
            return []
        memories = entry.given.memories
        starts = range(0, max(1, len(memories)), MAX_ID_LIST)
        return [self._event(entry, start) for start in starts]

    def _event(self, entry: _Entry, start: int) -> NewEvent:
        given, stamp = entry.given, entry.stamp
        part = given.memories[start : start + MAX_ID_LIST]
        header = GivenHeader(
            command=given.command,
            at=entry.at,
            index=given.index,
            pinned=given.pinned,
            behind=given.behind,
            degraded=given.degraded,
            after_rank=start or None,
            memory_ids=tuple(memory_id for memory_id, _ in part),
            versions=tuple(version for _, version in part),
            global_index=given.global_index,
            global_places=tuple(n for n, (i, _) in enumerate(part) if i in given.shared),
        )
        question = given.question if self.mode == "full" else None
        columns = Columns(
            **stamp.fields(),
            event_id=uuid4(),
            stream_id=uuid4(),
            stream_version=1,
            topic=Recalled.TOPIC,
            schema_version=Recalled.SCHEMA_VERSION,
            branch=given.branch,
            kind=GIVEN_KIND,
            owner=entry.owner.pseudonym,
            owner_type=entry.owner.subject.type,
            about=tuple(sorted(person.pseudonym for person in entry.persons)),
        )
        event = Recalled(header=header, body=GivenBody(question=question))
        return NewEvent(event, columns, entry.persons or (entry.owner,))

    def _settle(self, log: TenantLog) -> None:
        """Puts a change of the mode on record, once for each process."""
        if self._settled:
            return
        tenant = log.identities.tenant()
        stamp = log.identities.stamp(Principal(tenant=log.tenant), None, None)
        before, after = _last_mode(log, tenant.pseudonym)
        while before != self.mode:
            header = SettingChangedHeader(setting=SETTING, value=self.mode, before=before)
            guard = NoEvent((SettingChanged.TOPIC,), after, tenant.pseudonym)
            with suppress(ConflictError):
                log.save([_changed(header, stamp, tenant)], [guard])
            before, after = _last_mode(log, tenant.pseudonym)
        self._settled = True


def _changed(header: SettingChangedHeader, stamp: Stamp, tenant: PersonKey) -> NewEvent:
    columns = Columns(
        **stamp.fields(),
        event_id=uuid4(),
        stream_id=uuid4(),
        stream_version=1,
        topic=SettingChanged.TOPIC,
        schema_version=SettingChanged.SCHEMA_VERSION,
        kind=SETTING_KIND,
        owner=tenant.pseudonym,
        owner_type="tenant",
    )
    return NewEvent(SettingChanged(header=header, body=Body()), columns, (tenant,))


def _first(waiting: deque[_Entry], count: int) -> list[_Entry]:
    taken: list[_Entry] = []
    memories = 0
    for entry in islice(waiting, count):
        memories += len(entry.given.memories)
        if taken and memories > MEMORIES:
            break
        taken.append(entry)
    return taken


def _save(log: TenantLog, events: list[NewEvent]) -> None:
    try:
        log.save(events)
    except ConflictError as error:
        if error.code != "key_destroyed":
            raise
        # Somebody who asked was erased since. What was asked goes with the key; that a pseudonym
        # was given something stays.
        tenant = log.identities.tenant()
        log.save([_without_question(event, tenant) for event in events])


def _without_question(event: NewEvent, tenant: PersonKey) -> NewEvent:
    body = event.event.model_copy(update={"body": GivenBody()})
    return NewEvent(body, event.columns, (tenant,))


def _last_mode(log: TenantLog, owner: UUID) -> tuple[str, int]:
    """The mode that was recorded last and where; the default and -1 when none was."""
    rows = log.reader.slice(owner, SETTING_KIND)
    found, place = DEFAULT_MODE, -1
    for recorded in log.mapper.decode(rows):
        header = recorded.event.header
        if isinstance(header, SettingChangedHeader) and header.setting == SETTING:
            found, place = header.value, recorded.index
    return found, place


_recorders: "WeakSet[AccessRecorder]" = WeakSet()


def _after_fork() -> None:
    for recorder in list(_recorders):
        recorder._forked()


def _at_exit() -> None:
    for recorder in list(_recorders):
        with suppress(UnavailableError):
            recorder.flush()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
