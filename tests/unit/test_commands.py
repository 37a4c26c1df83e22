"""What callers may ask for: every field is kept as given or refused by its own name."""

import json
import math
import pickle
from collections.abc import Callable
from dataclasses import fields
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoriale.domain import commands
from memoriale.domain.access import Visibility
from memoriale.domain.commands import (
    MAX_SUPERSEDED,
    UNSET,
    Amend,
    Command,
    Remember,
    amend,
    as_given,
    correct,
    invalidate,
    reinstate,
    remember,
)
from memoriale.domain.errors import InputError
from memoriale.domain.events import ReasonCode, SourceTier
from memoriale.domain.fields import MAX_TAGS, Limits
from memoriale.domain.kinds import OWNER_TYPES
from memoriale.domain.values import canonical_json

ID = UUID("0b0c7c1e-3d55-4f0b-9f6e-6f0f2a3f8c11")
OTHER = UUID("5f0d7c1e-3d55-4f0b-9f6e-6f0f2a3f8c12")
LIMITS = Limits(max_content_bytes=100, max_value_bytes=50)
ROME = timezone(timedelta(hours=1))
NOON = datetime(2026, 3, 1, 12, tzinfo=ROME)

NO_TEXTS: list[Any] = [5, True, b"bytes", ["text"], {"a": 1}, 0, False]
BAD_TEXTS: list[Any] = [*NO_TEXTS, "", " \n", "a\x00b", "\ud800", "x" * 51]
BAD_IDS: list[Any] = [*NO_TEXTS, "", "a\x00", "\ud800", "é" * 129]
BAD_UUIDS: list[Any] = ["", "abc", str(ID)[:-1], 5, 0, b"0" * 16, [ID], "\x00", "\ud800"]
BAD_CODES: list[Any] = ["", "two words", "é", "x" * 65, "a\n", 5, True, ["a"], 0]
BAD_NUMBERS: list[Any] = [-0.1, 1.1, math.nan, math.inf, True, False, "0.5", [0.5], ""]
BAD_TIMES: list[Any] = ["soon", "", 5, True, date(2026, 3, 1), ["2026-03-01T00:00:00Z"]]
NAIVE: list[Any] = [datetime(2026, 3, 1), "2026-03-01T09:30:00", "2026-03-01"]
BAD_CHOICES: list[Any] = ["", "other", "OWNER", 5, True, ["user"], {}, 0]
BAD_LISTS: list[Any] = [5, True, object(), {"a": 1}, {"a", "b"}, b"ab"]
BAD_METADATA: list[Any] = [
    *([], "{}", 5, {1: "a"}, {"a": math.nan}, {"a": [math.inf]}, {"a": "\x00"}),
    *({"a": {"b": "\ud800"}}, {"a": 2**53}, {"a": b""}, {"a": "x" * 50}),
]

