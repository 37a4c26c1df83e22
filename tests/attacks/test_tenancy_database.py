"""PostgreSQL itself, asked with the software's own logins for rows of another tenant."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from secrets import token_hex
from typing import Any, Final
from uuid import uuid4

import psycopg
import pytest
from psycopg import Connection, sql
from psycopg.rows import TupleRow

from memoriale.adapters.postgres.committer import Committer
from memoriale.domain.errors import MemorialeError
from tests.contracts.ledger import append, event
from tests.fixtures.postgres import Database, Ledger, opened

ROLES: Final = ("append", "read", "project", "erase")
SETTINGS: Final = (
    *(
        "{}",
        "{}-corp/",
        "%",
        "_%",
        "*",
        ".*",
        "{}_corp",
        "{}-cor_",
        "{}-CORP",
        " {}-corp",
        "{}-corp ",
    ),
    *("{}-corp' OR '1'='1", "{}-corp,{}", '"{}-corp"', "NULL", "", "public"),
)
"""Values of ``ledger.tenant`` that are not the victim's name."""


@dataclass(frozen=True)
class Neighbours:
    """Two tenants in one database: the victim's name begins with the whole of the other's."""

    database: Database
    name: str
    victim: Ledger
    other: Ledger


@contextmanager
def neighbours(database: Database) -> Iterator[Neighbours]:
    name = f"acme-{token_hex(4)}"
    with opened(database, f"{name}-corp") as victim, opened(database, name) as other:
        for ledger in (victim, other):
            ledger.committer.submit(append(event(about=(uuid4(),))))
        yield Neighbours(database, name, victim, other)


@pytest.fixture
def two(database: Database) -> Iterator[Neighbours]:
    with neighbours(database) as made:
        yield made


def relations(connection: Connection[TupleRow]) -> list[str]:
    """Every table of the ledger that names a tenant; also one that a later migration adds."""
    rows = connection.execute(
        "SELECT table_name FROM information_schema.columns"
        " WHERE table_schema = 'ledger' AND column_name = 'tenant'"
    ).fetchall()
    return sorted(str(name) for (name,) in rows)


def seen(connection: Connection[TupleRow], table: str, tenant: str) -> int:
    """How many of a tenant's rows a query finds that asks for them outright."""
    query = sql.SQL("SELECT count(*) FROM ledger.{} WHERE tenant = %s").format(
        sql.Identifier(table)
    )
    try:
        row = connection.execute(query, [tenant]).fetchone()
    except psycopg.errors.InsufficientPrivilege:
        return 0
    assert row is not None
    return int(row[0])


def shown_to(two: Neighbours, setting: str | None) -> set[tuple[str, str]]:
    """Roles and tables through which the victim's rows are seen under a setting."""
    found = set()
    with psycopg.connect(two.database.superuser_url, autocommit=True) as superuser:
        tables = relations(superuser)
    for role in ROLES:
        with psycopg.connect(two.database.app_url, autocommit=True) as connection:
            connection.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(f"memoriale_{role}")))
            if setting is not None:
                connection.execute("SELECT set_config('ledger.tenant', %s, false)", [setting])
            found |= {
                (role, table) for table in tables if seen(connection, table, two.victim.log.tenant)
            }
    return found


def test_no_role_sees_a_row_of_another_tenant(two: Neighbours) -> None:
    """Whatever tenant a session names, or none, the rows of every other one are not there: in no
    table and for no role."""
    assert shown_to(two, None) == set()
    for setting in SETTINGS:
        assert shown_to(two, setting.format(two.name, two.name)) == set(), setting
    own = {table for role, table in shown_to(two, two.victim.log.tenant) if role == "read"}
    assert own == {"ledger_logs", "ledger_heads", "ledger_events", "ledger_subjects"}


def test_the_check_notices_open_policies(fresh_database: Database) -> None:
    """Planted failures: row security that is off, a policy for everybody, and a policy by
    prefix each turn the check above red."""
    planted = (
        "ALTER TABLE ledger.{} DISABLE ROW LEVEL SECURITY",
        "CREATE POLICY everybody ON ledger.{} USING (true)",
        "CREATE POLICY prefix ON ledger.{} USING"
        " (starts_with(tenant, current_setting('ledger.tenant', true)) AND tenant <> '')",
    )
    with neighbours(fresh_database) as two, fresh_database.connect() as superuser:
        tables = ("ledger_events", "ledger_heads", "ledger_subjects")
        for statement, table in zip(planted, tables, strict=True):
            superuser.execute(statement.format(table).encode())
            with pytest.raises(AssertionError):
                test_no_role_sees_a_row_of_another_tenant(two)
            superuser.execute(f"ALTER TABLE ledger.{table} ENABLE ROW LEVEL SECURITY".encode())
            for policy in ("everybody", "prefix"):
                superuser.execute(f"DROP POLICY IF EXISTS {policy} ON ledger.{table}".encode())
        test_no_role_sees_a_row_of_another_tenant(two)


def refusal(two: Neighbours, log_id: object) -> tuple[object, ...]:
    """What an append says that names a log id under the neighbour's own tenant."""
    log = replace(two.other.log, log_id=log_id)  # type: ignore[arg-type]
    with (
        Committer(two.other.datastore, log) as committer,
        pytest.raises(MemorialeError) as refused,
    ):
        committer.submit(append())
    error = refused.value
    told = f"{error}{error.as_dict()}".replace(str(log_id), "").replace(str(log.tenant), "")
    return type(error), told


def test_an_append_to_another_tenants_log_is_one_to_none(two: Neighbours) -> None:
    """The id of another tenant's log is as unknown as a random one, and nothing is stored."""
    before = two.victim.reader.head()
    assert refusal(two, two.victim.log.log_id) == refusal(two, uuid4())
    assert two.victim.reader.head() == before


def test_equal_ids_of_two_tenants_do_not_meet(two: Neighbours) -> None:
    """An event, stream, owner and idempotency key of another tenant can be used again: no key
    tells that they are taken."""
    (row,) = two.victim.reader.rows()
    again = append(
        event(row.columns.stream_id, row.columns.stream_version, owner=row.columns.owner)
    )
    two.other.committer.submit(again)
    tag: dict[str, Any] = {"idempotency_tag": b"k" * 32, "request_tag": b"r" * 32, "owner": uuid4()}
    ids: dict[str, Any] = {"event_id": uuid4(), "memory_id": uuid4()}
    for ledger in (two.victim, two.other):
        assert ledger.committer.submit(append(event(**tag, **ids))).created


def test_connections_that_threads_share_keep_tenants_apart(two: Neighbours) -> None:
    """Threads that switch tenants on pooled connections, some of them failing in between, read
    rows of the tenant that they named and no other."""

    def ask(number: int) -> set[str]:
        ledger = (two.victim, two.other)[number % 2]
        with two.other.datastore.read(ledger.log.tenant) as connection:
            rows = connection.execute("SELECT tenant FROM ledger.ledger_events").fetchall()
        if number % 5 == 0:
            with pytest.raises(ZeroDivisionError), two.other.datastore.read(ledger.log.tenant):
                raise ZeroDivisionError
        return {str(name) for (name,) in rows} - {ledger.log.tenant}

    with ThreadPoolExecutor(8) as threads:
        assert set().union(*threads.map(ask, range(200))) == set()
