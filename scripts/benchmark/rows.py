"""The rows: what each measures, and the floor that it stands beside."""

import hashlib
import os
import random
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
from access_log import access_log, access_log_full
from branches import branches
from episodes import episodic
from operations import add_recall
from resources import fork_100k, working_set
from stage import OWNERS, TENANT, Stage, median_ms, peak_mib, result, seconds, sentence
from stores import stores
from subscriptions import subscribe, subscribe_wake

from memoriale.adapters.proving.receipts import check, prove
from memoriale.adapters.runner.runner import Runner
from memoriale.adapters.sealing.sealing import target_of

Row = Callable[[Stage], dict[str, object] | list[dict[str, object]]]


def remember(stage: Stage) -> dict[str, object]:
    """One durable, sealed remember with its receipt, against a bare INSERT and COMMIT."""
    alice = stage.ledger.memory(tenant=TENANT, user="alice", agent="bench")
    alice.remember("the first one makes the keys")
    with _superuser(stage) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS public.floor (id bigserial, text text)")
        insert = "INSERT INTO public.floor (text) VALUES (%s)"
        median_ms(lambda n: connection.execute(insert, [f"note {n}"]), 50)
        floor = median_ms(lambda n: connection.execute(insert, [f"note {n}"]), 500)
    median_ms(lambda n: alice.remember(f"warm {n} " * 10), 50)
    ours = median_ms(lambda n: alice.remember(f"note {n} " * 10), 500)
    against = "one-row INSERT + COMMIT"
    return result("ms p50", floor, ours, against, higher_is_better=False)


def writers(stage: Stage) -> dict[str, object]:
    """32 threads that remember at once, against one."""
    alice = stage.ledger.memory(tenant=TENANT, user="alice")
    alice.remember("the first one makes the keys")

    def notes(count: int) -> None:
        for number in range(count):
            alice.remember(f"note {number} " * 10)

    one = 300 / seconds(lambda: notes(300))
    with ThreadPoolExecutor(32) as pool:
        many = 3_200 / seconds(lambda: list(pool.map(notes, [100] * 32)))
    return result("events/s", one, many, "one thread", higher_is_better=True)


def bulk(stage: Stage) -> dict[str, object]:
    """Bulk import until durable, against COPY of the same rows into the same table."""
    memory = stage.ledger.memory(tenant=TENANT)
    items = stage.items(stage.events, seed=-1)
    parts = [items[start : start + 500] for start in range(0, len(items), 500)]
    first = stage.ledger.tenant(TENANT).log.head()
    ours = stage.events / seconds(lambda: [memory.remember_many(part) for part in parts])
    floor = stage.events / _copy_seconds(stage, first)
    return result("events/s", floor, ours, "COPY of the same rows", higher_is_better=True)


def replay_recall(stage: Stage) -> dict[str, object]:
    """Rebuild of the recall view, embedding included, against LanceDB's ``add`` of its rows."""
    (report,) = stage.filled().ledger.replay("recall", tenant=TENANT)
    peak = peak_mib()
    view = stage.ledger.tenant(TENANT).view("recall")
    with view.read(wait=600) as reading, tempfile.TemporaryDirectory() as folder:
        import lancedb

        from memoriale.projections.recall.schema import COLUMNS, VECTOR

        rows = reading.view.table.read("key >= 0", (*COLUMNS, VECTOR))
        database = lancedb.connect(folder)
        table = database.create_table("rows", schema=rows.schema)
        floor = rows.num_rows / seconds(lambda: table.add(rows))
    ours = report.events_per_second
    against = "LanceDB add of the same rows"
    return result("events/s", floor, ours, against, higher_is_better=True, peak=peak)


def replay_stats(stage: Stage) -> dict[str, object]:
    """Rebuild of the stats view, against reading the same headers into a bare DuckDB table."""
    (report,) = stage.filled().ledger.replay("stats", tenant=TENANT)
    peak = peak_mib()
    head = stage.ledger.tenant(TENANT).log.head()
    floor = head / seconds(lambda: _headers_to_duckdb(stage))
    ours = report.events_per_second
    against = "COPY out + DuckDB insert"
    return result("events/s", floor, ours, against, higher_is_better=True, peak=peak)


