"""The deployment log: what was sealed of every other log, which keys signed, what was restored."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID, uuid4

from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.adapters.postgres.append import StreamConflictError
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

    def restored(self, log_id: UUID) -> list[LedgerRestoredHeader]:
        """Every time that a log came back from a backup, first to last."""
        rows = self._open_log().reader.with_topics([LedgerRestored.TOPIC], -1, None, None)
        headers = [LedgerRestoredHeader.model_validate(parse_json_strictly(r.header)) for r in rows]
        return [header for header in headers if header.log_id == log_id]

    def logs(self) -> Iterator[KnownLog]:
        """Every log that was ever noted, with what was noted farthest."""
        found: dict[UUID, KnownLog] = {}
        for rows in self._open_log().reader.stream_rows(with_state=False):
            for row in rows:
                known = _known(row)
                if known is not None:
                    before = found.get(known.log_id, known)
                    found[known.log_id] = max(before, known, key=_progress)
        return iter(found.values())

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
        sealed = CheckpointPublishedHeader.model_validate(parse_json_strictly(row.header))
        return replace(_log(sealed), size=sealed.size, root=sealed.root)
    if topic == LedgerRestored.TOPIC:
        return _log(LedgerRestoredHeader.model_validate(parse_json_strictly(row.header)))
    return None


def _log(header: LogHeader) -> KnownLog:
    return KnownLog(header.tenant, header.log_kind, header.log_id, header.incarnation)


def _progress(known: KnownLog) -> tuple[int, int]:
    return known.incarnation, known.size
