"""Pages of working memory, the same for every provider."""

import pytest

from memoriale.domain.errors import InputError
from memoriale.domain.resources.entries import page_of, value_text
from memoriale.domain.resources.limits import BOOKKEEPING


def test_equal_objects_have_one_text_and_other_types_another() -> None:
    """The order of an object's keys says nothing; 1, 1.0 and true are three values."""
    assert value_text({"b": 1, "a": 2}) == value_text({"a": 2, "b": 1})
    assert len({value_text(1), value_text(1.0), value_text(True)}) == 3


def test_pages_follow_the_bytes_of_the_keys_and_leave_bookkeeping_out() -> None:
    """Pages together are every key but the library's own, in the order of UTF-8 bytes."""
    keys = ["b", "a", "é", "Z", "𝔘", "ｚ", "10", "9", f"{BOOKKEEPING}last"]
    entries = {key: key for key in keys}
    listed: list[str] = []
    after = None
    while True:
        page = page_of(entries, after=after, limit=3)
        listed += page
        after = page.next
        if after is None:
            break
    assert listed == sorted(keys[:-1], key=str.encode)


@pytest.mark.parametrize("limit", [0, 1001, True, 1.5])
def test_a_page_has_1_to_1000_entries(limit: object) -> None:
    """Another limit is refused."""
    with pytest.raises(InputError):
        page_of({}, limit=limit)  # type: ignore[arg-type]
