"""What a process posted itself is recalled without reading the table, unless others wrote."""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest

from memoriale.adapters.embeddings.hashing import HashEmbedder
from memoriale.domain.access import AccessScope
from memoriale.domain.branches import NO_LIMIT
from memoriale.domain.errors import UnavailableError
from memoriale.projections.allowance import Allowance, allowing
from memoriale.projections.recall.recent import Recent
from memoriale.projections.recall.sight import partitions
from memoriale.projections.recall.view import RecallView
from tests.fixtures.events import ALICE, BOB, CAROL, History
from tests.integration.test_recall_search import ask, contents
from tests.integration.test_recall_shelves import QUESTIONS, grow, text
from tests.integration.test_recall_view import post, posted

SEED: Final = 2024
TEAMS: Final = (UUID(int=81), UUID(int=82), UUID(int=83))


class Meanwhile(HashEmbedder):
    """While it embeds, and so between a look at the table and a commit, ``act`` runs once."""

    def __init__(self) -> None:
        super().__init__()
        self.act: Callable[[], object] | None = None

    def embed_passages(self, texts: Sequence[str]) -> Any:
        act, self.act = self.act, None
        if act is not None:
            act()
        return super().embed_passages(texts)


class Unreachable(HashEmbedder):
    """Embeds questions, and no passages."""

    def embed_passages(self, texts: Sequence[str]) -> Any:
        raise UnavailableError("it is away", code="embedder_failed")

    def embed_query(self, text: str) -> Any:
        return HashEmbedder().embed_query(text)


