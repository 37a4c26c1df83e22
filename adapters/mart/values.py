"""Values of DuckDB as JSON values that lose nothing."""

import math
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID


def as_json(value: Any) -> Any:
    """
    A value as JSON: times by RFC 3339, decimals as text with every digit, bytes as hexadecimal,
    numbers that JSON lacks as text, intervals as days and time.

    Args:
        value: As DuckDB hands it out in a session whose zone is UTC.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, datetime):
        return _time(value)
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, Mapping):
        return {_key(key): as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [as_json(item) for item in value]
    if isinstance(value, Decimal | UUID | timedelta):
        return str(value)
    return str(value)


def _time(value: datetime) -> str:
    aware = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    return aware.isoformat()


def _key(value: Any) -> str:
    shown = as_json(value)
    return shown if isinstance(shown, str) else str(shown)
