"""The datastore: settings of the URL, databases that are down, logs, connections."""

import socket
import threading
from datetime import UTC
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from memoriale.adapters.postgres.datastore import MAX_READERS, Datastore
from memoriale.adapters.postgres.location import connection_settings, place_of
from memoriale.adapters.postgres.logs import LOG_KINDS, open_log
from memoriale.adapters.postgres.migrate import OLDEST_SERVER, migrate
from memoriale.adapters.postgres.roles import Logins, Role
from memoriale.domain.errors import InputError, RefusedError, UnavailableError
from tests.fixtures.embedded import eventually
from tests.fixtures.postgres import Database, Server, temporary_database, unused


def test_every_setting_of_the_url_is_kept() -> None:
    """Encryption, options and several hosts of the URL reach the driver."""
    url = "postgresql://u:secret@a:1,b:2/db?sslmode=verify-full&options=-c%20x.y%3D1"
    settings = connection_settings(url)
    assert settings["host"] == "a,b"
    assert settings["port"] == "1,2"
    assert settings["sslmode"] == "verify-full"
    assert settings["options"] == "-c x.y=1"
    assert settings["connect_timeout"] == 5
    assert connection_settings(url + "&connect_timeout=9")["connect_timeout"] == "9"
    assert place_of(settings) == "a:1,b:2/db"


def test_unreadable_url_is_an_input_error() -> None:
    """A string that is no URL is refused without repeating it, since it may hold a password."""
    with pytest.raises(InputError) as caught:
        Datastore("postgresql://u:secret@[")
    assert caught.value.field == "database_url"
    assert "secret" not in str(caught.value.as_dict())


def test_options_of_the_url_hold_in_the_session(database: Database) -> None:
    """A setting in the URL's options is in force in reading and appending connections."""
    url = make_conninfo(database.app_url, options="-c ledger.probe=here", application_name="probe")
    query = "SELECT current_setting('ledger.probe'), current_setting('application_name')"
    with Datastore(url) as datastore:
        with datastore.read("t") as connection:
            assert connection.execute(query).fetchone() == ("here", "probe")
        with datastore.appending() as connection:
            assert connection.execute(query).fetchone() == ("here", "probe")


def test_application_name_is_shown(database: Database) -> None:
    """Sessions carry the name of the application."""
    with Datastore(database.app_url, application_name="mine") as store, store.read("t") as session:
        assert session.execute("SHOW application_name").fetchone() == ("mine",)


def test_roles_of_the_connections(database: Database) -> None:
    """Reading and appending connections each have their role only."""
    with Datastore(database.app_url) as datastore:
        with datastore.read("t") as connection:
            assert connection.execute("SELECT current_role").fetchone() == ("memoriale_read",)
        with datastore.appending() as connection:
            assert connection.execute("SELECT current_role").fetchone() == ("memoriale_append",)


def test_views_are_posted_through_a_login_of_their_own(
    database: Database, separate_logins: Logins
) -> None:
    """The project role is taken on its own login where one is given, else on the first; no
    login can take a role that is another's."""
    query = "SELECT session_user::text, current_role::text"
    assert separate_logins.project is not None
    writer, projector = (
        str(conninfo_to_dict(url)["user"])
        for url in (separate_logins.first, separate_logins.project)
    )
    with Datastore(separate_logins.first, project_url=separate_logins.project) as datastore:
        with datastore.read("t", Role.PROJECT) as connection:
            assert connection.execute(query).fetchone() == (projector, "memoriale_project")
        with datastore.read("t") as connection:
            assert connection.execute(query).fetchone() == (writer, "memoriale_read")
    with Datastore(database.app_url) as datastore, datastore.read("t", Role.PROJECT) as connection:
        assert (connection.execute(query).fetchone() or ("", ""))[1] == "memoriale_project"
    with (
        Datastore(separate_logins.first) as datastore,
        pytest.raises(RefusedError) as caught,
        datastore.read("t", Role.PROJECT),
    ):
        pass
    assert caught.value.code == "database_right_missing"


