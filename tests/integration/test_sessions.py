"""Sessions: threads, odd messages, anonymous callers, branches, wrong input."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import pytest
from pydantic import JsonValue

from memoriale.adapters.application import conversations
from memoriale.adapters.library.stores.sessions import SessionManager
from memoriale.adapters.postgres.slice_ends import newest_rows
from memoriale.domain.chat import ChatMessage
from memoriale.domain.errors import InputError, MissingRightError, RefusedError
from memoriale.domain.record import Row
from tests.fixtures.rooms import Room, answer, calling, said, told

Part = dict[str, JsonValue]


def test_threads_lose_no_message_and_keep_their_order(room: Room) -> None:
    """Several threads add to one session: each one's messages stand in order, none is missing."""
    managers = [room.manager(user="alice", max_messages=7) for _ in range(4)]
    managers[0].get_or_create_session("s")
    out: list[ChatMessage] = []

    def speak(who: int) -> None:
        for n in range(0, 20, 2):
            out.extend(managers[who].append_messages("s", said(f"{who} {n}", f"{who} {n + 1}")))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(speak, range(4)))
    everything = told(room.manager(user="alice", max_messages=1000).get_history("s"))
    for who in range(4):
        own = [text for text in everything if text.startswith(f"{who} ")]
        assert own == [f"{who} {n}" for n in range(20)]
    assert len(everything) == 80
    window = told(managers[0].get_history("s"))
    assert window == everything[-7:]
    assert sorted(told(out)) == sorted(everything[:-7])


def test_threads_lose_no_state_and_open_once(room: Room) -> None:
    """Patches of several threads to one session are all in its state, and it is opened once."""
    managers = [room.manager(user="alice") for _ in range(4)]

    def patch(who: int) -> None:
        managers[who].get_or_create_session("s")
        for n in range(5):
            managers[who].update_state("s", {f"{who}-{n}": n})

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(patch, range(4)))
    session = managers[0].get_session("s")
    assert session is not None
    assert len(session.state) == 20
    opened = [e for e in _events(room, "s") if e == "session.opened"]
    assert opened == ["session.opened"]


def test_two_users_who_open_one_id_at_once(room: Room) -> None:
    """One of them gets the session, the other is refused."""

    def open_for(user: str) -> str:
        try:
            return str(room.manager(user=user).get_or_create_session("s").user_id)
        except RefusedError:
            return "refused"

    with ThreadPoolExecutor(4) as pool:
        got = sorted(pool.map(open_for, ["alice", "bob"] * 4))
    assert got in (["alice"] * 4 + ["refused"] * 4, ["bob"] * 4 + ["refused"] * 4)


def test_every_message_comes_back_as_it_was_given(room: Room) -> None:
    """Images, calls, empty texts and names come back exactly, in their order."""
    image: Part = {"type": "image", "data": "A" * 300_000, "media_type": "image/png"}
    turns = [
        ChatMessage(role="system", content="Be kind."),
        ChatMessage(role="user", content=({"type": "text", "text": "See"}, image), name="Ann"),
        ChatMessage(role="user", content=(image,)),
        calling("1"),
        ChatMessage(role="assistant", content="", tool_calls=calling("2").tool_calls),
        answer("1"),
        answer("2"),
        ChatMessage(role="assistant", content=None),
        ChatMessage(role="assistant", content=" \n"),
        ChatMessage(role="user", content="二、\n```x``` </memory>"),
    ]
    manager = room.manager(user="alice", session="s")
    manager.get_or_create_session()
    assert manager.append_messages(None, [turn.model_dump() for turn in turns]) == []
    assert manager.get_history() == turns


def test_anonymous_sessions(room: Room) -> None:
    """Whoever knows its id uses an anonymous session; what a user says in it is for that one."""
    nobody = room.manager()
    assert nobody.get_or_create_session("s").user_id is None
    nobody.append_messages("s", said("hello"))
    alice, bob = room.manager(user="alice"), room.manager(user="bob")
    alice.append_messages("s", said("I am Alice"))
    assert told(alice.get_history("s")) == ["hello", "I am Alice"]
    assert told(bob.get_history("s")) == ["hello"]
    assert told(nobody.get_history("s")) == ["hello"]


def test_a_service_acts_for_the_sessions_user(room: Room) -> None:
    """A handle of no user adds to a user's session as that user, with the right operate alone."""
    service = room.manager(agent="desk")
    assert service.get_or_create_session("s", "alice").user_id == "alice"
    service.append_messages("s", said("hi"))
    service.update_state("s", {"step": 1})
    assert told(room.manager(user="alice").get_history("s")) == ["hi"]
    plain = room.manager(agent="desk", rights=["use"])
    assert plain.get_session("s") is None
    with pytest.raises(InputError, match="no session"):
        plain.append_messages("s", said("x"))


