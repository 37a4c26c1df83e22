"""
Attacks on what proves: checkpoints, receipts, tiles, bundles, keys, and whole installations.

Most use the signing key, or genuine bytes in the wrong place; a signature tells, or what lies
outside. Each is done to a fresh copy.
"""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import memoriale_verify
from memoriale.adapters.notes.checkpoint import Checkpoint, sign_checkpoint
from memoriale.adapters.notes.signed_note import NoteSigner
from memoriale.adapters.notes.verifier_keys import VerifierKey
from memoriale.adapters.sealing.log_tree import origin_of
from tests.fixtures.tampering import EARLIER, EVENTS, OTHER, VICTIM, Answer, Target

PLACE = 57
ACTOR = (
    f"UPDATE ledger.ledger_events SET actor = gen_random_uuid() WHERE {{here}} AND index = {PLACE}"
)


@pytest.fixture
def kept(target: Target, tmp_path: Path) -> Path:
    """The checkpoint over 130 events, in the auditor's hands."""
    return Path(shutil.copy(target.checkpoint_at(EVENTS), tmp_path / "kept"))


def codes(answer: Answer) -> set[str]:
    return {code for _, code in answer.problems()}


def remembered(target: Target, *texts: str) -> Path:
    """The log goes on and is sealed on this machine; the new checkpoint."""
    with replace(target, anchor=None).open() as ledger:
        for text in texts:
            ledger.memory(tenant=VICTIM, user="alice").remember(text)
        ledger.checkpoint(tenant=VICTIM)
    return target.tree() / "checkpoint"


def rewritten(target: Target) -> None:
    """History changed, every hash computed again, and all of it sealed anew with the key."""
    target.sql(ACTOR)
    target.hash_again(PLACE)
    target.sql(
        *(
            f"DELETE FROM ledger.{table} WHERE tenant = '_deployment'"
            for table in ("ledger_events", "ledger_heads", "ledger_logs", "ledger_subjects")
        )
    )
    shutil.rmtree(target.home / "tiles")
    remembered(target)


def note_of(target: Target, size: int, root: bytes, key: Ed25519PrivateKey) -> str:
    """A checkpoint of the victim's memory log, by some key."""
    origin = origin_of(target.log_id, 1)
    return str(sign_checkpoint(Checkpoint(origin, size, root), [NoteSigner(origin, key)]))


def own_key(target: Target) -> Ed25519PrivateKey:
    """The key of the installation: for the attacker who took the home as well."""
    seed = (target.home / "signing" / "key").read_text().strip()
    return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(seed))


def test_proofs_of_an_untouched_ledger_hold(target: Target, tmp_path: Path) -> None:
    """Consistency, receipt, bundle, replay and reconcile are all green, with exit code 0."""
    proof, bundle = tmp_path / "proof", tmp_path / "bundle.zip"
    old, new = target.checkpoint_at(EARLIER), target.checkpoint_at(EVENTS)
    assert target("consistency", str(old), str(new)).code == 0
    assert target("receipt", str(PLACE), "--out", str(proof)).code == 0
    assert target("receipt-check", str(proof)).code == 0
    assert replace(target, anchor=None)("bundle", "--out", str(bundle)).code == 0
    assert memoriale_verify.verify(str(bundle), [], [str(new)])["ok"]
    assert target("replay", "--view", "proofs", "--verify").code == 0
    assert target("reconcile").code == 0


def test_an_older_copy_of_database_and_home(target: Target, tmp_path: Path) -> None:
    """All of it is genuine; the anchor, and a checkpoint kept elsewhere, know of later events."""
    with target.copied() as older:
        kept = str(shutil.copy(remembered(target, "one more", "and another"), tmp_path / "kept"))
        with target.open() as ledger:
            assert ledger.push(tenant=VICTIM).ok
        assert older("verify", "--local").code == 0
        for arguments in ([], ["--local", "--checkpoint", kept]):
            found = older("verify", *arguments)
            assert (found.code, found.value["logs"][0]["lost"]) == (1, 2)
            assert found.problems() == [(EVENTS, "events_lost")]
        remembered(older, "another history", "of the same size", "and more")
        assert older("witness", "push").code == 1


