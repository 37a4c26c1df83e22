"""What a handle shows of memories: one, its history, and pages of them."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from memoriale.adapters.application.branching import BranchView
from memoriale.adapters.application.global_memories import main_of
from memoriale.adapters.application.presenting import (
    HistoryEntry,
    MemoryPage,
    MemoryRecord,
)
from memoriale.adapters.application.reading import AsOf, Pin
from memoriale.adapters.composition import Tenant
from memoriale.adapters.library.bound import Bound
from memoriale.domain.access import GLOBAL_SCOPE
from memoriale.domain.branches import NO_LIMIT
from memoriale.domain.errors import InputError
from memoriale.domain.fields import parse_id, several
from memoriale.domain.memory import MemoryState
from memoriale.domain.principal import Right
from memoriale.domain.values import check_whole

History = list[HistoryEntry]

MAX_PAGE: Final = 1_000


class Looking(Bound):
    """The part of ``Memory`` that shows memories."""

    def show(
        self, memory_id: UUID | str, *, as_of: AsOf = None, all_owners: bool = False
    ) -> MemoryRecord:
        """
        One memory as the branch sees it, current or not.

        Args:
            memory_id: Its id.
            as_of: As then: an index or a time.
            all_owners: Whoever's it is; right ``audit``, and what people wrote only with
                ``content`` too.
        """
        scope, text = self._reader_scope("show", all_owners)
        branch, pin = self._resolved(), self.services.reading.pin(as_of)
        found = parse_id("memory_id", memory_id)
        presenter, shared = self._presenter(branch, scope), None
        try:
            state = self.services.reading.memory(found, branch, scope, pin.limit)
        except InputError as error:
            shared = self._shared_or(error, pin)
            presenter, main = self._global_presenter(shared), main_of(shared)
            state = shared.reading.memory(found, main, GLOBAL_SCOPE, pin.global_limit)
        record = presenter.memory(state)
        if not text:
            return record.without_text()
        self._looked("show", found, [state.index], pin, branch, shared is not None)
        return record

    def history(
        self, memory_id: UUID | str, *, as_of: AsOf = None, all_owners: bool = False
    ) -> History:
        """Every version of a memory, oldest first; arguments as for ``show``."""
        scope, text = self._reader_scope("history", all_owners)
        branch, pin = self._resolved(), self.services.reading.pin(as_of)
        found = parse_id("memory_id", memory_id)
        presenter, shared = self._presenter(branch, scope), None
        try:
            events = self.services.reading.history(found, branch, scope, pin.limit)
        except InputError as error:
            shared = self._shared_or(error, pin)
            presenter, main = self._global_presenter(shared), main_of(shared)
            events = shared.reading.history(found, main, GLOBAL_SCOPE, pin.global_limit)
        entries = presenter.history(events)
        if not text:
            return [entry.without_text() for entry in entries]
        versions = [entry.index for entry in entries]
        self._looked("history", found, versions, pin, branch, shared is not None)
        return entries

    def _shared_or(self, error: InputError, pin: Pin) -> Tenant:
        """The services of global memories, where the id that is not the tenant's may be one."""
        shared = self.services.shared
        services = None if shared is None or pin.global_index is None else shared.find()
        if services is None or error.code != "unknown_memory":
            raise error
        return services

    def _looked(
        self,
        command: str,
        memory_id: UUID,
        versions: Sequence[int],
        pin: Pin,
        branch: BranchView,
        is_global: bool,
    ) -> None:
        self.given(
            command,
            [(memory_id, version) for version in versions],
            index=pin.index,
            as_of=pin.index if pin.pinned else None,
            branch=branch,
            global_index=pin.global_index,
            shared=(memory_id,) if is_global else (),
        )

    def list(
        self,
        *,
        limit: int = 50,
        after: int = -1,
        kinds: Sequence[str] = (),
        namespace: str | None = None,
        tags: Sequence[str] = (),
        as_of: AsOf = None,
        valid_at: datetime | str | None = None,
        wait: float | None = None,
        strict: bool = False,
    ) -> MemoryPage:
        """
        A page of the current memories that the principal may see, in the order in which they
        were made, and global ones after all others. Each memory is met once on a walk through
        the pages.

        Args:
            limit: How many at most, 1..1000.
            after: ``next`` of the page before; -1 for the first.
            kinds, namespace, tags, as_of, valid_at, wait, strict: As for ``recall``.

        Returns:
            ``memories``, and ``next``: None when there are no more.
        """
        from memoriale.adapters.application.recalling import Question

        self.allow("list", Right.USE)
        check_whole("limit", limit, 1, MAX_PAGE)
        check_whole("after", after, -1, NO_LIMIT)
        question = Question(
            query="every memory",
            top_k=limit,
            kinds=several("kinds", kinds),
            namespace=namespace or self.principal.namespace,
            tags=several("tags", tags),
            as_of=as_of,
            valid_at=valid_at,
            wait=self._settings.wait if wait is None else wait,
            strict=strict,
        )
        branch = self._resolved()
        page = self.services.recalling.page(self.principal, branch, question, after)
        self.given(
            "list",
            ((state.memory_id, state.index) for state in (*page.states, *page.shared)),
            index=page.index,
            as_of=as_of,
            behind=page.behind,
            branch=branch,
            global_index=page.global_index,
            shared={state.memory_id for state in page.shared},
        )
        scope = self.services.log.identities.scope(self.principal)
        presenter = self._presenter(branch, scope)
        return MemoryPage(
            memories=(
                *(presenter.memory(state) for state in page.states),
                *self._global_records(page.shared),
            ),
            next=page.next,
            index=page.index,
            behind=page.behind,
            global_index=page.global_index,
        )

    def _global_records(self, states: Sequence[MemoryState]) -> Iterable[MemoryRecord]:
        services = None if self.services.shared is None else self.services.shared.find()
        if services is None or not states:
            return ()
        presenter = self._global_presenter(services)
        return (presenter.memory(state) for state in states)
