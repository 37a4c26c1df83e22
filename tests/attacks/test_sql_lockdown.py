"""SQL of a hostile analyst: no file, setting, secret or other statement, and limits that hold."""

import errno
import json
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import pytest

from memoriale.adapters.mart import child, runner
from memoriale.adapters.mart.runner import run_query
from memoriale.domain.errors import InputError
from memoriale.projections.stats.snapshots import Snapshots
from tests.integration.test_mart_star import published
from tests.integration.test_stats_view import mixed_history

Ask = Callable[..., dict[str, Any]]
SECRET: Final = "secret-of-another-file"

WRITES: Final = [
    "INSERT INTO events SELECT * FROM events",
    "UPDATE events SET kind = 'x'",
    "DELETE FROM events",
    "TRUNCATE events",
    "DROP TABLE events",
    "DROP VIEW kinds",
    "ALTER TABLE events RENAME TO e",
    "ALTER TABLE events ADD COLUMN x INTEGER",
    "CREATE TABLE t AS SELECT 1",
    "CREATE TEMP TABLE t AS SELECT 1",
    "CREATE OR REPLACE VIEW kinds AS SELECT 1",
    "CREATE TEMP VIEW v AS SELECT 1",
    "CREATE MACRO f(x) AS x",
    "CREATE TEMP MACRO f(x) AS x",
    "CREATE SCHEMA s",
    "CREATE SEQUENCE s",
    "CREATE TYPE t AS ENUM ('a')",
    "CREATE INDEX i ON events (kind)",
    "COMMENT ON TABLE events IS 'x'",
    "WITH x AS (INSERT INTO position VALUES (1) RETURNING *) FROM x",
    "WITH x AS (DELETE FROM events RETURNING *) FROM x",
    "WITH x AS (UPDATE events SET kind = 'x' RETURNING *) FROM x",
    "MERGE INTO position USING (SELECT 1) ON true WHEN MATCHED THEN DELETE",
    "VACUUM",
    "ANALYZE",
    "CHECKPOINT",
    "FORCE CHECKPOINT",
    "BEGIN",
    "COMMIT",
    "EXPLAIN ANALYZE DELETE FROM events",
    "EXPLAIN ANALYZE INSERT INTO position VALUES (1)",
]
FILES: Final = [
    "FROM read_csv('{secret}')",
    "FROM read_csv_auto('{secret}')",
    "FROM '{secret}'",
    'FROM "{secret}"',
    "FROM read_text('{secret}')",
    "FROM read_blob('{secret}')",
    "FROM read_json('{secret}')",
    "FROM read_ndjson_objects('{secret}')",
    "FROM read_parquet('{secret}')",
    "FROM parquet_scan('{secret}')",
    "FROM parquet_schema('{secret}')",
    "FROM parquet_metadata('{secret}')",
    "FROM sniff_csv('{secret}')",
    "FROM glob('{folder}/*')",
    "SELECT * FROM glob('/etc/*')",
    "FROM '/proc/self/environ'",
    "FROM read_text('/proc/self/environ')",
    "FROM read_text('/dev/fd/0')",
    "FROM 'https://example.org/x.csv'",
    "FROM read_csv('https://example.org/x.csv')",
    "COPY events TO '{folder}/out.csv'",
    "COPY (SELECT 1) TO '{folder}/out.parquet' (FORMAT parquet)",
    "COPY events FROM '{secret}'",
    "COPY FROM DATABASE memory TO x",
    "EXPORT DATABASE '{folder}/export'",
    "IMPORT DATABASE '{folder}'",
    "ATTACH '{folder}/other.duckdb' AS other",
    "ATTACH '{snapshot}' AS again (READ_ONLY)",
    "ATTACH ':memory:' AS m",
    "DETACH memory",
    "USE memory",
    "INSTALL httpfs",
    "FORCE INSTALL httpfs",
    "LOAD httpfs",
    "LOAD '{folder}/x.duckdb_extension'",
    "UPDATE EXTENSIONS",
    "SELECT * FROM seq_scan('events')",
    "SELECT * FROM arrow_scan(1, 2, 3)",
    "SELECT * FROM arrow_scan_dumb(1, 2, 3)",
    "SELECT * FROM pandas_scan(1)",
    "FROM os",
    "FROM connection",
]
SETTINGS: Final = [
    "SET enable_external_access = true",
    "SET GLOBAL memory_limit = '100GB'",
    "SET threads = 100",
    "SET lock_configuration = false",
    "SET disabled_filesystems = ''",
    "SET TimeZone = 'Europe/Rome'",
    "SET VARIABLE x = 1",
    "RESET memory_limit",
    "RESET lock_configuration",
    "PRAGMA memory_limit = '100GB'",
    "PRAGMA database_list",
    "PRAGMA enable_profiling",
    "PRAGMA version",
    "CALL duckdb_settings()",
    "CALL enable_logging()",
    "CREATE SECRET s (TYPE s3, KEY_ID 'a', SECRET 'b')",
    "DROP SECRET s",
    "PREPARE p AS SELECT 1",
    "EXECUTE p",
    "DEALLOCATE p",
]
TELLING: Final = [
    "FROM duckdb_settings()",
    "FROM duckdb_settings",
    'FROM "duckdb_settings"',
    'FROM "DuckDB_Settings"()',
    "FROM system.main.duckdb_settings()",
    "SELECT (SELECT any_value(value) FROM duckdb_settings())",
    "WITH x AS MATERIALIZED (FROM duckdb_databases()) FROM x",
    "SELECT 1 WHERE EXISTS (FROM duckdb_databases())",
    "SELECT 1 UNION ALL SELECT path FROM duckdb_databases()",
    "DESCRIBE duckdb_databases",
    "SUMMARIZE duckdb_databases",
    "SUMMARIZE SELECT path FROM duckdb_databases()",
    "PIVOT duckdb_databases ON readonly IN (true) USING count(*)",
    "FROM duckdb_databases",
    "FROM pragma_database_list",
    "FROM pragma_database_list()",
    "FROM pragma_storage_info('events')",
    "FROM pg_settings",
    "FROM pg_catalog.pg_settings",
    "SELECT current_setting('secret_directory')",
    "SELECT CURRENT_SETTING('allowed_paths')",
    "SELECT list_transform([1], lambda x: current_setting('allowed_paths'))",
    "FROM duckdb_secrets()",
    "FROM which_secret('s3://x', 's3')",
    "FROM duckdb_extensions()",
    "FROM duckdb_temporary_files()",
    "FROM duckdb_logs",
    "FROM duckdb_memory()",
    "SELECT getvariable('x')",
    "SELECT getenv('HOME')",
    "FROM query('FROM duckdb_databases()')",
    "SELECT * FROM query_table('duckdb_databases')",
    "FROM json_execute_serialized_sql(json_serialize_sql('FROM duckdb_databases()'))",
    "SHOW DATABASES",
    "FROM (SHOW DATABASES)",
    "SHOW VARIABLES",
    "SELECT 1; FROM duckdb_databases()",
    "SELECT 1; SELECT 2",
    "",
    "-- nothing",
    "SELECT $1",
    "SELECT ?",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the snapshot lies, beside a file that is none of the analyst's business."""
    made = tmp_path_factory.mktemp("hidden-home")
    (made / "secret.csv").write_text(f"a\n{SECRET}\n")
    return made


@pytest.fixture(scope="module")
def ask(folder: Path) -> Ask:
    """Asks a snapshot as ``ledger.sql`` does."""
    snapshot = published(folder, mixed_history())
    snapshots = Snapshots(snapshot.path.parent, snapshot.log_id)

    def asked(query: str, rows: int = 1_000, seconds: float = 60) -> dict[str, Any]:
        with snapshots.reading(snapshot) as descriptor:
            return run_query(snapshot, descriptor, query, rows=rows, seconds=seconds)

    return asked


def contents(folder: Path) -> dict[str, str]:
    """Every file below a folder with its hash."""
    return {
        str(path): sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def said(error: InputError) -> str:
    """Everything that an error tells, without the query itself."""
    return json.dumps({**error.as_dict(), "value": None})


@pytest.mark.parametrize("sql", [*WRITES, *FILES, *SETTINGS, *TELLING])
def test_an_attack_is_refused(sql: str, ask: Ask, folder: Path) -> None:
    """The statement is an input error; nothing on disk changes, and the error tells no path."""
    before = contents(folder)
    (snapshot,) = (folder / "snapshots").glob("*.duckdb")
    query = (
        sql.replace("{secret}", str(folder / "secret.csv"))
        .replace("{snapshot}", str(snapshot))
        .replace("{folder}", str(folder))
    )
    with pytest.raises(InputError) as caught:
        ask(query)
    assert caught.value.code in ("refused_query", "bad_query")
    assert caught.value.field == "query"
    assert contents(folder) == before
    assert SECRET not in said(caught.value)
    if "{" not in sql:
        assert str(folder) not in said(caught.value)


ENDLESS: Final = (
    "SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE (a.range + b.range) % 7 = 3"
)
BOMBS: Final = [
    ENDLESS,
    "SELECT repeat(kind, 100000000) FROM memory_versions",
    "SELECT length(repeat(repeat(kind, 1000000), 1000)) FROM memory_versions",
    "SELECT printf('%2000000000d', 1)",
    "SELECT lpad('x', 2000000000, 'y')",
    "SELECT string_agg(repeat('x', 1000000), ',') FROM range(100000)",
    "SELECT list(i) FROM range(1000000000) AS t(i)",
    "SELECT range(2000000000)",
    "SELECT count(DISTINCT a.range * b.range) FROM range(10000000) a, range(10000000) b",
    "WITH RECURSIVE t AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM t) SELECT max(i) FROM t",
    "WITH RECURSIVE t AS (SELECT 'x' AS s UNION ALL SELECT s || s FROM t) SELECT count(*) FROM t",
    "SELECT a.range FROM range(100000000) a ORDER BY hash(a.range) DESC, a.range OFFSET 99999999",
    "SELECT * FROM range(9223372036854775807) t(i) WHERE i < 0",
]


@pytest.mark.parametrize("sql", BOMBS)
def test_a_bomb_ends_within_its_limits(sql: str, ask: Ask) -> None:
    """What would take all memory or for ever is ended, and the error says which limit it was."""
    with pytest.raises(InputError) as caught:
        ask(sql, seconds=4)
    assert caught.value.code in ("memory_limit", "time_limit")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    unit = 1 if sys.platform == "darwin" else 1024
    assert peak * unit <= child.ADDRESS_SPACE


def test_deep_nesting(ask: Ask) -> None:
    """A query nested so deeply that a parser may give up is an input error all the same."""
    for sql in ("SELECT " + "(" * 20_000 + "1" + ")" * 20_000, "SELECT 1" + "+1" * 30_000):
        with pytest.raises(InputError):
            ask(sql)


def test_a_large_answer_is_cut(ask: Ask) -> None:
    """An answer has at most the rows asked for and 8 MiB, and says that there was more."""
    found = ask("FROM range(1000000000)", rows=7)
    assert ([row["range"] for row in found["rows"]], found["truncated"]) == ([*range(7)], True)
    wide = ask("SELECT repeat('x', 1000000) AS x FROM range(100)")
    assert (len(wide["rows"]), wide["truncated"]) == (8, True)
    huge = ask("SELECT repeat('x', 50000000) AS x")
    assert (huge["rows"], huge["truncated"]) == ([], True)
    assert ask("FROM range(7)", rows=7)["truncated"] is False


def test_no_path_comes_out(ask: Ask, folder: Path) -> None:
    """Nothing that the system tells about the snapshot has a path of this machine in it."""
    for name in ("tables", "views", "columns", "schemas", "types", "functions", "constraints"):
        text = json.dumps(ask(f"FROM duckdb_{name}()", rows=100_000)["rows"])
        assert str(folder) not in text
        assert not re.search(r"/(home|root|tmp|nonexistent|var)/", text)
    for sql in (
        "FROM information_schema.tables",
        "FROM sqlite_master",
        "SELECT current_database()",
    ):
        assert str(folder) not in json.dumps(ask(sql)["rows"])


def test_the_child_has_nothing_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of the process that runs the query has no variable of the caller's."""
    monkeypatch.setenv("MEMORIALE_DATABASE_URL", "postgresql://u:hidden@h/d")
    assert "hidden" not in json.dumps(runner._environment())
    assert set(runner._environment()) <= {
        *("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "HOME", "LC_ALL", "TZ")
    }


def test_no_file_can_be_opened_by_the_process() -> None:
    """Apart from DuckDB's own rules, the kernel refuses any further file, socket and write."""
    code = (
        "import os, socket\nfrom memoriale.adapters.mart import child\n"
        "child._limit_process(60)\nchild._forbid_files()\n"
        "for attempt in (lambda: open('/etc/passwd'), socket.socket, os.pipe):\n"
        "    try:\n        attempt()\n    except OSError as error:\n        print(error.errno)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.stdout.split() == [str(errno.EMFILE)] * 3, run.stderr


@pytest.mark.usefixtures("ask")
def test_a_caller_that_is_killed_leaves_no_query(folder: Path) -> None:
    """The process of a query ends at its deadline although nobody is there to end it."""
    (path,) = (folder / "snapshots").glob("*.duckdb")
    request = {"path": str(path), "rows": 1, "bytes": 1_000, "seconds": 2}
    request["query"] = ENDLESS
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "memoriale.adapters.mart.child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )
    output, _ = process.communicate(json.dumps(request).encode(), timeout=60)
    assert output == b""
    assert process.returncode == -signal.SIGALRM
