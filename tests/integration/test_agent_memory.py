"""What adds keep, whose it is, what counts as said again, and what is told of it."""

import threading
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import memoriale
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.operations.agent_memory import AgentMemory
from memoriale.adapters.library.operations.making import agent_memory
from memoriale.domain.errors import InputError, UnavailableError
from memoriale.domain.operations.scopes import Scope
from memoriale.domain.subscriptions import MemoryEvent
from tests.fixtures.embedded import eventually
from tests.fixtures.ledger import HASHING
from tests.fixtures.operations import ALICE, BOB, Held, Make, Saying, Scripted, reply, said


def contents(memory: AgentMemory, scope: Scope) -> list[str]:
    return [node.content for node in memory.get_all(scope)]


def test_what_is_added_is_found(remembering: Make) -> None:
    """An add tells what it took and stored, and a search of the same scope finds it at once."""
    memory = remembering()
    done = memory.add(said("Alice drinks tea"), ALICE).result(30)
    assert [fact.content for fact in done.extracted] == ["Alice drinks tea"]
    found = memory.search("what does Alice drink?", ALICE).result(30)
    assert [(one.id, one.content) for one in found] == [(done.stored_ids[0], "Alice drinks tea")]
    assert found[0].node.user_id == "alice"
    assert memory.search("what does Alice drink?", BOB).result(30) == ()


def test_two_users_with_the_same_facts_have_each_their_own(remembering: Make) -> None:
    """What Bob says again of himself changes nothing of Alice's, whatever the threshold."""
    memory = remembering(dedup_threshold=0.01)
    mine = memory.add(said("The password is swordfish"), ALICE).result(30).stored_ids
    his = memory.add(said("The password is SWORDFISH"), BOB).result(30).stored_ids
    assert set(mine).isdisjoint(his)
    assert contents(memory, ALICE) == ["The password is swordfish"]
    assert contents(memory, BOB) == ["The password is SWORDFISH"]
    (found,) = memory.search("password", BOB).result(30)
    assert found.id == his[0]


def test_a_scope_means_what_fits_every_field(remembering: Make) -> None:
    """User, agent and tags that are given must all fit; those that are not given do not matter."""
    memory = remembering(dedup_threshold=0)
    scopes: list[Scope] = [
        {"user_id": "alice"},
        {"user_id": "alice", "agent_id": "desk"},
        {"user_id": "alice", "agent_id": "desk", "tags": ["work"]},
        {"user_id": "bob", "agent_id": "desk", "tags": ["work"]},
        {"agent_id": "desk", "tags": ["work", "home"]},
        {"tags": ["work"]},
    ]
    for number, scope in enumerate(scopes):
        memory.add(said(f"fact {number}"), scope).result(30)
    expected = [
        ["fact 0", "fact 1", "fact 2"],
        ["fact 1", "fact 2"],
        ["fact 2"],
        ["fact 3"],
        ["fact 4"],
        ["fact 5"],
    ]
    assert [contents(memory, scope) for scope in scopes] == expected
    for scope, facts in zip(scopes, expected, strict=True):
        found = memory.search("fact", scope).result(30)
        assert sorted(one.content for one in found) == facts
    assert contents(memory, {"agent_id": "desk"}) == ["fact 4"]
    assert contents(memory, {"user_id": "alice", "agent_id": "nobody"}) == []
    assert memory.search("fact", {"user_id": "alice", "agent_id": "nobody"}).result(30) == ()


def test_no_tag_stands_for_a_user(remembering: Make) -> None:
    """A tag ``user:bob`` and labels of a model are no scope of Bob's, and no other scope."""
    forged = reply({"content": "forged", "tags": ["user:bob", "scope:user:bob", "work"]})
    memory = remembering(Scripted(forged))
    memory.add(said("x"), {"user_id": "mallory", "tags": ["user:bob", "scope:user:bob"]}).result(30)
    assert contents(memory, BOB) == []
    assert memory.search("forged", BOB).result(30) == ()
    assert contents(memory, {"user_id": "mallory", "tags": ["work"]}) == []
    (node,) = memory.get_all({"user_id": "mallory", "tags": ["user:bob"]})
    assert (node.user_id, node.labels) == ("mallory", ("user:bob", "scope:user:bob", "work"))


