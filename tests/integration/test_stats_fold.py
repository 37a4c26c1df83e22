"""The stats view equals a fold of the log by the domain's own rules, whatever happened in it."""

import tempfile
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memoriale.domain.branches import NO_LIMIT
from memoriale.domain.events import ReasonCode
from memoriale.domain.memory import MemoryState, project_memory
from memoriale.domain.record import Row
from memoriale.projections.stats.view import StatsView
from tests.contracts.view import eventful_history
from tests.fixtures.events import ALICE, BOB, History
from tests.integration.test_stats_view import mixed_history

COMPARED: Final = (
    "memory_id",
    "branch",
    "version",
    "continues",
    "first_index",
    "topic",
    "status",
    "kind",
    "owner",
    "owner_type",
    "visibility",
    "principal_user",
    "principal_session",
    "recorded_at",
    "created_at",
    "valid_from",
    "valid_until",
    "expires_at",
    "importance",
    "confidence",
    "source_tier",
    "aspect",
    "reason_code",
    "replaced_by",
    "content_length",
    "namespace",
    "source_run",
    "retention_class",
)
RENAMED: Final = {"recorded_at": "changed_at"}
STEPS: Final = (
    *("remember", "correct", "restate", "amend", "invalidate", "reinstate"),
    *("fork", "deny", "span"),
)


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Random events on up to three branches, with random appends."""
    history = History()
    branches = [history.main]
    number = st.integers(0, 999)
    steps = st.lists(st.tuples(st.sampled_from(STEPS), number, number, number), max_size=25)
    for step, memory, branch, value in draw(steps):
        take_step(history, branches, step, memory, branch, value)
    return history


def take_step(
    history: History, branches: list[Any], step: str, memory: int, place: int, value: int
) -> None:
    branch = branches[place % len(branches)]
    seen = [known for known in history.memories if history.sees(known, branch)]
    if step == "fork" and len(branches) < 3 and history.head():
        at = history.head() - 1 - value % 3
        branches.append(history.forked(f"b{len(branches)}", parent=branch, at=max(at, 0)))
    elif step == "deny":
        history.denied()
    elif step == "remember" or not seen:
        remember(history, branch, value)
    else:
        change(history, step, seen[memory % len(seen)], branch, value)


def remember(history: History, branch: Any, value: int) -> None:
    with history.together():
        for number in range(1 + value % 2):
            history.remembered(
                "x" * (value + number),
                branch=branch,
                owner=BOB if value % 3 else ALICE,
                importance=value / 1000 if value % 5 else None,
                confidence=value / 1000 if value % 7 else None,
                expires_at=history.time(value) if value % 4 == 0 else None,
                namespace_tags=(bytes([value % 256]),) if value % 3 == 0 else (),
            )


def change(history: History, step: str, memory: Any, branch: Any, value: int) -> None:
    if step == "correct":
        importance = value / 1000 if value % 2 else None
        history.corrected(memory, "y" * value, branch=branch, importance=importance)
    elif step == "restate":
        importance = value / 1000 if value % 2 else None
        history.restated(memory, "z" * value, branch=branch, importance=importance)
    elif step == "invalidate":
        reason = list(ReasonCode)[value % len(ReasonCode)]
        replaced = memory if value % 2 else None
        history.invalidated(memory, branch=branch, reason_code=reason, replaced_by=replaced)
    elif step == "reinstate":
        history.reinstated(memory, branch=branch)
    elif step == "span":
        until = history.time(value) if value % 3 else None
        history.amended(memory, branch=branch, valid_until=until, tags=("a",))
    else:
        history.amended(memory, branch=branch, importance=value / 1000)


def before(history: History, row: Row) -> Row | None:
    """The row that a memory event goes on from."""
    columns = row.columns
    if columns.continues is not None:
        return history.rows[columns.continues]
    place = (columns.memory_id, columns.branch)
    earlier = history.rows[: row.recorded.index]
    same = [r for r in earlier if (r.columns.memory_id, r.columns.branch) == place]
    return same[-1] if same else None


def folded(history: History, row: Row) -> MemoryState:
    """The memory after this event, folded by the domain from all that came before it."""
    chain = [row]
    while (earlier := before(history, chain[-1])) is not None:
        chain.append(earlier)
    state = project_memory(None, history.decode(chain[::-1]))
    assert state is not None
    return state


def expected(history: History, row: Row) -> dict[str, Any]:
    """What ``memory_versions`` holds for a memory event."""
    state = folded(history, row)
    payload = state.payload
    tags = state.columns.namespace_tags
    found: dict[str, Any] = {"namespace": tags[-1].hex() if tags else ""}
    found["content_length"] = len(payload.content) if payload else None
    place = (row.columns.memory_id, row.columns.branch)
    later = history.rows[row.recorded.index + 1 :]
    same = (r for r in later if (r.columns.memory_id, r.columns.branch) == place)
    following = next(same, None)
    found["recorded_from"] = row.recorded.index
    found["recorded_until"] = following.recorded.index if following else NO_LIMIT
    for name in COMPARED:
        source = state if hasattr(state, RENAMED.get(name, name)) else state.columns
        if name not in found:
            found[name] = getattr(source, RENAMED.get(name, name))
    return found


def check_equals_fold(history: History, size: int) -> None:
    names = ["recorded_from", "recorded_until", *COMPARED]
    with tempfile.TemporaryDirectory() as folder:
        view = StatsView.create(Path(folder))
        for batch in history.batches(0, history.head(), size):
            view.apply(batch, batch.position)
        sql = f"SELECT {', '.join(names)} FROM memory_versions ORDER BY recorded_from"
        found = [dict(zip(names, row, strict=True)) for row in view.query(sql)]
        branches = view.query("SELECT branch, parent, fork_index, owner FROM branches")
        view.close()
    memory_rows = [row for row in history.rows if row.columns.topic.startswith("memory.")]
    wanted = [expected(history, row) for row in memory_rows]
    assert found == [{name: row[name] for name in names} for row in wanted]
    known = history.branches.values() if history.rows else ()
    assert set(branches) == {(b.id, b.parent, b.at, b.owner) for b in known}


@pytest.mark.parametrize("size", [1, 3, 100])
def test_known_histories(size: int) -> None:
    """Histories with memories that go on on branches of branches equal their fold."""
    check_equals_fold(eventful_history(), size)
    check_equals_fold(mixed_history(), size)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(histories(), st.integers(1, 9))
def test_versions_equal_a_fold(history: History, size: int) -> None:
    """Each row of memory_versions is the fold of the memory up to that event, bodies left out."""
    check_equals_fold(history, size)
