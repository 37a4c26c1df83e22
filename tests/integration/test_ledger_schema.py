"""The schema of the ledger: migrations, keys, policies, triggers, checks."""

import threading
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from psycopg import errors as pg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from memoriale.adapters.postgres import migrate as migration_module
from memoriale.adapters.postgres.migrate import (
    Migration,
    current,
    migrate,
    migrations,
    plan,
)
from memoriale.domain.errors import InputError, UnavailableError
from memoriale.domain.record import COLUMNS
from tests.contracts.ledger import append
from tests.fixtures.postgres import (
    Database,
    Ledger,
    Server,
    opened,
    temporary_database,
    unused,
)

TENANT_TABLES = [
    "ledger_events",
    "ledger_heads",
    "ledger_logs",
    "ledger_owner_snapshots",
    "ledger_probe",
    "ledger_subjects",
]


def test_migrate_brings_an_empty_database_up_once(server: Server) -> None:
    """All migrations are planned for an empty database, applied in order, and then none."""
    with temporary_database(server) as database:
        url = database.superuser_url
        assert current(url) == 0
        assert [step.version for step in plan(url)] == list(range(1, len(migrations()) + 1))
        assert migrate(url) == [step.name for step in migrations()]
        assert current(url) == len(migrations())
        assert plan(url) == []
        assert migrate(url) == []


def test_app_login_can_read_the_version(database: Database) -> None:
    """The login of the application may ask which migrations there are."""
    assert current(database.app_url) == len(migrations())


def test_every_migration_says_what_is_before_and_after() -> None:
    """Each file opens with a comment about the state before it and after it."""
    for step in migrations():
        assert step.sql.startswith("-- Before: ")
        assert "\n-- After: " in step.sql


def test_changed_migration_is_an_error(fresh_database: Database) -> None:
    """A migration that differs from the applied one stops everything."""
    with fresh_database.connect() as connection:
        connection.execute("UPDATE ledger.migrations SET checksum = 'x' WHERE version = 2")
    with pytest.raises(UnavailableError) as caught:
        migrate(fresh_database.superuser_url)
    assert caught.value.code == "migration_changed"


def test_newer_database_is_an_error(fresh_database: Database) -> None:
    """A release does not touch a database that a newer one migrated."""
    with fresh_database.connect() as connection:
        connection.execute("INSERT INTO ledger.migrations VALUES (9999, 'later', 'x')")
    with pytest.raises(UnavailableError) as caught:
        plan(fresh_database.superuser_url)
    assert caught.value.code == "database_newer"


