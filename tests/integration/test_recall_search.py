"""Search finds what a caller may see on a branch at an index, and nothing else."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from memoriale.adapters.embeddings.hashing import HashEmbedder
from memoriale.domain.access import AccessScope
from memoriale.domain.branches import NO_LIMIT
from memoriale.domain.errors import UnavailableError
from memoriale.domain.scoring import compute_composite_score, recency_decay
from memoriale.projections.recall.query import Hit, RecallQuery
from memoriale.projections.recall.search import search
from memoriale.projections.recall.shelves import Shelves
from memoriale.projections.recall.view import RecallView
from tests.fixtures.events import ALICE, BOB, START, History
from tests.integration.test_recall_view import post, posted

MINE = AccessScope(owners=frozenset({ALICE}), user=ALICE)


def ask(
    view: RecallView,
    history: History,
    text: str,
    *,
    scope: AccessScope | Iterable[AccessScope] = MINE,
    branch: UUID | None = None,
    as_of: int = NO_LIMIT,
    now: datetime | None = None,
    valid_at: datetime | None = None,
    **options: Any,
) -> list[Hit]:
    lines = history.lineage(branch, as_of)
    scopes = [scope] * len(lines) if isinstance(scope, AccessScope) else list(scope)
    now = now or history.time(history.head())
    query = RecallQuery(
        text=text,
        lines=tuple(zip(lines, scopes, strict=True)),
        now=now,
        valid_at=valid_at or now,
        **options,
    )
    return search(view, query)


def contents(hits: Iterable[Hit]) -> list[str]:
    return [hit.content for hit in hits]


@pytest.mark.parametrize("vector_leg", [True, False])
def test_a_small_owner_gets_its_full_k(tmp_path: Path, vector_leg: bool) -> None:
    """Three memories among two thousand better ones of others are all found, in both legs."""
    history = History()
    for number in range(2_000):
        history.remembered(f"red kite {number % 7}", owner=BOB)
        if number in (3, 1_000, 1_999):
            history.remembered(f"a boat and a red kite of Alice on the lake {number}")
    view = posted(tmp_path, history)
    hits = ask(view, history, "red kite", vector_leg=vector_leg, top_k=3)
    assert sorted(contents(hits)) == [
        f"a boat and a red kite of Alice on the lake {number}" for number in (1_000, 1_999, 3)
    ]
    assert all(hit.keyword > 0 for hit in hits)
    assert all((hit.similarity is not None) == vector_leg for hit in hits)


@pytest.mark.parametrize("vector_leg", [True, False])
def test_equal_hits_come_in_the_order_of_the_log(tmp_path: Path, vector_leg: bool) -> None:
    """
    Of many equal memories the ones with the lowest indices are returned, in their order, also
    when their rows were written again later and now lie behind the others.
    """
    history = History()
    notes = [history.remembered("red kite") for _ in range(300)]
    view = posted(tmp_path, history)
    for note in notes[:10]:
        history.invalidated(note)
    post(view, history)
    hits = ask(view, history, "kite", as_of=299, top_k=7, vector_leg=vector_leg)
    assert [hit.index for hit in hits] == list(range(7))


def test_a_hit_says_what_the_memory_holds(tmp_path: Path) -> None:
    """Every field of a hit comes from the version that was found."""
    history = History()
    memory = history.remembered(
        "we saw a red kite",
        kind="message",
        payload={"speaker": "Ann"},
        importance=0.75,
        tags=("bird", "x'y"),
        metadata={"dia": ["D1:3", 1]},
        source="chat.txt",
        valid_from=START - timedelta(days=30),
        valid_until=START + timedelta(days=365),
    )
    history.amended(memory, importance=0.25)
    view = posted(tmp_path, history)
    now = START + timedelta(days=30)
    (hit,) = ask(view, history, "kite", now=now)
    assert (hit.memory_id, hit.content, hit.kind) == (memory, "we saw a red kite", "message")
    assert (hit.speaker, hit.source, hit.tags) == ("Ann", "chat.txt", ("bird", "x'y"))
    assert (hit.index, hit.branch, hit.importance) == (1, history.main, 0.25)
    assert (hit.recorded_at, hit.created_at) == (history.time(1), START)
    assert (hit.valid_from, hit.valid_until) == (
        START - timedelta(days=30),
        START + timedelta(days=365),
    )
    assert hit.metadata == {"dia": ["D1:3", 1]}
    assert hit.recency == recency_decay(START, now) == 0.5
    assert (hit.keyword, hit.score) == (1.0, 1.0)
    assert hit.similarity is not None
    assert 0 < hit.similarity < 1


def test_scores_are_ordered_and_in_0_to_1(tmp_path: Path) -> None:
    """Hits come best first, all numbers in 0..1, and a row that neither leg finds is no hit."""
    history = History()
    for text in ("red kite", "red boat", "kite kite kite red", "blue sea", "!?"):
        history.remembered(text)
    view = posted(tmp_path, history)
    hits = ask(view, history, "red kite", top_k=10)
    assert [hit.score for hit in hits] == sorted((h.score for h in hits), reverse=True)
    for hit in hits:
        assert 0 <= hit.score <= 1
        assert 0 <= hit.keyword <= 1
        assert hit.similarity is not None
        assert 0 <= hit.similarity <= 1
    assert hits[0].content == "red kite"
    assert hits[0].similarity == pytest.approx(1)
    assert "!?" not in contents(hits)


def test_least_similarity_and_least_score(tmp_path: Path) -> None:
    """``min_score`` holds for the similarity, ``min_rank_score`` for the score."""
    history = History()
    history.remembered("red kite")
    history.remembered("red boat on a lake with a house")
    view = posted(tmp_path, history)
    both = ask(view, history, "red kite")
    assert len(both) == 2
    low = both[1]
    assert low.similarity is not None
    assert contents(ask(view, history, "red kite", min_score=low.similarity)) == contents(both)
    above = low.similarity + 1e-6
    assert contents(ask(view, history, "red kite", min_score=above)) == ["red kite"]
    above = low.score + 1e-6
    assert contents(ask(view, history, "red kite", min_rank_score=above)) == ["red kite"]
    assert ask(view, history, "red kite", min_score=0.1, vector_leg=False) == []


def test_composite_rank_counts_age_and_importance(tmp_path: Path) -> None:
    """With ``composite`` the score is reference system A's over the same hits."""
    history = History()
    history.remembered("red kite", importance=0.0)
    for _ in range(50):
        history.denied()
    history.remembered("red kite", importance=1.0)
    view = posted(tmp_path, history)
    hits = ask(view, history, "red kite", rank="composite")
    assert [hit.importance for hit in hits] == [1.0, 0.0]
    for hit in hits:
        assert hit.score == compute_composite_score(
            created_at=hit.created_at,
            now=history.time(history.head()),
            semantic_similarity=hit.similarity,
            importance=hit.importance,
        )


