"""The shared bridge: what others recorded is published, whatever becomes of the transport."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any, ClassVar

import pytest

from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.operations.bridge import SharedBridge, SharedOptions
from memoriale.adapters.library.operations.transports import (
    MAX_MESSAGE,
    Hub,
    Message,
    SocketTransport,
    Transport,
)
from memoriale.domain.errors import InputError, MemorialeError, UnavailableError
from memoriale.domain.subscriptions import EventFilter, MemoryEvent
from tests.fixtures.embedded import eventually


class Peer:
    """
    A bridge with what it published and what it was told of failures.

    Args:
        memory: Whose events.
        options, more: As for the bridge.
    """

    def __init__(self, memory: Memory, options: SharedOptions | None = None, **more: Any) -> None:
        self.memory, self.events, self.failures = memory, list[MemoryEvent](), list[Any]()
        self.bridge = SharedBridge(
            memory,
            self.events.append,
            options,
            kinds=("note",),
            on_failure=self.failures.append,
            **more,
        )

    def remember(self, text: str, **fields: Any) -> int:
        """Stores a note as a call of the bridge's owner; its index."""
        correlation = self.bridge.correlation_id()
        return self.memory.remember(text, correlation_id=correlation, **fields).index

    def contents(self) -> list[str | None]:
        """What was published."""
        return [event.content for event in self.events]


@pytest.fixture
def peers(alice: Memory) -> Iterator[Callable[..., Peer]]:
    """Makes peers, of alice unless another memory is given; they are closed at the end."""
    with ExitStack() as closed:

        def make(options: SharedOptions | None = None, memory: Memory = alice, **more: Any) -> Peer:
            peer = Peer(memory, options, **more)
            closed.callback(peer.bridge.close)
            return peer

        yield make


def passed(peer: Peer, index: int) -> bool:
    """Whether a peer has dealt with everything up to an index."""
    return eventually(lambda: peer.bridge.position >= index)


def test_what_others_record_is_published_with_its_origin(peers: Callable[..., Peer]) -> None:
    """Each event once, in order, with who recorded it; a bridge's own events are left out."""
    one, other = peers(), peers()
    one.remember("from one", tags=["t"])
    index = other.remember("from other")
    assert passed(one, index)
    assert passed(other, index)
    assert (one.contents(), other.contents()) == (["from other"], ["from one"])
    (event,) = other.events
    assert (event.type, event.origin, event.index) == ("add", one.bridge.origin.name, index - 1)
    assert event.scope_tags == ("scope:user:alice", "scope:tag:t")


def test_changes_are_told_in_the_words_of_the_reference(peers: Callable[..., Peer]) -> None:
    """add, update and delete; what something else than a bridge recorded has no origin."""
    peer = peers()
    made = peer.memory.remember("one")
    peer.memory.correct(made.memory_id, "uno")
    ended = peer.memory.invalidate(made.memory_id)
    assert passed(peer, ended.index)
    told = [(event.type.value, event.content, event.origin) for event in peer.events]
    assert told == [("add", "one", None), ("update", "uno", None), ("delete", None, None)]


def test_own_events_are_published_on_request(peers: Callable[..., Peer]) -> None:
    """``own`` publishes all from one source, so in one order."""
    one, other = peers(own=True), peers()
    one.remember("mine")
    assert passed(one, other.remember("theirs"))
    assert one.contents() == ["mine", "theirs"]


def test_another_owner_is_told_nothing(
    peers: Callable[..., Peer], as_user: Callable[[str], Memory]
) -> None:
    """A bridge shows what its principal may see and no more."""
    alice, bob = peers(), peers(memory=as_user("bob"))
    alice.remember("secret")
    index = alice.remember("for all", visibility="tenant")
    assert passed(bob, index)
    assert bob.contents() == ["for all"]


@pytest.mark.parametrize(
    ("filtered", "expected"),
    [
        (EventFilter(headers={"type": "update"}), ["uno"]),
        (EventFilter(headers={"type": "add", "kind": "note"}), ["one", "two"]),
        (EventFilter(headers={"origin": "nobody"}), []),
        (EventFilter(predicate=lambda event: event.content == "two"), ["two"]),
    ],
    ids=["header", "headers", "no header", "predicate"],
)
def test_only_what_passes_the_filter_is_published(
    peers: Callable[..., Peer], filtered: EventFilter, expected: list[str]
) -> None:
    """Headers and a predicate; all of them must hold."""
    peer, writer = peers(SharedOptions(filter=filtered)), peers().memory
    one = writer.remember("one")
    writer.correct(one.memory_id, "uno")
    assert passed(peer, writer.remember("two").index)
    assert peer.contents() == expected


