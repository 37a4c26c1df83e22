"""Options that several commands share, as frozen dataclasses in their signatures."""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, TypeGuard


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """
    A command for typer in which every parameter that is a dataclass is replaced by one option
    for each of its fields; the command itself still receives the dataclass.

    Args:
        command: Its annotations are evaluated, its fields annotated as typer wants them.
    """
    own = inspect.signature(command, eval_str=True).parameters.values()
    groups = {p.name: p.annotation for p in own if _is_group(p.annotation)}
    shared = [_parameter(f) for group in groups.values() for f in fields(group)]
    listed = [p.replace(kind=p.KEYWORD_ONLY) for p in own if p.name not in groups]

    def called(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{f.name: given.pop(f.name) for f in fields(group)})
        command(**given)

    called.__name__, called.__doc__ = command.__name__, command.__doc__
    called.__signature__ = inspect.Signature([*listed, *shared])  # type: ignore[attr-defined]
    called.__annotations__ = {}
    return called


def _parameter(field: "Field[Any]") -> inspect.Parameter:
    default = inspect.Parameter.empty if field.default is MISSING else field.default
    return inspect.Parameter(
        field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=field.type
    )


def _is_group(annotation: Any) -> TypeGuard[type[Any]]:
    return isinstance(annotation, type) and is_dataclass(annotation)
