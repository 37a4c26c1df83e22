"""The embedded server copes with long and odd paths, full disks and folders without rights."""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from memoriale.adapters.embedded import running, start, stop
from memoriale.domain.errors import UnavailableError
from tests.fixtures.embedded import (
    Client,
    answer,
    discard,
    layout_of,
    nobody,
    temporary_home,
)
from tests.fixtures.file_systems import file_system, fill, remount


def begun(home: Path) -> Path:
    """Start the home's server, use it, leave it, and return its socket folder."""
    server = start(home, idle_seconds=3600)
    assert answer(server.superuser_url, "SELECT current_user") == "memoriale"
    assert answer(server.app_url, "SELECT current_user") == "memoriale_writer"
    server.release()
    return server.socket_directory


@pytest.fixture(scope="module")
def stopped_home() -> Iterator[Path]:
    """A home whose server is stopped, to be moved about."""
    with temporary_home() as folder:
        home = folder / "home"
        home.mkdir(mode=0o755)
        begun(home)
        assert stop(home)
        yield home
        discard(home)


@contextmanager
def moved(home: Path, place: Path) -> Iterator[None]:
    """The home under another path, back in its own at the end."""
    home.rename(place)
    try:
        yield
    finally:
        stop(place)
        place.rename(home)


@pytest.mark.parametrize("length", [60, 90, 108, 300, 900])
def test_a_home_may_lie_deep(stopped_home: Path, length: int) -> None:
    """A path longer than a socket's may be only means that the socket lies elsewhere."""
    with tempfile.TemporaryDirectory(prefix="mem-", dir="/tmp") as top:
        deep = Path(top)
        deep.chmod(0o755)
        while len(str(deep)) < length:
            deep = deep / ("x" * min(200, max(1, length - len(str(deep)) - 1)))
        deep.parent.mkdir(parents=True, exist_ok=True)
        with moved(stopped_home, deep):
            sockets = begun(deep)
            assert len(str(sockets / ".s.PGSQL.5432")) < 104
            assert sockets.is_relative_to(deep) == (length == 60)
            assert sockets.stat().st_mode & 0o777 == 0o700
            assert stop(deep)
            assert sockets.is_relative_to(deep) or not sockets.exists()


@pytest.mark.parametrize(
    "name",
    ["with space", "com,ma", 'quo"te', "quo'te", "umläut", "日本", "li\nne", "100%", "-D", "@a"],
)
def test_a_home_may_have_any_name(stopped_home: Path, name: str) -> None:
    """Neither the server's settings nor the URLs are confused by the folder's name."""
    odd = stopped_home.with_name(name)
    with moved(stopped_home, odd):
        begun(odd)
        assert running(odd)
        assert stop(odd)


@pytest.mark.parametrize("kind", ["missing", "link", "open to others", "of another user"])
def test_a_remembered_socket_folder_that_is_not_private_is_not_used(
    stopped_home: Path, kind: str
) -> None:
    """Somebody may have put another folder in its place: a new one gets a new name."""
    deep = stopped_home.with_name("x" * 100)
    with (
        tempfile.TemporaryDirectory(prefix="memoriale-", dir="/tmp") as folder,
        moved(stopped_home, deep),
    ):
        trap, target = Path(folder) / "memoriale-trap", Path(folder) / "target"
        target.mkdir(mode=0o700)
        server_user = layout_of(deep).data.stat().st_uid
        match kind:
            case "link":
                trap.symlink_to(target)
            case "open to others":
                trap.mkdir()
                trap.chmod(0o777)
                os.chown(trap, server_user, -1)
            case "of another user":
                trap.mkdir(mode=0o700)
                os.chown(trap, nobody(), -1)
        layout_of(deep).far_sockets.write_text(str(trap))
        sockets = begun(deep)
        assert sockets != trap
        assert sockets.stat().st_uid == server_user
        assert not list(target.iterdir())


def test_a_home_deeper_than_postgresql_can_go_is_an_error(home: Path) -> None:
    """PostgreSQL would cut the path off and write elsewhere."""
    deep = home.joinpath(*["x" * 200] * 5)
    deep.mkdir(parents=True)
    with pytest.raises(UnavailableError, match="shorter") as refused:
        start(deep, idle_seconds=0)
    assert refused.value.code == "path_too_long"
    assert not running(deep)
    discard(deep)


