"""Times: an offset is demanded and kept, and a span ends after it begins."""

from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoriale.domain.errors import InputError
from memoriale.domain.times import check_span, iso, parse_time, to_utc

pytestmark = pytest.mark.time

OFFSETS = st.integers(-23 * 60 - 59, 23 * 60 + 59).map(lambda m: timezone(timedelta(minutes=m)))
TIMES = st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31), timezones=OFFSETS)


@given(TIMES)
def test_text_of_a_time_reads_back_with_its_offset(time: datetime) -> None:
    """Writing a time and reading it gives the same instant and the same offset."""
    again = parse_time("valid_from", iso(time))
    assert again == time
    assert again.utcoffset() == time.utcoffset()


@given(TIMES)
def test_utc_is_the_same_instant(time: datetime) -> None:
    """Turning a time to UTC changes its offset and not its instant."""
    assert to_utc(time) == time
    assert to_utc(time).utcoffset() == timedelta(0)


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-03-01T09:30:00Z", datetime(2026, 3, 1, 9, 30, tzinfo=UTC)),
        ("2026-03-01T09:30:00+01:00", datetime(2026, 3, 1, 8, 30, tzinfo=UTC)),
        ("2026-03-01 09:30:00.25-05:30", datetime(2026, 3, 1, 15, 0, 0, 250_000, tzinfo=UTC)),
        ("2024-02-29T23:59:59.999999+00:00", datetime(2024, 2, 29, 23, 59, 59, 999_999, UTC)),
    ],
)
def test_rfc_3339_text_is_read(text: str, instant: datetime) -> None:
    """RFC 3339 text with an offset gives its instant."""
    assert parse_time("valid_from", text) == instant


def test_a_zone_by_name_gives_its_offset_of_that_day() -> None:
    """A time in a named zone keeps the offset that the zone had then."""
    zone = ZoneInfo("Europe/Rome")
    summer = parse_time("valid_from", datetime(2026, 7, 1, 12, tzinfo=zone))
    winter = parse_time("valid_from", datetime(2026, 1, 1, 12, tzinfo=zone))
    assert iso(summer) == "2026-07-01T12:00:00+02:00"
    assert iso(winter) == "2026-01-01T12:00:00+01:00"


@pytest.mark.parametrize(
    "value",
    [datetime(2026, 3, 1, 9, 30), "2026-03-01T09:30:00", "2026-03-01", "2026-03-01T09:30:00.5"],
)
def test_naive_times_are_refused(value: object) -> None:
    """A time without an offset is never guessed to be local or UTC."""
    with pytest.raises(InputError) as refused:
        parse_time("valid_from", value)
    error = refused.value
    assert (error.code, error.field) == ("naive_datetime", "valid_from")
    assert error.allowed == "RFC 3339 with an offset"


@pytest.mark.parametrize(
    "value",
    [
        "",
        "yesterday",
        "2026-02-29T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-03-01T25:00:00Z",
        "2026-03-01T09:30:00+25:00",
        "２０２６-03-01T09:30:00Z",
        "1772357400",
        1_772_357_400,
        1.5,
        True,
        date(2026, 3, 1),
        b"2026-03-01T09:30:00Z",
        "2026-03-01T09:30:00Z\x00",
        "\ud800",
        "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:59-23:59",
    ],
)
def test_what_is_no_time_is_refused(value: object) -> None:
    """What is no time, or lies where UTC has no year for it, is refused with what was given."""
    with pytest.raises(InputError) as refused:
        parse_time("expires_at", value)
    error = refused.value
    assert (error.code, error.field) == ("bad_time", "expires_at")
    assert error.value is not None
    assert error.allowed == "RFC 3339 with an offset"


@pytest.mark.parametrize(
    "text", ["2026-W09-7T09:30:00Z", "20260301T093000Z", "2026-03-01x09:30:00Z", "2026-03-01T09Z"]
)
def test_text_that_is_not_rfc_3339_is_refused(text: str) -> None:
    """Week dates, compact dates and other forms that RFC 3339 does not have are refused."""
    with pytest.raises(InputError):
        parse_time("valid_from", text)


@given(TIMES, TIMES)
def test_a_span_ends_after_it_begins(valid_from: datetime, valid_until: datetime) -> None:
    """A span is accepted exactly when its end lies after its start, as instants."""
    if valid_until > valid_from:
        check_span(valid_from, valid_until)
        return
    with pytest.raises(InputError) as refused:
        check_span(valid_from, valid_until)
    assert (refused.value.code, refused.value.field) == ("bad_span", "valid_until")
    assert refused.value.value == iso(valid_until)


def test_a_span_of_no_length_is_refused() -> None:
    """A span that ends where it begins, in whatever offset, holds no moment."""
    start = datetime(2026, 3, 1, 12, tzinfo=UTC)
    with pytest.raises(InputError):
        check_span(start, start.astimezone(timezone(timedelta(hours=5))))


@pytest.mark.parametrize("known", [None, datetime(2026, 3, 1, tzinfo=UTC)])
def test_an_open_span_is_allowed(known: datetime | None) -> None:
    """A span may be open at either end, or at both."""
    check_span(known, None)
    check_span(None, known)
