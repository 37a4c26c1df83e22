"""A posted view is shared by threads, processes and children, and survives who removes it."""

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Final

import pytest

from memoriale.domain.errors import UnavailableError
from memoriale.projections.generations import Generations
from memoriale.projections.posted import PostedView, Reading
from memoriale.projections.stats.view import StatsView, stats_kind
from tests.integration.test_posted_views import (
    Log,
    TopicFile,
    live_folder,
    summary,
    topics_kind,
)
from tests.integration.test_stats_view import mixed_history

ROOT: Final = Path(__file__).parents[2]


@pytest.fixture
def log() -> Log:
    return Log(mixed_history(10))


@pytest.fixture
def stats(tmp_path: Path, log: Log) -> PostedView[StatsView]:
    return PostedView(stats_kind(), Generations(tmp_path / "views" / "0a" / "stats"), log)


@pytest.fixture
def topics(tmp_path: Path, log: Log) -> PostedView[TopicFile]:
    return PostedView(topics_kind(), Generations(tmp_path / "views" / "0a" / "topics"), log)


@pytest.fixture(params=["stats", "topics"])
def posted(
    request: pytest.FixtureRequest, stats: PostedView[StatsView], topics: PostedView[TopicFile]
) -> PostedView[Any]:
    """The same rules for a view with exclusive files and for one that readers share."""
    return stats if request.param == "stats" else topics


def test_readers_of_a_swapped_generation(topics: PostedView[TopicFile], log: Log) -> None:
    """A reader whose generation was swapped out meanwhile reads again; nothing is rebuilt."""
    other = PostedView(topics_kind(), topics.generations, log)
    rebuilt = list[bool]()

    def use(reading: Reading[TopicFile]) -> int:
        rebuilt.append(reading.rebuilt)
        if len(rebuilt) == 1:
            shutil.rmtree(live_folder(other))
            other.run(summary)
        return len(reading.view.topics())

    assert topics.run(use) == 50
    assert rebuilt == [False, False]


def test_handle_is_kept(topics: PostedView[TopicFile]) -> None:
    """The open view is the same from read to read, and closed when it is swapped out."""
    with topics.read() as reading:
        first = reading.view
    with topics.read() as reading:
        assert reading.view is first
    shutil.rmtree(live_folder(topics))
    with topics.read() as reading:
        assert reading.view is not first
    assert first.closed


def test_view_in_use_is_not_closed(topics: PostedView[TopicFile]) -> None:
    """A view that is being read stays open until its reader has left."""
    with topics.read() as reading:
        topics.forget()
        assert reading.view.position() == 50
    assert reading.view.closed


def test_after_a_fork(posted: PostedView[Any]) -> None:
    """A child process opens the view for itself and leaves the parent's alone."""
    posted.run(summary)
    child = os.fork()
    if child == 0:
        same = posted.run(summary) == (50, 0, False)
        os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert posted.run(summary) == (50, 0, False)


def test_threads(posted: PostedView[Any], log: Log) -> None:
    """Threads that read and append at once each see what they wrote."""
    problems, mutex = list[str](), threading.Lock()

    def use(number: int) -> None:
        for _ in range(6):
            with mutex:
                log.history.denied()
                head = log.head()
            position, _, rebuilt = posted.run(summary, wait=120)
            if position < head or rebuilt:
                problems.append(f"{number}: {position} of {head}, rebuilt {rebuilt}")

    threads = [threading.Thread(target=use, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert posted.run(summary) == (74, 0, False)


def test_folder_removed_again_and_again(posted: PostedView[Any]) -> None:
    """Reads beside somebody who keeps removing the views folder end with the right answer."""
    stop, chance = threading.Event(), random.Random(1494)
    views = posted.generations.folder.parents[1]

    def remove() -> None:
        while not stop.wait(chance.uniform(0.01, 0.6)):
            shutil.rmtree(views, ignore_errors=True)

    thread = threading.Thread(target=remove)
    thread.start()
    try:
        deadline, answers = time.monotonic() + 3, list[int]()
        while time.monotonic() < deadline:
            try:
                answers.append(posted.run(summary, wait=60)[0])
            except UnavailableError:
                # Now and then it goes three times while it is being made: the caller tries again.
                continue
    finally:
        stop.set()
        thread.join()
    assert set(answers) == {50}
    assert posted.run(summary, wait=60)[:2] == (50, 0)


def test_busy(stats: PostedView[StatsView], topics: PostedView[TopicFile], log: Log) -> None:
    """While another process holds it, an exclusive view is busy; a shared one can be read."""
    stats.run(summary)
    topics.run(summary)
    folders = [str(stats.generations.folder), str(topics.generations.folder)]
    with holder(*folders):
        with pytest.raises(UnavailableError) as caught:
            stats.run(summary, wait=0.05)
        assert caught.value.code == "busy"
        with pytest.raises(UnavailableError):
            stats.position()
        assert topics.run(summary, wait=0.05) == (50, 0, False)
        log.history.denied()
        assert topics.run(summary, wait=0.05) == (50, 1, False)
    assert stats.run(summary, wait=60) == (51, 0, False)


class holder:
    """Another process that holds the writer locks of some folders."""

    CODE = (
        "import sys, time; from pathlib import Path\n"
        "from contextlib import ExitStack\n"
        "from memoriale.projections.generations import Generations\n"
        "with ExitStack() as stack:\n"
        "    for folder in sys.argv[1:]:\n"
        "        lock = Generations(Path(folder)).writer_lock(time.monotonic() + 60)\n"
        "        assert stack.enter_context(lock)\n"
        "    print('held', flush=True)\n"
        "    time.sleep(600)\n"
    )

    def __init__(self, *folders: str) -> None:
        command = [sys.executable, "-c", self.CODE, *folders]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)

    def __enter__(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "held\n"

    def __exit__(self, *exception: object) -> None:
        assert self.process.stdout is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()
