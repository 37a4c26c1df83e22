"""Pages of memories in the order in which they were made."""

from uuid import UUID

from memoriale.projections.recall.filters import all_of
from memoriale.projections.recall.query import RecallQuery
from memoriale.projections.recall.ranking import Pool
from memoriale.projections.recall.search import (
    COLUMNS_OF_PLACE,
    Chosen,
    pinned_lines,
    visible_pool,
)
from memoriale.projections.recall.view import RecallView


def page(view: RecallView, query: RecallQuery, after: int) -> list[tuple[int, UUID]]:
    """
    The visible, current memories after a key, oldest first, at most ``top_k``.

    The key of a memory is the index of its first event, which never changes; so a walk through
    pages meets each memory once, whatever is written meanwhile.

    Args:
        view: Where to look.
        query: Who asks and what to filter by; its text and scores play no part.
        after: Key of the last memory of the page before; -1 for the first page.

    Returns:
        Keys and ids.
    """
    position = view.position()
    lines = pinned_lines(position, query.lines)
    if not lines:
        return []
    with view.shelves.held:
        pool = visible_pool(view, query, lines, position, whole=False)
        if pool is not None:
            return _of_pool(pool, after, query.top_k)
    chosen = Chosen(view, query, lines)
    later = all_of((f"first_index > {int(after)}", chosen.where))
    found = chosen.visible(view.table.read(later, COLUMNS_OF_PLACE))
    ordered = sorted((row["first_index"], row["memory_id"]) for row in found)[: query.top_k]
    return [(key, UUID(memory_id)) for key, memory_id in ordered]


def _of_pool(pool: Pool, after: int, most: int) -> list[tuple[int, UUID]]:
    import numpy

    if not len(pool.keys):
        return []
    first = pool.column("first_index")
    places = numpy.flatnonzero(first > after)
    chosen = places[numpy.argsort(first[places], kind="stable")][:most]
    rows = pool.rows([int(place) for place in chosen])
    return [(int(first[p]), UUID(row["memory_id"])) for p, row in zip(chosen, rows, strict=True)]
