"""A long log is verified in pieces by several processes, and nothing is missed at their borders."""

import subprocess
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.postgres.raw_rows import raw_rows
from memoriale.adapters.proving import piece_readers
from memoriale.adapters.proving.at_once import verified_at_once
from memoriale.domain.stores.facts import NewFact
from memoriale.projections.proofs.merkle import MerkleTree
from memoriale.projections.proofs.unbroken import Joining, read_piece
from memoriale.projections.proofs.verify import Expected, VerifyReport

PIECE = 4


@pytest.fixture
def log(shared_ledger: Ledger, tenant: str) -> TenantLog:
    """A log of 23 events whose appends, of one to five events, cross the borders of pieces."""
    alice = shared_ledger.memory(tenant=tenant, user="alice")
    for turn, size in enumerate((1, 4, 2, 5, 1, 1, 3, 4, 2)):
        alice.facts.add_facts(None, [NewFact(fact=f"kite {size} {n} {turn}") for n in range(size)])
    return shared_ledger.tenant(tenant).log


def rows_of(log: TenantLog) -> list[bytes]:
    return list(raw_rows(log.reader.datastore, log.log))


def roots(log: TenantLog) -> list[Expected]:
    """The root at every size of the log, from none to all."""
    tree, found = MerkleTree(), [Expected(0, MerkleTree().root(), "here")]
    for row in log.reader.rows_as_stored():
        for one in row:
            tree.append(one.recorded.leaf_hash)
            found.append(Expected(tree.size, tree.root(), "here"))
    return found


def joined(log: TenantLog, rows: Sequence[bytes], expected: Sequence[Expected] = ()) -> bool:
    """Whether pieces of four rows each are in order when they are joined."""
    joining = Joining(iter(expected))
    for start in range(0, len(rows), PIECE):
        here = joining.until(start + PIECE)
        some = rows[start : start + PIECE]
        sizes = [one.size for one in here]
        piece = read_piece(some, start, sizes, tenant=log.tenant, log_id=log.log_id)
        if piece is None or not joining.add(piece, here):
            return False
    return joining.ends(log.head())


def at_once(log: TenantLog, *expected: Expected, processes: int = 2) -> VerifyReport | None:
    return verified_at_once(log, lambda: iter(expected), None, processes=processes, piece=PIECE)


def test_the_rows_cross_borders(log: TenantLog) -> None:
    """The log of these tests has appends that begin in one piece and end in another."""
    appends = {
        (r.recorded.append_first, r.recorded.append_last)
        for b in log.reader.rows_as_stored()
        for r in b
    }
    assert any(first // PIECE != last // PIECE for first, last in appends)


def test_pieces_are_as_the_whole(log: TenantLog) -> None:
    """Joined pieces give the root at every size, whole pieces or not."""
    found = roots(log)
    assert joined(log, rows_of(log), found)
    for place, one in enumerate(found):
        wrong = [*found[:place], Expected(one.size, bytes(32), "here"), *found[place + 1 :]]
        assert not joined(log, rows_of(log), wrong)


def test_missing_doubled_and_moved_rows_at_borders(log: TenantLog) -> None:
    """A row that is missing, there twice or in another place is noticed wherever it is."""
    rows = rows_of(log)
    assert joined(log, rows)
    for place in range(len(rows)):
        assert not joined(log, [*rows[:place], *rows[place + 1 :]])
        assert not joined(log, [*rows[:place], rows[place], *rows[place:]])
    for place in range(len(rows) - 1):
        swapped = [*rows[:place], rows[place + 1], rows[place], *rows[place + 2 :]]
        assert not joined(log, swapped)
    for start in range(0, len(rows) - PIECE, PIECE):
        assert not joined(log, [*rows[:start], *rows[start + PIECE :]])


def test_several_processes_say_what_one_says(log: TenantLog) -> None:
    """The report is the same however many processes read, checkpoints included."""
    expected = roots(log)
    alone = at_once(log, *expected, processes=1)
    assert alone is not None
    assert (alone.leaves, alone.checkpoints, alone.unsealed) == (23, 24, 0)
    for processes in (2, 3):
        assert at_once(log, *expected, processes=processes) == alone
    assert at_once(log, *expected[:-1], Expected(23, bytes(32), "here")) is None
    assert at_once(log, *expected[:8], Expected(9, bytes(32), "here")) is None
    assert at_once(log, *expected, Expected(24, bytes(32), "here")) is None


def test_processes_end_with_the_check(log: TenantLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """None is left, whether the log is in order or not."""
    started = list(watched(monkeypatch))
    assert at_once(log) is not None
    assert at_once(log, Expected(9, bytes(32), "here")) is None
    assert len(started[0]) == 4
    assert all(process.poll() is not None for process in started[0])


def test_a_process_that_dies_is_made_up_for(
    log: TenantLog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The log is then read in this process alone, and the log of the program says so."""
    alone = at_once(log, processes=1)
    begun = piece_readers.PieceReaders._started

    def killed(self: piece_readers.PieceReaders, first: str) -> "subprocess.Popen[str]":
        process = begun(self, first)
        process.kill()
        process.wait()
        return process

    monkeypatch.setattr(piece_readers.PieceReaders, "_started", killed)
    assert at_once(log) == alone
    assert "in this process alone" in caplog.text


def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[list["subprocess.Popen[Any]"]]:
    """The processes that are started from now on."""
    found: list[subprocess.Popen[Any]] = []
    begun = piece_readers.PieceReaders._started

    def started(self: piece_readers.PieceReaders, first: str) -> "subprocess.Popen[str]":
        process = begun(self, first)
        found.append(process)
        return process

    monkeypatch.setattr(piece_readers.PieceReaders, "_started", started)
    yield found
