"""What keys, values and requests of a resource's memory may be; the same for every provider."""

from collections.abc import Sequence
from typing import Final

from memoriale.domain.errors import InputError
from memoriale.domain.resources.facts import MemoryFact
from memoriale.domain.resources.ref import ResourceRef
from memoriale.domain.text import MAX_VALUE_BYTES, check_characters, check_text, shown
from memoriale.domain.values import JsonValue, canonical_json, check_json, check_whole

MAX_KEY_CHARACTERS: Final = 256
MAX_PAGE: Final = 1_000
PAGE: Final = 100
MAX_TOP_K: Final = 100
TOP_K: Final = 5
BOOKKEEPING: Final = "__"
"""Keys that begin so are read by their name alone: no list, prompt or fork has them."""


def check_key(key: object) -> str:
    """
    A key of working memory: 1 to 256 characters, not blank.

    Raises:
        InputError: ``empty``, ``too_long``, ``not_text`` or ``bad_character``.
    """
    text = check_text("key", key)
    if len(text) > MAX_KEY_CHARACTERS:
        raise InputError(
            f"key has {len(text)} characters; at most {MAX_KEY_CHARACTERS} are allowed.",
            code="too_long",
            field="key",
            value=f"{len(text)} characters",
            allowed=f"at most {MAX_KEY_CHARACTERS} characters",
        )
    return text


def is_bookkeeping(key: str) -> bool:
    """Whether a key is for programs alone: it is in no list, prompt or fork."""
    return key.startswith(BOOKKEEPING)


def check_value(value: object, *, max_bytes: int = MAX_VALUE_BYTES) -> JsonValue:
    """
    A value of working memory, copied: JSON of at most 65,536 bytes in its canonical form.

    Args:
        value: The value.
        max_bytes: Another limit.

    Raises:
        InputError: ``bad_value`` or ``bad_character`` with the path inside it, or ``too_long``.
    """
    checked = check_json("value", value)
    size = len(canonical_json(checked))
    if size > max_bytes:
        raise InputError(
            f"value has {size} bytes as canonical JSON; at most {max_bytes} are allowed.",
            code="too_long",
            field="value",
            value=f"{size} bytes",
            allowed=f"at most {max_bytes} bytes",
        )
    return checked


def check_ref(ref: object, field: str = "ref") -> ResourceRef:
    """
    A resource.

    Raises:
        InputError: It is something else.
    """
    if not isinstance(ref, ResourceRef):
        raise _not(field, ref, "a ResourceRef")
    return ref


def check_after(after: object) -> str | None:
    """The key after which a page begins, or None; it need not be there."""
    return None if after is None else check_characters("after", after)


def check_page(limit: object) -> int:
    """How many keys or facts a page has: 1..1,000."""
    return check_whole("limit", limit, 1, MAX_PAGE)


def check_top_k(top_k: object) -> int:
    """How many facts a recall gives: 1..100."""
    return check_whole("top_k", top_k, 1, MAX_TOP_K)


def check_facts(facts: object) -> list[MemoryFact]:
    """
    Facts to be remembered.

    Raises:
        InputError: No list, or one of them is no ``MemoryFact``; nothing was stored.
    """
    if isinstance(facts, str | bytes) or not isinstance(facts, Sequence):
        raise _not("facts", facts, "a list of MemoryFact")
    return [check_fact(fact, f"facts[{i}]") for i, fact in enumerate(facts)]


def check_fact(fact: object, field: str = "fact") -> MemoryFact:
    """
    A fact to be remembered.

    Raises:
        InputError: It is something else.
    """
    if not isinstance(fact, MemoryFact):
        raise _not(field, fact, "a MemoryFact")
    return fact


def check_ids(ids: object) -> list[str]:
    """
    Ids of facts, each once, in the order given.

    Raises:
        InputError: No list, or one of them is no text.
    """
    if isinstance(ids, str | bytes) or not isinstance(ids, Sequence):
        raise _not("ids", ids, "a list of ids")
    return list(dict.fromkeys(check_text(f"ids[{i}]", id_) for i, id_ in enumerate(ids)))


def _not(field: str, value: object, allowed: str) -> InputError:
    return InputError(
        f"{field} is {shown(type(value).__name__)}; give {allowed}.",
        code="bad_value",
        field=field,
        value=type(value).__name__,
        allowed=allowed,
    )
