"""Points in time as callers write them: an index, two, or a time."""

from datetime import UTC, datetime

import pytest

from memoriale.adapters.application.reading import IndexPair, parse_as_of, pin_text
from memoriale.domain.errors import InputError


@pytest.mark.parametrize(
    ("given", "point"),
    [
        (0, 0),
        ("17", 17),
        ("17@3", IndexPair(17, 3)),
        ("-1@0", IndexPair(-1, 0)),
        ("2026-01-02T03:04:05+01:00", datetime(2026, 1, 2, 2, 4, 5, tzinfo=UTC)),
    ],
)
def test_points_are_read(given: int | str, point: object) -> None:
    """Digits are an index, ``i@g`` two of them, everything else a time with its offset."""
    assert parse_as_of(given) == point


@pytest.mark.parametrize(
    "given", [-1, True, "", "-1", "@", "1@", "@1", "1@-1", "1@2@3", "1 @2", "٣@1", "9" * 19 + "@1"]
)
def test_what_is_no_point_is_refused(given: int | str) -> None:
    """Nothing is guessed: a wrong point is an error that names the field."""
    with pytest.raises(InputError) as refused:
        parse_as_of(given)
    assert refused.value.field == "as_of"


@pytest.mark.parametrize("pin", ["0", "17", "17@3", "-1@0"])
def test_a_pin_is_read_as_it_is_written(pin: str) -> None:
    """What an answer gives as its pin means the same point when it is asked for."""
    point = parse_as_of(pin)
    assert not isinstance(point, datetime)
    pair = (point.index, point.global_index) if isinstance(point, IndexPair) else (point, None)
    assert pin_text(*pair) == pin
