"""Every command, run by a neighbour with the victim's ids: nothing of the victim is printed."""

from pathlib import Path
from secrets import token_hex
from typing import Final

import pytest

from memoriale.adapters.command_line.running import run
from memoriale.adapters.library.ledger import Ledger
from memoriale.domain.access import AccessScope
from memoriale.domain.errors import InputError
from memoriale.domain.principal import ALL_RIGHTS, Right
from tests.end_to_end.test_rights_of_commands import NOBODY_ANSWERS, ROWS, Row
from tests.fixtures.language_models import SILENT
from tests.fixtures.ledger import HASHING
from tests.fixtures.neighbours import QUESTION, Victim, leaked, told, victim
from tests.fixtures.postgres import Database
from tests.fixtures.sealing import sealed

OF_THE_INSTALLATION: Final = {"stop", "migrate", "doctor", "restored", "key rotate"}
"""They act on all tenants at once, for who operates the installation."""
CHOSEN: Final = [row for row in ROWS if row.command not in OF_THE_INSTALLATION]


@pytest.fixture(scope="module")
def target(shared_ledger: Ledger) -> Victim:
    made = victim(shared_ledger, f"acme-{token_hex(6)}-corp")
    sealed(shared_ledger, made.memory.services.log)
    shared_ledger.snapshot(tenant=made.tenant)
    return made


def arguments(row: Row, target: Victim, folder: Path) -> list[str]:
    """A command's arguments, with the victim's ids and words where it takes any."""
    note, line, said = folder / "note", folder / "line", folder / "said"
    note.write_text("no checkpoint")
    line.write_text('{"content": "x"}\n')
    said.write_text('{"role": "user", "content": "x"}\n')
    ids = target.ids
    known = {
        **dict.fromkeys(("id", "gone"), ids["memory_id"]),
        **dict.fromkeys(("job", "done", "cancelled"), ids["job_id"]),
        **dict.fromkeys(("proposal", "handing"), ids["proposal"]),
        **{"decision": ids["decision_id"], "note": str(note), "line": str(line)},
        **{"said": str(said), "folder": str(folder)},
    }
    words = {"x": QUESTION, "b": QUESTION, "c": QUESTION, "s-1": ids["session_id"]}
    words |= dict.fromkeys(("work", "handed", "whole"), ids["branch"])
    return [words.get(a, a).format(**known) for a in row.arguments]


def printed(
    row: Row, target: Victim, tenant: str, folder: Path, capture: pytest.CaptureFixture[bytes]
) -> str:
    capture.readouterr()
    options = () if row.user is None else ("--user", "mallory")
    run(
        [
            *row.command.split(),
            *arguments(row, target, folder),
            *options,
            "--tenant",
            tenant,
            "--json",
        ]
    )
    captured = capture.readouterr()
    return (captured.out + captured.err).decode() + told(sorted(folder.iterdir()))


@pytest.fixture
def installed(
    database: Database, ledger_home: Path, monkeypatch: pytest.MonkeyPatch
) -> pytest.MonkeyPatch:
    """The commands of this process on the run's database and home."""
    environment = {
        "MEMORIALE_HOME": str(ledger_home),
        "MEMORIALE_DATABASE_URL": database.app_url,
        "MEMORIALE_EMBEDDER": HASHING,
        "MEMORIALE_WAIT": "60",
        "MEMORIALE_ANCHORS": NOBODY_ANSWERS,
        "MEMORIALE_MODEL": SILENT,
        "MEMORIALE_RIGHTS": ",".join(ALL_RIGHTS),
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


@pytest.mark.parametrize("row", CHOSEN, ids=lambda row: row.command)
def test_no_command_prints_anything_of_a_neighbour(
    row: Row,
    target: Victim,
    installed: pytest.MonkeyPatch,
    tmp_path: Path,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    """From another tenant with every right, and from the same tenant with ``use`` alone, no
    output, error or file of a command holds a text, name, id or hash of the victim's."""
    asked = target.ids.values()
    other = target.tenant.removesuffix("-corp")
    text = printed(row, target, other, tmp_path, capfdbinary)
    assert leaked(text, target.secrets(log_ids=True), asked) == set()
    assert target.tenant not in text
    if row.rights == {Right.USE}:
        installed.setenv("MEMORIALE_RIGHTS", "use")
        text = printed(row, target, target.tenant, tmp_path, capfdbinary)
        assert leaked(text, target.secrets(log_ids=False), asked) == set()


def test_another_tenants_snapshot_is_no_table(shared_ledger: Ledger, target: Victim) -> None:
    """SQL does not reach the snapshot, the view or the key files of another tenant."""
    other = target.tenant.removesuffix("-corp")
    (own, *_) = shared_ledger.sql("SELECT count(*) FROM events", tenant=other).rows
    (count, *_) = shared_ledger.sql("SELECT count(*) FROM events", tenant=target.tenant).rows
    assert own != count
    settings = shared_ledger.settings
    files = [*settings.snapshots_folder.rglob("*.duckdb"), *settings.views_folder.rglob("*.duckdb")]
    assert files
    for path in files:
        for statement in (f"ATTACH '{path}'", f"FROM '{path}'", f"FROM read_blob('{path}')"):
            with pytest.raises(InputError):
                shared_ledger.sql(statement, tenant=other)


def test_the_commands_notice_a_lost_filter(
    target: Victim,
    installed: pytest.MonkeyPatch,
    tmp_path: Path,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    """Planted failure: an access rule that allows everything is noticed."""
    show = next(row for row in ROWS if row.command == "show" and row.rights == {Right.USE})
    installed.setattr(AccessScope, "allows", lambda scope, row: True)
    with pytest.raises(AssertionError):
        test_no_command_prints_anything_of_a_neighbour(
            show, target, installed, tmp_path, capfdbinary
        )
