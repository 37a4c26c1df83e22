"""The embedded server starts with its first user and stops after its last, however that ends."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from memoriale.adapters.embedded import running, start, stop
from memoriale.adapters.embedded.processes import look_up
from memoriale.domain.errors import InputError
from tests.fixtures.embedded import (
    SOURCES,
    Client,
    answer,
    discard,
    eventually,
    has_ended,
    is_alive,
    layout_of,
    postmaster_of,
    python_environment,
    temporary_home,
)


def watchdog_of(home: Path) -> int:
    """Process id of the home's watchdog."""
    wanted = f"watchdog {layout_of(home).base} "
    for entry in Path("/proc").glob("[0-9]*"):
        process = look_up(int(entry.name))
        if process is not None and not process.zombie and wanted in process.command:
            return process.pid
    pytest.skip("no /proc to find the watchdog in")


@pytest.mark.parametrize("mode", [0o755, 0o700])
def test_two_first_starts_at_the_same_instant_give_one_server(mode: int) -> None:
    """Processes that start in a new home together share one server with one set of passwords."""
    with temporary_home(mode) as home:
        at = time.time() + 0.5
        with Client(home, at=at) as first, Client(home, at=at) as second:
            one, other = first.read(), second.read()
            assert one["superuser_url"] == other["superuser_url"]
            query = "SELECT pg_postmaster_start_time()"
            assert answer(one["superuser_url"], query) == answer(other["superuser_url"], query)


def test_starts_of_many_threads_give_one_server(home: Path) -> None:
    """Threads of one process that start at once all get the same server."""
    together = threading.Barrier(8)

    def begin() -> str:
        together.wait()
        return start(home, idle_seconds=0).superuser_url

    with ThreadPoolExecutor(8) as pool:
        urls = [future.result() for future in [pool.submit(begin) for _ in range(8)]]
    assert len(set(urls)) == 1
    assert stop(home)


def test_when_one_client_leaves_the_other_goes_on(home: Path) -> None:
    """The server stays while any user is left, and stops after the last."""
    with Client(home) as first, Client(home) as second:
        url = first.read()["superuser_url"]
        second.read()
        with psycopg.connect(url) as connection:
            assert first.close() == 0
            assert connection.execute("SELECT 1").fetchone() == (1,)
        assert answer(url) == 1
        assert second.close() == 0
        assert eventually(lambda: has_ended(home))


def test_after_a_killed_client_the_watchdog_stops_the_server(home: Path) -> None:
    """A client that dies by SIGKILL no longer counts as a user."""
    with Client(home) as client:
        client.read()
        assert running(home)
        client.kill()
        assert eventually(lambda: has_ended(home))
        assert not running(home)


def test_a_client_killed_while_it_starts_leaves_no_server(home: Path) -> None:
    """The watchdog is there before the server, so a start cut off half way is cleaned up."""
    start(home, idle_seconds=0).release()
    assert eventually(lambda: has_ended(home))
    with Client(home) as client:
        assert eventually(lambda: layout_of(home).data.joinpath("postmaster.pid").exists())
        client.kill()
        assert eventually(lambda: has_ended(home))


def test_a_killed_watchdog_is_replaced_by_the_next_start(home: Path) -> None:
    """Without its watchdog the server stays up; the next start brings a new one."""
    with Client(home) as client:
        client.read()
        old = watchdog_of(home)
        os.kill(old, signal.SIGKILL)
        assert eventually(lambda: not is_alive(old))
        client.close()
        assert running(home)
        start(home, idle_seconds=0).release()
        assert eventually(lambda: has_ended(home))


def test_the_watchdog_needs_no_driver_and_no_models(home: Path) -> None:
    """It waits for days beside the server, so it maps neither psycopg's nor pydantic's library."""
    server = start(home, idle_seconds=0)
    maps = Path(f"/proc/{watchdog_of(home)}/maps").read_text()
    assert "psycopg" not in maps
    assert "pydantic" not in maps
    server.release()


def test_a_watchdog_finds_memoriale_through_a_relative_search_path(home: Path) -> None:
    """The watchdog runs in another folder than the client and still imports the same code."""
    with Client(home, folder=SOURCES.parent, sources="src") as client:
        client.read()
        client.close()
        assert eventually(lambda: has_ended(home))


