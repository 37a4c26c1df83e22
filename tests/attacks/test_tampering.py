"""
Attacks on a sealed ledger by whoever holds the database: a superuser, triggers and checks away.

Each is done to a fresh copy. What must be said of it stands beside it: the command, the problem
and the index at which it is found. Nothing here knows the signing key.
"""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from memoriale.domain.record import COLUMNS, Row
from tests.fixtures.attacks import (
    ALL,
    ATTACKS,
    BY_NAME,
    EVENT,
    PLACE,
    Attack,
    flipped,
    insert,
    shorten,
)
from tests.fixtures.tampering import EARLIER, EVENTS, OTHER, VICTIM, Answer, Target


def asked(target: Target, attack: Attack) -> Answer:
    """What verify says; the anchor is left out, the database and the home must tell alone."""
    tenant = ["--all-tenants"] if attack.everything else ["--tenant", attack.whose[0]]
    return target("verify", "--local", *tenant)


def require_noticed(target: Target, attack: Attack) -> None:
    """The suite's one judgement: exit code 1, and the problem at its place."""
    answer = asked(target, attack)
    assert answer.code == 1, answer.value
    assert (attack.index, attack.code) in answer.problems(*attack.whose), answer.value["problems"]
    assert attack.index in answer.first_bad_indices(*attack.whose)


def test_an_untouched_ledger_is_green(target: Target) -> None:
    """Every command says so, with exit code 0, of a ledger that nobody touched."""
    answer = target("verify", "--all-tenants", "--checkpoint", str(target.checkpoint_at(EARLIER)))
    assert (answer.code, answer.value["ok"], answer.value["problems"]) == (0, True, [])
    assert len(answer.value["logs"]) == 5
    assert target("verify", "--tenant", OTHER).code == 0


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_an_attack_on_the_database_is_found_at_its_place(target: Target, attack: Attack) -> None:
    """Verify exits with 1 and names the index and what is wrong there."""
    attack.does(target)
    require_noticed(target, attack)


def test_a_bit_of_any_column_is_found(target: Target) -> None:
    """The least change of each of the columns, one after the other, is found at its event."""
    unnoticed = []
    row = f"FROM {EVENT} WHERE {{here}} AND index = {PLACE}"
    target.sql(f"CREATE TABLE ledger.kept AS SELECT {ALL} {row}")
    (event,) = [row for row in target.rows() if row.recorded.index == PLACE]
    with target.open() as ledger:
        for column in COLUMNS:
            change = f'UPDATE {EVENT} SET "{column.name}" = {flipped(column)}'
            with target.superuser() as connection:
                where = " WHERE event_id = %s RETURNING ctid"
                changed = connection.execute((change + where).encode(), [event.columns.event_id])
                place = changed.fetchone()
            assert place is not None
            report = ledger.verify(tenant=VICTIM, anchors=False)[0]
            if report.ok or report.first_bad_index != PLACE:
                unnoticed.append((column.name, report.first_bad_index))
            with target.superuser() as connection:
                connection.execute(f"DELETE FROM {EVENT} WHERE ctid = %s".encode(), place)
                connection.execute(f"INSERT INTO {EVENT} SELECT * FROM ledger.kept".encode())
        assert ledger.verify(tenant=VICTIM)[0].ok
    assert unnoticed == []


def test_deleted_checkpoints_hide_nothing(target: Target) -> None:
    """The deployment log noted their roots, so verify compares with as many as before."""
    before = target("verify", "--local").value["checkpoints"]
    shutil.rmtree(target.tree() / "checkpoints")
    (target.tree() / "checkpoint").unlink()
    answer = target("verify", "--local")
    assert (answer.code, answer.value["checkpoints"]) == (0, before - 1)


def test_what_is_not_sealed_yet_is_counted_and_no_more(target: Target) -> None:
    """An event added with right hashes after the last checkpoint is not told from an append;
    verify says how many events no checkpoint covers, and --sealed makes that exit code 6."""
    target.sql(insert(EVENTS - 1, EVENTS), shorten(EVENTS + 1))
    target.hash_again(EVENTS)
    answer = asked(target, BY_NAME["a row deleted"])
    assert (answer.code, answer.value["unsealed"]) == (0, 1)
    assert target("verify", "--sealed").code == 6


def nothing(*arguments: object, **named: object) -> Iterator[Any]:
    return iter(())


def leaf_as_stored(check: Any, row: Row) -> None:
    check.tree.append(row.recorded.leaf_hash)


BLIND: dict[str, list[tuple[str, str, Any]]] = {
    "a payload nulled": [
        ("memoriale.projections.proofs.verify._Check", "_hashes", leaf_as_stored),
    ],
    "an actor changed, all hashes again": [
        ("memoriale.adapters.proving.verification", "stored", nothing),
        ("memoriale.adapters.proving.verification", "noted", nothing),
    ],
    "the last 100 rows deleted and the head set back": [
        ("memoriale.adapters.proving.verification", "stored", nothing),
        ("memoriale.adapters.proving.verification", "noted", nothing),
    ],
    "no tiles, no checkpoints, all hashes again": [
        ("memoriale.adapters.proving.verification", "noted", nothing),
    ],
    "an incarnation that nobody declared": [
        ("memoriale.adapters.proving.verification", "trees_of", lambda tree, last: [(last, tree)]),
    ],
    "a tenant vanished": [
        ("memoriale.adapters.library.proving.Proving", "_vanished", nothing),
    ],
    "a tenant and the deployment log vanished": [
        (
            "memoriale.adapters.proving.verification.Verification",
            "vanished_elsewhere",
            lambda verification, known: [],
        ),
    ],
}
"""For some attacks the check that notices them, and what is put in its place."""


@pytest.mark.parametrize("name", BLIND)
def test_this_suite_fails_when_a_check_is_missing(
    target: Target, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A verify that was made blind lets the attack pass, and then the judgement above fails."""
    BY_NAME[name].does(target)
    require_noticed(target, BY_NAME[name])
    for where, attribute, instead in BLIND[name]:
        monkeypatch.setattr(f"{where}.{attribute}", instead)
    with pytest.raises(AssertionError):
        require_noticed(target, BY_NAME[name])
