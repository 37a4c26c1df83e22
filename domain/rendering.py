"""Memory as it is shown to a language model: as quoted data that cannot be taken for orders."""

import json
import re
from typing import Final

from memoriale.domain.values import JsonValue

_ESCAPES: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_SPECIAL: Final = re.compile(r"[&<>]|`{3,}|~{3,}|\[(?=/?(?:INST|SYS|system|user|assistant)\b)")
_BREAKS: Final = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029]+")


def quoted(text: str) -> str:
    """
    A text on one line in which no fence, tag or role marker is left.

    Line breaks become spaces, so that nothing stands at the beginning of a line; ``<``, ``>``
    and ``&`` are escaped as in XML, and so are the first characters of fences and of markers
    such as ``[INST]``.
    """
    flat = _BREAKS.sub(" ", text).strip()
    return _SPECIAL.sub(lambda found: _escaped(found.group()), flat)


def bullet(text: str, *marks: str) -> str:
    """
    A memory as one line of a list.

    Args:
        text: Quoted here.
        marks: What is said about it, such as ``unverified``; empty ones are left out.
    """
    told = " ".join(f"[{mark}]" for mark in marks if mark)
    return f"- {told} {quoted(text)}" if told else f"- {quoted(text)}"


def in_words(value: JsonValue) -> str:
    """A value in words: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _escaped(found: str) -> str:
    if found in _ESCAPES:
        return _ESCAPES[found]
    return "".join(f"&#{ord(character)};" for character in found)
