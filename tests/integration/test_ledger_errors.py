"""PostgreSQL's errors: each one becomes an error of memoriale."""

import inspect
from typing import Any

import psycopg
import pytest
from psycopg import errors as pg

from memoriale.adapters.postgres.append import (
    GuardRefusedError,
    IdempotencyMismatchError,
    StreamConflictError,
)
from memoriale.adapters.postgres.errors import is_lost_connection, translate, translated
from memoriale.domain.errors import (
    ConflictError,
    InputError,
    MemorialeError,
    RefusedError,
    UnavailableError,
)


def foreign_errors() -> list[type[psycopg.Error]]:
    """Every error class of psycopg."""
    modules = (psycopg, pg)
    members = [value for module in modules for value in vars(module).values()]
    return sorted(
        {m for m in members if inspect.isclass(m) and issubclass(m, psycopg.Error)},
        key=lambda kind: kind.__name__,
    )


@pytest.mark.parametrize("kind", foreign_errors())
def test_every_error_of_psycopg_maps(kind: type[psycopg.Error]) -> None:
    """No error class of psycopg is left without an error of memoriale."""
    error = translate(kind("said by the server\nDETAIL: a row"), "db:5432/x")
    assert isinstance(error, MemorialeError)
    assert error.code
    assert "DETAIL" not in error.message


@pytest.mark.parametrize(
    ("kind", "expected", "code"),
    [
        (pg.OperationalError, UnavailableError, "database_down"),
        (pg.ConnectionFailure, UnavailableError, "database_down"),
        (pg.AdminShutdown, UnavailableError, "database_down"),
        (pg.CrashShutdown, UnavailableError, "database_down"),
        (pg.InvalidPassword, UnavailableError, "database_down"),
        (pg.ReadOnlySqlTransaction, UnavailableError, "database_down"),
        (pg.DiskFull, UnavailableError, "database_overloaded"),
        (pg.TooManyConnections, UnavailableError, "database_overloaded"),
        (pg.QueryCanceled, UnavailableError, "database_timeout"),
        (pg.LockNotAvailable, UnavailableError, "database_timeout"),
        (pg.UndefinedTable, UnavailableError, "not_migrated"),
        (pg.UndefinedFunction, UnavailableError, "not_migrated"),
        (pg.InvalidSchemaName, UnavailableError, "not_migrated"),
        (pg.InternalError_, UnavailableError, "database_error"),
        (pg.InterfaceError, UnavailableError, "database_error"),
        (pg.SerializationFailure, ConflictError, "conflict"),
        (pg.DeadlockDetected, ConflictError, "conflict"),
        (pg.UniqueViolation, ConflictError, "conflict"),
        (pg.CheckViolation, InputError, "bad_input"),
        (pg.NotNullViolation, InputError, "bad_input"),
        (pg.NumericValueOutOfRange, InputError, "bad_input"),
        (pg.ProgramLimitExceeded, InputError, "bad_input"),
        (pg.InsufficientPrivilege, RefusedError, "database_right_missing"),
    ],
)
def test_errors_say_what_to_do_next(
    kind: type[psycopg.Error], expected: type[MemorialeError], code: str
) -> None:
    """An error maps to the class whose callers react in the right way."""
    error = translate(kind("x"), "here")
    assert (type(error), error.code) == (expected, code)


def test_own_states_map() -> None:
    """The states that the ledger's functions raise have errors of their own."""
    codes = {"ML001": "unknown_log", "ML002": "not_durable", "ML003": "append_only"}
    for state, code in codes.items():
        kind: Any = type("Own", (pg.DatabaseError,), {"sqlstate": state})
        assert translate(kind("x"), "here").code == code


@pytest.mark.parametrize(
    ("kind", "lost"),
    [
        (pg.OperationalError, True),
        (pg.ConnectionFailure, True),
        (pg.AdminShutdown, True),
        (pg.CannotConnectNow, True),
        (pg.UniqueViolation, False),
        (pg.DiskFull, False),
        (pg.QueryCanceled, False),
        (pg.DataError, False),
    ],
)
def test_lost_connections_are_told_apart(kind: type[psycopg.Error], lost: bool) -> None:
    """Only an ended connection leaves open whether a statement took effect."""
    assert is_lost_connection(kind("x")) is lost


def test_other_errors_pass_through() -> None:
    """What is not psycopg's is left alone."""
    with pytest.raises(ZeroDivisionError), translated("here"):
        raise ZeroDivisionError


def test_refusals_are_errors_of_both_worlds() -> None:
    """A stream conflict is also the library's integrity error; all are conflicts or input."""
    from eventsourcing.persistence import IntegrityError

    assert issubclass(StreamConflictError, ConflictError)
    assert issubclass(StreamConflictError, IntegrityError)
    assert issubclass(GuardRefusedError, ConflictError)
    assert issubclass(IdempotencyMismatchError, InputError)