COMMON: dict[str, list[Any]] = {
    "reason": BAD_TEXTS,
    "idempotency_key": BAD_IDS,
    "correlation_id": BAD_UUIDS,
    "causation_id": BAD_UUIDS,
}
REMEMBER: dict[str, list[Any]] = {
    **COMMON,
    "kind": ["poem", "", "Note", 5, ["note"], {}],
    "owner": [*BAD_CHOICES, "tenant", "service"],
    "subject": BAD_TEXTS,
    "details": [5, "abc", [], {"a": float("nan")}, {"content": "x"}, {"unheard": 1}],
    "supersedes": [*BAD_LISTS, "abc", ["abc"], [5], [ID] * (MAX_SUPERSEDED + 1)],
    "importance": BAD_NUMBERS,
    "confidence": BAD_NUMBERS,
    "tags": [*BAD_LISTS, "one", [""], [5], ["x" * 51], [str(n) for n in range(MAX_TAGS + 1)]],
    "namespace": [*NO_TEXTS, "", "///", "a\x00", "\ud800", "a/" * 33, "a" * 2049],
    "metadata": BAD_METADATA,
    "visibility": [*BAD_CHOICES, "public"],
    "about": [*BAD_LISTS, "", [""], [5], ["é" * 129], [str(n) for n in range(501)]],
    "valid_from": [*BAD_TIMES, *NAIVE],
    "valid_until": [*BAD_TIMES, *NAIVE],
    "expires_at": [*BAD_TIMES, *NAIVE],
    "created_at": [*BAD_TIMES, *NAIVE],
    "source": BAD_TEXTS,
    "source_tier": [*BAD_CHOICES, "hearsay"],
    "source_run": BAD_IDS,
    "evidence": [*BAD_LISTS, "", [""], [5], ["x" * 51]],
    "retention_class": BAD_CODES,
    "language": BAD_CODES,
    "model": BAD_CODES,
    "prompt_version": BAD_CODES,
    "speaker": BAD_TEXTS,
    "role": BAD_TEXTS,
    "caption": BAD_TEXTS,
}
AMEND: dict[str, list[Any]] = {
    **COMMON,
    **{name: REMEMBER[name] for name in ("importance", "tags", "metadata")},
    **{name: REMEMBER[name] for name in ("valid_from", "valid_until", "expires_at")},
}
KIND_OF = {"subject": "fact", "speaker": "message", "role": "message", "caption": "message"}


def make_remember(**given_: Any) -> Remember:
    kind = next((KIND_OF[name] for name in given_ if name in KIND_OF), "note")
    return remember(LIMITS, "content", **{"kind": kind, **given_})


MAKERS: dict[str, Callable[..., Command]] = {
    "remember": make_remember,
    "correct": lambda **given_: correct(LIMITS, ID, "content", **given_),
    "amend": lambda **given_: amend(LIMITS, ID, **{"importance": 0.5, **given_}),
    "invalidate": lambda **given_: invalidate(LIMITS, ID, **given_),
    "reinstate": lambda **given_: reinstate(LIMITS, ID, **given_),
}
WRONG: dict[str, dict[str, list[Any]]] = {
    "remember": REMEMBER,
    "correct": COMMON,
    "amend": AMEND,
    "invalidate": {**COMMON, "because": [*BAD_CHOICES, "boredom"]},
    "reinstate": COMMON,
}
TABLE = [
    pytest.param(command, name, value, id=f"{command} {name} {place}")
    for command, table in WRONG.items()
    for name, values in table.items()
    for place, value in enumerate(values)
]


@pytest.mark.parametrize(("command", "name", "value"), TABLE)
def test_a_wrong_value_is_refused_by_its_field(command: str, name: str, value: Any) -> None:
    """A wrong value of any field is refused with that field, what was given and what is allowed."""
    with pytest.raises(InputError) as refused:
        MAKERS[command](**{name: value})
    error = refused.value
    assert error.field is not None
    assert error.field.partition(".")[0] == name
    assert error.value is not None
    assert error.allowed is not None
    assert json.dumps(error.as_dict(), allow_nan=False)
    error.message.encode()


@pytest.mark.parametrize("command", MAKERS)
def test_the_table_covers_every_field(command: str) -> None:
    """No field of a command is without a list of wrong values."""
    made = MAKERS[command]()
    positional = {"content", "memory_id"}
    assert {f.name for f in fields(made)} - positional == set(WRONG[command])


@pytest.mark.parametrize("command", MAKERS)
@pytest.mark.parametrize("name", ["importanc", "tenant", "", "limits", "\ud800", "x" * 5000])
def test_an_unknown_field_is_refused_with_the_known_ones(command: str, name: str) -> None:
    """A field that a command does not have is refused, with the list of those that it has."""
    with pytest.raises(InputError) as refused:
        MAKERS[command](**{name: "x"})
    error = refused.value
    assert error.code == "unknown_field"
    assert "reason" in error.allowed
    json.dumps(error.as_dict()).encode()


