"""Imports that are killed, or run at once, leave every line in the ledger exactly once."""

import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

from memoriale.adapters.library.ledger import Ledger
from tests.fixtures.ledger import HASHING

LINES = 6_000
KILLS = 4
IMPORTERS = 3

IMPORT = """
import json, sys
import memoriale
from memoriale.adapters.importing.runner import import_file
home, url, embedder, tenant, file = sys.argv[1:]
with memoriale.open(home=home, database_url=url, embedder=embedder) as ledger:
    memory = ledger.memory(tenant=tenant, user="alice")
    told = lambda what, done, total: print(done, flush=True)
    report = import_file(memory, file, "jsonl", progress=told)
print(json.dumps(report.as_dict()))
"""


def write_lines(file: Path) -> Counter[str]:
    """A file in which every third line comes twice; what it says and how often."""
    contents = [f"line {number - number % 3 // 2}" for number in range(LINES)]
    file.write_text("".join(json.dumps({"content": content}) + "\n" for content in contents))
    return Counter(contents)


def start(home: Path, url: str, tenant: str, file: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", IMPORT, str(home), url, HASHING, tenant, str(file)],
        stdout=subprocess.PIPE,
        text=True,
    )


def stored(ledger: Ledger, tenant: str) -> Counter[str]:
    events = ledger.events(tenant=tenant, content=True)
    return Counter(event.body["payload"]["content"] for event in events if event.body)


def test_killed_imports_go_on_where_they_stopped(
    shared_ledger: Ledger, ledger_home: Path, shared_url: str, tenant: str, tmp_path: Path
) -> None:
    """After kills at random moments the import, run once more, completes the file: each line is
    there as often as in the file, and the log has no hole and verifies."""
    file = tmp_path / "lines.jsonl"
    expected = write_lines(file)
    reached = []
    for _ in range(KILLS):
        process = start(ledger_home, shared_url, tenant, file)
        with process:
            assert process.stdout is not None
            for _ in range(random.randint(1, 3)):
                process.stdout.readline()
            try:
                process.wait(random.uniform(0.0, 0.05))
            except subprocess.TimeoutExpired:
                process.kill()
        reached.append(shared_ledger.tenant(tenant).log.head())
    assert 0 < reached[0] < LINES
    with start(ledger_home, shared_url, tenant, file) as process:
        out, _ = process.communicate(timeout=300)
    report = json.loads(out.splitlines()[-1])
    assert process.returncode == 0
    assert report["remembered"] + report["skipped"] == LINES
    assert report["skipped"] == reached[-1]
    assert stored(shared_ledger, tenant) == expected
    assert all(report.ok for report in shared_ledger.verify(tenant=tenant))


def test_imports_of_one_file_at_once_store_each_line_once(
    shared_ledger: Ledger, ledger_home: Path, shared_url: str, tenant: str, tmp_path: Path
) -> None:
    """Processes that import the same file together share the lines among them."""
    file = tmp_path / "lines.jsonl"
    expected = write_lines(file)
    processes = [start(ledger_home, shared_url, tenant, file) for _ in range(IMPORTERS)]
    outputs = [process.communicate(timeout=300)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * IMPORTERS
    reports = [json.loads(out.splitlines()[-1]) for out in outputs]
    assert sum(report["remembered"] for report in reports) == LINES
    assert all(report["remembered"] + report["skipped"] == LINES for report in reports)
    assert stored(shared_ledger, tenant) == expected