def test_a_filter_can_name_memories(peers: Callable[..., Peer], alice: Memory) -> None:
    """``keys`` are ids of memories."""
    one, two = alice.remember("one"), alice.remember("two")
    peer = peers(SharedOptions(filter=EventFilter(keys=[two.memory_id])))
    alice.correct(one.memory_id, "uno")
    assert passed(peer, alice.correct(two.memory_id, "due").index)
    assert peer.contents() == ["due"]


def test_nothing_goes_round(peers: Callable[..., Peer]) -> None:
    """Three bridges over one transport: an event reaches each other one once."""
    hub = Hub()
    three = [peers(SharedOptions(transport=hub.transport())) for _ in range(3)]
    index = [peer.remember(f"from {n}") for n, peer in enumerate(three)][-1]
    assert all(passed(peer, index) for peer in three)
    for n, peer in enumerate(three):
        assert peer.contents() == [f"from {m}" for m in range(3) if m != n]
        assert peer.failures == []


def test_a_transport_carries_what_is_new_and_no_content(peers: Callable[..., Peer]) -> None:
    """A message names the topic, the log, who recorded it and the index."""
    hub = Hub()
    peer = peers(SharedOptions(transport=hub.transport(), topic_name="items"))
    with closing(hub.transport()) as listening:
        index = peer.remember("secret")
        assert listening.receive(30) == {
            "topic": "items",
            "log": str(peer.memory.services.log.log_id),
            "origin": peer.bridge.origin.name,
            "index": index,
        }


class Dying:
    """A transport that dies with each use until it is to live."""

    def __init__(self, alive: threading.Event, error: Exception) -> None:
        self._alive, self._error = alive, error

    def send(self, message: Message) -> None:
        if not self._alive.is_set():
            raise self._error

    def receive(self, timeout: float) -> Message | None:
        if not self._alive.wait(0.01):
            raise self._error
        return None

    def close(self) -> None:
        self._alive.set()


@pytest.mark.parametrize(
    "error",
    [UnavailableError("gone"), ConnectionResetError("gone"), RuntimeError("a broker's own")],
)
def test_a_transport_that_dies_is_told_and_opened_again(
    peers: Callable[..., Peer], error: Exception
) -> None:
    """Its deaths are reported, it is opened anew, and no event is lost or doubled meanwhile."""
    made: list[Dying] = []

    def opened() -> Transport:
        alive = threading.Event()
        if len(made) >= 3:
            alive.set()
        made.append(Dying(alive, error))
        return made[-1]

    peer, writer = peers(SharedOptions(transport=opened)), peers()
    texts = [f"note {n}" for n in range(20)]
    index = [writer.remember(text) for text in texts][-1]
    assert eventually(lambda: len(made) == 4)
    assert passed(peer, index)
    assert peer.contents() == texts
    assert len(peer.failures) >= 3
    assert all(isinstance(told, UnavailableError) for told in peer.failures)


def test_a_transport_that_cannot_be_closed_holds_up_nothing(peers: Callable[..., Peer]) -> None:
    """What it says is told, and the bridge ends as any other."""

    class Clinging(Dying):
        def close(self) -> None:
            super().close()
            raise RuntimeError("still busy")

    alive = threading.Event()
    alive.set()
    peer = peers(SharedOptions(transport=lambda: Clinging(alive, UnavailableError("gone"))))
    assert passed(peer, peers().remember("one"))
    peer.bridge.close()
    assert [told.message for told in peer.failures] == [
        "the transport is dead: RuntimeError: still busy."
    ]


def test_what_a_transport_brings_and_is_no_message_is_told(peers: Callable[..., Peer]) -> None:
    """The bridge goes on listening: the next message is heard."""

    class Babbling(Dying):
        brought: ClassVar[list[Any]] = ["junk", 3.5, ["topic"], {"topic": "another"}]

        def receive(self, timeout: float) -> Any:
            return self.brought.pop(0) if self.brought else super().receive(timeout)

    alive = threading.Event()
    alive.set()
    peer = peers(SharedOptions(transport=Babbling(alive, UnavailableError("gone"))))
    assert eventually(lambda: not Babbling.brought)
    assert passed(peer, peers().remember("one"))
    assert [told.code for told in peer.failures] == ["bad_message"] * 3


def test_a_transport_that_cannot_be_opened_is_told(peers: Callable[..., Peer]) -> None:
    """The bridge works by the log alone."""

    def refused() -> Transport:
        raise ConnectionRefusedError("nobody is there")

    peer, writer = peers(SharedOptions(transport=refused)), peers()
    assert passed(peer, writer.remember("one"))
    assert eventually(lambda: bool(peer.failures))
    assert peer.contents() == ["one"]
    assert peer.failures[0].code == "transport_dead"


