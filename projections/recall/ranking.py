"""
Ranking the visible rows: words, conversation context, who said it, and nearness in meaning.

Everything is reckoned from the visible rows alone, at question time: how rare a word is, what
surrounds a turn of a conversation, and the middle of the vectors.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from memoriale.projections.recall.shelf import Shelf
from memoriale.projections.recall.words import folded, words

RANKING: Final = "recall/2"
"""Version of the rules below; a change of one is another."""
K1: Final = 1.2
B: Final = 0.4
"""BM25's length normalisation; between 0.3 and 0.5 made no difference on short turns."""
WEIGHTS: Final = {
    "keyword": 1.0,
    "context": 0.5,
    "session": 0.4,
    "speaker": 0.8,
    "vector": 0.6,
    "near_vector": 0.3,
}
"""
What each part counts, chosen on public conversations: there the keyword score of neighbouring
turns and of the session is worth half of a turn's own, and vectors of words less than words.
"""
NEIGHBOURS: Final = ((-1, 0.6), (-2, 0.4), (1, 0.4), (2, 0.25))
"""Turns before and after, and what their score counts for a turn."""
SESSION_BEST: Final = 3
ALIKE: Final = 0.5
"""What a word counts that is only alike: part of a compound, or of another inflection."""
_MOST_ALIKE: Final = 20
_FIRST_PERSON: Final = frozenset(
    ("i", "me", "my", "mine", "myself", "we", "us", "our", "ours", "ourselves")
)


@dataclass(slots=True)
class Pool:
    """
    The visible rows of all shelves, one after the other.

    Args:
        shelves: Each shelf with the places of its visible rows, sorted.
        keys: Key of each row.
    """

    shelves: list[tuple[Shelf, Any]]
    keys: Any

    def column(self, name: str) -> Any:
        """A numeric column of the visible rows."""
        import numpy

        return numpy.concatenate([shelf.array(name)[places] for shelf, places in self.shelves])

    def groups(self, name: str) -> Any:
        """
        A text column of the visible rows as numbers: equal texts of one shelf have the same, 0
        is none.
        """
        import numpy

        found, start = [], 0
        for shelf, places in self.shelves:
            codes = shelf.array(name)[places]
            found.append(numpy.where(codes > 0, codes + start, 0))
            start += len(shelf.texts(name))
        return numpy.concatenate(found)

    def rows_with(self, name: str, wanted: Callable[[str], bool]) -> tuple[set[str], Any]:
        """
        The texts of a column that stand in visible rows and are wanted, and which rows have one
        of them, as a mask.
        """
        import numpy

        texts, masks = set[str](), []
        for shelf, places in self.shelves:
            codes = shelf.array(name)[places]
            there = set(numpy.unique(codes).tolist())
            chosen = {t: c for t, c in shelf.texts(name).items() if c in there and wanted(t)}
            texts |= chosen.keys()
            masks.append(numpy.isin(codes, list(chosen.values())))
        return texts, numpy.concatenate(masks)

    def row(self, place: int) -> dict[str, Any]:
        """One of the visible rows."""
        for shelf, places in self.shelves:
            if place < len(places):
                found: dict[str, Any] = shelf.rows[places[place]]
                return found
            place -= len(places)
        raise IndexError(place)


@dataclass(slots=True)
class Scores:
    """The parts of the score of each visible row, each 0..1, and their weighted mean."""

    total: Any
    parts: dict[str, Any]
    cosine: Any
    """Plain cosine of question and row, NaN where there is none."""


def pooled(shelves: Sequence[tuple[Shelf, Any]]) -> Pool:
    """
    The visible rows of several shelves; a row that stands in two counts once.

    Args:
        shelves: Each with its mask.
    """
    import numpy

    chosen, seen = [], numpy.zeros(0, dtype=numpy.int64)
    for shelf, mask in shelves:
        places = numpy.flatnonzero(mask)
        keys = shelf.array("key")[places]
        fresh = ~numpy.isin(keys, seen)
        chosen.append((shelf, places[fresh]))
        seen = numpy.concatenate([seen, keys[fresh]])
    return Pool(chosen, seen)


@dataclass(slots=True)
class Asked:
    """
    A question as the visible rows make it understood.

    Args:
        text: The question without the names of speakers: every row of theirs would fit them.
        words: Its words.
        affinity: For each visible row 1.0 when somebody whom the question names said it.
        by_name: Whether the question is nothing but names.
    """

    text: str
    words: list[str]
    affinity: Any
    by_name: bool = False


