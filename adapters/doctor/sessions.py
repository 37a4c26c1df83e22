"""Sessions in which a check may look and try, without making anybody wait."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import psycopg
from psycopg import Connection, sql
from psycopg.rows import TupleRow

from memoriale.adapters.composition import Infrastructure
from memoriale.adapters.postgres.errors import translated
from memoriale.adapters.postgres.location import connection_settings, place_of
from memoriale.adapters.postgres.roles import Role

APPLICATION: Final = "memoriale doctor"

# A writer never waits for more than this behind a lock that is tried for.
_LIMITS: Final = "SET LOCAL lock_timeout = '1s'; SET LOCAL statement_timeout = '30s'"


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The catalogue of the database at one moment, read only."""

    connection: Connection[TupleRow]

    def rows(self, query: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Answers of a query."""
        found: list[tuple[Any, ...]] = self.connection.execute(
            query.encode(), parameters or None
        ).fetchall()
        return found


@contextmanager
def session(url: str) -> Iterator[Connection[TupleRow]]:
    """
    A session of a login in autocommit, closed at the end.

    Raises:
        UnavailableError: The database cannot be reached by it.
    """
    settings = connection_settings(url, APPLICATION)
    with (
        translated(place_of(settings)),
        psycopg.connect(**settings, autocommit=True) as connection,
    ):
        yield connection


@contextmanager
def catalogue(infrastructure: Infrastructure) -> Iterator[Catalogue]:
    """The catalogue as the first login sees it; names outside pg_catalog are printed in full."""
    with session(infrastructure.logins.first) as connection:
        connection.execute(f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {_LIMITS}".encode())
        connection.execute("SET LOCAL search_path = pg_catalog")
        yield Catalogue(connection)
        connection.execute("ROLLBACK")


@contextmanager
def rolled_back(
    connection: Connection[TupleRow], role: Role | None, tenant: str | None
) -> Iterator[None]:
    """
    A transaction whose effects are undone, whatever happens in it.

    Args:
        connection: A session in autocommit.
        role: Taken first; None stays the login.
        tenant: Named in it; None names none.
    """
    begin: list[sql.Composable] = [sql.SQL("BEGIN"), sql.SQL(_LIMITS)]
    if role is not None:
        begin.append(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(role)))
    if tenant is not None:
        begin.append(
            sql.SQL("SELECT pg_catalog.set_config('ledger.tenant', {}, true)").format(tenant)
        )
    try:
        connection.execute(sql.SQL("; ").join(begin))
        yield
    finally:
        if not connection.closed:
            connection.execute("ROLLBACK")
