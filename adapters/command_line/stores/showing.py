"""How models of the stores are printed: as JSON, or as fields and tables for people."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from memoriale.adapters.command_line.invocation import Invocation

if TYPE_CHECKING:
    from pydantic import BaseModel


def as_json(model: "BaseModel") -> dict[str, Any]:
    """A model as JSON values."""
    return model.model_dump(mode="json")


def show_one(run: Invocation, model: "BaseModel | None", missing: str) -> None:
    """
    Prints one model.

    Args:
        run: The command.
        model: What was found; None prints ``missing`` for people and an empty object as JSON.
        missing: Said when there is none.
    """
    if model is None:
        run.output.result({}, lambda page: page.line(missing))
        return
    value = as_json(model)
    run.output.result(value, lambda page: page.fields(value))


def show_list(
    run: Invocation, name: str, models: "Iterable[BaseModel]", columns: Sequence[str]
) -> None:
    """
    Prints models as one JSON object with a list, or as a table.

    Args:
        run: The command.
        name: Of the list.
        models: The models.
        columns: Fields that people see.
    """
    values = [as_json(model) for model in models]
    rows = [[_cell(value.get(column)) for column in columns] for value in values]
    heads = [column.replace("_", " ") for column in columns]
    run.output.result(
        {name: values},
        lambda page: page.table(heads, rows) if rows else page.line(f"No {name}."),
    )


def _cell(value: Any) -> Any:
    return ", ".join(map(str, value)) if isinstance(value, list) else value