def understood(pool: Pool, question: str) -> Asked:
    """
    Which rows were said by somebody whom the question names, or by the user when it is in the
    first person.
    """
    asked = folded(question)
    named, said_by = pool.rows_with("speaker", lambda name: _occurs(folded(name), asked))
    affinity = said_by.astype(float)
    if not named and _FIRST_PERSON & set(re.findall(r"[^\W_]+", asked)):
        affinity = pool.rows_with("role", lambda role: role == "user")[1].astype(float)
    rest = question if not named else asked
    for name in named:
        rest = re.sub(rf"\b{re.escape(folded(name))}\b(['’]s\b)?", " ", rest)
    said = words(rest)
    if said or not named:
        return Asked(rest, said, affinity)
    # Nothing but names: then whoever was named is what is asked for.
    return Asked(question, words(question), affinity, by_name=True)


def scored(pool: Pool, asked: Asked, vector: Any, *, words_count: bool = True) -> Scores:
    """
    Scores of the visible rows.

    Args:
        pool: The rows.
        asked: The question, from ``understood``.
        vector: The vector [width] of ``asked.text``, or None to rank without vectors.
        words_count: False to rank by vectors alone.
    """
    import numpy

    lexical = _lexical(pool, asked.words if words_count else [])
    if asked.by_name and words_count:
        lexical = numpy.maximum(lexical, asked.affinity)
    affinity = asked.affinity if words_count else numpy.zeros(len(pool.keys))
    parts = {"keyword": _relative(lexical), "speaker": affinity}
    order = _Conversations(pool)
    if order.any:
        parts["context"] = _relative(order.neighbours(lexical))
        parts["session"] = _relative(order.best_of_session(lexical))
    cosine = numpy.full(len(pool.keys), numpy.nan)
    if vector is not None:
        cosine = _cosines(pool, vector)
        parts["vector"] = _above_median(cosine)
        if order.any:
            parts["near_vector"] = _relative(order.neighbours(parts["vector"]))
    active = {name: part for name, part in parts.items() if name == "keyword" or part.any()}
    weight = sum(WEIGHTS[name] for name in active)
    total = sum(WEIGHTS[name] * part for name, part in active.items()) / weight
    return Scores(total, parts, cosine)


def _occurs(name: str, text: str) -> bool:
    return bool(name) and re.search(rf"\b{re.escape(name)}\b", text) is not None


def _lexical(pool: Pool, terms: list[str]) -> Any:
    """BM25 of each row: the best of its passages, with statistics of the visible ones."""
    import numpy

    seen = [(shelf, places, _visible_passages(shelf, places)) for shelf, places in pool.shelves]
    count = sum(int(mask.sum()) for _, _, mask in seen)
    if not count:
        return numpy.zeros(len(pool.keys))
    mean = sum(float(shelf.lengths[mask].sum()) for shelf, _, mask in seen) / count or 1.0
    scores = [numpy.zeros(len(shelf.lengths)) for shelf, _, _ in seen]
    for weight, term in _weighted(seen, dict.fromkeys(terms)):
        found = [_hits(shelf, mask, term) for shelf, _, mask in seen]
        rarity = _rarity(count, sum(len(passages) for passages, _ in found))
        for (shelf, _, _), score, (passages, often) in zip(seen, scores, found, strict=True):
            norm = K1 * (1 - B + B * shelf.lengths[passages] / mean)
            score[passages] += weight * rarity * often * (K1 + 1) / (often + norm)
    best = [
        _best(len(shelf), shelf.passages, score, 0.0)
        for (shelf, _, _), score in zip(seen, scores, strict=True)
    ]
    return numpy.concatenate([b[places] for (_, places, _), b in zip(seen, best, strict=True)])


def _weighted(seen: Any, terms: Any) -> list[tuple[float, str]]:
    """The words to look for: those of the question, and for one that is nowhere those alike."""
    weighted = []
    for term in terms:
        if any(len(_hits(shelf, mask, term)[0]) for shelf, _, mask in seen):
            weighted.append((1.0, term))
            continue
        alike = sorted({w for shelf, _, _ in seen for w in shelf.vocabulary() if _alike(term, w)})
        weighted.extend((ALIKE, word) for word in alike[:_MOST_ALIKE])
    return weighted


def _alike(term: str, word: str) -> bool:
    """
    A part of a compound, or another ending: ``hafen`` and ``hafenmeister``, ``книга`` and
    ``книги``; ``koeln`` for ``koln``.
    """
    if len(term) < 2 or term == word:
        return False
    if not term.isascii() and len(term) <= 2:
        return term in word
    if min(len(term), len(word)) >= 4 and (term in word or word in term):
        return True
    if len(term) >= 4 and re.sub("([aou])e", r"\1", term) == re.sub("([aou])e", r"\1", word):
        return True
    shared = len(_common_prefix(term, word))
    return not term.isascii() and shared >= max(4, math.ceil(0.7 * max(len(term), len(word))))


