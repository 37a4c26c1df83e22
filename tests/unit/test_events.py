"""The events as stored: frozen formats, no free text in clear, no meaning in defaults."""

import enum
import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args
from uuid import UUID

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from memoriale.domain import branch_events, events, governance, holds, payloads, sessions
from memoriale.domain.branch_events import BRANCH_TYPES
from memoriale.domain.events import (
    EVENT_TYPES,
    TOPICS,
    AmendedBody,
    Body,
    Code,
    ContentHeader,
    Event,
    ForkedHeader,
    Header,
    RememberedBody,
    TagText,
)
from memoriale.domain.governance import GOVERNANCE_TYPES
from memoriale.domain.jobs import JOB_TYPES
from memoriale.domain.payloads import Fact, Message, Note, Payload, payload_model
from memoriale.domain.sessions import SESSION_TYPES
from memoriale.domain.topics import BRANCH_TOPICS, GOVERNANCE_TOPICS, JOB_TOPICS, SESSION_TOPICS

WRITTEN = (*EVENT_TYPES, *BRANCH_TYPES, *GOVERNANCE_TYPES, *JOB_TYPES, *SESSION_TYPES)
"""What this release writes."""
GOLDEN = Path(__file__).parents[1] / "golden" / "topics.json"
KINDS_THAT_SHIP = (
    "note",
    "fact",
    "message",
    "profile_field",
    "entity",
    "entity_fact",
    "entity_event",
    "relationship",
    "decision",
    "learning",
    "correction",
    "procedure",
    "summary",
    "file_entry",
    "node",
    "edge",
    "working",
    "semantic",
    "item",
)


def models(base: type[BaseModel]) -> list[type[BaseModel]]:
    """Every stored model of the domain under a base, the base included."""
    found = {
        cls
        for module in (branch_events, events, governance, holds, payloads, sessions)
        for _, cls in inspect.getmembers(module, inspect.isclass)
        if issubclass(cls, base)
    }
    return sorted(found, key=lambda cls: cls.__name__)


def parts(cls: type[Event]) -> tuple[type[Header], type[Body]]:
    """The header and the body model of an event."""
    header = cls.model_fields["header"].annotation
    (body,) = (t for t in get_args(cls.model_fields["body"].annotation) if t is not type(None))
    assert isinstance(header, type)
    return header, body


def schema(model: type[BaseModel]) -> Any:
    """A model's JSON schema without the words that document it."""
    return without_words(model.model_json_schema())


def without_words(node: Any, *, names: bool = False) -> Any:
    """A schema without titles and descriptions; ``names`` where keys are names of fields."""
    if isinstance(node, dict):
        return {
            key: without_words(item, names=key in ("properties", "$defs") and not names)
            for key, item in node.items()
            if names or key not in ("title", "description")
        }
    return [without_words(item) for item in node] if isinstance(node, list) else node


def formats() -> dict[str, dict[str, Any]]:
    """What this release writes: by topic and payload kind, the format by its version."""
    found = {}
    for cls in WRITTEN:
        header, body = parts(cls)
        stored = {"log": cls.LOG, "header": schema(header), "body": schema(body)}
        found[cls.TOPIC] = {str(cls.SCHEMA_VERSION): stored}
    for kind in KINDS_THAT_SHIP:
        model = payload_model(kind)
        found[f"payload {kind}"] = {str(model.FORMAT): schema(model)}
    return found


