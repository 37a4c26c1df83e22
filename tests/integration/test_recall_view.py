"""The recall view posts versions of memories, and equals a fold of the log."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy
import pytest

from memoriale.adapters.embeddings.hashing import HashEmbedder
from memoriale.domain.errors import (
    ConflictError,
    CorruptViewError,
    UnavailableError,
)
from memoriale.domain.memory import project_memory
from memoriale.projections.recall.schema import OPEN
from memoriale.projections.recall.versions import search_text
from memoriale.projections.recall.view import RecallView
from memoriale.projections.view import View
from tests.contracts.view import ViewContract, eventful_history
from tests.fixtures.events import START, History

ALL = "key >= 0"


class CountingEmbedder(HashEmbedder):
    """Remembers what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[list[str]] = []

    def embed_passages(self, texts: Sequence[str]) -> Any:
        self.calls.append(list(texts))
        return super().embed_passages(texts)


class BrokenEmbedder(HashEmbedder):
    """Gives what ``spoil`` makes of good vectors."""

    def __init__(self, spoil: Any) -> None:
        super().__init__()
        self.spoil = spoil

    def embed_passages(self, texts: Sequence[str]) -> Any:
        return self.spoil(super().embed_passages(texts))


def posted(folder: Path, history: History, size: int = 1_000) -> RecallView:
    view = RecallView.create(folder, HashEmbedder())
    post(view, history, size)
    return view


def post(view: RecallView, history: History, size: int = 1_000) -> None:
    for batch in history.batches(view.position(), history.head(), size):
        view.apply(batch, batch.position)


def rows(view: RecallView, *columns: str) -> list[dict[str, Any]]:
    found = view.table.read(ALL, [*dict.fromkeys(("key", *columns))]).sort_by("key")
    listed: list[dict[str, Any]] = found.to_pylist()
    return listed


class TestRecallView(ViewContract):
    """The shared suite, with vectors of hashed words."""

    def make_view(self, folder: Path) -> View:
        if (folder / "versions.lance").exists():
            return RecallView.open(folder, HashEmbedder())
        return RecallView.create(folder, HashEmbedder())


def test_a_change_closes_one_version_and_opens_the_next(tmp_path: Path) -> None:
    """Each event of a memory begins a version that the next one ends."""
    history = History()
    note = history.remembered("one")
    history.denied()
    history.corrected(note, "two")
    history.invalidated(note)
    view = posted(tmp_path, history, 1)
    assert [
        (r["key"], r["recorded_until"], r["text"], r["status"])
        for r in rows(view, "recorded_until", "text", "status")
    ] == [(0, 2, "one", "current"), (2, 3, "two", "current"), (3, OPEN, "two", "invalidated")]
    assert view.rows_count() == 3


def test_a_branch_leaves_the_version_that_it_continues_open(tmp_path: Path) -> None:
    """A correction on a branch does not end the version of the parent."""
    history = History()
    note = history.remembered("one")
    child = history.forked("child")
    history.corrected(note, "two", branch=child)
    view = posted(tmp_path, history, 1)
    found = rows(view, "recorded_until", "continues", "branch")
    assert [(r["recorded_until"], r["continues"]) for r in found] == [(OPEN, None), (OPEN, 0)]
    assert [r["branch"] for r in found] == [history.main.hex, child.hex]


def test_content_is_kept_as_given(tmp_path: Path) -> None:
    """Text of any language, with spaces, signs and line ends, comes back unchanged."""
    texts = [" padded\t", "naïve 上海 🎉 \u202eשלום", "a\r\nb", "e\u0301 and é", "'\"\\%_;--"]
    history = History()
    for text in texts:
        history.remembered(text, tags=(text,), metadata={text: [text, 1.5, None]}, source=text)
    view = posted(tmp_path, history)
    assert [r["text"] for r in rows(view, "text")] == texts
    assert [r["tags"] for r in rows(view, "tags")] == [[text] for text in texts]
    assert [r["source"] for r in rows(view, "source")] == texts


