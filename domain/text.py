"""What text may be stored, and the canonical form that tags are made from."""

import re
import unicodedata
from typing import Final

from memoriale.domain.errors import InputError

CODE_PATTERN: Final = re.compile(r"[A-Za-z0-9_.:/-]{1,64}")
MAX_QUERY_CHARACTERS: Final = 16_384
MAX_OUTSIDE_ID_BYTES: Final = 256
MAX_CONTENT_BYTES: Final = 1_048_576
MAX_VALUE_BYTES: Final = 65_536
_SHOWN: Final = 80


def shown(value: object) -> str:
    """A value as an error may show it: printable and short."""
    try:
        text = value if isinstance(value, str) else repr(value)
    except ValueError:
        # Python refuses to write integers of more than 4,300 digits.
        text = f"a {type(value).__name__} that is too long to show"
    safe = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text[: _SHOWN + 1])
    return safe if len(safe) <= _SHOWN else safe[: _SHOWN - 1] + "…"


def check_text(field: str, value: object, *, max_bytes: int = MAX_VALUE_BYTES) -> str:
    """
    Text as given, if it can be stored byte for byte: no NUL, no lone surrogate, not blank.

    Args:
        field: Name for the error.
        value: The text.
        max_bytes: Limit of its UTF-8 form.

    Raises:
        InputError: ``not_text``, ``bad_character``, ``empty`` or ``too_long``.
    """
    text = check_characters(field, value)
    if not text.strip():
        raise InputError(
            f"{field} is empty; give some text.",
            code="empty",
            field=field,
            value=shown(text),
            allowed="text that is not blank",
        )
    size = len(text.encode())
    if size > max_bytes:
        raise InputError(
            f"{field} has {size} bytes; at most {max_bytes} are allowed.",
            code="too_long",
            field=field,
            value=f"{size} bytes",
            allowed=f"at most {max_bytes} bytes of UTF-8",
        )
    return text


def check_characters(field: str, value: object) -> str:
    """Text without NUL and lone surrogates, which neither UTF-8 nor PostgreSQL can hold."""
    if not isinstance(value, str):
        raise InputError(
            f"{field} must be text, not {type(value).__name__}.",
            code="not_text",
            field=field,
            value=type(value).__name__,
            allowed="text",
        )
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise _bad_character(field, value, error.start, "a lone surrogate") from None
    if "\x00" in value:
        raise _bad_character(field, value, value.index("\x00"), "a NUL byte")
    return value


def check_code(field: str, value: object) -> str:
    """
    A name that is stored in clear, such as a tenant, kind or retention class.

    Raises:
        InputError: It does not match ``[A-Za-z0-9_.:/-]{1,64}``.
    """
    if isinstance(value, str) and CODE_PATTERN.fullmatch(value):
        return value
    raise InputError(
        f"{field} is {shown(value)!r}; 1 to 64 of the characters A-Z a-z 0-9 _ . : / - are "
        "allowed. It is stored in clear, so do not put personal data there.",
        code="bad_name",
        field=field,
        value=shown(value),
        allowed=CODE_PATTERN.pattern,
    )


def check_tenant(value: object) -> str:
    """
    A tenant's name.

    Raises:
        InputError: It is empty, has a character that is not allowed, or begins with ``_``,
            which is reserved.
    """
    tenant = check_code("tenant", value)
    if tenant.startswith("_"):
        raise InputError(
            f"tenant {tenant!r} begins with an underscore; such names are reserved.",
            code="reserved",
            field="tenant",
            value=tenant,
            allowed="a name that does not begin with _",
        )
    return tenant


def check_outside_id(field: str, value: object) -> str:
    """An opaque id from outside, such as a user's: 1 to 256 bytes, matched whole, never parsed."""
    return check_text(field, value, max_bytes=MAX_OUTSIDE_ID_BYTES)


def check_query(value: object) -> str:
    """A question to recall: text of at most 16,384 characters, not blank."""
    query = check_characters("query", value)
    if len(query) > MAX_QUERY_CHARACTERS:
        raise InputError(
            f"query has {len(query)} characters; at most {MAX_QUERY_CHARACTERS} are allowed.",
            code="too_long",
            field="query",
            value=f"{len(query)} characters",
            allowed=f"at most {MAX_QUERY_CHARACTERS} characters",
        )
    return check_text("query", query, max_bytes=4 * MAX_QUERY_CHARACTERS)


def canonical_text_v1(text: str) -> str:
    """NFC, Unicode casefold, whitespace runs to one space, trimmed. Version 1, frozen."""
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())


def _bad_character(field: str, value: str, position: int, what: str) -> InputError:
    return InputError(
        f"{field} holds {what} at character {position}, which cannot be stored.",
        code="bad_character",
        field=field,
        value=shown(value[position]),
        allowed="Unicode text without NUL bytes and lone surrogates",
    )
