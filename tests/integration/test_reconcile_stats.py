"""Whatever is changed in a stats view is found by reconcile, named, and gone after a repair."""

from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from memoriale.projections.generations import Generations
from memoriale.projections.posted import PostedView
from memoriale.projections.reconcile import reconcile
from memoriale.projections.stats.connection import FILE
from memoriale.projections.stats.reconciling import discrepancies, holds_rows_beyond
from memoriale.projections.stats.view import StatsView, stats_kind
from tests.integration.test_posted_views import Log, live_folder, summary
from tests.integration.test_reconcile_recall import counts
from tests.integration.test_stats_view import mixed_history

KIND: Final = replace(stats_kind(), compare=discrepancies, beyond=holds_rows_beyond)


@pytest.fixture
def log() -> Log:
    return Log(mixed_history(10))


@pytest.fixture
def stats(tmp_path: Path, log: Log) -> PostedView[StatsView]:
    posted = PostedView(KIND, Generations(tmp_path / "stats"), log)
    assert posted.run(summary, wait=60) == (50, 0, False)
    return posted


PLANTS: Final = {
    "changed number": (
        "UPDATE memory_versions SET importance = 999 WHERE recorded_from = 0",
        {"stale": 1},
        "memory_versions 0: stale (importance)",
    ),
    "changed time": (
        "UPDATE events SET recorded_at = recorded_at + INTERVAL 1 MICROSECOND WHERE index = 3",
        {"stale": 1},
        "events 3: stale (recorded_at)",
    ),
    "changed list": (
        "UPDATE events SET changed = ['tags'] WHERE index = 3",
        {"stale": 1},
        "events 3: stale (changed)",
    ),
    "emptied column": (
        "UPDATE branches SET parent = NULL",
        {"stale": 2},
        "branches 8: stale (parent)",
    ),
    "deleted row": (
        "DELETE FROM memory_versions WHERE recorded_from = 0",
        {"missing": 1},
        "memory_versions 0: missing",
    ),
    "deleted table rows": (
        "DELETE FROM branches",
        {"missing": 3},
        "branches -1: missing",
    ),
    "doubled row": (
        "INSERT INTO events SELECT * FROM events WHERE index = 7",
        {"duplicated": 1},
        "events 7: duplicated",
    ),
    "added row": (
        "INSERT INTO branches BY NAME SELECT * REPLACE (1000000000000000 AS index) FROM branches"
        " WHERE index = -1",
        {"orphaned": 1},
        "branches 1000000000000000: orphaned",
    ),
    "position too low": (
        "UPDATE position SET position = 20",
        {"stale": 1},
        "the position: stale (position)",
    ),
    "position beyond the log": (
        "UPDATE position SET position = 60",
        {"stale": 1},
        "the position: stale (position)",
    ),
}


@pytest.mark.parametrize("name", PLANTS)
def test_planted(stats: PostedView[StatsView], log: Log, name: str) -> None:
    """What was changed is counted and named without its value, repaired, and then gone."""
    sql, expected, finding = PLANTS[name]
    digest = stats.run(lambda reading: reading.view.digest())
    stats.run(lambda reading: reading.view.query(sql))
    found = reconcile(stats, log)
    assert counts(found) == expected
    assert finding in found.findings
    assert (found.ok, found.settled, found.repaired) == (False, False, 0)
    again = reconcile(stats, log, repair=True)
    assert (again.settled, again.repaired) == (True, sum(expected.values()))
    assert reconcile(stats, log).ok
    assert stats.run(lambda reading: reading.view.digest()) == digest


def test_clean(stats: PostedView[StatsView], log: Log) -> None:
    """A view that was posted as it should be has nothing to find; what it lacks is posted."""
    log.history.denied()
    report = reconcile(stats, log, repair=True)
    assert (report.ok, report.repaired, report.position) == (True, 0, 51)
    assert stats.run(summary) == (51, 0, False)


def test_lost_rows_at_the_end(stats: PostedView[StatsView], log: Log) -> None:
    """A position that is too high for its rows is told by the rows that are missing."""
    stats.run(lambda reading: reading.view.query("DELETE FROM events WHERE index >= 40"))
    assert reconcile(stats, log, repair=True).missing == 10
    assert reconcile(stats, log).ok


@pytest.mark.parametrize(
    "damage", ["DROP TABLE branches", "ALTER TABLE events DROP COLUMN kind", "DELETE FROM position"]
)
def test_unreadable(stats: PostedView[StatsView], log: Log, damage: str) -> None:
    """A view that cannot be compared to its end says why, and is replaced by a repair."""
    stats.run(lambda reading: reading.view.query(damage))
    found = reconcile(stats, log)
    assert not found.settled
    assert found.unreadable
    assert reconcile(stats, log, repair=True).settled
    assert reconcile(stats, log).ok


def test_damaged_file(stats: PostedView[StatsView], log: Log) -> None:
    """A file that is no DuckDB file is told and replaced."""
    (live_folder(stats) / FILE).write_bytes(b"nonsense" * 1000)
    assert reconcile(stats, log).unreadable
    assert reconcile(stats, log, repair=True).settled
    assert reconcile(stats, log).ok


def test_other_version(stats: PostedView[StatsView], log: Log) -> None:
    """A view of another version is told, not compared."""
    newer = PostedView(replace(KIND, fingerprint="stats/next"), stats.generations, log)
    found = reconcile(newer, log)
    assert found.unreadable == "it was built by another version or with another model"
    assert reconcile(newer, log, repair=True).settled
    assert reconcile(newer, log).ok