def test_an_erased_memory_has_neither_text_nor_vector(tmp_path: Path) -> None:
    """A tombstone becomes a version of status erased without anything that people wrote."""
    history = History()
    note = history.remembered("secret", tags=("t",), metadata={"m": 1}, source="s")
    history.corrected(note, "secret too")
    history.erase(note)
    view = posted(tmp_path, history)
    for row in rows(view, "status", "text", "search_text", "metadata", "source", "tags", "vector"):
        key = row.pop("key")
        assert row == {
            "status": "erased",
            "text": None,
            "search_text": None,
            "metadata": None,
            "source": None,
            "tags": [],
            "vector": None,
        }, key


def test_only_new_content_is_embedded(tmp_path: Path) -> None:
    """Amended, invalidated and reinstated versions keep the vector; one call serves a batch."""
    history = History()
    note = history.remembered("one word")
    other = history.remembered("another thing")
    history.amended(note, importance=0.5)
    history.invalidated(note)
    embedder = CountingEmbedder()
    view = RecallView.create(tmp_path, embedder)
    post(view, history)
    history.reinstated(note)
    history.amended(other, tags=("t",))
    history.corrected(other, "a third one")
    post(view, history)
    assert embedder.calls == [["one word", "another thing"], ["a third one"]]
    vectors = {key: vector for key, _, vector in view.vectors()}
    for key in (2, 3, 4):
        assert (vectors[key] == vectors[0]).all()
    assert (vectors[5] == vectors[1]).all()
    assert not (vectors[6] == vectors[1]).all()


def test_text_that_the_model_knows_nothing_of_has_no_vector(tmp_path: Path) -> None:
    """A vector of zeros is kept as none, and the row names no model."""
    history = History()
    history.remembered("!?")
    history.remembered("word")
    view = posted(tmp_path, history)
    assert [(model, vector is None) for _, model, vector in view.vectors()] == [
        (None, True),
        ("hashing-64/1", False),
    ]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda vectors: vectors[:-1],
        lambda vectors: vectors[:, :-1],
        lambda vectors: vectors * numpy.nan,
        lambda vectors: vectors + numpy.inf,
        lambda vectors: None,
        lambda vectors: [["words"]],
        lambda vectors: 1 / 0,
    ],
)
def test_bad_vectors_change_nothing(tmp_path: Path, spoil: Any) -> None:
    """An embedder that fails or returns rubbish stops the batch; the view stays as it was."""
    history = History()
    history.remembered("one")
    history.remembered("two")
    view = RecallView.create(tmp_path, BrokenEmbedder(spoil))
    with pytest.raises(UnavailableError) as failure:
        post(view, history)
    assert failure.value.code in ("bad_vectors", "embedder_failed")
    assert failure.value.field == "MEMORIALE_EMBEDDER"
    assert (view.position(), view.rows_count()) == (0, 0)
    again = RecallView.open(tmp_path, HashEmbedder())
    post(again, history)
    assert again.rows_count() == 2


@pytest.mark.parametrize("width", [32, 65])
def test_a_view_of_another_model_is_refused(tmp_path: Path, width: int) -> None:
    """A view made with vectors of another width or model is to be rebuilt, never mixed."""
    RecallView.create(tmp_path, HashEmbedder())
    with pytest.raises(CorruptViewError) as refusal:
        RecallView.open(tmp_path, HashEmbedder(width))
    assert refusal.value.code == "other_model"


def test_a_view_is_not_made_over_another(tmp_path: Path) -> None:
    """Making a view in a folder that holds one is refused and leaves that one alone."""
    view = posted(tmp_path, eventful_history())
    with pytest.raises(CorruptViewError):
        RecallView.create(tmp_path, HashEmbedder())
    assert view.position() == eventful_history().head()


def test_a_late_writer_is_refused(tmp_path: Path) -> None:
    """A writer with an old handle that expects an old position changes nothing."""
    history = eventful_history()
    view = RecallView.create(tmp_path, HashEmbedder())
    view.apply(history.batch(0, 2), 0)
    late = RecallView.open(tmp_path, HashEmbedder())
    post(view, history)
    before = view.digest()
    with pytest.raises(ConflictError):
        late.apply(history.batch(2, 4), 2)
    assert view.digest() == before


