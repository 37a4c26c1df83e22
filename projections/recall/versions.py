"""A version of a memory: the row it has in the table, and the state it stands for."""

import json
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from memoriale.domain.events import SourceTier
from memoriale.domain.memory import MemoryState, Status
from memoriale.domain.payloads import Payload
from memoriale.domain.record import Columns
from memoriale.domain.times import to_utc
from memoriale.projections.recall.schema import OPEN, PASSAGES
from memoriale.projections.recall.words import passages, words

_NIL: Final = UUID(int=0)
_MONTHS: Final = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_PRINCIPALS: Final = (
    "principal_user",
    "principal_agent",
    "principal_team",
    "principal_session",
)
_SPANS: Final = ("valid_from", "valid_until", "expires_at")


class PostedPayload(Payload):
    """The part of any payload that the table keeps."""

    speaker: str | None = None
    role: str | None = None
    caption: str | None = None


@dataclass(slots=True, eq=False)
class Passage:
    """
    The vectors of a content, shared by the versions of a memory that have that content.

    Args:
        texts: What is still to be embedded, passage by passage; None when it was, or when there
            is nothing.
        vector: An array [width] of float32, or None for a text without one.
        rest: The vectors of the passages, flat, when there are several.
        model: The model that made the vectors.
    """

    texts: list[str] | None
    vector: Any = None
    rest: Any = None
    model: str | None = None

    def set(self, vectors: Any, model: str) -> None:
        """
        Takes the vectors [passages, width] of its texts. The vector of several passages is that
        of their mean.
        """
        import numpy

        self.texts = None
        mean = vectors[0] if len(vectors) == 1 else vectors.mean(axis=0)
        length = float(numpy.linalg.norm(mean))
        if not length:
            return
        self.model = model
        if len(vectors) == 1:
            self.vector = mean
        else:
            self.vector = (mean / length).astype(numpy.float32)
            self.rest = vectors.reshape(-1)


@dataclass(slots=True, eq=False)
class Version:
    """
    One memory on one branch between two of its events.

    Args:
        state: The memory as folded up to the event that opened the version.
        passage: What its vector is made from.
        recorded_until: Index of the event that closed it, ``OPEN`` before.
        seq: Index of the event that changed the row last.
    """

    state: MemoryState
    passage: Passage
    recorded_until: int
    seq: int

    @classmethod
    def opened(cls, state: MemoryState, predecessor: "Version | None") -> "Version":
        """The version that an event opened; unchanged content keeps its vector."""
        if predecessor is not None and predecessor.state.payload is state.payload:
            passage = predecessor.passage
        else:
            passage = Passage(passage_texts(state.payload))
        return cls(state, passage, OPEN, state.index)

    @property
    def is_open(self) -> bool:
        """Whether no later event has closed it."""
        return self.recorded_until == OPEN

    def close(self, index: int) -> None:
        """Ends the version at the event that opened the next one."""
        self.recorded_until = self.seq = index

    def row(self) -> dict[str, Any]:
        """The version's values of every column but the vector."""
        state, columns, payload = self.state, self.state.columns, self.state.payload
        return {
            "key": state.index,
            "seq": self.seq,
            "memory_id": state.memory_id.hex,
            "branch": _hex(columns.branch),
            "continues": columns.continues,
            "recorded_from": state.index,
            "recorded_until": self.recorded_until,
            "first_index": state.first_index,
            "status": state.status.value,
            "kind": state.kind,
            "owner": columns.owner.hex,
            "owner_type": columns.owner_type,
            "visibility": columns.visibility,
            **{name: _hex(getattr(columns, name)) for name in _PRINCIPALS},
            "namespace": columns.namespace_tags[-1].hex() if columns.namespace_tags else "",
            "recorded_at": state.changed_at,
            "created_at": state.created_at,
            **{name: getattr(columns, name) for name in _SPANS},
            "importance": state.importance,
            "confidence": state.confidence,
            "source_tier": None if state.source_tier is None else state.source_tier.value,
            "tags": list(state.tags),
            "text": None if payload is None else payload.content,
            "search_text": search_text(payload, columns.valid_from),
            "speaker": getattr(payload, "speaker", None),
            "role": getattr(payload, "role", None),
            "caption": getattr(payload, "caption", None),
            "source": state.source,
            "metadata": json.dumps(state.metadata, ensure_ascii=False) if state.metadata else None,
            "model": self.passage.model,
            PASSAGES: self.passage.rest,
        }


