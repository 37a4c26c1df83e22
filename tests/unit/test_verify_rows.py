"""Verify finds every change of a stored row, and every row that is missing or too many."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import pytest

from memoriale.domain.leaf import leaf_hash, state_hash
from memoriale.domain.record import LEAF_COLUMNS, Columns, Row
from memoriale.projections.proofs.merkle import root_of
from memoriale.projections.proofs.verify import MAX_PROBLEMS, VerifyReport, verify
from tests.fixtures.events import ALICE, BOB, LOG_ID, TENANT, History

Tamper = Callable[[list[Row]], Any]


def sealed(row: Row) -> Row:
    """The row with the hashes that the ledger stores beside it."""
    if row.state is not None:
        row = place(row, state_hash=state_hash(row.state))
    return place(row, leaf_hash=leaf_hash(row))


def place(row: Row, **changes: Any) -> Row:
    return replace(row, recorded=replace(row.recorded, **changes))


def columns(row: Row, **changes: Any) -> Row:
    return replace(row, columns=replace(row.columns, **changes))


def stored(history: History) -> list[Row]:
    return [sealed(row) for row in history.rows]


@pytest.fixture
def rows() -> list[Row]:
    """Ten events in six appends: 0 | 1 2 3 | 4 | 5 6 | 7 | 8 9."""
    history = History()
    first = history.remembered("first", about=(BOB,), namespace_tags=(b"\x01",))
    with history.together():
        for number in range(3):
            history.remembered(f"second {number}", importance=0.5)
    history.corrected(first, "better")
    with history.together():
        history.invalidated(first)
        history.remembered("third")
    history.forked("try")
    with history.together():
        history.denied()
        history.denied()
    return stored(history)


def checked(rows: list[Row], head: int = 10, batch: int = 4) -> VerifyReport:
    batches = (rows[start : start + batch] for start in range(0, len(rows), batch))
    return verify(batches, head, tenant=TENANT, log_id=LOG_ID)


def codes(report: VerifyReport) -> set[tuple[int, str]]:
    return {(problem.index, problem.code) for problem in report.problems}


def test_untouched_log(rows: list[Row]) -> None:
    """An untouched log has no problem, and the root of its leaves; nothing is sealed yet."""
    report = checked(rows)
    assert report.ok
    assert (report.leaves, report.unsealed, report.problem_count) == (10, 10, 0)
    assert report.first_bad_index is None
    assert report.root == root_of(row.recorded.leaf_hash for row in rows).hex()


def test_empty_log() -> None:
    """An empty log is in order and has the root of the empty tree."""
    report = checked([], head=0)
    assert (report.ok, report.leaves) == (True, 0)
    assert report.root.startswith("e3b0c442")


@pytest.mark.parametrize("batch", [1, 3, 10])
def test_batches_do_not_matter(rows: list[Row], batch: int) -> None:
    """However rows are handed in, also with appends cut in two, the report is the same."""
    assert checked(rows, batch=batch) == checked(rows)


def test_flipped_bit_of_a_state(rows: list[Row]) -> None:
    """One flipped bit of any sealed state is found at its index."""
    for index, row in enumerate(rows):
        assert row.state is not None
        changed = bytearray(row.state)
        changed[len(changed) // 2] ^= 1
        report = checked([*rows[:index], replace(row, state=bytes(changed)), *rows[index + 1 :]])
        assert codes(report) == {(index, "state_changed")}
        assert report.first_bad_index == index


def test_state_with_recomputed_hash(rows: list[Row]) -> None:
    """A changed state is found by the leaf when its own hash was recomputed."""
    state = b"another"
    rows[3] = place(replace(rows[3], state=state), state_hash=state_hash(state))
    assert codes(checked(rows)) == {(3, "leaf_changed")}


def test_missing_state(rows: list[Row]) -> None:
    """A state that is gone without a record of its removal is a problem."""
    rows[3] = replace(rows[3], state=None)
    assert codes(checked(rows)) == {(3, "missing_state")}


OTHER: Final[dict[str, Any]] = {
    "text": "other",
    "uuid": UUID(int=77),
    "bytea": b"\x77",
    "bigint": 77,
    "integer": 77,
    "smallint": 77,
    "uuid[]": (UUID(int=77),),
    "bytea[]": (b"\x77",),
}


@pytest.mark.parametrize("column", LEAF_COLUMNS, ids=lambda column: str(column.name))
def test_every_column_is_checked(rows: list[Row], column: Any) -> None:
    """Another value in any column of any row is found."""
    name = column.name
    old = rows[4].value(name)
    later = rows[4].recorded.recorded_at + timedelta(microseconds=1)
    new = later if column.type == "timestamptz" else OTHER[column.type]
    assert new != old
    if name == "header":
        rows[4] = replace(rows[4], header=str(new))
    else:
        change = columns if name in Columns.__dataclass_fields__ else place
        rows[4] = change(rows[4], **{name: new})
    report = checked(rows)
    assert not report.ok
    assert "leaf_changed" in {problem.code for problem in report.problems}


def delete(*indices: int) -> Tamper:
    def tamper(rows: list[Row]) -> None:
        for index in sorted(indices, reverse=True):
            del rows[index]

    return tamper


def swap(rows: list[Row]) -> None:
    """Two rows trade places: each now bears the other's index, with hashes recomputed."""
    first, second = rows[4], rows[7]
    rows[4] = sealed(place(second, index=4, append_first=4, append_last=4))
    rows[7] = sealed(place(first, index=7, append_first=7, append_last=7))


