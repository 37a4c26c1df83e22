"""
Ranking the visible rows: words, conversation context, who said it, and nearness in meaning.

Everything is reckoned from the visible rows alone, at question time: how rare a word is, what
surrounds a turn of a conversation, and the middle of the vectors.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from memoriale.projections.recall.conversations import Conversations
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
ALIKE: Final = 0.5
"""What a word counts that is only alike: part of a compound, or of another inflection."""
_MOST_ALIKE: Final = 20
_AT_ONCE: Final = 16_384
"""Vectors that are copied together."""
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
            codes, names = shelf.array(name)[places], shelf.texts(name)
            there = numpy.bincount(codes, minlength=len(names) + 1) > 0
            chosen = {text: code for text, code in names.items() if there[code] and wanted(text)}
            texts |= chosen.keys()
            found = numpy.zeros(len(names) + 1, dtype=bool)
            found[list(chosen.values())] = True
            masks.append(found[codes])
        return texts, numpy.concatenate(masks)

    def rows(self, places: Sequence[int]) -> list[dict[str, Any]]:
        """What is told of some of the visible rows."""
        found: dict[int, dict[str, Any]] = {}
        start = 0
        for shelf, there in self.shelves:
            here = [place for place in places if start <= place < start + len(there)]
            rows = shelf.rows([int(there[place - start]) for place in here])
            found.update(zip(here, rows, strict=True))
            start += len(there)
        return [found[place] for place in places]


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
        if len(seen) and len(keys):
            fresh = ~numpy.isin(keys, seen)
            places, keys = places[fresh], keys[fresh]
        chosen.append((shelf, places))
        seen = numpy.concatenate([seen, keys])
    return Pool(chosen, seen)


def joined(one: Pool, other: Pool) -> Pool:
    """The rows of two pools of different logs: equal keys are different rows."""
    import numpy

    return Pool([*one.shelves, *other.shelves], numpy.concatenate([one.keys, other.keys]))


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

    seen = [_Seen.of(shelf, places) for shelf, places in pool.shelves]
    lexical = _lexical(pool, seen, asked.words if words_count else [])
    if asked.by_name and words_count:
        lexical = numpy.maximum(lexical, asked.affinity)
    affinity = asked.affinity if words_count else numpy.zeros(len(pool.keys))
    parts = {"keyword": _relative(lexical), "speaker": affinity}
    order = Conversations(pool.groups("conversation"), pool.column("first_index"))
    if order.any:
        parts["context"] = _relative(order.neighbours(lexical))
        parts["session"] = _relative(order.best_of_session(lexical))
    cosine = numpy.full(len(pool.keys), numpy.nan)
    if vector is not None:
        cosine = _cosines(seen, vector)
        parts["vector"] = _above_median(cosine)
        if order.any:
            parts["near_vector"] = _relative(order.neighbours(parts["vector"]))
    active = {name: part for name, part in parts.items() if name == "keyword" or part.any()}
    weight = sum(WEIGHTS[name] for name in active)
    total = sum(WEIGHTS[name] * part for name, part in active.items()) / weight
    return Scores(total, parts, cosine)


def _occurs(name: str, text: str) -> bool:
    return bool(name) and re.search(rf"\b{re.escape(name)}\b", text) is not None


@dataclass(slots=True)
class _Seen:
    """
    What can be seen of a shelf while a question is answered.

    Args:
        shelf: The shelf; it does not grow meanwhile.
        places: Of the visible rows.
        passages: The visible passages, as a mask.
        count: How many they are.
        length: Words in them.
    """

    shelf: Shelf
    places: Any
    passages: Any
    count: int
    length: int

    @classmethod
    def of(cls, shelf: Shelf, places: Any) -> "_Seen":
        import numpy

        rows = numpy.zeros(len(shelf), dtype=bool)
        rows[places] = True
        mask = rows[shelf.passages]
        length = shelf.postings.lengths.sum(where=mask, dtype=numpy.int64)
        return cls(shelf, places, mask, int(numpy.count_nonzero(mask)), int(length))

    def hits(self, term: str) -> tuple[Any, Any]:
        """The visible passages that hold a word, and how often each does."""
        passages, often = self.shelf.postings.of(term)
        if self.count == len(self.passages):
            return passages, often
        kept = self.passages[passages]
        return passages[kept], often[kept]


_Hits = list[tuple[Any, Any]]


def _lexical(pool: Pool, seen: list[_Seen], terms: list[str]) -> Any:
    """BM25 of each row: the best of its passages, with statistics of the visible ones."""
    import numpy

    count = sum(one.count for one in seen)
    if not count:
        return numpy.zeros(len(pool.keys))
    mean = sum(one.length for one in seen) / count or 1.0
    scores = [numpy.zeros(len(one.passages)) for one in seen]
    for weight, found in _found(seen, dict.fromkeys(terms)):
        rarity = _rarity(count, sum(len(passages) for passages, _ in found))
        for one, score, (passages, often) in zip(seen, scores, found, strict=True):
            norm = K1 * (1 - B + B * one.shelf.postings.lengths[passages] / mean)
            score[passages] += weight * rarity * often * (K1 + 1) / (often + norm)
    return numpy.concatenate(
        [
            _best(len(one.shelf), one.shelf.passages, score, 0.0)[one.places]
            for one, score in zip(seen, scores, strict=True)
        ]
    )


def _found(seen: list[_Seen], terms: Iterable[str]) -> Iterator[tuple[float, _Hits]]:
    """Where the words of a question stand, and for one that is nowhere those alike."""
    for term in terms:
        found = [one.hits(term) for one in seen]
        if any(len(passages) for passages, _ in found):
            yield 1.0, found
            continue
        alike = sorted({word for one in seen for word in one.shelf.postings.alike(term)})
        left = _MOST_ALIKE
        for word in alike:
            found = [one.hits(word) for one in seen]
            # Words of hidden rows alone must not take the place of others.
            if left and any(len(passages) for passages, _ in found):
                left -= 1
                yield ALIKE, found


def _rarity(count: int, holding: int) -> float:
    return math.log(1 + (count - holding + 0.5) / (holding + 0.5))


def _cosines(seen: list[_Seen], vector: Any) -> Any:
    import numpy

    found = [numpy.zeros(0)]
    for one in seen:
        chosen = one.passages & one.shelf.vectors.present.array
        cosine = _compared(one.shelf.vectors.matrix, chosen, vector)
        best = _best(len(one.shelf), one.shelf.passages[chosen], cosine, -numpy.inf)
        found.append(best[one.places])
    every = numpy.concatenate(found)
    return numpy.where(numpy.isinf(every), numpy.nan, every)


def _compared(matrix: Any, chosen: Any, vector: Any) -> Any:
    """Cosines of the chosen rows of a matrix."""
    import numpy

    # Not a matrix product: there a row's last bit depends on how many rows stand around it, and
    # an answer as of a point must not.
    if 2 * numpy.count_nonzero(chosen) > len(chosen):
        return numpy.vecdot(matrix, vector)[chosen]
    places = numpy.flatnonzero(chosen)
    parts = [places[start : start + _AT_ONCE] for start in range(0, len(places), _AT_ONCE)]
    return numpy.concatenate([matrix[:0, 0], *(numpy.vecdot(matrix[p], vector) for p in parts)])


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
