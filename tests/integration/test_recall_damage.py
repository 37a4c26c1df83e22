"""Damaged files are told as damage, or by the digest where LanceDB itself notices nothing."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memoriale.adapters.embeddings.hashing import HashEmbedder
from memoriale.domain.errors import CorruptViewError, UnavailableError
from memoriale.projections.generations import Generations
from memoriale.projections.posted import PostedView, Reading
from memoriale.projections.recall.lance_errors import lance_errors, once_more
from memoriale.projections.recall.view import RecallView
from memoriale.projections.replay import replay
from tests.fixtures.events import History
from tests.integration.test_posted_views import live_folder
from tests.integration.test_recall_search import ask
from tests.integration.test_recall_view import posted, rows
from tests.integration.test_reconcile_recall import recall_kind

SECRET = "zebra"


def long_history() -> History:
    history = History()
    for number in range(300):
        history.remembered(f"red kite {number} {SECRET}{number}")
    return history


def built(folder: Path) -> History:
    history = long_history()
    view = posted(folder, history)
    view.table.optimize()
    view.close()
    return history


def files(folder: Path, part: str) -> list[Path]:
    found = sorted(p for p in folder.glob(f"versions.lance/{part}/**/*") if p.is_file())
    assert found
    return found


def use(folder: Path, history: History) -> None:
    """What anybody does with a view: open, search both ways, post, digest."""
    view = RecallView.open(folder, HashEmbedder())
    assert len(ask(view, history, "red kite")) == 5
    view.digest()
    view.compare_vectors(view)
    note = history.remembered("one more")
    history.corrected(note, "one more, corrected")
    history.corrected(min(history.memories), "an old one, corrected")
    for batch in history.batches(view.position(), history.head(), 1_000):
        view.apply(batch, batch.position)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def scramble(path: Path) -> None:
    path.write_bytes(bytes(byte ^ 0x5A for byte in path.read_bytes()))


@pytest.mark.parametrize("part", ["data", "_versions"])
@pytest.mark.parametrize("damage", [truncate, empty, scramble, Path.unlink])
def test_damaged_files_are_told(tmp_path: Path, part: str, damage: Callable[[Path], None]) -> None:
    """Cut, emptied, scrambled or deleted data or manifest files make the view corrupt."""
    history = built(tmp_path)
    for path in files(tmp_path, part):
        damage(path)
    with pytest.raises(CorruptViewError) as failure:
        use(tmp_path, history)
    assert str(tmp_path) in failure.value.message
    assert "kite" not in failure.value.message


@pytest.mark.parametrize("fresh", [True, False])
def test_a_missing_fragment_is_made_again(tmp_path: Path, fresh: bool) -> None:
    """When one file of several is gone, a read finds out, rebuilds the view from the log and
    answers whole; a process that has the rows in memory does so when it posts."""
    history = long_history()
    posted_view = PostedView(recall_kind(), Generations(tmp_path), history)

    def answer(reading: Reading[RecallView]) -> tuple[int, bool]:
        return len(ask(reading.view, history, "red kite", top_k=1_000)), reading.rebuilt

    assert posted_view.run(answer) == (300, False)
    history.remembered("red kite once more")
    assert posted_view.run(answer) == (301, False)
    max(files(live_folder(posted_view), "data"), key=lambda file: file.stat().st_size).unlink()
    if fresh:
        posted_view = PostedView(recall_kind(), Generations(tmp_path), history)
    else:
        history.corrected(min(history.memories), "red kite, corrected")
    assert posted_view.run(answer, wait=60) == (301, True)
    assert replay(posted_view, history).equal


@pytest.mark.parametrize("damage", [truncate, empty, Path.unlink])
def test_damaged_indexes_are_told(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    """An index that cannot be read makes the view corrupt; hits are not left out silently."""
    history = built(tmp_path)
    for path in files(tmp_path, "_indices"):
        damage(path)
    with pytest.raises(CorruptViewError):
        use(tmp_path, history)


def test_a_missing_view_is_told(tmp_path: Path) -> None:
    """A folder without a view, or with a deleted one, cannot be opened."""
    with pytest.raises(CorruptViewError):
        RecallView.open(tmp_path, HashEmbedder())
    built(tmp_path)
    shutil.rmtree(tmp_path / "versions.lance")
    with pytest.raises(CorruptViewError):
        RecallView.open(tmp_path, HashEmbedder())


def test_a_view_deleted_while_it_is_open_is_told(tmp_path: Path) -> None:
    """A handle whose files were deleted says so."""
    history = long_history()
    view = posted(tmp_path, history)
    shutil.rmtree(tmp_path / "versions.lance")
    with pytest.raises(CorruptViewError):
        ask(view, history, "kite")


def test_a_lost_position_is_told(tmp_path: Path) -> None:
    """A view without its sentinel row has no position and is corrupt."""
    view = posted(tmp_path, long_history())
    view.table._table.delete("key = -1")
    with pytest.raises(CorruptViewError, match="lost its position"):
        view.position()


def test_the_digest_tells_a_changed_byte(tmp_path: Path) -> None:
    """
    LanceDB has no checksums: a flipped bit that changes a row without an error of the reader is
    told by the digest.
    """
    folder = tmp_path / "view"
    built(folder)
    clean = RecallView.open(folder, HashEmbedder())
    digest, content = clean.digest(), covered_rows(clean)
    path = max(files(folder, "data"), key=lambda file: file.stat().st_size)
    original = path.read_bytes()
    silent = 0
    for offset in range(0, len(original), len(original) // 90):
        # A copy, because LanceDB keeps what it read of a path.
        copy = tmp_path / f"copy{offset}"
        shutil.copytree(folder, copy)
        changed = bytearray(original)
        changed[offset] ^= 0x01
        (copy / path.relative_to(folder)).write_bytes(changed)
        try:
            view = RecallView.open(copy, HashEmbedder())
            found, same = covered_rows(view), view.digest() == digest
        except CorruptViewError:
            continue
        if found != content:
            silent += 1
            assert not same
    assert silent > 0


def covered_rows(view: RecallView) -> list[dict[str, Any]]:
    """Every row without the two columns that the digest leaves out."""
    return rows(view, *(n for n in view.table.column_names if n not in ("seq", "vector")))


def test_a_full_disk_is_no_damage(tmp_path: Path) -> None:
    """A disk that is full, or a folder that may not be written, does not ask for a rebuild; the
    error names the folder."""
    for words, code in (
        ("No space left on device (os error 28)", "disk_full"),
        ("File too large (os error 27)", "disk_full"),
        ("Permission denied (os error 13)", "read_only"),
        ("Too many open files (os error 24)", "open_files"),
    ):
        with pytest.raises(UnavailableError) as failure, lance_errors(tmp_path):
            raise RuntimeError(f"lance error: LanceError(IO): {words}")
        assert (type(failure.value), failure.value.code) == (UnavailableError, code)
        assert str(tmp_path) in failure.value.message


def test_passing_failures_are_tried_once_more(tmp_path: Path) -> None:
    """A lost race with a compaction is tried again once, other failures are not."""
    for message, tries in (
        ("lance error: Retryable commit conflict for version 7", 2),
        ("lance error: Not found: x/_versions/7.manifest", 2),
        ("lance error: x/_indices/1/part_0.lance: No such file or directory (os error 2)", 2),
        ("lance error: something else", 1),
    ):
        calls: list[int] = []

        def fail(message: str = message, calls: list[int] = calls) -> None:
            calls.append(1)
            with lance_errors(tmp_path):
                raise RuntimeError(message)

        with pytest.raises(CorruptViewError):
            once_more(fail)
        assert len(calls) == tries


@pytest.mark.parametrize("name", ["PanicException", "RustPanic"])
def test_panics_are_damage(tmp_path: Path, name: str) -> None:
    """A panic of LanceDB, in whichever thread, is told as damage; a chance decides which."""
    panic = type(name, (BaseException,), {})
    with pytest.raises(CorruptViewError), lance_errors(tmp_path):
        raise panic("rust future panicked: unknown error")


def test_other_failures_pass_through(tmp_path: Path) -> None:
    """An interrupt, or an error that is no file's, is not taken for damage."""
    for kind in (KeyboardInterrupt, KeyError, CorruptViewError):
        with pytest.raises(kind), lance_errors(tmp_path):
            raise kind("x")