def texts(node: Any, within: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema of a text inside a schema, with its path."""
    if isinstance(node, dict):
        if node.get("type") == "string":
            yield within, node
        for key, item in node.items():
            yield from texts(item, f"{within}.{key}")
    elif isinstance(node, list):
        for item in node:
            yield from texts(item, within)


@pytest.mark.parametrize("name", sorted(formats()))
def test_a_released_format_never_changes(name: str) -> None:
    """
    What is stored by one schema version never changes: a change needs a new schema version and
    an upcaster, and then a new entry in the golden file beside the old one, never an edit of it.
    """
    golden = json.loads(GOLDEN.read_text())
    for version, stored in formats()[name].items():
        assert golden[name][version] == stored


@pytest.mark.parametrize("kind", KINDS_THAT_SHIP)
def test_a_payload_only_ever_gains_fields(kind: str) -> None:
    """Each form of a payload reads what earlier forms wrote: its new fields may be missing."""
    golden = json.loads(GOLDEN.read_text())[f"payload {kind}"]
    for number in range(1, len(golden)):
        before, now = golden[str(number)], golden[str(number + 1)]
        kept = {name: now["properties"][name] for name in before["properties"]}
        assert kept == before["properties"]
        assert now["required"] == before["required"]


def test_the_golden_file_holds_every_format_ever_released() -> None:
    """A topic that was released stays known in each of its versions, up to the one written now."""
    golden = json.loads(GOLDEN.read_text())
    assert sorted(golden) == sorted(formats())
    for name, versions in formats().items():
        (now,) = versions
        assert sorted(map(int, golden[name])) == list(range(1, int(now) + 1))


@pytest.mark.parametrize("cls", WRITTEN)
def test_every_older_version_has_an_upcaster(cls: type[Event]) -> None:
    """A stored event of any older version can be brought up to the version written now."""
    assert sorted(cls.UPCASTERS) == list(range(1, cls.SCHEMA_VERSION))


def test_topics_are_unique_stable_names() -> None:
    """Each topic is one class, named subject.event without a version, in a known log."""
    topics = {**TOPICS, **BRANCH_TOPICS, **GOVERNANCE_TOPICS, **JOB_TOPICS, **SESSION_TOPICS}
    assert len(topics) == len(WRITTEN)
    for topic, cls in topics.items():
        assert topic == cls.TOPIC
        assert all(part.isidentifier() and part.islower() for part in topic.split("."))
        assert len(topic.split(".")) == 2
        assert cls.LOG in ("memory", "access", "deployment")


@pytest.mark.parametrize("model", models(Header))
def test_headers_hold_no_free_text(model: type[BaseModel]) -> None:
    """Every text of a header is a code, a tag, an id or one of a closed set."""
    for path, text in texts(model.model_json_schema(), model.__name__):
        assert "enum" in text or "pattern" in text or text.get("format") == "uuid", path


@pytest.mark.parametrize("model", models(Header))
def test_headers_hold_whole_numbers_alone(model: type[BaseModel]) -> None:
    """No header has a float, whose text may differ between readers."""
    assert '"number"' not in json.dumps(model.model_json_schema())


@pytest.mark.parametrize("model", [*models(Header), *models(Body), *models(Payload)])
def test_defaults_carry_no_meaning(model: type[BaseModel]) -> None:
    """Defaults are not stored, so each is None, empty or False, and stays so for ever."""
    for name, field in model.model_fields.items():
        if not field.is_required():
            default = field.get_default(call_default_factory=True, validated_data={})
            assert default is None or default is False or default in ((), {}), name


@pytest.mark.parametrize(
    "model", [*models(Header), *models(Body), *models(Payload), *models(Event)]
)
def test_stored_models_are_frozen_and_know_all_their_fields(model: type[BaseModel]) -> None:
    """A stored model cannot be changed in place, and refuses a field that it does not know."""
    assert model.model_config.get("frozen") is True
    assert model.model_config.get("extra") == "forbid"


@pytest.mark.parametrize("value", ["", "free text", "a\n", "é", "x" * 65, "Alice@example"])
def test_a_code_in_a_header_is_no_free_text(value: str) -> None:
    """A code of a header matches the pattern as a whole, a trailing line end included."""
    with pytest.raises(ValidationError):
        TypeAdapter(Code).validate_python(value)


@pytest.mark.parametrize("value", ["", "0" * 31, "0" * 67, "G" * 32, "A" * 32, "0" * 32 + "\n"])
def test_a_tag_in_a_header_is_hexadecimal(value: str) -> None:
    """A tag is 32 to 66 lower-case hexadecimal digits."""
    with pytest.raises(ValidationError):
        TypeAdapter(TagText).validate_python(value)


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        (ContentHeader, {"content_length": -1}),
        (ContentHeader, {"content_length": 1, "importance": 1001}),
        (ContentHeader, {"content_length": 1, "importance": -1}),
        (ContentHeader, {"content_length": 1, "importance": 0.5}),
        (ContentHeader, {"content_length": 1, "source_tier": "hearsay"}),
        (ContentHeader, {"content_length": 1, "note": "free text"}),
        (ForkedHeader, {"parent": UUID(int=1), "at": -2, "scope": "owner"}),
    ],
)
def test_a_header_refuses_values_out_of_range(
    model: type[Header], fields: dict[str, object]
) -> None:
    """Lengths, thousandths, indices and enumerations of a header keep to their range."""
    with pytest.raises(ValidationError):
        model.model_validate(fields)


BODIES: list[Body] = [
    RememberedBody(payload=Note(kind="note", content=" é \n e\u0301 日本 😀 ")),
    RememberedBody(
        payload=Fact(kind="fact", content="x", subject="preference:contact"),
        namespace="org/team",
        tags=("b", "a"),
        metadata={"a": [None, True, 1, 1.0, {"b": ""}], "": {}},
        source="doc-1",
        evidence=("e",),
        given_times={"valid_from": "2026-03-01T09:30:00+01:00"},
        reason="because",
    ),
    RememberedBody(payload=Message(kind="message", content="hi", speaker="A", role="user")),
    AmendedBody(tags=(), metadata={}),
    AmendedBody(),
]


@pytest.mark.parametrize("body", BODIES)
def test_a_body_without_its_defaults_reads_back(body: Body) -> None:
    """A body stored without its defaults is the same body when read, its payload's class too."""
    again = type(body).model_validate_json(body.model_dump_json(exclude_defaults=True))
    assert again == body
    assert again.model_dump_json() == body.model_dump_json()


def test_every_reason_and_tier_is_a_code() -> None:
    """The closed sets of headers are codes themselves, and their order is their rank."""
    for choices in (events.ReasonCode, events.SourceTier):
        assert issubclass(choices, enum.StrEnum)
        for choice in choices:
            assert TypeAdapter(Code).validate_python(choice.value) == choice.value
    tiers = [tier.value for tier in events.SourceTier]
    assert tiers == ["human-correction", "manual", "imported", "llm-extracted", "summary"]
