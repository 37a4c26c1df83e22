"""Conversations in the LoCoMo format: dated sessions of turns, and questions about them."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from memoriale.domain.errors import InputError, MemorialeError
from memoriale.domain.text import check_characters, shown
from memoriale.domain.values import parse_json_strictly

_SESSION: Final = re.compile(r"session_([0-9]{1,6})")
_DATE: Final = re.compile(
    r"([0-9]{1,2}):([0-9]{2})\s*([ap])\.?m\.?\s+on\s+([0-9]{1,2})\s+([a-z]+),?\s+([0-9]{4})",
    re.IGNORECASE,
)
# Not strptime's %B, which knows the months of the process's language only.
_MONTHS: Final = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)


@dataclass(frozen=True, slots=True)
class Turn:
    """
    One utterance.

    ``caption`` tells what an image shows. ``time`` is the session's date; the format has no
    time zone, so it is taken as UTC, and ``session_date`` keeps it as given. ``path`` says
    where the turn stands in the file.
    """

    dia_id: str
    speaker: str
    text: str
    caption: str | None
    session: int
    session_date: str | None
    time: datetime | None
    path: str

    @property
    def content(self) -> str:
        """What is remembered: the text, or the caption of an image sent without a word."""
        return self.text if self.text.strip() else self.caption or ""


@dataclass(frozen=True, slots=True)
class Conversation:
    """One conversation with its turns in order; ``qa`` is as in the file, unchecked."""

    sample_id: str
    turns: tuple[Turn, ...]
    qa: Any


def parse_conversations(data: bytes) -> list[Conversation]:
    """
    The conversations of a file: one object, or a list of them.

    Args:
        data: The whole file; UTF-8, with or without a byte order mark.

    Raises:
        InputError: ``malformed``; ``field`` is the path inside the file, such as
            ``[0].conversation.session_3[4].speaker``.
    """
    try:
        parsed = parse_json_strictly(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise _malformed("file", f"it is not JSON ({error})", "JSON in UTF-8") from None
    if parsed == []:
        raise _malformed("file", "it is an empty list", "at least one conversation")
    if isinstance(parsed, list):
        return [_conversation(value, f"[{i}]") for i, value in enumerate(parsed)]
    return [_conversation(parsed, "")]


def parse_session_date(text: str, path: str) -> datetime:
    """
    A session's date, such as ``1:56 pm on 8 May, 2023``, as UTC.

    Args:
        text: The date.
        path: Where it stands, for the error.

    Raises:
        InputError: It has another form.
    """
    found = _DATE.fullmatch(text.strip())
    try:
        if found is not None:
            hour, minute, half, day, month, year = found.groups()
            number = _MONTHS.index(month.lower()) + 1
            hours = _hour(int(hour), half.lower())
            return datetime(int(year), number, int(day), hours, int(minute), tzinfo=UTC)
    except ValueError:
        pass
    raise _malformed(path, f"it is {shown(text)!r}", "a date like 1:56 pm on 8 May, 2023")


def _hour(hour: int, half: str) -> int:
    if not 1 <= hour <= 12:
        raise ValueError(hour)
    return hour % 12 + (12 if half == "p" else 0)


def _conversation(value: object, path: str) -> Conversation:
    fields = _object(value, path or "file")
    before = f"{path}." if path else ""
    sample_id = _required(fields, "sample_id", before)
    sessions = _object(fields.get("conversation"), f"{before}conversation")
    turns = tuple(_turns(sessions, f"{before}conversation"))
    if not turns:
        allowed = "session_1, session_2, … with turns"
        raise _malformed(f"{before}conversation", "it has no turns", allowed)
    return Conversation(sample_id, turns, fields.get("qa"))


def _turns(sessions: Mapping[str, Any], path: str) -> Iterator[Turn]:
    matches = (_SESSION.fullmatch(name) for name in sessions)
    for number in sorted(int(match[1]) for match in matches if match):
        name = f"session_{number}"
        turns, place = sessions.get(name), f"{path}.{name}"
        if not isinstance(turns, list):
            raise _malformed(place, f"it is a {type(turns).__name__}", "a list of turns")
        date, time = _dated(sessions, name, path)
        for position, turn in enumerate(turns):
            yield _turn(turn, number, date, time, f"{place}[{position}]")


def _dated(sessions: Mapping[str, Any], name: str, path: str) -> tuple[str | None, datetime | None]:
    date = _optional(sessions, f"{name}_date_time", f"{path}.")
    if date is None:
        return None, None
    return date, parse_session_date(date, f"{path}.{name}_date_time")


def _turn(value: object, session: int, date: str | None, time: datetime | None, path: str) -> Turn:
    fields = _object(value, path)
    before = f"{path}."
    return Turn(
        dia_id=_required(fields, "dia_id", before),
        speaker=_required(fields, "speaker", before),
        text=_optional(fields, "text", before) or "",
        caption=_optional(fields, "blip_caption", before),
        session=session,
        session_date=date,
        time=time,
        path=path,
    )


def _object(value: object, path: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        what = "it is missing" if value is None else f"it is a {type(value).__name__}"
        raise _malformed(path, what, "a JSON object")
    return value


def _required(fields: Mapping[str, Any], name: str, before: str) -> str:
    text = _optional(fields, name, before)
    if text is None:
        raise _malformed(before + name, "it is missing or empty", "text")
    return text


def _optional(fields: Mapping[str, Any], name: str, before: str) -> str | None:
    value = fields.get(name)
    if value is None:
        return None
    try:
        return check_characters(before + name, value) if value != "" else None
    except MemorialeError as error:
        raise _malformed(before + name, error.message, "text") from None


def _malformed(path: str, what: str, allowed: str) -> InputError:
    return InputError(
        f"{path} cannot be used: {what}. Give {allowed}.",
        code="malformed",
        field=path,
        allowed=allowed,
    )