@pytest.mark.parametrize("command", ["correct", "amend", "invalidate", "reinstate"])
@pytest.mark.parametrize("value", [None, *BAD_UUIDS])
def test_a_memory_is_named_by_its_id(command: str, value: Any) -> None:
    """A memory id that is no UUID is refused before anything is looked up."""
    make: Any = getattr(commands, command)
    content = ("content",) if command == "correct" else ()
    changes = {"importance": 0.5} if command == "amend" else {}
    with pytest.raises(InputError) as refused:
        make(LIMITS, value, *content, **changes)
    assert (refused.value.code, refused.value.field) == ("bad_id", "memory_id")
    assert refused.value.allowed == "a UUID"


@pytest.mark.parametrize("content", [None, *NO_TEXTS, "", " \n", "a\x00b", "\ud800", "é" * 51])
@pytest.mark.parametrize("command", ["remember", "correct"])
def test_content_that_cannot_be_stored_is_refused(command: str, content: Any) -> None:
    """Content is text that is not blank, can be stored, and keeps to the limit in bytes."""
    make: Any = getattr(commands, command)
    first = (ID,) if command == "correct" else ()
    with pytest.raises(InputError) as refused:
        make(LIMITS, *first, content)
    assert refused.value.field == "content"


STORABLE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1)


@given(STORABLE.filter(lambda text: text.strip() != ""))
def test_content_is_kept_byte_for_byte(content: str) -> None:
    """Content of any script is kept as given: no normalisation, no trimming."""
    for command in (remember(Limits(), content), correct(Limits(), ID, content)):
        assert command.content.encode() == content.encode()
        assert as_given(command)["content"] == content


@pytest.mark.parametrize("command", MAKERS)
def test_none_means_not_given(command: str) -> None:
    """A field given as None is one that was not given."""
    for name in WRONG[command]:
        if command == "amend" and name not in COMMON:
            continue
        if name == "kind":
            continue
        assert MAKERS[command](**{name: None}) == MAKERS[command](
            **({"kind": KIND_OF[name]} if name in KIND_OF else {})
        )


def test_a_memory_s_fields_are_kept() -> None:
    """Right values are kept: ids parsed, paths normalised, repetitions dropped in order."""
    command = remember(
        LIMITS,
        "content",
        kind="fact",
        owner="user",
        subject="preference:contact",
        supersedes=[str(ID), OTHER],
        importance=1,
        confidence=0.25,
        tags=["b", "a", "b"],
        namespace="/org//team/",
        metadata={"a": [1, True]},
        visibility="team",
        about=["bob", "carol", "bob"],
        source_tier="imported",
        source_run="run-1",
        evidence=["e", "e"],
        correlation_id=str(OTHER),
    )
    assert command == Remember(
        content="content",
        kind="fact",
        owner="user",
        subject="preference:contact",
        supersedes=(ID, OTHER),
        importance=1.0,
        confidence=0.25,
        tags=("b", "a"),
        namespace="org/team",
        metadata={"a": [1, True]},
        visibility=Visibility.TEAM,
        about=("bob", "carol"),
        source_tier=SourceTier.IMPORTED,
        source_run="run-1",
        evidence=("e", "e"),
        correlation_id=OTHER,
    )


@pytest.mark.parametrize("name", ["about", "evidence"])
def test_one_text_is_a_list_of_one(name: str) -> None:
    """A single person or piece of evidence may be given without a list."""
    assert getattr(make_remember(**{name: "bob"}), name) == ("bob",)


@pytest.mark.parametrize("owner", OWNER_TYPES)
def test_a_memory_is_owned_by_any_type_of_owner(owner: str) -> None:
    """Every type of owner can be chosen."""
    assert make_remember(owner=owner).owner == owner


