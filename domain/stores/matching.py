"""Which of a few texts a question is about: BM25 over what a store has at hand."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

Words = Callable[[str], Sequence[str]]
"""Splits a text into the words that are compared."""

SATURATION: Final = 1.2
LENGTH_WEIGHT: Final = 0.75
NAME_WEIGHT: Final = 2.0


def relevances(query: str, texts: Sequence[str], words: Words) -> list[float]:
    """
    How well each text answers a question; 0 for one that shares no word with it.

    Okapi BM25 (Robertson and Zaragoza 2009) with k1 = 1.2 and b = 0.75 over the given texts, and
    the inverse document frequency that is never negative.

    Args:
        query: The question.
        texts: The texts.
        words: Splits both.
    """
    asked = frozenset(words(query))
    lengths: list[int] = []
    documents: list[dict[str, int]] = []
    for text in texts:
        told = words(text)
        lengths.append(len(told))
        documents.append({word: told.count(word) for word in asked.intersection(told)})
    mean = sum(lengths) / len(lengths) if lengths else 0.0
    holding = Counter(word for document in documents for word in document)
    return [
        sum(
            _weight(holding[word], len(documents)) * _saturated(count, length, mean)
            for word, count in document.items()
        )
        for document, length in zip(documents, lengths, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class Named:
    """
    Something that is looked for by its name.

    Args:
        keys: Its id, and its name in the form in which whole names are compared.
        name: Its name.
        text: All that is known of it, with the name.
    """

    keys: frozenset[str]
    name: str
    text: str


def best_named(
    query: str, among: Sequence[Named], words: Words, key_of: Callable[[str], str]
) -> list[int]:
    """
    The places of those that share a word with a question, best first: a word of the name counts
    more. What has the whole question for a name or id comes before all others.

    Args:
        query: The question.
        among: What is looked at.
        words: Splits texts.
        key_of: The form in which whole names are compared.
    """
    whole = key_of(query)
    told = relevances(query, [one.text for one in among], words)
    found = [place for place, one in enumerate(among) if told[place] > 0 or whole in one.keys]
    named = relevances(query, [among[place].name for place in found], words)
    scores = {
        place: (whole in among[place].keys, told[place] + NAME_WEIGHT * name)
        for place, name in zip(found, named, strict=True)
    }
    return sorted(found, key=lambda place: scores[place], reverse=True)


def _weight(holding: int, documents: int) -> float:
    return math.log(1 + (documents - holding + 0.5) / (holding + 0.5))


def _saturated(count: int, length: int, mean: float) -> float:
    norm = 1 - LENGTH_WEIGHT + LENGTH_WEIGHT * length / mean
    return count * (SATURATION + 1) / (count + SATURATION * norm)
