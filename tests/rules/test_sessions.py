"""The rules of sessions and their history, and the behaviour that breaks each."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from memoriale.adapters.application.conversations import Conversations
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.stores import sessions as surface
from memoriale.adapters.library.stores.sessions import SessionManager
from memoriale.domain import sessions
from memoriale.domain.chat import ChatMessage
from memoriale.domain.errors import InputError, RefusedError
from memoriale.domain.stores import sessions as rules
from tests.fixtures.rooms import Room, answer, calling, said, told
from tests.rules.planting import Planted

ODD_IDS = ("s:1", "s:1:2", "s%", "s_", "s/../x", "a session", "会话 一", "%", "S:1")


def history_belongs_to_its_user(room: Room) -> None:
    """A session that was opened for one user is another's in no way, and is not told of."""
    alice, bob = room.manager(user="alice"), room.manager(user="bob")
    alice.get_or_create_session("s:1")
    alice.append_messages("s:1", said("secret"))
    refused = 0
    for stranger in (bob, room.manager(user="bob", session="s:1")):
        assert stranger.get_session("s:1") is None
        calls: list[Callable[[], object]] = [
            partial(stranger.get_history, "s:1"),
            partial(stranger.append_messages, "s:1", said("x")),
            partial(stranger.update_state, "s:1", {"a": 1}),
        ]
        for call in calls:
            try:
                call()
            except InputError as error:
                refused += error.message == sessions.unknown_session("s:1").message
    assert refused == 6
    try:
        bob.get_or_create_session("s:1")
    except RefusedError as error:
        refused += "alice" not in error.message
    assert refused == 7
    assert told(alice.get_history("s:1")) == ["secret"]


def history_falls_out_once(room: Room) -> None:
    """What is in the history no more was returned once, in order; the ledger keeps all of it."""
    manager = room.manager(user="alice", max_messages=3)
    manager.get_or_create_session("s")
    out: list[str] = []
    texts = [f"m{n}" for n in range(12)]
    for start, stop in ((0, 2), (2, 3), (3, 4), (4, 10), (10, 12)):
        out += told(manager.append_messages("s", said(*texts[start:stop])))
    assert told(manager.get_history("s")) == texts[9:]
    assert out == texts[:9]
    kept = room.ledger.memory(tenant=room.tenant, user="alice", session="s").list(limit=50)
    assert sorted(str(record.content) for record in kept.memories) == sorted(texts)


def history_tokens(room: Room) -> None:
    """The oldest turns go when the history would take more tokens than it may."""
    manager = room.manager(user="alice", max_tokens=40)
    manager.get_or_create_session("s")
    out = [told(manager.append_messages("s", said("x" * 30 + str(n)))) for n in range(4)]
    assert told(manager.get_history("s")) == ["x" * 30 + "2", "x" * 30 + "3"]
    assert out == [[], [], ["x" * 30 + "0"], ["x" * 30 + "1"]]


def history_keeps_calls_with_answers(room: Room) -> None:
    """No call is shown without its answer and no answer without its call, for any length."""
    manager = room.manager(user="alice")
    manager.get_or_create_session("s")
    turns = [
        *said("a"),
        calling("1", "2"),
        answer("1"),
        answer("2"),
        *said("b"),
        calling("1"),
        answer("1"),
        answer(None),
        *said("c"),
    ]
    manager.append_messages("s", turns)
    for limit in range(1, len(turns) + 1):
        shown = manager.get_history("s", limit)
        first = turns.index(shown[0]) if len(shown) == limit else None
        assert shown[0].role != "tool", limit
        assert shown == [t for t in shown if t.role != "tool"] or any(t.tool_calls for t in shown)
        assert first is None or shown == turns[-limit:]
    assert told(manager.get_history("s", 2)) == ["c"]
    assert [t.role for t in manager.get_history("s", 4)] == ["assistant", "tool", "tool", "user"]
    small = room.manager(user="alice", max_messages=3)
    small.get_or_create_session("t")
    out = [small.append_messages("t", [turn]) for turn in turns]
    assert [t for batch in out for t in batch] == turns[: len(turns) - 1]
    assert small.get_history("t") == turns[-1:]


def history_of_exactly_one_session(room: Room) -> None:
    """A session's messages and state are those of its exact id."""
    manager = room.manager(user="alice")
    for name in ODD_IDS:
        manager.get_or_create_session(name)
        manager.append_messages(name, said(f"in {name}"))
        manager.update_state(name, {"name": name})
    for name in ODD_IDS:
        session = manager.get_session(name)
        assert session is not None
        assert (told(session.messages), session.state) == ([f"in {name}"], {"name": name})


RULES: dict[str, Callable[[Room], None]] = {
    rule.__name__: rule
    for rule in (
        history_belongs_to_its_user,
        history_falls_out_once,
        history_tokens,
        history_keeps_calls_with_answers,
        history_of_exactly_one_session,
    )
}


def for_anybody(store: SessionManager, memory: Memory, known: Any) -> Memory:
    """As the reference, which hands an existing session to whatever user asks for it."""
    names = memory.services.log.identities.names([known.user])
    return memory.rebound(memory.principal.with_(user=names[known.user].id))


def without_the_new(window: rules.Window, turns: Sequence[ChatMessage], before: int) -> list[int]:
    """As a store that looks at what was there, and loses what an append pushes out of itself."""
    now = window.places(turns)
    return [place for place in window.places(turns[:before]) if place not in now]


def without_tokens(message: ChatMessage, counter: object) -> int:
    """As the reference, which counts messages alone."""
    return 0


def cut_anywhere(turns: Sequence[ChatMessage], start: int) -> list[int]:
    """As the reference, which splices at the number, between a call and its answer too."""
    return list(range(start, len(turns)))


_FIND = Conversations.find


def by_prefix(store: Conversations, session_id: str, *rest: Any) -> Any:
    """As a key-value store that takes an id for the beginning of others."""
    return _FIND(store, session_id.split(":")[0] + ":1" if ":" in session_id else session_id, *rest)


PLANTED = {
    "history_belongs_to_its_user": Planted(SessionManager, "_user_of", for_anybody),
    "history_falls_out_once": Planted(surface, "fallen_out", without_the_new),
    "history_tokens": Planted(surface, "turn_tokens", without_tokens),
    "history_keeps_calls_with_answers": Planted(rules, "answered", cut_anywhere),
    "history_of_exactly_one_session": Planted(Conversations, "find", by_prefix),
}


@pytest.mark.parametrize("name", RULES)
def test_rule(name: str, room: Room) -> None:
    """Each rule holds."""
    RULES[name](room)


@pytest.mark.parametrize("name", PLANTED)
def test_the_planted_behaviour_breaks_the_rule(
    name: str, room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the weak behaviour in its place each rule's check turns red."""
    PLANTED[name].put(monkeypatch)
    with pytest.raises(AssertionError):
        RULES[name](room)
