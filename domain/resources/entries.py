"""Entries of working memory: which keys and values there may be, and how they are paged."""

import json
from collections.abc import Iterable, Mapping
from typing import Final

from memoriale.domain.errors import InputError
from memoriale.domain.resources.providers import WorkingPage
from memoriale.domain.text import MAX_VALUE_BYTES, check_characters, shown
from memoriale.domain.values import JsonValue, check_json, check_whole

BOOKKEEPING: Final = "__memoriale_"
"""How keys begin that the library keeps for itself; they are read by name and never listed."""
MAX_KEY_CHARACTERS: Final = 256
PAGE: Final = 100
MAX_PAGE: Final = 1_000


def check_key(key: object) -> str:
    """
    A key of working memory.

    Raises:
        InputError: No text, empty, over 256 characters, or characters that cannot be stored.
    """
    if isinstance(key, str) and 1 <= len(key) <= MAX_KEY_CHARACTERS:
        return check_characters("key", key)
    raise InputError(
        f"a key of working memory is a text of 1 to {MAX_KEY_CHARACTERS} characters.",
        code="bad_key",
        field="key",
        value=f"{len(key)} characters" if isinstance(key, str) else type(key).__name__,
        allowed=f"1 to {MAX_KEY_CHARACTERS} characters",
    )


def check_value(value: object, *, max_bytes: int = MAX_VALUE_BYTES) -> JsonValue:
    """
    A value of working memory, copied.

    Args:
        value: What is to be kept.
        max_bytes: Most bytes of its canonical text.

    Raises:
        InputError: Not JSON (NaN, a set, keys that are no text), or too long.
    """
    return check_json("value", value, max_bytes=max_bytes)


def value_text(value: JsonValue) -> str:
    """A value as canonical JSON: sorted keys, no spaces. Equal texts are equal values."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def is_bookkeeping(key: str) -> bool:
    """Whether a key is the library's own, and so in no list, no prompt and no fork."""
    return key.startswith(BOOKKEEPING)


def check_page(limit: object, after: object = None) -> int:
    """
    How many entries a page may have.

    Raises:
        InputError: Not a whole number from 1 to 1,000, or ``after`` is no text.
    """
    if after is not None and not isinstance(after, str):
        raise InputError(
            f"after is {shown(after)}; give the key that the page before ended with.",
            code="bad_value",
            field="after",
            value=shown(after),
            allowed="a text",
        )
    return check_whole("limit", limit, 1, MAX_PAGE)


def page_of(
    entries: Mapping[str, JsonValue], *, after: str | None = None, limit: int = PAGE
) -> WorkingPage:
    """
    A page of entries in ascending order of the keys' UTF-8 bytes, without bookkeeping keys.

    Args:
        entries: All there are.
        after: Only keys after this one.
        limit: How many at most, 1..1,000.
    """
    check_page(limit, after)
    keys = keys_after(entries, after)
    more = len(keys) > limit
    chosen = {key: entries[key] for key in keys[:limit]}
    return WorkingPage(chosen, keys[limit - 1] if more else None)


def keys_after(keys: Iterable[str], after: str | None) -> list[str]:
    """The keys that a list shows after one, in order."""
    # Code points sort as UTF-8 bytes do.
    return sorted(k for k in keys if not is_bookkeeping(k) and (after is None or k > after))