def reorder(rows: list[Row]) -> None:
    rows[4], rows[7] = rows[7], rows[4]


def insert(rows: list[Row]) -> None:
    rows.insert(5, rows[4])


def add(rows: list[Row]) -> None:
    late = rows[9].recorded.recorded_at + timedelta(seconds=1)
    rows.append(sealed(place(rows[9], index=10, append_first=10, append_last=10, recorded_at=late)))


def set_place(index: int, **changes: Any) -> Tamper:
    """Changes where a row says that it stands, with its leaf recomputed."""

    def tamper(rows: list[Row]) -> None:
        rows[index] = sealed(place(rows[index], **changes))

    return tamper


def shift_time(index: int, seconds: int) -> Tamper:
    def tamper(rows: list[Row]) -> None:
        time = rows[index].recorded.recorded_at + timedelta(seconds=seconds)
        rows[index] = sealed(place(rows[index], recorded_at=time))

    return tamper


def retopic(rows: list[Row]) -> None:
    rows[2] = sealed(columns(rows[2], topic="memory.imagined"))


CHANGES: Final[dict[str, tuple[Tamper, set[tuple[int, str]]]]] = {
    "first row deleted": (delete(0), {(0, "missing")}),
    "middle row deleted": (delete(4), {(4, "missing")}),
    "last row deleted": (delete(9), {(9, "missing")}),
    "append deleted": (delete(1, 2, 3), {(1, "missing"), (2, "missing"), (3, "missing")}),
    "end of one append and start of the next": (
        delete(3, 4, 5),
        {(i, "missing") for i in (3, 4, 5)},
    ),
    "all but one deleted": (
        delete(0, 1, 3, 4, 5, 6, 7, 8, 9),
        {(index, "missing") for index in range(10) if index != 2},
    ),
    "order of reading": (
        reorder,
        {(4, "missing"), (5, "out_of_order"), (6, "out_of_order"), (4, "out_of_order")}
        | {(5, "missing"), (6, "missing")},
    ),
    "row twice": (insert, {(4, "out_of_order")}),
    "row beyond the head": (add, {(10, "beyond_head")}),
    "append too long": (set_place(4, append_last=5), {(5, "bad_append")}),
    "append too short": (set_place(1, append_last=1), {(2, "bad_append"), (2, "bad_time")}),
    "append of another start": (set_place(3, append_first=2), {(3, "bad_append"), (3, "bad_time")}),
    "append backwards": (set_place(4, append_last=3), {(4, "bad_append"), (5, "bad_append")}),
    "last append goes on": (
        lambda rows: [set_place(i, append_last=10)(rows) for i in (8, 9)],
        {(9, "bad_append")},
    ),
    "two times in an append": (shift_time(2, 1), {(2, "bad_time"), (3, "bad_time")}),
    "time of the append before": (shift_time(4, -10_000), {(4, "bad_time")}),
    "later than the next append": (shift_time(4, 10_000), {(5, "bad_time")}),
    "unknown topic": (retopic, {(2, "unknown_topic")}),
    "unknown leaf version": (set_place(2, leaf_version=2), {(2, "unknown_leaf_version")}),
    "other tenant": (set_place(2, tenant="rival"), {(2, "wrong_tenant")}),
    "other log": (set_place(2, log_id=UUID(int=9)), {(2, "wrong_log")}),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changes_with_hashes_recomputed(rows: list[Row], name: str) -> None:
    """What can be told without a checkpoint is told, although every leaf hash fits its row."""
    tamper, expected = CHANGES[name]
    tamper(rows)
    report = checked(rows)
    assert expected <= codes(report)
    assert codes(report) - expected <= {c for c in codes(report) if c[1].startswith("bad_")}
    assert report.first_bad_index == min(index for index, _ in codes(report))
    assert not report.ok


def test_rows_swapped(rows: list[Row]) -> None:
    """Rows that trade places with recomputed hashes are told by their times."""
    swap(rows)
    report = checked(rows)
    assert not report.ok
    assert report.first_bad_index in (4, 5)


def test_root_changes_with_any_leaf(rows: list[Row]) -> None:
    """The root is made of the rows as they are, so a checkpoint kept elsewhere tells the rest."""
    before = checked(rows).root
    rows[2] = sealed(columns(rows[2], owner=BOB if rows[2].columns.owner == ALICE else ALICE))
    report = checked(rows)
    assert report.ok
    assert report.root != before


def test_missing_tail(rows: list[Row]) -> None:
    """Every index between the last row and the head is missing."""
    report = checked(rows, head=13)
    assert codes(report) == {(10, "missing"), (11, "missing"), (12, "missing")}


def test_all_rows_gone() -> None:
    """A log without any row is missing all of them."""
    report = checked([], head=3)
    assert (report.leaves, report.problem_count, report.first_bad_index) == (0, 3, 0)


def test_problems_are_capped() -> None:
    """A hundred problems are kept, all are counted, and the first index is the lowest of all."""
    report = checked([], head=10**15)
    assert len(report.problems) == MAX_PROBLEMS
    assert report.problem_count == 10**15
    assert report.first_bad_index == 0


def test_appends_meanwhile(rows: list[Row]) -> None:
    """Rows that are appended while verify runs are no problem when the head can be asked."""
    heads = iter([6, 10])

    def batches() -> Iterator[list[Row]]:
        yield rows[:5]
        yield rows[5:]

    report = verify(batches(), lambda: next(heads), tenant=TENANT, log_id=LOG_ID)
    assert (report.ok, report.leaves) == (True, 10)


def test_progress(rows: list[Row]) -> None:
    """Progress counts the rows up to the head."""
    told = list[tuple[int, int]]()
    batches = [rows[:4], rows[4:]]
    verify(batches, 10, tenant=TENANT, log_id=LOG_ID, progress=lambda *done: told.append(done))
    assert told == [(4, 10), (10, 10)]


def test_problems_tell_no_content(rows: list[Row]) -> None:
    """No text of a body or header stands in a problem."""
    rows[3] = replace(rows[3], state=b"tell nobody", header='{"tell": "nobody"}')
    assert "nobody" not in str(checked(rows).problems)
