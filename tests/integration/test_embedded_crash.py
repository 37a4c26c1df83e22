"""After any crash the embedded server comes up again with all that was committed."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from memoriale.adapters.embedded import running, start, stop
from memoriale.adapters.embedded.layout import Layout
from memoriale.adapters.embedded.processes import from_proc, from_ps, look_up
from memoriale.domain.errors import UnavailableError
from tests.fixtures.embedded import (
    Client,
    answer,
    eventually,
    has_ended,
    is_alive,
    layout_of,
    postmaster_of,
    temporary_home,
)


@pytest.fixture(scope="module")
def old_home() -> Iterator[Path]:
    """A home with a stopped server and a committed row."""
    with temporary_home() as folder:
        server = start(folder, idle_seconds=0)
        with psycopg.connect(server.superuser_url) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 42 AS number")
        server.release()
        yield folder


def assert_opens(home: Path) -> None:
    """The home starts, still has its row, and stops."""
    server = start(home, idle_seconds=0)
    assert answer(server.superuser_url, "SELECT number FROM kept") == 42
    server.release()
    assert stop(home)


def stopped(home: Path) -> Layout:
    """The files of a home whose server has been stopped."""
    stop(home)
    assert eventually(lambda: has_ended(home))
    return layout_of(home)


@contextmanager
def sleeping() -> Iterator[int]:
    """An unrelated live process."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        yield process.pid
    finally:
        process.communicate()


@contextmanager
def zombie() -> Iterator[int]:
    """A dead process that its parent has not reaped."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    assert eventually(lambda: (found := look_up(process.pid)) is None or found.zombie)
    try:
        yield process.pid
    finally:
        process.wait()


@contextmanager
def dead() -> Iterator[int]:
    """A process id that was in use and is free."""
    with sleeping() as pid:
        pass
    yield pid


def pid_file(pid: int, layout: Layout) -> str:
    """A whole pid file as a server leaves it."""
    folder = layout.sockets
    lines = [str(pid), str(layout.data), "1700000000", "5432", str(folder), "", "1 2", "ready   "]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("kind", [dead, sleeping, zombie])
def test_a_stale_pid_file_of_another_process_is_removed(old_home: Path, kind: object) -> None:
    """A pid that is dead, a zombie or another program's does not keep the server from starting."""
    layout = stopped(old_home)
    assert callable(kind)
    with kind() as pid:
        (layout.data / "postmaster.pid").write_text(pid_file(pid, layout))
        (layout.sockets / ".s.PGSQL.5432").touch()
        (layout.sockets / ".s.PGSQL.5432.lock").write_text(pid_file(pid, layout))
        assert not running(old_home)
        assert not stop(old_home)
        assert_opens(old_home)


@pytest.mark.parametrize("content", [b"", b"12", b"\0\xff\xfe", b"no number\n", b"-\n", b"9" * 99])
def test_a_damaged_pid_file_is_removed(old_home: Path, content: bytes) -> None:
    """A pid file that is empty, half-written or rubbish does not stop a start."""
    layout = stopped(old_home)
    (layout.data / "postmaster.pid").write_bytes(content)
    (layout.sockets / ".s.PGSQL.5432.lock").write_bytes(content)
    assert not running(old_home)
    assert_opens(old_home)


def test_a_pid_reused_by_the_server_of_another_home_is_not_taken_for_ours(
    old_home: Path, home: Path
) -> None:
    """The other server is neither joined nor stopped."""
    layout = stopped(old_home)
    other = start(home, idle_seconds=0)
    (layout.data / "postmaster.pid").write_text(pid_file(postmaster_of(home), layout))
    assert not stop(old_home)
    assert_opens(old_home)
    assert answer(other.superuser_url) == 1


def test_a_killed_postmaster_is_replaced(old_home: Path) -> None:
    """After SIGKILL the same process starts the server again, and every commit is there."""
    server = start(old_home, idle_seconds=0)
    first = postmaster_of(old_home)
    with psycopg.connect(server.superuser_url) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS before_the_kill AS SELECT 43 AS number")
    os.kill(first, signal.SIGKILL)
    again = start(old_home, idle_seconds=0)
    assert postmaster_of(old_home) != first
    assert answer(again.superuser_url, "SELECT number FROM before_the_kill") == 43
    assert_opens(old_home)


@contextmanager
def orphaned_backend(home: Path) -> Iterator[int]:
    """A backend at a long computation whose postmaster has been killed."""
    server = start(home, idle_seconds=0)
    postmaster = postmaster_of(home)
    with psycopg.connect(server.superuser_url) as connection:
        backend = connection.info.backend_pid
        connection.pgconn.send_query(b"SELECT count(*) FROM generate_series(1, 100000000000)")
        os.kill(postmaster, signal.SIGKILL)
        assert eventually(lambda: not is_alive(postmaster))
        assert is_alive(backend)
        yield backend
        connection.pgconn.finish()
    server.release()


def test_a_backend_that_outlives_its_postmaster_is_ended(old_home: Path) -> None:
    """A long computation does not notice the loss; the next start does not wait for it."""
    with orphaned_backend(old_home) as backend:
        assert_opens(old_home)
        assert not is_alive(backend)


