"""A fold begins with an owner snapshot; whatever happens to one, no caller sees it."""

from collections.abc import Callable
from uuid import uuid4

import pytest

from memoriale.adapters.application.owner_snapshots import Folded, OwnerSnapshots
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.postgres.owner_snapshots import KEPT, Place, SnapshotRow
from memoriale.domain.fold_version import fold_version
from memoriale.domain.holdings import Holding
from memoriale.domain.keys import Subject
from memoriale.domain.memory import Status
from memoriale.projections.reconcile import ReconcileReport
from tests.fixtures.postgres import Database
from tests.fixtures.snapshots import change, cold, owner_of, plain, read, same, saved

SECRET = "Alice hides her savings under the stairs"


@pytest.fixture
def filled(alice: Memory) -> Memory:
    """Alice with facts of which some changed; one of them is a secret about Bob."""
    made = [
        alice.remember(f"fact {n}", kind="fact", subject=f"s-{n}", metadata={"n": [n, 1.5, "ü"]})
        for n in range(8)
    ]
    alice.correct(made[1].memory_id, "fact 1, corrected", reason="typo")
    alice.amend(made[2].memory_id, importance=0.9, tags=["seldom"], valid_until="2090-01-01T00:00Z")
    alice.invalidate(made[3].memory_id, because="retracted", reason="wrong")
    alice.remember(SECRET, kind="fact", about=["bob"])
    return alice


