"""Killed at any moment, a publisher leaves the snapshot before or the one after, whole."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest

from memoriale.projections.generations import Generations
from memoriale.projections.posted import PostedView
from memoriale.projections.proofs.merkle import root_of
from memoriale.projections.stats.snapshots import Snapshot, Snapshots
from memoriale.projections.stats.view import stats_kind
from tests.fixtures.events import History
from tests.integration.test_mart_star import rows
from tests.integration.test_stats_view import mixed_history

ROOT: Final = Path(__file__).parents[2]
ROUNDS: Final = 60
MOST: Final = 40
KILLS: Final = 14
SEED: Final = 1494
DRAFTS: Final = ("draft-live.duckdb", "draft-snapshot.duckdb", "draft-snapshot.duckdb.wal")


def work(folder: str) -> None:
    """What the worker does: more events, a snapshot, and again; tells each position."""
    history = mixed_history(ROUNDS)
    posted = PostedView(stats_kind(), Generations(Path(folder) / "view"), history)
    snapshots = Snapshots(Path(folder) / "snapshots", history.log_id)
    found = snapshots.current()
    for number in range(MOST):
        history.remembered(f"more {number}")
        if found is None or history.head() > found.position:
            print(snapshots.publish(posted).position, flush=True)


def made_at(draft: Path) -> int | None:
    """Tells one draft from another of the same name; None: there is none."""
    try:
        return draft.stat().st_ctime_ns
    except FileNotFoundError:
        return None


def killed(folder: Path, chance: random.Random) -> list[int]:
    """Starts a worker, kills it while it publishes. Returns the positions that it told."""
    code = f"from {__name__} import work; import sys; work(sys.argv[1])"
    draft = folder / "snapshots" / chance.choice(DRAFTS)
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert process.stdout is not None
    deadline = time.monotonic() + 120
    try:
        told = [int(process.stdout.readline()) for _ in range(chance.randint(0, 2))]
        before = made_at(draft)
        while made_at(draft) in (None, before) and time.monotonic() < deadline:
            pass
        for _ in range(chance.randint(0, 600_000)):
            pass
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        told += [int(line) for line in process.stdout]
        process.stdout.close()
    return told


def check_whole(snapshot: Snapshot, history: History) -> None:
    """It opens, has the events up to its position, and the root over them."""
    position = snapshot.position
    assert rows(snapshot, 'SELECT count(*), max("index") + 1 FROM events') == [(position,) * 2]
    leaves = [row.recorded.leaf_hash for row in history.rows[:position]]
    assert snapshot.root == root_of(leaves).hex()
    assert rows(snapshot, "SELECT position, hex(root) FROM snapshot") == [
        (position, snapshot.root.upper())
    ]
    assert rows(snapshot, "SELECT sum(memories) FROM kinds")[0][0] > 0


@pytest.mark.slow
def test_kills_while_publishing(tmp_path: Path) -> None:
    """After each kill −9 the pointer names a whole snapshot, never older than one that was told,
    and the next publisher goes on and removes what was left."""
    history, chance = mixed_history(ROUNDS), random.Random(SEED)
    for number in range(MOST):
        history.remembered(f"more {number}")
    snapshots = Snapshots(tmp_path / "snapshots", history.log_id)
    last, within = 0, 0
    for _ in range(KILLS):
        told = killed(tmp_path, chance)
        within += any(snapshots.folder.glob("draft-*"))
        found = snapshots.current()
        assert (found.position if found else 0) >= max([last, *told])
        if found is not None:
            check_whole(found, history)
            last = found.position
    assert within > 0
    posted = PostedView(stats_kind(), Generations(tmp_path / "view"), history)
    end = snapshots.publish(posted)
    posted.close()
    assert end.position == history.head()
    check_whole(end, history)
    assert list(snapshots.folder.glob("draft-*")) == []
