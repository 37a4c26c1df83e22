"""Where a memory comes from, read from the log alone."""

from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from memoriale.adapters.application.branching import BranchView
from memoriale.adapters.application.presenting import Presenter, as_json
from memoriale.adapters.application.reading import Reading, hidden_of
from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.adapters.postgres.replacements import replaced_rows
from memoriale.domain.access import AccessScope
from memoriale.domain.events import (
    ContentHeader,
    InvalidatedHeader,
    ReasonCode,
    RecordedEvent,
)
from memoriale.domain.keys import Subject
from memoriale.domain.memory import MemoryState


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionOrigin:
    """
    Where one version comes from: the event with its append (first and last index), who did it on
    whose behalf, why, and which model with which prompt, if any.
    """

    index: int
    append: tuple[int, int]
    event: str
    recorded_at: datetime
    branch: str
    actor: Subject | None
    actor_kind: str
    authentication: str
    on_behalf_of: Subject | None
    reason: str | None
    reason_code: str | None
    source_tier: str | None
    model: str | None
    prompt_version: str | None


@dataclass(frozen=True, slots=True)
class Superseded:
    """A memory that ended because another one took its place; ``index`` is where it ended."""

    memory_id: UUID
    reason_code: str
    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """
    Where a memory comes from.

    ``source_tier`` to ``run`` are those of its present text: who or what it was taken from, the
    references that it rests on, and model, prompt and run that made it. ``superseded`` are the
    memories whose place it took, ``made_from`` those that it was put together from.
    """

    memory_id: UUID
    kind: str
    status: str
    content: str | None
    owner: Subject | None
    source_tier: str | None
    source: str | None
    evidence: tuple[str, ...]
    model: str | None
    prompt_version: str | None
    run: str | None
    superseded: tuple[Superseded, ...]
    superseded_by: UUID | None
    reason_code: str | None
    made_from: tuple[UUID, ...]
    versions: tuple[VersionOrigin, ...]

    def without_text(self) -> "Explanation":
        """The same without anything that people wrote."""
        versions = tuple(replace(version, reason=None) for version in self.versions)
        return replace(self, content=None, source=None, evidence=(), versions=versions)

    def as_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {f.name: as_json(getattr(self, f.name)) for f in fields(self)}


class Explaining:
    """
    Explains memories of one tenant.

    Args:
        log: The memory log.
        reading: Reads of it.
    """

    def __init__(self, log: TenantLog, reading: Reading) -> None:
        self._log = log
        self._reading = reading

    def explain(
        self,
        memory_id: UUID,
        branch: BranchView,
        scope: AccessScope,
        limit: int,
        presenter: Presenter,
    ) -> Explanation:
        """
        A memory as a branch sees it, with where it comes from.

        Args:
            memory_id: Which.
            branch: As which branch sees it.
            scope: What the caller may see.
            limit: Index of the last event that counts.
            presenter: Puts names in place of pseudonyms.

        Raises:
            InputError: ``unknown_memory``.
        """
        events = self._reading.history(memory_id, branch, scope, limit)
        state = self._reading.memory(memory_id, branch, scope, limit)
        record = presenter.memory(state)
        versions = _versions(events, presenter)
        written = [version for version in versions if version.source_tier is not None]
        superseded = self._superseded(state, events, branch, scope, limit)
        run = state.columns.source_run
        names = self._log.identities.names([run])
        return Explanation(
            memory_id=memory_id,
            kind=record.kind,
            status=record.status,
            content=record.content,
            owner=record.owner,
            source_tier=record.source_tier,
            source=record.source,
            evidence=record.evidence,
            model=written[-1].model if written else None,
            prompt_version=written[-1].prompt_version if written else None,
            run=names[run].id if run in names else None,
            superseded=superseded,
            superseded_by=record.replaced_by,
            reason_code=record.reason_code,
            made_from=_made_from(state, superseded),
            versions=versions,
        )

    def _superseded(
        self,
        state: MemoryState,
        events: list[RecordedEvent],
        branch: BranchView,
        scope: AccessScope,
        limit: int,
    ) -> tuple[Superseded, ...]:
        appends = [(e.recorded.append_first, e.recorded.append_last) for e in events]
        rows = replaced_rows(self._log.reader, state.memory_id, state.columns, appends)
        limits = {line.branch: line.limit for line in branch.lineage(limit)}
        found = []
        for row in rows:
            columns, index = row.columns, row.recorded.index
            header = InvalidatedHeader.model_validate_json(row.header)
            seen = columns.branch in limits and index <= limits[columns.branch]
            if seen and header.replaced_by == state.memory_id:
                assert columns.memory_id is not None
                found.append(Superseded(columns.memory_id, header.reason_code.value, index))
        hidden = hidden_of(self._log, [one.memory_id for one in found], scope)
        return tuple(one for one in found if one.memory_id not in hidden)


def _versions(events: list[RecordedEvent], presenter: Presenter) -> tuple[VersionOrigin, ...]:
    found = []
    for recorded, entry in zip(events, presenter.history(events), strict=True):
        header, place = recorded.event.header, recorded.recorded
        written = header if isinstance(header, ContentHeader) else None
        tier = None if written is None else written.source_tier
        found.append(
            VersionOrigin(
                index=entry.index,
                append=(place.append_first, place.append_last),
                event=entry.event,
                recorded_at=entry.recorded_at,
                branch=entry.branch,
                actor=entry.actor,
                actor_kind=entry.actor_kind,
                authentication=entry.authentication,
                on_behalf_of=entry.on_behalf_of,
                reason=entry.reason,
                reason_code=entry.reason_code,
                source_tier=None if tier is None else tier.value,
                model=None if written is None else written.model,
                prompt_version=None if written is None else written.prompt_version,
            )
        )
    return tuple(found)


def _made_from(state: MemoryState, superseded: tuple[Superseded, ...]) -> tuple[UUID, ...]:
    """What its payload names, and what was merged into it."""
    named: tuple[UUID, ...] = getattr(state.payload, "made_from", ())
    merged = (s.memory_id for s in superseded if s.reason_code == ReasonCode.CONSOLIDATED)
    return tuple(dict.fromkeys((*named, *merged)))
