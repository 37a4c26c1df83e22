"""SQL conditions of recall: what a value may be, and what a query must say."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest

from memoriale.domain.access import AccessScope
from memoriale.domain.branches import Line
from memoriale.domain.errors import InputError
from memoriale.domain.kinds import Kind, KindTable
from memoriale.projections.recall import filters
from memoriale.projections.recall.filters import (
    access_condition,
    any_of,
    one_of,
    override_condition,
    query_condition,
    text_literal,
    time_literal,
    uuid_literal,
    visible_condition,
)
from memoriale.projections.recall.query import RecallQuery

MAIN, CHILD, OWNER = UUID(int=1), UUID(int=2), UUID(int=3)
SCOPE = AccessScope(owners=frozenset({OWNER}), user=OWNER)
NOW = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
QUERY = RecallQuery(text="x", lines=((Line(MAIN, 7), SCOPE),), now=NOW, valid_at=NOW)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("", "''"),
        ("'", "''''"),
        ("a' OR '1'='1", "'a'' OR ''1''=''1'"),
        ("\\'", "'\\'''"),
        ("%_\n", "'%_\n'"),
    ],
)
def test_text_is_quoted_by_doubling_quotes(given: str, expected: str) -> None:
    """Only the quote is special in a text literal."""
    assert text_literal(given) == expected


def test_times_are_whole_microseconds() -> None:
    """A time is written as a count, the same for every offset, also far from today."""
    elsewhere = NOW.astimezone(timezone(timedelta(hours=5, minutes=45)))
    assert time_literal(NOW) == time_literal(elsewhere)
    assert "arrow_cast(1767603600000000," in time_literal(NOW)
    assert "arrow_cast(-62135510400000000," in time_literal(datetime(1, 1, 2, tzinfo=UTC))


def test_nothing_matches_no_values() -> None:
    """An empty list of values is false, never an empty condition that lets all through."""
    assert one_of("owner", []) == "FALSE"
    assert any_of([]) == "(FALSE)"


def test_a_caller_who_is_nobody_sees_the_tenant_s_rows_only() -> None:
    """Without owners, user, agent and teams all but the visibility ``tenant`` is false."""
    condition = access_condition(AccessScope())
    assert "visibility = 'tenant'" in condition
    assert condition.count("FALSE") >= 4


def test_overridden_memories_are_left_out_of_their_line_only() -> None:
    """The ids that a nearer line overrides stand in the farther line's condition."""
    lines = ((Line(CHILD, 9), SCOPE), (Line(MAIN, 4), SCOPE))
    condition = visible_condition(lines, [set(), {"ab" * 16}])
    near, far = condition.split(uuid_literal(MAIN))
    assert "ab" * 16 in far
    assert "ab" * 16 not in near
    assert "recorded_from <= 9 AND recorded_until > 9" in near
    assert "recorded_from <= 4 AND recorded_until > 4" in far


def test_only_nearer_lines_override() -> None:
    """Rows of the farthest line hide nothing."""
    lines = ((Line(CHILD, 9), SCOPE), (Line(MAIN, 4), SCOPE))
    condition = override_condition(lines)
    assert uuid_literal(CHILD) in condition
    assert uuid_literal(MAIN) not in condition


def test_kinds_that_recall_does_not_find_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kind of the table that is not recalled is excluded, unless it is asked for by name."""
    kinds = KindTable()
    kinds.register(Kind("note", ("user",)))
    kinds.register(Kind("working", ("resource",), recalled=False))
    monkeypatch.setattr(filters, "KINDS", kinds)
    assert "kind IN ('note')" in query_condition(QUERY)
    assert "kind IN ('working')" in query_condition(replace(QUERY, kinds=("working",)))


@pytest.mark.parametrize(
    ("field", "value"), [("rank", "best"), ("top_k", 0), ("top_k", -1), ("top_k", 1_001)]
)
def test_a_query_that_cannot_be_meant_is_refused(field: str, value: Any) -> None:
    """Rank and number of hits are checked; the error names the field and what is allowed."""
    with pytest.raises(InputError) as refusal:
        replace(QUERY, **{field: value})
    assert refusal.value.field == field
    assert refusal.value.allowed
