"""A build that was killed is gone on with if it still fits, and never otherwise."""

import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from memoriale.domain.errors import UnavailableError
from memoriale.projections.building import NOTE, Build
from memoriale.projections.generations import Generations
from memoriale.projections.posted import PostedView, ViewKind
from memoriale.projections.reconcile import reconcile
from memoriale.projections.replay import replay
from memoriale.projections.view import Batch
from tests.fixtures.events import History
from tests.integration.test_posted_views import Log, live_folder, summary
from tests.integration.test_reconcile_recall import recall_kind
from tests.integration.test_reconcile_stats import KIND as STATS
from tests.integration.test_stats_view import mixed_history

ROOT: Final = Path(__file__).parents[2]
ROUNDS: Final = 20
KILLS: Final = 30
AT_ONCE: Final = 3
SEED: Final = 1494

KINDS: Final[dict[str, ViewKind[Any]]] = {
    "recall": replace(recall_kind(), batch=5),
    "stats": replace(STATS, batch=5),
}


class Keyed(Log):
    """A log whose keys can be destroyed."""

    destroyed = 0

    def erasures(self) -> int:
        return self.destroyed


@pytest.fixture
def log() -> Keyed:
    return Keyed(mixed_history(10))


@pytest.fixture(params=sorted(KINDS))
def posted(request: pytest.FixtureRequest, tmp_path: Path, log: Keyed) -> PostedView[Any]:
    return PostedView(KINDS[request.param], Generations(tmp_path / request.param), log)


def half_built(posted: PostedView[Any], stop: int) -> Path:
    """Leaves a build as a killed builder does."""
    build = Build.begin(posted.kind, posted.generations, posted.source)
    build.post(stop)
    build.leave()
    return build.generation.folder


def test_replay_goes_on(posted: PostedView[Any], log: Keyed) -> None:
    """A replay continues a half-built generation: the log is read from there on."""
    posted.run(summary, wait=60)
    folder = half_built(posted, 30)
    log.posted = 0
    report = replay(posted, log)
    assert (report.equal, report.events, report.resumed_at) == (True, 50, 30)
    # One event is read again, to see that the log is the same.
    assert log.posted == 21
    assert live_folder(posted) == folder
    assert not (folder / NOTE).exists()


def test_read_and_reconcile_go_on(posted: PostedView[Any], log: Keyed) -> None:
    """So does a rebuild before a read, and a reconciliation."""
    posted.run(summary, wait=60)
    folder = half_built(posted, 30)
    log.posted = 0
    assert reconcile(posted, log).ok
    assert log.posted == 21
    assert not folder.exists()
    folder = half_built(posted, 40)
    for path in live_folder(posted).rglob("*"):
        if path.is_file():
            path.write_bytes(b"x")
    log.posted = 0
    assert posted.run(summary, wait=60) == (50, 0, True)
    assert log.posted == 11
    assert live_folder(posted) == folder


def other_model(posted: PostedView[Any], log: Keyed, folder: Path) -> None:
    posted.kind = replace(posted.kind, fingerprint="another")


def other_history(posted: PostedView[Any], log: Keyed, folder: Path) -> None:
    log.history = History()
    for number in range(50):
        log.history.remembered(f"restored and gone on with {number}")


def shorter_history(posted: PostedView[Any], log: Keyed, folder: Path) -> None:
    log.history.rows = log.history.rows[:20]


def destroyed_key(posted: PostedView[Any], log: Keyed, folder: Path) -> None:
    log.destroyed = 1
    log.history.erase(next(iter(log.history.memories)))


def no_note(posted: PostedView[Any], log: Keyed, folder: Path) -> None:
    (folder / NOTE).unlink()


def torn_note(posted: PostedView[Any], log: Keyed, folder: Path) -> None:
    (folder / NOTE).write_bytes((folder / NOTE).read_bytes()[:20])