def recall(stage: Stage) -> dict[str, object]:
    """Hybrid recall of one of 20 owners, against an exact vector search with that filter."""
    stage.filled()
    view = stage.ledger.tenant(TENANT).view("recall")
    chosen = random.Random(7)
    questions = [sentence(chosen, 6) for _ in range(500)]
    users = [stage.ledger.memory(tenant=TENANT, user=f"user-{n}") for n in range(OWNERS)]
    users[0].recall("catch up first", wait=3_600)
    for user in users:
        user.recall("the first one reads the rows")
    ours = median_ms(lambda n: users[n % OWNERS].recall(questions[n], top_k=10), len(questions))
    peak = peak_mib()
    owners = [next(iter(u.services.log.identities.scope(u.principal).owners)) for u in users]
    with view.read(wait=600) as reading:
        table, embed = reading.view.table, reading.view.embedder.embed_query
        vectors = [embed(question) for question in questions[:100]]
        floor = median_ms(
            lambda n: table.vector_search(
                vectors[n], f"owner = '{owners[n % OWNERS].hex}'", ("key", "text"), 10
            ),
            len(vectors),
        )
    against = "exact search, owner filter"
    return result("ms p50", floor, ours, against, higher_is_better=False, peak=peak)


def recall_as_of(stage: Stage) -> dict[str, object]:
    """Recall as of a point in the middle of the log, against the same questions now."""
    stage.filled()
    middle = stage.ledger.tenant(TENANT).log.head() // 2
    chosen = random.Random(8)
    questions = [sentence(chosen, 6) for _ in range(200)]
    user = stage.ledger.memory(tenant=TENANT, user="user-1")
    user.recall("catch up first", wait=3_600)
    user.recall("as of a point too", as_of=middle)
    now = median_ms(lambda n: user.recall(questions[n], top_k=10), len(questions))
    then = median_ms(lambda n: user.recall(questions[n], top_k=10, as_of=middle), len(questions))
    return result("ms p50", now, then, "the same recall now", higher_is_better=False)


def lag(stage: Stage) -> dict[str, object]:
    """From a receipt until the memory is recalled, against a recall with nothing new."""
    stage.filled()
    user = stage.ledger.memory(tenant=TENANT, user="user-1")
    user.recall("catch up first", wait=3_600)
    floor = median_ms(lambda n: user.recall(f"question {n}", top_k=1), 50)

    def appears(number: int) -> float:
        text = f"xylophone {number} appears"
        receipt = user.remember(text)

        def found() -> None:
            assert user.recall(text, top_k=1)[0].memory_id == receipt.memory_id

        return seconds(found)

    ours = statistics.median(appears(number) for number in range(50)) * 1000
    return result("ms p50", floor, ours, "a recall with nothing new", higher_is_better=False)


def verify(stage: Stage) -> dict[str, object]:
    """Verifying every event, against one SHA-256 call for each stored state."""
    log = stage.filled().ledger.tenant(TENANT).log
    ours = log.head() / seconds(lambda: stage.ledger.verify(tenant=TENANT))
    peak = peak_mib()
    states = [row.state or b"" for rows in log.reader.stream_rows(0) for row in rows]
    floor = len(states) / seconds(lambda: [hashlib.sha256(s).digest() for s in states])
    against = "one SHA-256 per state"
    return result("events/s", floor, ours, against, higher_is_better=True, peak=peak)


def sealing(stage: Stage) -> dict[str, object]:
    """Sealing everything that a log has, against a bulk import of as many events."""
    stage.filled()
    log, sealing = stage.ledger.tenant(TENANT).log, stage.ledger.infrastructure.sealing
    target = target_of(log)
    shutil.rmtree(sealing.sealer.tree(target, log.log.incarnation).folder, ignore_errors=True)
    ours = log.head() / seconds(lambda: sealing.seal([target]))
    memory, items = stage.ledger.memory(tenant=TENANT), stage.items(5_000, seed=-2)
    floor = len(items) / seconds(lambda: memory.remember_many(items))
    return result("events/s", floor, ours, "bulk import", higher_is_better=True)


def append_sealed(stage: Stage) -> dict[str, object]:
    """Remember while a runner seals each second, against one that posts alone."""
    alice = stage.ledger.memory(tenant=TENANT, user="alice", agent="bench")
    median_ms(lambda n: alice.remember(f"warm {n} " * 10), 200)
    taken: dict[bool, list[float]] = {False: [], True: []}
    # In short turns, so that what else the machine does falls on both.
    for turn in range(24):
        seal = turn % 4 in (1, 2)
        with Runner(stage.ledger, tenants=[TENANT], views=["stats"], seal=seal):
            taken[seal] += [
                seconds(lambda n=n: alice.remember(f"note {n} " * 10)) * 1000  # type: ignore[misc]
                for n in range(1_500)
            ]
    floor, ours = (statistics.median(taken[seal]) for seal in (False, True))
    return result("ms p50", floor, ours, "a runner that posts alone", higher_is_better=False)