@contextmanager
def reads(view: RecallView, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The conditions with which a view reads its table in the block."""
    asked = list[str]()
    read = view.table.read

    def told(where: str, columns: Sequence[str]) -> Any:
        asked.append(where)
        return read(where, columns)

    with monkeypatch.context() as patched:
        patched.setattr(view.table, "read", told)
        yield asked


@pytest.fixture
def history() -> History:
    """One note of Alice."""
    history = History()
    history.remembered("a kite")
    return history


def test_what_was_just_posted_is_not_read(
    tmp_path: Path, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a posting to its recall the table is not read at all, and the answer has its rows."""
    view = posted(tmp_path, history)
    ask(view, history, "kite")
    note = history.remembered("a boat")
    history.corrected(note, "a lake")
    with reads(view, monkeypatch) as asked:
        post(view, history, 1)
        assert sorted(contents(ask(view, history, "lake kite"))) == ["a kite", "a lake"]
    assert [where for where in asked if "seq >=" in where or "key = -1" in where] == []


def test_what_another_posted_in_between_is_read(
    tmp_path: Path, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When another process posted before one's own posting, the table is read."""
    view = posted(tmp_path, history)
    ask(view, history, "kite")
    other = RecallView.open(tmp_path, HashEmbedder())
    history.remembered("a boat")
    post(other, history)
    history.remembered("a lake")
    with reads(view, monkeypatch) as asked:
        post(view, history)
        assert sorted(contents(ask(view, history, "lake boat"))) == ["a boat", "a lake"]
    assert any("seq >= 1" in where for where in asked)


@pytest.mark.parametrize("further", [0, 2])
def test_a_commit_during_ones_own_is_seen(
    tmp_path: Path, history: History, further: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When another process commits between one's look at the table and one's own commit, the
    position and the rows are those of the table, whether it went further or as far."""
    embedder = Meanwhile()
    view = RecallView.create(tmp_path, embedder)
    post(view, history)
    ask(view, history, "kite")
    other = RecallView.open(tmp_path, HashEmbedder())
    history.remembered("a boat")
    for number in range(further):
        history.remembered(f"a lake {number}")
    embedder.act = lambda: post(other, history)
    with reads(view, monkeypatch) as asked:
        view.apply(history.batch(1, 2), 1)
        assert view.position() == history.head()
        assert len(ask(view, history, "boat lake")) == 1 + further
    assert any("seq >= 1" in where for where in asked)


def test_files_joined_during_ones_own_commit_are_noticed(
    tmp_path: Path, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever else is committed meanwhile, even without a change of a row, the table is read."""
    embedder = Meanwhile()
    view = RecallView.create(tmp_path, embedder)
    post(view, history, 1)
    other = RecallView.open(tmp_path, HashEmbedder())
    ask(view, history, "kite")
    history.remembered("a boat")
    embedder.act = other.table.optimize
    with reads(view, monkeypatch) as asked:
        post(view, history)
        assert contents(ask(view, history, "boat")) == ["a boat"]
    assert any("seq >= 1" in where for where in asked)


def test_vectors_that_another_filled_in_are_seen(tmp_path: Path, history: History) -> None:
    """Rows that a process posted without vectors are found by vector once another process has
    made up for them."""
    posted(tmp_path, history).close()
    view = RecallView.open(tmp_path, Unreachable())
    ask(view, history, "kite")
    history.remembered("a boat on the lake")
    with allowing(Allowance(1.0, optional=True)):
        post(view, history)
    assert view.lacking
    assert ask(view, history, "boat on the lake", keyword_leg=False) == []
    RecallView.open(tmp_path, HashEmbedder()).fill()
    found = ask(view, history, "boat on the lake", keyword_leg=False)
    assert contents(found)[:1] == ["a boat on the lake"]
    assert not view.lacking


def test_what_others_posted_is_read_once_for_all_partitions(
    tmp_path: Path, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller who may see rows for several reasons costs one read of what others posted, and
    sees what he may see of it."""
    scope = AccessScope(
        owners=frozenset((ALICE,)), user=ALICE, agent=CAROL, teams=frozenset(TEAMS[:2])
    )
    writer = posted(tmp_path, history)
    view = RecallView.open(tmp_path, HashEmbedder())
    ask(view, history, "kite", scope=scope)
    history.remembered("a boat of mine")
    history.remembered("a boat of the team", owner=BOB, visibility="team", principal_team=TEAMS[0])
    history.remembered("a boat of others", owner=BOB, visibility="team", principal_team=TEAMS[2])
    history.remembered("a boat of all", owner=BOB, visibility="tenant")
    history.remembered("a boat of Bob", owner=BOB)
    post(writer, history)
    with reads(view, monkeypatch) as asked:
        found = contents(ask(view, history, "boat", scope=scope))
    assert sorted(found) == ["a boat of all", "a boat of mine", "a boat of the team"]
    assert len([where for where in asked if "seq >=" in where]) == 1


def test_what_was_posted_and_what_was_read_are_one(tmp_path: Path, history: History) -> None:
    """Somebody who last asked before both finds them, however the rows came to be known."""
    bob = AccessScope(owners=frozenset((BOB,)), user=BOB)
    view = posted(tmp_path, history)
    other = RecallView.open(tmp_path, HashEmbedder())
    assert contents(ask(view, history, "lake boat", scope=bob)) == []
    for text_of, poster in (("a lake", view), ("a boat", other), ("a lake again", view)):
        history.remembered(text_of, owner=BOB)
        post(poster, history)
        ask(view, history, "kite")
    found = contents(ask(view, history, "lake boat", scope=bob))
    assert sorted(found) == ["a boat", "a lake", "a lake again"]


SCOPES: Final = (
    AccessScope(owners=frozenset((ALICE,)), user=ALICE),
    AccessScope(owners=frozenset((BOB,)), user=BOB),
    AccessScope(owners=frozenset((ALICE, BOB)), user=ALICE, teams=frozenset(TEAMS)),
)


@pytest.mark.parametrize("recent", [Recent, partial(Recent, most_pieces=2), partial(Recent, 64, 0)])
@pytest.mark.parametrize("seed", range(2))
def test_answers_are_those_of_a_view_that_reads_its_table(
    tmp_path: Path, recent: Callable[[], Recent], seed: int
) -> None:
    """Whoever posts and whoever asks in whatever order, and however much of what was posted is
    kept, answers on any branch as of any point are those of a view that reads the table afresh."""
    history, chance = History(), random.Random(SEED + seed)
    branches = [history.main]
    views = [posted(tmp_path, history), RecallView.open(tmp_path, HashEmbedder())]
    for view in views:
        view.shelves.recent = recent()
    for step in range(30):
        grow(history, chance, branches, chance.randrange(1, 4))
        poster = chance.choice(views)
        post(poster, history, chance.randrange(1, 4))
        if step in (10, 20):
            at = max(history.head() - 3, 1)
            branches.append(history.forked(f"b{step}", parent=branches[-1], at=at))
        if step % 7 == 6:
            poster.table.optimize()
        for _ in range(chance.randrange(3)):
            asked: dict[str, Any] = {
                "scope": chance.choice(SCOPES),
                "branch": chance.choice(branches),
                "as_of": chance.choice((NO_LIMIT, history.head() // 2)),
                "top_k": 1_000,
            }
            question = chance.choice(QUESTIONS)
            fresh = RecallView.open(tmp_path, HashEmbedder())
            expected, found = (
                [(hit.index, hit.score) for hit in ask(one, history, question, **asked)]
                for one in (fresh, chance.choice(views))
            )
            assert found == expected
            fresh.close()


def test_a_partition_is_the_same_in_memory(tmp_path: Path) -> None:
    """The rows that a partition chooses of rows in memory are those that LanceDB chooses."""
    history, chance = History(), random.Random(SEED)
    for _ in range(150):
        history.remembered(
            text(chance),
            owner=chance.choice((ALICE, BOB)),
            owner_type=chance.choice(("user", "session")),
            visibility=chance.choice(("owner", "user", "agent", "team", "tenant")),
            principal_user=chance.choice((ALICE, BOB, None)),
            principal_agent=chance.choice((CAROL, None)),
            principal_team=chance.choice((*TEAMS, None)),
        )
    view = posted(tmp_path, history)
    every = view.table.read("key >= 0", view.table.column_names)
    scope = AccessScope(
        owners=frozenset((ALICE,)), user=ALICE, agent=CAROL, teams=frozenset(TEAMS[:2])
    )
    chosen = [*partitions(scope), *partitions(AccessScope(everything=True))]
    sizes = []
    for partition in chosen:
        expected = view.table.read(f"key >= 0 AND {partition.where}", ("key",))["key"].to_pylist()
        found = partition.rows(every)["key"].to_pylist()
        assert sorted(found) == sorted(expected)
        sizes.append(len(found))
    assert len(sizes) == 6
    assert all(0 < size < 150 for size in sizes[:-1])
    assert sizes[-1] == 150