def test_each_version_is_found_as_of_its_own_span(tmp_path: Path) -> None:
    """As of an index exactly the version is found whose span holds it."""
    history = History()
    note = history.remembered("red kite one")
    history.denied()
    history.corrected(note, "red kite two")
    history.invalidated(note)
    history.denied()
    history.reinstated(note)
    view = posted(tmp_path, history)
    found = [contents(ask(view, history, "kite", as_of=index)) for index in range(-1, 7)]
    one, two = ["red kite one"], ["red kite two"]
    assert found == [[], one, one, two, [], [], two, two]
    assert contents(ask(view, history, "kite")) == two


def test_what_is_posted_later_changes_no_earlier_answer(tmp_path: Path) -> None:
    """An answer as of an index is the same after more was posted."""
    history = History()
    notes = [history.remembered(f"red kite {n}") for n in range(5)]
    view = posted(tmp_path, history)
    before = ask(view, history, "kite", as_of=4, now=START)
    for note in notes:
        history.corrected(note, "blue boat")
    post(view, history)
    assert [hit.index for hit in ask(view, history, "kite", as_of=4, now=START)] == [
        hit.index for hit in before
    ]


def test_branches_see_their_own_versions_and_the_inherited_ones(tmp_path: Path) -> None:
    """Three levels deep each branch sees the nearest version, up to where it was forked."""
    history = History()
    first, second, third = (history.remembered(f"red kite {n}") for n in ("a", "b", "c"))
    child = history.forked("child")
    late = history.remembered("red kite late")
    history.corrected(first, "red kite a of child", branch=child)
    grandchild = history.forked("grandchild", parent=child)
    history.corrected(second, "red kite b of grandchild", branch=grandchild)
    history.corrected(first, "red kite a again of child", branch=child)
    history.invalidated(third, branch=grandchild)
    history.corrected(first, "red kite a of main")
    great = history.forked("great", parent=grandchild)
    history.corrected(first, "red kite a of great", branch=great)
    view = posted(tmp_path, history, 3)

    def seen(branch: UUID, as_of: int = NO_LIMIT) -> list[str]:
        hits = ask(view, history, "kite", branch=branch, as_of=as_of, top_k=50)
        return sorted(hit.content.removeprefix("red kite ") for hit in hits)

    assert seen(history.main) == ["a of main", "b", "c", "late"]
    assert seen(child) == ["a again of child", "b", "c"]
    assert seen(grandchild) == ["a of child", "b of grandchild"]
    assert seen(great) == ["a of great", "b of grandchild"]
    assert seen(great, history.head() - 2) == ["a of child", "b of grandchild"]
    assert seen(child, 4) == ["a", "b", "c"]
    assert late not in {hit.memory_id for hit in ask(view, history, "kite", branch=great)}


def test_each_line_has_its_own_access_rule(tmp_path: Path) -> None:
    """A branch of Bob's inherits Alice's rows under her rule, up to the fork."""
    history = History()
    history.remembered("red kite of Alice", owner=ALICE)
    history.remembered("red kite of Bob", owner=BOB)
    child = history.forked("child", owner=BOB)
    history.remembered("red kite of Bob on the branch", owner=BOB, branch=child)
    history.remembered("red kite of Alice on the branch", owner=ALICE, branch=child)
    view = posted(tmp_path, history)
    bob = AccessScope(owners=frozenset({BOB}), user=BOB)
    hits = ask(view, history, "kite", branch=child, scope=(bob, MINE))
    assert sorted(contents(hits)) == ["red kite of Alice", "red kite of Bob on the branch"]


