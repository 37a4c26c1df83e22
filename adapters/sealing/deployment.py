"""The deployment log: what was sealed of every other log, which keys signed, what was restored."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar
from uuid import UUID, uuid4

from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.adapters.postgres.append import StreamConflictError
from memoriale.adapters.postgres.deployment_reading import streams_about
from memoriale.domain.events import Body, Event, NewEvent
from memoriale.domain.governance import (
    DEPLOYMENT_TENANT,
    CheckpointPublished,
    CheckpointPublishedHeader,
    LedgerRestored,
    LedgerRestoredHeader,
    LogHeader,
)
from memoriale.domain.keys import PersonKey, Subject
from memoriale.domain.record import Columns, Row
from memoriale.domain.values import parse_json_strictly

H = TypeVar("H", bound=LogHeader)

SEALER: Final = Subject("service", "sealer")
"""Who notes what nobody asked for."""
_ATTEMPTS: Final = 64
_AT_ONCE: Final = 1_000
_LOOKED_AT: Final = 32


@dataclass(frozen=True, slots=True)
class KnownLog:
    """
    A log as the deployment log knows it.

    Args:
        tenant: Whose.
        kind: Which of the tenant's logs.
        log_id: Its id.
        incarnation: The last that was noted.
        size: Events that were sealed in it; 0 when it was restored and not sealed since.
        root: Root over them, hexadecimal; None with size 0.
    """

    tenant: str
    kind: str
    log_id: UUID
    incarnation: int
    size: int = 0
    root: str | None = None


class Deployment:
    """
    Reads and writes the deployment log.

    Args:
        open_log: Opens it; called when it is first needed.
    """

    def __init__(self, open_log: Callable[[], TenantLog]) -> None:
        self._open_log = open_log

    def note(
        self, events: Sequence[Event], *, actor: Subject = SEALER, reason: str | None = None
    ) -> None:
        """
        Appends events, all or nothing. Those about a log continue its stream.

        Args:
            events: Without bodies; they get one with the reason.
            actor: Who caused them.
            reason: Why; sealed.

        Raises:
            UnavailableError: The database or the key store cannot be used.
        """
        for start in range(0, len(events), _AT_ONCE):
            self._append(events[start : start + _AT_ONCE], actor, reason)

    def last(self, log_id: UUID) -> KnownLog | None:
        """What was noted of a log; with several processes the last event is not the farthest."""
        rows = self._open_log().reader.stream(log_id, desc=True, limit=_LOOKED_AT)
        return max(filter(None, map(_known, rows)), key=_progress, default=None)

    def noted(self, log_id: UUID) -> Iterator[KnownLog]:
        """Everything that was noted of a log, first to last, in bounded memory."""
        reader, version = self._open_log().reader, -1
        while rows := reader.stream(log_id, version, limit=_AT_ONCE):
            yield from filter(None, map(_known, rows))
            version = rows[-1].columns.stream_version

    def restored(self, log_id: UUID) -> list[LedgerRestoredHeader]:
        """Every time that a log came back from a backup, first to last."""
        rows = self._open_log().reader.with_topics([LedgerRestored.TOPIC], -1, None, None)
        headers = [_read(LedgerRestoredHeader, row) for row in rows]
        return [header for header in headers if header is not None and header.log_id == log_id]

    def logs(self) -> Iterator[KnownLog]:
        """Every log that was ever noted, with what was noted farthest; what entries that were
        changed or deleted said of others is for ``verify`` to find."""
        found: dict[UUID, KnownLog] = {}
        for rows in self._open_log().reader.rows_as_stored():
            for known in filter(None, map(_known, rows)):
                before = found.get(known.log_id, known)
                found[known.log_id] = max(before, known, key=_progress)
        return iter(found.values())

    def of_tenant(self, tenant: str) -> list[KnownLog]:
        """The logs of a tenant that were ever noted."""
        log = self._open_log()
        streams = streams_about(log.reader.datastore, log.log, tenant)
        found = filter(None, map(self.last, streams))
        return [known for known in found if known.tenant == tenant]

    def _append(self, events: Sequence[Event], actor: Subject, reason: str | None) -> None:
        log = self._open_log()
        owner = log.identities.key(Subject("tenant", DEPLOYMENT_TENANT))
        by = log.identities.key(actor)
        for attempt in range(_ATTEMPTS):
            versions: dict[UUID, int] = {}
            new = [self._new(event, versions, owner, by, reason) for event in events]
            try:
                log.save(new)
                return
            except StreamConflictError:
                # Another process noted the same log meanwhile.
                if attempt == _ATTEMPTS - 1:
                    raise

    def _new(
        self,
        event: Event,
        versions: dict[UUID, int],
        owner: PersonKey,
        by: PersonKey,
        reason: str | None,
    ) -> NewEvent:
        stream = event.header.log_id if isinstance(event.header, LogHeader) else uuid4()
        if stream not in versions:
            rows = self._open_log().reader.stream(stream, desc=True, limit=1)
            versions[stream] = rows[0].columns.stream_version if rows else 0
        versions[stream] += 1
        columns = Columns(
            event_id=uuid4(),
            stream_id=stream,
            stream_version=versions[stream],
            topic=event.TOPIC,
            schema_version=event.SCHEMA_VERSION,
            owner=owner.pseudonym,
            owner_type=owner.subject.type,
            actor=by.pseudonym,
            actor_kind=by.subject.type,
            authentication="asserted",
            correlation_id=uuid4(),
        )
        made = event.model_copy(update={"body": Body(reason=reason)})
        return NewEvent(made, columns, (owner,))


def _known(row: Row) -> KnownLog | None:
    topic = row.columns.topic
    if topic == CheckpointPublished.TOPIC:
        sealed = _read(CheckpointPublishedHeader, row)
        return None if sealed is None else replace(_log(sealed), size=sealed.size, root=sealed.root)
    if topic == LedgerRestored.TOPIC:
        restored = _read(LedgerRestoredHeader, row)
        return None if restored is None else _log(restored)
    return None


def _read(model: type[H], row: Row) -> H | None:
    """A header; None for one that was changed so that it says nothing, which verify finds."""
    try:
        return model.model_validate(parse_json_strictly(row.header))
    except ValueError:
        return None


def _log(header: LogHeader) -> KnownLog:
    return KnownLog(header.tenant, header.log_kind, header.log_id, header.incarnation)


def _progress(known: KnownLog) -> tuple[int, int]:
    return known.incarnation, known.size