def test_reading_needs_a_tenant(database: Database) -> None:
    """An empty tenant is refused before anything is read."""
    with (
        Datastore(database.app_url) as datastore,
        pytest.raises(InputError) as caught,
        datastore.read(""),
    ):
        pass
    assert caught.value.field == "tenant"


def test_tenant_is_quoted(database: Database) -> None:
    """A tenant with quotes is a value, never a part of the statement."""
    tenant = "a'; SELECT set_config('ledger.tenant', 'other', false); --"
    with Datastore(database.app_url) as datastore, datastore.read(tenant) as connection:
        shown = connection.execute("SELECT current_setting('ledger.tenant')").fetchone()
    assert shown == (tenant,)


@pytest.mark.parametrize("use", ["read", "append"])
def test_refused_connection_is_told_at_once(use: str, tmp_path: Path) -> None:
    """A database that is down is named by its host and never with the password."""
    url = f"postgresql://user:secret@/db?host={tmp_path}&port=5999"
    with Datastore(url) as datastore:
        manager = datastore.read("t") if use == "read" else datastore.appending()
        with pytest.raises(UnavailableError) as caught, manager:
            pass
    error = caught.value
    assert error.code == "database_down"
    assert str(tmp_path) in error.message
    assert "secret" not in str(error.as_dict())


def test_silent_host_times_out() -> None:
    """A host that accepts and says nothing counts as down after the connect timeout."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        url = f"postgresql://user@127.0.0.1:{port}/db?connect_timeout=1"
        with (
            Datastore(url) as datastore,
            pytest.raises(UnavailableError) as caught,
            datastore.read("t"),
        ):
            pass
    assert caught.value.code == "database_down"
    assert f"127.0.0.1:{port}" in caught.value.message


def test_reader_survives_a_lost_connection(database: Database) -> None:
    """A pooled connection that the server ended is replaced without the caller's knowing."""
    with Datastore(database.app_url) as datastore:
        with datastore.read("t") as connection:
            pid = connection.info.backend_pid
        with database.connect() as admin:
            admin.execute("SELECT pg_terminate_backend(%s, 10000)", [pid])
        with datastore.read("t") as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
            assert connection.info.backend_pid != pid


def end_own_session(database: Database, connection: psycopg.Connection) -> None:
    """Use a connection after the server has ended it."""
    with database.connect() as admin:
        admin.execute("SELECT pg_terminate_backend(%s, 10000)", [connection.info.backend_pid])
    connection.execute("SELECT 1")


def test_lost_connection_in_a_read_is_translated(database: Database) -> None:
    """A connection that ends during a read raises an error of memoriale, and the next works."""
    with Datastore(database.app_url) as datastore:
        with pytest.raises(UnavailableError) as caught, datastore.read("t") as connection:
            end_own_session(database, connection)
        assert caught.value.code == "database_down"
        with datastore.read("t") as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)