def test_expired_memories_are_not_found(tmp_path: Path) -> None:
    """A memory is found until it expires and not at that instant, whatever ``valid_at`` is."""
    history = History()
    history.remembered("red kite", expires_at=START + timedelta(hours=1))
    view = posted(tmp_path, history)
    instant = timedelta(microseconds=1)
    end = START + timedelta(hours=1)
    assert contents(ask(view, history, "kite", now=end - instant)) == ["red kite"]
    assert ask(view, history, "kite", now=end) == []
    assert ask(view, history, "kite", now=end, valid_at=START) == []


def test_only_what_is_valid_at_the_time_is_found(tmp_path: Path) -> None:
    """The valid span includes its beginning and excludes its end, to the microsecond."""
    history = History()
    since, until = START, START + timedelta(days=400_000)
    history.remembered("red kite", valid_from=since, valid_until=until)
    view = posted(tmp_path, history)
    instant = timedelta(microseconds=1)
    found = [
        len(ask(view, history, "kite", valid_at=time))
        for time in (since - instant, since, until - instant, until)
    ]
    assert found == [0, 1, 1, 0]


def test_kinds_tags_and_namespaces(tmp_path: Path) -> None:
    """A hit has one of the kinds, all of the tags, and a namespace that is seen or none."""
    history = History()
    org, team, other = b"\x01" * 16, b"\x02" * 16, b"\x03" * 16
    history.remembered("red kite note", tags=("a", "b"), namespace_tags=(org,))
    history.remembered("red kite fact", kind="fact", tags=("a",), namespace_tags=(org, team))
    history.remembered("red kite message", kind="message", namespace_tags=(other,))
    history.remembered("red kite free", tags=("b",))
    view = posted(tmp_path, history)

    def found(**options: Any) -> list[str]:
        hits = ask(view, history, "kite", **options)
        return sorted(hit.content.removeprefix("red kite ") for hit in hits)

    assert found() == ["fact", "free", "message", "note"]
    assert found(kinds=("fact", "message")) == ["fact", "message"]
    assert found(tags=("a",)) == ["fact", "note"]
    assert found(tags=("a", "b")) == ["note"]
    assert found(namespaces=()) == ["free"]
    assert found(namespaces=(org.hex(),)) == ["free", "note"]
    assert found(namespaces=(org.hex(), team.hex())) == ["fact", "free", "note"]


def test_a_question_that_the_model_does_not_know_is_searched_by_keyword(tmp_path: Path) -> None:
    """Without a vector of the question the vector leg does not run."""
    history = History()
    history.remembered("red kite")
    view = posted(tmp_path, history)
    assert ask(view, history, "?!") == []
    assert [hit.similarity for hit in ask(view, history, "kite", vector_leg=False)] == [None]


def test_an_embedder_that_fails_is_named(tmp_path: Path) -> None:
    """A failing embedder is a typed error; the caller may search without the vector leg."""

    class Failing(HashEmbedder):
        def embed_query(self, text: str) -> Any:
            raise ConnectionError("no model")

    history = History()
    history.remembered("red kite")
    posted(tmp_path, history)
    view = RecallView.open(tmp_path, Failing())
    with pytest.raises(UnavailableError, match="no model"):
        ask(view, history, "kite")
    assert contents(ask(view, history, "kite", vector_leg=False)) == ["red kite"]


def test_an_empty_view_answers_nothing(tmp_path: Path) -> None:
    """A view without rows has no hits, and neither has a query without lines."""
    history = History()
    view = posted(tmp_path, history)
    assert ask(view, history, "kite") == []
    empty = RecallQuery(text="kite", lines=(), now=START, valid_at=START)
    assert search(view, empty) == []


def test_an_erased_memory_is_never_found(tmp_path: Path) -> None:
    """Neither an erased memory nor one that was reinstated after its erasure is a hit."""
    history = History()
    note = history.remembered("red kite")
    history.erase(note)
    history.reinstated(note)
    history.remembered("red boat")
    view = posted(tmp_path, history)
    assert contents(ask(view, history, "red kite", top_k=50)) == ["red boat"]


@pytest.mark.parametrize("kept", [True, False])
def test_a_kind_that_is_asked_for_by_name_is_found(tmp_path: Path, kept: bool) -> None:
    """Kinds that recall leaves out are found when they are named, whether the owner's rows are
    kept in memory or proposed by the table's indexes."""
    history = History()
    history.remembered("red kite as a note")
    history.remembered("red kite as a summary", kind="summary")
    view = posted(tmp_path, history)
    if not kept:
        view.shelves = Shelves(view.table, view.embedder.width, most_bytes=0)
    assert contents(ask(view, history, "red kite")) == ["red kite as a note"]
    named = ask(view, history, "red kite", kinds=("summary",))
    assert contents(named) == ["red kite as a summary"]
    assert len(ask(view, history, "red kite", kinds=("note", "summary"))) == 2
