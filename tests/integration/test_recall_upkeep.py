"""A recall view's files are joined and indexed in steps that do not grow with it."""

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from memoriale.projections.recall import table as table_module
from memoriale.projections.recall import upkeep
from memoriale.projections.recall.schema import (
    KEY_INDEX,
    WORDS_INDEX,
    index_configs,
    index_name,
)
from memoriale.projections.recall.view import RecallView
from tests.fixtures.events import History
from tests.integration.test_recall_view import post, posted

FULL = 40


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are full with forty rows, and small ones are few from six on."""
    for module in (upkeep, table_module):
        monkeypatch.setattr(module, "ROWS_IN_FILE", FULL)
    monkeypatch.setattr(table_module, "_MOST_UNINDEXED", 10)
    monkeypatch.setattr(table_module, "_MOST_FILES", 6)
    monkeypatch.setattr(upkeep, "_MOST_INDEXED", 3)


def files(view: RecallView) -> dict[str, int]:
    """The table's files that its newest version holds, with the number of their rows."""
    import lance

    data = lance.dataset(str(view.table.folder / "versions.lance"))
    return {f.metadata.files[0].path: f.metadata.physical_rows for f in data.get_fragments()}


def remember(view: RecallView, history: History, count: int) -> None:
    """That many commits of one memory each."""
    for number in range(count):
        history.remembered(f"memory {number} of {history.head()}")
        post(view, history, 1)


def test_a_full_file_is_left_as_it_is(tmp_path: Path) -> None:
    """However many commits follow: only what is small is written again."""
    history = History()
    view = posted(tmp_path, history)
    remember(view, history, 2 * FULL)
    view.table.optimize()
    full = {name for name, count in files(view).items() if count >= FULL}
    assert full
    remember(view, history, FULL)
    assert full < set(files(view))
    assert view.digest() == posted_afresh(tmp_path, history).digest()


def test_few_files_stay_however_many_commits_there_are(tmp_path: Path) -> None:
    """Small files are counted without the full ones, and are joined in time."""
    history = History()
    view = posted(tmp_path, history)
    most = 0
    for _ in range(3 * FULL):
        remember(view, history, 1)
        most = max(most, view.table.small_files())
    assert most <= 6 + 3
    assert len(files(view)) <= 3 + 6 + 3
    view.table.optimize()
    assert view.table.small_files() <= 1


def test_every_row_is_found_before_and_after(tmp_path: Path) -> None:
    """By its key, which is indexed, and by what is not; corrections close the rows before."""
    history = History()
    view = posted(tmp_path, history)
    first = history.remembered("the first")
    post(view, history)
    remember(view, history, FULL)
    history.corrected(first, "the first, better")
    post(view, history)
    of_first = f"memory_id = '{first.hex}'"
    for _ in range(2):
        assert texts(view, "key = 0") == ["the first"]
        assert texts(view, of_first) == ["the first", "the first, better"]
        view.table.optimize()
    stats = view.table._table.index_stats(KEY_INDEX)
    assert (stats.num_unindexed_rows, stats.num_indexed_rows) == (0, view.table.count())


def test_rows_that_are_deleted_go_in_the_end(tmp_path: Path) -> None:
    """Each commit replaces the row of the position; the space of the old ones comes back."""
    history = History()
    view = posted(tmp_path, history)
    remember(view, history, 60)
    view.table.optimize()
    assert sum(files(view).values()) == view.table.count() == 61


def test_another_process_may_read_on(tmp_path: Path) -> None:
    """Files of earlier versions stay for a while, so a reader that has one open finds them."""
    history = History()
    view = posted(tmp_path, history)
    remember(view, history, 4)
    before = set(os.listdir(view.table.folder / "versions.lance" / "data"))
    view.table.optimize()
    assert before < set(os.listdir(view.table.folder / "versions.lance" / "data"))


@pytest.mark.parametrize("column", index_configs())
def test_an_index_that_went_missing_is_made_again(tmp_path: Path, column: str) -> None:
    """Lance drops one that is damaged; posting and upkeep go on, and every row is in it again."""
    history = History()
    view = posted(tmp_path, history)
    remember(view, history, 3)
    view.table._table.drop_index(index_name(column))
    remember(view, history, 3)
    view.table.optimize()
    stats = view.table._table.index_stats(index_name(column))
    assert stats.num_indexed_rows == view.table.count() == 7
    assert texts(view, "key = 4") == [f"memory 1 of {3 + 1}"]


def test_the_index_of_words_gets_new_rows(tmp_path: Path) -> None:
    """The first search by words makes it, and upkeep puts in what came later."""
    history = History()
    view = posted(tmp_path, history)
    remember(view, history, 3)
    for word in ("harbour", "boat"):
        history.remembered(f"the {word}")
        post(view, history)
        view.table.optimize()
        found = view.table.keyword_search(word, "key >= 0", ("key", "text"), 5)
        assert found["text"].to_pylist() == [f"the {word}"]
    assert view.table._table.index_stats(WORDS_INDEX).num_unindexed_rows == 0


def test_upkeep_has_no_program_warned_of_forks(tmp_path: Path) -> None:
    """Lance would do so at each fork from then on, of what is refused where it matters."""
    code = """
import os, sys
from pathlib import Path
from memoriale.adapters.embeddings.hashing import HashEmbedder
from memoriale.projections.recall.view import RecallView

view = RecallView.create(Path(sys.argv[1]), HashEmbedder())
view.table.optimize()
child = os.fork()
if not child:
    os._exit(0)
os.waitpid(child, 0)
print("done")
"""
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.stdout == "done\n"
    assert "not fork-safe" not in run.stderr


def texts(view: RecallView, where: str) -> list[str]:
    """The texts of some rows, in the order of their keys."""
    found: list[str] = view.table.read(where, ("key", "text")).sort_by("key")["text"].to_pylist()
    return found


def posted_afresh(folder: Path, history: History) -> RecallView:
    """A second view of the same log."""
    other = folder / "afresh"
    other.mkdir()
    return posted(other, history)


def test_earlier_versions_are_looked_through_once_in_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Joining files happens every few commits; what is out of date is removed at the first time,
    after a while again, and whenever everything is tidied."""
    history = History()
    view = posted(tmp_path, history)
    done = list[str]()
    join, forget = upkeep.Upkeep.join_files, upkeep.Upkeep.forget

    def join_told(self: upkeep.Upkeep, *, everything: bool = False) -> None:
        done.append("joined")
        join(self, everything=everything)

    def forget_told(self: upkeep.Upkeep, kept: timedelta) -> None:
        done.append("forgotten")
        forget(self, kept)

    monkeypatch.setattr(upkeep.Upkeep, "join_files", join_told)
    monkeypatch.setattr(upkeep.Upkeep, "forget", forget_told)
    remember(view, history, 30)
    assert done.count("joined") > 2
    assert done.count("forgotten") == 1
    view.table.optimize()
    assert done.count("forgotten") == 2
    monkeypatch.setattr(table_module, "_FORGOTTEN_EVERY", 0.0)
    other = RecallView.open(tmp_path, view.embedder)
    done.clear()
    remember(other, history, 30)
    assert done.count("forgotten") == done.count("joined") > 2
