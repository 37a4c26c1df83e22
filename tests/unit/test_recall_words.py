"""Words: how text of any language is split for keyword search, and cut into passages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoriale.projections.recall.words import PASSAGE_WORDS, folded, passages, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("When did Caroline go hiking?", ["carolin", "go", "hike"]),
        ("KÖLN Köln koln", ["koln", "koln", "koln"]),
        ("Straße naïve café", ["strass", "naiv", "cafe"]),
        ("ERR_TLS_CERT", ["err", "tls", "cert"]),
        ("上海大学", ["上海", "海大", "大学"]),
        ("海", ["海"]),
        ("서울에서", ["서울", "울에", "에서"]),
        ("tea茶室tea", ["tea", "茶室", "tea"]),
        ("ёлка", ["елка"]),
        ("نص عربي", ["نص", "عربي"]),
        ("!?… — \"' 🙂", []),
        ("the and of", []),
    ],
)
def test_words_of_any_language(text: str, expected: list[str]) -> None:
    """Case and accents are folded, English stemmed, fillers dropped; scripts without spaces are
    cut into pairs."""
    assert words(text) == expected


@given(st.text())
def test_splitting_never_fails_and_folding_is_stable(text: str) -> None:
    """Any text has words, and a folded text folds to itself."""
    assert all(word and " " not in word and "\n" not in word for word in words(text))
    assert folded(folded(text)) == folded(text)


@given(st.lists(st.text(alphabet="ab.!? \n", max_size=40), max_size=60))
def test_passages_lose_nothing(parts: list[str]) -> None:
    """The passages of a text, put together, are the text; none is much over its size."""
    text = " ".join(parts)
    found = passages(text)
    assert "".join(found).strip() == text.strip()
    assert all(part.count(" ") <= 2 * PASSAGE_WORDS for part in found)


def test_a_short_text_is_one_passage() -> None:
    """Up to 80 words a text stays whole."""
    assert passages("word " * 79 + "word") == ["word " * 79 + "word"]
    assert len(passages("A sentence of five words. " * 40)) > 1
