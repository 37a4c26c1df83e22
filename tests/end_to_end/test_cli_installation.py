"""Setting up and stopping an installation, and what happens when a part of it is not there."""

import os
import subprocess
from pathlib import Path

import psycopg
import pytest

from memoriale.adapters.embedded.server import running
from tests.fixtures.cli import SECONDS, CommandLine
from tests.fixtures.embedded import (
    discard,
    eventually,
    has_ended,
    interpreter,
    nobody,
    python_environment,
    temporary_home,
)
from tests.fixtures.postgres import Server, temporary_database

DOWN = "postgresql://someone:secret@127.0.0.1:1/none"


def test_a_home_lives_from_init_to_stop(bare: CommandLine) -> None:
    """`init` starts a server in the home, later commands join it, `stop` ends it at once."""
    lasting = bare.under({"MEMORIALE_EMBEDDED_IDLE": "600"})
    found = lasting("init", "--json").json()
    assert set(found) == {"home", "database", "postgres_version", "tenant"}
    assert (found["home"], found["tenant"]) == (str(bare.home), "default")
    with psycopg.connect(found["database"]) as connection:
        row = connection.execute("SELECT current_setting('is_superuser')").fetchone()
    assert row == ("on",)
    assert lasting("init", "--json").json() == found
    assert running(bare.home)
    assert bare("stop", "--json").json() == {"stopped": True}
    assert not running(bare.home)
    assert bare("stop", "--json").json() == {"stopped": False}
    told = bare("remember", "after a stop", "--user", "a", "--json").json()
    assert told["index"] == 0
    assert eventually(lambda: has_ended(bare.home))


def test_the_option_home_wins_over_the_environment(bare: CommandLine) -> None:
    """`--home` chooses the folder for one command, and only that folder is touched."""
    other = bare.home / "other"
    assert bare("init", "--home", str(other), "--json").json()["home"] == str(other)
    assert [path.name for path in bare.home.iterdir()] == ["other"]
    discard(other)


def test_an_empty_home_has_nothing_to_stop(bare: CommandLine) -> None:
    """`stop` makes nothing and is no failure when no server was running."""
    assert bare("stop", "--json").json() == {"stopped": False}
    assert list(bare.home.iterdir()) == []


def test_an_outside_database_is_migrated_by_its_administrator(
    bare: CommandLine, server: Server
) -> None:
    """Before `migrate` every command says so; the plan changes nothing; afterwards all work."""
    with temporary_database(server) as database:
        outside = bare.under(
            {
                "MEMORIALE_DATABASE_URL": database.app_url,
                "MEMORIALE_ADMIN_URL": database.superuser_url,
            }
        )
        early = outside("status", "--json")
        assert early.code == 5
        assert early.error()["code"] == "not_migrated"
        pending = outside("migrate", "--plan", "--json").json()["pending"]
        assert pending
        assert outside("migrate", "--plan", "--json").json()["pending"] == pending
        assert outside("migrate", "--json").json() == {"applied": pending}
        assert outside("migrate", "--json").json() == {"applied": []}
        assert outside("remember", "x", "--user", "a", "--json").json()["index"] == 0
        found = outside("init", "--json").json()
        password = psycopg.conninfo.conninfo_to_dict(database.app_url).get("password")
        assert found["database"].startswith("postgresql://")
        assert str(password) not in found["database"]
        assert outside("stop", "--json").json() == {"stopped": False}
        assert not (bare.home / "postgres").exists()


@pytest.mark.parametrize(
    "command",
    [
        ["init"],
        ["status"],
        ["migrate"],
        ["remember", "x", "--user", "a"],
        ["recall", "x", "--user", "a"],
        ["list", "--user", "a"],
        ["log"],
        ["verify"],
        ["import", "-", "--user", "a"],
    ],
    ids=lambda command: str(command[0]),
)
def test_a_database_that_is_down_is_code_5(bare: CommandLine, command: list[str]) -> None:
    """Exit code 5, may be retried, the place is named and the password is not."""
    run = bare(*command, "--json", MEMORIALE_DATABASE_URL=DOWN)
    assert run.code == 5
    error = run.error()
    assert (error["code"], error["retry"]) == ("database_down", True)
    assert "127.0.0.1:1" in error["message"]
    assert b"secret" not in run.errors


def test_a_home_that_is_no_folder_is_code_5(bare: CommandLine) -> None:
    """A file in the place of the home is named."""
    file = bare.home / "file"
    file.write_text("")
    run = bare("init", "--home", str(file / "home"), "--json")
    assert run.code == 5
    assert run.error()["field"] == "home"


def test_a_home_without_rights_is_code_5() -> None:
    """A user who may not write in the home is told so; nothing is made."""
    with temporary_home() as folder:
        user = nobody() if os.geteuid() == 0 else None
        if user is None:
            folder.chmod(0o500)
        home = folder / "home"
        run = subprocess.run(
            [interpreter(user), "-m", "memoriale.adapters.command_line", "init", "--json"],
            env=python_environment() | {"MEMORIALE_HOME": str(home)},
            cwd="/",
            user=user,
            group=user,
            extra_groups=None if user is None else [],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert run.returncode == 5, run.stderr
        assert '"code": "home_not_writable"' in run.stderr
        assert "Traceback" not in run.stderr
        assert not home.exists()


def test_settings_of_a_file_are_used(bare: CommandLine) -> None:
    """`memoriale.toml` of the current folder counts, the environment counts more."""
    Path(bare.home, "memoriale.toml").write_text('tenant = "filed"\nwait = 7\n')
    shown = bare("config", "show", "--json").json()
    assert (shown["tenant"], shown["wait"]) == ("filed", 60.0)
    Path(bare.home, "memoriale.toml").write_text("tenant = \n")
    assert bare("config", "show", "--json").error()["code"] == "bad_setting"
    Path(bare.home, "memoriale.toml").write_text("colour = 1\n")
    assert bare("config", "show", "--json").error()["code"] == "bad_setting"


def test_the_demo_is_one_command(bare: CommandLine) -> None:
    """`demo --json` tells its story on standard error and ends with one JSON object."""
    run = bare("demo", "--json")
    assert run.json() == {"ok": True}
    assert b"Traceback" not in run.errors
    assert run.errors.strip()
