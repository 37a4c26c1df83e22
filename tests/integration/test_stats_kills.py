"""Killed at any moment, the stats view goes on from where it stood and ends up the same."""

import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from memoriale.projections.generations import Generations
from memoriale.projections.posted import PostedView
from memoriale.projections.stats.view import StatsView, stats_kind
from tests.fixtures.announced import Announced
from tests.integration.test_stats_view import clean_digest, mixed_history

ROOT: Final = Path(__file__).parents[2]
ROUNDS: Final = 400
KILLS: Final = 15
SEED: Final = 1494


def work(folder: str) -> None:
    """What the worker process does: catches the view up and prints its digest."""
    source = Announced(mixed_history(ROUNDS))
    view = PostedView(stats_kind(), Generations(Path(folder)), source)
    with view.read(wait=600) as reading:
        print("digest", reading.view.digest().value, reading.position, flush=True)


def started(folder: Path) -> subprocess.Popen[str]:
    code = f"from {__name__} import work; import sys; work(sys.argv[1])"
    command = [sys.executable, "-c", code, str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def finished(process: subprocess.Popen[str]) -> list[str]:
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return output.splitlines()[-1].split()


def killed(folder: Path, chance: random.Random) -> int:
    """Starts a worker and kills it some batches later. Returns the batches that it began."""
    process = started(folder)
    assert process.stdout is not None
    began, enough = 0, chance.randint(1, 12)
    try:
        for _ in process.stdout:
            began += 1
            if began >= enough:
                # The line is printed before the batch is applied: land somewhere within.
                spin(chance.randint(0, 600_000))
                break
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    return began


def spin(steps: int) -> None:
    for _ in range(steps):
        pass


def check_consistent(folder: Path) -> int:
    """The rows of the view are those up to its position, no more and no less."""
    generation = Generations(folder).current()
    if generation is None:
        return 0
    view = StatsView.open(generation.folder)
    position = view.position()
    assert view.query('SELECT count(*), max("index") FROM events') == [
        (position, position - 1 if position else None)
    ]
    view.close()
    return position


@pytest.mark.slow
def test_kills_while_posting(tmp_path: Path) -> None:
    """After many kills −9 each restart goes on, and the end equals a run without any."""
    folder, chance = tmp_path / "view", random.Random(SEED)
    positions = [0]
    for _ in range(KILLS):
        assert killed(folder, chance) > 0
        positions.append(check_consistent(folder))
    assert positions == sorted(positions)
    assert 0 < positions[-1] < 5 * ROUNDS
    word, digest, position = finished(started(folder))
    assert (word, int(position)) == ("digest", 5 * ROUNDS)
    assert digest == clean_digest(tmp_path / "clean", mixed_history(ROUNDS))


def test_two_processes_catch_up_at_once(tmp_path: Path) -> None:
    """Two processes that start on an empty folder together post each event once."""
    folder = tmp_path / "view"
    workers = [started(folder) for _ in range(2)]
    answers = [finished(worker) for worker in workers]
    assert answers[0] == answers[1]
    assert answers[0][1] == clean_digest(tmp_path / "clean", mixed_history(ROUNDS))
