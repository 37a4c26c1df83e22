"""
Attacks on the whole installation: database and home are the attacker's, the anchor is not.

Each is a copy of a real ledger at an earlier moment, so every hash, tile and signature in it is
right; only what lies outside tells.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import memoriale
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.notes.verifier_keys import VerifierKey
from memoriale.adapters.proving.verification import LogReport
from memoriale.domain.errors import MissingRightError
from memoriale.domain.principal import Right
from tests.fixtures.ledger import HASHING
from tests.fixtures.postgres import Database, Server, temporary_database
from tests.fixtures.witness import Witness

TENANT = "acme"
MakeWitness = Callable[..., Witness]


@dataclass(frozen=True)
class Installation:
    """A database and a home."""

    database: Database
    home: Path
    anchors: tuple[str, ...]
    admin_url: str | None = None

    @contextmanager
    def open(self) -> Iterator[Ledger]:
        """The ledger."""
        with memoriale.open(
            home=self.home,
            database_url=self.database.app_url,
            embedder=HASHING,
            wait=30,
            anchors=self.anchors,
            admin_url=self.admin_url,
        ) as ledger:
            yield ledger

    def remember(self, *texts: str) -> bool:
        """Writes, seals, pushes; whether no anchor objected."""
        with self.open() as ledger:
            for text in texts:
                ledger.memory(tenant=TENANT, user="alice").remember(text)
            return not ledger.push(tenant=TENANT).conflict

    def verify(self, anchors: bool = True) -> LogReport:
        """The report of the memory log."""
        with self.open() as ledger:
            return ledger.verify(tenant=TENANT, anchors=anchors)[0]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An anchor that is nobody's but the auditor's."""
    made = tmp_path / "auditor"
    made.mkdir()
    return made


@pytest.fixture
def installation(fresh_database: Database, tmp_path: Path, folder: Path) -> Installation:
    """A ledger with an anchor, nothing in it yet."""
    return Installation(fresh_database, tmp_path / "home", (str(folder),))


@pytest.fixture
def copied(
    server: Server, installation: Installation, tmp_path: Path
) -> Iterator[Callable[[], Installation]]:
    """Takes a copy of database and home as they are, to come back to."""
    opened = []

    def copy() -> Installation:
        name = installation.database.app_url.split("dbname=")[1].split()[0]
        context = temporary_database(server, template=name)
        database = context.__enter__()
        opened.append(context)
        home = tmp_path / f"copy {len(opened)}"
        shutil.copytree(installation.home, home)
        return replace(installation, database=database, home=home)

    yield copy
    for context in opened:
        context.__exit__(None, None, None)


def codes(report: LogReport) -> set[str]:
    return {problem.code for problem in report.problems}


def test_an_untouched_ledger_is_green(installation: Installation) -> None:
    """What was pushed is read back, compared and found right."""
    assert installation.remember("one", "two", "three")
    report = installation.verify()
    assert report.ok
    assert report.anchored >= 1
    assert report.unreached == {}


def test_database_and_home_set_back_together(
    installation: Installation, copied: Callable[[], Installation]
) -> None:
    """Everything here is an older copy: the anchor tells how many sealed events are lost."""
    installation.remember("one", "two")
    older = copied()
    installation.remember("three", "four", "five")
    assert older.verify(anchors=False).ok
    report = older.verify()
    assert not report.ok
    assert report.lost == 3
    assert codes(report) == {"events_lost"}
    assert report.first_bad_index == 2


def test_set_back_and_gone_on_differently(
    installation: Installation, copied: Callable[[], Installation]
) -> None:
    """Another history grew past what the anchor knows: pushing is refused, verify names it."""
    installation.remember("one", "two")
    other = copied()
    installation.remember("three")
    assert not other.remember("another three", "another four")
    assert other.verify(anchors=False).ok
    report = other.verify()
    assert codes(report) == {"not_what_was_sealed"}
    assert report.first_bad_index == 2
    assert installation.verify().ok


def test_a_foreign_note_at_the_anchor(installation: Installation, folder: Path) -> None:
    """A checkpoint that no key of this ledger signed is a finding, and is not overwritten."""
    installation.remember("one")
    files = [path for path in folder.rglob("*") if path.is_file()]
    for file in files:
        lines = file.read_text().split("\n")
        lines[2] = "A" * 43 + "="
        file.write_text("\n".join(lines))
    report = installation.verify()
    assert codes(report) == {"bad_checkpoint"}
    assert not installation.remember("two")
    assert "A" * 43 in files[0].read_text()