def test_state_is_merged_at_the_top_level(room: Room) -> None:
    """A patch replaces keys whole, None is a value, and what changes nothing stores nothing."""
    manager = room.manager(user="alice")
    manager.get_or_create_session("s")
    manager.update_state("s", {"a": {"x": 1}, "b": 2})
    assert manager.update_state("s", {"a": {"y": 1}, "c": None}) == {
        "a": {"y": 1},
        "b": 2,
        "c": None,
    }
    stored = len(_events(room, "s"))
    manager.update_state("s", {"b": 2})
    assert len(_events(room, "s")) == stored
    for wrong in ([1], {"a": float("nan")}, {"a": "x" * 70_000}, {1: 2}):
        with pytest.raises(InputError, match="patch"):
            manager.update_state("s", wrong)  # type: ignore[arg-type]
    before = manager.get_session("s", as_of=_index(room))
    manager.update_state("s", {"d": 1})
    assert before is not None
    assert before.state == {"a": {"y": 1}, "b": 2, "c": None}


def test_repeats_and_wrong_input(room: Room) -> None:
    """A key makes a repeat harmless and answers the same; a wrong message stores none of them."""
    manager = room.manager(user="alice", max_messages=2)
    manager.get_or_create_session("s")
    manager.append_messages("s", said("a", "b"))
    out = [manager.append_messages("s", said("c"), idempotency_key="k") for _ in range(2)]
    manager.append_messages("s", said("d"))
    out.append(manager.append_messages("s", said("c"), idempotency_key="k"))
    assert [told(one) for one in out] == [["a"]] * 3
    with pytest.raises(InputError) as refused:
        manager.append_messages("s", [*said("fine"), {"role": "robot", "content": "x"}])
    assert refused.value.field == "messages[1].role"
    with pytest.raises(InputError) as refused:
        manager.append_messages("s", [*said("fine"), {"role": "user", "content": "\x00"}])
    assert refused.value.field == "messages[1].content"
    assert told(manager.get_history("s")) == ["c", "d"]
    for call in (
        lambda: manager.get_history("s", 0),
        lambda: manager.get_history("unheard"),
        lambda: room.manager(user="alice").get_history(),
        lambda: room.manager(user="alice", max_messages=0),
        lambda: room.manager(user="alice", max_tokens=0),
    ):
        with pytest.raises(InputError):
            call()


def test_history_on_branches_and_as_of(room: Room) -> None:
    """A branch goes on from the history at its fork; the past is as it was."""
    manager = room.manager(user="alice")
    manager.get_or_create_session("s")
    manager.append_messages("s", said("a"))
    manager.update_state("s", {"on": "main"})
    index = _index(room)
    manager.append_messages("s", said("b"))
    room.ledger.memory(tenant=room.tenant).fork("what-if", at=index)
    branch = SessionManager(manager.storage.branch("what-if"))
    branch.append_messages("s", said("c"))
    branch.update_state("s", {"on": "branch"})
    branch.get_or_create_session("only here")
    assert told(branch.get_history("s")) == ["a", "c"]
    assert told(manager.get_history("s")) == ["a", "b"]
    assert told(manager.get_history("s", as_of=index)) == ["a"]
    session = manager.get_session("s")
    assert session is not None
    assert session.state == {"on": "main"}
    assert manager.get_session("only here") is None
    with pytest.raises(RefusedError):
        room.manager(user="bob").get_or_create_session("only here")


def test_what_was_told_is_on_record(room: Room) -> None:
    """The messages that a caller was given stand in the access log."""
    manager = room.manager(user="alice", session="s")
    manager.get_or_create_session()
    manager.append_messages(None, said("a", "b"))
    manager.get_history()
    (record,) = manager.storage.list(limit=1).memories
    seen = room.ledger.access.who_saw(record.memory_id, tenant=room.tenant)
    assert "session.history" in {access.command for access in seen}


