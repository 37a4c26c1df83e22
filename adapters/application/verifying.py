"""Whether what a fact rests on is there, visible to the caller, and bears it out."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from memoriale.adapters.application.branching import BranchView, branch_scope
from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.adapters.postgres.entries import rows_at
from memoriale.domain.access import AccessScope, is_anothers_in_session
from memoriale.domain.events import RecordedEvent
from memoriale.domain.keys import Subject
from memoriale.domain.principal import Principal
from memoriale.domain.record import Columns, Row
from memoriale.domain.resources.facts import MemoryFact, SourceRef, Verification
from memoriale.domain.stores.semantic import bears_out

MOST_AT_ONCE: Final = 1_000
"""Entries that are looked up in one round trip."""


class Verifying:
    """
    Looks the sources of facts up in one tenant's memory log, as of the call.

    An entry is visible to who may see the memory that it belongs to, and to the resource in
    whose name its session was run.

    Args:
        log: The memory log.
    """

    def __init__(self, log: TenantLog) -> None:
        self._log = log

    def check(
        self, principal: Principal, branch: BranchView, facts: Sequence[MemoryFact]
    ) -> list[Verification]:
        """
        What became of each fact's source.

        Args:
            principal: Who asks.
            branch: As which branch sees them.
            facts: With their sources and evidence.
        """
        entries = self._entries(principal, branch, facts)
        return [_found(fact, entries) for fact in facts]

    def _entries(
        self, principal: Principal, branch: BranchView, facts: Sequence[MemoryFact]
    ) -> dict[SourceRef, RecordedEvent]:
        wanted = list(dict.fromkeys(f.source_ref for f in facts if f.source_ref is not None))
        sight = _Sight(self._log, principal, branch)
        found: dict[SourceRef, RecordedEvent] = {}
        for start in range(0, len(wanted), MOST_AT_ONCE):
            sources = wanted[start : start + MOST_AT_ONCE]
            rows = rows_at(self._log.reader, [source.entry_index for source in sources])
            sessions = {s: self._session(s) for s in dict.fromkeys(x.sandbox_id for x in sources)}
            seen = {
                source: row
                for source in sources
                if (row := rows.get(source.entry_index)) is not None
                and sight.shows(row, sessions[source.sandbox_id])
            }
            distinct = {row.recorded.index: row for row in seen.values()}
            events = {e.index: e for e in self._log.mapper.decode(list(distinct.values()))}
            found |= {source: events[row.recorded.index] for source, row in seen.items()}
        return found

    def _session(self, session: str) -> UUID | None:
        key = self._log.identities.find(Subject("session", session))
        return None if key is None else key.pseudonym


def _found(fact: MemoryFact, entries: dict[SourceRef, RecordedEvent]) -> Verification:
    if fact.source_ref is None:
        return Verification.UNSOURCED
    entry = entries.get(fact.source_ref)
    if entry is None or entry.event.body is None:
        return Verification.NOT_FOUND
    if fact.evidence is None:
        return Verification.LINKED
    if bears_out(entry.event, fact.evidence):
        return Verification.VERIFIED
    return Verification.EVIDENCE_ABSENT


class _Sight:
    """What a caller sees: on main as itself, and on a branch also what that inherits."""

    def __init__(self, log: TenantLog, principal: Principal, branch: BranchView) -> None:
        self._main = log.log_id
        self._own = log.identities.scope(principal)
        self._inherited = branch_scope(self._own, branch)
        self._limits = {line.branch: line.limit for line in branch.lineage()}

    def shows(self, row: Row, session: UUID | None) -> bool:
        """Whether a row is an entry of the session that the caller may see."""
        columns, branch = row.columns, row.columns.branch
        if branch == self._main and _is_visible(columns, session, self._own):
            return True
        inside = branch is not None and row.recorded.index <= self._limits.get(branch, -1)
        return inside and _is_visible(columns, session, self._inherited)


def _is_visible(columns: Columns, session: UUID | None, scope: AccessScope) -> bool:
    if session is None:
        return False
    own = columns.owner_type == "session" and columns.owner == session
    if not own and columns.principal_session != session:
        return False
    # Who runs a session in the name of a resource leaves its entries to the resource.
    run_by = own and columns.principal_resource in scope.owners
    if run_by and not is_anothers_in_session(columns, scope.user):
        return True
    return scope.allows(columns)