def proof(stage: Stage) -> dict[str, object]:
    """Making and checking the proof of an event, against reading that event."""
    log = stage.filled().ledger.tenant(TENANT).log
    infrastructure = stage.ledger.infrastructure
    infrastructure.sealing.seal([target_of(log)])
    places = random.Random(3).choices(range(log.head()), k=300)
    floor = median_ms(lambda n: log.reader.rows(after=places[n] - 1, stop=places[n] + 1), 300)

    def made_and_checked(number: int) -> None:
        made = prove(log, infrastructure.sealing, places[number])
        check(made.proof, infrastructure.sealing.key.verifiers)

    ours = median_ms(made_and_checked, 300)
    return result("ms p50", floor, ours, "reading the event", higher_is_better=False)


def start_help(stage: Stage) -> dict[str, object]:
    """``memoriale --help``, against an interpreter that does nothing."""
    ours = median_ms(lambda n: _run([_memoriale(), "--help"]), 7)
    return result("ms p50", _bare_start(), ours, "python -c pass", higher_is_better=False)


def start_warm(stage: Stage) -> dict[str, object]:
    """``memoriale remember`` with the server running, against a bare interpreter."""
    stage.ledger.memory(tenant=TENANT, user="alice").remember("the server is up")
    command = [_memoriale(), "remember", "a note", "--tenant", TENANT, "--user", "alice"]
    ours = median_ms(lambda n: _run(command), 7)
    return result("ms p50", _bare_start(), ours, "python -c pass", higher_is_better=False)


def start_cold(stage: Stage) -> dict[str, object]:
    """The first ``memoriale remember`` in an empty home, against a bare interpreter."""
    times = []
    for _ in range(3):
        with tempfile.TemporaryDirectory(prefix="mem-") as home:
            command = [_memoriale(), "remember", "a note", "--user", "alice"]
            environment = os.environ | {"MEMORIALE_HOME": home}
            times.append(seconds(lambda: _run(command, environment)) * 1000)  # noqa: B023
            _run([_memoriale(), "stop"], environment)
    ours = statistics.median(times)
    return result("ms p50", _bare_start(), ours, "python -c pass", higher_is_better=False)


ROWS: dict[str, Row] = {
    "remember": remember,
    "writers": writers,
    "import": bulk,
    "replay-recall": replay_recall,
    "replay-stats": replay_stats,
    "recall": recall,
    "recall-as-of": recall_as_of,
    "access-log": access_log,
    "access-log-full": access_log_full,
    "lag": lag,
    "branches": branches,
    "stores": stores,
    "working-set": working_set,
    "fork-100k": fork_100k,
    "add-recall": add_recall,
    "episodic": episodic,
    "subscribe": subscribe,
    "subscribe-wake": subscribe_wake,
    "verify": verify,
    "sealing": sealing,
    "append-sealed": append_sealed,
    "proof": proof,
    "start-help": start_help,
    "start-warm": start_warm,
    "start-cold": start_cold,
}


def _superuser(stage: Stage) -> psycopg.Connection:
    server = stage.ledger.infrastructure.server
    assert server is not None
    return psycopg.connect(server.superuser_url, autocommit=True)


def _copy_seconds(stage: Stage, first: int) -> float:
    """COPY of the rows from an index on into an empty table with the ledger's own indexes."""
    with _superuser(stage) as connection:
        connection.execute("CREATE TABLE public.copied (LIKE ledger.ledger_events INCLUDING ALL)")
        source = "COPY (SELECT * FROM ledger.ledger_events WHERE tenant = 'bench'"
        with connection.cursor().copy(f"{source} AND index >= {first}) TO STDOUT BINARY") as out:
            data = [bytes(part) for part in out]

        def load() -> None:
            with connection.cursor().copy("COPY public.copied FROM STDIN BINARY") as into:
                for part in data:
                    into.write(part)

        taken = seconds(load)
        connection.execute("DROP TABLE public.copied")
    return taken


def _headers_to_duckdb(stage: Stage) -> None:
    import duckdb

    columns = "index, topic, kind, memory_id::text, branch::text, owner::text, header"
    with _superuser(stage) as connection, tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        query = f"COPY (SELECT {columns} FROM ledger.ledger_events WHERE tenant = 'bench') "
        with connection.cursor().copy(query + "TO STDOUT (FORMAT csv)") as out:
            path.write_bytes(b"".join(bytes(part) for part in out))
        with duckdb.connect(str(Path(folder) / "floor.duckdb")) as target:
            target.execute("CREATE TABLE rows AS SELECT * FROM read_csv(?)", [str(path)])


def _memoriale() -> str:
    return str(Path(sysconfig.get_path("scripts")) / "memoriale")


def _run(command: list[str], environment: dict[str, str] | None = None) -> None:
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, timeout=120)


def _bare_start() -> float:
    return median_ms(lambda n: _run([sys.executable, "-c", "pass"]), 7)
