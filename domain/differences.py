"""In what two JSON values differ."""

from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import JsonValue


@dataclass(frozen=True, slots=True)
class ValueDifference:
    """
    One difference.

    Args:
        path: Where, such as ``add`` or ``custom.diet``; empty for the whole.
        before: What is there in the first value alone; None when nothing is.
        after: What is there in the second value alone; None when nothing is.
    """

    path: str
    before: JsonValue
    after: JsonValue


def differences(before: JsonValue, after: JsonValue, path: str = "") -> Iterator[ValueDifference]:
    """
    The differences of two values. The order of a list does not count: an item differs that the
    other list does not have, or has less often.

    Args:
        before, after: The values.
        path: Where they stand.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted({*before, *after}):
            inner = f"{path}.{name}" if path else name
            yield from differences(before.get(name), after.get(name), inner)
    elif isinstance(before, list) and isinstance(after, list):
        yield from (ValueDifference(path, item, None) for item in _without(before, after))
        yield from (ValueDifference(path, None, item) for item in _without(after, before))
    elif not _same(before, after):
        yield ValueDifference(path, before, after)


def _same(one: JsonValue, other: JsonValue) -> bool:
    # True is no 1.
    kinds = isinstance(one, bool) == isinstance(other, bool)
    if isinstance(one, (dict, list)) and isinstance(other, type(one)):
        return not any(differences(one, other))
    return kinds and one == other


def _without(items: list[JsonValue], others: list[JsonValue]) -> list[JsonValue]:
    left, found = list(others), []
    for item in items:
        place = next((n for n, other in enumerate(left) if _same(item, other)), None)
        if place is None:
            found.append(item)
        else:
            del left[place]
    return found
