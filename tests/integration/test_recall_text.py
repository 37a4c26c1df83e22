"""Text of any kind is stored, filtered by and searched as words, never read as a language."""

from pathlib import Path

import pytest

from tests.fixtures.events import START, History
from tests.integration.test_recall_search import ask, contents
from tests.integration.test_recall_view import posted

ODD_QUERIES = (
    "'",
    '"red kite"',
    "red AND (kite OR",
    "+red -kite *:* ~2 \\ ^3 field:red [a TO b] {x}",
    "!!! ... ???",
    "the and of to",
    "🎉🎉🎉",
    "上海天气怎么样",
    "東京の天気",
    "서울 날씨",
    "مرحبا بالعالم",
    "\u202eשלום\u202c עולם",
    "e\u0301te\u0301 Straße KÖLN",
    "'; DROP TABLE versions; --",
    "%_",
    "{{7*7}}",
    "\t\n \u00a0\u200b",
    "a" * 16_384,
    "red kite " * 1_820,
    "上" * 16_384,
)


@pytest.mark.parametrize("tag", ["'", "''", "\\", "\\'", "%", "_", '"', "上海 🎉", "a' OR '1'='1"])
def test_hostile_tags_match_themselves_only(tmp_path: Path, tag: str) -> None:
    """A tag is compared as it is, whatever signs it has."""
    history = History()
    history.remembered("red kite tagged", tags=(tag, "other"))
    history.remembered("red kite plain", tags=("x",))
    view = posted(tmp_path, history)
    assert contents(ask(view, history, "kite", tags=(tag,))) == ["red kite tagged"]


@pytest.mark.parametrize("indexed", [True, False])
def test_odd_questions_are_only_text(tmp_path: Path, indexed: bool) -> None:
    """Whatever a question holds it is searched as words: no failure, no query language."""
    history = History()
    for text in (
        "red kite",
        "上海天气很好",
        "서울 날씨",
        "שלום עולם",
        "مرحبا بالعالم",
        "été à Köln",
    ):
        history.remembered(text)
    view = posted(tmp_path, history)
    if indexed:
        view.table.optimize()
    for question in ODD_QUERIES:
        for vector_leg in (True, False):
            ask(view, history, question, vector_leg=vector_leg)
    first = {
        text: contents(ask(view, history, text, vector_leg=False))[:1]
        for text in ("上海", "שלום", "مرحبا", "ete", "KOLN", '"red', "(kite")
    }
    assert first == {
        "上海": ["上海天气很好"],
        "שלום": ["שלום עולם"],
        "مرحبا": ["مرحبا بالعالم"],
        "ete": ["été à Köln"],
        "KOLN": ["été à Köln"],
        '"red': ["red kite"],
        "(kite": ["red kite"],
    }


@pytest.mark.parametrize("word", ["cat", "dog", "man", "war", "sea", "hat"])
def test_common_english_nouns_are_found(tmp_path: Path, word: str) -> None:
    """Words that are stop words of other languages only are searched, singular or plural."""
    history = History()
    history.remembered(f"I saw the {word}s")
    view = posted(tmp_path, history)
    assert len(ask(view, history, word, vector_leg=False)) == 1


def test_speaker_and_date_are_searched(tmp_path: Path) -> None:
    """A message is found by who said it and by its date in words."""
    history = History()
    spoken = {"speaker": "Melanie", "caption": "a lighthouse"}
    history.remembered("Look!", kind="message", payload=spoken, valid_from=START)
    view = posted(tmp_path, history)
    for question in ("Melanie", "January", "lighthouse"):
        assert contents(ask(view, history, question, vector_leg=False)) == ["Look!"]