def _common_prefix(one: str, other: str) -> str:
    for place, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return one[:place]
    return one[: min(len(one), len(other))]


def _hits(shelf: Shelf, mask: Any, term: str) -> tuple[Any, Any]:
    passages, often = shelf.posting(term)
    kept = mask[passages]
    return passages[kept], often[kept]


def _rarity(count: int, holding: int) -> float:
    return math.log(1 + (count - holding + 0.5) / (holding + 0.5))


def _visible_passages(shelf: Shelf, places: Any) -> Any:
    import numpy

    rows = numpy.zeros(len(shelf), dtype=bool)
    rows[places] = True
    return rows[shelf.passages]


def _cosines(pool: Pool, vector: Any) -> Any:
    import numpy

    found = []
    for shelf, places in pool.shelves:
        chosen = _visible_passages(shelf, places) & shelf.with_vector
        # Not a matrix product: there a row's last bit depends on how many rows stand around it,
        # and an answer as of a point must not.
        if 2 * numpy.count_nonzero(chosen) > len(chosen):
            cosine = numpy.vecdot(shelf.vectors, vector)[chosen]
        else:
            cosine = numpy.vecdot(shelf.vectors[chosen], vector)
        found.append(_best(len(shelf), shelf.passages[chosen], cosine, -numpy.inf)[places])
    every = numpy.concatenate(found) if found else numpy.zeros(0)
    return numpy.where(numpy.isinf(every), numpy.nan, every)


def _best(rows: int, of: Any, values: Any, nothing: float) -> Any:
    """For each row the best of its values; ``of`` says which row each belongs to, ascending."""
    import numpy

    best = numpy.full(rows, nothing)
    if len(of):
        starts = numpy.flatnonzero(numpy.concatenate([[True], of[1:] != of[:-1]]))
        best[of[starts]] = numpy.maximum.reduceat(values, starts)
    return best


def _relative(scores: Any) -> Any:
    best = scores.max(initial=0.0)
    return scores / best if best > 0 else scores


def _above_median(cosine: Any) -> Any:
    """How far a cosine lies from the median to the best, 0..1."""
    import numpy

    known = cosine[~numpy.isnan(cosine)]
    if not len(known):
        return numpy.zeros(len(cosine))
    middle, best = float(numpy.median(known)), float(known.max())
    if best <= middle:
        return numpy.where(cosine >= best, 1.0, 0.0) * (best > 0)
    return numpy.nan_to_num(numpy.clip((cosine - middle) / (best - middle), 0, 1))


class _Conversations:
    """The visible turns in the order in which they were said, conversation by conversation."""

    def __init__(self, pool: Pool) -> None:
        import numpy

        conversation = pool.groups("conversation")
        turns = numpy.flatnonzero(conversation > 0)
        by = numpy.lexsort((pool.column("first_index")[turns], conversation[turns]))
        self._order = turns[by]
        self._of = conversation[self._order]
        self.any = len(turns) > 0

    def neighbours(self, scores: Any) -> Any:
        """For each turn the weighted scores of those around it in the same conversation."""
        import numpy

        said, found = scores[self._order], numpy.zeros(len(self._order))
        for step, weight in NEIGHBOURS:
            here = numpy.arange(len(said))
            there = here + step
            inside = (there >= 0) & (there < len(said))
            here, there = here[inside], there[inside]
            same = self._of[here] == self._of[there]
            found[here[same]] += weight * said[there[same]]
        return self._spread(scores, found)

    def best_of_session(self, scores: Any) -> Any:
        """For each turn the mean of the three best scores of its conversation."""
        import numpy

        said = scores[self._order]
        ranked = numpy.lexsort((-said, self._of))
        of, ordered = self._of[ranked], said[ranked]
        starts = numpy.flatnonzero(numpy.concatenate([[True], of[1:] != of[:-1]]))
        rank = numpy.arange(len(of)) - numpy.repeat(starts, numpy.diff([*starts, len(of)]))
        top = numpy.where(rank < SESSION_BEST, ordered, 0.0)
        sums = numpy.add.reduceat(top, starts)
        sizes = numpy.minimum(numpy.diff([*starts, len(of)]), SESSION_BEST)
        # Both are sorted by conversation, so each mean stands as often as it has turns.
        means = numpy.repeat(sums / sizes, numpy.diff([*starts, len(of)]))
        return self._spread(scores, means)

    def _spread(self, scores: Any, found: Any) -> Any:
        import numpy

        spread = numpy.zeros(len(scores))
        spread[self._order] = found
        return spread
