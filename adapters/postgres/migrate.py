"""Bring a database to the schema of this release."""

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

from memoriale.adapters.postgres.errors import translated
from memoriale.adapters.postgres.location import connection_settings, place_of
from memoriale.domain.errors import InputError, UnavailableError

OLDEST_SERVER: Final = 15
_LOCK: Final = 0x6D656D6F7269
_NAME: Final = re.compile(r"(\d{4})_(\w+)\.sql")


@dataclass(frozen=True, slots=True)
class Migration:
    """
    One step of the schema.

    ``version`` counts from 1, ``name`` says what it brings, ``sql`` is the whole file and
    ``checksum`` its SHA-256 in hex.
    """

    version: int
    name: str
    sql: str
    checksum: str


def migrations() -> list[Migration]:
    """Every migration of this release in order, read from the package."""
    folder = files("memoriale.adapters.postgres") / "migrations"
    found = [
        (int(match[1]), match[2], entry.read_text("utf-8"))
        for entry in folder.iterdir()
        if (match := _NAME.fullmatch(entry.name))
    ]
    return [
        Migration(version, name, sql, hashlib.sha256(sql.encode()).hexdigest())
        for version, name, sql in sorted(found)
    ]


def plan(url: str) -> list[Migration]:
    """
    The migrations that ``migrate`` would apply, in order.

    Args:
        url: A connection string of a login that may read the ledger.

    Raises:
        InputError: The server is older than PostgreSQL 15.
        UnavailableError: The database cannot be reached, or it holds a migration that this
            release does not know or that differs from its own.
    """
    with _connected(url) as connection:
        return _missing(_applied(connection))


def migrate(url: str) -> list[str]:
    """
    Apply what is missing, each migration in a transaction of its own, and return their names.

    Processes that do so at the same time wait for each other. The first migration creates the
    roles and grants them to the login of ``url``. Logins named ``memoriale_writer`` (append and
    read), ``memoriale_projector`` and ``memoriale_eraser`` get theirs too when the cluster has
    them; others get them by hand, see docs/operations.md.

    Args:
        url: A connection string of a superuser, or of a login with CREATEROLE and the right
            to create schemas in the database.

    Raises:
        InputError: The server is older than PostgreSQL 15, or the database is not UTF8.
        UnavailableError: As in ``plan``.
    """
    with _connected(url) as connection:
        connection.execute("SELECT pg_advisory_lock(%s)", [_LOCK])
        missing = _missing(_applied(connection))
        for migration in missing:
            _apply(connection, migration)
        return [migration.name for migration in missing]


def current(url: str) -> int:
    """
    The version of the last migration that a database has, 0 for none.

    Args:
        url: A connection string of a login that may read the ledger.

    Raises:
        InputError: The server is older than PostgreSQL 15.
        UnavailableError: The database cannot be reached.
    """
    with _connected(url) as connection:
        return max(_applied(connection), default=0)


@contextmanager
def _connected(url: str) -> Iterator[Connection[TupleRow]]:
    settings = connection_settings(url)
    with (
        translated(place_of(settings)),
        psycopg.connect(**settings, autocommit=True) as connection,
    ):
        _require_version(connection)
        yield connection


def _require_version(connection: Connection[TupleRow]) -> None:
    version = connection.info.server_version // 10_000
    if version < OLDEST_SERVER:
        raise InputError(
            f"The server is PostgreSQL {version}; the ledger needs {OLDEST_SERVER} or newer."
            " Upgrade it or name another one in MEMORIALE_DATABASE_URL.",
            code="server_too_old",
            field="database_url",
            value=version,
            allowed=f"PostgreSQL {OLDEST_SERVER} or newer",
        )


def _applied(connection: Connection[TupleRow]) -> dict[int, tuple[str, str]]:
    there = connection.execute(
        "SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = 'ledger' AND c.relname = 'migrations'"
    )
    if there.fetchone() is None:
        return {}
    rows = connection.execute("SELECT version, name, checksum FROM ledger.migrations")
    return {version: (name, checksum) for version, name, checksum in rows}


def _missing(applied: dict[int, tuple[str, str]]) -> list[Migration]:
    known = {migration.version: migration for migration in migrations()}
    for version, (name, checksum) in sorted(applied.items()):
        if version not in known:
            raise UnavailableError(
                f"The database has migration {version} ({name}), which this release does not"
                " know. Install the release that applied it, or a newer one.",
                code="database_newer",
                value=version,
                allowed=max(known),
            )
        if known[version].checksum != checksum:
            raise UnavailableError(
                f"Migration {version} ({name}) of the database differs from the one of this"
                " release. Install the release that applied it.",
                code="migration_changed",
                value=checksum,
                allowed=known[version].checksum,
            )
    return [known[version] for version in sorted(known.keys() - applied.keys())]


def _apply(connection: Connection[TupleRow], migration: Migration) -> None:
    with connection.transaction():
        connection.execute(migration.sql.encode())
        connection.execute(
            "INSERT INTO ledger.migrations (version, name, checksum) VALUES (%s, %s, %s)",
            [migration.version, migration.name, migration.checksum],
        )
