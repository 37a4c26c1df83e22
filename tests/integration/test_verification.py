"""Verify against checkpoints: also whoever rewrote everything is found, and by its index."""

import shutil
from pathlib import Path
from uuid import uuid4

import pytest

from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.proving.verification import LogReport
from memoriale.adapters.sealing.sealer import Sealed
from memoriale.adapters.sealing.sealing import target_of
from memoriale.domain.errors import InputError, MemorialeError, ViolationError
from memoriale.domain.leaf import leaf_hash
from tests.fixtures.postgres import Database
from tests.fixtures.sealing import TENANT, attacker, cut, remembered, sealed, tried


def rewrite(database: Database, log: TenantLog, index: int) -> None:
    """Changes an event's actor as a superuser, and recomputes the hash stored beside it."""
    place = {"log": log.log_id, "index": index, "actor": uuid4()}
    where = "WHERE log_id = %(log)s AND index = %(index)s"
    with attacker(database) as connection:
        connection.execute(f"UPDATE ledger.ledger_events SET actor = %(actor)s {where}", place)
        (row,) = log.reader.rows(after=index - 1, stop=index + 1)
        connection.execute(
            f"UPDATE ledger.ledger_events SET leaf_hash = %(leaf)s {where}",
            {**place, "leaf": leaf_hash(row)},
        )


def checked(ledger: Ledger, *notes: str, tenant: str | None = TENANT) -> list[LogReport]:
    return ledger.verify(tenant=tenant, checkpoints=notes, all_tenants=tenant is None)


def noted(ledger: Ledger, log: TenantLog) -> str:
    return str(sealed(ledger, log).signed.note)


def codes(report: LogReport) -> list[tuple[int, str]]:
    return [(problem.index, problem.code) for problem in report.problems]


def forget_everything(ledger: Ledger) -> None:
    """Tiles, checkpoints and notes of this machine are gone, as an attacker would have them."""
    shutil.rmtree(ledger.infrastructure.sealing.tiles)


def test_an_untouched_log_holds(sealable: Ledger) -> None:
    """Against every checkpoint here, in the deployment log and outside; the tail is reported."""
    log = remembered(sealable, 3)
    note = noted(sealable, log)
    remembered(sealable, 2)
    later = noted(sealable, log)
    remembered(sealable, 4)
    memory, access = checked(sealable, note, later)
    assert (memory.ok, memory.leaves, memory.unsealed, memory.lost) == (True, 9, 4, 0)
    assert memory.checkpoints == 5
    assert (memory.tenant, memory.log, memory.incarnation) == (TENANT, "memory", 1)
    assert (access.ok, access.unsealed) == (True, access.leaves)


@pytest.mark.parametrize("index", [0, 2, 4, 299])
def test_a_rewritten_event_is_found_by_its_index(
    sealable: Ledger, fresh_database: Database, index: int
) -> None:
    """Every hash in the database was recomputed: the tiles name the event."""
    log = remembered(sealable, 3)
    noted(sealable, log)
    remembered(sealable, 297)
    noted(sealable, log)
    rewrite(fresh_database, log, index)
    report = checked(sealable)[0]
    assert not report.ok
    assert codes(report) == [(index, "not_what_was_sealed")]
    assert report.first_bad_index == index


def test_without_tiles_the_checkpoints_bound_the_place(
    sealable: Ledger, fresh_database: Database
) -> None:
    """With the tiles gone the first bad index is the size that still held."""
    log = remembered(sealable, 3)
    noted(sealable, log)
    remembered(sealable, 3)
    noted(sealable, log)
    rewrite(fresh_database, log, 4)
    tree = sealable.infrastructure.sealing.sealer.tree(target_of(log), 1)
    shutil.rmtree(tree.folder / "tile")
    assert codes(checked(sealable)[0]) == [(3, "not_what_was_sealed")]


def test_an_outside_checkpoint_needs_nothing_of_this_machine(
    sealable: Ledger, fresh_database: Database
) -> None:
    """Everything here was rewritten and sealed anew: the one that was kept elsewhere shows it."""
    log = remembered(sealable, 5)
    note = noted(sealable, log)
    (key,) = sealable.signing_keys()
    forget_everything(sealable)
    with attacker(fresh_database) as connection:
        connection.execute("DELETE FROM ledger.ledger_events WHERE tenant = '_deployment'")
        connection.execute("DELETE FROM ledger.ledger_heads WHERE tenant = '_deployment'")
        connection.execute("DELETE FROM ledger.ledger_logs WHERE tenant = '_deployment'")
    sealable.infrastructure.sealing.close()
    rewrite(fresh_database, log, 2)
    assert isinstance(tried(sealable, log), Sealed)
    assert checked(sealable)[0].ok
    report = sealable.verify(tenant=TENANT, checkpoints=[note], verifiers=[key.key])[0]
    assert codes(report) == [(0, "not_what_was_sealed")]