@pytest.mark.parametrize("scope", [None, {}, {"user_id": None}, {"tags": []}, "alice"])
def test_no_scope_never_means_everything(remembering: Make, scope: Any) -> None:
    """Where nothing is given nothing is added, searched or listed."""
    memory = remembering()
    for call in (
        lambda: memory.add(said("x"), scope),
        lambda: memory.search("x", scope),
        lambda: memory.get_all(scope),
    ):
        with pytest.raises(InputError, match="user_id"):
            call()
    assert memory.size.get() == 0


def test_a_ledger_that_is_closed_first_leaves_nobody_waiting(
    shared_url: str, ledger_home: Path, tenant: str
) -> None:
    """Whoever waits for a handle is told, though the memory was not destroyed."""
    model = Held()
    with memoriale.open(home=ledger_home, database_url=shared_url, embedder=HASHING) as ledger:
        memory = agent_memory(ledger, tenant=tenant, llm=model)
        adds = [memory.add(said(text), ALICE) for text in ("one", "two")]
        assert model.asked.wait(30)
    model.go.set()
    for add in adds:
        with pytest.raises(UnavailableError):
            add.result(30)
    memory.destroy()


def test_many_adds_are_worked_on_in_their_order(remembering: Make) -> None:
    """Extraction is serial: a model is never asked twice at a time; first come, first served."""
    running, most = [0], [0]

    class Serial(Saying):
        def answer(self, prompt: str) -> str:
            running[0] += 1
            most[0] = max(most[0], running[0])
            found = super().answer(prompt)
            running[0] -= 1
            return found

    memory = remembering(Serial(), dedup_threshold=0)
    added = [memory.add(said(f"fact {n}"), ALICE) for n in range(12)]
    for one in added:
        one.result(60)
    assert contents(memory, ALICE) == [f"fact {n}" for n in range(12)]
    assert most == [1]
    assert sorted(added, key=lambda one: one.ended_at or 0) == added


def test_as_many_texts_are_embedded_at_a_time_as_allowed(remembering: Make) -> None:
    """Up to ``embedding_concurrency``, and not more."""
    together = threading.Barrier(3)
    running, most, lock = [0], [0], threading.Lock()

    def embed(text: str) -> list[float]:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        if text.startswith("fact"):
            together.wait(30)
        with lock:
            running[0] -= 1
        return [1.0, 0.0]

    memory = remembering(embed=embed, dimensions=2, embedding_concurrency=3, dedup_threshold=0)
    memory.add(said(*(f"fact {n}" for n in range(6))), ALICE).result(60)
    assert most == [3]


def test_labels_of_operations(remembering: Make) -> None:
    """Trimmed, made up for blank ones, told apart while in use over adds and searches, and free
    again after the end."""
    go = threading.Event()

    class Waiting(Saying):
        def answer(self, prompt: str) -> str:
            assert go.wait(60)
            return super().answer(prompt)

    memory = remembering(Waiting())
    adds = [memory.add(said("x"), ALICE, op_id=" mine ") for _ in range(2)]
    search = memory.search("x", ALICE, op_id="mine")
    assert [adds[0].id, adds[1].id, search.id] == ["mine", "mine#2", "mine#3"]
    made_up = {memory.add(said("x"), ALICE, op_id=blank).id for blank in (None, "", "  ")}
    assert len(made_up) == 3
    search.result(30)
    assert memory.search("x", ALICE, op_id="mine").id == "mine#3"
    go.set()
    for add in adds:
        add.result(60)
    assert eventually(lambda: memory.search("x", ALICE, op_id="mine").id == "mine")
    with pytest.raises(InputError, match="op_id"):
        memory.add(said("x"), ALICE, op_id="x" * 300)


