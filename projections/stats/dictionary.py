"""The data dictionary: every table and view of a snapshot, as analysts are told about them."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

from memoriale.projections.stats.schema import TABLES, Column
from memoriale.projections.stats.star import SNAPSHOT, VIEWS


@dataclass(frozen=True, slots=True)
class DescribedColumn:
    """
    A column of a snapshot.

    Args:
        name: Its name.
        type: Its type in DuckDB.
        unit: What it is measured in; empty where there is nothing to measure.
        meaning: What it says.
        nullable: Whether it may be null, as far as the table's definition tells.
    """

    name: str
    type: str
    unit: str
    meaning: str
    nullable: bool


@dataclass(frozen=True, slots=True)
class Relation:
    """
    A table or a view of a snapshot.

    Args:
        name: Its name, stable between releases.
        kind: ``table`` or ``view``.
        meaning: What its rows are.
        columns: In order.
    """

    name: str
    kind: str
    meaning: str
    columns: tuple[DescribedColumn, ...]

    def as_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "name": self.name,
            "kind": self.kind,
            "meaning": self.meaning,
            "columns": [asdict(column) for column in self.columns],
        }


def _described(columns: tuple[Column, ...]) -> tuple[DescribedColumn, ...]:
    return tuple(
        DescribedColumn(
            name=column.name,
            type=column.type.removesuffix(" NOT NULL"),
            unit=column.unit,
            meaning=column.meaning,
            nullable=not column.type.endswith(" NOT NULL"),
        )
        for column in columns
    )


RELATIONS: Final[dict[str, Relation]] = {
    **{t.name: Relation(t.name, "table", t.meaning, _described(t.columns)) for t in TABLES},
    SNAPSHOT.name: Relation(SNAPSHOT.name, "table", SNAPSHOT.meaning, _described(SNAPSHOT.columns)),
    **{v.name: Relation(v.name, "view", v.meaning, _described(v.columns)) for v in VIEWS},
}
"""Every table and view by name, tables first."""


def markdown() -> str:
    """The dictionary as it stands in ``docs/mart.md``."""
    return "\n".join(line for relation in RELATIONS.values() for line in _section(relation))


def _section(relation: Relation) -> Iterator[str]:
    yield f"### {relation.name}"
    yield ""
    yield f"{relation.kind.capitalize()}. {relation.meaning}"
    yield ""
    yield "| column | type | unit | meaning |"
    yield "|---|---|---|---|"
    for column in relation.columns:
        yield f"| {column.name} | {column.type} | {column.unit} | {column.meaning} |"
    yield ""
