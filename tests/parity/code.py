"""Looks into ``memoriale``: which members a name has, with their defaults and values."""

import dataclasses
import enum
import inspect
import re
from collections.abc import Iterator
from typing import Any, Final, get_args, is_typeddict

import pydantic

import memoriale

NOTHING: Final = object()
"""A member that has no default."""


def pep8(name: str) -> str:
    """``getFacts`` is ``get_facts``; names of classes and of one word stay."""
    if "_" in name.lstrip("_") or name[:1].isupper():
        return name
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower().lstrip("_")


def find(name: str) -> Any:
    """
    What a dotted name means; a field or attribute is its annotation.

    Raises:
        LookupError: There is no such thing.
    """
    first, *rest = name.split(".")
    if not hasattr(memoriale, first):
        raise LookupError(f"memoriale.{first} does not exist")
    found = getattr(memoriale, first)
    for part in rest:
        if part in _annotations(found):
            found = _annotations(found)[part]
        elif hasattr(found, part):
            found = getattr(found, part)
        else:
            raise LookupError(f"{name} does not exist")
    return found


def members(found: Any) -> dict[str, Any]:
    """Fields, or parameters of a call, of the constructor for a class; with their defaults."""
    if is_typeddict(found):
        return dict.fromkeys(found.__annotations__, NOTHING)
    if _is_model(found):
        return {
            name: NOTHING if field.is_required() else field.get_default(call_default_factory=True)
            for name, field in found.model_fields.items()
        }
    if isinstance(found, property):
        return {}
    try:
        parameters = inspect.signature(found).parameters
    except (TypeError, ValueError):
        return {}
    return {
        name: NOTHING if parameter.default is inspect.Parameter.empty else parameter.default
        for name, parameter in parameters.items()
        if name != "self" and parameter.kind is not inspect.Parameter.VAR_KEYWORD
    }


def methods(found: Any) -> Iterator[str]:
    """The public methods and properties of a class that are no part of pydantic."""
    for name in dir(found):
        if not name.startswith("_") and not hasattr(pydantic.BaseModel, name):
            member = inspect.getattr_static(found, name)
            if inspect.isfunction(member) or isinstance(member, property):
                yield name


def values(annotation: Any) -> set[object]:
    """The texts that an annotation is a choice of."""
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return {member.value for member in annotation}
    found: set[object] = set()
    for part in get_args(annotation):
        found |= {part} if isinstance(part, str) else values(part)
    return found


def default_of(name: str) -> Any:
    """The default of ``Class.field`` or of a parameter; ``NOTHING`` when it has none."""
    owner, _, last = name.rpartition(".")
    return members(find(owner)).get(last, NOTHING) if owner else NOTHING


def _annotations(found: Any) -> dict[str, Any]:
    if _is_model(found):
        return {name: field.annotation for name, field in found.model_fields.items()}
    if dataclasses.is_dataclass(found):
        return {field.name: field.type for field in dataclasses.fields(found)}
    if inspect.isclass(found):
        own = [inspect.get_annotations(cls) for cls in found.__mro__]
        return {name: type_ for annotations in own for name, type_ in annotations.items()}
    return {}


def _is_model(found: Any) -> bool:
    return inspect.isclass(found) and issubclass(found, pydantic.BaseModel)
