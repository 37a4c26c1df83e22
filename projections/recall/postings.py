"""Which passages hold a word, and how often: an inverted index in arrays."""

import math
import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from memoriale.projections.recall.growing import Growing
from memoriale.projections.recall.scratch import Scratch

_MOST_JOINED: Final = 4_000_000
"""Postings up to which parts are joined, which takes about 30 bytes of memory for each."""
_UMLAUT: Final = re.compile("([aou])e")

_PIECES_OF: Final = 64
"""Letters of the longest term that is taken to pieces to look each of them up."""


@dataclass(frozen=True, slots=True)
class _Part:
    """
    Some passages, indexed.

    Args:
        words: An Arrow table of one column: every word once, in the order of code points.
        starts: Where the postings of each word begin; one more for the end.
        passages: Passages by word, ascending.
        often: How often the word stands there.
    """

    words: Any
    starts: Any
    passages: Any
    often: Any

    @property
    def column(self) -> Any:
        return self.words.column(0)

    def place(self, word: str) -> int:
        """Where a word stands; -1 if it does not."""
        column = self.column
        place = bisect_left(range(len(column)), word, key=lambda n: str(column[n].as_py()))
        return place if place < len(column) and column[place].as_py() == word else -1


class Postings:
    """
    The words of passages. Parts that are about as large as the one before are joined with it, so
    there are few of them, however many passages come one by one.

    Args:
        scratch: Where large parts go.
    """

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self._parts: list[_Part] = []
        self._lengths = Growing("int32")

    @property
    def nbytes(self) -> int:
        """Memory that they take, without what lies in files."""
        kept = self._scratch.kept
        parts = (v for p in self._parts for v in (p.words, p.starts, p.passages, p.often))
        return self._lengths.nbytes + sum(kept(values) for values in parts)

    @property
    def lengths(self) -> Any:
        """For each passage its number of words."""
        return self._lengths.array

    def add(self, passages: Any) -> None:
        """
        Puts passages behind those that are there.

        Args:
            passages: An Arrow array of texts: words with one space between them.
        """
        part, lengths = _indexed(passages, len(self._lengths))
        self._lengths.add(lengths)
        while self._parts and _worth_joining(self._parts[-1], part):
            part = _joined(self._parts.pop(), part)
        scratch = self._scratch
        part = _Part(
            scratch.table(part.words),
            scratch.array(part.starts),
            scratch.array(part.passages),
            scratch.array(part.often),
        )
        self._parts.append(part)

    def of(self, word: str) -> tuple[Any, Any]:
        """The passages that hold a word, ascending, and how often each does."""
        import numpy

        passages, often = [numpy.zeros(0, "int32")], [numpy.zeros(0, "uint8")]
        for part in self._parts:
            place = part.place(word)
            if place >= 0:
                here = slice(int(part.starts[place]), int(part.starts[place + 1]))
                passages.append(part.passages[here])
                often.append(part.often[here])
        if len(passages) == 2:
            return passages[1], often[1]
        return numpy.concatenate(passages), numpy.concatenate(often)

    def alike(self, term: str) -> list[str]:
        """The words that are like a term without being it, in order."""
        found = {word for part in self._parts for word in _perhaps_alike(part, term)}
        return sorted(word for word in found if alike(term, word))


def alike(term: str, word: str) -> bool:
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
    if len(term) >= 4 and _without_umlauts(term) == _without_umlauts(word):
        return True
    shared = len(_common_prefix(term, word))
    return not term.isascii() and shared >= max(4, math.ceil(0.7 * max(len(term), len(word))))


def _without_umlauts(word: str) -> str:
    return _UMLAUT.sub(r"\1", word)


def _common_prefix(one: str, other: str) -> str:
    for place, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return one[:place]
    return one[: min(len(one), len(other))]


def _perhaps_alike(part: _Part, term: str) -> Iterator[str]:
    """Every word of a part that ``alike`` accepts, and some others."""
    import pyarrow.compute as pc

    if len(term) < (4 if term.isascii() else 2):
        return
    words = part.column
    yield from words.filter(pc.match_substring(words, term)).to_pylist()
    if len(term) <= _PIECES_OF:
        pieces = {term[i:j] for i in range(len(term)) for j in range(i + 4, len(term) + 1)}
        yield from (piece for piece in pieces if part.place(piece) >= 0)
    else:
        # Its pieces are more than any vocabulary: 134 million for one of 16,384 letters.
        yield from (word for word in words.to_pylist() if len(word) >= 4 and word in term)
    # Up to the first vowel that may be an umlaut nothing differs.
    plain = _without_umlauts(term)
    before = re.match("[^aou]*[aou]?", plain)
    heads = {term[:4], before.group() if before else ""}
    for head in heads if len(term) >= 4 else ():
        yield from words.filter(pc.starts_with(words, head)).to_pylist()


def _worth_joining(one: _Part, other: _Part) -> bool:
    sizes = len(one.passages), len(other.passages)
    return sizes[0] <= 2 * sizes[1] and sum(sizes) <= _MOST_JOINED


def _indexed(passages: Any, first: int) -> tuple[_Part, Any]:
    """A part of passages numbered from ``first``, and their lengths."""
    import numpy
    import pyarrow as pa
    import pyarrow.compute as pc

    split = pc.split_pattern(passages.cast(pa.large_string()), " ")
    counts = pc.list_value_length(split).to_numpy(zero_copy_only=False)
    of = numpy.repeat(numpy.arange(len(passages), dtype=numpy.int64), counts)
    flat = split.flatten()
    named = pc.not_equal(flat, "")
    flat, of = flat.filter(named), of[named.to_numpy(zero_copy_only=False)]
    ranks, words = _ranked(flat)
    pairs, often = numpy.unique(ranks * max(1, len(passages)) + of, return_counts=True)
    rank, passage = numpy.divmod(pairs, max(1, len(passages)))
    part = _part(words, rank, passage + first, often)
    return part, numpy.bincount(of, minlength=len(passages))


def _joined(one: _Part, other: _Part) -> _Part:
    """Two parts as one; the passages of the second come after those of the first."""
    import numpy
    import pyarrow as pa

    both = pa.chunked_array([*one.column.chunks, *other.column.chunks], pa.large_string())
    ranks, words = _ranked(both.combine_chunks())
    sizes = numpy.concatenate([numpy.diff(one.starts), numpy.diff(other.starts)])
    rank = numpy.repeat(ranks, sizes)
    order = numpy.argsort(rank, kind="stable")
    passages = numpy.concatenate([one.passages, other.passages])[order]
    often = numpy.concatenate([one.often, other.often])[order]
    return _part(words, rank[order], passages, often)


def _ranked(words: Any) -> tuple[Any, Any]:
    """For each word its place among the distinct ones in order, and those."""
    import numpy
    import pyarrow.compute as pc

    coded = words.dictionary_encode()
    order = pc.sort_indices(coded.dictionary)
    rank = numpy.empty(len(order), dtype=numpy.int64)
    rank[order.to_numpy()] = numpy.arange(len(order))
    return rank[coded.indices.to_numpy()], coded.dictionary.take(order)


def _part(words: Any, rank: Any, passages: Any, often: Any) -> _Part:
    import numpy
    import pyarrow as pa

    starts = numpy.zeros(len(words) + 1, dtype=numpy.int64)
    numpy.cumsum(numpy.bincount(rank, minlength=len(words)), out=starts[1:])
    narrow = numpy.min_scalar_type(int(often.max(initial=0)))
    return _Part(
        pa.table({"word": words}), starts, passages.astype(numpy.int32), often.astype(narrow)
    )