@pytest.mark.parametrize(
    ("kind", "name", "belongs"),
    [
        *[("note", name, belongs) for name, belongs in KIND_OF.items()],
        ("message", "subject", "fact"),
        *[("fact", name, "message") for name in ("speaker", "role", "caption")],
    ],
)
def test_a_field_of_another_kind_is_refused(kind: str, name: str, belongs: str) -> None:
    """A field that belongs to one kind is never silently dropped from another."""
    with pytest.raises(InputError) as refused:
        remember(LIMITS, "content", kind=kind, **{name: "x"})
    assert (refused.value.code, refused.value.field) == ("wrong_kind", name)
    assert name not in refused.value.allowed
    assert getattr(remember(LIMITS, "content", kind=belongs, **{name: "x"}), name) == "x"


@pytest.mark.parametrize("command", ["remember", "amend"])
@pytest.mark.parametrize("until", [NOON, NOON.astimezone(UTC), NOON - timedelta(microseconds=1)])
def test_a_valid_span_ends_after_it_begins(command: str, until: datetime) -> None:
    """A span that is empty or ends before it begins is refused, in whatever command it is given."""
    with pytest.raises(InputError) as refused:
        MAKERS[command](valid_from=NOON, valid_until=until)
    assert (refused.value.code, refused.value.field) == ("bad_span", "valid_until")
    assert MAKERS[command](valid_from=NOON, valid_until=NOON + timedelta(microseconds=1))


@pytest.mark.parametrize("value", [NOON, "2026-03-01T12:00:00+01:00"])
def test_times_keep_the_offset_they_were_given(value: Any) -> None:
    """An offset is part of what was given, so it stands in the arguments of the request."""
    given_ = as_given(make_remember(valid_from=value, expires_at=NOON.astimezone(UTC)))
    assert given_["valid_from"] == "2026-03-01T12:00:00+01:00"
    assert given_["expires_at"] == "2026-03-01T11:00:00+00:00"


@pytest.mark.parametrize("command", MAKERS)
def test_the_arguments_of_a_request_are_json_without_its_ids(command: str) -> None:
    """A request tag is made from every field but those that only link or repeat the request."""
    plain = as_given(MAKERS[command](reason="because"))
    linked = MAKERS[command](
        reason="because", idempotency_key="k", correlation_id=ID, causation_id=OTHER
    )
    assert as_given(linked) == plain
    assert plain["reason"] == "because"
    assert canonical_json(plain) == canonical_json(json.loads(json.dumps(plain)))


@pytest.mark.parametrize("name", ["importance", "tags", "metadata", "valid_from", "expires_at"])
def test_an_amendment_holds_what_was_given_alone(name: str) -> None:
    """A field that is not given stays as it is; one given as empty is emptied."""
    emptied: dict[str, Any] = {"tags": [], "metadata": {}}
    command = amend(LIMITS, ID, **{name: emptied.get(name)})
    kept = {f.name for f in fields(Amend) if getattr(command, f.name) is UNSET}
    assert name not in kept
    assert len(kept) == 5
    assert name in as_given(command)
    assert not kept & set(as_given(command))


@pytest.mark.parametrize("given_", [{}, {"reason": "because"}])
def test_an_amendment_must_change_something(given_: dict[str, Any]) -> None:
    """An amendment without a change is refused, with the fields that could change."""
    with pytest.raises(InputError) as refused:
        amend(LIMITS, ID, **given_)
    assert refused.value.code == "empty"
    assert refused.value.allowed == list(AMEND)[len(COMMON) :]


def test_a_field_left_alone_stays_so_in_another_process() -> None:
    """The mark of a field that was not given survives pickling."""
    command = pickle.loads(pickle.dumps(amend(LIMITS, ID, importance=0.5)))
    assert command.tags is UNSET


@pytest.mark.parametrize("because", [None, *ReasonCode, *(code.value for code in ReasonCode)])
def test_a_memory_is_invalidated_for_a_known_reason(because: Any) -> None:
    """Every reason code may be given; without one the memory is forgotten."""
    given_ = {} if because is None else {"because": because}
    assert invalidate(LIMITS, ID, **given_).because == (because or ReasonCode.FORGOTTEN)