def test_a_bridge_of_another_log_is_refused(peers: Callable[..., Peer]) -> None:
    """Nothing is passed on between logs: a message about another one is an error that is told."""
    hub = Hub()
    peer = peers(SharedOptions(transport=hub.transport()))
    foreign = {"topic": peer.bridge.options.topic_name, "log": "another", "index": 1}
    with closing(hub.transport()) as other:
        other.send({**foreign, "topic": "another"})
        other.send(foreign)
        assert eventually(lambda: bool(peer.failures))
    assert [told.code for told in peer.failures] == ["foreign_log"]
    assert peer.events == []


def test_a_publisher_that_fails_ends_the_bridge(peers: Callable[..., Peer], alice: Memory) -> None:
    """What it raised is kept, and the position says what was published."""

    def failing(event: MemoryEvent) -> None:
        raise ValueError("full")

    with SharedBridge(alice, failing, kinds=("note",)) as bridge:
        index = alice.remember("one").index
        assert eventually(lambda: bridge.failure is not None)
        assert isinstance(bridge.failure, ValueError)
        assert bridge.position == index - 1


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"transport": 1}, "transport"),
        ({"filter": lambda event: True}, "filter"),
        ({"topic_name": ""}, "topic_name"),
        ({"bridge_name": " "}, "bridge_name"),
    ],
)
def test_options_that_cannot_be_are_refused(wrong: dict[str, Any], field: str) -> None:
    """At once, by their name."""
    with pytest.raises(InputError) as refused:
        SharedOptions(**wrong)
    assert refused.value.field == field


def in_process() -> tuple[Transport, Transport]:
    """Two ends of a hub."""
    hub = Hub()
    return hub.transport(), hub.transport()


def over_sockets() -> tuple[Transport, Transport]:
    """Two ends of a loopback connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = SocketTransport.connect(*server.getsockname()[:2])
        return one, SocketTransport(server.accept()[0])


@pytest.fixture(params=[in_process, over_sockets])
def ends(request: pytest.FixtureRequest) -> Iterator[tuple[Transport, Transport]]:
    """Two connected transports of each kind."""
    one, other = request.param()
    with closing(one), closing(other):
        yield one, other


def test_a_transport_carries_messages_in_order(ends: tuple[Transport, Transport]) -> None:
    """Both ways, and None when there was none in time."""
    one, other = ends
    for number in range(3):
        one.send({"n": number, "text": "日本"})
    assert [other.receive(30) for _ in range(3)] == [{"n": n, "text": "日本"} for n in range(3)]
    assert other.receive(0.01) is None
    other.send({"back": True})
    assert one.receive(30) == {"back": True}


def test_a_closed_transport_says_so(ends: tuple[Transport, Transport]) -> None:
    """Sending and receiving are errors from then on; a ``receive`` that waits ends."""
    one, _ = ends
    told: list[MemorialeError] = []

    def wait() -> None:
        try:
            one.receive(60)
        except MemorialeError as error:
            told.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    one.close()
    one.close()
    waiting.join(30)
    assert not waiting.is_alive()
    with pytest.raises(UnavailableError):
        one.send({})
    with pytest.raises(UnavailableError):
        one.receive(1)


@pytest.mark.parametrize(
    "raw",
    [b"{\n", b"[]\n", b"\xff\n", b"1\n", b"[" * 5_000 + b"\n", b"x" * (MAX_MESSAGE + 2)],
    ids=["cut", "list", "no text", "number", "deep", "long"],
)
def test_what_is_no_message_is_refused_and_the_next_one_read(raw: bytes) -> None:
    """Nonsense of a peer is an error of the input; the connection goes on."""
    left, right = socket.socketpair()
    with left, closing(SocketTransport(right)) as transport:
        sending = threading.Thread(target=left.sendall, args=[raw + b'\n{"good": 1}\n'])
        sending.start()
        with pytest.raises(InputError) as refused:
            transport.receive(30)
        assert refused.value.code == "bad_message"
        found: Message | None = None
        while found is None:
            try:
                found = transport.receive(30)
            except InputError:
                continue
        assert found == {"good": 1}
        sending.join(30)


def test_a_peer_that_leaves_is_a_dead_transport() -> None:
    """The end of the connection is told as such."""
    left, right = socket.socketpair()
    left.close()
    with closing(SocketTransport(right)) as transport, pytest.raises(UnavailableError) as dead:
        transport.receive(30)
    assert dead.value.code == "transport_dead"
