"""Who was given what: questions of an auditor to the access log."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, Final
from uuid import UUID

from memoriale.adapters.application.access_entries import (
    Access,
    GivenMemory,
    Person,
    Span,
    Told,
)
from memoriale.adapters.application.access_recording import AccessRecorder
from memoriale.adapters.application.global_memories import GlobalMemories
from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.adapters.postgres.access_reading import AccessReader, Change
from memoriale.domain.branches import MAIN, NO_LIMIT
from memoriale.domain.errors import InputError
from memoriale.domain.events import (
    Corrected,
    Denied,
    GivenHeader,
    Invalidated,
    Recalled,
    RecordedEvent,
    Reinstated,
    Restated,
)
from memoriale.domain.keys import PERSON_TYPES, Subject
from memoriale.domain.principal import Principal
from memoriale.domain.record import Columns
from memoriale.domain.values import parse_json_strictly

PAGE: Final = 500
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_GAVE: Final = '"memory_ids"'
"""In the header of an answer that held a memory at all; what is empty is not stored."""
_NOBODY: Final = UUID(int=0)
_ANYBODY: Final = tuple(type_ for type_ in PERSON_TYPES if type_ != "tenant")
_OF_THE_CALLER: Final = ("user", "agent", "resource", "session", "team")


class Accesses:
    """
    Looks through one tenant's access log. Nothing is looked up by index: a question costs one
    pass over the entries of its span, made by the server.

    Args:
        access: The access log.
        memory: The memory log.
        recorder: What waits in it is written first.
        shared: The global memories.
    """

    def __init__(
        self,
        access: TenantLog,
        memory: TenantLog,
        recorder: AccessRecorder,
        shared: GlobalMemories | None = None,
    ) -> None:
        self._access, self._memory, self._recorder = access, memory, recorder
        self._shared = shared
        datastore = access.reader.datastore
        self._reader = AccessReader(datastore, access.log)

    def who_saw(self, memory_id: UUID, span: Span, *, content: bool = False) -> Iterator[Access]:
        """The answers that held a memory, each with that memory alone."""

        def only(access: Access) -> Access | None:
            found = tuple(m for m in access.memories if m.memory_id == memory_id)
            values = {f.name: getattr(access, f.name) for f in fields(access)}
            return Access(**{**values, "memories": found}) if found else None

        entries = self._entries(span, topics=[Recalled.TOPIC], within=str(memory_id))
        shown = (only(a) for page in entries for a in self._shown(page, content))
        return islice((access for access in shown if access is not None), span.limit)

    def what_was_told(self, session: str, span: Span, *, content: bool = False) -> Iterator[Told]:
        """
        The memories given in a session, in order. ``limit`` counts answers, so that ``after`` can
        go on behind the last one.
        """
        sessions = self._pseudonyms(session, ["session"])
        left = span.limit
        for page in self._entries(span, topics=[Recalled.TOPIC], within=_GAVE, sessions=sessions):
            kept = page if left is None else page[:left]
            left = None if left is None else left - len(kept)
            yield from self._told(kept, content)
            if left == 0:
                return

    def by(
        self,
        who: Principal | str | None,
        span: Span,
        *,
        denied: bool = False,
        content: bool = False,
    ) -> Iterator[Access]:
        """All entries, or those of one caller, or the refusals among them."""
        topics = [Denied.TOPIC] if denied else None
        if isinstance(who, Principal):
            asked = self._parts(who)
            persons: set[UUID] | None = set(asked.values())
        else:
            asked = {}
            persons = None if who is None else self._pseudonyms(who, _ANYBODY)
        pages = self._entries(span, topics=topics, persons=persons)
        chosen = ([e for e in page if _made_as(e.columns, asked)] for page in pages)
        return islice((a for page in chosen for a in self._shown(page, content)), span.limit)

    def _entries(
        self,
        span: Span,
        *,
        topics: Sequence[str] | None,
        within: str | None = None,
        sessions: Collection[UUID] | None = None,
        persons: Collection[UUID] | None = None,
    ) -> Iterator[list[RecordedEvent]]:
        self._recorder.flush()
        after, stop = self._bounds(span)
        size = PAGE if span.limit is None else min(PAGE, max(1, span.limit))
        while after + 1 < stop:
            rows = self._reader.entries(
                after=after,
                stop=stop,
                limit=size,
                topics=topics,
                within=within,
                sessions=sessions,
                persons=persons,
            )
            yield self._access.mapper.decode(rows)
            after = rows[-1].recorded.index if len(rows) == size else stop

    def _bounds(self, span: Span) -> tuple[int, int]:
        reader, after, stop = self._access.reader, span.after, self._access.head()
        if span.since is not None:
            before = _placed("since", reader.pin_time, span.since - timedelta(microseconds=1))
            after = max(after, -1 if before is None else before)
        if span.until is not None:
            last = _placed("until", reader.pin_time, span.until)
            stop = min(stop, 0 if last is None else last + 1)
        return after, stop

    def _pseudonyms(self, name: str, types: Sequence[str]) -> set[UUID]:
        """Whoever has an outside id, of some types; an erased one is meant by its pseudonym."""
        keys = [self._access.identities.find(Subject(type_, name)) for type_ in types]
        found = {key.pseudonym for key in keys if key is not None}
        try:
            return found or {UUID(name)}
        except ValueError:
            return found

    def _parts(self, who: Principal) -> dict[str, UUID]:
        """The columns that an entry of this principal has; what is unknown matches nothing."""
        parts: dict[str, Subject | None] = {
            f"principal_{name}": who.identity(name) for name in _OF_THE_CALLER
        }
        parts["actor"] = None if who.actor is None else Subject(who.actor_kind, who.actor)
        if not any(parts.values()):
            parts["actor"] = who.acting()
        keys = {n: self._access.identities.find(s) for n, s in parts.items() if s is not None}
        return {n: _NOBODY if key is None else key.pseudonym for n, key in keys.items()}

    def _shown(self, page: Sequence[RecordedEvent], content: bool) -> Iterator[Access]:
        names = self._names(page)
        for recorded in page:
            yield self._as_access(recorded, names, content)

    def _names(self, page: Sequence[RecordedEvent]) -> dict[UUID, Subject]:
        parts = ("actor", "on_behalf_of", *(f"principal_{name}" for name in _OF_THE_CALLER))
        return self._access.identities.names(
            [getattr(recorded.columns, part) for recorded in page for part in parts]
        )

    def _as_access(
        self, recorded: RecordedEvent, names: dict[UUID, Subject], content: bool
    ) -> Access:
        columns, event = recorded.columns, recorded.event
        details = event.header.model_dump(mode="json", exclude_defaults=True)
        given = event.header if isinstance(event.header, GivenHeader) else None
        for known in ("memory_ids", "versions", "at", "global_places"):
            details.pop(known, None)
        return Access(
            tenant=recorded.recorded.tenant,
            index=recorded.index,
            event=columns.topic,
            recorded_at=recorded.recorded.recorded_at,
            at=None if given is None else _time(given.at),
            command=details.pop("command", None),
            actor=_person(columns.actor, columns.actor_kind, names),
            actor_kind=columns.actor_kind,
            authentication=columns.authentication,
            **_caller(columns, names),
            purpose=columns.purpose,
            branch=self._branch(columns.branch),
            call=columns.correlation_id,
            memories=() if given is None else _memories(given),
            question=getattr(event.body, "question", None) if content else None,
            details=details,
        )

    def _told(self, page: Sequence[RecordedEvent], content: bool) -> Iterator[Told]:
        names = self._names(page)
        changes = {shared: self._changes(page, shared) for shared in (False, True)}
        texts: dict[tuple[UUID, int], str | None] = {}
        for recorded, given in _answers(page):
            columns = recorded.columns
            for memory in _memories(given):
                place = (memory.memory_id, memory.version)
                if content and place not in texts:
                    texts[place] = self._text(*place, memory.is_global)
                # A global memory has one branch, whichever it was asked for on.
                since = [
                    change
                    for change in changes[memory.is_global].get(memory.memory_id, ())
                    if change.index > memory.version
                    and (memory.is_global or change.branch == columns.branch)
                ]
                yield Told(
                    tenant=recorded.recorded.tenant,
                    access=recorded.index,
                    memory_id=memory.memory_id,
                    version=memory.version,
                    rank=memory.rank,
                    at=_time(given.at),
                    command=given.command,
                    actor=_person(columns.actor, columns.actor_kind, names),
                    branch=self._branch(columns.branch) or MAIN,
                    current=_is_current(since),
                    since=_last(since),
                    content=texts.get(place),
                )

    def _changes(self, page: Sequence[RecordedEvent], shared: bool) -> dict[UUID, list[Change]]:
        """What became of the memories of a page, those of the tenant or the global ones."""
        first: dict[UUID, int] = {}
        for _, given in _answers(page):
            for memory in _memories(given):
                if memory.is_global is shared:
                    known = first.get(memory.memory_id, NO_LIMIT)
                    first[memory.memory_id] = min(memory.version, known)
        log = self._log(shared)
        if not first or log is None:
            return {}
        return _by_memory(self._reader.changes(first, log.log))

    def _log(self, shared: bool) -> TenantLog | None:
        services = self._shared.find() if shared and self._shared is not None else None
        return (None if services is None else services.log) if shared else self._memory

    def _branch(self, branch: UUID | None) -> str | None:
        if branch is None:
            return None
        return MAIN if branch == self._memory.log_id else str(branch)

    def _text(self, memory_id: UUID, version: int, shared: bool) -> str | None:
        """What a version said: its own text, or that of the one before which it changes."""
        log = self._log(shared)
        events = [] if log is None else log.mapper.decode(log.reader.memory(memory_id))
        by_index = {event.index: event for event in events}
        event = by_index.get(version)
        while event is not None:
            payload = getattr(event.event.body, "payload", None)
            if payload is not None:
                return str(payload.content)
            branch, before = event.columns.branch, event.index
            earlier = [e for e in events if e.columns.branch == branch and e.index < before]
            continued = event.columns.continues
            event = earlier[-1] if earlier else by_index.get(-1 if continued is None else continued)
        return None


def _made_as(columns: Columns, asked: dict[str, UUID]) -> bool:
    return all(getattr(columns, name) == pseudonym for name, pseudonym in asked.items())


def _answers(page: Sequence[RecordedEvent]) -> Iterator[tuple[RecordedEvent, GivenHeader]]:
    for recorded in page:
        if isinstance(recorded.event.header, GivenHeader):
            yield recorded, recorded.event.header


def _memories(given: GivenHeader) -> tuple[GivenMemory, ...]:
    start = 1 + (given.after_rank or 0)
    both = zip(given.memory_ids, given.versions, strict=True)
    shared = set(given.global_places)
    return tuple(
        GivenMemory(i, version, start + n, n in shared) for n, (i, version) in enumerate(both)
    )


def _by_memory(changes: Sequence[Change]) -> dict[UUID, list[Change]]:
    found: dict[UUID, list[Change]] = {}
    for change in changes:
        found.setdefault(change.memory_id, []).append(change)
    return found


def _is_current(since: Sequence[Change]) -> bool:
    topics = [change.topic for change in since]
    ends = [topic for topic in topics if topic in (Invalidated.TOPIC, Reinstated.TOPIC)]
    replaced = {Corrected.TOPIC, Restated.TOPIC} & {*topics}
    return not replaced and ends[-1:] != [Invalidated.TOPIC]


def _last(since: Sequence[Change]) -> dict[str, Any] | None:
    if not since:
        return None
    change, header = since[-1], parse_json_strictly(since[-1].header)
    return {
        "event": change.topic,
        "index": change.index,
        "recorded_at": change.recorded_at,
        "reason_code": header.get("reason_code"),
        "replaced_by": header.get("replaced_by"),
    }


def _person(pseudonym: UUID, type_: str, names: dict[UUID, Subject]) -> Person:
    subject = names.get(pseudonym)
    return Person(type_ if subject is None else subject.type, subject and subject.id, pseudonym)


def _caller(columns: Columns, names: dict[UUID, Subject]) -> dict[str, Person | None]:
    parts = {name: getattr(columns, f"principal_{name}") for name in _OF_THE_CALLER}
    found = {n: None if p is None else _person(p, n, names) for n, p in parts.items()}
    behalf = columns.on_behalf_of
    return {**found, "on_behalf_of": None if behalf is None else _person(behalf, "user", names)}


def _time(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)


def _placed(field: str, pin: Callable[[datetime], int | None], time: datetime) -> int | None:
    try:
        return pin(time)
    except InputError as error:
        error.field = field
        raise
