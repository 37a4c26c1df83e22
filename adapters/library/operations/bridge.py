"""The shared bridge: memory events of all processes that share a log, in each of them, in order."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self
from uuid import UUID

from memoriale.adapters.library.operations.transports import (
    Message,
    Transport,
    dead,
    malformed,
)
from memoriale.domain.errors import (
    InputError,
    MemorialeError,
    UnavailableError,
    is_callers_end,
)
from memoriale.domain.keys import Subject
from memoriale.domain.subscriptions import EventFilter, MemoryEvent, Origin, origin_of, type_of
from memoriale.domain.text import check_text

if TYPE_CHECKING:
    from memoriale.adapters.application.identities import Identities
    from memoriale.adapters.application.stream import LoggedEvent
    from memoriale.adapters.library.memory import Memory

FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 5.0
_LISTENED: Final = 1.0
_NAME: Final = "agentMemory"
_log = logging.getLogger("memoriale.bridge")

Publish = Callable[[MemoryEvent], object]
"""Takes an event; called in the bridge's thread, one at a time, in the order of the log."""
Failed = Callable[[MemorialeError], object]
"""Is told of each failure of a transport or of the database."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedOptions:
    """
    How events are shared (reference system B, ``shared``).

    Args:
        transport: Carries hints besides the database's own, or opens such a transport anew each
            time that one died; None: the ledger alone, which is enough.
        topic_name: Under which the bridges of a transport know each other; default
            ``agentMemory:events``.
        filter: Which events this bridge announces, and which of others' it publishes.
        bridge_name: For messages; default ``agentMemory:shared``.
    """

    transport: Transport | Callable[[], Transport] | None = None
    topic_name: str = f"{_NAME}:events"
    filter: EventFilter | None = None
    bridge_name: str = f"{_NAME}:shared"

    def __post_init__(self) -> None:
        check_text("topic_name", self.topic_name, max_bytes=256)
        check_text("bridge_name", self.bridge_name, max_bytes=256)
        if self.filter is not None and not isinstance(self.filter, EventFilter):
            raise _bad_option("filter", "an EventFilter")
        if self.transport is not None and not (
            callable(self.transport) or _is_transport(self.transport)
        ):
            raise _bad_option("transport", "an object with send, receive and close")


class SharedBridge:
    """
    Publishes what others record in the log that a handle's memory is in.

    The events come from the log, from an index on, in order and each once, so none is lost when
    a transport dies; a transport only says that there is something to read. Others' memories are
    in the log too: nothing has to be copied. Events of this bridge's own calls are those whose
    ``correlation_id`` it made; they are left out. Nothing is passed on from bridge to bridge:
    each reads the log, whoever told it, and a message about another log is refused and told.

    Args:
        memory: Whose events; its principal's rights decide what is seen. Right: ``use``.
        publish: Takes each event of others. What it raises ends the bridge; see ``failure``.
        options: How.
        kinds: Only events of these kinds of memory.
        after: Begin after this index; None: with what is recorded from now on.
        own: Publish the events of this bridge's own calls as well.
        all_owners: Events of every owner; rights ``audit`` and ``content``.
        on_failure: Told of every failure; they are in the log ``memoriale.bridge`` too.
    """

    def __init__(
        self,
        memory: "Memory",
        publish: Publish,
        options: SharedOptions | None = None,
        *,
        kinds: Sequence[str] = ("item",),
        after: int | None = None,
        own: bool = False,
        all_owners: bool = False,
        on_failure: Failed | None = None,
    ) -> None:
        self.options = options or SharedOptions()
        self.origin = Origin.make()
        """What the events of this bridge's own calls are known by."""
        self.failure: BaseException | None = None
        """What ended it; None while it works and after ``close``."""
        self._publish, self._own, self._on_failure = publish, own, on_failure
        self._identities, self._log_id = memory.services.log.identities, memory.services.log.log_id
        start = memory.services.log.head() - 1 if after is None else after
        self._position = start
        self._subscription = memory.subscribe(
            after=start,
            kinds=kinds,
            all_owners=all_owners,
            on_interruption=lambda error, _: self._told(error),
        )
        self._link = self._linked()
        self._thread = threading.Thread(
            target=self._follow, name=f"memoriale-bridge-{self.options.bridge_name}", daemon=True
        )
        self._thread.start()

    @property
    def position(self) -> int:
        """Index up to which everything was published: go on after it."""
        return self._position

    def correlation_id(self) -> UUID:
        """What the events of one call of this bridge's owner are to carry."""
        return self.origin.correlation_id()

    def close(self) -> None:
        """Ends the bridge and closes its transport. Closing twice is allowed."""
        self._subscription.stop()
        if self._link is not None:
            self._link.close()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _linked(self) -> "_Link | None":
        given = self.options.transport
        if given is None:
            return None
        return _Link(given, self.options.bridge_name, self._heard, self._told)

    def _follow(self) -> None:
        try:
            for logged in self._subscription:
                event = memory_event(self._identities, logged)
                if event is not None:
                    self._pass_on(event)
                self._position = self._subscription.position
        except BaseException as error:
            self.failure = error
            self._subscription.stop()
            if isinstance(error, MemorialeError):
                self._told(error)
            else:
                _log.exception("%s ended: its publisher failed", self.options.bridge_name)

    def _pass_on(self, event: MemoryEvent) -> None:
        own = event.origin == self.origin.name
        if self.options.filter is not None and not self.options.filter.passes(event):
            return
        if own and self._link is not None:
            self._link.announce(
                {
                    "topic": self.options.topic_name,
                    "log": str(self._log_id),
                    "origin": self.origin.name,
                    "index": event.index,
                }
            )
        if self._own or not own:
            self._publish(event)

    def _heard(self, message: Message) -> None:
        if message.get("topic") != self.options.topic_name:
            return
        if message.get("log") != str(self._log_id):
            raise InputError(
                "a bridge of another log is on this topic; bridges share a log and pass nothing "
                "on. Give each log a topic of its own.",
                code="foreign_log",
                field="topic_name",
                value=self.options.topic_name,
            )
        if message.get("origin") != self.origin.name:
            self._subscription.wake()

    def _told(self, error: MemorialeError) -> None:
        _log.warning("%s: %s", self.options.bridge_name, error.message)
        if self._on_failure is not None:
            self._on_failure(error)


