"""A part of the table that a shelf holds: chosen by LanceDB, or from rows that are in memory."""

from dataclasses import dataclass
from typing import Any

from memoriale.projections.recall.filters import all_of, one_of, text_literal


@dataclass(frozen=True, slots=True)
class Partition:
    """
    The rows that have, in each of some columns, one of some values; a null is none of them.

    Args:
        among: Columns with their values; no column: every row.
    """

    among: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @classmethod
    def of(cls, **values: str) -> "Partition":
        """The rows that have one value in each of some columns."""
        return cls(tuple((column, (value,)) for column, value in values.items()))

    @property
    def where(self) -> str:
        """The condition that selects its rows."""
        conditions = (one_of(c, [*map(text_literal, values)]) for c, values in self.among)
        return all_of(conditions) or "TRUE"

    def rows(self, table: Any) -> Any:
        """Its rows of an Arrow table."""
        import pyarrow as pa
        import pyarrow.compute as pc

        for column, values in self.among:
            table = table.filter(pc.is_in(table[column], pa.array(values, pa.utf8())))
        return table
