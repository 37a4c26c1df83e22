"""Between events and stored rows: headers in clear, bodies sealed, topics from the allow-list."""

from collections.abc import Mapping, Sequence
from functools import cache
from uuid import UUID

from eventsourcing.domain import DomainEventProtocol
from eventsourcing.persistence import JSONTranscoder, Mapper, StoredEvent
from pydantic import BaseModel

from memoriale.adapters.keys.sealer import Sealer
from memoriale.adapters.postgres.recorder import LedgerStoredEvent
from memoriale.domain.envelope import Erased, SealContext
from memoriale.domain.errors import InputError, UnavailableError
from memoriale.domain.events import Event, NewEvent, RecordedEvent
from memoriale.domain.record import MAX_HEADER_BYTES, Columns, NewRow, Row
from memoriale.domain.topics import KNOWN_TOPICS
from memoriale.domain.values import canonical_json, parse_json_strictly


class LedgerMapper(Mapper[UUID]):
    """
    Seals new events and opens recorded ones.

    A body whose key was destroyed becomes a tombstone: an event with ``body`` None. A topic or
    schema version that this release does not know is refused; no module is ever imported
    because a row names it.
    """

    def __init__(
        self, sealer: Sealer, log_id: UUID, topics: Mapping[str, type[Event]] = KNOWN_TOPICS
    ) -> None:
        super().__init__(transcoder=JSONTranscoder())
        self._sealer = sealer
        self._log_id = log_id
        self._topics = topics

    def to_row(self, new: NewEvent) -> NewRow:
        """
        The row of a new event.

        Raises:
            InputError: The header is over 32 KiB.
        """
        header = canonical_json(new.event.header.model_dump(mode="json", exclude_defaults=True))
        if len(header) > MAX_HEADER_BYTES:
            raise InputError(
                f"the event's header has {len(header)} bytes; at most {MAX_HEADER_BYTES} fit.",
                code="too_long",
                field="header",
                value=f"{len(header)} bytes",
                allowed=f"at most {MAX_HEADER_BYTES} bytes",
            )
        assert new.event.body is not None
        state = self._sealer.seal(
            [_to_json(new.event.body)],
            self._context(new.columns),
            new.sealed_for,
            new.columns.retention_class,
        )
        return NewRow(columns=new.columns, header=header.decode(), state=state)

    def to_stored_event(self, domain_event: DomainEventProtocol[UUID]) -> StoredEvent:
        """The library's seam for writing."""
        assert isinstance(domain_event, NewEvent)
        return LedgerStoredEvent.of(self.to_row(domain_event))

    def to_domain_event(self, stored_event: StoredEvent) -> DomainEventProtocol[UUID]:
        """The library's seam for reading."""
        assert isinstance(stored_event, LedgerStoredEvent)
        assert isinstance(stored_event.row, Row)
        return self.decode([stored_event.row])[0]

    def decode(self, rows: Sequence[Row]) -> list[RecordedEvent]:
        """
        Recorded events of rows, fetching the keys of a batch at once.

        Raises:
            UnavailableError: An unknown topic or a newer schema version (``unknown_topic``), or a
                body that its key does not open (``tampered_state``).
        """
        classes = [self._class_of(row.columns) for row in rows]
        sealed = [(row.state, self._context(row.columns)) for row in rows if row.state is not None]
        opened = self._sealer.open_many(sealed)
        return [
            self._event(cls, row, None if row.state is None else next(opened))
            for cls, row in zip(classes, rows, strict=True)
        ]

    def _event(
        self, cls: type[Event], row: Row, sections: Sequence[bytes | Erased] | None
    ) -> RecordedEvent:
        body = None if sections is None or isinstance(sections[0], Erased) else sections[0]
        try:
            header, opened = _parsed(cls, row.columns.schema_version, row.header, body)
        except (ValueError, InputError) as error:
            # Written from checked models: a changed header, or a kind of another program.
            raise UnavailableError(
                f"event {row.recorded.index} cannot be read: {error}. Verify the log; a kind that "
                "a program registers must be registered here too.",
                code="unreadable_event",
                field="index",
                value=row.recorded.index,
            ) from None
        event = cls.model_construct(header=header, body=opened)
        return RecordedEvent(event=event, columns=row.columns, recorded=row.recorded)

    def _class_of(self, columns: Columns) -> type[Event]:
        cls = self._topics.get(columns.topic)
        if cls is None or columns.schema_version > cls.SCHEMA_VERSION:
            raise UnavailableError(
                f"the log holds topic {columns.topic!r} in schema version "
                f"{columns.schema_version}, which this release does not know; use a newer one.",
                code="unknown_topic",
                field="topic",
                value=columns.topic,
                allowed=sorted(self._topics),
            )
        return cls

    def _context(self, columns: Columns) -> SealContext:
        return SealContext(
            log_id=self._log_id,
            event_id=columns.event_id,
            stream_id=columns.stream_id,
            stream_version=columns.stream_version,
            topic=columns.topic,
            schema_version=columns.schema_version,
        )


def _to_json(body: BaseModel) -> bytes:
    return body.__pydantic_serializer__.to_json(body, exclude_defaults=True)


def _parsed(
    cls: type[Event], version: int, header: str, body: bytes | None
) -> tuple[BaseModel, BaseModel | None]:
    header_model, body_model = _models(cls)
    fields = parse_json_strictly(header)
    if version == cls.SCHEMA_VERSION:
        opened = None if body is None else body_model.model_validate_json(body)
        return header_model.model_validate(fields), opened
    sealed = None if body is None else parse_json_strictly(body)
    for step in range(version, cls.SCHEMA_VERSION):
        fields, sealed = cls.UPCASTERS[step](fields, sealed)
    return (
        header_model.model_validate(fields),
        None if sealed is None else body_model.model_validate(sealed),
    )


@cache
def _models(cls: type[Event]) -> tuple[type[BaseModel], type[BaseModel]]:
    header = cls.model_fields["header"].annotation
    body = cls.model_fields["body"].annotation
    inner = next(part for part in body.__args__ if part is not type(None))  # type: ignore[union-attr]
    assert isinstance(header, type)
    return header, inner
