"""What the roles of the ledger may and may not do."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from psycopg import Connection, sql
from psycopg.rows import TupleRow

from tests.contracts.ledger import append
from tests.fixtures.postgres import Database, Ledger, opened

DENIED = ("42501", "42704")
TABLES = ("ledger_events", "ledger_heads", "ledger_logs", "ledger_probe", "ledger_subjects")


@contextmanager
def as_role(database: Database, role: str) -> Iterator[Connection[TupleRow]]:
    """A connection of the application's login in one of its roles."""
    with psycopg.connect(database.app_url, autocommit=True) as connection:
        connection.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(role)))
        yield connection


def refused(connection: Connection[TupleRow], statement: str) -> bool:
    """Whether a statement is refused for want of a right."""
    try:
        connection.execute(statement.encode())
    except psycopg.Error as error:
        return error.sqlstate in DENIED
    return False


@pytest.mark.parametrize("role", ["append", "read", "project", "erase"])
@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO ledger.{table} DEFAULT VALUES",
        "UPDATE ledger.{table} SET tenant = tenant",
        "DELETE FROM ledger.{table}",
        "TRUNCATE ledger.{table}",
        "DROP TABLE ledger.{table}",
        "ALTER TABLE ledger.{table} DISABLE TRIGGER ALL",
        "ALTER TABLE ledger.{table} NO FORCE ROW LEVEL SECURITY",
        "CREATE POLICY open ON ledger.{table}",
    ],
)
def test_no_role_of_the_software_writes_to_a_table(
    database: Database, role: str, statement: str
) -> None:
    """No role changes a table, its triggers or its policies."""
    with as_role(database, f"memoriale_{role}") as connection:
        for table in TABLES:
            assert refused(connection, statement.format(table=table))


@pytest.mark.parametrize("role", ["append", "read", "project", "erase"])
@pytest.mark.parametrize(
    "statement",
    [
        "SET ROLE memoriale_owner",
        "SET ROLE memoriale_admin",
        "SET session_replication_role = replica",
        "CREATE TABLE ledger.other ()",
        "CREATE FUNCTION ledger.other() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "SELECT ledger.broken_guards('t', gen_random_uuid(), '{}', '{}', '{}', '{}', '{}', '{}')",
        "SELECT ledger.sort_appends('t', gen_random_uuid(), 0, '{}', '{}', '{}', '{}', '{}', '{}',"
        " '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}')",
        "INSERT INTO ledger.migrations VALUES (99, 'x', 'x')",
    ],
)
def test_no_role_of_the_software_gains_more(database: Database, role: str, statement: str) -> None:
    """No role takes another's rights, adds objects, or calls the inner functions."""
    with as_role(database, f"memoriale_{role}") as connection:
        assert refused(connection, statement)


@pytest.mark.parametrize(
    ("role", "granted"),
    [
        ("append", set()),
        ("read", {"SELECT"}),
        ("project", {"SELECT", "INSERT", "DELETE"}),
        ("erase", {"SELECT", "DELETE"}),
    ],
)
def test_owner_snapshots_are_written_and_thrown_away(
    database: Database, role: str, granted: set[str]
) -> None:
    """Who posts views writes owner snapshots and removes them, who erases removes them, and
    nobody changes one."""
    statements = {
        "SELECT": "SELECT FROM {table} WHERE false",
        "INSERT": "INSERT INTO {table} (tenant) SELECT NULL WHERE false",
        "UPDATE": "UPDATE {table} SET tenant = tenant WHERE false",
        "DELETE": "DELETE FROM {table} WHERE false",
        "TRUNCATE": "TRUNCATE {table}",
    }
    with as_role(database, f"memoriale_{role}") as connection:
        allowed = {
            right
            for right, statement in statements.items()
            if not refused(connection, statement.format(table="ledger.ledger_owner_snapshots"))
        }
    assert allowed == granted


@pytest.mark.parametrize("role", ["append", "erase"])
def test_writers_do_not_read(database: Database, role: str) -> None:
    """The append role and the erase role read no table of the log."""
    with as_role(database, f"memoriale_{role}") as connection:
        for table in TABLES:
            assert refused(connection, f"SELECT FROM ledger.{table}")


