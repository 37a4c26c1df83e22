"""Pages of working memory, the same for every provider."""

from collections.abc import Iterable, Mapping

from memoriale.domain.resources.limits import PAGE, check_after, check_page, is_bookkeeping
from memoriale.domain.resources.providers import WorkingPage
from memoriale.domain.values import JsonValue, canonical_json


def value_text(value: JsonValue) -> str:
    """A value as canonical JSON; equal texts are equal values."""
    return canonical_json(value).decode()


def page_of(
    entries: Mapping[str, JsonValue], *, after: str | None = None, limit: int = PAGE
) -> WorkingPage:
    """
    A page of entries in ascending order of the keys' UTF-8 bytes, without bookkeeping keys.

    Args:
        entries: All there are.
        after: Only keys after this one, which need not be there.
        limit: How many at most, 1..1,000.
    """
    check_page(limit)
    keys = keys_after(entries, check_after(after))
    chosen = {key: entries[key] for key in keys[:limit]}
    return WorkingPage(chosen, keys[limit - 1] if len(keys) > limit else None)


def keys_after(keys: Iterable[str], after: str | None) -> list[str]:
    """The keys that a list shows after one, in order."""
    # Code points sort as UTF-8 bytes do.
    return sorted(k for k in keys if not is_bookkeeping(k) and (after is None or k > after))