@pytest.mark.parametrize("left", [0, 1, 4])
def test_lost_events_are_counted(sealable: Ledger, fresh_database: Database, left: int) -> None:
    """A log that was cut says how many sealed events are gone from its end."""
    log = remembered(sealable, 5)
    noted(sealable, log)
    cut(fresh_database, log, left)
    report = checked(sealable)[0]
    assert (report.ok, report.lost, report.first_bad_index) == (False, 5 - left, left)
    assert codes(report) == [(left, "events_lost")]


def test_a_forged_checkpoint_is_no_checkpoint(sealable: Ledger, fresh_database: Database) -> None:
    """One on disk that this installation did not sign is a finding; one that is given an error."""
    log = remembered(sealable, 3)
    note = noted(sealable, log)
    tree = sealable.infrastructure.sealing.sealer.tree(target_of(log), 1)
    forged = note.replace("\n3\n", "\n4\n", 1)
    place = tree.folder / "checkpoints" / "3"
    place.unlink()
    place.write_text(forged)
    report = checked(sealable)[0]
    assert codes(report) == [(3, "bad_checkpoint")]
    with pytest.raises(ViolationError):
        checked(sealable, forged)
    with pytest.raises(InputError):
        checked(sealable, "no checkpoint")


def test_a_checkpoint_of_another_log_is_refused(sealable: Ledger) -> None:
    """It could not be held against anything, and that is said."""
    other = noted(sealable, remembered(sealable, 1, "beta"))
    remembered(sealable, 1)
    with pytest.raises(MemorialeError) as refused:
        checked(sealable, other)
    assert refused.value.code == "foreign_origin"
    assert all(report.ok for report in checked(sealable, other, tenant=None))


@pytest.mark.parametrize("table", ["ledger_logs", "all"])
def test_a_vanished_tenant_shows(sealable: Ledger, fresh_database: Database, table: str) -> None:
    """A tenant whose rows are all gone is known to the deployment log."""
    for tenant in ("acme", "beta"):
        noted(sealable, remembered(sealable, 2, tenant))
    gone = ["ledger_logs"] if table != "all" else ["ledger_events", "ledger_heads", "ledger_logs"]
    with attacker(fresh_database) as connection:
        for name in gone:
            connection.execute(f"DELETE FROM ledger.{name} WHERE tenant = 'beta'")
    reports = {(r.tenant, r.log): r for r in checked(sealable, tenant=None)}
    assert {key for key, report in reports.items() if not report.ok} == {("beta", "memory")}
    assert codes(reports["beta", "memory"]) == [(0, "log_missing")]
    assert reports["beta", "memory"].lost == 2
    assert ("_deployment", "deployment") in reports


def test_a_change_of_the_deployment_log_shows(sealable: Ledger, fresh_database: Database) -> None:
    """It is sealed and verified as the others are."""
    noted(sealable, remembered(sealable, 2))
    remembered(sealable, 1)
    noted(sealable, sealable.tenant(TENANT).log)
    own = sealable.infrastructure.sealing.deployment_log()
    rewrite(fresh_database, own, 0)
    report = checked(sealable, tenant=None)[-1]
    assert codes(report) == [(0, "not_what_was_sealed")]