def damaged_files(posted: PostedView[Any], log: Keyed, folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file() and path.name != NOTE:
            path.write_bytes(b"x")


MISFITS: Final[dict[str, Callable[[PostedView[Any], Keyed, Path], None]]] = {
    "another model": other_model,
    "another history": other_history,
    "a shorter log": shorter_history,
    "a destroyed key": destroyed_key,
    "no note": no_note,
    "a torn note": torn_note,
    "damaged files": damaged_files,
}


@pytest.mark.parametrize("name", MISFITS)
def test_what_does_not_fit(posted: PostedView[Any], log: Keyed, name: str, tmp_path: Path) -> None:
    """What was built otherwise, of another log, or before an erasure, is removed."""
    folder = half_built(posted, 30)
    MISFITS[name](posted, log, folder)
    report = replay(posted, log)
    assert (report.resumed_at, report.events) == (0, log.head())
    assert not folder.exists()
    clean = PostedView(posted.kind, Generations(tmp_path / "clean"), log)
    digest = clean.run(lambda reading: reading.view.digest(), wait=60)
    assert report.digest_rebuilt == digest.value


def test_mark_of_a_batch_that_was_not_posted(posted: PostedView[Any], log: Keyed) -> None:
    """A builder that was killed between its note and its batch is gone on with where it stood."""
    build = Build.begin(posted.kind, posted.generations, log)
    build.post(20)
    build._mark(log.history.batch(20, 30))
    build.leave()
    report = replay(posted, log)
    assert (report.equal, report.resumed_at) == (True, 20)


def test_key_destroyed_while_building(posted: PostedView[Any], log: Keyed) -> None:
    """A generation that was being built while a key was destroyed is not put in place."""
    posted.run(summary, wait=60)
    live = live_folder(posted)

    def destroy(batch: Batch) -> None:
        if batch.position == 30:
            log.destroyed = 1

    log.before = destroy
    with pytest.raises(UnavailableError) as caught:
        replay(posted, log)
    assert caught.value.code == "erased_meanwhile"
    assert live_folder(posted) == live
    assert replay(posted, log).equal


class Telling(Log):
    """A log that tells before each batch."""

    def batches(self, position: int, stop: int, size: int) -> Iterator[Batch]:
        for batch in self.history.batches(position, stop, size):
            print(batch.position, flush=True)
            yield batch


def work(folder: str, view: str, what: str) -> None:
    """What a worker process does until it is killed: catches a view up, or replays it."""
    source = Telling(mixed_history(ROUNDS))
    posted = PostedView(KINDS[view], Generations(Path(folder) / view), source)
    while True:
        if what == "replay":
            replay(posted, source)
        elif what == "reconcile":
            reconcile(posted, source, repair=True)
        else:
            posted.run(summary, wait=60)
            print("done", flush=True)


def started(folder: Path, view: str, what: str) -> "subprocess.Popen[str]":
    code = f"from {__name__} import work; import sys; work(*sys.argv[1:])"
    command = [sys.executable, "-c", code, str(folder), view, what]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def killed(process: "subprocess.Popen[str]", lines: int) -> None:
    assert process.stdout is not None
    try:
        for _ in range(lines):
            assert process.stdout.readline()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.slow
def test_kills(tmp_path: Path) -> None:
    """After 30 kills in catching up, replaying and reconciling, three processes at once, both
    views are those that a single run gives."""
    chance = random.Random(SEED)
    for _ in range(KILLS // AT_ONCE):
        views = [chance.choice(sorted(KINDS)) for _ in range(AT_ONCE)]
        tasks = [chance.choice(("read", "replay", "reconcile")) for _ in range(AT_ONCE)]
        workers = [started(tmp_path, *pair) for pair in zip(views, tasks, strict=True)]
        for process in workers:
            killed(process, chance.randint(1, 15))
    log = Log(mixed_history(ROUNDS))
    for name, kind in KINDS.items():
        survivor = PostedView(kind, Generations(tmp_path / name), log)
        assert reconcile(survivor, log).ok
        report = replay(survivor, log)
        clean = PostedView(kind, Generations(tmp_path / "clean" / name), log)
        digest = clean.run(lambda reading: reading.view.digest(), wait=60)
        assert (report.equal, report.digest_live) == (True, digest.value)
        folders = [path for path in survivor.generations.folder.iterdir() if path.is_dir()]
        assert folders == [live_folder(survivor)]