def version_of(row: dict[str, Any], vector: Any) -> Version:
    """
    A version from its row, so that the domain's own fold can continue from it.

    Args:
        row: Values of every column but the vector, those of passages included.
        vector: The row's vector, or None.
    """
    return Version(
        state=_state_of(row),
        passage=Passage(None, vector, row[PASSAGES], row["model"]),
        recorded_until=row["recorded_until"],
        seq=row["seq"],
    )


def passage_texts(payload: Payload | None) -> list[str] | None:
    """
    What the vectors of a memory are made from: its passages, each with the image that belongs
    to it. Who said it is left out: a name would weigh more than what was said.
    """
    if payload is None:
        return None
    caption = getattr(payload, "caption", None)
    texts = [f"{part} {caption}" if caption else part for part in passages(payload.content)]
    return [text for text in texts if text.strip()] or None


def search_text(payload: Payload | None, valid_from: datetime | None) -> str | None:
    """
    What keyword search sees of a memory: a line of words for each passage, each with the words
    of its image and of the date on which it became true.
    """
    if payload is None:
        return None
    shared = words(getattr(payload, "caption", None) or "")
    if valid_from is not None:
        day = to_utc(valid_from)
        shared += words(f"{day.day} {_MONTHS[day.month - 1]} {day.year}")
    return "\n".join(" ".join([*words(part), *shared]) for part in passages(payload.content))


def _state_of(row: dict[str, Any]) -> MemoryState:
    payload = None
    if row["text"] is not None:
        payload = PostedPayload(
            kind=row["kind"],
            content=row["text"],
            speaker=row["speaker"],
            role=row["role"],
            caption=row["caption"],
        )
    return MemoryState(
        memory_id=UUID(row["memory_id"]),
        kind=row["kind"],
        columns=_columns_of(row),
        status=Status(row["status"]),
        # Not kept in the table, and nothing there depends on it.
        version=1,
        first_index=row["first_index"],
        index=row["recorded_from"],
        created_at=row["created_at"],
        changed_at=row["recorded_at"],
        payload=payload,
        importance=row["importance"],
        confidence=row["confidence"],
        source_tier=None if row["source_tier"] is None else SourceTier(row["source_tier"]),
        tags=tuple(row["tags"]),
        metadata=json.loads(row["metadata"]) if row["metadata"] else {},
        source=row["source"],
    )


# The columns that the table does not keep; a fold reads none of them.
_UNKNOWN: Final = Columns(
    event_id=_NIL,
    stream_id=_NIL,
    stream_version=0,
    topic="",
    schema_version=0,
    owner=_NIL,
    owner_type="",
    actor=_NIL,
    actor_kind="",
    authentication="",
    correlation_id=_NIL,
)


def _columns_of(row: dict[str, Any]) -> Columns:
    principals: dict[str, Any] = {name: _uuid(row[name]) for name in _PRINCIPALS}
    spans: dict[str, Any] = {name: row[name] for name in _SPANS}
    return replace(
        _UNKNOWN,
        owner=UUID(row["owner"]),
        owner_type=row["owner_type"],
        visibility=row["visibility"],
        continues=row["continues"],
        memory_id=UUID(row["memory_id"]),
        branch=UUID(row["branch"]),
        kind=row["kind"],
        namespace_tags=(bytes.fromhex(row["namespace"]),) if row["namespace"] else (),
        **principals,
        **spans,
    )


def _hex(value: UUID | None) -> str | None:
    return None if value is None else value.hex


def _uuid(value: str | None) -> UUID | None:
    return None if value is None else UUID(value)
