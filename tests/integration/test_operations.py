"""The statements of docs/operations.md make logins with which an installation is sound."""

import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from memoriale.adapters.doctor.checks import State
from memoriale.adapters.doctor.examination import OF_THE_LEDGER
from memoriale.adapters.embedded import start
from memoriale.adapters.postgres.migrate import migrate
from memoriale.adapters.postgres.roles import Logins
from tests.fixtures.doctor import patient_of
from tests.fixtures.postgres import Database

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"
BLOCKS = re.findall(r"^```sql\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture
def superuser_url(home: Path) -> Iterator[str]:
    """A server on which nobody has ever migrated."""
    server = start(home, idle_seconds=0)
    yield server.superuser_url
    server.release()


def execute(url: str, block: str) -> dict[str, str]:
    """Executes a block statement by statement; the passwords that it sets, by login."""
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in filter(str.strip, block.split(";\n")):
            connection.execute(statement.encode())
    return dict(re.findall(r"CREATE ROLE (\w+) LOGIN.* PASSWORD '(.*)'", block))


def test_the_statements_make_separate_logins(superuser_url: str) -> None:
    """Set up as the page says, every check of the ledger passes or warns, and all are tried; the
    migrator is no superuser, and later migrations need no more than it keeps."""
    first, second = BLOCKS
    passwords = execute(superuser_url, first)
    urls = {
        name: make_conninfo(superuser_url, dbname="memory", user=name, password=password)
        for name, password in passwords.items()
    }
    database = Database(make_conninfo(superuser_url, dbname="memory"), urls["memory_writer"])
    assert migrate(urls["memory_migrator"])
    execute(superuser_url, second)
    assert migrate(urls["memory_migrator"]) == []
    logins = Logins(
        urls["memory_writer"],
        urls["memory_projector"],
        urls["memory_eraser"],
        urls["memory_migrator"],
    )
    with patient_of(database, logins) as patient:
        checks = [patient.check(name) for name in OF_THE_LEDGER]
    assert [check for check in checks if check.state in (State.FAILED, State.NOT_TRIED)] == []
    (told,) = [check.detail for check in checks if check.name == "separate logins"]
    assert "memoriale_erase as memory_eraser" in told
    assert "superuser" not in told
