"""PostgreSQL's errors as errors of memoriale: the one place where they are translated."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final
from uuid import UUID

import psycopg
from psycopg import errors as pg

from memoriale.domain.errors import (
    ConflictError,
    InputError,
    MemorialeError,
    RefusedError,
    UnavailableError,
    ViolationError,
)

HOLE: Final = "hole"
"""Code of the error for a missing event."""

Maker = Callable[[str, str], MemorialeError]
"""Makes an error from the place of the database and PostgreSQL's own first line."""


@contextmanager
def translated(place: str) -> Iterator[None]:
    """
    Raise psycopg's errors as errors of memoriale.

    Args:
        place: Where the database is, without a password; named in messages.
    """
    try:
        yield
    except psycopg.Error as error:
        raise translate(error, place) from error


def translate(error: psycopg.Error, place: str) -> MemorialeError:
    """
    The error of memoriale for an error of psycopg.

    The server's DETAIL is left out: it can quote a row.

    Args:
        error: What psycopg raised.
        place: Where the database is, without a password.
    """
    said = error.diag.message_primary or str(error).partition("\n")[0] or type(error).__name__
    state = error.sqlstate or ""
    for prefix in (state, state[:2]):
        if prefix in _BY_STATE:
            return _BY_STATE[prefix](place, said)
    for kind, make in _BY_CLASS:
        if isinstance(error, kind):
            return make(place, said)
    return _unexpected(place, said)


def is_lost_connection(error: psycopg.Error) -> bool:
    """
    Whether the connection ended, so that nobody knows if the last statement took effect.

    Args:
        error: What psycopg raised.
    """
    state = error.sqlstate or ""
    if state:
        return state.startswith(("08", "57P")) or state == "25P03"
    return isinstance(error, pg.OperationalError | pg.InterfaceError)


def database_down(place: str, said: str) -> UnavailableError:
    """
    The error for a database that cannot be reached.

    Args:
        place: Where the database should be.
        said: Why it cannot be reached.
    """
    return UnavailableError(
        f"The database at {place} cannot be reached ({said}). Start it or correct"
        " MEMORIALE_DATABASE_URL, then try again.",
        code="database_down",
        value=place,
    )


def hole(index: int) -> UnavailableError:
    """The error for an event that is missing."""
    return UnavailableError(
        f"The log has no event {index}, although it goes on after it: somebody deleted"
        " it. Run `memoriale verify`.",
        code=HOLE,
        value=index,
    )


def head_missing(tenant: str, log_id: UUID) -> ViolationError:
    """A log whose head is not there: it is made with the log, and nothing removes it."""
    return ViolationError(
        f"The head of log {log_id} of tenant {tenant} is gone: somebody deleted it, or the log "
        "with it. Run 'memoriale verify'.",
        code="head_missing",
        value=str(log_id),
    )


def _unexpected(place: str, said: str) -> MemorialeError:
    return UnavailableError(
        f"The database at {place} failed: {said}. See the server's log.", code="database_error"
    )


def _overloaded(place: str, said: str) -> MemorialeError:
    return UnavailableError(
        f"The database at {place} is out of room, memory or connections: {said}."
        " Free some and try again.",
        code="database_overloaded",
    )


def _too_slow(place: str, said: str) -> MemorialeError:
    return UnavailableError(
        f"The database at {place} stopped a statement: {said}. Try again.",
        code="database_timeout",
    )


def _not_migrated(place: str, said: str) -> MemorialeError:
    return UnavailableError(
        f"The database at {place} lacks a part of the ledger ({said}). Run `memoriale migrate`.",
        code="not_migrated",
    )


def _conflict(place: str, said: str) -> MemorialeError:
    return ConflictError(f"Somebody else was first: {said}. Try again.")


def _bad_value(place: str, said: str) -> MemorialeError:
    return InputError(f"The database does not take this value: {said}. Nothing was stored.")


def _not_allowed(place: str, said: str) -> MemorialeError:
    return RefusedError(
        f"The role of this connection may not do that: {said}. Grant the ledger's roles to the"
        " login in MEMORIALE_DATABASE_URL.",
        code="database_right_missing",
    )


def _append_only(place: str, said: str) -> MemorialeError:
    return RefusedError(f"{said}. Write a new event instead.", code="append_only")


def _unknown_log(place: str, said: str) -> MemorialeError:
    return InputError(f"{said}. Open the log first.", code="unknown_log", field="log_id")


def _not_durable(place: str, said: str) -> MemorialeError:
    return InputError(
        f"{said}. Remove that setting from the login, the database or the URL.",
        code="not_durable",
        field="synchronous_commit",
        value="off",
        allowed=["on", "local", "remote_write", "remote_apply"],
    )


def _bad_encoding(place: str, said: str) -> MemorialeError:
    return InputError(
        f"{said}. Create the database with ENCODING 'UTF8'.",
        code="bad_encoding",
        field="database_url",
        allowed="UTF8",
    )


_BY_STATE: Final[dict[str, Maker]] = {
    "ML001": _unknown_log,
    "ML002": _not_durable,
    "ML003": _append_only,
    "ML004": _bad_encoding,
    "08": database_down,
    "22": _bad_value,
    "23": _bad_value,
    "23505": _conflict,
    "23P01": _conflict,
    "25006": database_down,
    "25P03": database_down,
    "28": database_down,
    "3D000": database_down,
    "3F000": _not_migrated,
    "40": _conflict,
    "42501": _not_allowed,
    "42704": _not_migrated,
    "42883": _not_migrated,
    "42P01": _not_migrated,
    "53": _overloaded,
    "54": _bad_value,
    "55P03": _too_slow,
    "57014": _too_slow,
    "57P01": database_down,
    "57P02": database_down,
    "57P03": database_down,
    "57P04": database_down,
    "57P05": database_down,
}

_BY_CLASS: Final[tuple[tuple[type[psycopg.Error], Maker], ...]] = (
    (pg.DataError, _bad_value),
    (pg.IntegrityError, _conflict),
    (pg.OperationalError, database_down),
)
