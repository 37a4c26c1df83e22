"""Processes: killed writers, readers beside a writer, and forks."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from memoriale.adapters.embeddings.hashing import HashEmbedder
from memoriale.domain.errors import ForkedHandleError
from memoriale.projections.recall.schema import OPEN
from memoriale.projections.recall.view import RecallView
from tests.fixtures.events import History
from tests.integration.test_recall_search import ask
from tests.integration.test_recall_view import posted, rows

ROOT: Final = Path(__file__).parents[2]
ROUNDS: Final = 150
BATCH: Final = 4
KILLS: Final = 14
SEED: Final = 1494


def long_history() -> History:
    """Five events a round; later ones close versions of earlier batches."""
    history = History()
    notes = [history.remembered("the first red kite")]
    for number in range(ROUNDS):
        notes.append(history.remembered(f"kite {number}"))
        history.corrected(notes[number], f"boat {number}")
        with history.together():
            history.invalidated(notes[number // 2])
            history.reinstated(notes[number // 2])
        history.amended(notes[number // 3], tags=(str(number),))
    return history


def work(folder: str) -> None:
    """What the worker process does: posts small batches, and tells before each."""
    view, history = RecallView.open(Path(folder), HashEmbedder()), long_history()
    for batch in history.batches(view.position(), history.head(), BATCH):
        print(batch.position, flush=True)
        view.apply(batch, batch.position)
    print("digest", view.digest().value, flush=True)


def started(folder: Path) -> subprocess.Popen[str]:
    code = f"from {__name__} import work; import sys; work(sys.argv[1])"
    command = [sys.executable, "-c", code, str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def killed(folder: Path, chance: random.Random) -> None:
    """Starts a worker and kills it somewhere within the work on one of its batches."""
    process = started(folder)
    assert process.stdout is not None
    began, enough = 0, chance.randint(1, 8)
    try:
        for _ in process.stdout:
            began += 1
            if began == enough:
                break
        for _ in range(chance.randint(0, 400_000)):
            pass
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    assert began == enough


def check_consistent(folder: Path) -> int:
    """Rows and position belong together: nothing of a later batch is there."""
    view = RecallView.open(folder, HashEmbedder())
    position = view.position()
    for row in rows(view, "seq", "recorded_until"):
        assert row["key"] <= row["seq"] < position
        assert row["recorded_until"] == OPEN or row["recorded_until"] < position
    return position


@pytest.mark.slow
def test_kills_while_posting(tmp_path: Path) -> None:
    """After many kills −9 each restart goes on, and the end equals a run without any."""
    folder, chance = tmp_path / "view", random.Random(SEED)
    RecallView.create(folder, HashEmbedder()).close()
    positions = [0]
    for _ in range(KILLS):
        killed(folder, chance)
        positions.append(check_consistent(folder))
    assert positions == sorted(positions)
    assert 0 < positions[-1] < long_history().head()
    worker = started(folder)
    output, _ = worker.communicate(timeout=300)
    assert worker.returncode == 0
    clean = posted(tmp_path / "clean", long_history())
    assert output.splitlines()[-1].split() == ["digest", clean.digest().value]
    view = RecallView.open(folder, HashEmbedder())
    assert view.compare_vectors(clean) == 0


def test_search_while_another_process_posts(tmp_path: Path) -> None:
    """A search beside a writer sees one state: no memory twice, none lost, never an error."""
    RecallView.create(tmp_path, HashEmbedder()).close()
    history = long_history()
    worker = started(tmp_path)
    try:
        view = RecallView.open(tmp_path, HashEmbedder())
        while worker.poll() is None:
            before = view.position()
            hits = ask(view, history, "kite boat", top_k=1_000)
            found = [hit.memory_id for hit in hits]
            assert len(found) == len(set(found))
            remembered = (row.columns for row in history.rows[:before])
            assert {c.memory_id for c in remembered if c.memory_id} <= set(found)
        assert worker.wait() == 0
    finally:
        worker.kill()
        worker.communicate()


def after_fork(folder: str) -> None:
    """What the forking process does: uses a view, forks, and opens another in the child."""
    history = long_history()
    assert ask(RecallView.open(Path(folder), HashEmbedder()), history, "kite")
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        with pytest.raises(ForkedHandleError):
            RecallView.open(Path(folder), HashEmbedder())
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_view_cannot_be_opened_after_a_fork(tmp_path: Path) -> None:
    """LanceDB's threads do not survive a fork, so the child is told at once instead of waiting
    for ever; a process that was started anew uses the view."""
    posted(tmp_path, long_history()).close()
    code = f"from {__name__} import after_fork; import sys; after_fork(sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, check=True, timeout=120)
