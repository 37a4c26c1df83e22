"""What callers ask for, checked before anything is looked up or stored."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from pydantic import ValidationError

from memoriale.domain.access import Visibility
from memoriale.domain.errors import InputError
from memoriale.domain.events import ReasonCode, SourceTier
from memoriale.domain.fields import (
    MAX_TAGS,
    Limits,
    at_most,
    choice,
    items,
    optional_code,
    optional_id,
    optional_metadata,
    optional_namespace,
    optional_text,
    optional_time,
    optional_unit,
    parse_id,
    tag_list,
)
from memoriale.domain.kinds import KINDS, OWNER_TYPES
from memoriale.domain.payloads import Payload, payload_model
from memoriale.domain.record import MAX_ID_LIST
from memoriale.domain.text import check_outside_id, check_text, shown
from memoriale.domain.times import check_span, iso
from memoriale.domain.values import check_metadata

MAX_SUPERSEDED: Final = MAX_ID_LIST
PAYLOAD_FIELDS: Final = ("subject", "speaker", "role", "caption")


class Unset:
    """The type of ``UNSET``: a field that an amendment leaves as it is."""

    def __repr__(self) -> str:
        return "UNSET"

    def __reduce__(self) -> str:
        return "UNSET"


UNSET: Final = Unset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What every command may carry. ``reason`` is sealed; the ids link events to their cause."""

    reason: str | None = None
    idempotency_key: str | None = None
    correlation_id: UUID | None = None
    causation_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Remember(Command):
    """
    Make a memory. See ``Memory.remember`` for the meaning of each field; times are aware and
    keep the offset they were given.
    """

    content: str
    kind: str = "note"
    owner: str | None = None
    subject: str | None = None
    supersedes: tuple[UUID, ...] = ()
    importance: float | None = None
    confidence: float | None = None
    tags: tuple[str, ...] = ()
    namespace: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    visibility: Visibility = Visibility.OWNER
    about: tuple[str, ...] = ()
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    expires_at: datetime | None = None
    created_at: datetime | None = None
    source: str | None = None
    source_tier: SourceTier = SourceTier.MANUAL
    source_run: str | None = None
    evidence: tuple[str, ...] = ()
    retention_class: str = "standard"
    language: str | None = None
    model: str | None = None
    prompt_version: str | None = None
    speaker: str | None = None
    role: str | None = None
    caption: str | None = None
    details: dict[str, Any] = field(default_factory=dict)
    """Further fields of the payload of a registered kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Correct(Command):
    """Replace a memory's content."""

    memory_id: UUID
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Amend(Command):
    """Change what is known about a memory, but not its content; ``UNSET`` leaves a field."""

    memory_id: UUID
    importance: float | Unset | None = UNSET
    tags: tuple[str, ...] | Unset = UNSET
    metadata: dict[str, Any] | Unset = UNSET
    valid_from: datetime | Unset | None = UNSET
    valid_until: datetime | Unset | None = UNSET
    expires_at: datetime | Unset | None = UNSET


@dataclass(frozen=True, slots=True, kw_only=True)
class Invalidate(Command):
    """Make a memory no longer current."""

    memory_id: UUID
    because: ReasonCode = ReasonCode.FORGOTTEN


@dataclass(frozen=True, slots=True, kw_only=True)
class Reinstate(Command):
    """Make an invalidated memory current again."""

    memory_id: UUID


def remember(limits: Limits, content: object, /, **given: Any) -> Remember:
    """
    A checked ``Remember``.

    Raises:
        InputError: Names the first field that is wrong.
    """
    _known(Remember, given, "content")
    kind = KINDS.require(given.get("kind", "note")).name
    values: dict[str, Any] = {
        **_common(limits, given),
        "content": check_text("content", content, max_bytes=limits.max_content_bytes),
        "kind": kind,
        "owner": choice("owner", given.get("owner"), OWNER_TYPES),
        "supersedes": tuple(parse_id("supersedes", i) for i in items("supersedes", given)),
        "importance": optional_unit("importance", given),
        "confidence": optional_unit("confidence", given),
        "tags": tag_list(limits, given),
        "namespace": optional_namespace(limits, given.get("namespace")),
        "metadata": optional_metadata(limits, given.get("metadata")),
        "visibility": Visibility(
            choice("visibility", given.get("visibility"), [v.value for v in Visibility])
            or Visibility.OWNER
        ),
        "about": tuple(dict.fromkeys(check_outside_id("about", a) for a in items("about", given))),
        "source_tier": SourceTier(
            choice("source_tier", given.get("source_tier"), [t.value for t in SourceTier])
            or SourceTier.MANUAL
        ),
        "source_run": optional_id("source_run", given),
        "evidence": tuple(
            check_text("evidence", e, max_bytes=limits.max_value_bytes)
            for e in items("evidence", given)
        ),
        "retention_class": optional_code("retention_class", given) or "standard",
        "details": {}
        if given.get("details") is None
        else check_metadata("details", given["details"], max_bytes=limits.max_content_bytes),
    }
    for name in ("subject", "source", "speaker", "role", "caption"):
        values[name] = optional_text(limits, name, given)
    for name in ("language", "model", "prompt_version"):
        values[name] = optional_code(name, given)
    for name in ("valid_from", "valid_until", "expires_at", "created_at"):
        values[name] = optional_time(name, given)
    check_span(values["valid_from"], values["valid_until"])
    for name, most in (
        ("supersedes", MAX_SUPERSEDED),
        ("about", MAX_SUPERSEDED),
        ("evidence", MAX_TAGS),
    ):
        at_most(name, values[name], most)
    command = Remember(**values)
    payload_of(command)
    return command


