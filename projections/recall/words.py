"""Splitting text into the words that keyword search compares: folded, stemmed, without fillers."""

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

from memoriale.projections.recall.schema import STOP_WORDS

PASSAGE_WORDS: Final = 80
"""Words of a passage: longer texts are searched piece by piece, so that length drowns nothing."""

_RUN: Final = re.compile(r"[^\W_]+")
_UNSPACED: Final = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]+")
"""Scripts that set no space between words, or none around particles: kana, Han, Hangul."""
_LAST_ALPHABET: Final = 0x530
"""Latin, Greek and Cyrillic lie below: their accents are folded away, other scripts' marks not."""
_SENTENCE_END: Final = re.compile(r"(?<=[.!?\n。！？])\s*")
_CONTRACTIONS: Final = ("s", "t", "d", "m", "ll", "re", "ve")
_FILLERS: Final = frozenset((*STOP_WORDS, *_CONTRACTIONS))


def words(text: str) -> list[str]:
    """
    The words of a text in order.

    Letters are case-folded, accents of alphabets dropped; English endings are stemmed (Snowball)
    and English fillers left out. Text of Chinese, Japanese and Korean is split into pairs of
    neighbouring characters.
    """
    return [word for run in _RUN.findall(folded(text)) for word in _of_run(run)]


def folded(text: str) -> str:
    """Case and accents folded: ``Köln``, ``KÖLN`` and ``koln`` are one."""
    if text.isascii():
        return text.lower()
    kept, alphabet = [], False
    for character in unicodedata.normalize("NFD", text.casefold()):
        if unicodedata.combining(character):
            if not alphabet:
                kept.append(character)
            continue
        alphabet = ord(character) < _LAST_ALPHABET
        kept.append(character)
    return unicodedata.normalize("NFC", "".join(kept))


def passages(text: str) -> list[str]:
    """
    Pieces of at most about 80 words, cut at ends of lines and sentences; a shorter text stays
    whole.
    """
    if len(text) <= PASSAGE_WORDS or text.count(" ") < PASSAGE_WORDS:
        return [text]
    pieces, current, length = [], "", 0
    for part in _parts(text):
        size = part.count(" ") + 1
        if current and length + size > PASSAGE_WORDS:
            pieces.append(current)
            current, length = "", 0
        current += part
        length += size
    return [*pieces, current] if current.strip() else pieces


def _parts(text: str) -> Iterator[str]:
    start = 0
    for end in (match.end() for match in _SENTENCE_END.finditer(text)):
        if end > start:
            yield from _cut(text[start:end])
            start = end
    if start < len(text):
        yield from _cut(text[start:])


def _cut(sentence: str) -> Iterator[str]:
    parts = sentence.split(" ")
    for start in range(0, len(parts), PASSAGE_WORDS):
        more = start + PASSAGE_WORDS < len(parts)
        yield " ".join(parts[start : start + PASSAGE_WORDS]) + (" " if more else "")


def _of_run(run: str) -> Iterator[str]:
    if run.isascii():
        if run not in _FILLERS:
            yield stemmed(run)
        return
    start = 0
    for match in _UNSPACED.finditer(run):
        if match.start() > start:
            yield run[start : match.start()]
        yield from _pairs(match.group())
        start = match.end()
    if start < len(run):
        yield run[start:]


def _pairs(run: str) -> Iterator[str]:
    if len(run) == 1:
        yield run
    for left, right in pairwise(run):
        yield left + right


@lru_cache(maxsize=65_536)
def stemmed(word: str) -> str:
    """An English word without its ending."""
    stem: str = _stemmer().stemWord(word)
    return stem


@lru_cache(maxsize=1)
def _stemmer() -> Any:
    import snowballstemmer

    return snowballstemmer.stemmer("english")
