"""Values of the command line that need more than their text."""

import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from memoriale.domain.errors import InputError
from memoriale.domain.text import shown
from memoriale.domain.values import parse_json_strictly

STANDARD_INPUT: Final = "-"
MOST_NOTE_BYTES: Final = 1_048_576
_MOST_DAYS: Final = 36_500


def content_of(text: str, max_bytes: int) -> str:
    """
    The content that a command was given, byte for byte.

    Args:
        text: The argument; ``-`` reads standard input.
        max_bytes: What is longer is refused while it is read.

    Raises:
        InputError: Standard input is closed, too long or not UTF-8.
    """
    if text != STANDARD_INPUT:
        return text
    if sys.stdin is None:
        raise InputError(
            "standard input is closed; give the text as an argument.", code="empty", field="content"
        )
    data = sys.stdin.buffer.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise InputError(
            f"content has more than {max_bytes} bytes, the most that are allowed.",
            code="too_long",
            field="content",
            value=f"more than {max_bytes} bytes",
            allowed=f"at most {max_bytes} bytes of UTF-8",
        )
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InputError(
            f"content is not UTF-8: byte {error.start} is {data[error.start]:#04x}.",
            code="bad_encoding",
            field="content",
            value=f"byte {error.start}",
            allowed="UTF-8",
        ) from None


def metadata_of(text: str | None) -> Any:
    """What ``--metadata`` holds; whether it is an object is checked with everything else."""
    return json_of("metadata", text)


def json_of(field: str, text: str | None, what: str = "a JSON object") -> Any:
    """
    What an argument holds as JSON; None when it was not given.

    Args:
        field: What errors call it.
        text: The argument.
        what: What errors say is wanted.

    Raises:
        InputError: It is not JSON, or holds NaN, infinity or one key twice.
    """
    if text is None:
        return None
    try:
        return parse_json_strictly(text)
    except (ValueError, RecursionError) as error:
        said = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InputError(
            f"{field} cannot be read: {shown(said)}. Give {what}.",
            code="bad_json",
            field=field,
            value=shown(text),
            allowed=what,
        ) from None


def note_in(field: str, path: Path) -> bytes:
    """
    A checkpoint or a proof in a file.

    Args:
        field: Name of the argument, for the error.
        path: The file.

    Raises:
        InputError: It cannot be read, or is far too large for one.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MOST_NOTE_BYTES + 1)
    except OSError as error:
        raise InputError(
            f"{field}: {path} cannot be read: {error.strerror}.",
            code="unreadable",
            field=field,
            value=str(path),
        ) from None
    if len(data) > MOST_NOTE_BYTES:
        raise InputError(
            f"{field}: {path} is no checkpoint and no proof: it has more than {MOST_NOTE_BYTES} "
            "bytes.",
            code="too_long",
            field=field,
            value=str(path),
        )
    return data


def write_text(field: str, path: Path, text: str) -> None:
    """
    Writes a file for the user.

    Args:
        field: Name of the argument, for the error.
        path: Where.
        text: What.

    Raises:
        InputError: It cannot be written.
    """
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise InputError(
            f"{field}: {path} cannot be written: {error.strerror}.",
            code="unwritable",
            field=field,
            value=str(path),
        ) from None


def one_of(field: str, value: str, allowed: Sequence[str]) -> str:
    """
    A word of a closed set.

    Raises:
        InputError: It is another word.
    """
    if value not in allowed:
        raise InputError(
            f"{field} is {shown(value)!r}; take {', '.join(allowed)}.",
            code="bad_value",
            field=field,
            value=shown(value),
            allowed=[*allowed],
        )
    return value


def messages_of(file: str, max_bytes: int) -> list[Any]:
    """
    The messages in a file: a JSON list, or one JSON object a line.

    Args:
        file: Its path; ``-`` reads standard input.
        max_bytes: What is longer is refused while it is read.

    Raises:
        InputError: It cannot be read, is too long, not UTF-8, or holds something else.
    """
    text = _text_of(file, max_bytes)
    if text.lstrip().startswith("["):
        found = json_of("file", text)
        return found if isinstance(found, list) else [found]
    lines = [line for line in text.splitlines() if line.strip()]
    return [json_of(f"file line {number}", line) for number, line in enumerate(lines, 1)]


def _text_of(file: str, max_bytes: int) -> str:
    if file == STANDARD_INPUT:
        return content_of(file, max_bytes)
    try:
        with Path(file).open("rb") as opened:
            data = opened.read(max_bytes + 1)
    except OSError as error:
        raise InputError(
            f"{shown(file)} cannot be read: {error.strerror}.",
            code="unreadable",
            field="file",
            value=shown(file),
            allowed="a file, or - for standard input",
        ) from None
    if len(data) > max_bytes:
        raise InputError(
            f"{shown(file)} has more than {max_bytes} bytes, the most that are allowed.",
            code="too_long",
            field="file",
            value=f"more than {max_bytes} bytes",
            allowed=f"at most {max_bytes} bytes of UTF-8",
        )
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InputError(
            f"{shown(file)} is not UTF-8: byte {error.start} is {data[error.start]:#04x}.",
            code="bad_encoding",
            field="file",
            value=f"byte {error.start}",
            allowed="UTF-8",
        ) from None


def days_of(field: str, value: float | None) -> timedelta | None:
    """
    A time span from a number of days, 0 to 36,500; None when it was not given.

    Raises:
        InputError: Outside, or NaN.
    """
    if value is None:
        return None
    if not 0 <= value <= _MOST_DAYS:
        raise InputError(
            f"{field} is {value}; give days from 0 to {_MOST_DAYS:,}.",
            code="out_of_range",
            field=field,
            value=str(value),
            allowed=f"0..{_MOST_DAYS}",
        )
    return timedelta(days=value)