def test_a_long_history_is_read_from_its_end(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a session is, its history reads little more than it shows."""
    manager = room.manager(user="alice")
    manager.get_or_create_session("s")
    for start in range(0, 2_000, 500):
        manager.append_messages("s", said(*(f"m{n}" for n in range(start, start + 500))))
    read: list[int] = []

    def counted(*args: Any, **given: Any) -> list[Row]:
        rows = newest_rows(*args, **given)
        read.append(len(rows))
        return rows

    monkeypatch.setattr(conversations, "newest_rows", counted)
    assert told(manager.get_history("s")) == [f"m{n}" for n in range(1_950, 2_000)]
    assert sum(read) < 100


def _events(room: Room, session: str) -> list[str]:
    log = room.manager().storage.services.log
    known = room.manager().storage.services.conversations.find(
        session, room.manager().storage.branch_view()
    )
    assert known is not None
    owner: UUID = known.owner.pseudonym
    return [row.columns.topic for row in log.reader.slice(owner, "session")]


def _index(room: Room) -> int:
    return room.manager().storage.services.log.head() - 1


def test_a_users_sessions_are_listed(room: Room) -> None:
    """Those opened for the user, the last opened first, page by page and as of then; neither
    others' nor anonymous ones."""
    alice, bob = room.manager(user="alice"), room.manager(user="bob")
    for n in range(3):
        alice.get_or_create_session(f"s/{n}")
    bob.get_or_create_session("bob's")
    room.manager().get_or_create_session("anonymous")
    index = _index(room)
    alice.update_state("s/0", {"step": 1})
    alice.get_or_create_session("s/3")
    listed = alice.list_sessions()
    assert [entry.session_id for entry in listed] == ["s/3", "s/2", "s/1", "s/0"]
    assert [entry.state for entry in listed] == [{}, {}, {}, {"step": 1}]
    assert {entry.user_id for entry in listed} == {"alice"}
    assert [e.session_id for e in alice.list_sessions(limit=2, before=listed[1].index)] == [
        "s/1",
        "s/0",
    ]
    then = alice.list_sessions(as_of=index)
    assert [(entry.session_id, entry.state) for entry in then] == [
        ("s/2", {}),
        ("s/1", {}),
        ("s/0", {}),
    ]
    assert [entry.session_id for entry in bob.list_sessions()] == ["bob's"]
    assert room.manager(user="carol").list_sessions() == []
    assert [e.session_id for e in room.manager().list_sessions("bob")] == ["bob's"]
    with pytest.raises(MissingRightError):
        room.manager(rights=["use"]).list_sessions("bob")
    for limit, before in ((0, None), (1001, None), (1, -1)):
        with pytest.raises(InputError):
            alice.list_sessions(limit=limit, before=before)
    with pytest.raises(InputError, match="user_id"):
        room.manager().list_sessions()


def test_many_sessions_are_listed_in_pages(room: Room) -> None:
    """A list reads on until it is full, whatever other branches hold in between."""
    alice = room.manager(user="alice")
    alice.get_or_create_session("first")
    branch = SessionManager(alice.storage.fork("side"))
    for n in range(40):
        branch.get_or_create_session(f"side {n}")
    assert [entry.session_id for entry in alice.list_sessions()] == ["first"]
    everything = [entry.session_id for entry in branch.list_sessions()]
    assert everything == [*(f"side {n}" for n in reversed(range(40))), "first"]
    assert [e.session_id for e in branch.list_sessions(limit=3)] == everything[:3]


def test_a_users_own_sessions_go_on_on_the_users_branch(room: Room) -> None:
    """On a branch that a user forked, that user's sessions go on: messages, state, new sessions
    and summaries; recall and lists of the branch see them, those of main do not."""
    manager = room.manager(user="alice", session="s")
    manager.get_or_create_session()
    manager.append_messages(None, said("tea on main"))
    handle = manager.storage.fork("mine")
    branch = handle.sessions
    branch.append_messages(None, said("coffee on the branch"))
    branch.update_state(None, {"on": "branch"})
    branch.get_or_create_session("new")
    branch.append_messages("new", said("a new talk"))
    summary = handle.summaries.summarize("s", branch.get_history())
    assert summary is not None
    assert told(branch.get_history()) == ["tea on main", "coffee on the branch"]
    assert [e.session_id for e in branch.list_sessions()] == ["new", "s"]
    found = {hit.content for hit in handle.recall("coffee", kinds=["message"])}
    assert "coffee on the branch" in found
    listed = {memory.content for memory in handle.list().memories}
    assert {"tea on main", "coffee on the branch"} <= listed
    (message, *_) = (m for m in handle.list().memories if m.content == "coffee on the branch")
    handle.correct(message.memory_id, "cocoa on the branch")
    assert told(branch.get_history())[-1] == "cocoa on the branch"
    assert told(manager.get_history()) == ["tea on main"]
    assert {memory.content for memory in manager.storage.list().memories} == {"tea on main"}


def test_other_sessions_stay_off_a_users_branch(room: Room) -> None:
    """On a user's branch nothing is stored in a session of somebody else's, nor another user's
    words in an anonymous one, nor anything of an agent's."""
    room.manager(user="bob", session="bob's").get_or_create_session()
    alice = room.ledger.memory(tenant=room.tenant, user="alice", session="bob's", agent="desk")
    branch = alice.fork("mine")
    head = _index(room)
    for owner in ("session", "agent"):
        with pytest.raises(RefusedError) as refused:
            branch.remember("x", kind="note", owner=owner)
        assert refused.value.code == "wrong_branch"
    with pytest.raises(InputError, match="no session"):
        branch.sessions.append_messages("bob's", said("x"))
    with pytest.raises(RefusedError):
        branch.sessions.get_or_create_session("bob's")
    assert _index(room) == head
    nobody = room.manager(session="open")
    nobody.get_or_create_session()
    bob = room.ledger.memory(tenant=room.tenant, user="bob", session="open")
    theirs = bob.remember("bob's words", kind="note", owner="session", visibility="tenant")
    mine = room.ledger.memory(tenant=room.tenant, user="alice", session="open").fork("open too")
    mine.remember("my words", kind="note", owner="session")
    with pytest.raises(RefusedError) as refused:
        mine.correct(theirs.memory_id, "changed")
    assert refused.value.code == "wrong_branch"
