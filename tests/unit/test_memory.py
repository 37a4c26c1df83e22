"""Folding the events of one memory, in whatever order they come and whatever was erased."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoriale.domain.events import (
    Amended,
    AmendedBody,
    AmendedHeader,
    Body,
    ContentHeader,
    Corrected,
    CorrectedBody,
    Denied,
    DeniedHeader,
    Event,
    Header,
    Invalidated,
    InvalidatedHeader,
    ReasonCode,
    RecordedEvent,
    Reinstated,
    Remembered,
    RememberedBody,
    Restated,
    RestatedBody,
    RestatedHeader,
    SourceTier,
)
from memoriale.domain.memory import MemoryState, Status, project_memory
from memoriale.domain.payloads import Fact
from tests.fixtures.events import START, History

REPLACEMENT = UUID(int=77)
JULY = START + timedelta(days=180)
SPANS = ("valid_from", "valid_until", "expires_at")

FACT = Fact(kind="fact", content="Alice likes tea", subject="drink")
REMEMBERED = Remembered(
    header=ContentHeader(
        content_length=15,
        importance=600,
        confidence=900,
        source_tier=SourceTier.MANUAL,
        aspect="a" * 32,
    ),
    body=RememberedBody(
        payload=FACT,
        namespace="org/team",
        tags=("a", "b"),
        metadata={"n": 1},
        source="doc",
        evidence=("e",),
        given_times={"valid_from": "2026-01-01T01:00:00+01:00", "created_at": "2025-01-01T00Z"},
    ),
)
INVALIDATED = Invalidated(
    header=InvalidatedHeader(reason_code=ReasonCode.SUPERSEDED, replaced_by=REPLACEMENT),
    body=Body(reason="said so"),
)
REINSTATED = Reinstated(header=Header(), body=Body())
DENIED = Denied(header=DeniedHeader(command="verify", right="audit"), body=Body())


def corrected(content: str = "Alice likes coffee", **header: Any) -> Corrected:
    return Corrected(
        header=ContentHeader(content_length=len(content), **{"aspect": "a" * 32, **header}),
        body=CorrectedBody(payload=FACT.model_copy(update={"content": content})),
    )


def amended(*changed: str, importance: int | None = None, **body: Any) -> Amended:
    header = AmendedHeader(changed=changed, importance=importance)
    return Amended(header=header, body=AmendedBody(**body))


def restated(content: str = "Alice likes TEA", **header: Any) -> Restated:
    return Restated(
        header=RestatedHeader(content_length=len(content), **header),
        body=RestatedBody(payload=FACT.model_copy(update={"content": content}), tags=("b", "c")),
    )


@dataclass(frozen=True)
class Step:
    """An event to record, columns that it sets, and whether its key is gone."""

    event: Event
    columns: dict[str, Any] = field(default_factory=dict)
    erased: bool = False


def recorded(steps: Sequence[Step]) -> list[RecordedEvent]:
    """The steps as events of one memory, each at its own index and time."""
    history = History()
    for _ in steps:
        history.denied()
    common = {"memory_id": UUID(int=5), "kind": "fact", "branch": history.main}
    found = []
    for version, (step, at) in enumerate(zip(steps, history.events(), strict=True), 1):
        event = step.event.model_copy(update={"body": None}) if step.erased else step.event
        own = {"topic": event.TOPIC, "stream_version": version, **common, **step.columns}
        found.append(RecordedEvent(event, replace(at.columns, **own), at.recorded))
    return found


def folded(*steps: Step | Event) -> MemoryState:
    made = [step if isinstance(step, Step) else Step(step) for step in steps]
    state = project_memory(None, recorded(made))
    assert state is not None
    return state


def test_a_remembered_memory_has_what_was_recorded() -> None:
    """The first event gives a current memory with all its fields, as of its index and time."""
    state = folded(Step(REMEMBERED, {"valid_from": START, "expires_at": JULY}))
    assert (state.status, state.version, state.first_index, state.index) == ("current", 1, 0, 0)
    assert (state.created_at, state.changed_at) == (START, START)
    assert (state.payload, state.namespace, state.source) == (FACT, "org/team", "doc")
    assert (state.tags, state.metadata, state.evidence) == (("a", "b"), {"n": 1}, ("e",))
    assert (state.importance, state.confidence, state.aspect) == (600, 900, "a" * 32)
    assert (state.columns.valid_from, state.columns.expires_at) == (START, JULY)
    assert state.given_times["valid_from"] == "2026-01-01T01:00:00+01:00"


def test_a_correction_replaces_the_content_alone() -> None:
    """Corrected content keeps tags, metadata, spans, and numbers that it does not give."""
    state = folded(REMEMBERED, corrected(source_tier=SourceTier.HUMAN_CORRECTION))
    first = folded(REMEMBERED)
    assert state.payload == FACT.model_copy(update={"content": "Alice likes coffee"})
    assert state.source_tier is SourceTier.HUMAN_CORRECTION
    kept = ("status", "importance", "confidence", "aspect", "tags", "metadata", "namespace")
    assert all(getattr(state, name) == getattr(first, name) for name in kept)
    assert (state.version, state.index, state.created_at) == (2, 1, first.created_at)
    assert state.changed_at > first.changed_at


def test_restated_content_keeps_what_the_restatement_does_not_give() -> None:
    """The words and all tags are those of the restatement; aspect, source, spans and the numbers
    that it does not give stay; without its key nothing is left."""
    before, after = folded(REMEMBERED), folded(REMEMBERED, restated(importance=900))
    assert after.payload is not None
    assert (after.payload.content, after.tags) == ("Alice likes TEA", ("b", "c"))
    assert (after.importance, after.confidence, after.aspect) == (900, 900, before.aspect)
    assert (after.source_tier, after.source, after.version) == (SourceTier.MANUAL, "doc", 2)
    assert folded(REMEMBERED, Step(restated(), erased=True)).payload is None


def test_a_correction_may_give_new_numbers() -> None:
    """Importance and confidence that a correction gives replace the old ones, 0 included."""
    state = folded(REMEMBERED, corrected(importance=0, confidence=1000))
    assert (state.importance, state.confidence) == (0, 1000)


@pytest.mark.parametrize(
    ("event", "name", "value"),
    [
        (amended("importance", importance=0), "importance", 0),
        (amended("importance"), "importance", None),
        (amended("tags", tags=("c",)), "tags", ("c",)),
        (amended("tags", tags=()), "tags", ()),
        (amended("metadata", metadata={"m": 2}), "metadata", {"m": 2}),
        (amended("metadata", metadata={}), "metadata", {}),
    ],
)
def test_an_amendment_changes_what_it_names(event: Event, name: str, value: object) -> None:
    """An amendment sets or empties the fields that it names and leaves every other one."""
    state, first = folded(REMEMBERED, event), folded(REMEMBERED)
    assert getattr(state, name) == value
    others = {"importance", "tags", "metadata", "payload", "confidence", "source"} - {name}
    assert all(getattr(state, other) == getattr(first, other) for other in others)


def test_an_amendment_that_names_nothing_changes_nothing() -> None:
    """Values that stand beside an amendment and are not named in it are not taken."""
    stray = amended(importance=1, tags=("x",), metadata={"x": 1})
    state = folded(REMEMBERED, Step(stray, {"valid_from": JULY, "expires_at": JULY}))
    first = folded(REMEMBERED)
    for name in ("importance", "tags", "metadata", "given_times"):
        assert getattr(state, name) == getattr(first, name)
    assert (state.columns.valid_from, state.columns.expires_at) == (None, None)


@pytest.mark.parametrize("name", SPANS)
@pytest.mark.parametrize("value", [None, JULY])
def test_an_amendment_moves_the_spans_that_it_names(name: str, value: datetime | None) -> None:
    """A span that is named takes the time of the amending event; the others keep theirs."""
    first = dict.fromkeys(SPANS, START)
    state = folded(Step(REMEMBERED, first), Step(amended(name), {**first, name: value}))
    assert {span: getattr(state.columns, span) for span in SPANS} == {**first, name: value}


def test_a_moved_span_forgets_how_the_old_one_was_given() -> None:
    """The time as given belongs to its value: a new one replaces it, an emptied one drops it."""
    moved = amended("valid_from", given_times={"valid_from": "2026-07-01T02:00:00+02:00"})
    given_times = folded(REMEMBERED, Step(moved, {"valid_from": JULY})).given_times
    assert given_times == {
        "valid_from": "2026-07-01T02:00:00+02:00",
        "created_at": "2025-01-01T00Z",
    }
    emptied = folded(REMEMBERED, amended("valid_from")).given_times
    assert emptied == {"created_at": "2025-01-01T00Z"}


def test_an_invalidated_memory_says_why_and_by_what() -> None:
    """An invalidated memory keeps its content for history, its reason and its replacement."""
    state = folded(REMEMBERED, INVALIDATED)
    assert (state.status, state.reason_code) == (Status.INVALIDATED, ReasonCode.SUPERSEDED)
    assert (state.replaced_by, state.payload) == (REPLACEMENT, FACT)
    assert not state.is_current(START)


def test_a_reinstated_memory_is_current_as_it_was() -> None:
    """Reinstating gives back the memory without the reason why it had ended."""
    state = folded(REMEMBERED, INVALIDATED, REINSTATED)
    first = folded(REMEMBERED)
    assert (state.status, state.reason_code, state.replaced_by) == (Status.CURRENT, None, None)
    assert (state.payload, state.tags, state.version) == (first.payload, first.tags, 3)


@pytest.mark.parametrize("event", [corrected(), amended("tags", tags=("z",))])
def test_a_change_does_not_bring_back_an_invalidated_memory(event: Event) -> None:
    """Only reinstating makes an invalidated memory current again."""
    assert folded(REMEMBERED, INVALIDATED, event).status is Status.INVALIDATED


EVENTS = [
    corrected(),
    amended("importance", "valid_from", importance=1, given_times={"valid_from": "x"}),
    amended("tags", "metadata", tags=("z",), metadata={"z": 1}),
    INVALIDATED,
    REINSTATED,
]


@pytest.mark.parametrize("erased", [REMEMBERED, *EVENTS])
@pytest.mark.parametrize("after", EVENTS)
def test_an_erased_memory_stays_erased(erased: Event, after: Event) -> None:
    """Once a body of a memory is gone, no later event makes it current, and none shows content."""
    before = [] if isinstance(erased, Remembered) else [REMEMBERED]
    state = folded(*before, Step(erased, erased=True), after)
    assert state.status is Status.ERASED
    assert not state.is_current(START)
    assert (state.payload, state.namespace, state.source) == (None, None, None)
    assert (state.tags, state.metadata, state.evidence, state.given_times) == ((), {}, (), {})
    assert state.version == len(before) + 2


def test_the_place_of_the_last_event_is_carried() -> None:
    """A state stands in the stream of its last event, with the owner and principals of its own."""
    stranger = {"owner": UUID(int=8), "principal_user": UUID(int=8), "visibility": "tenant"}
    moved = {"stream_id": UUID(int=9), "branch": UUID(int=10), "continues": 0, "stream_version": 1}
    state = folded(REMEMBERED, Step(INVALIDATED, {**stranger, **moved, "about": (UUID(int=8),)}))
    own = folded(REMEMBERED).columns
    columns = state.columns
    assert (columns.stream_id, columns.branch, columns.continues) == (UUID(int=9), UUID(int=10), 0)
    assert (columns.stream_version, columns.topic) == (1, "memory.invalidated")
    for name in ("owner", "owner_type", "principal_user", "visibility", "about", "kind"):
        assert getattr(columns, name) == getattr(own, name)


def test_changes_to_what_was_never_remembered_are_nothing() -> None:
    """Events without a first one give no memory."""
    assert project_memory(None, recorded([Step(event) for event in [*EVENTS, DENIED]])) is None


def test_events_about_something_else_change_nothing() -> None:
    """An event that is none of a memory's leaves its version and index as they are."""
    assert folded(REMEMBERED, DENIED) == folded(REMEMBERED)


