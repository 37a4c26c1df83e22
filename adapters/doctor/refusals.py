"""Checks that try, as each role and each login, what must be refused."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

from memoriale.adapters.composition import Infrastructure, Tenant
from memoriale.adapters.doctor.attempts import (
    RIGHT_MISSING,
    Attempt,
    of_login,
    of_owner,
    of_role,
    of_superuser,
)
from memoriale.adapters.doctor.checks import Check
from memoriale.adapters.doctor.declared import listed
from memoriale.adapters.doctor.logins import login_names
from memoriale.adapters.doctor.sessions import catalogue, rolled_back, session
from memoriale.adapters.postgres.errors import is_lost_connection
from memoriale.adapters.postgres.roles import VARIABLES, Role
from memoriale.domain.errors import RefusedError

_CALLS: Final = (
    "SELECT p.proname::text, 'ledger.' || quote_ident(p.proname) || '('"
    " || (SELECT coalesce(string_agg('NULL::' || format_type(t.type, NULL), ', ' ORDER BY t.n), '')"
    " FROM unnest(p.proargtypes) WITH ORDINALITY AS t (type, n)) || ')'"
    " FROM pg_proc p WHERE p.pronamespace = 'ledger'::regnamespace AND p.prokind = 'f'"
    " ORDER BY p.oid"
)


@dataclass(slots=True)
class Tries:
    """What came of a list of attempts."""

    refused: int = 0
    allowed: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    def make(
        self, connection: Connection[TupleRow], role: Role | None, attempts: Iterable[Attempt]
    ) -> None:
        """Makes each attempt in a transaction of its own that is undone."""
        for attempt in attempts:
            with rolled_back(connection, role, attempt.tenant):
                self._make(connection, attempt)

    def _make(self, connection: Connection[TupleRow], attempt: Attempt) -> None:
        try:
            cursor = connection.execute(attempt.statement.encode())
            while cursor.nextset():
                pass
        except psycopg.Error as error:
            self._failed(attempt, error)
            return
        if not attempt.sees:
            self.allowed.append(attempt.statement)
        elif cursor.fetchone() == (False,):
            self.refused += 1
        else:
            self.allowed.append(f"{attempt.statement} for tenant {attempt.tenant!r}")

    def _failed(self, attempt: Attempt, error: psycopg.Error) -> None:
        if is_lost_connection(error):
            raise error
        # What a function does may be refused too; the call was not.
        inside = attempt.refusal == RIGHT_MISSING and attempt.runs and error.diag.context
        if error.sqlstate == attempt.refusal and not inside:
            self.refused += 1
        elif attempt.runs and error.sqlstate not in ("55P03", "57014"):
            self.allowed.append(attempt.statement)
        else:
            said = error.diag.message_primary or error.sqlstate
            self.unknown.append(f"{attempt.statement} ({said})")

    def check(self, name: str, who: str) -> Check:
        """What the attempts say together."""
        if self.allowed:
            detail = f"{who} may: {listed(self.allowed)}; see the checks above for what allows it"
            return Check.failed(name, detail)
        if self.unknown:
            return Check.not_tried(name, f"as {who}: {listed(self.unknown)}")
        return Check.passed(name, f"{self.refused} tries as {who}, all refused")


def append(infrastructure: Infrastructure, tenant: Tenant) -> Check:
    """The role that appends can do nothing else."""
    return _of_role(infrastructure, Role.APPEND)


def read(infrastructure: Infrastructure, tenant: Tenant) -> Check:
    """The role that reads can do nothing else."""
    return _of_role(infrastructure, Role.READ)


def project(infrastructure: Infrastructure, tenant: Tenant) -> Check:
    """The role that posts views can do nothing else."""
    return _of_role(infrastructure, Role.PROJECT)


def erase(infrastructure: Infrastructure, tenant: Tenant) -> Check:
    """The role that erases can do nothing else."""
    return _of_role(infrastructure, Role.ERASE)


def logins(infrastructure: Infrastructure, tenant: Tenant) -> Check:
    """No login of the software can do more than its roles, or take another."""
    names = login_names(infrastructure)
    names.pop(Role.ADMIN, None)
    calls, tries = _calls(infrastructure), Tries()
    for name in sorted(set(names.values())):
        rights = [role for role in names if names[role] == name]
        with session(infrastructure.logins.of(rights[0])) as connection:
            tries.make(connection, None, of_login(rights, calls))
    return tries.check("refusals: logins", ", ".join(sorted(set(names.values()))))


def owner(infrastructure: Infrastructure, tenant: Tenant) -> Check:
    """The triggers and row security bind the owner, and the triggers a superuser too."""
    name, url = "refusals: owner", infrastructure.logins.own(Role.ADMIN)
    if url is None:
        return Check.not_tried(name, f"{VARIABLES[Role.ADMIN]} is not set")
    tries = Tries()
    with session(url) as connection:
        ((login, superuser),) = connection.execute(
            "SELECT rolname::text, rolsuper FROM pg_catalog.pg_roles WHERE rolname = session_user"
        ).fetchall()
        tries.make(connection, Role.OWNER, of_owner())
        if superuser:
            tries.make(connection, None, of_superuser())
    who = f"{Role.OWNER} and the superuser {login}" if superuser else str(Role.OWNER)
    return tries.check(name, who)


def _of_role(infrastructure: Infrastructure, role: Role) -> Check:
    name, own = f"refusals: {role.name.lower()}", infrastructure.logins.own(role)
    calls, tries = _calls(infrastructure), Tries()
    try:
        with session(infrastructure.logins.of(role)) as connection:
            tries.make(connection, role, of_role([role], calls))
    except RefusedError:
        if own is None:
            why = f"{VARIABLES[role]} is not set, and the first login may not take {role}"
            return Check.not_tried(name, why)
        return Check.failed(name, f"{VARIABLES[role]} names a login that may not take {role}")
    return tries.check(name, str(role))


def _calls(infrastructure: Infrastructure) -> dict[str, str]:
    with catalogue(infrastructure) as found:
        return dict(found.rows(_CALLS))
