"""How bridges tell each other that the log they share grew, beside the database's own hints."""

import json
import queue
import selectors
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, Protocol, Self

from memoriale.domain.errors import InputError, UnavailableError

MAX_MESSAGE: Final = 65_536
"""Bytes of one message."""
PATIENCE: Final = 5.0
"""Seconds after which a peer that takes no bytes is dead."""

Message = Mapping[str, Any]


class Transport(Protocol):
    """
    Carries small JSON objects between the bridges of a topic (reference system B, ``transport``).

    It may lose messages, double them and bring them in any order: what they are about is in the
    log. It is used by two threads, one that sends and one that receives.
    """

    def send(self, message: Message) -> None:
        """
        Gives a message to all others.

        Raises:
            UnavailableError: It is dead.
        """
        ...

    def receive(self, timeout: float) -> Message | None:
        """
        The next message of another, None when there was none in so many seconds.

        Raises:
            UnavailableError: It is dead.
            InputError: What came is no message.
        """
        ...

    def close(self) -> None:
        """Lets go of it; a ``receive`` that waits ends. Closing twice is allowed."""
        ...


class InProcessTransport:
    """Bridges of one process: each end of a ``hub`` hears what the others send."""

    def __init__(self, hub: "Hub") -> None:
        self._hub = hub
        self._inbox: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._closed = False
        hub.join(self)

    def send(self, message: Message) -> None:
        """See ``Transport``."""
        self._require_open()
        self._hub.spread(self, message)

    def receive(self, timeout: float) -> Message | None:
        """See ``Transport``."""
        self._require_open()
        with suppress(queue.Empty):
            found = self._inbox.get(timeout=timeout)
            if found is None:
                self._require_open()
            return found
        return None

    def deliver(self, message: Message) -> None:
        """Takes a message of another end."""
        self._inbox.put(message)

    def close(self) -> None:
        """See ``Transport``."""
        self._closed = True
        self._hub.leave(self)
        self._inbox.put(None)

    def _require_open(self) -> None:
        if self._closed:
            raise UnavailableError("this transport is closed.", code="transport_closed")


class Hub:
    """Where the in-process transports of one topic meet."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ends: list[InProcessTransport] = []

    def transport(self) -> InProcessTransport:
        """A further end."""
        return InProcessTransport(self)

    def join(self, end: InProcessTransport) -> None:
        """Adds an end."""
        with self._lock:
            self._ends.append(end)

    def leave(self, end: InProcessTransport) -> None:
        """Takes an end away."""
        with self._lock:
            self._ends = [other for other in self._ends if other is not end]

    def spread(self, sender: InProcessTransport, message: Message) -> None:
        """Gives a message to all other ends."""
        with self._lock:
            others = [end for end in self._ends if end is not sender]
        for end in others:
            end.deliver(message)


class SocketTransport:
    """
    One end of a stream socket; messages are JSON lines.

    Args:
        connection: Connected; closed with this.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._rest = b""
        self._sending, self._receiving = threading.Lock(), threading.Lock()
        connection.settimeout(PATIENCE)

    @classmethod
    def connect(cls, host: str, port: int) -> Self:
        """
        Reaches a peer.

        Raises:
            UnavailableError: Nobody is there.
        """
        try:
            return cls(socket.create_connection((host, port), PATIENCE))
        except OSError as error:
            raise dead(str(error)) from error

    def send(self, message: Message) -> None:
        """See ``Transport``."""
        line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        try:
            with self._sending:
                self._connection.sendall(line)
        except OSError as error:
            raise dead(str(error)) from error

    def receive(self, timeout: float) -> Message | None:
        """See ``Transport``."""
        with self._receiving:
            return self._received(timeout)

    def _received(self, timeout: float) -> Message | None:
        while b"\n" not in self._rest:
            if len(self._rest) > MAX_MESSAGE:
                self._rest = b""
                raise malformed(f"it is over {MAX_MESSAGE} bytes")
            try:
                if not self._readable(timeout):
                    return None
                more = self._connection.recv(MAX_MESSAGE)
            except (OSError, ValueError) as error:
                raise dead(str(error)) from error
            if not more:
                raise dead("the peer closed it")
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\n")
        return _parsed(line)

    def close(self) -> None:
        """See ``Transport``."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        # Whoever waits in it notices the end; a closed descriptor it would not.
        with self._receiving:
            self._connection.close()

    def _readable(self, timeout: float) -> bool:
        # Not by the socket's own timeout, which is that of whoever sends at the same time too.
        with selectors.DefaultSelector() as ready:
            ready.register(self._connection, selectors.EVENT_READ)
            return bool(ready.select(timeout))


def _parsed(line: bytes) -> Message:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        raise malformed("it is not JSON") from None
    if not isinstance(found, dict):
        raise malformed("it is no object")
    return found


def dead(said: str) -> UnavailableError:
    """The error of a transport that can no longer be used."""
    return UnavailableError(f"the transport is dead: {said}.", code="transport_dead")


def malformed(said: str) -> InputError:
    """The error of something that came and is no message."""
    return InputError(f"what came over the transport is no message: {said}.", code="bad_message")