def test_another_signing_key(installation: Installation) -> None:
    """A home whose key was exchanged, its list of keys too, does not know what the anchor has."""
    installation.remember("one")
    shutil.rmtree(installation.home / "signing")
    shutil.rmtree(installation.home / "tiles")
    assert codes(installation.verify()) == {"bad_checkpoint"}


def test_a_tenant_that_vanished_with_all_that_knew_it(
    installation: Installation, copied: Callable[[], Installation]
) -> None:
    """An older copy from before a tenant existed: the anchor has checkpoints of ours that nobody
    here knows."""
    with installation.open() as ledger:
        ledger.memory(tenant="first", user="alice").remember("one")
        ledger.push(tenant="first")
    older = copied()
    installation.remember("one", "two")
    with installation.open() as ledger:
        assert all(report.ok for report in ledger.verify(all_tenants=True))
    with older.open() as ledger:
        reports = ledger.verify(all_tenants=True)
    missing = [report for report in reports if codes(report) == {"log_missing"}]
    assert 2 in {report.lost for report in missing}


def test_an_anchor_that_cannot_be_read_is_told(installation: Installation, folder: Path) -> None:
    """Without the anchor nothing wrong is found, and it is said that it was not asked."""
    installation.remember("one")
    folder.rename(folder.with_name("gone"))
    report = installation.verify()
    assert report.ok
    assert list(report.unreached) == [str(folder)]


def test_a_declared_restore_is_no_finding(
    installation: Installation, copied: Callable[[], Installation]
) -> None:
    """After the loss was declared, going by what the anchor knows, the log is green again, goes
    on in a new incarnation, and still says what was lost."""
    installation.remember("one", "two")
    older = copied()
    installation.remember("three", "four", "five")
    older = replace(older, admin_url=older.database.superuser_url)
    assert not older.verify().ok
    with older.open() as ledger:
        declared = {(one.tenant, one.log): one for one in ledger.restored("the disk broke")}
    assert declared[TENANT, "memory"].lost == 3
    assert older.remember("another three")
    report = older.verify()
    assert report.ok, report.problems
    assert report.incarnation == 2
    assert [one["lost"] for one in report.restored] == [3]


def test_each_call_needs_its_right(installation: Installation) -> None:
    """Pushing is for operators, counting cosignatures for auditors, configured or not."""
    calls: dict[Right, Callable[[Ledger], object]] = {
        Right.OPERATE: lambda ledger: ledger.push(tenant=TENANT),
        Right.AUDIT: lambda ledger: ledger.witnessed(tenant=TENANT),
    }
    with installation.open() as ledger:
        everything = ledger.rights
        for right, call in calls.items():
            ledger.rights = everything - {right}
            with pytest.raises(MissingRightError) as refused:
                call(ledger)
            assert refused.value.allowed == right.value
        ledger.rights = everything


def test_a_log_that_equivocates_before_a_witness(
    installation: Installation,
    copied: Callable[[], Installation],
    make_witness: MakeWitness,
) -> None:
    """The witness cosigns one history; the other gets no cosignature, and a conflict."""
    installation.remember("one")
    witness = make_witness()
    with installation.open() as ledger:
        for key in ledger.witness_keys(tenant=TENANT):
            witness.trust(VerifierKey.parse(key))
    true = replace(installation, anchors=(witness.uri,))
    with true.open() as ledger:
        report = ledger.push(tenant=TENANT)
        assert report.ok
        assert all(one.ok for one in ledger.witnessed(tenant=TENANT))
    other = replace(copied(), anchors=(witness.uri,))
    with true.open() as ledger:
        ledger.memory(tenant=TENANT, user="alice").remember("two")
        assert ledger.push(tenant=TENANT).ok
    with other.open() as ledger:
        ledger.memory(tenant=TENANT, user="alice").remember("another two")
        refused = ledger.push(tenant=TENANT)
        assert refused.conflict
        assert not refused.ok
        found = ledger.witnessed(tenant=TENANT)
    memory = found[0]
    assert not memory.ok
    assert memory.cosigned == {}
    assert witness.uri in memory.problems
