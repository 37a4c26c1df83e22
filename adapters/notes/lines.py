"""Reading texts line by line; an error says in which line it is."""

import re
from base64 import b64decode, b64encode
from binascii import Error
from typing import Final

from memoriale.domain.errors import InputError

MAX_NUMBER: Final = 2**63 - 1
_DECIMAL: Final = re.compile(r"0|[1-9]\d{0,18}", re.ASCII)


def malformed(what: str, line: int, problem: str, allowed: str | None = None) -> InputError:
    """
    The error for a text that is not what it should be.

    Args:
        what: ``note``, ``checkpoint`` or ``proof``.
        line: Which line, from 1.
        problem: What is wrong with it.
        allowed: What would have been accepted.
    """
    message = f"Line {line} of the {what}: {problem}."
    code, field = f"malformed_{what}", f"line {line}"
    return InputError(message, code=code, field=field, allowed=allowed)


def as_text(what: str, data: str | bytes) -> str:
    """
    The text of a file.

    Args:
        what: As for ``malformed``.
        data: Text, or UTF-8.

    Raises:
        InputError: It is not UTF-8, or could not be written as such.
    """
    try:
        if isinstance(data, bytes):
            return data.decode()
        data.encode()
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise malformed(what, line, "it is not UTF-8") from error
    except UnicodeEncodeError as error:
        line = error.object.count("\n", 0, error.start) + 1
        raise malformed(what, line, "it cannot be written in UTF-8") from error
    return data


def encoded(data: bytes) -> str:
    """Bytes in standard base64."""
    return b64encode(data).decode()


def decoded(text: str) -> bytes | None:
    """The bytes of a text in standard base64; None unless ``encoded`` gives that very text."""
    try:
        data = b64decode(text, validate=True)
    except (Error, ValueError):
        return None
    return data if encoded(data) == text else None


def number(text: str) -> int | None:
    """A decimal number below 2**63 without leading zeros; None when the text is none."""
    if _DECIMAL.fullmatch(text) is None or int(text) > MAX_NUMBER:
        return None
    return int(text)
