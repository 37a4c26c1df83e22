"""Shelves: exact however large the partition is, and however its rows came to them."""

import random
import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import numpy
import pytest

from memoriale.domain.branches import NO_LIMIT
from memoriale.projections.recall.order import best_places
from memoriale.projections.recall.shelf import READ
from memoriale.projections.recall.shelves import Shelves
from memoriale.projections.recall.sight import owned, partitions
from memoriale.projections.recall.view import RecallView
from tests.fixtures.events import BOB, History
from tests.fixtures.plain_ranking import plain_scores
from tests.integration.test_recall_search import MINE, ask
from tests.integration.test_recall_view import post, posted

SEED: Final = 1494
WORDS: Final = (
    "kite",
    "boat",
    "lake",
    "harbour",
    "harbourmaster",
    "köln",
    "winter",
    "книги",
    "tea",
)
QUESTIONS: Final = (
    "kite on the lake",
    "harbour",
    "koeln in winter",
    "книга",
    "nowhere",
    "tea kite",
)
SESSIONS: Final = (UUID(int=71), UUID(int=72))
(MINE_ALONE, *_) = partitions(MINE)


def text(chance: random.Random) -> str:
    """A few words, or a text of several passages."""
    return ". ".join(
        " ".join(chance.choices(WORDS, k=chance.randrange(1, 9)))
        for _ in range(chance.choice((1, 1, 1, 40)))
    )


def grow(history: History, chance: random.Random, branches: list[UUID], steps: int) -> None:
    """Adds notes, turns of conversations and changes of earlier ones, on any branch."""
    for _ in range(steps):
        branch = chance.choice(branches)
        seen = [m for m in history.memories if history.sees(m, branch)]
        change = chance.randrange(6)
        if change == 0 and seen:
            history.corrected(chance.choice(seen), text(chance), branch=branch)
        elif change == 1 and seen:
            history.invalidated(chance.choice(seen), branch=branch)
        elif change == 2:
            history.remembered(text(chance), owner=BOB, branch=branch)
        elif change == 3:
            session = chance.choice(SESSIONS)
            payload = {"speaker": "Ann"}
            history.remembered(
                text(chance),
                kind="message",
                payload=payload,
                principal_session=session,
                branch=branch,
            )
        else:
            history.remembered(text(chance), branch=branch)


@pytest.fixture(params=["memory", "files"])
def crowd(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[RecallView, History]]:
    """A view with three branches, and its history; its shelves in memory or wholly in files."""
    history, chance = History(), random.Random(SEED)
    branches = [history.main]
    view = posted(tmp_path, history)
    if request.param == "files":
        view.shelves = Shelves(view.table, view.embedder.width, least_in_file=0, rows_at_once=7)
    for name in ("b1", "b2", None):
        grow(history, chance, branches, 60)
        post(view, history)
        ask(view, history, "kite")
        if name:
            at = history.head() - chance.randrange(1, 20)
            branches.append(history.forked(name, parent=branches[-1], at=at))
    yield view, history
    view.close()


def visible(view: RecallView, history: History, branch: UUID, as_of: int) -> list[dict[str, Any]]:
    """Alice's current rows of a lineage, chosen one by one."""
    rows = view.table.read(MINE_ALONE.where, READ).to_pylist()
    chosen, hidden = list[dict[str, Any]](), set[str]()
    for line in history.lineage(branch, min(as_of, history.head() - 1)):
        here = [
            row
            for row in rows
            if row["branch"] == line.branch.hex and row["recorded_from"] <= line.limit
        ]
        chosen += [
            row
            for row in here
            if row["recorded_until"] > line.limit
            and row["memory_id"] not in hidden
            and row["status"] == "current"
        ]
        hidden |= {row["memory_id"] for row in here if row["continues"] is not None}
    return chosen


@pytest.mark.parametrize("question", QUESTIONS)
def test_scores_are_those_of_the_plain_reckoning(
    question: str, crowd: tuple[RecallView, History]
) -> None:
    """On every branch, now and as of any point, hits and scores are those that a reckoning in
    plain Python over the visible rows gives, whether a shelf lies in memory or in files."""
    view, history = crowd
    for branch in history.branches:
        for as_of in (NO_LIMIT, 30, 90, 150):
            rows = visible(view, history, branch, as_of)
            vector = view.embedder.embed_query(question)
            expected = plain_scores(rows, question, vector) if rows else {}
            hits = ask(view, history, question, branch=branch, as_of=as_of, top_k=1_000)
            assert {hit.index: hit.score for hit in hits} == pytest.approx(expected)


