"""What an append refuses before anything is sent."""

from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import pytest

from memoriale.adapters.postgres.append import Append, StreamConflictError
from memoriale.domain.errors import InputError
from memoriale.domain.guards import StreamAt
from tests.contracts.ledger import append, event


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("kind", "two words"),
        ("purpose", ""),
        ("retention_class", "x" * 65),
        ("topic", ""),
        ("owner_type", "a\x00b"),
        ("actor_kind", "\ud800"),
        ("visibility", "everybody"),
        ("stream_version", -1),
        ("schema_version", 0),
        ("continues", 2**63),
        ("valid_from", datetime(2026, 1, 1)),
        ("about", (UUID(int=2), UUID(int=1))),
        ("about", tuple(UUID(int=n) for n in range(501))),
        ("namespace_tags", (b"",) * 65),
    ],
)
def test_bad_column_is_refused_before_it_is_sent(field: str, value: Any) -> None:
    """What the table would refuse is a typed error that names the field, before any call."""
    with pytest.raises(InputError) as caught:
        append(event(None, 1, **{field: value}))
    assert caught.value.field == field


@pytest.mark.parametrize("header", ["x" * 32_769, "\u00e9" * 16_385, "\x00", "\udfff"])
def test_bad_header_is_refused(header: str) -> None:
    """A header is text of at most 32 KiB in UTF-8."""
    with pytest.raises(InputError) as caught:
        append(event(header=header))
    assert caught.value.field == "header"


def test_append_needs_distinct_events() -> None:
    """An append without events, or with a doubled id or version, is refused."""
    row, stream = event(), uuid4()
    with pytest.raises(InputError):
        Append(())
    with pytest.raises(InputError):
        Append((row, row))
    with pytest.raises(StreamConflictError):
        Append((event(stream, 1), event(stream, 1)))


@pytest.mark.parametrize("versions", [[2], [1, 3], [0]])
def test_stream_guard_leaves_no_hole(versions: list[int]) -> None:
    """An append with a stream guard cannot skip a version of that stream."""
    stream = uuid4()
    rows = tuple(event(stream, version) for version in versions)
    with pytest.raises(InputError) as caught:
        Append(rows, (StreamAt(stream, 0),))
    assert caught.value.field == "stream_version"
