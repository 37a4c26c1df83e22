"""Counting tokens: with the tokenizer that ships, and without one."""

import importlib.util
from pathlib import Path

import pytest
from pydantic import JsonValue

from memoriale.adapters import tokens
from memoriale.domain.chat import ChatMessage, ToolCall
from memoriale.domain.tokens import CharacterCounter, TokenCounter, turn_tokens


def test_the_shipped_vocabulary_counts_words_and_pieces() -> None:
    """Common words are one token each, rare text is more, nothing is none; nothing is fetched."""
    counter = tokens.default_counter()
    assert isinstance(counter, TokenCounter)
    assert not isinstance(counter, CharacterCounter)
    assert counter.count("") == 0
    assert counter.count("the cat is here") == 4
    assert counter.count("日本語の文章") >= 6
    assert counter.count("word " * 5_000) >= 5_000


@pytest.mark.parametrize(("text", "count"), [("", 0), ("a", 1), ("abc", 1), ("abcd", 2)])
def test_the_estimate_is_characters_by_three(text: str, count: int) -> None:
    """Without a tokenizer a text counts its characters divided by 3, rounded up."""
    assert CharacterCounter().count(text) == count


def test_without_the_library_the_estimate_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where wordllama is not installed, or has no vocabulary, the estimate is taken."""
    monkeypatch.setattr(tokens, "find_spec", lambda name: None)
    assert tokens.shipped_vocabulary() is None
    tokens.default_counter.cache_clear()
    try:
        assert isinstance(tokens.default_counter(), CharacterCounter)
    finally:
        tokens.default_counter.cache_clear()
    monkeypatch.setattr(tokens, "find_spec", importlib.util.find_spec)
    monkeypatch.setattr(tokens, "_VOCABULARY", Path("none.json"))
    assert tokens.shipped_vocabulary() is None


def test_a_turn_counts_its_calls_and_images() -> None:
    """Words, calls as JSON, 4 for the turn, and 1,000 for each part that is no text."""
    counter = CharacterCounter()
    image: dict[str, JsonValue] = {"type": "image"}
    both = ChatMessage(role="user", content=({"type": "text", "text": "abc"}, image))
    assert turn_tokens(ChatMessage(role="user", content="abc"), counter) == 1 + 4
    assert turn_tokens(ChatMessage(role="assistant"), counter) == 4
    assert turn_tokens(both, counter) == counter.count("abc\n[image]") + 4 + 1_000
    calls = (ToolCall(id="1", name="look", arguments={"q": "x" * 300}),)
    assert turn_tokens(ChatMessage(role="assistant", tool_calls=calls), counter) > 100
