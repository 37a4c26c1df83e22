"""The analyst's commands as users run them."""

import json
import stat
from pathlib import Path

import duckdb
import pytest

from tests.fixtures.cli import CommandLine


@pytest.fixture(scope="module", autouse=True)
def memories(cli: CommandLine) -> None:
    """Three events of one user."""
    made = cli.remember("Alice prefers e-mail", "--kind", "fact")
    cli.remember("She lives in Rome")
    assert (
        cli("correct", made["memory_id"], "The phone", "--user", "alice", "--reason", "x").code == 0
    )


def test_sql(cli: CommandLine) -> None:
    """`sql` prints columns, rows, whether they were truncated, and up to which index."""
    query = "SELECT topic, count(*) AS n FROM events GROUP BY topic ORDER BY topic"
    found = cli("sql", query, "--fresh", "--json").json()
    assert found["columns"] == [
        {"name": "topic", "type": "VARCHAR"},
        {"name": "n", "type": "BIGINT"},
    ]
    assert found["rows"] == [
        {"topic": "memory.corrected", "n": 1},
        {"topic": "memory.remembered", "n": 2},
    ]
    assert (found["truncated"], found["index"], found["behind"]) == (False, 2, 0)


def test_sql_for_people(cli: CommandLine) -> None:
    """Without --json a table is printed; control characters in it do nothing to a terminal."""
    shown = cli(
        "sql", "SELECT kind, chr(27) || '[31m[red]' AS x FROM kinds ORDER BY kind", "--fresh"
    )
    text = shown.out.decode()
    assert shown.code == 0
    assert "fact" in text
    assert "\\x1b[31m[red]" in text
    assert "2 rows, up to index 2" in text
    cut = cli("sql", "FROM range(10)", "--limit", "3", "--json").json()
    assert (len(cut["rows"]), cut["truncated"]) == (3, True)


def test_sql_errors(cli: CommandLine) -> None:
    """A bad, refused or endless query is exit code 2 on field query, with DuckDB's words and
    without a path of this machine."""
    events = cli.events()
    for query, code in (
        ("SELECT missing FROM events", "bad_query"),
        ("DROP TABLE events", "refused_query"),
        ("FROM duckdb_settings()", "refused_query"),
        (f"FROM read_csv('{cli.home}/x.csv')", "refused_query"),
        ("SELECT repeat(kind, 100000000) FROM memory_versions", "memory_limit"),
        ("", "empty"),
    ):
        run = cli("sql", query, "--json")
        error = run.error()
        assert (run.code, error["code"], error["field"]) == (2, code, "query")
        assert str(cli.home) not in error["message"]
    late = cli("sql", "FROM range(1000000000000) t(i) WHERE i < 0", "--timeout", "1", "--json")
    assert (late.code, late.error()["code"]) == (2, "time_limit")
    wrong = cli("sql", "SELECT 1", "--limit", "0", "--json")
    assert (wrong.code, wrong.error()["field"]) == (2, "limit")
    assert cli.events() == events


def test_sql_message_is_of_use(cli: CommandLine) -> None:
    """The error of a wrong column names it."""
    assert "missing" in cli("sql", "SELECT missing FROM events", "--json").error()["message"]


def test_snapshot(cli: CommandLine, tmp_path: Path) -> None:
    """`snapshot` prints path, index, position and the root that `verify` gives; the file opens."""
    found = cli("snapshot", "--json", "--parquet", str(tmp_path / "out")).json()
    assert (found["index"], found["position"]) == (2, 3)
    assert found["root"] == cli("verify", "--json").json()["root"]
    path = Path(found["path"])
    assert path.is_relative_to(cli.home / "snapshots")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with duckdb.connect(str(path), read_only=True) as connection:
        assert connection.execute("SELECT count(*) FROM events").fetchall() == [(3,)]
    assert len(found["parquet"]) == 5
    assert all(Path(file).is_file() for file in found["parquet"])
    shown = cli("snapshot").out.decode()
    assert str(path) in shown
    assert found["root"] in shown


def test_stats(cli: CommandLine) -> None:
    """`stats` counts by topic, kind, branch and day, as JSON and for people."""
    found = cli("stats", "--json").json()
    assert (found["position"], found["behind"]) == (3, 0)
    assert {"topics", "kinds", "branches", "days"} <= set(found["tables"])
    assert {row["kind"]: row["memories"] for row in found["tables"]["kinds"]} == {
        "fact": 1,
        "note": 1,
    }
    shown = cli("stats")
    assert shown.code == 0
    assert "memory.remembered" in shown.out.decode()


def test_stats_of_an_empty_ledger(cli: CommandLine) -> None:
    """A tenant without events has empty tables."""
    found = cli("stats", "--tenant", "nobody", "--json").json()
    assert (found["position"], found["index"], found["tables"]["topics"]) == (0, -1, [])
    assert cli("stats", "--tenant", "nobody").code == 0
    assert cli("sql", "FROM kinds", "--tenant", "nobody", "--json").json()["rows"] == []


def test_describe(cli: CommandLine, bare: CommandLine) -> None:
    """`describe` gives name, type, unit and meaning of columns, and needs no ledger."""
    found = bare("describe", "memory_versions", "--json").json()
    first = found["columns"][0]
    assert {"name", "type", "unit", "meaning"} <= set(first)
    assert first["name"] == "recorded_from"
    everything = bare("describe", "--json").json()
    assert {column["table"] for column in everything["columns"]} == {
        table["name"] for table in everything["tables"]
    }
    assert "recorded_from" in bare("describe", "memory_versions").out.decode()
    wrong = bare("describe", "nothing", "--json")
    assert (wrong.code, wrong.error()["code"]) == (2, "unknown_view")
    assert list(bare.home.iterdir()) == []


def test_where_snapshots_lie(cli: CommandLine, tmp_path: Path) -> None:
    """MEMORIALE_SNAPSHOTS_URI moves them, and `config show` tells it."""
    folder = str(tmp_path / "elsewhere")
    found = cli("snapshot", "--json", MEMORIALE_SNAPSHOTS_URI=folder).json()
    assert found["path"].startswith(folder)
    shown = cli("config", "show", "--json", MEMORIALE_SNAPSHOTS_URI=folder)
    assert json.dumps(folder) in shown.out.decode()


def test_a_heading_cannot_change_the_terminal(cli: CommandLine) -> None:
    """The name that a query gives a column is printed with its control characters escaped."""
    shown = cli("sql", 'SELECT 1 AS "x\x1b[2Jy"')
    assert shown.code == 0
    assert b"\x1b" not in shown.out