STEPS = st.lists(
    st.builds(Step, st.sampled_from([*EVENTS, DENIED]), erased=st.booleans()), max_size=6
)


@given(STEPS, STEPS, st.booleans())
def test_events_in_any_order_fold_to_the_plain_rules(
    before: list[Step], after: list[Step], erased: bool
) -> None:
    """Status, reason, content and version follow from the order of events and from nothing else."""
    state = folded(*before, Step(REMEMBERED, erased=erased), *after)
    own = [step for step in after if step.event is not DENIED]
    status, reason, content = "current", None, FACT.content
    for step in own:
        if isinstance(step.event, Invalidated):
            status, reason = "invalidated", ReasonCode.SUPERSEDED
        elif isinstance(step.event, Reinstated):
            status, reason = "current", None
        elif isinstance(step.event, Corrected):
            content = "Alice likes coffee"
    gone = erased or any(step.erased for step in own)
    assert (state.version, state.first_index) == (1 + len(own), len(before))
    if gone:
        assert (state.status, state.payload) == (Status.ERASED, None)
        return
    assert (state.status, state.reason_code) == (status, reason)
    assert state.payload is not None
    assert state.payload.content == content


@given(STEPS, st.data())
def test_folding_may_stop_and_go_on(steps: list[Step], data: st.DataObject) -> None:
    """Folding a part and then the rest gives what folding all at once gives."""
    events = recorded([Step(REMEMBERED), *steps])
    cut = data.draw(st.integers(0, len(events)))
    part = project_memory(None, events[:cut])
    assert project_memory(part, events[cut:]) == project_memory(None, events)


@pytest.mark.parametrize(
    ("at", "current"),
    [(JULY - timedelta(microseconds=1), True), (JULY, False), (JULY + timedelta(1), False)],
)
def test_a_memory_is_current_until_it_expires(at: datetime, current: bool) -> None:
    """From the moment of its expiry a memory is no longer current."""
    assert folded(Step(REMEMBERED, {"expires_at": JULY})).is_current(at) == current


@pytest.mark.parametrize(
    ("days", "span", "valid"),
    [
        (0, (0, 2), True),
        (2, (0, 2), False),
        (-1, (0, 2), False),
        (-1, (None, 2), True),
        (9, (0, None), True),
        (9, (None, None), True),
    ],
)
def test_a_valid_span_holds_its_start_and_not_its_end(
    days: int, span: tuple[int | None, int | None], valid: bool
) -> None:
    """A memory is true from the start of its span up to, and not at, its end."""
    since, until = (None if d is None else START + timedelta(days=d) for d in span)
    state = folded(Step(REMEMBERED, {"valid_from": since, "valid_until": until}))
    assert state.is_valid(START + timedelta(days=days)) == valid