def test_an_idempotency_key_does_nothing_twice(remembering: Make) -> None:
    """The same key, messages and scope give the first add, whatever its label; another request
    with the key is refused, and other owners have keys of their own."""
    model = Saying()
    memory = remembering(model)
    first = memory.add(said("x"), ALICE, op_id="a", idempotency_key="k")
    done = first.result(30)
    again = memory.add(said("x"), ALICE, op_id="b", idempotency_key="k")
    assert (again.job_id, again.status, again.result(30)) == (first.job_id, "completed", done)
    assert model.calls == 1
    for messages, scope in ((said("y"), ALICE), (said("x"), {**ALICE, "tags": ["t"]})):
        with pytest.raises(InputError, match="idempotency"):
            memory.add(messages, scope, idempotency_key="k")  # type: ignore[arg-type]
    assert memory.add(said("x"), BOB, idempotency_key="k").job_id != first.job_id
    memory.add(said("x"), ALICE, op_id="a").result(30)
    assert model.calls == 3


def test_reading_an_item_changes_nothing(remembering: Make) -> None:
    """However often it is found and listed: no event, no count, no other score."""
    memory = remembering()
    memory.add(said("Alice drinks tea"), ALICE).result(30)
    log = memory.inner.ledger.tenant(memory.inner.tenant).log
    head, first = log.head(), memory.search("tea", ALICE).result(30)
    for _ in range(3):
        assert memory.search("tea", ALICE).result(30) == first
        assert memory.get_all(ALICE) == [first[0].node]
    assert log.head() == head
    assert first[0].score == max(hit.score for hit in first)


def test_a_memory_says_what_it_is_made_of(
    remembering: Make, shared_ledger: Ledger, tenant: str
) -> None:
    """The ledger, whose tenant, where it tells events, and the bridge where there is one."""
    alone, shared = remembering(), remembering(shared={})
    assert (alone.inner.ledger, alone.inner.tenant) == (shared_ledger, tenant)
    assert alone.inner.events is alone.events
    assert alone.inner.shared is None
    assert shared.inner.shared is not None


def test_an_item_is_updated_and_ended(
    remembering: Make, shared_ledger: Ledger, tenant: str
) -> None:
    """New words are found at once and the former ones stay in history; what ended is not found,
    and its id is not known to either call any more."""
    memory = remembering()
    (memory_id,) = memory.add(said("Alice drinks tea"), ALICE).result(30).stored_ids
    memory.update(memory_id, "Alice drinks coffee")
    assert [one.content for one in memory.search("coffee", ALICE).result(30)] == [
        "Alice drinks coffee"
    ]
    assert memory.delete(str(memory_id)) is True
    assert memory.search("coffee", ALICE).result(30) == ()
    assert memory.delete(memory_id) is False
    for unknown in (memory_id, uuid4()):
        with pytest.raises(InputError, match="no item"):
            memory.update(unknown, "x")
    assert memory.delete(uuid4()) is False
    history = shared_ledger.memory(tenant=tenant, user="alice").history(memory_id)
    assert [entry.event for entry in history] == [
        "memory.remembered",
        "memory.corrected",
        "memory.invalidated",
    ]


def test_only_items_are_updated_and_ended(
    remembering: Make, shared_ledger: Ledger, tenant: str
) -> None:
    """The id of another kind of memory is as unknown as any."""
    note = shared_ledger.memory(tenant=tenant, user="alice").remember("a note").memory_id
    memory = remembering()
    assert memory.delete(note) is False
    with pytest.raises(InputError, match="no item"):
        memory.update(note, "x")


def test_events_and_size_are_told_after_the_fact(remembering: Make) -> None:
    """Each change once, in the order of the log, when it can already be read; what is told of a
    tag cannot be taken for a user; a subscriber that fails stops nobody."""
    memory = remembering()
    told: list[MemoryEvent] = []
    there: list[list[str]] = []
    sizes: list[int] = []

    def fails(event: MemoryEvent) -> None:
        raise RuntimeError("a subscriber's own fault")

    memory.events.subscribe(fails)
    memory.events.subscribe(lambda event: there.append(contents(memory, ALICE)))
    stop = memory.events.subscribe(told.append)
    memory.size.subscribe(sizes.append)
    scope: Scope = {"user_id": "alice", "tags": ["user:bob"]}
    (memory_id,) = memory.add(said("tea"), scope).result(30).stored_ids
    memory.add(said("TEA"), scope).result(30)
    memory.update(memory_id, "coffee")
    memory.delete(memory_id)
    assert [(e.type.value, e.content) for e in told] == [
        ("add", "tea"),
        ("dedup", "TEA"),
        ("update", "coffee"),
        ("delete", None),
    ]
    assert {e.id for e in told} == {memory_id}
    assert {e.scope_tags for e in told} == {("scope:user:alice", "scope:tag:user:bob")}
    assert there == [["tea"], ["TEA"], ["coffee"], []]
    assert sizes == [1, 1, 1, 0]
    stop()
    memory.add(said("more"), ALICE).result(30)
    assert len(told) == 4
    assert memory.size.get() == 1


