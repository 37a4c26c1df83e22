"""Sealing: trees grow with their logs, and never are two roots signed over one size."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.notes.checkpoint import open_checkpoint
from memoriale.adapters.sealing.log_tree import LogTree
from memoriale.adapters.sealing.publisher import Published
from memoriale.adapters.sealing.sealer import Sealed
from memoriale.adapters.sealing.sealing import target_of
from memoriale.domain.errors import MemorialeError, UnavailableError
from memoriale.projections.proofs.merkle import root_of
from tests.fixtures.ledger import HASHING
from tests.fixtures.postgres import Database
from tests.fixtures.sealing import TENANT, cut, remembered, sealed, tried

SECONDS: Final = 120

# Remembers and seals; before or after a method is called for the last time it is killed.
KILLED: Final = """
import os, signal, sys
from importlib import import_module
import memoriale
from memoriale.adapters.sealing.sealing import target_of
home, url, embedder, tenant, module, owner, method, when = sys.argv[1:]
with memoriale.open(home=home, database_url=url, embedder=embedder, tenant=tenant) as ledger:
    ledger.memory(tenant=tenant, user="alice").remember("one more")
    cls = getattr(import_module(f"memoriale.{module}"), owner)
    real = getattr(cls, method)
    def killed(*args, **kwargs):
        if when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        real(*args, **kwargs)
        os.kill(os.getpid(), signal.SIGKILL)
    setattr(cls, method, killed)
    ledger.infrastructure.sealing.seal([target_of(ledger.tenant(tenant).log)])
"""
PLACES: Final = [
    ("projections.proofs.writing", "TileWriter", "append"),
    ("projections.proofs.writing", "TileWriter", "sync"),
    ("adapters.sealing.log_tree", "LogTree", "sign"),
    ("adapters.sealing.log_tree", "LogTree", "_keep"),
    ("adapters.sealing.deployment", "Deployment", "note"),
    ("adapters.sealing.log_tree", "LogTree", "mark_noted"),
]

# Remembers and seals as fast as it can, beside others that do the same.
SEALER: Final = """
import sys
import memoriale
from memoriale.adapters.sealing.sealing import target_of
home, url, embedder, tenant = sys.argv[1:]
with memoriale.open(home=home, database_url=url, embedder=embedder, tenant=tenant) as ledger:
    alice = ledger.memory(tenant=tenant, user="alice")
    target = target_of(ledger.tenant(tenant).log)
    for number in range(25):
        alice.remember(f"note {number}")
        for answer in ledger.infrastructure.sealing.seal([target]):
            if isinstance(answer, memoriale.MemorialeError):
                raise answer