def test_two_histories_of_one_size(target: Target, tmp_path: Path) -> None:
    """Both are signed, by the same key, over the same number of events."""
    with target.copied() as other:
        one = remembered(target, "one history")
        two = remembered(other, "another one")
        found = target("consistency", str(one), str(two))
        assert (found.code, found.value["code"]) == (1, "two_roots")
        assert found.value["value"] == EVENTS + 1
        longer = remembered(other, "and on")
        found = target("consistency", str(one), str(longer))
        assert (found.code, found.value["code"]) in ((1, "inconsistent"), (5, "no_tiles"))
        found = other("consistency", str(one), str(longer))
        assert (found.code, found.value["code"]) == (1, "inconsistent")


def test_everything_rewritten_and_sealed_anew(target: Target, kept: Path) -> None:
    """Database, tiles and checkpoints agree with each other, and not with what lies outside."""
    rewritten(target)
    assert target("verify", "--local").code == 0
    for arguments in ([], ["--local", "--checkpoint", str(kept)]):
        found = target("verify", *arguments)
        assert found.code == 1
        assert (0, "not_what_was_sealed") in found.problems()
    found = target("consistency", str(kept), str(target.tree() / "checkpoint"))
    assert (found.code, found.value["code"]) == (1, "two_roots")
    grown = remembered(target, "it goes on")
    found = target("consistency", str(kept), str(grown))
    assert (found.code, found.value["code"]) == (1, "inconsistent")


