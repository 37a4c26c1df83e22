"""Random histories: the recall view equals a fold of the log, however the log is cut."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

import numpy
from hypothesis import given, settings
from hypothesis import strategies as st

from memoriale.adapters.embeddings.hashing import HashEmbedder
from memoriale.domain.memory import MemoryState, project_memory
from memoriale.projections.recall.schema import OPEN
from memoriale.projections.recall.versions import passage_texts, search_text
from tests.fixtures.events import ALICE, BOB, History
from tests.integration.test_recall_view import posted, rows

CHANGES = (
    *("remember", "correct", "restate", "amend", "span", "invalidate", "reinstate"),
    *("fork", "deny"),
)


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Random events of up to six memories on up to three branches, some erased."""
    history = History()
    branches = [history.main]
    for _ in range(draw(st.integers(1, 14))):
        change = draw(st.sampled_from(CHANGES))
        branch = draw(st.sampled_from(branches))
        seen = [m for m in history.memories if history.sees(m, branch)]
        if change == "fork":
            if len(branches) < 3:
                at = draw(st.integers(-1, history.head() - 1))
                branches.append(history.forked(f"b{len(branches)}", parent=branch, at=at))
        elif change == "deny":
            history.denied()
        elif change == "remember" or not seen:
            if len(history.memories) < 6:
                _remember(draw, history, branch)
        else:
            _change(draw, history, change, draw(st.sampled_from(seen)), branch)
    for memory_id in history.memories:
        if draw(st.integers(0, 9)) == 0:
            history.erase(memory_id)
    return history


SPEAKERS = st.sampled_from(["Ann", "Bo Li", "!?", "上海人"])
TEXTS = st.sampled_from(["red kite", "blue boat", "上海 天气", "!?", "red boat", "kite, blue"])
TIMES = st.none() | st.integers(-5, 40).map(lambda minutes: History().time(minutes))


def _remember(draw: st.DrawFn, history: History, branch: UUID) -> None:
    kind = draw(st.sampled_from(("note", "fact", "message")))
    since = draw(TIMES)
    until = None if since is None else since + (history.time(7) - history.time(0))
    history.remembered(
        draw(TEXTS),
        kind=kind,
        owner=draw(st.sampled_from((ALICE, BOB))),
        visibility=draw(st.sampled_from(("owner", "tenant"))),
        branch=branch,
        payload={"speaker": draw(SPEAKERS)} if kind == "message" else {},
        importance=draw(st.none() | st.just(0.25)),
        namespace_tags=draw(st.sampled_from(((), (b"\x01" * 16,)))),
        tags=draw(st.sampled_from(((), ("a",), ("a", "b'")))),
        metadata=draw(st.sampled_from(({}, {"k": [1, "v"]}))),
        source=draw(st.none() | st.just("mail")),
        valid_from=since,
        valid_until=until,
        expires_at=draw(TIMES),
    )


def _change(draw: st.DrawFn, history: History, change: str, memory_id: UUID, branch: UUID) -> None:
    if change == "correct":
        history.corrected(memory_id, draw(TEXTS), branch=branch, importance=draw(st.just(0.5)))
    elif change == "restate":
        tags = draw(st.sampled_from((None, (), ("again",))))
        history.restated(memory_id, draw(TEXTS), branch=branch, tags=tags)
    elif change == "amend":
        history.amended(memory_id, branch=branch, tags=("new",), metadata={"m": draw(TEXTS)})
    elif change == "span":
        history.amended(memory_id, branch=branch, valid_from=draw(TIMES), expires_at=draw(TIMES))
    elif change == "invalidate":
        history.invalidated(memory_id, branch=branch)
    else:
        history.reinstated(memory_id, branch=branch)


def folded(history: History) -> dict[int, tuple[MemoryState, int]]:
    """For each event of a memory the state after it, folded anew, and where its version ends."""
    events = [e for e in history.events() if e.columns.memory_id is not None]
    chains: dict[int, list[int]] = {}
    last: dict[tuple[Any, Any], int] = {}
    until: dict[int, int] = {}
    for event in events:
        place = (event.columns.memory_id, event.columns.branch)
        before = last.get(place, event.columns.continues)
        chains[event.index] = [*([] if before is None else chains[before]), event.index]
        if place in last:
            until[last[place]] = event.index
        last[place] = event.index
    states = {}
    for index, chain in chains.items():
        state = project_memory(None, history.events(chain))
        assert state is not None
        states[index] = (state, until.get(index, OPEN))
    return states


@settings(max_examples=50)
@given(history=histories(), size=st.integers(1, 8))
def test_the_view_equals_a_fold_of_the_log(history: History, size: int) -> None:
    """Every version has the columns that folding its memory's events gives, however it is cut."""
    with TemporaryDirectory() as folder:
        view = posted(Path(folder), history, size)
        assert view.position() == history.head()
        found = {row["key"]: row for row in rows(view, *view.table.column_names)}
        expected = folded(history)
        assert found.keys() == expected.keys()
        for key, (state, until) in expected.items():
            check_row(found[key], state, until)


def check_row(row: dict[str, Any], state: MemoryState, until: int) -> None:
    columns, payload = state.columns, state.payload
    assert row["recorded_from"] == state.index
    assert row["recorded_until"] == until
    assert row["memory_id"] == state.memory_id.hex
    assert row["branch"] == str(columns.branch).replace("-", "")
    assert (row["status"], row["kind"]) == (state.status, state.kind)
    assert (row["owner"], row["visibility"]) == (columns.owner.hex, columns.visibility)
    assert row["first_index"] == state.first_index
    assert (row["created_at"], row["recorded_at"]) == (state.created_at, state.changed_at)
    for name in ("continues", "valid_from", "valid_until", "expires_at"):
        assert row[name] == getattr(columns, name), name
    assert (row["importance"], row["confidence"]) == (state.importance, state.confidence)
    assert tuple(row["tags"]) == state.tags
    assert row["source"] == state.source
    assert row["text"] == (None if payload is None else payload.content)
    assert row["speaker"] == getattr(payload, "speaker", None)
    assert row["search_text"] == search_text(payload, columns.valid_from)
    check_vector(row["vector"], passage_texts(payload))


def check_vector(vector: list[float] | None, texts: list[str] | None) -> None:
    (text,) = texts or [""]
    expected = HashEmbedder().embed_query(text)
    if vector is None:
        assert not expected.any()
    else:
        assert numpy.array_equal(numpy.array(vector, dtype=numpy.float32), expected)
