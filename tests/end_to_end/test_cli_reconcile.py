"""``memoriale reconcile``: exit codes, JSON, and what a person reads."""

from pathlib import Path

import duckdb

from memoriale.adapters.embeddings.wordllama import WordLlamaEmbedder
from memoriale.projections.recall.view import RecallView
from tests.fixtures.cli import CommandLine

TENANT = "reconciled"


def folder_of(cli: CommandLine, view: str) -> Path:
    """The live generation of a view; the home has one log with views."""
    [pointer] = (cli.home / "views").glob(f"*/{view}/CURRENT")
    [folder] = (path for path in pointer.parent.iterdir() if path.is_dir())
    return folder


def test_reconcile(cli: CommandLine) -> None:
    """A changed number and a deleted row are found (code 1), repaired (code 0), and gone."""
    cli.remember("Alice likes tea", "--tenant", TENANT)
    cli.remember("Alice likes coffee", "--tenant", TENANT)
    clean = cli("reconcile", "--tenant", TENANT, "--json").json()
    names = [view["view"] for view in clean["views"]]
    assert names == ["recall", "stats", "persons", "owner-snapshots"]
    assert all(view["ok"] for view in clean["views"])
    cli("recall", "tea", "--user", "alice", "--tenant", TENANT, "--json").json()
    cli("replay", "--tenant", TENANT, "--json").json()

    with duckdb.connect(str(folder_of(cli, "stats") / "stats.duckdb")) as connection:
        connection.execute("UPDATE memory_versions SET content_length = 1 WHERE recorded_from = 0")
    table = RecallView.open(folder_of(cli, "recall"), WordLlamaEmbedder()).table._table
    table.delete("key = 1")

    found = cli("reconcile", "--tenant", TENANT)
    assert found.code == 1
    assert "recall, version 1: missing" in found.out.decode()
    assert "stats, memory_versions 0: stale (content_length)" in found.out.decode()
    repaired = cli("reconcile", "--repair", "--tenant", TENANT, "--json").json()
    recall, stats, *_ = repaired["views"]
    assert (recall["missing"], recall["repaired"]) == (1, 1)
    assert (stats["stale"], stats["repaired"]) == (1, 1)
    again = cli("reconcile", "--tenant", TENANT, "--json").json()
    assert all(view["ok"] and view["repaired"] == 0 for view in again["views"])