def test_a_home_may_be_reached_by_a_link(stopped_home: Path, tmp_path: Path) -> None:
    """Both names are one home with one server."""
    link = tmp_path / "link"
    link.symlink_to(stopped_home)
    first = start(link, idle_seconds=0)
    second = start(stopped_home, idle_seconds=0)
    assert first == second
    first.release()
    second.release()


def test_a_home_may_be_given_relative_to_the_working_folder(
    stopped_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server is found again from another folder."""
    monkeypatch.chdir(stopped_home)
    server = start(Path(), idle_seconds=0)
    monkeypatch.chdir("/")
    assert running(stopped_home)
    assert server.data_directory.is_relative_to(stopped_home)
    server.release()
    assert stop(stopped_home)


@pytest.mark.parametrize("size", ["4m", "20m", "24m", "30m"])
def test_a_full_disk_is_an_error_and_leaves_nothing_half_made(size: str) -> None:
    """Wherever the first start runs out of space it says so; with space the next succeeds."""
    with file_system(f"size={size},mode=755") as place:
        home = place / "home"
        home.mkdir()
        with pytest.raises(UnavailableError, match="full") as refused:
            start(home, idle_seconds=0)
        assert refused.value.code == "disk_full"
        assert refused.value.exit_code == 5
        assert str(place) in refused.value.message
        base = layout_of(home).base
        assert not (base / "data").exists()
        assert not list(base.glob("draft-*"))
        remount(place, "size=400m")
        begun(home)


def test_a_disk_that_fills_up_later_is_an_error() -> None:
    """A database that exists does not start without room, and is whole when there is some."""
    with file_system("size=400m,mode=755") as place:
        home = place / "home"
        home.mkdir()
        begun(home)
        assert stop(home)
        filler = place / "filler"
        fill(filler)
        with pytest.raises(UnavailableError, match="full") as refused:
            start(home, idle_seconds=0)
        assert refused.value.code == "disk_full"
        filler.unlink()
        begun(home)


def test_a_read_only_file_system_is_an_error() -> None:
    """The message names the folder and what to do; nothing is started."""
    with file_system("size=1m,mode=755") as place:
        remount(place, "ro")
        with pytest.raises(UnavailableError, match="MEMORIALE_HOME") as refused:
            start(place / "home", idle_seconds=0)
        assert refused.value.code == "home_not_writable"
        assert str(place / "home") in refused.value.message
        remount(place, "rw")


def test_a_home_without_write_rights_is_an_error(home: Path) -> None:
    """An ordinary user gets the folder and its owner named."""
    if os.geteuid() != 0:
        home.chmod(0o555)
        with pytest.raises(UnavailableError) as refused:
            start(home, idle_seconds=0)
        assert refused.value.code == "home_not_writable"
        return
    with Client(home, user=nobody()) as client:
        found = client.read()
        assert client.close() == UnavailableError.exit_code
    assert found["code"] == "home_not_writable"
    assert str(home) in found["message"]
    assert "root" in found["message"]


def test_a_file_in_the_place_of_the_home_is_an_error(tmp_path: Path) -> None:
    """It is neither removed nor changed."""
    place = tmp_path / "home"
    place.write_text("mine")
    with pytest.raises(UnavailableError) as refused:
        start(place, idle_seconds=0)
    assert refused.value.field == "home"
    assert place.read_text() == "mine"


def test_a_home_deleted_under_a_running_server_can_be_made_again(home: Path) -> None:
    """The old server's locks lie in deleted files and do not count for the new one."""
    inner = home / "home"
    inner.mkdir()
    inner.chmod(0o755)
    old = start(inner, idle_seconds=0)
    pid = layout_of(inner).data.joinpath("postmaster.pid").read_text().split()[0]
    shutil.rmtree(inner)
    inner.mkdir()
    inner.chmod(0o755)
    begun(inner)
    old.release()
    discard(inner)
    # The old server ends by itself when it misses its pid file; not every test can wait for it.
    with suppress(ProcessLookupError):
        os.kill(int(pid), signal.SIGQUIT)
