"""Recall: a question answered from the recall view, as of a point of the log."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeVar
from uuid import UUID

from memoriale.adapters.application.branching import BranchView, branch_scope
from memoriale.adapters.application.global_memories import GlobalMemories, main_of
from memoriale.adapters.application.questions import MAX_TOP_K as MAX_TOP_K
from memoriale.adapters.application.questions import Page as Page
from memoriale.adapters.application.questions import Question as Question
from memoriale.adapters.application.questions import Recall as Recall
from memoriale.adapters.application.questions import check_question as check_question
from memoriale.adapters.application.reading import Pin, Reading
from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.adapters.keys import tags as tagging
from memoriale.domain.access import GLOBAL_SCOPE
from memoriale.domain.branches import Line
from memoriale.domain.errors import (
    BehindError,
    MemorialeError,
    UnavailableError,
)
from memoriale.domain.memory import MemoryState
from memoriale.domain.namespaces import normalise_path
from memoriale.domain.principal import Principal
from memoriale.domain.times import parse_time, to_utc
from memoriale.projections.allowance import Allowance, allowance, allowing
from memoriale.projections.disk import is_refused_write

if TYPE_CHECKING:
    from memoriale.adapters.composition import Tenant
    from memoriale.projections.posted import PostedView
    from memoriale.projections.posted import Reading as ViewReading
    from memoriale.projections.recall.query import Hit, RecallQuery
    from memoriale.projections.recall.view import RecallView

T = TypeVar("T")
LEAST_SECONDS: Final = 2.0
"""That a read gives its embedder for the question, and as much for what the view lacks."""
FIRST_GLOBAL: Final = 2**52
"""Where the places of global memories in a walk through pages begin: after all others."""


@dataclass(frozen=True, slots=True)
class _Beside:
    """The view of global memories, and how a question is put to it."""

    services: "Tenant"
    query: "RecallQuery"
    at_least: int
    wait: float

    def run(self, use: "Callable[[ViewReading[RecallView]], T]") -> T:
        view = self.services.view("recall")
        return view.run(use, at_least=self.at_least, wait=self.wait)

    def behind(self, reading: "ViewReading[RecallView] | None") -> int:
        return 0 if reading is None else max(0, self.at_least - reading.position)


class Recalling:
    """
    Answers questions of one tenant.

    Args:
        log: Its memory log.
        reading: Reads of it.
        view: Its recall view.
        shared: The global memories.
    """

    def __init__(
        self,
        log: TenantLog,
        reading: Reading,
        view: "PostedView[RecallView]",
        shared: GlobalMemories | None = None,
    ) -> None:
        self._log = log
        self._reading = reading
        self._view = view
        self._shared = shared

    def recall(self, principal: Principal, branch: BranchView, question: Question) -> Recall:
        """
        The memories that answer a question best, from those that the caller may see.

        Raises:
            InputError: A field of the question is wrong.
            BehindError: ``strict`` and the view did not catch up within ``wait``.
            UnavailableError: Database, view or embedder cannot be used; ``strict`` and the view
                is behind because its disk takes no more.
        """
        check_question(question)
        pin = self._reading.pin(question.as_of)
        branch.branch.require_live(pin.limit)
        query = self._query(principal, branch, question, pin)
        beside = self._beside(question, query, pin)
        found, behind, reading = self._ask(
            question, pin, lambda reading: self._found(query, reading, beside)
        )
        if beside is not None:
            behind += self._lacks(question, beside, found.shared)
        readings = [r for r in (reading, found.shared) if r is not None]
        if found.by_keyword and question.strict:
            raise _lacking_vectors()
        if question.strict and any(r.rebuilding for r in readings):
            raise _rebuilding()
        return Recall(
            hits=tuple(found.hits),
            index=pin.index if pin.pinned else reading.position - 1,
            now=pin.now,
            degraded=_degraded(behind, found.by_keyword, readings),
            behind=behind,
            rebuilt=any(r.rebuilt for r in readings),
            global_index=_last_seen(pin, found.shared),
        )

    def page(
        self, principal: Principal, branch: BranchView, question: Question, after: int
    ) -> Page:
        """
        Memories that the caller may see, in the order in which they were made, and after them
        the global ones.

        Args:
            principal: The caller.
            branch: Where.
            question: Its filters, as-of and ``top_k``; its text plays no part.
            after: ``next`` of the page before; -1 for the first.

        Raises:
            InputError: A field is wrong.
            BehindError: ``strict`` and the view did not catch up within ``wait``.
        """
        from memoriale.projections.recall.listing import page

        check_question(question)
        pin = self._reading.pin(question.as_of)
        branch.branch.require_live(pin.limit)
        query = self._query(principal, branch, question, pin)
        beside = self._beside(question, query, pin)
        found: list[tuple[int, UUID]] = []
        behind = 0
        if after < FIRST_GLOBAL:
            found, behind, _ = self._ask(
                question, pin, lambda reading: page(reading.view, query, after)
            )
        shared: list[tuple[int, UUID]] = []
        room = question.top_k - len(found)
        if beside is not None and room:
            theirs = replace(beside.query, top_k=room)
            start = max(-1, after - FIRST_GLOBAL)
            shared, reading = beside.run(lambda r: (page(r.view, theirs, start), r))
            behind += self._lacks(question, beside, reading)
        places = [*(key for key, _ in found), *(FIRST_GLOBAL + key for key, _ in shared)]
        return Page(
            states=self._folded(found, self._reading, branch, pin.limit),
            next=places[-1] if len(places) == question.top_k else None,
            index=pin.index,
            behind=behind,
            shared=[]
            if beside is None
            else self._folded(
                shared, beside.services.reading, main_of(beside.services), pin.global_limit
            ),
            global_index=pin.global_index,
        )

    def _folded(
        self, found: list[tuple[int, UUID]], reading: Reading, branch: BranchView, limit: int
    ) -> list[MemoryState]:
        states = reading.folded([i for _, i in found], branch, limit)
        return [states[i] for _, i in found if i in states]

    def _beside(self, question: Question, query: "RecallQuery", pin: Pin) -> _Beside | None:
        """The global memories that a read sees; None when there are none or it is without."""
        if self._shared is None or pin.global_index is None:
            return None
        services = self._shared.make()
        line = Line(services.log.log_id, pin.global_limit)
        theirs = replace(
            query,
            lines=((line, GLOBAL_SCOPE),),
            namespaces=_namespaces(services.log, question.namespace),
        )
        return _Beside(services, theirs, pin.global_index + 1, question.wait)

    def _lacks(
        self, question: Question, beside: _Beside, reading: "ViewReading[RecallView] | None"
    ) -> int:
        behind = beside.behind(reading)
        if behind and question.strict and reading is not None:
            raise _behind(behind, question, reading)
        return behind

    def _ask(
        self, question: Question, pin: Pin, use: "Callable[[ViewReading[RecallView]], T]"
    ) -> "tuple[T, int, ViewReading[RecallView]]":
        allowed = Allowance(max(question.wait, LEAST_SECONDS), optional=not question.strict)
        with allowing(allowed):
            answer, reading = self._view.run(
                lambda reading: (use(reading), reading),
                at_least=pin.index + 1,
                wait=question.wait,
                head=None if pin.pinned else pin.index + 1,
            )
        behind = max(0, pin.index + 1 - reading.position)
        if behind and question.strict:
            raise _behind(behind, question, reading)
        return answer, behind, reading

    def _found(
        self, query: "RecallQuery", reading: "ViewReading[RecallView]", beside: _Beside | None
    ) -> "_Found":
        if not query.vector_leg:
            return self._searched(query, reading, beside)
        self._fill(reading, self._view)
        try:
            return self._searched(query, reading, beside)
        except UnavailableError as error:
            allowed = allowance()
            if not query.keyword_leg or allowed is None or not allowed.puts_up_with(error):
                raise
            found = self._searched(replace(query, vector_leg=False), reading, beside)
            return replace(found, by_keyword=True)

    def _searched(
        self, query: "RecallQuery", reading: "ViewReading[RecallView]", beside: _Beside | None
    ) -> "_Found":
        from memoriale.projections.recall.search import gathered, ranked

        # Before the other view is lent: whose damage it is must stay clear.
        own = gathered(reading.view, query)
        if beside is None:
            return _Found(ranked(query, own), query.vector_leg and reading.view.lacking)

        def both(theirs: "ViewReading[RecallView]") -> "_Found":
            vectors = query.vector_leg
            if vectors:
                self._fill(theirs, beside.services.view("recall"))
            # While one of them is that of a former model, vectors cannot be compared.
            if theirs.view.embedder.model != reading.view.embedder.model:
                if not query.keyword_leg:
                    raise _rebuilding()
                vectors = False
            asked = replace(query, vector_leg=vectors)
            shared = gathered(theirs.view, replace(beside.query, vector_leg=vectors))
            lacking = vectors and (reading.view.lacking or theirs.view.lacking)
            return _Found(ranked(asked, own, shared), lacking, theirs)

        return beside.run(both)

    def _fill(self, reading: "ViewReading[RecallView]", posted: "PostedView[RecallView]") -> None:
        """Makes up for vectors that an earlier read posted rows without, if nobody else does."""
        allowed = allowance()
        failed = allowed is not None and allowed.failure is not None
        if not reading.view.lacking or reading.rebuilding or failed:
            return
        try:
            with posted.generations.writer_lock(time.monotonic()) as held:
                if held:
                    reading.view.fill()
        except UnavailableError as error:
            # The view is as it was, and says that it lacks vectors.
            if not is_refused_write(error):
                raise

    def _query(
        self, principal: Principal, branch: BranchView, question: Question, pin: Pin
    ) -> "RecallQuery":
        from memoriale.projections.recall.query import RecallQuery

        scope = branch_scope(self._log.identities.scope(principal), branch)
        asked = question.valid_at
        return RecallQuery(
            text=question.query,
            lines=tuple((line, scope) for line in branch.lineage(pin.limit)),
            now=pin.now,
            valid_at=pin.now if asked is None else to_utc(parse_time("valid_at", asked)),
            top_k=question.top_k,
            kinds=question.kinds,
            namespaces=_namespaces(self._log, question.namespace),
            tags=question.tags,
            owner=question.owner,
            agent=question.agent,
            min_score=question.min_score,
            min_rank_score=question.min_rank_score,
            rank=question.rank,
            vector_leg=question.legs != "keyword",
            keyword_leg=question.legs != "vector",
            explain=question.explain,
        )


@dataclass(frozen=True, slots=True)
class _Found:
    """Hits, whether something could be compared by keyword only, and the view of global ones."""

    hits: "list[Hit]"
    by_keyword: bool
    shared: "ViewReading[RecallView] | None" = None


def _namespaces(log: TenantLog, path: str | None) -> tuple[str, ...] | None:
    if path is None:
        return None
    key = log.identities.tag_key(log.identities.tenant())
    return tuple(tag.hex() for tag in tagging.namespace_tags(key, normalise_path(path)))


def _last_seen(pin: Pin, shared: "ViewReading[RecallView] | None") -> int | None:
    if shared is None or pin.pinned:
        return pin.global_index
    return shared.position - 1 if shared.position else None


def _behind(behind: int, question: Question, reading: "ViewReading[RecallView]") -> MemorialeError:
    if reading.failure is not None:
        return reading.failure
    return BehindError(
        f"the recall view is {behind} events behind after {question.wait} s; try again, "
        "wait longer, or ask without strict.",
        field="wait",
        value=question.wait,
    )


def _degraded(
    behind: int, by_keyword: bool, readings: "Sequence[ViewReading[RecallView]]"
) -> tuple[str, ...]:
    found = {
        "behind": behind > 0,
        "embedder": by_keyword,
        "rebuilding": any(reading.rebuilding for reading in readings),
        "disk": behind > 0 and any(reading.failure is not None for reading in readings),
    }
    return tuple(word for word, so in found.items() if so)


def _lacking_vectors() -> UnavailableError:
    return UnavailableError(
        "some memories have no vectors yet, because the embedder failed when they were posted; "
        "try again, or ask without strict.",
        code="lacking_vectors",
        field="MEMORIALE_EMBEDDER",
    )


def _rebuilding() -> UnavailableError:
    return UnavailableError(
        "another model was configured and the view is still that of the former one; try again "
        "when the new one is built, or ask without strict.",
        code="rebuilding",
        field="MEMORIALE_EMBEDDER",
    )
