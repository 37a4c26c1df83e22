"""The fast way through an untouched log: it calls good only what the careful one calls good."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pytest

from memoriale.adapters.postgres.append import Append
from memoriale.adapters.postgres.raw_rows import raw_rows
from memoriale.domain.record import COLUMNS
from memoriale.projections.proofs.merkle import MerkleTree
from memoriale.projections.proofs.unbroken import Joining, unbroken
from memoriale.projections.proofs.verify import Expected, verify
from tests.contracts.ledger import TOPIC, Rows, append, event
from tests.fixtures.postgres import Database, Ledger, opened

BEFORE_BODY: Final = 2


def at_once(
    ledger: Ledger, rows: Sequence[bytes], *expected: Expected, head: int | None = None
) -> tuple[MerkleTree, int, int] | None:
    joining = Joining(iter(expected))
    in_order = unbroken(
        rows,
        len(rows) if head is None else head,
        joining,
        tenant=ledger.log.tenant,
        log_id=ledger.log.log_id,
    )
    return (joining.tree, joining.sealed, joining.compared) if in_order else None


def stored(ledger: Ledger) -> list[bytes]:
    return list(raw_rows(ledger.datastore, ledger.log))


@pytest.fixture
def filled(ledger: Ledger) -> Ledger:
    """Seven events in four appends, with lists of several lengths."""
    about = [event().columns.owner for _ in range(3)]
    ledger.committer.submit(append())
    ledger.committer.submit(append(event(about=tuple(sorted(about))), event()))
    ledger.committer.submit(append(event(namespace_tags=(b"\x01" * 16, b"\x02" * 16))))
    ledger.committer.submit(append(event(about=(about[0],)), event(), event(kind=None)))
    return ledger


def test_both_ways_give_one_root(filled: Ledger) -> None:
    """Root, leaves and compared checkpoints are those of the careful way."""
    rows = stored(filled)
    careful = verify(
        filled.reader.rows_as_stored(),
        len(rows),
        tenant=filled.log.tenant,
        log_id=filled.log.log_id,
    )
    assert careful.ok
    empty = Expected(0, MerkleTree().root(), "here")
    whole = Expected(7, bytes.fromhex(careful.root), "here")
    found = at_once(filled, rows, empty, whole, whole)
    assert found is not None
    assert (found[0].root().hex(), found[0].size, found[1], found[2]) == (careful.root, 7, 7, 3)


@pytest.mark.parametrize("seed", range(3))
def test_rows_of_every_shape(database: Database, seed: int) -> None:
    """Generated events are in order for the fast way, or left to the careful one; never wrong."""
    generated = Rows(seed)
    with opened(database) as ledger:
        for _ in range(40):
            row = generated.event()
            ledger.committer.submit(
                Append((replace(row, columns=replace(row.columns, topic=TOPIC)),))
            )
        rows = stored(ledger)
        found = at_once(ledger, rows)
        careful = verify(
            ledger.reader.rows_as_stored(),
            len(rows),
            tenant=ledger.log.tenant,
            log_id=ledger.log.log_id,
        )
        assert careful.ok
        assert found is None or found[0].root().hex() == careful.root


def test_every_byte_counts(filled: Ledger) -> None:
    """One changed byte anywhere in a row is left to the careful way."""
    rows = stored(filled)
    assert at_once(filled, rows) is not None
    for number in (0, 2, 6):
        row = rows[number]
        time_and_topic = _copied(row)
        for place in range(len(row)):
            if place in time_and_topic:
                continue
            changed = bytearray(row)
            changed[place] ^= 1
            assert at_once(filled, [*rows[:number], bytes(changed), *rows[number + 1 :]]) is None


def test_missing_doubled_and_moved_rows(filled: Ledger) -> None:
    """So is every row that is missing, there twice or in another place, and a wrong root."""
    rows = stored(filled)
    for number in range(len(rows)):
        assert at_once(filled, [*rows[:number], *rows[number + 1 :]], head=7) is None
        assert at_once(filled, [*rows[: number + 1], *rows[number:]]) is None
    assert at_once(filled, [rows[1], rows[0], *rows[2:]]) is None
    assert at_once(filled, rows, Expected(3, bytes(32), "here")) is None
    assert at_once(filled, rows, Expected(3, None, "here", "forged")) is None
    assert at_once(filled, rows, Expected(8, bytes(32), "here")) is None
    assert at_once(filled, rows[:6]) is None


def test_an_empty_log(ledger: Ledger) -> None:
    """Nothing is wrong with nothing."""
    assert stored(ledger) == []
    found = at_once(ledger, [])
    assert found is not None
    assert found[0].size == 0


def test_the_rows_have_every_column(filled: Ledger) -> None:
    """State, leaf hash, time and topic first, then all that the leaf covers."""
    assert int.from_bytes(stored(filled)[0][:BEFORE_BODY], "big") == len(COLUMNS) + 2


def _copied(row: bytes) -> set[int]:
    """Where lengths of fixed columns, and time and topic once more, stand before the columns."""
    state = 6 + int.from_bytes(row[2:6], "big")
    size = int.from_bytes(row[state + 48 : state + 52], "big")
    return {*range(state, state + 4), *range(state + 36, state + 52 + size)}
