"""Runs the rows of the benchmark, each in a process of its own, and prints JSON and a table."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import stage
from rows import ROWS

SIZES = {"1k": 1_000, "10k": 10_000, "100k": 100_000, "1m": 1_000_000, "10m": 10_000_000}


def main() -> int:
    """Parses the command line; ``--row`` is how the program calls itself for one row."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="1,000 events instead of 10,000")
    parser.add_argument("--size", choices=SIZES, help="events in the ledger, default 10k")
    parser.add_argument("--only", choices=ROWS, action="append", help="this row; repeatable")
    parser.add_argument("--row", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    events = SIZES[asked.size or ("1k" if asked.quick else "10k")]
    if asked.row:
        found = ROWS[asked.row](stage.joined(events))
        print(json.dumps(found if isinstance(found, list) else [found]))
        return 0
    return run(asked.only or list(ROWS), events)


def run(names: list[str], events: int) -> int:
    """Runs the rows over one ledger of its own and prints what they measured."""
    with tempfile.TemporaryDirectory(prefix="mem-") as folder:
        environment = os.environ | {"MEMORIALE_HOME": folder, "MEMORIALE_EMBEDDED_IDLE": "30"}
        try:
            results = [row for name in names for row in told(measured(name, events, environment))]
        finally:
            stage.stopped(Path(folder))
    print(json.dumps({"events": events, "cores": os.cpu_count(), "rows": results}, indent=1))
    print(table(results))
    return 0


def told(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """The rows, shown at once: a long run may end before its last row."""
    for row in rows:
        print(json.dumps(row), file=sys.stderr, flush=True)
    return rows


def measured(name: str, events: int, environment: dict[str, str]) -> list[dict[str, object]]:
    """One row, measured in a process of its own, with that process's peak memory; or several."""
    size = next(word for word, number in SIZES.items() if number == events)
    command = [sys.executable, str(Path(__file__).parent), "--row", name, "--size", size]
    done = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=7_200
    )
    found: list[dict[str, object]] = json.loads(done.stdout.splitlines()[-1])
    return [{"row": name, **one} for one in found]


def table(results: list[dict[str, object]]) -> str:
    """The results as Markdown."""
    lines = [
        "| row | unit | floor | ours | ratio | peak MiB | what the floor is |",
        "|---|---|---|---|---|---|---|",
    ]
    for r in results:
        cells = [
            r["row"],
            r["unit"],
            r["floor"],
            r["ours"],
            r["ratio"],
            r["peak_mib"],
            r["against"],
        ]
        lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