FORGED: dict[str, tuple[Callable[[Target, str], str], int, str]] = {
    "another root": (lambda _, text: text.replace(text.split("\n")[2], "A" * 43 + "="), 1, ""),
    "another size": (lambda _, text: text.replace(f"\n{EVENTS}\n", "\n99\n", 1), 1, ""),
    "a foreign key": (
        lambda target, text: note_of(target, EVENTS, bytes(32), Ed25519PrivateKey.generate()),
        1,
        "",
    ),
    "another log": (lambda t, _: (t.tree(OTHER) / "checkpoint").read_text(), 5, "foreign_origin"),
    "no signature": (lambda _, text: text.split("\n\n")[0] + "\n\n", 2, ""),
    "nothing": (lambda target, text: "", 2, ""),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_checkpoint(target: Target, kept: Path, name: str) -> None:
    """One that was kept elsewhere is believed by its signature alone, and says which log."""
    forge, code, expected = FORGED[name]
    kept.write_text(forge(target, kept.read_text()))
    found = target("verify", "--checkpoint", str(kept))
    assert found.code == code, found.value
    assert found.value["code"] == expected or not expected
    assert target("consistency", str(kept), str(target.checkpoint_at(EVENTS))).code != 0


def test_a_receipt_that_was_changed(target: Target, tmp_path: Path) -> None:
    """Each line of a proof file counts: place, leaf, path, size, root and signature."""
    file = tmp_path / "proof"
    assert target("receipt", str(PLACE), "--out", str(file)).code == 0
    whole = file.read_text().split("\n")
    passed = []
    for number, line in enumerate(whole):
        if not line.strip():
            continue
        at = len(line) // 2
        other = line[:at] + ("1" if line[at] != "1" else "2") + line[at + 1 :]
        file.write_text("\n".join([*whole[:number], other, *whole[number + 1 :]]))
        if target("receipt-check", str(file)).code not in (1, 2):
            passed.append(line)
    assert passed == []
    file.write_text("\n".join(whole))
    foreign = str(
        VerifierKey("memoriale", Ed25519PrivateKey.generate().public_key().public_bytes_raw())
    )
    assert target("receipt-check", str(file), "--verifier", foreign).code == 1


def test_a_receipt_of_a_changed_event_is_not_given(target: Target) -> None:
    """What stands there is not what was sealed, also when its hash was computed again."""
    target.sql(ACTOR)
    assert target("receipt", str(PLACE)).code == 1
    target.hash_again(PLACE)
    assert target("receipt", str(PLACE)).code == 1
    assert target("receipt", str(PLACE + 1)).code == 0


def test_changed_tiles(target: Target) -> None:
    """They prove nothing, accuse nobody, and are built again from the log."""
    tile = target.tree() / "tile" / "0" / "000.p" / str(EVENTS)
    hashes = bytearray(tile.read_bytes())
    hashes[32 * PLACE] ^= 1
    tile.write_bytes(hashes)
    old, new = target.checkpoint_at(EARLIER), target.checkpoint_at(EVENTS)
    for arguments in (["consistency", str(old), str(new)], ["receipt", str(PLACE - 1)]):
        found = target(*arguments)
        assert (found.code, found.value["code"]) == (5, "bad_tile")
    assert target("verify").code == 0
    found = target("replay", "--view", "proofs", "--verify")
    assert (found.code, found.value["views"][0]["equal"]) == (1, False)
    assert target("replay", "--view", "proofs", "--verify").code == 0
    assert target("receipt", str(PLACE)).code == 0


def test_a_bundle_of_a_changed_log(target: Target, kept: Path, tmp_path: Path) -> None:
    """It is not made, or whoever checks it sees the event; a rewritten one has another root."""
    bundle = tmp_path / "bundle.zip"
    alone = replace(target, anchor=None)
    target.sql(ACTOR)
    alone("bundle", "--out", str(bundle))
    found = memoriale_verify.verify(str(bundle), [], [])
    assert not found["ok"]
    assert found["first_bad_index"] == PLACE
    rewritten(target)
    assert alone("bundle", "--out", str(bundle)).code == 0
    assert memoriale_verify.verify(str(bundle), [], [])["ok"]
    assert not memoriale_verify.verify(str(bundle), [], [str(kept)])["ok"]


def test_records_of_the_key_store_swapped(target: Target) -> None:
    """Alice's key under Bob's name opens nothing: every record holds at its place alone."""
    file = target.home / "keys" / "store.keys"
    data = bytearray(file.read_bytes())
    pairs = [
        (one, one + length)
        for one in range(0, len(data) - 128, 64)
        for length in (int.from_bytes(data[one : one + 4], "big"),)
        if 64 <= length <= 1024
        and length % 64 == 0
        and data[one + 4] in (1, 2)
        and int.from_bytes(data[one + length : one + length + 4], "big") == length
    ]
    first, second = pairs[0]
    length = second - first
    data[first:second], data[second : second + length] = (
        data[second : second + length],
        data[first:second],
    )
    file.write_bytes(data)
    (file.parent / "store.index").unlink()
    found = target("log", "--content")
    assert (found.code, found.value["code"]) == (5, "damaged_key_file")
    checks = {one["name"]: one for one in target("doctor").value["checks"]}
    assert not checks["keys"]["ok"]


def test_persons_of_events(target: Target) -> None:
    """The table by which the events about a person are found is compared, and put right."""
    target.sql(
        f"DELETE FROM ledger.ledger_subjects WHERE {{here}} AND index = {PLACE}",
        "INSERT INTO ledger.ledger_subjects SELECT tenant, log_id, gen_random_uuid(), 99"
        " FROM ledger.ledger_logs WHERE {here}",
    )
    assert target("verify").code == 0
    found = target("reconcile")
    (persons,) = (one for one in found.value["views"] if one["view"] == "persons")
    assert (found.code, persons["missing"], persons["orphaned"]) == (1, 1, 1)
    assert [str(PLACE) in persons["findings"][0], "99" in persons["findings"][1]] == [True, True]
    admin = {"MEMORIALE_ADMIN_URL": target.database.superuser_url}
    assert replace(target, variables=admin)("reconcile", "--repair").code == 0
    assert target("reconcile").code == 0


def test_the_doctor_sees_that_the_tables_were_laid_open(target: Target) -> None:
    """Triggers that are off, checks that are gone, and a head whose time was moved ahead."""
    before = {one["name"] for one in target("doctor").value["checks"] if not one["ok"]}
    target.sql(
        "UPDATE ledger.ledger_heads SET last_recorded_at = now() + interval '1 day' WHERE {here}"
    )
    found = target("doctor")
    after = {one["name"] for one in found.value["checks"] if not one["ok"]}
    assert found.code == 1
    assert {"triggers", "clock"} <= after - before
