"""Numbers, nested metadata and canonical JSON."""

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

from memoriale.domain.errors import InputError
from memoriale.domain.text import MAX_VALUE_BYTES, check_characters, shown

MAX_DEPTH: Final = 32
MAX_PATIENCE: Final = 31_622_400.0
MAX_SAFE_INTEGER: Final = 2**53 - 1

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]


def check_unit(field: str, value: object) -> float:
    """
    A number in 0..1.

    Raises:
        InputError: Not a number, NaN, or outside 0..1.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InputError(
            f"{field} is {shown(value)}; give a number from 0 to 1.",
            code="out_of_range",
            field=field,
            value=shown(value),
            allowed="0..1",
        )
    return float(value)


def check_whole(field: str, value: object, least: int, most: int) -> int:
    """
    A whole number within bounds, both included.

    Raises:
        InputError: Not an integer, or outside.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InputError(
            f"{field} is {shown(value)}; give a whole number from {least} to {most}.",
            code="out_of_range",
            field=field,
            value=shown(value),
            allowed=[least, most],
        )
    return value


def check_seconds(field: str, value: object, most: float = 3_600.0) -> float:
    """
    A time span in seconds, from 0.

    Raises:
        InputError: Not a number, NaN, negative or above ``most``.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise InputError(
            f"{field} is {shown(value)}; give seconds from 0 to {most:g}.",
            code="out_of_range",
            field=field,
            value=shown(value),
            allowed=f"0..{most:g}",
        )
    return float(value)


def check_patience(field: str, value: object) -> float | None:
    """How long to wait for something in seconds; None for as long as it takes."""
    return None if value is None else check_seconds(field, value, MAX_PATIENCE)


def thousandths(value: float) -> int:
    """A number in 0..1 as the whole thousandths that a header holds."""
    return round(value * 1000)


def check_metadata(
    field: str, value: object, *, max_bytes: int = MAX_VALUE_BYTES
) -> dict[str, JsonValue]:
    """
    A JSON object as given, copied: string keys; no NaN, infinity, NUL or lone surrogate at any
    depth; integers that every JSON reader keeps; at most 32 levels.

    Raises:
        InputError: The path inside the object is in ``field``, such as ``metadata.a[2]``.
    """
    if not isinstance(value, Mapping):
        raise _bad_value(field, value, "a JSON object")
    checked = _checked(field, value, 0)
    assert isinstance(checked, dict)
    size = len(json.dumps(checked, ensure_ascii=False).encode())
    if size > max_bytes:
        raise InputError(
            f"{field} has {size} bytes as JSON; at most {max_bytes} are allowed.",
            code="too_long",
            field=field,
            value=f"{size} bytes",
            allowed=f"at most {max_bytes} bytes",
        )
    return checked


def check_json(field: str, value: object) -> JsonValue:
    """
    A JSON value as given, copied, under the same rules as ``check_metadata``.

    Raises:
        InputError: The path inside the value is in ``field``, such as ``value.a[2]``.
    """
    return _checked(field, value, 0)


def canonical_json(value: JsonValue) -> bytes:
    """
    Canonical JSON (RFC 8785) of a value without floats: sorted keys, no spaces, UTF-8.

    Numbers are restricted to integers whose form is the same everywhere; a float becomes the
    string of its shortest repr under the key ``$float``, so equal numbers give equal bytes. A
    key that begins with ``$`` gets one more, so that no object looks like a number.
    """
    text = json.dumps(_without_floats(value), ensure_ascii=False, separators=(",", ":"))
    return text.encode()


def parse_json_strictly(text: str | bytes) -> Any:
    """
    JSON in UTF-8 without the extensions that Python's reader allows: the words NaN and Infinity
    are refused, and so is a key that stands twice in one object. A number too large for a float,
    such as 1e999, becomes infinity; ``check_metadata`` refuses that.

    Raises:
        ValueError: With the reason.
    """
    text = text if isinstance(text, str) else text.decode()
    try:
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unique_pairs)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return result


def _without_floats(value: JsonValue) -> JsonValue:
    if isinstance(value, float):
        # Adding zero turns -0.0 into 0.0, which equals it.
        return {"$float": repr(value + 0.0)}
    if isinstance(value, list | tuple):
        return [_without_floats(item) for item in value]
    if isinstance(value, dict):
        return {_escaped(key): _without_floats(value[key]) for key in _in_order(value)}
    return value


def _escaped(key: str) -> str:
    return f"${key}" if key.startswith("$") else key


def _in_order(keys: Iterable[str]) -> list[str]:
    # RFC 8785 sorts by UTF-16 code units; for ASCII that is Python's own order.
    if all(map(str.isascii, keys)):
        return sorted(keys)
    return sorted(keys, key=lambda key: key.encode("utf-16-be"))


def _checked(path: str, value: object, depth: int) -> JsonValue:
    if depth > MAX_DEPTH:
        raise _bad_value(path, "…", f"at most {MAX_DEPTH} levels")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return check_characters(path, value)
    if isinstance(value, int):
        return _checked_integer(path, value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _bad_value(path, value, "finite numbers")
        return value
    if isinstance(value, Mapping):
        return {
            _checked_key(path, key): _checked(f"{path}.{shown(key)}", item, depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_checked(f"{path}[{i}]", item, depth + 1) for i, item in enumerate(value)]
    raise _bad_value(path, value, "JSON values: text, numbers, true, false, null, lists, objects")


def _checked_integer(path: str, value: int) -> int:
    if abs(value) > MAX_SAFE_INTEGER:
        raise _bad_value(path, value, f"integers from -{MAX_SAFE_INTEGER} to {MAX_SAFE_INTEGER}")
    return int(value)


def _checked_key(path: str, key: object) -> str:
    if not isinstance(key, str):
        raise _bad_value(path, key, "text as keys")
    return check_characters(f"{path}.{shown(key)}", key)


def _bad_value(path: str, value: object, allowed: str) -> InputError:
    return InputError(
        f"{path} cannot be stored; allowed are {allowed}.",
        code="bad_value",
        field=path,
        value=shown(value) if isinstance(value, int | float) else type(value).__name__,
        allowed=allowed,
    )
