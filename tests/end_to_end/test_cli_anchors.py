"""The commands about anchors, as users run them."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from memoriale.adapters.notes.verifier_keys import VerifierKey
from tests.fixtures.cli import CommandLine
from tests.fixtures.witness import Witness

MakeWitness = Callable[..., Witness]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder outside."""
    made = tmp_path / "outside"
    made.mkdir()
    return made


@pytest.fixture
def tenant(request: pytest.FixtureRequest) -> str:
    """A tenant of the test's own in the module's home."""
    return str(request.node.name).replace("_", "-")[:60]


def anchored(cli: CommandLine, tenant: str, *entries: str) -> CommandLine:
    return cli.under({"MEMORIALE_TENANT": tenant, "MEMORIALE_ANCHORS": ",".join(entries)})


def test_without_an_anchor_the_limit_is_said(cli: CommandLine, tenant: str) -> None:
    """The list is empty; doctor and the readable list say how far detection then reaches."""
    bare = anchored(cli, tenant)
    assert bare("anchors", "--json").json()["anchors"] == []
    assert b"home are trusted" in bare("anchors").out
    checks = bare("doctor", "--json").json()["checks"]
    (check,) = (check for check in checks if check["name"] == "anchors")
    assert check["state"] == "warning"
    assert "trusted" in check["detail"]
    pushed = bare("witness", "push", "--json")
    assert pushed.code == 2
    assert pushed.error()["code"] == "no_anchor"
    verified = bare("witness", "verify", "--json")
    assert (verified.code, verified.error()["field"]) == (2, "MEMORIALE_ANCHORS")


def test_a_write_is_anchored_when_its_process_ends(
    cli: CommandLine, tenant: str, folder: Path
) -> None:
    """After a command that writes the anchor holds the checkpoint, and nobody asked for it."""
    command = anchored(cli, tenant, str(folder))
    command.remember("one")
    assert any(path.is_file() for path in folder.rglob("*"))
    found = command("anchors", "--json").json()
    (anchor,) = found["anchors"]
    assert (anchor["anchor"], anchor["kind"], anchor["last_error"]) == (str(folder), "folder", None)
    assert anchor["size"] >= 1
    assert anchor["last_success"]
    verified = command("verify", "--json").json()
    assert verified["ok"]
    assert verified["logs"][0]["anchored"] == 1
    assert command("verify", "--local", "--json").json()["logs"][0]["anchored"] == 0


def test_a_write_does_not_fail_with_its_anchor(cli: CommandLine, tenant: str, folder: Path) -> None:
    """With the anchor away a write succeeds, the list says why it is behind, verify is
    incomplete, and the next write brings what was missed."""
    mount = folder / "mount"
    command = anchored(cli, tenant, str(mount))
    command.remember("one")
    (anchor,) = command("anchors", "--json").json()["anchors"]
    assert anchor["behind"] >= 1
    assert "no such folder" in anchor["last_error"]
    verified = command("verify", "--json")
    assert verified.code == 6
    mount.mkdir()
    command.remember("two")
    (anchor,) = command("anchors", "--json").json()["anchors"]
    assert (anchor["last_error"], anchor["logs"][0]["behind"]) == (None, 0)
    assert command("verify").code == 0


def test_push_and_verify_with_a_quorum(
    cli: CommandLine, tenant: str, make_witness: MakeWitness, folder: Path
) -> None:
    """Enough cosignatures: 0; too few: 6 from push and from verify; a conflict: 1."""
    first, second = make_witness(), make_witness()
    command = anchored(cli, tenant, first.uri, second.uri, str(folder), "quorum=1")
    command.remember("one")
    refused = command("witness", "push", "--json")
    assert refused.code == 6
    assert command("witness", "verify").code == 6
    for key in command("anchors", "--keys").out.decode().split():
        first.trust(VerifierKey.parse(key))
    pushed = command("witness", "push", "--json").json()
    assert (pushed["ok"], pushed["conflict"], pushed["complete"]) == (True, False, True)
    assert list(pushed["witnessed"][0]["cosigned"]) == [first.uri]
    strict = command.under({"MEMORIALE_ANCHORS": f"{first.uri} {second.uri} quorum=2"})
    assert strict("witness", "push").code == 6
    first.stop()
    assert command("witness", "push").code == 6
    first.start()
    assert command("witness", "push").code == 0
    for origin in list(first.seen()):
        first.set_back(origin, 10_000, bytes(32))
    conflict = command("witness", "push", "--json")
    assert conflict.code == 1
    assert b"sealed events are lost" in conflict.out
    checks = command("doctor", "--json")
    assert b"sealed events are lost" in checks.out
    assert checks.code == 1


def test_witness_verify_counts_the_present_checkpoint(
    cli: CommandLine, tenant: str, make_witness: MakeWitness
) -> None:
    """It asks nobody: with the witness away what it cosigned counts, and what came later does
    not."""
    witness = make_witness()
    command = anchored(cli, tenant, witness.uri)
    for key in command("anchors", "--json").json()["keys"]:
        witness.trust(VerifierKey.parse(key))
    command.remember("one")
    assert command("witness", "push").code == 0
    witness.stop()
    verified = command("witness", "verify", "--json").json()
    memory = verified["logs"][0]
    assert verified["ok"]
    assert (memory["size"], memory["last_size"]) == (1, 1)
    assert list(memory["cosigned"]) == [witness.uri]
    command.remember("two")
    incomplete = command("witness", "verify", "--json")
    assert incomplete.code == 6
    memory = json.loads(incomplete.out)["logs"][0]
    assert (memory["ok"], memory["size"], memory["last_size"]) == (False, 2, 1)
    assert "cannot be reached" in memory["missing"][witness.uri]
    witness.start()