def payload_of(command: Remember) -> Payload:
    """
    What the memory will hold.

    Raises:
        InputError: A field that memories of the kind do not have, or a wrong value of one.
    """
    model = payload_model(command.kind)
    named = {n: v for n in PAYLOAD_FIELDS if (v := getattr(command, n)) is not None}
    own = [name for name in model.model_fields if name not in ("kind", "content")]
    for name in (*named, *command.details):
        if name not in own:
            raise InputError(
                f"memories of kind {command.kind} have no field {shown(name)!r}.",
                code="wrong_kind",
                field=name if name in named else f"details.{shown(name)}",
                value=shown(name),
                allowed=own,
            )
    try:
        return model(kind=command.kind, content=command.content, **{**command.details, **named})
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(
            f"details of kind {command.kind}: {first['msg']}.",
            code="bad_value",
            field="details." + ".".join(shown(str(part)) for part in first["loc"]),
            value=type(first.get("input")).__name__,
            allowed=first["msg"],
        ) from None


def correct(limits: Limits, memory_id: object, content: object, /, **given: Any) -> Correct:
    """A checked ``Correct``; raises as ``remember`` does."""
    _known(Correct, given, "memory_id", "content")
    return Correct(
        memory_id=parse_id("memory_id", memory_id),
        content=check_text("content", content, max_bytes=limits.max_content_bytes),
        **_common(limits, given),
    )


def amend(limits: Limits, memory_id: object, /, **given: Any) -> Amend:
    """A checked ``Amend``; raises as ``remember`` does, and when nothing would change."""
    _known(Amend, given, "memory_id")
    values: dict[str, Any] = {}
    if "importance" in given:
        values["importance"] = optional_unit("importance", given)
    if "tags" in given:
        values["tags"] = tag_list(limits, given)
    if "metadata" in given:
        values["metadata"] = optional_metadata(limits, given["metadata"])
    for name in ("valid_from", "valid_until", "expires_at"):
        if name in given:
            values[name] = optional_time(name, given)
    check_span(values.get("valid_from"), values.get("valid_until"))
    if not values:
        raise InputError(
            "an amendment must change something.",
            code="empty",
            field="importance",
            allowed=["importance", "tags", "metadata", "valid_from", "valid_until", "expires_at"],
        )
    return Amend(memory_id=parse_id("memory_id", memory_id), **values, **_common(limits, given))


def invalidate(limits: Limits, memory_id: object, /, **given: Any) -> Invalidate:
    """A checked ``Invalidate``; raises as ``remember`` does."""
    _known(Invalidate, given, "memory_id")
    because = choice("because", given.get("because"), [code.value for code in ReasonCode])
    return Invalidate(
        memory_id=parse_id("memory_id", memory_id),
        because=ReasonCode(because or ReasonCode.FORGOTTEN),
        **_common(limits, given),
    )


def reinstate(limits: Limits, memory_id: object, /, **given: Any) -> Reinstate:
    """A checked ``Reinstate``; raises as ``remember`` does."""
    _known(Reinstate, given, "memory_id")
    return Reinstate(memory_id=parse_id("memory_id", memory_id), **_common(limits, given))


def as_given(command: Command) -> dict[str, Any]:
    """
    The arguments of a command as JSON values: what its request tag is made from. One that has
    its default counts as not given.
    """
    ignored = ("idempotency_key", "correlation_id", "causation_id")
    given = {}
    for f in fields(command):
        value = getattr(command, f.name)
        default = f.default_factory() if f.default_factory is not MISSING else f.default
        if f.name not in ignored and value is not UNSET and value != default:
            given[f.name] = _plain(value)
    return given


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _known(command: type[Command], given: Mapping[str, Any], *positional: str) -> None:
    allowed = [f.name for f in fields(command) if f.name not in positional]
    for name in given:
        if name not in allowed:
            raise InputError(
                f"unknown field {shown(name)!r}; known are {', '.join(allowed)}.",
                code="unknown_field",
                field=shown(name),
                allowed=allowed,
            )


def _common(limits: Limits, given: Mapping[str, Any]) -> dict[str, Any]:
    names = ("correlation_id", "causation_id")
    ids = {n: parse_id(n, given[n]) for n in names if given.get(n) is not None}
    return {
        "reason": optional_text(limits, "reason", given),
        "idempotency_key": optional_id("idempotency_key", given),
        **ids,
    }