def test_a_declared_restore_goes_on_in_a_new_incarnation(
    sealable: Ledger, fresh_database: Database
) -> None:
    """Rolled back: sealing is refused until it is declared; then the new origin is sealed, what
    was lost is on record and said, and checkpoints of what survived still hold."""
    log = remembered(sealable, 3)
    first = noted(sealable, log)
    remembered(sealable, 4)
    last = noted(sealable, log)
    cut(fresh_database, log, 4)
    assert isinstance(tried(sealable, log), MemorialeError)
    found = {r.log: r for r in sealable.restored("the disk died", checkpoints=[first, last])}
    memory = found["memory"]
    assert (memory.incarnation, memory.events, memory.sealed, memory.lost) == (2, 4, 7, 3)
    assert found["deployment"].incarnation == 2
    report = checked(sealable, first, last)[0]
    assert (report.ok, report.incarnation, report.unsealed) == (True, 2, 0)
    assert report.restored == [{"events": 4, "sealed": 7, "lost": 3}]
    remembered(sealable, 2)
    checkpoint = sealed(sealable, log).checkpoint
    assert (checkpoint.origin, checkpoint.size) == (f"memoriale/{log.log_id}/2", 6)
    assert all(report.ok for report in checked(sealable, first, tenant=None))
    rewrite(fresh_database, log, 1)
    assert not checked(sealable, first)[0].ok


def test_a_rollback_behind_a_declared_restore_shows(
    sealable: Ledger, fresh_database: Database
) -> None:
    """The database came back from before the declaration: this machine knows better."""
    log = remembered(sealable, 2)
    noted(sealable, log)
    sealable.restored("first time")
    with attacker(fresh_database) as connection:
        connection.execute("DELETE FROM ledger.ledger_logs WHERE incarnation = 2")
    assert ("rolled_back") in {code for _, code in codes(checked(sealable)[0])}


def test_replay_of_the_proofs_keeps_the_evidence(
    sealable: Ledger, fresh_database: Database
) -> None:
    """Live tiles that were changed are replaced; when the log was changed they stay."""
    log = remembered(sealable, 300)
    noted(sealable, log)
    tile = sealable.infrastructure.sealing.sealer.tree(target_of(log), 1).folder / "tile/0/000"
    before = tile.read_bytes()
    tile.write_bytes(bytes(len(before)))
    (report,) = sealable.replay("proofs", tenant=TENANT)
    assert not report.equal
    assert tile.read_bytes() == before
    (report,) = sealable.replay("proofs", tenant=TENANT)
    assert (report.equal, report.events) == (True, 300)
    assert report.digest_live == report.digest_rebuilt
    rewrite(fresh_database, log, 7)
    (report,) = sealable.replay("proofs", tenant=TENANT)
    assert not report.equal
    assert tile.read_bytes() == before
    assert checked(sealable)[0].first_bad_index == 7


def test_consistency_of_two_checkpoints(sealable: Ledger, fresh_database: Database) -> None:
    """A log that only grew proves it; one that was rewritten and signed anew cannot."""
    log = remembered(sealable, 3)
    notes = [noted(sealable, log)]
    for count in (1, 300):
        remembered(sealable, count)
        notes.append(noted(sealable, log))
    for old, new in ((0, 0), (0, 1), (0, 2), (1, 2)):
        found = sealable.consistency(notes[old], notes[new], tenant=TENANT)
        assert (found.old_size, found.new_size) == ((3, 4, 304)[old], (3, 4, 304)[new])
    with pytest.raises(InputError):
        sealable.consistency(notes[1], notes[0], tenant=TENANT)
    forget_everything(sealable)
    with attacker(fresh_database) as connection:
        connection.execute("DELETE FROM ledger.ledger_events WHERE tenant = '_deployment'")
        connection.execute("UPDATE ledger.ledger_heads SET next = 0 WHERE tenant = '_deployment'")
    rewrite(fresh_database, log, 1)
    rewritten = noted(sealable, log)
    for old, code in ((0, "inconsistent"), (2, "two_roots")):
        with pytest.raises(ViolationError) as refused:
            sealable.consistency(notes[old], rewritten, tenant=TENANT)
        assert refused.value.code == code


def test_only_the_sealed_part_is_sealed(sealable: Ledger, fresh_database: Database) -> None:
    """What is said of the tail is true: a rewritten event that was not sealed is not found."""
    log = remembered(sealable, 2)
    noted(sealable, log)
    remembered(sealable, 2)
    rewrite(fresh_database, log, 3)
    report = checked(sealable)[0]
    assert (report.ok, report.unsealed) == (True, 2)


def test_a_folder_that_is_no_tree_does_no_harm(sealable: Ledger, sealing_home: Path) -> None:
    """Files of others beside the checkpoints are left alone."""
    log = remembered(sealable, 2)
    noted(sealable, log)
    tree = sealable.infrastructure.sealing.sealer.tree(target_of(log), 1)
    (tree.folder / "checkpoints" / "README").write_text("notes")
    assert checked(sealable)[0].ok