def test_a_partition_in_files_keeps_little_in_memory(tmp_path: Path) -> None:
    """Vectors, words and texts lie in files once they are large; a partition with long texts
    takes no more memory for them."""
    history = History()
    for number in range(300):
        history.remembered(f"word{number} " * 500)
    view = posted(tmp_path, history)
    view.shelves = Shelves(view.table, view.embedder.width, least_in_file=1)
    shelf = view.shelves.get(MINE_ALONE, view.position(), whole=False)
    assert shelf is not None
    assert len(shelf) == 300
    assert shelf.nbytes < 100_000 < 300 * 500 * 5
    assert [row["text"][:7] for row in shelf.rows([0, 299])] == ["word0 w", "word299"]


def test_partitions_used_longest_ago_go_first(tmp_path: Path) -> None:
    """Over its bytes a view forgets the partition that was used longest ago, and one that is
    too large alone is not kept but made for whoever must have all of it."""
    history = History()
    for number in range(200):
        history.remembered(f"kite {number}", owner=BOB)
        if number < 3:
            history.remembered(f"boat {number}")
    view = posted(tmp_path, history)
    bobs = owned(BOB)
    both = Shelves(view.table, view.embedder.width)
    sizes = [both.get(p, view.position(), whole=False) for p in (MINE_ALONE, bobs)]
    large = max(shelf.nbytes for shelf in sizes if shelf is not None)
    shelves = Shelves(view.table, view.embedder.width, most_bytes=large)
    first = shelves.get(MINE_ALONE, view.position(), whole=False)
    assert shelves.get(MINE_ALONE, view.position(), whole=False) is first
    assert shelves.get(bobs, view.position(), whole=False) is not None
    assert shelves.get(MINE_ALONE, view.position(), whole=False) is not first
    small = Shelves(view.table, view.embedder.width, most_bytes=large - 1)
    assert small.get(bobs, view.position(), whole=False) is None
    whole = small.get(bobs, view.position(), whole=True)
    assert whole is not None
    assert len(whole) == 200


def test_an_empty_partition_is_read_once(tmp_path: Path) -> None:
    """A partition without rows is kept too: asking again reads nothing."""
    view = posted(tmp_path, History())
    first = view.shelves.get(MINE_ALONE, 1, whole=False)
    assert first is not None
    assert view.shelves.get(MINE_ALONE, 1, whole=False) is first


def test_words_of_hidden_rows_take_no_ones_place(tmp_path: Path) -> None:
    """An answer as of a point stays when many words alike are remembered later."""
    history = History()
    history.remembered("the zharbour lies in the north")
    view = posted(tmp_path, history)
    before = [(h.index, h.score) for h in ask(view, history, "harbour", as_of=0)]
    for number in range(30):
        history.remembered(f"aharbour{number} elsewhere")
    post(view, history)
    assert [(h.index, h.score) for h in ask(view, history, "harbour", as_of=0)] == before
    assert before


def test_the_best_are_chosen_as_by_sorting() -> None:
    """The best places, ties to the lower key, are those of a full sort."""
    chance = random.Random(SEED)
    for wanted in (1, 5, 50, 200):
        scores = numpy.array([chance.randrange(9) / 8 for _ in range(120)])
        keys = numpy.array(chance.sample(range(1_000), 120))
        by_sort = sorted(range(120), key=lambda place: (-scores[place], keys[place]))[:wanted]
        assert best_places(scores, keys, wanted).tolist() == by_sort


def test_a_full_disk_stops_no_read(tmp_path: Path) -> None:
    """When no file can be written any more, what a shelf holds stays or moves to memory, and its
    answers are the same."""
    history, chance = History(), random.Random(SEED)
    grow(history, chance, [history.main], 120)
    view = posted(tmp_path, history)
    before = [(h.index, h.score) for h in ask(view, history, "kite", as_of=100, top_k=50)]
    view.shelves = Shelves(view.table, view.embedder.width, least_in_file=0, rows_at_once=20)
    room = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, room[1]))
    try:
        full = [(h.index, h.score) for h in ask(view, history, "kite", as_of=100, top_k=50)]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, room)
        signal.signal(signal.SIGXFSZ, handler)
    assert full == before
    assert view.shelves.scratch.least > 2**40
