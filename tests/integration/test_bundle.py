"""A ledger's bundle is checked by the stand-alone verifier, as a stranger would."""

from pathlib import Path
from typing import Any

import pytest

import memoriale
import memoriale_verify
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.domain.errors import InputError, MissingRightError
from tests.fixtures.bundles import made_again
from tests.fixtures.ledger import HASHING


def keys_of(ledger: Ledger) -> list[str]:
    return [key.key for key in ledger.signing_keys()]


def verified(ledger: Ledger, path: Path, *checkpoints: Path) -> dict[str, Any]:
    return memoriale_verify.verify(str(path), keys_of(ledger), list(map(str, checkpoints)))


def test_a_bundle_of_a_ledger_holds(
    shared_ledger: Ledger, alice: Memory, tenant: str, tmp_path: Path
) -> None:
    """All events of both logs are in it, the call that made it included, under signed roots."""
    for number in range(300):
        alice.remember(f"number {number}")
    shared_ledger.checkpoint(tenant=tenant)
    alice.remember_many(["a", "b", "c"])
    report = shared_ledger.bundle(tmp_path / "bundle.zip", tenant=tenant)
    found = verified(shared_ledger, tmp_path / "bundle.zip")
    assert (found["exit_code"], found["problems"]) == (0, [])
    memory, access = found["logs"]
    assert (memory["tenant"], memory["kind"], memory["leaves"]) == (tenant, "memory", 303)
    assert memory["checkpoints"] >= 2
    assert access["leaves"] >= 2
    assert [log["events"] for log in report.logs] == [303, access["leaves"]]
    assert [log["root"] for log in report.logs] == [memory["root"], access["root"]]
    assert list(report.verifiers) == keys_of(shared_ledger)
    assert report.bytes == (tmp_path / "bundle.zip").stat().st_size


def test_a_checkpoint_kept_before_fits_a_later_bundle(
    shared_ledger: Ledger, alice: Memory, tenant: str, tmp_path: Path
) -> None:
    """Whoever kept a checkpoint checks with it that the bundle continues the same history."""
    alice.remember("one")
    kept = tmp_path / "kept"
    kept.write_text(shared_ledger.checkpoint(tenant=tenant)[0].note)
    alice.remember("two")
    shared_ledger.bundle(tmp_path / "bundle.zip", tenant=tenant)
    assert verified(shared_ledger, tmp_path / "bundle.zip", kept)["exit_code"] == 0


def test_an_empty_tenant_has_a_bundle(shared_ledger: Ledger, tenant: str, tmp_path: Path) -> None:
    """Nothing remembered is a history too."""
    shared_ledger.bundle(tmp_path / "bundle.zip", tenant=tenant)
    found = verified(shared_ledger, tmp_path / "bundle.zip")
    assert (found["exit_code"], found["logs"][0]["leaves"]) == (0, 0)


def test_bodies_may_stay_at_home(
    shared_ledger: Ledger, alice: Memory, tenant: str, tmp_path: Path
) -> None:
    """Without them the verifier says what it could not check."""
    alice.remember("one")
    report = shared_ledger.bundle(tmp_path / "bundle.zip", tenant=tenant, states=False)
    assert not report.states
    found = verified(shared_ledger, tmp_path / "bundle.zip")
    assert (found["exit_code"], len(found["not_checked"])) == (6, 2)


def test_nothing_of_another_tenant_and_no_content_is_in_it(
    shared_ledger: Ledger, alice: Memory, tenant: str, tmp_path: Path
) -> None:
    """The deployment log names all tenants; of it only the entries about this one go along."""
    other = f"{tenant}-other"
    bob = shared_ledger.memory(tenant=other, user="bob-the-beekeeper")
    bob.remember("Bob keeps his bees behind the barn")
    alice.remember("Alice prefers the telephone")
    shared_ledger.checkpoint(tenant=other)
    shared_ledger.bundle(tmp_path / "bundle.zip", tenant=tenant)
    content = (tmp_path / "bundle.zip").read_bytes()
    assert tenant.encode() in content
    # Long words: three letters stand in sealed bytes and base64 by chance.
    for secret in (other, "his bees", "telephone", alice.principal.user, "bob-the-beekeeper"):
        assert secret is not None
        assert secret.encode() not in content


def test_a_bundle_of_a_changed_ledger_does_not_hold(
    shared_ledger: Ledger, alice: Memory, tenant: str, tmp_path: Path
) -> None:
    """What the database gives out goes into the bundle as it is, and the verifier finds it."""
    for number in range(5):
        alice.remember(f"number {number}")
    shared_ledger.bundle(tmp_path / "bundle.zip", tenant=tenant)

    def change(files: dict[str, bytes]) -> None:
        name = next(name for name in files if "states/" in name)
        files[name] = files[name][:-1] + bytes([files[name][-1] ^ 1])

    changed = tmp_path / "changed.zip"
    changed.write_bytes(made_again((tmp_path / "bundle.zip").read_bytes(), change))
    found = verified(shared_ledger, changed)
    assert (found["exit_code"], found["first_bad_index"]) == (1, 4)


def test_the_right_audit_is_needed(
    shared_url: str, tenant: str, tmp_path: Path, ledger_home: Path
) -> None:
    """Without it nothing is written."""
    home = {"home": ledger_home, "database_url": shared_url, "embedder": HASHING}
    with (
        memoriale.open(rights=["use"], **home) as ledger,
        pytest.raises(MissingRightError, match="audit"),
    ):
        ledger.bundle(tmp_path / "bundle.zip", tenant=tenant)
    assert list(tmp_path.iterdir()) == []


def test_a_bad_place_leaves_nothing(shared_ledger: Ledger, tenant: str, tmp_path: Path) -> None:
    """An error names the argument."""
    with pytest.raises(InputError) as error:
        shared_ledger.bundle(tmp_path / "no" / "folder" / "b.zip", tenant=tenant)
    assert error.value.field == "out"
    assert list(tmp_path.iterdir()) == []


def test_progress_is_told(
    shared_ledger: Ledger, alice: Memory, tenant: str, tmp_path: Path
) -> None:
    """Per log, up to all events."""
    alice.remember("one")
    told: list[tuple[str, int, int]] = []
    shared_ledger.bundle(tmp_path, tenant=tenant, progress=lambda *step: told.append(step))
    assert ("memory", 1, 1) in told
    assert [path.suffix for path in tmp_path.iterdir()] == [".zip"]
