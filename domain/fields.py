"""Checking the fields of a command one by one; each error names its field."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from memoriale.domain.errors import InputError
from memoriale.domain.namespaces import normalise_path
from memoriale.domain.text import (
    MAX_CONTENT_BYTES,
    MAX_VALUE_BYTES,
    check_code,
    check_outside_id,
    check_text,
    shown,
)
from memoriale.domain.times import parse_time
from memoriale.domain.values import check_metadata, check_unit

MAX_TAGS: Final = 64

Given = Mapping[str, Any]
"""Arguments as given, by name."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes that a deployment allows, in bytes of UTF-8."""

    max_content_bytes: int = MAX_CONTENT_BYTES
    max_value_bytes: int = MAX_VALUE_BYTES


def parse_id(name: str, value: object) -> UUID:
    """
    A memory's or event's id.

    Raises:
        InputError: Not a UUID.
    """
    if isinstance(value, UUID):
        return value
    try:
        return UUID(value)  # type: ignore[arg-type]
    except (ValueError, AttributeError, TypeError):
        raise InputError(
            f"{name} is {shown(value)!r}, which is not an id; ids look like "
            "0b0c7c1e-3d55-4f0b-9f6e-6f0f2a3f8c11.",
            code="bad_id",
            field=name,
            value=shown(value),
            allowed="a UUID",
        ) from None


def optional_text(limits: Limits, name: str, given: Mapping[str, Any]) -> str | None:
    """A text that may be missing, within the limit of values."""
    value = given.get(name)
    return None if value is None else check_text(name, value, max_bytes=limits.max_value_bytes)


def optional_id(name: str, given: Mapping[str, Any]) -> str | None:
    """An outside id that may be missing."""
    value = given.get(name)
    return None if value is None else check_outside_id(name, value)


def optional_code(name: str, given: Mapping[str, Any]) -> str | None:
    """A clear name that may be missing."""
    value = given.get(name)
    return None if value is None else check_code(name, value)


def optional_time(name: str, given: Mapping[str, Any]) -> datetime | None:
    """An aware time that may be missing."""
    value = given.get(name)
    return None if value is None else parse_time(name, value)


def optional_unit(name: str, given: Mapping[str, Any]) -> float | None:
    """A number in 0..1 that may be missing."""
    value = given.get(name)
    return None if value is None else check_unit(name, value)


def items(name: str, given: Mapping[str, Any]) -> tuple[Any, ...]:
    """A list as given; one text stands for a list of it, and None for an empty one."""
    value = given.get(name)
    if value is None:
        return ()
    if isinstance(value, str | UUID) and name != "tags":
        return (value,)
    if isinstance(value, list | tuple):
        return tuple(value)
    raise InputError(
        f"{name} must be a list.",
        code="bad_value",
        field=name,
        value=type(value).__name__,
        allowed="a list",
    )


def several(name: str, value: object) -> tuple[Any, ...]:
    """
    What a caller names several of; a single text is not taken for its letters.

    Raises:
        InputError: ``bad_value``.
    """
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping):
        return tuple(value)
    raise InputError(
        f"{name} must be a list, not {type(value).__name__}; put a single one into a list.",
        code="bad_value",
        field=name,
        value=shown(value),
        allowed="a list",
    )


def tag_list(limits: Limits, given: Mapping[str, Any]) -> tuple[str, ...]:
    """Tags as given, each once, at most 64."""
    texts = items("tags", given)
    tags = dict.fromkeys(check_text("tags", t, max_bytes=limits.max_value_bytes) for t in texts)
    at_most("tags", tuple(tags), MAX_TAGS)
    return tuple(tags)


def optional_namespace(limits: Limits, value: object) -> str | None:
    """A normalised path that may be missing."""
    if value is None:
        return None
    return normalise_path(check_text("namespace", value, max_bytes=2_048))


def optional_metadata(limits: Limits, value: object) -> dict[str, Any]:
    """A JSON object; an empty one when missing."""
    if value is None:
        return {}
    return check_metadata("metadata", value, max_bytes=limits.max_value_bytes)


def choice(name: str, value: object, allowed: Iterable[str]) -> str | None:
    """One of the allowed words, or None when missing."""
    if value is None:
        return None
    names = list(allowed)
    if value not in names:
        raise InputError(
            f"{name} is {shown(value)!r}; allowed are {', '.join(names)}.",
            code="bad_value",
            field=name,
            value=shown(value),
            allowed=names,
        )
    return str(value)


def at_most(name: str, values: tuple[Any, ...], limit: int) -> None:
    """Refuses a list that is too long."""
    if len(values) > limit:
        raise InputError(
            f"{name} has {len(values)} entries; at most {limit} are allowed.",
            code="too_long",
            field=name,
            value=len(values),
            allowed=limit,
        )
