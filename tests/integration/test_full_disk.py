"""A disk that fills while a view is posted or built is said, costs nothing, and passes."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from memoriale.adapters.application.former_views import open_former_recall, recall_fingerprint
from memoriale.adapters.embeddings.hashing import HashEmbedder
from memoriale.domain.errors import UnavailableError
from memoriale.projections.generations import Generations
from memoriale.projections.posted import PostedView, ViewKind
from memoriale.projections.recall.view import VERSION, RecallView
from memoriale.projections.reconcile import reconcile
from memoriale.projections.replay import replay
from memoriale.projections.stats.snapshots import Snapshots
from memoriale.projections.stats.view import stats_kind
from tests.fixtures.embedded import eventually
from tests.fixtures.embedding_cache import CacheScene
from tests.fixtures.events import History
from tests.fixtures.file_systems import file_system, fill, remount
from tests.integration.test_mart_star import rows
from tests.integration.test_posted_views import live_folder, summary
from tests.integration.test_reconcile_recall import recall_kind as kind_with
from tests.integration.test_stats_view import mixed_history

ROOT: Final = Path(__file__).parents[2]
ROUNDS: Final = 60
EVENTS: Final = 5 * ROUNDS
FREE: Final = (0, 20_000, 100_000, 150_000)
"""Bytes that are left: the disk is full at another step of the work each time."""


@pytest.fixture
def disk() -> Iterator[Path]:
    with file_system("size=16m") as place:
        yield place


@pytest.fixture
def history() -> History:
    return mixed_history(ROUNDS)


def recall_kind(width: int = 64) -> ViewKind[RecallView]:
    embedder = HashEmbedder(width)
    return replace(
        kind_with(embedder),
        fingerprint=recall_fingerprint(VERSION, embedder),
        batch=100,
        open_former=open_former_recall,
    )


def view_in(folder: Path, name: str, history: History) -> PostedView[Any]:
    kind = recall_kind() if name == "recall" else replace(stats_kind(), batch=100)
    return PostedView(kind, Generations(folder / name), history)


@pytest.fixture(params=["recall", "stats"])
def posted(
    request: pytest.FixtureRequest, disk: Path, history: History
) -> Iterator[PostedView[Any]]:
    """Both views, caught up, on the small disk."""
    view = view_in(disk, request.param, history)
    assert view.run(summary, wait=60) == (EVENTS, 0, False)
    yield view
    view.close()


def digest(posted: PostedView[Any]) -> str:
    with posted.read(wait=60) as reading:
        return str(reading.view.digest().value)


def left(posted: PostedView[Any]) -> set[str]:
    return {path.name for path in posted.generations.folder.iterdir()}


def only_live(posted: PostedView[Any]) -> set[str]:
    return {live_folder(posted).name, "CURRENT", "writer.lock", "writer.turn"}


def check_told(error: UnavailableError, place: Path) -> None:
    """It says which disk, and what to do."""
    assert (type(error), error.code, error.exit_code) == (UnavailableError, "disk_full", 5)
    assert str(place) in error.message
    assert "free some space" in error.message


def more(history: History, count: int = 150) -> None:
    for number in range(count):
        history.remembered(f"more {number} " + " ".join(f"word{n}{number}" for n in range(40)))


@pytest.mark.parametrize("free", FREE)
def test_replay(posted: PostedView[Any], disk: Path, history: History, free: int) -> None:
    """Replay ends with an error, the live view is as it was, and nothing half-built is left; with
    space the same call goes through."""
    before = digest(posted), live_folder(posted)
    fill(disk / "filler", but=free)
    with pytest.raises(UnavailableError) as failure:
        replay(posted, history)
    check_told(failure.value, disk)
    assert left(posted) == only_live(posted)
    assert (digest(posted), live_folder(posted)) == before
    assert posted.run(summary, wait=60) == (EVENTS, 0, False)
    (disk / "filler").unlink()
    assert replay(posted, history).equal
    assert left(posted) == only_live(posted)


@pytest.mark.parametrize("free", FREE)
def test_reconcile(posted: PostedView[Any], disk: Path, history: History, free: int) -> None:
    """Reconcile likewise."""
    fill(disk / "filler", but=free)
    kind = posted.kind if posted.kind.compare else replace(posted.kind, compare=lambda *_: iter(()))
    again = PostedView(kind, posted.generations, history)
    with pytest.raises(UnavailableError) as failure:
        reconcile(again, history, repair=True)
    check_told(failure.value, disk)
    assert left(posted) == only_live(posted)
    (disk / "filler").unlink()
    assert reconcile(again, history).ok


@pytest.mark.parametrize("free", FREE)
def test_catch_up(posted: PostedView[Any], disk: Path, history: History, free: int) -> None:
    """A read answers from what the view has and says why it is behind; whoever posts for others
    gets the error; with space the next read is caught up and equal to a rebuild."""
    fill(disk / "filler", but=free)
    more(history, 600)
    for _ in range(3):
        with posted.read(wait=60) as reading:
            assert EVENTS <= reading.position < history.head()
            assert reading.behind == history.head() - reading.position
            assert not reading.rebuilt
            assert reading.failure is not None
            check_told(reading.failure, disk)
            assert reading.view.position() == reading.position
            reading.view.digest()
    with pytest.raises(UnavailableError) as failure:
        posted.post(60)
    check_told(failure.value, disk)
    (disk / "filler").unlink()
    assert posted.run(summary, wait=60) == (EVENTS + 600, 0, False)
    assert replay(posted, history).equal
    assert left(posted) == only_live(posted)


def test_a_view_that_does_not_exist_yet(disk: Path, history: History) -> None:
    """Without a view there is nothing to answer from: that is an error, and leaves nothing."""
    fill(disk / "filler")
    for name in ("recall", "stats"):
        view = view_in(disk, name, history)
        for _ in range(2):
            with pytest.raises(UnavailableError) as failure:
                view.run(summary, wait=60)
            check_told(failure.value, disk)
        assert left(view) == {"writer.lock", "writer.turn"}
    (disk / "filler").unlink()
    assert view_in(disk, "stats", history).run(summary, wait=60) == (EVENTS, 0, False)
    assert view_in(disk, "recall", history).run(summary, wait=60) == (EVENTS, 0, False)


def test_a_damaged_view(posted: PostedView[Any], disk: Path, history: History) -> None:
    """A damaged view cannot be rebuilt on a full disk; with space it is."""
    for path in live_folder(posted).rglob("*"):
        if path.suffix in (".lance", ".duckdb") and path.is_file():
            path.write_bytes(b"no view")
    fill(disk / "filler")
    again = PostedView(posted.kind, posted.generations, history)
    with pytest.raises(UnavailableError) as failure:
        again.run(lambda reading: reading.view.digest())
    check_told(failure.value, disk)
    (disk / "filler").unlink()
    again.run(lambda reading: reading.view.digest())
    assert again.run(summary, wait=60) == (EVENTS, 0, False)
    assert left(again) == only_live(again)
    again.close()


def test_files_of_writes_that_failed(disk: Path, history: History) -> None:
    """What a write left that met the full disk in its last step goes with the next tidying."""
    posted = view_in(disk, "recall", history)
    posted.run(summary, wait=60)
    data = live_folder(posted) / "versions.lance" / "data"
    known, orphans = set(data.iterdir()), set[Path]()
    for free in range(0, 400_000, 8_000):
        fill(disk / "filler", but=free)
        more(history, 100)
        with posted.read(wait=60) as reading:
            failed = reading.failure is not None
        orphans = set(data.iterdir()) - known
        if failed and orphans:
            break
        known = set(data.iterdir())
    assert orphans
    (disk / "filler").unlink()
    assert posted.run(summary, wait=60)[1] == 0
    before = digest(posted)
    posted.run(lambda reading: reading.view.table.optimize(), wait=60)
    assert not orphans & set(data.iterdir())
    assert digest(posted) == before
    posted.close()


def test_a_disk_that_may_not_be_written(disk: Path, history: History) -> None:
    """A disk that was mounted read-only answers as well, from what is there."""
    posted = view_in(disk, "recall", history)
    posted.run(summary, wait=60)
    more(history, 10)
    remount(disk, "ro")
    try:
        with posted.read(wait=60) as reading:
            assert (reading.position, reading.behind) == (EVENTS, 10)
            assert reading.failure is not None
            assert reading.failure.code == "read_only"
    finally:
        remount(disk, "rw")
    assert posted.run(summary, wait=60) == (EVENTS + 10, 0, False)
    posted.close()


def test_the_successor_of_another_model(disk: Path, history: History) -> None:
    """While the disk is full the former model's view answers, and no half-built successor takes
    room; with space the successor is built."""
    old = PostedView(recall_kind(), Generations(disk / "recall"), history)
    old.run(summary, wait=60)
    old.close()
    fill(disk / "filler", but=100_000)
    posted = PostedView(recall_kind(32), Generations(disk / "recall"), history)
    with posted.read(wait=0) as reading:
        assert (reading.position, reading.rebuilding) == (EVENTS, True)
    posted.close()
    assert left(posted) - {"successor.lock"} == only_live(posted)
    (disk / "filler").unlink()
    assert eventually(lambda: not _is_rebuilding(posted))
    assert left(posted) - {"successor.lock"} == only_live(posted)
    posted.close()


def _is_rebuilding(posted: PostedView[RecallView]) -> bool:
    with posted.read(wait=1) as reading:
        return reading.rebuilding


@pytest.mark.parametrize("free", [0, 300_000, 1_500_000])
def test_publishing(disk: Path, tmp_path: Path, history: History, free: int) -> None:
    """The snapshot before stays the newest, whole, and no draft is left; with space the next one
    is published."""
    posted = view_in(tmp_path, "stats", history)
    snapshots = Snapshots(disk / "snapshots", history.log_id)
    first = snapshots.publish(posted)
    more(history, 20)
    fill(disk / "filler", but=free)
    with pytest.raises(UnavailableError) as failure:
        snapshots.publish(posted)
    check_told(failure.value, disk)
    assert list(snapshots.folder.glob("draft-*")) == []
    assert snapshots.current() == first
    assert rows(first, "SELECT count(*) FROM events") == [(EVENTS,)]
    (disk / "filler").unlink()
    assert snapshots.publish(posted).position == EVENTS + 20
    posted.close()


def test_publishing_a_view_that_cannot_be_posted(
    disk: Path, tmp_path: Path, history: History
) -> None:
    """A snapshot of what the view happens to have is not what was asked for."""
    posted = view_in(disk, "stats", history)
    posted.run(summary, wait=60)
    more(history, 600)
    fill(disk / "filler")
    snapshots = Snapshots(tmp_path / "snapshots", history.log_id)
    with pytest.raises(UnavailableError) as failure:
        snapshots.publish(posted)
    check_told(failure.value, disk)
    assert snapshots.current() is None
    posted.close()


def test_parquet(disk: Path, tmp_path: Path, history: History) -> None:
    """Files that did not get whole are removed; those that were there stay."""
    from memoriale.projections.stats.publishing import export_parquet

    posted = view_in(tmp_path, "stats", history)
    snapshot = Snapshots(tmp_path / "snapshots", history.log_id).publish(posted)
    posted.close()
    folder = disk / "parquet"
    folder.mkdir()

    def fail() -> None:
        fill(disk / "filler", but=20_000)
        with pytest.raises(UnavailableError) as failure:
            export_parquet(snapshot.path, folder)
        check_told(failure.value, folder)
        (disk / "filler").unlink()

    fail()
    assert list(folder.iterdir()) == []
    files = export_parquet(snapshot.path, folder)
    content = {path: path.read_bytes() for path in folder.iterdir()}
    assert {*content} == {*files}
    fail()
    assert {path: path.read_bytes() for path in folder.iterdir()} == content


def test_the_embedding_cache(disk: Path, tmp_path: Path, cache_scene: CacheScene) -> None:
    """Vectors are computed where they cannot be kept, the cache stays whole, and keeps again."""
    from memoriale.adapters.embeddings.cache import EmbeddingCache
    from memoriale.adapters.embeddings.cached import CachedEmbedder

    cache = EmbeddingCache(disk / "cache" / "a.sqlite")
    alice = cache_scene.owner("alice")

    def computed(*texts: str) -> int:
        embedder = CachedEmbedder(HashEmbedder(), cache, cache_scene.identities)
        assert embedder.embed_owned([alice] * len(texts), texts).shape == (len(texts), 64)
        return embedder.computed

    assert computed("one") == 1
    many = [f"text {number}" for number in range(400)]
    for free in (0, 5_000, 50_000):
        fill(disk / "filler", but=free)
        assert computed(*many) > 0
        assert computed("one") == 0
        assert [path.name for path in cache.path.parent.iterdir()] == ["a.sqlite"]
    (disk / "filler").unlink()
    assert computed(*many) > 0
    assert computed(*many) == 0


def work(folder: str, name: str) -> None:
    """What a process does that may write small files only: reads and replays."""
    import resource

    history = mixed_history(ROUNDS)
    view = view_in(Path(folder), name, history)
    view.run(summary, wait=60)
    more(history, 600)
    limit = max(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file()) // 8
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, most))
    with view.read(wait=60) as reading:
        print(json.dumps([reading.position, reading.failure and reading.failure.code]))
    try:
        replay(view, history)
    except UnavailableError as error:
        print(json.dumps([error.code, error.message]))
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    print(json.dumps([replay(view, history).equal, *view.run(summary, wait=60)]))
    assert left(view) == only_live(view)


@pytest.mark.parametrize("name", ["recall", "stats"])
def test_a_limit_of_file_sizes(tmp_path: Path, name: str) -> None:
    """A limit of the size of files (``ulimit -f``) is met as a full disk is, without root too."""
    code = f"from {__name__} import work; import sys; work(*sys.argv[1:])"
    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path), name],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    first, second, third = map(json.loads, run.stdout.splitlines())
    assert (first[1], second[0]) == ("disk_full", "disk_full")
    assert EVENTS <= first[0] < EVENTS + 600
    assert str(tmp_path) in second[1]
    assert third == [True, EVENTS + 600, 0, False]
