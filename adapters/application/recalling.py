"""Recall: a question answered from the recall view, as of a point of the log."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final, TypeVar

from memoriale.adapters.application.branching import BranchView, branch_scope
from memoriale.adapters.application.reading import AsOf, Pin, Reading
from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.adapters.keys import tags as tagging
from memoriale.domain.errors import BehindError, InputError, UnavailableError
from memoriale.domain.kinds import KINDS
from memoriale.domain.memory import MemoryState
from memoriale.domain.namespaces import normalise_path
from memoriale.domain.principal import Principal
from memoriale.domain.text import check_query, check_text, shown
from memoriale.domain.times import parse_time, to_utc
from memoriale.domain.values import check_seconds, check_unit, check_whole
from memoriale.projections.allowance import Allowance, allowance, allowing
from memoriale.projections.disk import is_refused_write

if TYPE_CHECKING:
    from memoriale.projections.posted import PostedView
    from memoriale.projections.posted import Reading as ViewReading
    from memoriale.projections.recall.query import Hit, RecallQuery
    from memoriale.projections.recall.view import RecallView

T = TypeVar("T")
LEAST_SECONDS: Final = 2.0
"""That a read gives its embedder for the question, and as much for what the view lacks."""
MAX_TOP_K: Final = 1_000
RANKS: Final = ("relevance", "composite")
LEGS: Final = ("hybrid", "keyword", "vector")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What to recall; see ``Memory.recall`` for the meaning of each field."""

    query: str
    top_k: int = 5
    kinds: tuple[str, ...] = ()
    namespace: str | None = None
    tags: tuple[str, ...] = ()
    min_score: float | None = None
    min_rank_score: float | None = None
    as_of: AsOf = None
    valid_at: datetime | str | None = None
    rank: str = "relevance"
    legs: str = "hybrid"
    explain: bool = False
    wait: float = 2.0
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Recall:
    """
    The hits, best first, with what the answer rests on; to be used like a list of them.

    Args:
        hits: At most ``top_k``.
        index: Index of the last event seen; ask as of it to get the same answer again.
        now: To when ages, expiry and the default valid time were counted.
        degraded: Why the answer may miss something: ``behind``; ``embedder``: it failed or was
            too slow, so that the question or some memories could be compared by keyword only;
            ``rebuilding``: another model was configured and the view is still that of the
            former one; ``disk``: the view cannot be posted, because its disk is full or may not
            be written.
        behind: Events that the view had not posted yet.
        rebuilt: Whether the view was damaged or missing and was rebuilt for this answer.
    """

    hits: tuple["Hit", ...]
    index: int
    now: datetime
    degraded: tuple[str, ...]
    behind: int
    rebuilt: bool

    def __len__(self) -> int:
        return len(self.hits)

    def __iter__(self) -> Iterator["Hit"]:
        return iter(self.hits)

    def __getitem__(self, place: int) -> "Hit":
        return self.hits[place]


@dataclass(frozen=True, slots=True)
class Page:
    """
    Memories in the order in which they were made.

    Args:
        states: At most as many as were asked for.
        next: What to ask for after; None when there are no more.
        index: Index of the last event seen.
        behind: Events that the view had not posted yet.
    """

    states: list[MemoryState]
    next: int | None
    index: int
    behind: int