@pytest.mark.parametrize("role", ["read", "project", "erase"])
def test_readers_do_not_append(database: Database, role: str) -> None:
    """Only the append role opens logs."""
    with as_role(database, f"memoriale_{role}") as connection:
        assert refused(connection, "SELECT ledger.open_log('t', 'memory')")


@pytest.mark.parametrize("role", ["read", "project"])
def test_unset_tenant_sees_nothing(database: Database, ledger: Ledger, role: str) -> None:
    """Without a tenant, before or after a transaction that had one, no row is seen."""
    ledger.committer.submit(append())
    counts = "SELECT (SELECT count(*) FROM ledger.ledger_events),"
    counts += " (SELECT count(*) FROM ledger.ledger_subjects)"
    with as_role(database, f"memoriale_{role}") as connection:
        assert connection.execute(counts.encode()).fetchone() == (0, 0)
        with connection.transaction():
            connection.execute("SELECT set_config('ledger.tenant', %s, true)", [ledger.log.tenant])
            assert connection.execute(counts.encode()).fetchone() == (1, 1)
        assert connection.execute(counts.encode()).fetchone() == (0, 0)
        left = connection.execute("SELECT current_setting('ledger.tenant', true)").fetchone()
        assert left == ("",)


def test_owner_is_bound_by_row_security(database: Database, ledger: Ledger) -> None:
    """The owner of the tables, as whom the functions run, sees no tenant by default either."""
    ledger.committer.submit(append())
    with database.connect() as connection:
        connection.execute("SET ROLE memoriale_owner")
        for table in TABLES:
            query = sql.SQL("SELECT count(*) FROM ledger.{}").format(sql.Identifier(table))
            assert connection.execute(query).fetchone() == (0,)


def test_pooled_connection_forgets_its_tenant(database: Database) -> None:
    """A reading connection that served one tenant shows nothing of it to the next."""
    with opened(database) as one:
        one.committer.submit(append())
        with one.datastore.read(one.log.tenant) as connection:
            used = connection.info.backend_pid
            assert connection.execute("SELECT count(*) FROM ledger.ledger_events").fetchone() == (
                1,
            )
        with one.datastore.read("somebody-else") as connection:
            assert connection.info.backend_pid == used
            assert connection.execute("SELECT count(*) FROM ledger.ledger_events").fetchone() == (
                0,
            )


def test_pooled_connection_forgets_its_tenant_after_an_error(database: Database) -> None:
    """A failed read leaves no tenant behind either."""
    with opened(database) as one:
        one.committer.submit(append())
        with pytest.raises(ZeroDivisionError), one.datastore.read(one.log.tenant):
            raise ZeroDivisionError
        with one.datastore.read("somebody-else") as connection:
            assert connection.execute("SELECT count(*) FROM ledger.ledger_events").fetchone() == (
                0,
            )


def test_reading_transactions_are_read_only(ledger: Ledger) -> None:
    """A reading connection cannot write, whatever is granted."""
    with ledger.datastore.read(ledger.log.tenant) as connection:
        answer = connection.execute("SHOW transaction_read_only").fetchone()
    assert answer == ("on",)


def test_temporary_objects_do_not_shadow(database: Database, ledger: Ledger) -> None:
    """Objects of the caller's session with our names change nothing in the functions."""
    receipt = ledger.committer.submit(append())
    with as_role(database, "memoriale_append") as connection:
        connection.execute("CREATE TEMP TABLE ledger_logs (tenant text, log_kind text)")
        connection.execute("SET search_path = pg_temp, ledger")
        found = connection.execute(
            "SELECT log_id FROM ledger.open_log(%s, 'memory')", [ledger.log.tenant]
        ).fetchone()
    assert found == (receipt.log_id,)


def test_admin_may_become_the_owner(database: Database) -> None:
    """The admin role is a member of the owner, and no role of the software is."""
    with database.connect() as connection:
        found = connection.execute(
            "SELECT r, pg_has_role(r, 'memoriale_owner', 'MEMBER') FROM unnest(ARRAY["
            "'memoriale_admin', 'memoriale_append', 'memoriale_read', 'memoriale_project',"
            "'memoriale_erase']) AS r"
        ).fetchall()
    assert [role for role, member in found if member] == ["memoriale_admin"]