"""


def tree_of(ledger: Ledger, tenant: str = TENANT) -> LogTree:
    sealing = ledger.infrastructure.sealing
    return sealing.sealer.tree(target_of(ledger.tenant(tenant).log), 1)


def require_one_history(ledger: Ledger, tenant: str = TENANT) -> None:
    """Every checkpoint on disk is one of the log, and the log verifies against all of them."""
    tree = tree_of(ledger, tenant)
    report = ledger.verify(tenant=tenant)[0]
    assert report.ok, report.problems
    assert report.checkpoints >= len(tree.sizes())


def test_a_checkpoint_covers_the_log(sealable: Ledger) -> None:
    """The signed root is that of the leaf hashes, and the deployment log notes and seals it."""
    log = remembered(sealable, 3)
    checkpoint = sealed(sealable, log).checkpoint
    hashes = [row.recorded.leaf_hash for row in log.reader.rows()]
    assert (checkpoint.size, checkpoint.root) == (3, root_of(hashes))
    assert checkpoint.origin == f"memoriale/{log.log_id}/1"
    known = sealable.infrastructure.sealing.known(log.log_id)
    assert known is not None
    assert (known.tenant, known.kind, known.size) == (TENANT, "memory", 3)
    assert known.root == checkpoint.root.hex()
    own = sealable.infrastructure.sealing.deployment_log()
    assert sealable.infrastructure.sealing.extent(target_of(own)).unsealed == 0


def test_sealing_goes_on_from_where_it_stopped(sealable: Ledger) -> None:
    """What is sealed is not sealed again; later events extend the tree; each size is kept."""
    log = remembered(sealable, 300)
    assert sealed(sealable, log).fresh
    assert not sealed(sealable, log).fresh
    before = sealable.infrastructure.sealing.deployment_log().head()
    assert not sealed(sealable, log).fresh
    assert sealable.infrastructure.sealing.deployment_log().head() == before
    remembered(sealable, 1)
    assert sealed(sealable, log).checkpoint.size == 301
    assert tree_of(sealable).sizes() == [300, 301]
    require_one_history(sealable)


def test_an_empty_log_can_be_sealed(sealable: Ledger) -> None:
    """A checkpoint over nothing has the root of the empty tree, and later ones follow it."""
    log = remembered(sealable, 0)
    assert sealed(sealable, log).checkpoint.size == 0
    remembered(sealable, 2)
    assert sealed(sealable, log).checkpoint.size == 2
    require_one_history(sealable)


def test_tenants_are_sealed_together_and_apart(sealable: Ledger) -> None:
    """Each log has a tree of its own; one append of the deployment log notes all of them."""
    logs = [remembered(sealable, count, tenant) for count, tenant in ((2, "acme"), (3, "beta"))]
    answers = sealable.infrastructure.sealing.seal(target_of(log) for log in logs)
    assert [a.checkpoint.size for a in answers if isinstance(a, Sealed)] == [2, 3, 2]
    rows = sealable.infrastructure.sealing.deployment_log().reader.rows()
    assert {(row.recorded.append_first, row.recorded.append_last) for row in rows} == {(0, 1)}
    for tenant in ("acme", "beta"):
        require_one_history(sealable, tenant)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("place", PLACES, ids=lambda place: f"{place[1]}.{place[2]}")
def test_a_killed_sealing_is_gone_on_with(
    open_ledger: Callable[[], Ledger],
    fresh_database: Database,
    sealing_home: Path,
    place: tuple[str, str, str],
    when: str,
) -> None:
    """Killed at any step, the next sealing seals the rest, and no size has two roots."""
    with open_ledger() as ledger:
        sealed(ledger, remembered(ledger, 2))
    arguments = [str(sealing_home), fresh_database.app_url, HASHING, TENANT, *place, when]
    killed = subprocess.run([sys.executable, "-c", KILLED, *arguments], timeout=SECONDS)
    assert killed.returncode == -9
    with open_ledger() as ledger:
        log = remembered(ledger, 1)
        assert sealed(ledger, log).checkpoint.size == 4
        require_one_history(ledger)
        known = ledger.infrastructure.sealing.known(log.log_id)
        assert known is not None
        assert known.size == 4
        assert ledger.replay("proofs", tenant=TENANT)[0].equal


def test_processes_that_seal_at_once_agree(
    sealable: Ledger, fresh_database: Database, sealing_home: Path
) -> None:
    """Three processes write and seal one log at once: one history, and all of it sealed."""
    log = remembered(sealable, 1)
    command = [sys.executable, "-c", SEALER, str(sealing_home), fresh_database.app_url, HASHING]
    workers = [subprocess.Popen([*command, TENANT]) for _ in range(3)]
    assert [worker.wait(SECONDS) for worker in workers] == [0, 0, 0]
    assert sealed(sealable, log).checkpoint.size == 76
    require_one_history(sealable)
    assert sealable.replay("proofs", tenant=TENANT)[0].equal


def test_a_log_that_shrank_is_not_signed(sealable: Ledger, fresh_database: Database) -> None:
    """Fewer events than were sealed: nothing is signed, and status says so."""
    log = remembered(sealable, 5)
    sealed(sealable, log)
    cut(fresh_database, log, 3)
    for _ in range(2):
        refused = tried(sealable, log)
        assert isinstance(refused, MemorialeError)
        assert (refused.code, refused.exit_code) == ("log_shrank", 1)
    assert tree_of(sealable).sizes() == [5]
    extent = sealable.infrastructure.sealing.extent(target_of(log))
    assert extent.problem is not None
    assert extent.problem.code == "log_shrank"


def test_a_log_that_went_on_differently_is_not_signed(
    sealable: Ledger, fresh_database: Database
) -> None:
    """Rolled back and grown again to the same size and beyond: never a second root."""
    log = remembered(sealable, 5)
    sealed(sealable, log)
    cut(fresh_database, log, 3)
    for count in (2, 1):
        remembered(sealable, count)
        refused = tried(sealable, log)
        assert isinstance(refused, MemorialeError)
        assert refused.code == "log_changed"
    assert tree_of(sealable).sizes() == [5]


@pytest.mark.parametrize("damage", ["removed", "cut", "changed"])
def test_damaged_tiles_are_built_again(sealable: Ledger, damage: str) -> None:
    """Tiles are a view: when they are lost or damaged the log gives them again."""
    log = remembered(sealable, 3)
    sealed(sealable, log)
    tile = tree_of(sealable).folder / "tile" / "0" / "000.p" / "3"
    if damage == "removed":
        shutil.rmtree(tile.parents[2])
    elif damage == "cut":
        tile.write_bytes(tile.read_bytes()[:-1])
    else:
        tile.write_bytes(bytes(96))
    remembered(sealable, 1)
    assert sealed(sealable, log).checkpoint.size == 4
    assert sealable.replay("proofs", tenant=TENANT)[0].equal
    require_one_history(sealable)


def test_a_lost_checkpoint_is_signed_again_from_what_was_noted(
    sealable: Ledger, fresh_database: Database
) -> None:
    """Without its files a log is sealed on from what the deployment log knows of it, and a log
    that differs from that is refused."""
    log = remembered(sealable, 3)
    first = sealed(sealable, log).checkpoint
    shutil.rmtree(tree_of(sealable).folder)
    remembered(sealable, 1)
    assert sealed(sealable, log).checkpoint.size == 4
    again = tree_of(sealable).at(3)
    assert again is not None
    assert again.checkpoint == first
    shutil.rmtree(tree_of(sealable).folder)
    cut(fresh_database, log, 2)
    assert isinstance(tried(sealable, log), MemorialeError)
    remembered(sealable, 3)
    refused = tried(sealable, log)
    assert isinstance(refused, MemorialeError)
    assert refused.code == "log_changed"


def test_a_failing_log_does_not_stop_the_others(sealable: Ledger, fresh_database: Database) -> None:
    """The log that cannot be sealed is answered with its error, the others are sealed."""
    bad, good = remembered(sealable, 2, "bad"), remembered(sealable, 2, "good")
    sealed(sealable, bad)
    cut(fresh_database, bad, 1)
    answers = sealable.infrastructure.sealing.seal(target_of(log) for log in (bad, good))
    assert [isinstance(answer, Sealed) for answer in answers] == [False, True, True]


def test_checkpoints_are_handed_out_and_a_failing_place_stops_nothing(
    sealable: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The publisher gets each new checkpoint once, signed; what it raises is no failure."""
    taken: list[Published] = []

    class Outside:
        def publish(self, checkpoints: list[Published]) -> None:
            taken.extend(checkpoints)
            raise UnavailableError("the place is down")

    sealing = sealable.infrastructure.sealing
    monkeypatch.setattr(sealing, "_publisher", Outside())
    log = remembered(sealable, 2)
    sealed(sealable, log)
    sealed(sealable, log)
    assert [one.size for one in taken] == [2, 1]
    for one in taken:
        checkpoint = open_checkpoint(one.note, sealing.key.verifiers(one.origin)).checkpoint
        assert (checkpoint.origin, checkpoint.root) == (one.origin, one.root)