def test_a_stop_ends_what_a_killed_postmaster_left(old_home: Path) -> None:
    """Stop counts an orphaned backend as the server, and ends it."""
    with orphaned_backend(old_home) as backend:
        assert stop(old_home)
        assert not is_alive(backend)


def test_an_initialisation_cut_off_half_way_is_done_again(home: Path) -> None:
    """What the killed process had made so far is removed and not taken for a database."""
    with Client(home) as client:
        base = home / "postgres"
        assert eventually(lambda: any(base.glob("draft-*/data/PG_VERSION")))
        client.kill()
    assert not (base / "data").exists()
    server = start(home, idle_seconds=0)
    assert answer(server.superuser_url) == 1
    assert not list(base.glob("draft-*"))


def test_an_empty_data_folder_is_filled(home: Path) -> None:
    """A folder without a file in it is no database yet."""
    start(home, idle_seconds=0)
    layout = stopped(home)
    for entry in layout.data.iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    assert answer(start(home, idle_seconds=0).superuser_url) == 1


def test_a_damaged_database_is_refused_and_left_alone(home: Path) -> None:
    """Files without PG_VERSION may still be worth saving: nothing is removed."""
    start(home, idle_seconds=0)
    layout = stopped(home)
    (layout.data / "PG_VERSION").unlink()
    with pytest.raises(UnavailableError, match="Restore it from a backup") as refused:
        start(home, idle_seconds=0)
    assert refused.value.code == "cluster_damaged"
    assert (layout.data / "global" / "pg_control").exists()


def test_a_database_of_another_major_version_is_refused(old_home: Path) -> None:
    """The error names both versions and what to do."""
    layout = stopped(old_home)
    version = layout.data / "PG_VERSION"
    found = version.read_text()
    version.write_text("17\n")
    try:
        with pytest.raises(UnavailableError, match=r"PostgreSQL 17.*PostgreSQL 18\.") as refused:
            start(old_home, idle_seconds=0)
    finally:
        version.write_text(found)
    assert refused.value.code == "version_mismatch"
    assert "MEMORIALE_DATABASE_URL" in refused.value.message
    assert_opens(old_home)


@pytest.mark.parametrize(
    "damage", ["", "{", "[]", '{"memoriale": "short", "memoriale_writer": ""}']
)
def test_lost_passwords_are_made_anew(old_home: Path, damage: str) -> None:
    """Both logins work with the new passwords, and the old ones are refused."""
    before = start(old_home, idle_seconds=0)
    layout = stopped(old_home)
    layout.passwords.write_text(damage)
    after = start(old_home, idle_seconds=0)
    assert answer(after.superuser_url, "SELECT number FROM kept") == 42
    assert answer(after.app_url) == 1
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(before.superuser_url)
    before.release()
    after.release()


def test_wrong_passwords_of_a_running_server_are_an_error(old_home: Path) -> None:
    """The running server is not touched; the error says what to do, and that helps."""
    server = start(old_home, idle_seconds=3600)
    passwords = layout_of(old_home).passwords
    right = passwords.read_text()
    swapped = json.dumps(dict.fromkeys(json.loads(right), "0" * 64))
    for wrong in ("", swapped):
        passwords.write_text(wrong)
        assert not running(old_home)
        with pytest.raises(UnavailableError, match="memoriale stop") as refused:
            start(old_home, idle_seconds=0)
        assert refused.value.code == "passwords_wrong"
    assert answer(server.superuser_url) == 1
    server.release()
    assert stop(old_home)
    passwords.unlink()
    assert_opens(old_home)


def test_a_server_that_cannot_start_says_why(old_home: Path) -> None:
    """The error holds the server's last word and names its log."""
    layout = stopped(old_home)
    settings = layout.data / "postgresql.auto.conf"
    found = settings.read_text()
    settings.write_text("shared_buffers = 'plenty'\n")
    try:
        with pytest.raises(UnavailableError) as refused:
            start(old_home, idle_seconds=0)
    finally:
        settings.write_text(found)
    assert refused.value.code == "server_failed"
    assert "postgresql.auto.conf" in refused.value.message
    assert str(layout.log) in refused.value.message
    assert_opens(old_home)


def test_a_log_that_has_grown_is_moved_aside(old_home: Path) -> None:
    """One older file of at most a few megabytes is kept."""
    layout = stopped(old_home)
    layout.log.write_text("x" * 5_000_000)
    assert_opens(old_home)
    assert layout.log.stat().st_size < 1_000_000
    assert layout.log.with_name("server.log.1").stat().st_size == 5_000_000


def test_both_ways_of_looking_at_a_process_agree() -> None:
    """What ps says of a process is what /proc says; neither knows a free number."""
    if not Path("/proc/self/stat").exists():
        pytest.skip("this system has no /proc to compare with")
    with sleeping() as pid:
        assert from_ps(pid) == from_proc(pid)
    with zombie() as pid:
        for found in (from_ps(pid), from_proc(pid)):
            assert found is not None
            assert found.zombie
    with dead() as pid:
        assert from_ps(pid) is None
        assert from_proc(pid) is None