@pytest.mark.parametrize("reopened", [False, True])
def test_rows_never_go_backwards(tmp_path: Path, reopened: bool) -> None:
    """
    A commit of older rows that reaches the table all the same changes nothing, and brings back
    no text that was erased, whether rows are found by the index of keys, as in a table that was
    just opened, or by comparing all keys, as when few rows are in the index.
    """
    history = History()
    note = history.remembered("secret")
    history.corrected(note, "more secret")
    late = posted(tmp_path / "late", history, 1)
    old_rows = late.table.read("key >= -1", late.table.column_names).to_pylist()
    vectors = [row.pop("vector") for row in old_rows]
    history.erase(note)
    history.invalidated(note)
    history.erase(note)
    view = posted(tmp_path / "view", history)
    if reopened:
        view = RecallView.open(tmp_path / "view", HashEmbedder())
    before = (view.digest(), rows(view, "status", "text", "vector"))
    view.table.merge(old_rows, vectors, 64)
    assert view.position() == 3
    assert (view.digest(), rows(view, "status", "text", "vector")) == before


def test_many_small_commits_are_compacted(tmp_path: Path) -> None:
    """A commit for each event leaves few files, and the content is the same."""
    history = History()
    note = history.remembered("one")
    for number in range(79):
        history.corrected(note, f"version {number}") if number % 2 else history.remembered("x")
    view = posted(tmp_path / "small", history, 1)
    assert view.table.small_files() < 40
    assert view.digest() == posted(tmp_path / "whole", history).digest()


def test_rows_are_merged_alike_with_and_without_the_index(tmp_path: Path) -> None:
    """
    A table that each posting opens afresh, and so merges by the index of keys, holds what one
    holds that stays open and compares all keys while the index lacks most rows.
    """
    history = eventful_history()
    kept = posted(tmp_path / "kept", history, 1)
    RecallView.create(tmp_path / "opened", HashEmbedder()).close()
    for batch in history.batches(0, history.head(), 1):
        view = RecallView.open(tmp_path / "opened", HashEmbedder())
        view.apply(batch, batch.position)
        view.close()
    opened = RecallView.open(tmp_path / "opened", HashEmbedder())
    assert opened.digest() == kept.digest()
    assert opened.compare_vectors(kept) == 0


def test_two_generations_are_compared_by_cosine(tmp_path: Path) -> None:
    """Vectors count as equal from a cosine of 0.999 on; a missing one equals a missing one."""
    history = eventful_history()
    history.remembered("!?")
    view = posted(tmp_path / "one", history)
    same = posted(tmp_path / "same", history, 1)
    assert view.compare_vectors(same) == 0
    turned = RecallView.create(tmp_path / "turned", BrokenEmbedder(lambda v: v[:, ::-1].copy()))
    post(turned, history)
    with_vector = sum(vector is not None for _, _, vector in view.vectors())
    assert view.compare_vectors(turned) == turned.compare_vectors(view) == with_vector
    nearly = RecallView.create(tmp_path / "nearly", BrokenEmbedder(lambda v: v * 3 + 0.001))
    post(nearly, history)
    # Only the text without a vector, which has one there.
    assert view.compare_vectors(nearly) == 1
    assert view.digest() == same.digest() == turned.digest()


def test_a_row_that_is_missing_counts_as_a_different_vector(tmp_path: Path) -> None:
    """Rows that one of two generations lacks are counted and named."""
    history = eventful_history()
    view = posted(tmp_path / "one", history)
    shorter = RecallView.create(tmp_path / "two", HashEmbedder())
    shorter.apply(history.batch(0, 2), 0)
    lacking = view.rows_count() - shorter.rows_count()
    assert view.compare_vectors(shorter) == shorter.compare_vectors(view) == lacking
    lines = view.differences(shorter)
    assert 0 < len(lines) <= 10
    assert view.differences(view) == []


def test_the_digest_does_not_read_vectors(tmp_path: Path) -> None:
    """Generations whose vectors differ have one digest: vectors are compared by cosine."""
    history = eventful_history()
    turned = RecallView.create(tmp_path / "turned", BrokenEmbedder(lambda v: v[:, ::-1].copy()))
    post(turned, history)
    assert turned.digest() == posted(tmp_path / "one", history).digest()


def test_search_text_says_who_what_and_when() -> None:
    """Keyword search sees the words of content, caption and date; who said it stands apart."""
    history = History()
    history.remembered(
        "Look!",
        kind="message",
        payload={"speaker": "Ann", "caption": "a red kite"},
        valid_from=START,
    )
    state = project_memory(None, history.events())
    assert state is not None
    text = search_text(state.payload, state.columns.valid_from)
    assert text == "look red kite 5 januari 2026"