def test_connections_are_shared_and_few(database: Database) -> None:
    """Many reading threads share a handful of connections, closed with the datastore."""
    name = unused("pool")
    count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"
    with Datastore(database.app_url, application_name=name) as datastore:

        def read() -> None:
            for _ in range(5):
                with datastore.read("t") as connection:
                    connection.execute("SELECT 1")

        threads = [threading.Thread(target=read) for _ in range(24)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        with database.connect() as admin:
            found = admin.execute(count, [name]).fetchone()
            assert found is not None
            assert 1 <= found[0] <= MAX_READERS
    with database.connect() as admin:
        assert eventually(lambda: admin.execute(count, [name]).fetchone() == (0,))


def test_a_fetch_sees_its_tenant_and_leaves_none_behind(database: Database) -> None:
    """The setting holds for the one query that was sent with it, and for no later one."""
    shown = "SELECT current_setting('ledger.tenant', true), %(n)s::int8, pg_backend_pid()"
    with Datastore(database.app_url) as datastore:
        found = [datastore.fetch(tenant, shown, {"n": 1}) for tenant in ("a'b", "c")]
        assert [row[:2] for ((*row,),) in found] == [["a'b", 1], ["c", 1]]
        with datastore.read("d") as connection:
            assert connection.info.backend_pid == found[0][0][2] == found[1][0][2]
            connection.execute("COMMIT")
            after = connection.execute("SELECT current_setting('ledger.tenant', true)").fetchone()
            assert after in ((None,), ("",))
            connection.execute("BEGIN")


def test_a_fetch_only_reads(database: Database) -> None:
    """A query that would write is refused in whatever role, and the next one works."""
    with Datastore(database.app_url) as datastore:
        with pytest.raises(UnavailableError) as caught:
            datastore.fetch("t", "CREATE TEMPORARY TABLE x (y int)", {})
        assert "read-only" in caught.value.message
        assert datastore.fetch("t", "SELECT 1", {}) == [(1,)]


def test_a_fetch_survives_a_lost_connection(database: Database) -> None:
    """A pooled connection that the server ended is replaced without the caller's knowing."""
    with Datastore(database.app_url) as datastore:
        ((pid,),) = datastore.fetch("t", "SELECT pg_backend_pid()", {})
        with database.connect() as admin:
            admin.execute("SELECT pg_terminate_backend(%s, 10000)", [pid])
        ((other,),) = datastore.fetch("t", "SELECT pg_backend_pid()", {})
        assert other != pid


def test_closed_datastore_is_refused(database: Database) -> None:
    """A closed datastore says so, and may be closed again."""
    datastore = Datastore(database.app_url)
    with datastore.read("t"):
        pass
    datastore.close()
    datastore.close()
    with pytest.raises(InputError) as caught, datastore.read("t"):
        pass
    assert caught.value.code == "closed"
    with pytest.raises(InputError):
        datastore.connect_for_appending()


def test_database_without_the_ledger_says_what_to_do(server: Server) -> None:
    """A database that was never migrated is named as such."""
    with (
        temporary_database(server) as database,
        Datastore(database.superuser_url) as datastore,
        pytest.raises(UnavailableError) as caught,
    ):
        open_log(datastore, "acme")
    assert caught.value.code == "not_migrated"


def test_open_log_makes_each_log_once(database: Database) -> None:
    """A tenant has one log of each kind, with a random id; racing callers get the same."""
    tenant = unused("tenant")
    with Datastore(database.app_url) as datastore:
        found = []
        start = threading.Barrier(8)

        def run() -> None:
            start.wait(30)
            found.append(open_log(datastore, tenant, "access"))

        threads = [threading.Thread(target=run) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        logs = [open_log(datastore, tenant, kind) for kind in LOG_KINDS]
        assert len(found) == 8
        assert set(found) == {logs[LOG_KINDS.index("access")]}
        assert len({log.log_id for log in logs}) == 3
        assert {log.incarnation for log in logs} == {1}
        assert {log.created_at.tzinfo for log in logs} == {UTC}
        other = open_log(datastore, unused("tenant"))
        assert other.log_id not in {log.log_id for log in logs}


@pytest.mark.parametrize(
    ("tenant", "kind", "field"),
    [("t", "other", "kind"), ("", "memory", "tenant"), ("ä", "memory", "tenant")],
)
def test_open_log_refuses(database: Database, tenant: str, kind: str, field: str) -> None:
    """An unknown kind and a tenant outside the pattern are input errors."""
    with Datastore(database.app_url) as datastore, pytest.raises(InputError) as caught:
        open_log(datastore, tenant, kind)
    assert caught.value.field == field


def test_old_server_is_refused(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server older than PostgreSQL 15 is refused before anything is changed."""
    version = property(lambda self: (OLDEST_SERVER - 1) * 10_000 + 9)
    monkeypatch.setattr(psycopg.ConnectionInfo, "server_version", version)
    with pytest.raises(InputError) as caught:
        migrate(database.superuser_url)
    assert (caught.value.code, caught.value.value) == ("server_too_old", OLDEST_SERVER - 1)


def test_urls_of_the_fixture_name_one_database(database: Database) -> None:
    """Both logins of the tests reach the same database."""
    names = [conninfo_to_dict(url)["dbname"] for url in (database.superuser_url, database.app_url)]
    assert names[0] == names[1]