class Recalling:
    """Answers questions of one tenant."""

    def __init__(self, log: TenantLog, reading: Reading, view: "PostedView[RecallView]") -> None:
        self._log = log
        self._reading = reading
        self._view = view

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
        query = self._query(principal, branch, question, pin)
        (hits, by_keyword), behind, reading = self._ask(
            question, pin, lambda reading: self._found(query, reading)
        )
        if by_keyword and question.strict:
            raise _lacking_vectors()
        if reading.rebuilding and question.strict:
            raise _rebuilding()
        return Recall(
            hits=tuple(hits),
            index=pin.index if pin.pinned else reading.position - 1,
            now=pin.now,
            degraded=_degraded(behind, by_keyword, reading),
            behind=behind,
            rebuilt=reading.rebuilt,
        )

    def page(
        self, principal: Principal, branch: BranchView, question: Question, after: int
    ) -> Page:
        """
        Memories that the caller may see, in the order in which they were made.

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
        query = self._query(principal, branch, question, pin)
        found, behind, _ = self._ask(
            question, pin, lambda reading: page(reading.view, query, after)
        )
        states = self._reading.folded([i for _, i in found], branch, pin.limit)
        return Page(
            states=[states[i] for _, i in found if i in states],
            next=found[-1][0] if len(found) == question.top_k else None,
            index=pin.index,
            behind=behind,
        )

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
            if reading.failure is not None:
                raise reading.failure
            raise BehindError(
                f"the recall view is {behind} events behind after {question.wait} s; try again, "
                "wait longer, or ask without strict.",
                field="wait",
                value=question.wait,
            )
        return answer, behind, reading

    def _found(
        self, query: "RecallQuery", reading: "ViewReading[RecallView]"
    ) -> "tuple[list[Hit], bool]":
        """The hits, and whether something could be compared by keyword only."""
        from memoriale.projections.recall.search import search

        view = reading.view
        if not query.vector_leg:
            return search(view, query), False
        self._fill(reading)
        try:
            return search(view, query), view.lacking
        except UnavailableError as error:
            allowed = allowance()
            if not query.keyword_leg or allowed is None or not allowed.puts_up_with(error):
                raise
            return search(view, replace(query, vector_leg=False)), True

    def _fill(self, reading: "ViewReading[RecallView]") -> None:
        """Makes up for vectors that an earlier read posted rows without, if nobody else does."""
        allowed = allowance()
        failed = allowed is not None and allowed.failure is not None
        if not reading.view.lacking or reading.rebuilding or failed:
            return
        try:
            with self._view.generations.writer_lock(time.monotonic()) as held:
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
            namespaces=self._namespaces(question.namespace),
            tags=question.tags,
            min_score=question.min_score,
            min_rank_score=question.min_rank_score,
            rank=question.rank,
            vector_leg=question.legs != "keyword",
            keyword_leg=question.legs != "vector",
            explain=question.explain,
        )

    def _namespaces(self, path: str | None) -> tuple[str, ...] | None:
        if path is None:
            return None
        key = self._log.identities.tag_key(self._log.identities.tenant())
        return tuple(tag.hex() for tag in tagging.namespace_tags(key, normalise_path(path)))


def _degraded(behind: int, by_keyword: bool, reading: "ViewReading[RecallView]") -> tuple[str, ...]:
    found = {
        "behind": behind > 0,
        "embedder": by_keyword,
        "rebuilding": reading.rebuilding,
        "disk": behind > 0 and reading.failure is not None,
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


def check_question(question: Question) -> None:
    """
    Refuses a question that cannot be asked.

    Raises:
        InputError: Names the field.
    """
    check_query(question.query)
    check_whole("top_k", question.top_k, 1, MAX_TOP_K)
    check_seconds("wait", question.wait)
    if question.rank not in RANKS:
        raise _out_of("rank", question.rank, ", ".join(RANKS))
    if question.legs not in LEGS:
        raise _out_of("legs", question.legs, ", ".join(LEGS))
    for kind in question.kinds:
        KINDS.require(kind)
    for tag in question.tags:
        check_text("tags", tag)
    for name in ("min_score", "min_rank_score"):
        if getattr(question, name) is not None:
            check_unit(name, getattr(question, name))


def _out_of(field: str, value: object, allowed: str) -> InputError:
    return InputError(
        f"{field} is {shown(value)}; allowed is {allowed}.",
        code="out_of_range",
        field=field,
        value=shown(value),
        allowed=allowed,
    )
