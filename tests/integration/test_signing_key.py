"""The signing key: made once, missed when it is gone, rotated with both keys signing."""

import os
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.notes.checkpoint import open_checkpoint
from memoriale.adapters.notes.verifier_keys import VerifierKey
from memoriale.adapters.sealing.sealer import Sealed
from memoriale.adapters.sealing.sealing import target_of
from memoriale.adapters.sealing.signing_key import NAME, SigningKey, public_of
from memoriale.domain.errors import MemorialeError, UnavailableError
from memoriale.domain.receipt import UnsealedError
from tests.fixtures.sealing import TENANT, remembered, sealed, tried


@pytest.fixture
def key(tmp_path: Path) -> SigningKey:
    return SigningKey(tmp_path / "signing" / "key", tmp_path / "signing")


def test_the_key_is_made_once(key: SigningKey) -> None:
    """The first use makes a key of its owner's alone, and its public key is known."""
    assert key.problem() is None
    assert not key.path.exists()
    public = public_of(key.load())
    assert key.path.stat().st_mode & 0o777 == 0o600
    assert (public_of(key.load()), key.public_keys()) == (public, [public])


def test_a_key_that_was_brought_along_is_used(key: SigningKey) -> None:
    """64 hexadecimal digits in the file are the key."""
    key.path.parent.mkdir()
    key.path.write_text("07" * 32 + "\n")
    assert key.load().private_bytes_raw() == b"\x07" * 32
    assert key.public_keys() == [public_of(key.load())]


@pytest.mark.parametrize(
    ("content", "code"),
    [(None, "missing_signing_key"), ("xyz", "bad_signing_key"), ("07" * 32, "foreign_signing_key")],
)
def test_another_key_is_never_made_by_itself(
    key: SigningKey, content: str | None, code: str
) -> None:
    """A key that is missing, damaged or another one is an error, until it is back or said lost."""
    former = key.load().private_bytes_raw()
    key.path.unlink()
    if content is not None:
        key.path.write_text(content)
    for _ in range(2):
        with pytest.raises(UnavailableError) as refused:
            key.load()
        assert refused.value.code == code
        assert refused.value.field == "MEMORIALE_SIGNING_KEY"
    with pytest.raises(UnavailableError):
        key.rotate(lambda keys, rotation: None, lost=False)
    key.path.write_text(former.hex())
    assert key.load().private_bytes_raw() == former


def test_a_rotation_that_was_killed_goes_on_with_the_same_key(key: SigningKey) -> None:
    """The new key exists before it is used, and the former one signs until the end."""
    former = key.load()

    def killed(keys: object, rotation: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        key.rotate(killed, lost=False)
    assert public_of(key.load()) == public_of(former)
    announced = key.public_keys()[-1]
    signed: list[Ed25519PrivateKey] = []
    inode = key.path.open("rb")
    rotation = key.rotate(lambda keys, rotation: signed.extend(keys), lost=False)
    assert [public_of(one) for one in signed] == [public_of(former), announced]
    assert (rotation.former, rotation.key) == (public_of(former), announced)
    assert public_of(key.load()) == announced
    assert key.public_keys() == [public_of(former), announced]
    with inode:
        assert set(inode.read()) == {0}


@pytest.mark.parametrize("damage", ["missing", "damaged"])
def test_writes_go_on_unsealed_without_a_key(sealable: Ledger, damage: str) -> None:
    """What is written is durable; the sealed receipt is refused with its own receipt; the key
    that is back seals all of it."""
    log = remembered(sealable, 2)
    sealed(sealable, log)
    key = sealable.infrastructure.sealing.key
    content = key.path.read_text()
    key.path.unlink()
    if damage == "damaged":
        key.path.write_text(content[:-10])
    alice = sealable.memory(tenant=TENANT, user="alice")
    with pytest.raises(UnsealedError) as unsealed:
        alice.remember("stored all the same", receipt="sealed")
    assert (unsealed.value.receipt.index, unsealed.value.exit_code) == (2, 6)
    assert isinstance(tried(sealable, log), MemorialeError)
    extent = sealable.infrastructure.sealing.extent(target_of(log))
    assert (extent.unsealed, extent.problem is not None) == (1, True)
    key.path.write_text(content)
    assert sealed(sealable, log).checkpoint.size == 3
    proof = alice.remember("sealed at once", receipt="sealed").proof
    assert proof is not None
    assert proof.startswith("c2sp.org/tlog-proof@v1\n")


def test_rotation_signs_with_both_keys(sealable: Ledger) -> None:
    """Whoever trusts the former key can go over to the new one; all of it verifies later."""
    logs = [remembered(sealable, 2, tenant) for tenant in ("acme", "beta")]
    before = [sealed(sealable, log) for log in logs]
    rotation = sealable.rotate_signing_key(actor="olga")
    sealing = sealable.infrastructure.sealing
    own = sealing.deployment_log()
    row = next(r for r in own.reader.rows() if r.columns.topic == "key.rotated")
    assert rotation.key.hex() in row.header
    assert rotation.former is not None
    for target in (*(target_of(log) for log in logs), target_of(own)):
        tree = sealing.sealer.tree(target, 1)
        size = max(s for s in tree.sizes() if target.kind != "deployment" or s <= own.head())
        signed = tree.at(size)
        assert signed is not None
        keys = [VerifierKey(tree.origin, key) for key in (rotation.former, rotation.key)]
        for one in keys:
            assert open_checkpoint(str(signed.note), [one]).checkpoint == signed.checkpoint
    assert [k.signs for k in sealable.signing_keys()] == [False, True]
    remembered(sealable, 1)
    after = sealed(sealable, logs[0])
    assert [one.key.public_key for one in after.signed.verified.good] == [rotation.key]
    former = str(VerifierKey(NAME, rotation.former))
    found = sealable.consistency(
        str(before[0].signed.note), str(before[0].signed.note), tenant=TENANT, verifiers=[former]
    )
    assert found.new_size == 2
    assert all(report.ok for report in sealable.verify(all_tenants=True))


def test_a_lost_key_is_followed_by_another_on_record(sealable: Ledger) -> None:
    """Said to be lost, a new key signs alone, and the deployment log names no former one."""
    log = remembered(sealable, 1)
    sealed(sealable, log)
    os.unlink(sealable.infrastructure.sealing.key.path)
    rotation = sealable.rotate_signing_key(lost=True)
    assert rotation.former is None
    remembered(sealable, 1)
    answer = tried(sealable, log)
    assert isinstance(answer, Sealed)
    assert sealable.verify(tenant=TENANT)[0].ok
