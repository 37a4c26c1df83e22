"""What a handle shows of memories: one, its history, and pages of them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from memoriale.adapters.application.presenting import (
    HistoryEntry,
    MemoryPage,
    MemoryRecord,
)
from memoriale.adapters.application.reading import AsOf
from memoriale.adapters.library.bound import Bound
from memoriale.domain.branches import NO_LIMIT
from memoriale.domain.fields import parse_id
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
        state = self.services.reading.memory(found, branch, scope, pin.limit)
        if not text:
            return self._presenter(branch, scope).memory(state).without_text()
        self.given("show", [(found, state.index)], index=pin.index, as_of=as_of, branch=branch)
        return self._presenter(branch, scope).memory(state)

    def history(
        self, memory_id: UUID | str, *, as_of: AsOf = None, all_owners: bool = False
    ) -> History:
        """Every version of a memory, oldest first; arguments as for ``show``."""
        scope, text = self._reader_scope("history", all_owners)
        branch, pin = self._resolved(), self.services.reading.pin(as_of)
        found = parse_id("memory_id", memory_id)
        events = self.services.reading.history(found, branch, scope, pin.limit)
        entries = self._presenter(branch, scope).history(events)
        if not text:
            return [entry.without_text() for entry in entries]
        versions = [(found, entry.index) for entry in entries]
        self.given("history", versions, index=pin.index, as_of=as_of, branch=branch)
        return entries

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
        were made. Each memory is met once on a walk through the pages.

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
            kinds=tuple(kinds),
            namespace=namespace or self.principal.namespace,
            tags=tuple(tags),
            as_of=as_of,
            valid_at=valid_at,
            wait=self._settings.wait if wait is None else wait,
            strict=strict,
        )
        branch = self._resolved()
        page = self.services.recalling.page(self.principal, branch, question, after)
        self.given(
            "list",
            ((state.memory_id, state.index) for state in page.states),
            index=page.index,
            as_of=as_of,
            behind=page.behind,
            branch=branch,
        )
        scope = self.services.log.identities.scope(self.principal)
        presenter = self._presenter(branch, scope)
        return MemoryPage(
            memories=tuple(presenter.memory(state) for state in page.states),
            next=page.next,
            index=page.index,
            behind=page.behind,
        )
