"""Times: aware UTC inside, naive ones refused at the edge, the given offset kept as text."""

import re
from datetime import UTC, datetime
from typing import Final

from memoriale.domain.errors import InputError
from memoriale.domain.text import shown

# A date alone and a time without an offset pass, so that the error can say what is missing.
_RFC_3339: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"([Tt ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?([Zz]|[+-][0-9]{2}:[0-9]{2})?)?"
)
_EARLIEST: Final = datetime(1, 1, 2, tzinfo=UTC)
_LATEST: Final = datetime(9999, 12, 30, tzinfo=UTC)


def parse_time(field: str, value: object) -> datetime:
    """
    An aware time, with the offset it was given.

    Args:
        field: Name for the error.
        value: A ``datetime`` with a zone, or RFC 3339 text with an offset.

    Raises:
        InputError: ``bad_time`` or ``naive_datetime``.
    """
    time = _parsed(field, value) if isinstance(value, str) else value
    if not isinstance(time, datetime):
        raise _bad_time(field, value, "bad_time")
    if time.utcoffset() is None:
        raise _bad_time(field, value, "naive_datetime")
    if not _EARLIEST < time < _LATEST:
        raise _bad_time(field, value, "bad_time")
    return time


def to_utc(time: datetime) -> datetime:
    """The same instant in UTC."""
    return time.astimezone(UTC)


def iso(time: datetime) -> str:
    """RFC 3339 text of a time, with its offset."""
    return time.isoformat()


def check_span(valid_from: datetime | None, valid_until: datetime | None) -> None:
    """
    Refuses a valid span that ends before it begins or is empty.

    Raises:
        InputError: ``valid_until`` is not after ``valid_from``.
    """
    if valid_from is not None and valid_until is not None and valid_until <= valid_from:
        raise InputError(
            f"valid_until {iso(valid_until)} is not after valid_from {iso(valid_from)}.",
            code="bad_span",
            field="valid_until",
            value=iso(valid_until),
            allowed=f"a time after {iso(valid_from)}",
        )


def _parsed(field: str, value: str) -> datetime:
    if not _RFC_3339.fullmatch(value):
        raise _bad_time(field, value, "bad_time")
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        raise _bad_time(field, value, "bad_time") from None


def _bad_time(field: str, value: object, code: str) -> InputError:
    return InputError(
        f"{field} is {shown(value)!r}; give a time with its UTC offset, such as "
        "2026-03-01T09:30:00+01:00.",
        code=code,
        field=field,
        value=shown(value),
        allowed="RFC 3339 with an offset",
    )