def test_failing_migration_leaves_nothing(
    fresh_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A migration is applied whole or not at all."""
    broken = Migration(
        len(migrations()) + 1, "broken", "CREATE TABLE ledger.half (); SELECT 1/0", "x"
    )
    steps = [*migrations(), broken]
    monkeypatch.setattr(migration_module, "migrations", lambda: steps)
    with pytest.raises(InputError):
        migrate(fresh_database.superuser_url)
    assert current(fresh_database.superuser_url) == broken.version - 1
    with fresh_database.connect() as connection:
        assert connection.execute("SELECT to_regclass('ledger.half')").fetchone() == (None,)


def test_databases_of_one_server_can_be_migrated_at_once(server: Server) -> None:
    """Migrations of several databases, and twice of one, do not disturb each other."""
    with temporary_database(server) as one, temporary_database(server) as two:
        failures: list[BaseException] = []
        start = threading.Barrier(4)

        def run(url: str) -> None:
            start.wait(30)
            try:
                migrate(url)
            except BaseException as error:
                failures.append(error)
                raise

        urls = [one.superuser_url, one.superuser_url, two.superuser_url, two.superuser_url]
        threads = [threading.Thread(target=run, args=[url]) for url in urls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert failures == []
        assert current(one.superuser_url) == current(two.superuser_url) == len(migrations())


def test_login_without_superuser_can_migrate(server: Server) -> None:
    """A login that owns the database and may act as the owner role needs no more to migrate."""
    name = sql.Identifier(unused("dba"))
    with (
        temporary_database(server) as first,
        psycopg.connect(server.superuser_url, autocommit=True) as admin,
        temporary_database(server) as database,
    ):
        migrate(first.superuser_url)
        admin.execute(
            sql.SQL(
                "CREATE ROLE {} LOGIN PASSWORD 'x' IN ROLE memoriale_owner, memoriale_append,"
                " memoriale_read, memoriale_project, memoriale_erase"
            ).format(name)
        )
        try:
            with database.connect() as connection:
                owned = str(conninfo_to_dict(database.superuser_url)["dbname"])
                connection.execute(
                    sql.SQL("ALTER DATABASE {} OWNER TO {}").format(sql.Identifier(owned), name)
                )
            url = make_conninfo(database.superuser_url, user=name.as_string()[1:-1], password="x")
            assert migrate(url) == [step.name for step in migrations()]
            with opened(Database(url, url)) as ledger:
                assert ledger.committer.submit(append()).first == 0
        finally:
            with database.connect() as connection:
                connection.execute(sql.SQL("REASSIGN OWNED BY {} TO CURRENT_USER").format(name))
                connection.execute(sql.SQL("DROP OWNED BY {}").format(name))
            admin.execute(sql.SQL("DROP ROLE {}").format(name))


def test_database_of_another_encoding_is_refused(server: Server) -> None:
    """The ledger needs UTF8, because leaves are over UTF-8."""
    with psycopg.connect(server.superuser_url, autocommit=True) as connection:
        name = sql.Identifier("ledger_latin1")
        connection.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'").format(
                name
            )
        )
        try:
            url = make_conninfo(server.superuser_url, dbname="ledger_latin1")
            with pytest.raises(InputError) as caught:
                migrate(url)
            assert caught.value.code == "bad_encoding"
        finally:
            connection.execute(sql.SQL("DROP DATABASE {}").format(name))


def test_catalogue_has_exactly_the_columns_of_the_record(database: Database) -> None:
    """Name, type and order of the stored columns are those that the domain names."""
    with database.connect() as connection:
        found = connection.execute(
            "SELECT a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_attribute a"
            " WHERE a.attrelid = 'ledger.ledger_events'::regclass AND a.attnum > 0"
            " AND NOT a.attisdropped ORDER BY a.attnum"
        ).fetchall()
    spelt = {"timestamp with time zone": "timestamptz"}
    assert [(name, spelt.get(kind, kind)) for name, kind in found] == list(COLUMNS)


def test_tenant_leads_every_key(database: Database) -> None:
    """Every index of every table begins with the tenant, so no key tells one of another's."""
    with database.connect() as connection:
        found = connection.execute(
            "SELECT i.indexrelid::regclass::text, a.attname FROM pg_index i"
            " JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace"
            " LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0]"
            " WHERE n.nspname = 'ledger' AND c.relname <> 'migrations'"
        ).fetchall()
    assert len(found) >= 9
    assert [name for name, first in found if first != "tenant"] == []


def test_text_keys_are_compared_by_code_point(database: Database) -> None:
    """No text column of the ledger depends on a locale."""
    with database.connect() as connection:
        found = connection.execute(
            "SELECT c.relname, a.attname FROM pg_attribute a"
            " JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname = 'ledger' AND c.relkind = 'r' AND a.attnum > 0"
            " AND a.atttypid = 'text'::regtype AND a.attcollation <> '\"C\"'::regcollation"
        ).fetchall()
    assert found == []


def test_row_security_is_forced_on_every_table_with_a_tenant(database: Database) -> None:
    """Row security binds the owner too, on every table but the list of migrations."""
    with database.connect() as connection:
        found = connection.execute(
            "SELECT relname, relrowsecurity AND relforcerowsecurity FROM pg_class"
            " WHERE relnamespace = 'ledger'::regnamespace AND relkind IN ('r', 'p')"
            " AND relname <> 'migrations' ORDER BY 1"
        ).fetchall()
    assert found == [(name, True) for name in TENANT_TABLES]


def test_every_trigger_is_enabled_always(database: Database) -> None:
    """Triggers fire in sessions of the replica role too."""
    with database.connect() as connection:
        found = connection.execute(
            "SELECT c.relname, t.tgname, t.tgenabled FROM pg_trigger t"
            " JOIN pg_class c ON c.oid = t.tgrelid WHERE NOT t.tgisinternal"
            " AND c.relnamespace = 'ledger'::regnamespace ORDER BY 1, 2"
        ).fetchall()
    assert found == [
        ("ledger_events", "append_only", "A"),
        ("ledger_events", "never_truncated", "A"),
        ("ledger_heads", "append_only", "A"),
        ("ledger_heads", "never_truncated", "A"),
        ("ledger_heads", "only_grows", "A"),
        ("ledger_logs", "append_only", "A"),
        ("ledger_logs", "never_truncated", "A"),
        ("ledger_probe", "append_only", "A"),
        ("ledger_probe", "never_truncated", "A"),
    ]


@pytest.mark.parametrize("role", ["origin", "replica"])
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE ledger.ledger_events SET state = NULL",
        "UPDATE ledger.ledger_events SET kind = 'other'",
        "DELETE FROM ledger.ledger_events",
        "TRUNCATE ledger.ledger_events",
        "UPDATE ledger.ledger_logs SET incarnation = 2",
        "DELETE FROM ledger.ledger_logs",
        "TRUNCATE ledger.ledger_logs",
        "UPDATE ledger.ledger_heads SET next = 0",
        "UPDATE ledger.ledger_heads SET next = next + 1",
        "DELETE FROM ledger.ledger_heads",
        "TRUNCATE ledger.ledger_heads",
    ],
)
def test_superuser_cannot_change_the_log(
    database: Database, ledger: Ledger, role: str, statement: str
) -> None:
    """Not even a superuser changes stored rows by accident, in any replication role."""
    ledger.committer.submit(append())
    with database.connect() as connection:
        connection.execute(sql.SQL("SET session_replication_role = {}").format(role))
        with pytest.raises(psycopg.Error) as caught:
            connection.execute(statement.encode())
    assert caught.value.sqlstate == "ML003"


