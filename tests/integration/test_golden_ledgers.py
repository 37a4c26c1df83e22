"""A ledger of every format ever released opens, verifies, reads and replays."""

import json
import shutil
from pathlib import Path

import pytest

import memoriale
from tests.fixtures.postgres import Database
from tests.golden.make_ledger import EMBEDDER, TENANT, readings, restore

GOLDEN = Path(__file__).parents[1] / "golden"
LEDGERS = sorted(path.name for path in GOLDEN.glob("ledger-*"))


def test_there_is_a_ledger_of_the_first_format() -> None:
    """The first released format is among them, so the test below is never empty."""
    assert "ledger-1" in LEDGERS


@pytest.mark.parametrize("name", LEDGERS)
def test_a_ledger_of_an_earlier_format_reads_as_it_did(
    name: str, fresh_database: Database, tmp_path: Path
) -> None:
    """Rows and keys written by the release of that format give the same memories, history, past
    and roots today, and views are posted from them and rebuilt equal."""
    folder = GOLDEN / name
    restore(fresh_database.superuser_url, folder / "rows.jsonl")
    shutil.copytree(folder / "keys", tmp_path / "keys")
    (tmp_path / "keys").chmod(0o700)
    for file in (tmp_path / "keys").iterdir():
        file.chmod(0o600)
    url = fresh_database.app_url
    with memoriale.open(home=tmp_path, database_url=url, embedder=EMBEDDER, wait=30) as ledger:
        found = json.loads(json.dumps(readings(ledger)))
        assert found == json.loads((folder / "expected.json").read_text())
        assert all(report.equal for report in ledger.replay(tenant=TENANT, verify=True))
        assert all(report.ok for report in ledger.verify(tenant=TENANT))
