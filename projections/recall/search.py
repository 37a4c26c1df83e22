"""Hybrid search: the visible rows of a question, scored, best first."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, Final, NamedTuple
from uuid import UUID

from memoriale.domain.branches import NO_LIMIT
from memoriale.domain.scoring import recency_decay
from memoriale.projections.embedding import embed_query
from memoriale.projections.recall.filters import (
    ScopedLine,
    all_of,
    any_of,
    override_condition,
    query_condition,
    visible_condition,
)
from memoriale.projections.recall.order import best_places, composite
from memoriale.projections.recall.partition import Partition
from memoriale.projections.recall.query import Explanation, Hit, RecallQuery
from memoriale.projections.recall.ranking import (
    WEIGHTS,
    Pool,
    Scores,
    joined,
    pooled,
    scored,
    understood,
)
from memoriale.projections.recall.shelf import READ, Shelf
from memoriale.projections.recall.sight import owned, partitions, visible
from memoriale.projections.recall.view import RecallView
from memoriale.projections.recall.words import words

_FEWEST_CANDIDATES: Final = 400
_CANDIDATES_PER_HIT: Final = 10
_MOST_EXCLUDED: Final = 1_000
_WIDER: Final = 4
COLUMNS_OF_PLACE: Final = ("key", "first_index", "memory_id", "branch")
"""What tells which row it is, and whether another one hides it."""


def search(view: RecallView, query: RecallQuery) -> list[Hit]:
    """
    The memories that answer a question best, best first; ties go to the lower index.

    What the caller may not see is no part of it: not of the hits, and not of the statistics that
    rank them. So the answer is a function of the question, the caller, the branch and the point
    of the log alone.

    Every visible row is scored when the caller's rows fit into memory, and for every question as
    of a point. For larger owners now, LanceDB's indexes propose candidates, and their scores
    come from the visible rows among them.

    Args:
        view: Where to search.
        query: The question. A line without a limit is read at the view's position.

    Raises:
        UnavailableError: The embedder failed.
        CorruptViewError: The view cannot be read.
    """
    return ranked(query, gathered(view, query)) if query.lines else []


class Gathered(NamedTuple):
    """The rows of one view that may answer a question."""

    view: RecallView
    pool: Pool


def gathered(view: RecallView, query: RecallQuery) -> Gathered:
    """The rows of a view that may answer a question on at least one line; see ``search``."""
    pinned = all(line.limit != NO_LIMIT for line, _ in query.lines)
    position = view.position()
    lines = pinned_lines(position, query.lines)
    with view.shelves.held:
        pool = visible_pool(view, query, lines, position, whole=pinned)
        if pool is None:
            pool = _proposed(view, query, lines)
    return Gathered(view, pool)


def ranked(query: RecallQuery, own: Gathered, shared: Gathered | None = None) -> list[Hit]:
    """
    The best of what was gathered, all rows ranked together; see ``search``.

    Args:
        query: The question.
        own: From the caller's view.
        shared: From the view of what all tenants see, made with the same model. Of equal scores
            and indices the caller's own comes first.
    """
    pool = own.pool if shared is None else joined(own.pool, shared.pool)
    views = [part.view for part in (own, shared) if part is not None]
    with _held(views):
        asked = understood(pool, query.text)
    # The embedder may be slow. Meanwhile shelves only grow: the pool's places stay what they are.
    vector = _vector(own.view, query, asked.text)
    with _held(views):
        scores = scored(pool, asked, vector, words_count=query.keyword_leg)
        return _hits(query, pool, scores, len(own.pool.keys))


@contextmanager
def _held(views: Sequence[RecallView]) -> Iterator[None]:
    with ExitStack() as held:
        for view in views:
            held.enter_context(view.shelves.held)
        yield


def _vector(view: RecallView, query: RecallQuery, text: str) -> Any:
    vector = embed_query(view.embedder, text) if query.vector_leg else None
    return vector if vector is not None and vector.any() else None


def pinned_lines(position: int, lines: Sequence[ScopedLine]) -> list[ScopedLine]:
    """Lines with a limit each: one that has none ends where the view stands."""
    return [(replace(line, limit=min(line.limit, position - 1)), scope) for line, scope in lines]


def hidden_memories(view: RecallView, lines: Sequence[ScopedLine]) -> list[set[str]]:
    """For each line the memories that a nearer one overrides."""
    if len(lines) == 1:
        return [set()]
    found = view.table.read(override_condition(lines), ("memory_id", "branch")).to_pylist()
    hidden, seen = [], set[str]()
    for line, _ in lines:
        hidden.append(set(seen))
        seen |= {row["memory_id"] for row in found if row["branch"] == line.branch.hex}
    return hidden


def visible_pool(
    view: RecallView,
    query: RecallQuery,
    lines: Sequence[ScopedLine],
    position: int,
    *,
    whole: bool,
) -> Pool | None:
    """Every visible row; None when a partition is too large to keep."""
    chosen = []
    for partition in _partitions(query, lines):
        shelf = view.shelves.get(partition, position, whole=whole)
        if shelf is None:
            return None
        chosen.append((shelf, visible(shelf, partition, query, lines)))
        if _is_of_one_owner(query, partition, shelf):
            break
    return pooled(chosen)


def _partitions(query: RecallQuery, lines: Sequence[ScopedLine]) -> list[Partition]:
    """The partitions that can hold what is asked for; that of the one owner, if any, first."""
    found = [*dict.fromkeys(p for _, scope in lines for p in partitions(scope))]
    return sorted(found, key=lambda partition: partition != _own(query))


def _is_of_one_owner(query: RecallQuery, partition: Partition, shelf: Shelf) -> bool:
    """
    Whether a partition holds all that is asked for. It does not where a session is the owner:
    what was recorded there for others may be visible for another reason.
    """
    sessions = shelf.array("owner_type") == shelf.code("owner_type", "session")
    return partition == _own(query) and not sessions.any()


def _own(query: RecallQuery) -> Partition | None:
    return None if query.owner is None else owned(query.owner)


def _proposed(view: RecallView, query: RecallQuery, lines: Sequence[ScopedLine]) -> Pool:
    """The rows that LanceDB finds by words or by vector among the visible ones."""
    import numpy

    chosen = Chosen(view, query, lines)
    wanted = max(_FEWEST_CANDIDATES, _CANDIDATES_PER_HIT * query.top_k)
    asked, vector = " ".join(words(query.text)), _vector(view, query, query.text)
    keys = set[int]()
    if query.keyword_leg and asked:
        keys |= chosen.keys(wanted, lambda n: view.table.keyword_search(asked, *chosen.filter, n))
    if vector is not None:
        keys |= chosen.keys(wanted, lambda n: view.table.vector_search(vector, *chosen.filter, n))
    shelf = Shelf(view.embedder.width, view.shelves.scratch)
    if keys:
        listed = ", ".join(str(key) for key in sorted(keys))
        shelf.put(view.table.read(any_of((f"key IN ({listed})",)), READ))
    return pooled([(shelf, numpy.ones(len(shelf), dtype=bool))])


class Chosen:
    """
    The visible rows of a partition too large to keep, as a condition on the table.

    A lineage's overridden memories are excluded in the condition while they are few. A long list
    makes every search slow (55 ms without, 187 ms with 10,000 ids), so many are taken out of what
    a search finds, and the search goes on until it has found enough.
    """

    def __init__(self, view: RecallView, query: RecallQuery, lines: Sequence[ScopedLine]) -> None:
        hidden = hidden_memories(view, lines)
        few = sum(map(len, hidden)) <= _MOST_EXCLUDED
        listed = hidden if few else [set[str]() for _ in lines]
        where = all_of((query_condition(query), visible_condition(lines, listed)))
        self.where = where
        self.filter = (where, COLUMNS_OF_PLACE)
        self._hidden = (
            {}
            if few
            else {line.branch.hex: ids for (line, _), ids in zip(lines, hidden, strict=True)}
        )

    def keys(self, wanted: int, find: Callable[[int], Any]) -> set[int]:
        """Keys of at least so many visible rows, or of all that a search finds."""
        limit = wanted
        while True:
            found = find(limit)
            kept = {row["key"] for row in self.visible(found)}
            if len(kept) >= wanted or len(found) < limit:
                return kept
            limit *= _WIDER

    def visible(self, found: Any) -> Iterator[dict[str, Any]]:
        """The rows of an Arrow table that no nearer line overrides."""
        for row in found.to_pylist():
            if row["memory_id"] not in self._hidden.get(row["branch"], ()):
                yield row


def _hits(query: RecallQuery, pool: Pool, scores: Scores, own: int) -> list[Hit]:
    import numpy

    total = scores.total
    if query.rank == "composite":
        total = composite(pool, scores.cosine, query.now)
    kept = numpy.flatnonzero(_found(scores) & _wanted(query, total, scores.cosine))
    best = [int(place) for place in kept[best_places(total[kept], pool.keys[kept], query.top_k)]]
    return [
        _hit(query, row, float(total[place]), place, scores, is_global=place >= own)
        for place, row in zip(best, pool.rows(best), strict=True)
    ]


def _found(scores: Scores) -> Any:
    """A row that no leg finds is no hit, whoever said it."""
    import numpy

    found = numpy.zeros(len(scores.total), dtype=bool)
    for name, part in scores.parts.items():
        if name != "speaker":
            found |= part > 0
    return found


def _wanted(query: RecallQuery, total: Any, cosine: Any) -> Any:
    """Rows that are similar enough and score enough; what has no similarity never is enough."""
    import numpy

    wanted = numpy.ones(len(total), dtype=bool)
    if query.min_score is not None:
        wanted &= numpy.clip(cosine, 0, 1) >= query.min_score
    if query.min_rank_score is not None:
        wanted &= total >= query.min_rank_score
    return wanted


def _hit(
    query: RecallQuery,
    row: dict[str, Any],
    score: float,
    place: int,
    scores: Scores,
    *,
    is_global: bool,
) -> Hit:
    return Hit(
        memory_id=UUID(row["memory_id"]),
        content=row["text"],
        score=score,
        similarity=_similarity(scores, place),
        keyword=float(scores.parts["keyword"][place]),
        recency=recency_decay(row["created_at"], query.now),
        importance=_unit(row["importance"]),
        kind=row["kind"],
        source=row["source"],
        index=row["key"],
        recorded_at=row["recorded_at"],
        created_at=row["created_at"],
        branch=UUID(row["branch"]),
        valid_from=row["valid_from"],
        valid_until=row["valid_until"],
        tags=tuple(row["tags"]),
        metadata=_metadata(row["metadata"]),
        speaker=row["speaker"],
        explanation=_explanation(scores, place) if query.explain else None,
        is_global=is_global,
    )


def _explanation(scores: Scores, place: int) -> Explanation:
    import numpy

    parts = {name: float(part[place]) for name, part in scores.parts.items()}
    ranks = {
        name: 1 + int(numpy.count_nonzero(part > part[place]))
        for name, part in scores.parts.items()
        if part[place] > 0
    }
    return Explanation(parts=parts, weights={n: WEIGHTS[n] for n in parts}, ranks=ranks)


def _similarity(scores: Scores, place: int) -> float | None:
    cosine = float(scores.cosine[place])
    return None if cosine != cosine else min(1.0, max(0.0, cosine))


def _unit(thousandths: int | None) -> float | None:
    return None if thousandths is None else thousandths / 1000


def _metadata(text: str | None) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text) if text else {}
    return found
