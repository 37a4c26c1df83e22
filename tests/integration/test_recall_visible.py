"""The SQL conditions say exactly what the domain's access rule and fold say."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoriale.domain.access import AccessScope, Visibility
from memoriale.domain.branches import NO_LIMIT
from memoriale.domain.record import Columns
from memoriale.domain.slices import current, fold_slice
from memoriale.projections.recall.filters import (
    access_condition,
    query_condition,
    text_literal,
    time_literal,
)
from memoriale.projections.recall.query import RecallQuery
from memoriale.projections.recall.search import search
from memoriale.projections.recall.view import RecallView
from tests.fixtures.events import ALICE, BOB, START, History
from tests.integration.test_recall_fold import histories
from tests.integration.test_recall_view import posted

IDS: Final = tuple(UUID(int=number) for number in range(1, 4))
SEED: Final = 1494


@dataclass(frozen=True)
class Crowd:
    """A view with rows of every combination of owner, visibility and principal, more or less."""

    view: RecallView
    columns: list[Columns]


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crowd]:
    history, chance = History(), random.Random(SEED)
    maybe = (None, *IDS)
    for number in range(600):
        history.remembered(
            f"row {number}",
            owner=chance.choice(IDS),
            owner_type=chance.choice(("user", "agent", "resource", "session", "team")),
            visibility=chance.choice(tuple(Visibility)).value,
            principal_user=chance.choice(maybe),
            principal_agent=chance.choice(maybe),
            principal_team=chance.choice(maybe),
            principal_session=chance.choice(maybe),
        )
    view = posted(tmp_path_factory.mktemp("crowd"), history)
    yield Crowd(view, [row.columns for row in history.rows])
    view.close()


SCOPES = st.builds(
    AccessScope,
    owners=st.frozensets(st.sampled_from(IDS)),
    user=st.none() | st.sampled_from(IDS),
    agent=st.none() | st.sampled_from(IDS),
    teams=st.frozensets(st.sampled_from(IDS)),
    everything=st.integers(0, 19).map(lambda number: number == 0),
)


@settings(max_examples=150)
@given(scope=SCOPES)
def test_the_filter_is_the_access_rule(crowd: Crowd, scope: AccessScope) -> None:
    """For any caller the SQL condition selects the rows that ``AccessScope.allows`` allows."""
    found = crowd.view.table.read(f"key >= 0 AND {access_condition(scope)}", ("key",))
    allowed = [key for key, row in enumerate(crowd.columns) if scope.allows(row)]
    assert sorted(found["key"].to_pylist()) == allowed


@settings(max_examples=40)
@given(scope=SCOPES)
def test_search_finds_what_the_access_rule_allows(crowd: Crowd, scope: AccessScope) -> None:
    """For any caller a search whose word stands in every row finds all allowed rows."""
    head = len(crowd.columns)
    lines = History().lineage(None, head - 1)
    query = RecallQuery(
        text="row",
        lines=tuple((line, scope) for line in lines),
        now=START,
        valid_at=START,
        top_k=1_000,
        vector_leg=False,
    )
    allowed = [key for key, row in enumerate(crowd.columns) if scope.allows(row)]
    assert sorted(hit.index for hit in search(crowd.view, query)) == allowed


@settings(max_examples=60)
@given(
    scope=SCOPES,
    owner=st.none() | st.sampled_from(IDS),
    agent=st.none() | st.sampled_from(IDS),
)
def test_a_search_of_one_owner_and_agent_finds_theirs_alone(
    crowd: Crowd, scope: AccessScope, owner: UUID | None, agent: UUID | None
) -> None:
    """Of what the caller may see, and nothing else; the SQL condition says the same."""
    lines = tuple((line, scope) for line in History().lineage(None, len(crowd.columns) - 1))
    query = RecallQuery(
        text="row",
        lines=lines,
        now=START,
        valid_at=START,
        top_k=1_000,
        owner=owner,
        agent=agent,
        vector_leg=False,
    )
    wanted = [
        key
        for key, row in enumerate(crowd.columns)
        if scope.allows(row) and owner in (None, row.owner) and agent in (None, row.principal_agent)
    ]
    assert sorted(hit.index for hit in search(crowd.view, query)) == wanted
    where = f"key >= 0 AND {query_condition(query)} AND {access_condition(scope)}"
    assert sorted(crowd.view.table.read(where, ("key",))["key"].to_pylist()) == wanted


@settings(max_examples=60)
@given(history=histories(), data=st.data())
def test_search_sees_what_a_fold_sees(history: History, data: st.DataObject) -> None:
    """On any branch, as of any index and valid at any time, search sees the folded memories."""
    branch = data.draw(st.sampled_from(sorted(history.branches)))
    as_of = data.draw(st.integers(-1, history.head()) | st.just(NO_LIMIT))
    now = history.time(data.draw(st.integers(-5, 45)))
    valid_at = history.time(data.draw(st.integers(-5, 45)))
    owner = data.draw(st.sampled_from((ALICE, BOB)))
    scope = AccessScope(owners=frozenset({owner}), user=owner)
    lineage = history.lineage(branch, as_of)
    states = current(fold_slice(history.events(), lineage), now, valid_at)
    words = "red kite blue boat 上海 天气"
    expected = {
        state.memory_id: state.index
        for state in states
        if scope.allows(state.columns)
        and state.payload is not None
        and any(word in _searched(state.payload) for word in words.split())
    }
    query = RecallQuery(
        text=words,
        lines=tuple((line, scope) for line in lineage),
        now=now,
        valid_at=valid_at,
        top_k=50,
    )
    with TemporaryDirectory() as folder:
        view = posted(Path(folder), history)
        found = {hit.memory_id: hit.index for hit in search(view, query)}
        assert found == expected


def _searched(payload: Any) -> str:
    return str(payload.content)


TIMES = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29)).map(
    lambda time: time.replace(tzinfo=START.tzinfo)
)


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"))


@settings(max_examples=30)
@given(time=TIMES, text=TEXTS)
def test_literals_are_exact(time: datetime, text: str) -> None:
    """Any time to the microsecond and any text compare equal to themselves only."""
    history = History()
    history.remembered("row", valid_from=time, source=text)
    with TemporaryDirectory() as folder:
        view = posted(Path(folder), history)

        def holds(condition: str) -> bool:
            found = view.table.read(f"key >= 0 AND {condition}", ("key",))
            return len(found) == 1

        instant = timedelta(microseconds=1)
        assert holds(f"valid_from = {time_literal(time)}")
        assert not holds(f"valid_from < {time_literal(time)}")
        assert not holds(f"valid_from <= {time_literal(time - instant)}")
        assert holds(f"source = {text_literal(text)}")
        assert not holds(f"source = {text_literal(text + 'x')}")
