"""In which rows a stats view differs from one that was posted afresh."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from memoriale.projections.kind import Discrepancy
from memoriale.projections.stats.schema import EVENTS, POSITION, TABLES, Table
from memoriale.projections.stats.view import StatsView

_STEP: Final = 5_000
"""Keys that are compared at a time."""

Rows = dict[int, list[tuple[str | None, ...]]]


def discrepancies(live: StatsView, expected: StatsView) -> Iterator[Discrepancy]:
    """
    The rows in which a view differs, table by table in key order, all columns compared.

    Args:
        live: The view in question.
        expected: One that was posted afresh from the same log.
    """
    for table in TABLES:
        if table is not POSITION:
            yield from _in_table(live, expected, table)
    if live.position() != expected.position():
        yield Discrepancy("stale", "the position", "position")


def holds_rows_beyond(view: StatsView) -> bool:
    """Whether there are rows of events that the view has not applied by its position."""
    found = view.query(f'SELECT max("{EVENTS.key}") FROM "{EVENTS.name}"')
    last = found[0][0]
    return last is not None and last >= view.position()


def _in_table(live: StatsView, expected: StatsView, table: Table) -> Iterator[Discrepancy]:
    mine, wanted = _checksums(live, table), _checksums(expected, table)
    for part in sorted(mine.keys() | wanted.keys()):
        if mine.get(part) != wanted.get(part):
            yield from _in_part(table, _rows(live, table, part), _rows(expected, table, part))


def _checksums(view: StatsView, table: Table) -> dict[int, tuple[int, int]]:
    """Number of rows and a checksum for each stretch of keys that has any."""
    columns = ", ".join(_as_text(column.name, column.type) for column in table.columns)
    found = view.query(
        f'SELECT "{table.key}" // {_STEP} AS part, count(*),'
        f" sum(hash(to_json([{columns}])::VARCHAR)::HUGEINT)::VARCHAR"
        f' FROM "{table.name}" GROUP BY part'
    )
    return {part: (count, total) for part, count, total in found}


def _rows(view: StatsView, table: Table, part: int) -> Rows:
    columns = ", ".join(_as_text(column.name, column.type) for column in table.columns)
    found = view.query(
        f'SELECT "{table.key}", {columns} FROM "{table.name}" WHERE "{table.key}" // {_STEP} = ?',
        [part],
    )
    rows: Rows = defaultdict(list)
    for key, *values in found:
        rows[key].append(tuple(values))
    return rows


def _in_part(table: Table, mine: Rows, wanted: Rows) -> Iterator[Discrepancy]:
    for key in sorted(mine.keys() | wanted.keys()):
        row = f"{table.name} {key}"
        if key not in wanted:
            yield from (Discrepancy("orphaned", row) for _ in mine[key])
        elif key not in mine:
            yield Discrepancy("missing", row)
        elif len(mine[key]) > 1:
            yield Discrepancy("duplicated", row)
        elif mine[key] != wanted[key]:
            pairs = zip(table.columns, mine[key][0], wanted[key][0], strict=True)
            names = [column.name for column, value, other in pairs if value != other]
            yield Discrepancy("stale", row, ", ".join(names))


def _as_text(name: str, type_: str) -> str:
    return f'epoch_us("{name}")::VARCHAR' if "TIMESTAMPTZ" in type_ else f'"{name}"::VARCHAR'
