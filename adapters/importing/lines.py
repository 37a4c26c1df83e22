"""JSON lines: reading them in bounded memory and checking each before anything is stored."""

from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Final

from memoriale.domain.errors import InputError
from memoriale.domain.text import check_characters, shown
from memoriale.domain.values import check_metadata, check_unit, parse_json_strictly

MAX_LINE_BYTES: Final = 16 * 1024 * 1024
BYTE_ORDER_MARK: Final = "\ufeff"


def read_lines(stream: BinaryIO) -> Iterator[bytes]:
    """
    The lines of a stream without their ends.

    Of a line over ``MAX_LINE_BYTES`` only one byte more than that is kept, so that
    ``parse_line`` refuses it.

    Args:
        stream: Open for reading bytes.
    """
    longest = MAX_LINE_BYTES + len(b"\r\n")
    while line := stream.readline(longest):
        if len(line) == longest and not line.endswith(b"\n"):
            _skip_rest(stream)
        yield line.rstrip(b"\r\n")[: MAX_LINE_BYTES + 1]


def parse_line(line: bytes | str, *, first: bool = False) -> dict[str, Any] | None:
    """
    The fields of one line, each of the type that it must have; null ones are left out.

    Args:
        line: One JSON object; see ``docs/import.md`` for its fields.
        first: Whether a byte order mark may stand before it.

    Returns:
        The fields, or None for an empty line.

    Raises:
        InputError: ``not_utf8``, ``not_json``, ``not_an_object`` or ``too_long`` with field
            ``line``, or what is wrong with a field.
    """
    text = _decoded(line)
    if first:
        text = text.removeprefix(BYTE_ORDER_MARK)
    if not text.strip():
        return None
    fields = _parsed(text)
    for name in fields:
        if name not in FIELDS:
            raise _unknown(name)
    present = {name: value for name, value in fields.items() if value is not None}
    if "content" not in present:
        raise InputError(
            "the line has no content.", code="missing", field="content", allowed="text"
        )
    return {name: FIELDS[name](name, value) for name, value in present.items()}


def _skip_rest(stream: BinaryIO) -> None:
    while rest := stream.readline(MAX_LINE_BYTES):
        if rest.endswith(b"\n"):
            return


def _decoded(line: bytes | str) -> str:
    if not isinstance(line, bytes | str):
        raise InputError(
            "a line must be text.",
            code="not_text",
            field="line",
            value=type(line).__name__,
            allowed="text or bytes",
        )
    if len(line) > MAX_LINE_BYTES:
        raise _bad_line("too_long", "it is too long", f"at most {MAX_LINE_BYTES} bytes")
    if isinstance(line, str):
        return line
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        reason = f"byte {error.start} is not UTF-8 ({error.reason})"
        raise _bad_line("not_utf8", reason, "UTF-8") from None


def _parsed(text: str) -> dict[str, Any]:
    try:
        value = parse_json_strictly(text)
    except ValueError as error:
        raise _bad_line("not_json", str(error), "one JSON object") from None
    except RecursionError:
        raise _bad_line("not_json", "it is nested too deeply", "one JSON object") from None
    if not isinstance(value, dict):
        raise _bad_line("not_an_object", f"it is a {type(value).__name__}", "one JSON object")
    return value


def _text(field: str, value: object) -> str:
    return check_characters(field, value)


def _texts(field: str, value: object) -> list[str]:
    if not isinstance(value, list):
        raise InputError(
            f"{field} must be a list of texts.",
            code="bad_value",
            field=field,
            value=shown(value),
            allowed="a list of texts",
        )
    return [check_characters(field, item) for item in value]


def _text_or_texts(field: str, value: object) -> list[str]:
    return _texts(field, [value] if isinstance(value, str) else value)


def _metadata(field: str, value: object) -> dict[str, Any]:
    # The deployment's own limit, which may be higher, is checked with the memory.
    return check_metadata(field, value, max_bytes=MAX_LINE_BYTES)


FIELDS: Final[dict[str, Callable[[str, object], Any]]] = {
    "content": _text,
    "kind": _text,
    "owner": _text,
    "user": _text,
    "agent": _text,
    "resource": _text,
    "team": _text,
    "session": _text,
    "namespace": _text,
    "visibility": _text,
    "subject": _text,
    "importance": check_unit,
    "confidence": check_unit,
    "tags": _texts,
    "about": _text_or_texts,
    "source": _text,
    "source_run_id": _text,
    "evidence": _text_or_texts,
    "valid_from": _text,
    "valid_until": _text,
    "expires_at": _text,
    "created_at": _text,
    "idempotency_key": _text,
    "metadata": _metadata,
    "speaker": _text,
    "role": _text,
    "caption": _text,
}
"""Every field of a line with its check."""


def _unknown(name: str) -> InputError:
    return InputError(
        f"unknown field {shown(name)!r}; known are {', '.join(FIELDS)}.",
        code="unknown_field",
        field=shown(name),
        allowed=list(FIELDS),
    )


def _bad_line(code: str, reason: str, allowed: str) -> InputError:
    return InputError(
        f"the line cannot be read: {reason}.", code=code, field="line", allowed=allowed
    )
