"""What must be refused, as statements that would do it. None of them harms a real row: each
runs in a transaction that is undone, and what takes a strong lock is tried on the probe."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from memoriale.adapters.doctor.declared import EXECUTE, TABLES
from memoriale.adapters.postgres.roles import Role

PROBE_TENANT: Final = "_probe"
"""Has one row in the probe, and nothing else anywhere."""

RIGHT_MISSING: Final = "42501"
NOT_DURABLE: Final = "ML002"
APPEND_ONLY: Final = "ML003"

_ON_THE_PROBE: Final = (
    "TRUNCATE ledger.ledger_probe",
    "DROP TABLE ledger.ledger_probe",
    "ALTER TABLE ledger.ledger_probe DISABLE TRIGGER ALL",
    "ALTER TABLE ledger.ledger_probe DISABLE TRIGGER append_only",
    "ALTER TABLE ledger.ledger_probe NO FORCE ROW LEVEL SECURITY",
    "ALTER TABLE ledger.ledger_probe DISABLE ROW LEVEL SECURITY",
    "DROP POLICY tenant_only ON ledger.ledger_probe",
    "CREATE POLICY open ON ledger.ledger_probe",
    "CREATE RULE quiet AS ON DELETE TO ledger.ledger_probe DO INSTEAD NOTHING",
    "CREATE TRIGGER other BEFORE INSERT ON ledger.ledger_probe"
    " EXECUTE FUNCTION ledger.refuse_change()",
    "LOCK TABLE ledger.ledger_probe IN ACCESS EXCLUSIVE MODE",
)
_IN_THE_SCHEMA: Final = (
    "CREATE TABLE ledger.other ()",
    "CREATE VIEW ledger.other AS SELECT 1",
    "CREATE FUNCTION ledger.other() RETURNS int LANGUAGE sql AS 'SELECT 1'",
)
_OF_THE_SERVER: Final = (
    "SET LOCAL session_replication_role = replica",
    "CREATE ROLE memoriale_other",
    "ALTER ROLE memoriale_read BYPASSRLS",
    "SELECT rolpassword FROM pg_catalog.pg_authid",
    "SELECT pg_catalog.pg_read_file('PG_VERSION')",
    "SELECT pg_catalog.pg_ls_dir('.')",
    "SELECT pg_catalog.lo_import('PG_VERSION')",
    "COPY (SELECT 1) TO PROGRAM 'cat > /dev/null'",
)


@dataclass(frozen=True, slots=True)
class Attempt:
    """
    One thing to try.

    Args:
        statement: What is executed.
        tenant: Named in the transaction; None names none.
        refusal: The error that refuses it.
        runs: Whether it calls a function: any other error, and one from inside of it, means
            that it was not refused, only failed later.
        sees: What is refused is not the statement but to see a row.
    """

    statement: str
    tenant: str | None = PROBE_TENANT
    refusal: str = RIGHT_MISSING
    runs: bool = False
    sees: bool = False


def of_role(rights: Collection[Role], calls: dict[str, str]) -> Iterator[Attempt]:
    """
    What whoever holds some roles must be refused.

    Args:
        rights: The roles.
        calls: For each function of the schema a call with nulls.
    """
    for name, rule in TABLES.items():
        table = f"ledger.{name}"
        writes = {
            "INSERT": f"INSERT INTO {table} ({rule.column}) SELECT NULL WHERE false",
            "UPDATE": f"UPDATE {table} SET {rule.column} = NULL WHERE false",
            "DELETE": f"DELETE FROM {table} WHERE false",
        }
        for right, statement in writes.items():
            if not set(rule.writers.get(right, ())) & set(rights):
                yield Attempt(statement)
        if not set(rule.readers) & set(rights):
            yield Attempt(f"SELECT FROM {table} LIMIT 1")
        elif rule.by_tenant:
            yield from _beyond_the_tenant(table)
    for name, call in calls.items():
        if not set(EXECUTE.get(name, ())) & set(rights):
            yield Attempt(f"SELECT {call}", runs=True)
    if Role.APPEND in rights and "append" in calls:
        yield Attempt(
            f"SET LOCAL synchronous_commit = off; SELECT {calls['append']}",
            refusal=NOT_DURABLE,
            runs=True,
        )
    for statement in (*_ON_THE_PROBE, *_IN_THE_SCHEMA, *_OF_THE_SERVER):
        yield Attempt(statement)


def of_login(rights: Collection[Role], calls: dict[str, str]) -> Iterator[Attempt]:
    """What a login that may take some roles must be refused: the same, and to take another."""
    yield Attempt("SET LOCAL SESSION AUTHORIZATION memoriale_owner")
    for role in Role:
        if role not in rights:
            yield Attempt(f"SET LOCAL ROLE {role}")
    yield from of_role(rights, calls)


def of_owner() -> Iterator[Attempt]:
    """What even the owner of the tables must be refused, as whom the functions run."""
    for statement in (
        "UPDATE ledger.ledger_probe SET tenant = tenant",
        "DELETE FROM ledger.ledger_probe",
        "TRUNCATE ledger.ledger_probe",
    ):
        yield Attempt(statement, refusal=APPEND_ONLY)
    for name, rule in TABLES.items():
        if rule.by_tenant:
            yield from _beyond_the_tenant(f"ledger.{name}")


def of_superuser() -> Iterator[Attempt]:
    """What a superuser does not do by accident, in a session that skips ordinary triggers."""
    for statement in (
        "UPDATE ledger.ledger_probe SET tenant = tenant",
        "DELETE FROM ledger.ledger_probe",
        "TRUNCATE ledger.ledger_probe",
    ):
        yield Attempt(
            f"SET LOCAL session_replication_role = replica; {statement}", refusal=APPEND_ONLY
        )


def _beyond_the_tenant(table: str) -> Iterator[Attempt]:
    other = f"SELECT EXISTS (SELECT FROM {table} WHERE tenant <> '{PROBE_TENANT}')"
    anything = f"SELECT EXISTS (SELECT FROM {table})"
    yield Attempt(other, sees=True)
    yield Attempt(anything, tenant=None, sees=True)
    yield Attempt(anything, tenant="", sees=True)
    yield Attempt(f"SET LOCAL row_security = off; {anything}")