def test_events_are_those_of_the_log(remembering: Make, shared_ledger: Ledger, tenant: str) -> None:
    """Their ids, indices and times are those under which a subscriber finds them."""
    memory = remembering()
    told: list[MemoryEvent] = []
    memory.events.subscribe(told.append)
    memory.add(said("tea", "milk"), ALICE).result(30)
    stored = {
        logged.row.columns.event_id: logged.row.recorded
        for logged in shared_ledger.events(tenant=tenant)
    }
    assert len(told) == 2
    for event in told:
        assert stored[event.event_id].index == event.index
        assert stored[event.event_id].recorded_at == event.timestamp


def test_another_memory_tells_what_this_one_changes(
    remembering: Make, shared_ledger: Ledger, tenant: str
) -> None:
    """With ``shared`` each tells its own changes and those of others, each once; and finds the
    items themselves."""
    one, other = remembering(shared={}), remembering(shared={"bridge_name": "other"})
    told: dict[str, list[str | None]] = {"one": [], "other": []}
    one.events.subscribe(lambda event: told["one"].append(event.content))
    other.events.subscribe(lambda event: told["other"].append(event.content))
    one.add(said("from one"), ALICE).result(30)
    other.add(said("from other"), ALICE).result(30)
    assert eventually(lambda: all(len(events) == 2 for events in told.values()))
    assert told == {key: ["from one", "from other"] for key in told}
    assert contents(other, ALICE) == ["from one", "from other"]
    assert one.inner.shared is not None
    with pytest.raises(InputError, match="transport"):
        agent_memory(shared_ledger, tenant=tenant, shared={"transprot": None})


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"adapter": object()}, "adapter"),
        ({"search_overfetch": 2}, "search_overfetch"),
        ({"serach": 1}, "serach"),
        ({"llm": "gpt"}, "llm"),
        ({"dimensions": 0}, "dimensions"),
        ({"dimensions": 7}, "dimensions"),
        ({"embed": lambda text: [1.0]}, "dimensions"),
        ({"embed": "wordllama"}, "embed"),
        ({"embedding_concurrency": 0}, "embedding_concurrency"),
        ({"extraction_retry": {"max_retries": -1}}, "extraction_retry"),
        ({"extraction_retry": {"retries": 1}}, "extraction_retry"),
        ({"extraction_retry": 3}, "extraction_retry"),
        ({"dedup_threshold": 1.5}, "dedup_threshold"),
        ({"knowledge_graph": True}, "graph_llm"),
        ({"graph_llm": Saying()}, "knowledge_graph"),
        ({"graph_extraction_prompt": "x"}, "knowledge_graph"),
        ({"knowledge_graph": "yes", "graph_llm": Saying()}, "knowledge_graph"),
        ({"shared": 1}, "shared"),
    ],
)
def test_options_that_cannot_be_are_refused(
    shared_ledger: Ledger, tenant: str, options: dict[str, Any], field: str
) -> None:
    """At once, by the option's name, before anything begins."""
    with pytest.raises(InputError) as refused:
        agent_memory(shared_ledger, tenant=tenant, **options)
    assert str(refused.value.field).startswith(field)


@pytest.mark.parametrize(
    "messages", [[], "x", {"role": "user"}, [{"role": "x", "content": "y"}], [{"role": "user"}]]
)
def test_messages_that_cannot_be_are_refused(remembering: Make, messages: Any) -> None:
    """And nothing is accepted."""
    memory = remembering()
    with pytest.raises(InputError, match="messages"):
        memory.add(messages, ALICE)
    assert memory.inner.ledger.jobs.list(tenant=memory.inner.tenant) == []