def test_nothing_is_granted_to_public(database: Database) -> None:
    """Neither the schema nor a table nor a function of the ledger is open to everybody."""
    with database.connect() as connection:
        found = connection.execute(
            "SELECT c.oid::regclass::text FROM pg_class c,"
            " aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) a"
            " WHERE c.relnamespace = 'ledger'::regnamespace AND c.relkind = 'r' AND a.grantee = 0"
            " UNION ALL SELECT p.proname FROM pg_proc p,"
            " aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a"
            " WHERE p.pronamespace = 'ledger'::regnamespace AND a.grantee = 0"
            " UNION ALL SELECT n.nspname FROM pg_namespace n,"
            " aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) a"
            " WHERE n.nspname = 'ledger' AND a.grantee = 0"
        ).fetchall()
    assert found == []


def test_functions_pin_their_search_path(database: Database) -> None:
    """Temporary objects come last in every function, so they shadow nothing."""
    with database.connect() as connection:
        found = connection.execute(
            "SELECT proname, proconfig FROM pg_proc WHERE pronamespace = 'ledger'::regnamespace"
        ).fetchall()
    assert len(found) >= 5
    for _, settings in found:
        assert "search_path=ledger, pg_temp" in settings


@pytest.mark.parametrize(
    ("column", "value", "constraint"),
    [
        ("tenant", "''", "clear_words"),
        ("tenant", "'a b'", "clear_words"),
        ("kind", "'no space'", "clear_words"),
        ("retention_class", f"'{'x' * 65}'", "clear_words"),
        ("purpose", "'ä'", "clear_words"),
        ("topic", "''", "words_not_empty"),
        ("index", "-1", "place"),
        ("append_first", "index + 2", "place"),
        ("append_last", "index - 1", "place"),
        ("stream_version", "-1", "versions"),
        ("leaf_version", "2", "versions"),
        ("recorded_at", "'infinity'", "finite_times"),
        ("valid_from", "'-infinity'", "finite_times"),
        ("valid_until", "'infinity'", "finite_times"),
        ("expires_at", "'infinity'", "finite_times"),
        ("visibility", "'everybody'", "known_visibility"),
        ("about", "array_fill(gen_random_uuid(), ARRAY[501])", "about_list"),
        ("about", "ARRAY[ARRAY[gen_random_uuid()]]", "about_list"),
        ("about", "ARRAY[NULL::uuid]", "about_list"),
        ("namespace_tags", "array_fill('x'::bytea, ARRAY[65])", "namespace_tags_list"),
        ("namespace_tags", "'[2:2]={x}'::bytea[]", "namespace_tags_list"),
        ("header", "repeat('x', 32769)", "sizes"),
        ("state_hash", "''", "sizes"),
        ("leaf_hash", "''", "sizes"),
    ],
)
def test_table_refuses(
    database: Database, ledger: Ledger, column: str, value: str, constraint: str
) -> None:
    """The table checks what it can, also against its owner."""
    event_id = ledger.committer.submit(append()).events[0].event_id
    names = [name for name, _ in COLUMNS]
    spare = {
        "index": "index + 1",
        "append_first": "append_first",
        "append_last": "append_last + 9",
        "event_id": "gen_random_uuid()",
        "stream_id": "gen_random_uuid()",
    }
    chosen = [value if name == column else spare.get(name, name) for name in names]
    statement = (
        f"INSERT INTO ledger.ledger_events SELECT {', '.join(chosen)}"
        " FROM ledger.ledger_events WHERE event_id = %s"
    )
    with database.connect() as connection, pytest.raises(pg.CheckViolation) as caught:
        connection.execute(statement.encode(), [event_id])
    assert caught.value.diag.constraint_name == constraint


def test_two_tenants_hold_equal_keys(database: Database) -> None:
    """Equal event, stream and idempotency keys of two tenants neither collide nor show."""
    with opened(database) as one, opened(database) as two:
        same = append()
        tagged = replace(same.rows[0].columns, request_tag=b"r", idempotency_tag=b"i")
        same = append(replace(same.rows[0], columns=tagged))
        first, second = one.committer.submit(same), two.committer.submit(same)
        assert first.created
        assert second.created
        assert (first.tenant, second.tenant) == (one.log.tenant, two.log.tenant)
        assert len(one.reader.rows()) == len(two.reader.rows()) == 1


def test_migrations_ship_with_the_package() -> None:
    """Each file of the folder is a migration, so none is left out by a misspelt name."""
    folder = Path(migration_module.__file__).parent / "migrations"
    assert len(list(folder.iterdir())) == len(migrations())
