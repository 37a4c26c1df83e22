"""What ranks: words, conversation context, speakers and vectors of the visible rows alone."""

from collections.abc import Callable
from typing import Any

import pytest

from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.projections.recall import search
from memoriale.projections.recall.shelves import Shelves


def contents(hits: Any) -> list[str]:
    return [hit.content for hit in hits]


def talk(memory: Memory, *turns: tuple[str, str]) -> None:
    for speaker, text in turns:
        memory.remember(text, kind="message", speaker=speaker)


@pytest.fixture
def room(shared_ledger: Ledger, tenant: str) -> Memory:
    return shared_ledger.memory(tenant=tenant, resource="room", session="s1")


def test_a_turn_is_lifted_by_its_neighbours(shared_ledger: Ledger, tenant: str) -> None:
    """Of two turns with equal words the one amid talk about the question comes first."""
    first, second = (
        shared_ledger.memory(tenant=tenant, resource="room", session=name) for name in ("s1", "s2")
    )
    talk(first, ("A", "Nice weather"), ("B", "It was lovely"), ("A", "Goodbye then"))
    talk(second, ("A", "We saw the lighthouse"), ("B", "It was lovely"), ("A", "The lighthouse!"))
    everything = shared_ledger.memory(tenant=tenant, resource="room")
    found = everything.recall("was the lighthouse lovely", top_k=6)
    lovely = [hit.index for hit in found if hit.content == "It was lovely"]
    assert lovely == [4, 1]


def test_who_said_it_counts_when_the_question_names_them(room: Memory) -> None:
    """A name in the question lifts what that person said, and is no word to search for."""
    talk(room, ("Ann", "I like tea"), ("Bob", "I like tea too"), ("Ann", "Bob is late"))
    assert contents(room.recall("What does Bob like?", top_k=1)) == ["I like tea too"]
    assert contents(room.recall("What does Ann like?", top_k=1)) == ["I like tea"]


def test_a_long_text_is_found_by_one_of_its_passages(alice: Memory) -> None:
    """A word in the middle of a long text counts as in a short one of its kind."""
    filler = "This sentence is about something else entirely and goes on. " * 60
    alice.remember(f"{filler} The password is swordfish. {filler}")
    for number in range(5):
        alice.remember(f"A short note about passwords number {number}")
    assert "swordfish" in alice.recall("swordfish password", top_k=1)[0].content


@pytest.mark.parametrize(
    ("stored", "question"),
    [
        ("Der Hafenmeister kommt um acht", "Hafen"),
        ("Wir fahren nach Köln", "Koeln"),
        ("私は上海に行きます", "上海"),
        ("서울에서 만나요", "서울"),
        ("Он читал книги вечером", "книга"),
        ("Le café est fermé", "cafe"),
        ("מחר ניפגש בתחנה", "בתחנה"),
        ("سنلتقي غدا في المحطة", "المحطة"),
        ("See ERR_TLS_CERT in the log", "TLS"),
    ],
)
def test_keyword_recall_in_many_languages(stored: str, question: str, alice: Memory) -> None:
    """Compounds, inflections, accents and scripts without spaces are found among other texts."""
    for text in ("something else", "noch etwas anderes", "別の話です", "다른 이야기", "другое"):
        alice.remember(text)
    alice.remember(stored)
    assert contents(alice.recall(question, top_k=1)) == [stored]


def test_a_hit_explains_its_score(room: Memory) -> None:
    """With ``explain`` each hit tells its parts, what each counts and its place in each."""
    talk(room, ("Ann", "I like tea"), ("Bob", "Coffee for me"))
    hit = room.recall("Does Ann like tea?", explain=True)[0]
    assert hit.explanation is not None
    assert hit.explanation.parts["keyword"] == hit.explanation.parts["speaker"] == 1.0
    assert hit.explanation.ranks["keyword"] == 1
    assert room.recall("tea")[0].explanation is None


@pytest.mark.parametrize("count", [10_000])
def test_an_answer_as_of_a_point_is_pinned(
    count: int,
    as_user: Callable[[str], Memory],
    alice: Memory,
    shared_ledger: Ledger,
    tenant: str,
) -> None:
    """After 10,000 memories of others and 10,000 of the same owner, a rebuild and a compaction,
    the same question as of the same point gives the same ids, order and scores."""
    words = ("tea", "coffee", "harbour", "winter", "garden", "music", "ticket", "kitchen")
    for number in range(40):
        alice.remember(f"{words[number % 8]} and {words[number % 5]} number {number}")
    question = "winter tea in the harbour"
    index = alice.recall(question).index
    asked = alice.recall(question, top_k=20, as_of=index)
    before = [(h.memory_id, h.score, h.similarity, h.keyword, h.recency) for h in asked]
    as_user("bob").remember_many([f"winter tea {n} {words[n % 8]}" for n in range(count)])
    alice.remember_many([f"harbour tea {n} {words[n % 7]}" for n in range(count)])
    shared_ledger.replay("recall", tenant=tenant)
    with shared_ledger.tenant(tenant).view("recall").read(wait=60) as reading:
        reading.view.table.optimize()
    again = alice.recall(question, top_k=20, as_of=index)
    after = [(h.memory_id, h.score, h.similarity, h.keyword, h.recency) for h in again]
    assert after == before
    assert (again.index, again.now) == (asked.index, asked.now)


def test_others_rows_change_nothing_now(as_user: Callable[[str], Memory], alice: Memory) -> None:
    """Scores of an owner do not move when another owner writes: statistics are one's own."""
    for text in ("tea in winter", "coffee in winter", "tea with milk"):
        alice.remember(text)
    before = [(h.memory_id, h.score) for h in alice.recall("winter tea")]
    as_user("bob").remember_many([f"winter {n}" for n in range(300)])
    assert [(h.memory_id, h.score) for h in alice.recall("winter tea")] == before


@pytest.mark.parametrize("most_excluded", [0, 1_000])
def test_a_partition_too_large_to_keep_is_searched_by_proposals(
    most_excluded: int, alice: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LanceDB proposes rows, whose hits and pages are those of the exact way: overridden and
    ended memories are no part of them, whether they are excluded in the search or after it."""
    ids = [alice.remember(f"tea number {number}").memory_id for number in range(30)]
    branch = alice.fork("side")
    for memory_id in ids[:10]:
        branch.correct(memory_id, f"tea changed {memory_id}")
    branch.invalidate(ids[11])
    exact = [(h.memory_id, h.content) for h in branch.recall("tea", top_k=50)]
    listed = [(r.memory_id, r.content) for r in branch.list().memories]
    assert len(exact) == len(listed) == 29
    monkeypatch.setattr(search, "_MOST_EXCLUDED", most_excluded)
    with alice.services.view("recall").read(wait=60) as reading:
        view = reading.view
    view.shelves = Shelves(view.table, view.embedder.width, most_bytes=0)
    assert sorted((h.memory_id, h.content) for h in branch.recall("tea", top_k=50)) == sorted(exact)
    assert [(r.memory_id, r.content) for r in branch.list().memories] == listed
