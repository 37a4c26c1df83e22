"""A read as of a point gives what was known then, whatever was recorded since."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.domain.errors import InputError


def test_an_answer_as_of_an_index_does_not_change(
    alice: Memory, shared_ledger: Ledger, tenant: str
) -> None:
    """Ids, order and contents are the same after corrections, others' writes and a rebuild."""
    for number in range(10):
        alice.remember(f"tea number {number}", kind="fact")
    first = alice.recall("tea", top_k=10)
    bob = shared_ledger.memory(tenant=tenant, user="bob")
    for hit in first.hits[:5]:
        alice.correct(hit.memory_id, "coffee")
    for number in range(50):
        bob.remember(f"tea of Bob {number}")
    shared_ledger.replay(tenant=tenant)
    again = alice.recall("tea", top_k=10, as_of=first.index)
    assert [(h.memory_id, h.content, h.index) for h in again] == [
        (h.memory_id, h.content, h.index) for h in first
    ]
    assert again.index == first.index


def test_an_index_inside_an_append_means_the_whole_append(alice: Memory) -> None:
    """The pin is the append's last index and is returned."""
    alice.remember("e-mail", kind="fact", subject="contact")
    new = alice.remember("phone", kind="fact", subject="contact")
    found = alice.recall("phone e-mail", as_of=new.index)
    assert found.index == new.index + 1
    assert [hit.content for hit in found] == ["phone"]


@pytest.mark.time
def test_a_time_means_the_last_append_at_or_before_it(alice: Memory) -> None:
    """Exactly the recorded time includes it, a microsecond earlier does not, and the offset in
    which the time is given makes no difference."""
    first = alice.remember("first")
    second = alice.remember("second")
    zone = timezone(timedelta(hours=5, minutes=45))
    for time, expected in (
        (second.recorded_at, 2),
        (second.recorded_at.astimezone(zone), 2),
        (second.recorded_at - timedelta(microseconds=1), 1),
        (first.recorded_at.isoformat(), 1),
        (first.recorded_at - timedelta(microseconds=1), 0),
    ):
        assert len(alice.list(as_of=time).memories) == expected


@pytest.mark.time
@pytest.mark.parametrize(
    ("as_of", "code"),
    [
        (10_000, "out_of_range"),
        (-1, "bad_as_of"),
        (True, "bad_as_of"),
        ("9" * 40, "bad_as_of"),
        ("yesterday", "bad_time"),
        ("2026-01-01T10:00:00", "naive_datetime"),
        (datetime(2026, 1, 1), "naive_datetime"),
        (datetime.now(UTC) + timedelta(days=1), "in_future"),
    ],
)
def test_a_point_that_cannot_be_is_refused(as_of: Any, code: str, alice: Memory) -> None:
    """Beyond the log, in the future, without an offset, or not a point at all."""
    alice.remember("x")
    for read in (alice.recall, lambda q, **given: alice.list(**given)):
        with pytest.raises(InputError) as refused:
            read("x", as_of=as_of)
        assert (refused.value.field, refused.value.code) == ("as_of", code)
        if code.startswith("bad"):
            assert str(refused.value).startswith("as_of is ")
            assert "give an index from 0, two as i@g, or a time" in str(refused.value)


@pytest.mark.time
def test_expiry_is_counted_to_the_point_of_the_read(alice: Memory) -> None:
    """A memory that expires is recalled until then and not after; history keeps it, and as of
    an earlier point it is still there."""
    soon = datetime.now(UTC) + timedelta(hours=1)
    past = datetime.now(UTC) - timedelta(hours=1)
    alice.remember("still fresh", expires_at=soon)
    gone = alice.remember("no longer fresh", expires_at=past)
    assert [record.content for record in alice.list().memories] == ["still fresh"]
    assert alice.show(gone.memory_id).content == "no longer fresh"


@pytest.mark.time
def test_the_valid_span_is_asked_by_valid_time(alice: Memory) -> None:
    """A fact is found for times in its span, whose end is excluded, in whatever zone they are
    given; the offset given is kept."""
    record = alice.remember(
        "lives in Rome",
        valid_from="2020-01-01T00:00:00+01:00",
        valid_until="2022-01-01T00:00:00+01:00",
    )
    for time, found in (
        ("2019-12-31T22:59:59Z", 0),
        ("2019-12-31T23:00:00Z", 1),
        ("2021-06-01T00:00:00-05:00", 1),
        ("2021-12-31T23:00:00Z", 0),
    ):
        assert len(alice.recall("lives", valid_at=time)) == found
    shown = alice.show(record.memory_id)
    assert shown.given_times["valid_from"] == "2020-01-01T00:00:00+01:00"
    assert shown.valid_from == datetime(2019, 12, 31, 23, tzinfo=UTC)