def test_one_process_is_one_user_however_often_it_starts(home: Path) -> None:
    """Each start is released for itself, twice is once, and the last one lets the server go."""
    servers = [start(home, idle_seconds=0) for _ in range(3)]
    pid = postmaster_of(home)
    for server in servers[:2]:
        server.release()
        server.release()
    assert answer(servers[2].superuser_url) == 1
    assert postmaster_of(home) == pid
    servers[2].release()
    assert eventually(lambda: has_ended(home))


def test_a_forked_child_keeps_the_server(home: Path) -> None:
    """A child shares its parent's presence: the server stops when both have gone."""
    with Client(home) as client:
        url = client.read()["superuser_url"]
        client.say("fork")
        child = client.read()["child"]
        client.close()
        assert answer(url) == 1
        client.flag.touch()
        assert eventually(lambda: not is_alive(child))
        assert eventually(lambda: has_ended(home))


def test_the_idle_time_is_that_of_the_latest_start(home: Path) -> None:
    """A server with a long idle time stops promptly after a start that asks for none."""
    start(home, idle_seconds=3600).release()
    pid = postmaster_of(home)
    server = start(home, idle_seconds=0)
    assert postmaster_of(home) == pid
    server.release()
    assert eventually(lambda: has_ended(home))


def test_a_server_within_its_idle_time_is_joined(home: Path) -> None:
    """After its last user has left, the next one finds the same server."""
    with Client(home, idle_seconds=3600) as first:
        first.read()
        pid = postmaster_of(home)
        first.close()
    with Client(home, idle_seconds=3600) as second:
        second.read()
        assert postmaster_of(home) == pid


@pytest.mark.parametrize("seconds", [-1.0, float("nan")])
def test_an_idle_time_that_is_no_duration_is_refused(tmp_path: Path, seconds: float) -> None:
    """The error names the field, and no folder is made."""
    with pytest.raises(InputError) as refused:
        start(tmp_path / "home", idle_seconds=seconds)
    assert refused.value.field == "embedded_idle"
    assert not (tmp_path / "home").exists()


def test_stop_ends_a_server_in_use_at_once(home: Path) -> None:
    """Open sessions are cut, and stopping twice says that there was nothing left to stop."""
    server = start(home, idle_seconds=3600)
    with psycopg.connect(server.superuser_url, autocommit=True) as connection:
        assert stop(home)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    assert not running(home)
    assert not stop(home)
    assert eventually(lambda: has_ended(home))


def test_after_a_stop_the_same_process_can_start_again(home: Path) -> None:
    """What was committed is there again."""
    first = start(home, idle_seconds=0)
    with psycopg.connect(first.superuser_url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS number")
    assert stop(home)
    second = start(home, idle_seconds=0)
    assert answer(second.superuser_url, "SELECT number FROM kept") == 7
    assert second == first


def test_a_server_that_ignores_an_orderly_stop_is_ended(home: Path) -> None:
    """A server that hangs at the first signal goes at the second, and nothing is lost."""
    server = start(home, idle_seconds=3600)
    with psycopg.connect(server.superuser_url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 8 AS number")
    query = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'"
    checkpointer = answer(server.superuser_url, query)
    os.kill(checkpointer, signal.SIGSTOP)
    assert stop(home, wait_seconds=0.2)
    assert answer(start(home, idle_seconds=0).superuser_url, "SELECT number FROM kept") == 8


def test_asking_makes_no_folder(tmp_path: Path) -> None:
    """Neither running nor stop leaves a trace of a home that does not exist."""
    missing = tmp_path / "home"
    assert not running(missing)
    assert not stop(missing)
    assert not missing.exists()


def test_a_new_home_is_private(home: Path) -> None:
    """A home that does not exist is made with mode 0700; one that exists keeps its mode."""
    inner = home / "a" / "b"
    start(inner, idle_seconds=0)
    assert inner.stat().st_mode & 0o777 == 0o700
    assert home.stat().st_mode & 0o777 == 0o755
    discard(inner)


def test_nothing_started_here_becomes_a_zombie(home: Path) -> None:
    """Server and watchdog are no children of the process that starts them."""
    code = (
        "import os, sys; from pathlib import Path; from memoriale.adapters import embedded\n"
        "home = Path(sys.argv[1]); embedded.start(home, idle_seconds=0); embedded.stop(home)\n"
        "try: os.waitpid(-1, os.WNOHANG)\n"
        "except ChildProcessError: print('childless')"
    )
    found = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, str(home)],
        env=python_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout == "childless\n"
    assert found.stderr == ""