def decoded(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The indices of the events that are opened from here on."""
    found: list[int] = []
    decode = memory.services.log.mapper.decode

    def counting(rows: list[object]) -> object:
        found.extend(row.recorded.index for row in rows)  # type: ignore[attr-defined]
        return decode(rows)  # type: ignore[arg-type]

    monkeypatch.setattr(memory.services.log.mapper, "decode", counting)
    return found


def snapshots(ledger: Ledger, tenant: str, *, repair: bool = False) -> ReconcileReport:
    (report,) = ledger.reconcile("owner-snapshots", tenant=tenant, repair=repair)
    return report


def test_a_new_process_opens_later_events_alone(
    filled: Memory, database: Database, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long fold leaves a snapshot behind, and a cold one opens what came after it."""
    read(cold(filled), filled)
    head = filled.services.log.head()
    assert saved(database, tenant, "kind, index") == [("fact", head - 1)]
    later = filled.remember("later", kind="fact")
    wanted = plain(filled)
    opened = decoded(filled, monkeypatch)
    assert same(read(cold(filled), filled), wanted)
    assert opened == [later.index]


def test_short_folds_leave_nothing_behind(alice: Memory, database: Database, tenant: str) -> None:
    """Below the limit there is nothing to save."""
    alice.remember("one", kind="fact")
    read(cold(alice), alice)
    assert saved(database, tenant) == []


def test_reads_of_the_past_begin_with_the_last_snapshot_before_them(
    filled: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of every index, before and after a snapshot, the answer is the plain fold's."""
    read(cold(filled), filled)
    at = filled.services.log.head() - 1
    for number in range(4):
        filled.remember(f"more {number}", kind="fact")
    head = filled.services.log.head()
    wanted = [plain(filled, index) for index in range(head)]
    assert all(same(read(cold(filled), filled, index), wanted[index]) for index in range(head))
    opened = decoded(filled, monkeypatch)
    read(cold(filled), filled, at + 2)
    assert opened == [at + 1, at + 2]
    kept = cold(filled)
    assert all(same(read(kept, filled, index), wanted[index]) for index in reversed(range(head)))


def test_branches_have_their_own(
    filled: Memory, database: Database, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A branch is folded with its ancestors and saved under its own id."""
    branch = filled.fork("what-if")
    fact = next(iter(plain(filled)))
    branch.correct(fact, "other", reason="try")
    filled.correct(fact, "main goes on", reason="meanwhile")
    kept = cold(branch)
    assert same(read(kept, branch), plain(branch))
    assert len({b for (b,) in saved(database, tenant, "branch")}) == 1
    at = branch.services.log.head()
    for number in range(3):
        branch.remember(f"on the branch {number}", kind="fact")
        branch.correct(fact, f"once more {number}", reason="try")
        assert same(read(kept, branch), plain(branch))
    wanted = plain(branch)
    opened = decoded(branch, monkeypatch)
    assert same(read(cold(branch), branch), wanted)
    assert [index for index in opened if index > 12] == list(range(at, at + 6))
    assert not same(wanted, plain(filled))


def test_the_newest_ones_of_a_place_are_kept(
    filled: Memory, database: Database, tenant: str
) -> None:
    """Older snapshots and those of other code go when a new one is saved."""
    change_version = "UPDATE ledger.ledger_owner_snapshots SET fold_version = 7"
    read(cold(filled), filled)
    change(database, tenant, change_version)
    for number in range(KEPT + 2):
        for part in "abcd":
            filled.remember(f"more {number}{part}", kind="fact")
        read(cold(filled, long_fold=1), filled)
    version = fold_version("fact")
    assert [v for (v,) in saved(database, tenant, "fold_version")] == [version] * KEPT


DAMAGE = {
    "changed": "UPDATE ledger.ledger_owner_snapshots SET state ="
    " set_byte(state, length(state) - 1, get_byte(state, length(state) - 1) # 1)",
    "cut": "UPDATE ledger.ledger_owner_snapshots SET state = substr(state, 1, length(state) / 2)",
    "empty": "UPDATE ledger.ledger_owner_snapshots SET state = ''",
    "later": "UPDATE ledger.ledger_owner_snapshots SET index = index + 1",
    "earlier": "UPDATE ledger.ledger_owner_snapshots SET index = index - 1",
    "other code": "UPDATE ledger.ledger_owner_snapshots SET fold_version = 7",
}


@pytest.mark.parametrize("how", DAMAGE)
def test_damage_is_found_removed_and_never_seen(
    filled: Memory, shared_ledger: Ledger, database: Database, tenant: str, how: str
) -> None:
    """Whatever is done to a row: reads are right, reconcile finds it, and a repair removes it."""
    read(cold(filled), filled)
    filled.remember("later", kind="fact")
    change(database, tenant, DAMAGE[how])
    found = snapshots(shared_ledger, tenant)
    assert (found.ok, found.stale + found.orphaned, found.repaired) == (False, 1, 0)
    assert same(read(cold(filled, long_fold=1_000), filled), plain(filled))
    assert same(read(cold(filled), filled), plain(filled))
    snapshots(shared_ledger, tenant, repair=True)
    assert snapshots(shared_ledger, tenant).ok
    assert same(read(cold(filled), filled), plain(filled))


def test_a_damaged_one_is_replaced_by_the_next_long_fold(
    filled: Memory, shared_ledger: Ledger, database: Database, tenant: str
) -> None:
    """What could not be opened is gone, and a right one is in its place."""
    read(cold(filled), filled)
    change(database, tenant, DAMAGE["changed"])
    read(cold(filled), filled)
    assert len(saved(database, tenant)) == 1
    assert snapshots(shared_ledger, tenant).ok


def test_a_wrong_one_is_found(
    filled: Memory, shared_ledger: Ledger, database: Database, tenant: str
) -> None:
    """One that opens and is not what its events give is found, and removed by a repair."""
    slices = cold(filled)
    read(slices, filled)
    place = Place(owner_of(filled), "fact", filled.branch_view().branch.id)
    index = saved(database, tenant)[0][0]
    known = OwnerSnapshots(filled.services.log)
    right = known.load(SnapshotRow(place, fold_version("fact"), index))
    assert right is not None
    wrong = dict(right.holding)
    wrong.popitem()
    change(database, tenant, "DELETE FROM ledger.ledger_owner_snapshots")
    known.save(place, index, Folded(Holding(wrong), right.last, right.leaf, right.keys))
    report = snapshots(shared_ledger, tenant)
    assert (report.ok, report.stale, report.orphaned) == (False, 1, 0)
    assert "not what the log gives" in report.findings[0]
    assert snapshots(shared_ledger, tenant, repair=True).repaired == 1
    assert saved(database, tenant) == []


def test_one_of_another_owner_is_found(
    filled: Memory,
    as_user: Callable[[str], Memory],
    shared_ledger: Ledger,
    database: Database,
    tenant: str,
) -> None:
    """Alice's snapshot under Bob's name, or nobody's, is not opened for him, and is found."""
    as_user("bob").remember("Bob's", kind="fact")
    bob = owner_of(filled, "bob")
    move = "UPDATE ledger.ledger_owner_snapshots SET owner = %s"
    for owner in (bob, uuid4()):
        read(cold(filled), filled)
        change(database, tenant, move, [owner])
        assert not snapshots(shared_ledger, tenant).ok
        assert snapshots(shared_ledger, tenant, repair=True).repaired == 1
    read(cold(filled), filled)
    change(database, tenant, move, [bob])
    assert [
        s.payload and s.payload.content for s in read(cold(filled), filled, None, bob).values()
    ] == ["Bob's"]


def test_a_log_that_goes_on_differently_is_not_taken_for_it(
    filled: Memory, database: Database, tenant: str
) -> None:
    """The last event of a snapshot must be in the log with its leaf hash."""
    read(cold(filled), filled)
    place = Place(owner_of(filled), "fact", filled.branch_view().branch.id)
    index = saved(database, tenant)[0][0]
    known = OwnerSnapshots(filled.services.log)
    right = known.load(SnapshotRow(place, fold_version("fact"), index))
    assert right is not None
    change(database, tenant, "DELETE FROM ledger.ledger_owner_snapshots")
    known.save(place, index, Folded(Holding(), right.last, bytes(32), right.keys))
    assert same(read(cold(filled), filled), plain(filled))


def test_the_text_is_sealed(filled: Memory, database: Database, tenant: str) -> None:
    """No row of the table shows what was remembered."""
    read(cold(filled), filled)
    assert len(saved(database, tenant)) == 1
    states = b"".join(bytes(state) for (state,) in saved(database, tenant, "state"))
    assert SECRET.encode() not in states
    assert b"fact" not in states


@pytest.mark.parametrize("who", ["alice", "bob"])
def test_with_a_key_destroyed_a_snapshot_is_ignored(
    filled: Memory, shared_ledger: Ledger, database: Database, tenant: str, who: str
) -> None:
    """The owner's key, or that of a person whom one fact is about: nobody opens it any more, and
    the next long fold leaves one behind that shows nothing of them."""
    read(cold(filled), filled)
    owner, index = owner_of(filled), saved(database, tenant)[0][0]
    keys = shared_ledger.infrastructure.keys
    key = keys.find(tenant, Subject("user", who))
    assert key is not None
    assert keys.destroy(key.key_id)
    row = SnapshotRow(
        Place(owner, "fact", filled.branch_view().branch.id), fold_version("fact"), index
    )
    assert OwnerSnapshots(filled.services.log).load(row) is None
    assert not snapshots(shared_ledger, tenant).ok
    found = read(cold(filled), filled, None, owner)
    assert same(found, plain(filled, None, owner))
    erased = [state for state in found.values() if state.status is Status.ERASED]
    # What is about somebody is sealed for them alone.
    assert len(erased) == (len(found) - 1 if who == "alice" else 1)
    assert same(read(cold(filled), filled, None, owner), found)
    assert len(saved(database, tenant)) == (0 if who == "alice" else 1)
    assert snapshots(shared_ledger, tenant).ok


def test_every_key_of_a_memory_closes_it(
    filled: Memory, shared_ledger: Ledger, tenant: str
) -> None:
    """A memory whose events were sealed in several periods needs the keys of all of them."""
    log = filled.services.log
    known = OwnerSnapshots(log)
    read(cold(filled), filled)
    place = Place(owner_of(filled), "fact", filled.branch_view().branch.id)
    index = log.head() - 1
    right = known.load(SnapshotRow(place, fold_version("fact"), index))
    assert right is not None
    person = log.identities.key(Subject("user", "alice"))
    several = frozenset(log.sealer.key_ids([person], name) for name in ("one", "two", "three"))
    first = next(iter(right.holding))
    keys = {**right.keys, first: several}
    row = SnapshotRow(place, fold_version("fact"), index + 1)
    known.save(place, row.index, Folded(right.holding, right.last, right.leaf, keys))
    again = known.load(row)
    assert again is not None
    assert (dict(again.holding), again.keys) == (dict(right.holding), keys)
    (period, *_) = {key_ids[-16:] for key_ids in several}
    assert shared_ledger.infrastructure.keys.destroy(period)
    assert known.load(row) is None


def test_a_tenant_sees_its_own_alone(filled: Memory, database: Database) -> None:
    """Row security closes the table, whoever asks."""
    read(cold(filled), filled)
    for role in ("memoriale_read", "memoriale_project", "memoriale_erase", "memoriale_owner"):
        with database.connect() as connection:
            connection.execute(f"SET ROLE {role}".encode())
            found = connection.execute("SELECT count(*) FROM ledger.ledger_owner_snapshots")
            assert found.fetchone() == (0,)


def test_what_is_kept_in_memory_has_a_bound(as_user: Callable[[str], Memory], tenant: str) -> None:
    """Of many owners those asked for longest ago go; what is read stays right."""
    memory = as_user("alice")
    for number in range(6):
        as_user(f"user-{number}").remember("x" * 4_000, kind="fact")
    slices = cold(memory, most_bytes=30_000)
    owners = [owner_of(memory, f"user-{number}") for number in range(6)]
    for owner in owners * 2:
        assert same(read(slices, memory, None, owner), plain(memory, None, owner))
        assert 0 < slices.held() <= 30_000