class _Link:
    """
    A transport that is used until it dies, and then opened or tried again.

    Args:
        transport: The transport, or what opens one.
        name: Of the bridge.
        heard: Takes each message.
        failed: Told of each failure.
    """

    def __init__(
        self,
        transport: Transport | Callable[[], Transport],
        name: str,
        heard: Callable[[Message], None],
        failed: Failed,
    ) -> None:
        self._given, self._heard, self._failed = transport, heard, failed
        self._lock = threading.Lock()
        self._transport: Transport | None = None
        self._ended = threading.Event()
        self._due = threading.Event()
        self._message: Message | None = None
        works = {"send": self._send, "receive": self._receive}
        self._threads = [
            threading.Thread(
                target=self._keep, args=[work], name=f"memoriale-bridge-{name}-{what}", daemon=True
            )
            for what, work in works.items()
        ]
        for thread in self._threads:
            thread.start()

    def announce(self, message: Message) -> None:
        """Sends a message soon; one that has not been sent yet is replaced by a later one."""
        self._message = message
        self._due.set()

    def close(self) -> None:
        """Ends the threads and closes the transport."""
        self._ended.set()
        self._due.set()
        with self._lock:
            transport, self._transport = self._transport, None
        if transport is None and _is_transport(self._given):
            transport = self._given  # type: ignore[assignment]
        if transport is not None:
            self._close(transport)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()

    def _keep(self, work: Callable[[Transport], None]) -> None:
        pause = FIRST_PAUSE
        while not self._ended.is_set():
            transport = None
            try:
                transport = self._opened()
                work(transport)
                pause = FIRST_PAUSE
            except InputError as error:
                # What came was wrong; the transport is not.
                self._failed(error)
            except BaseException as error:
                # A transport of the program's own may die of anything; it is said and opened again.
                if not self._ended.is_set():
                    self._drop(transport)
                    self._failed(_as_dead(error))
                    self._ended.wait(pause)
                    pause = min(pause * 2, LONGEST_PAUSE)

    def _send(self, transport: Transport) -> None:
        self._due.wait(_LISTENED)
        message = self._message
        if not self._due.is_set() or message is None or self._ended.is_set():
            return
        self._due.clear()
        try:
            transport.send(message)
        except BaseException:
            self._due.set()
            raise

    def _receive(self, transport: Transport) -> None:
        message = transport.receive(_LISTENED)
        if message is None:
            return
        if not isinstance(message, Mapping):
            raise malformed(type(message).__name__)
        self._heard(message)

    def _opened(self) -> Transport:
        with self._lock:
            if self._ended.is_set():
                raise UnavailableError("this bridge is closed.", code="closed")
            if self._transport is None:
                given: Any = self._given
                self._transport = given if _is_transport(given) else given()
            return self._transport

    def _drop(self, transport: Transport | None) -> None:
        with self._lock:
            if transport is None or self._transport is not transport:
                return
            self._transport = None
        if not _is_transport(self._given):
            self._close(transport)

    def _close(self, transport: Transport) -> None:
        try:
            transport.close()
        except BaseException as error:
            if is_callers_end(error):
                raise
            # It is given up all the same, and what else has to end does.
            self._failed(_as_dead(error))


def memory_event(identities: "Identities", logged: "LoggedEvent") -> MemoryEvent | None:
    """
    What an event of the log says happened to a memory; None when it is about something else.

    Args:
        identities: The tenant's names.
        logged: The event, as a subscription gave it.
    """
    columns, recorded = logged.row.columns, logged.row.recorded
    what = type_of(columns.topic)
    if what is None or columns.memory_id is None or columns.kind is None:
        return None
    persons = (columns.owner, columns.principal_user, columns.principal_agent)
    names = identities.names(persons)
    whose = dict.fromkeys(names[p] for p in persons if p in names)
    body = logged.body or {}
    return MemoryEvent(
        type=what,
        id=columns.memory_id,
        content=body.get("payload", {}).get("content"),
        scope_tags=tuple(
            dict.fromkeys([*map(_scope, whose), *map(_tagged, body.get("tags") or ())])
        ),
        timestamp=recorded.recorded_at,
        index=recorded.index,
        event_id=columns.event_id,
        kind=columns.kind,
        origin=origin_of(columns.correlation_id),
    )


def _as_dead(error: BaseException) -> MemorialeError:
    if isinstance(error, MemorialeError):
        return error
    return dead(str(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}")


def _scope(subject: Subject) -> str:
    return f"scope:{subject.type}:{subject.id}"


def _tagged(tag: str) -> str:
    return f"scope:tag:{tag}"


def _is_transport(given: object) -> bool:
    return all(callable(getattr(given, name, None)) for name in ("send", "receive", "close"))


def _bad_option(name: str, allowed: str) -> InputError:
    return InputError(
        f"{name} of shared must be {allowed}.", code="bad_value", field=name, allowed=allowed
    )
