"""Counting tokens with a tokenizer that is installed anyway; nothing is downloaded."""

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from memoriale.domain.tokens import CharacterCounter, TokenCounter

_VOCABULARY: Final = Path("tokenizers") / "l2_supercat_tokenizer_config.json"


class VocabularyCounter:
    """
    Counts with a vocabulary in a file of Hugging Face's format.

    Args:
        file: The vocabulary.
    """

    def __init__(self, file: Path) -> None:
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(file))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def count(self, text: str) -> int:
        """See ``TokenCounter``."""
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)


@cache
def default_counter() -> TokenCounter:
    """
    The vocabulary of 32,000 tokens that comes with wordllama (extra ``local``); without it the
    estimate by characters. Models split texts differently: leave some room.
    """
    file = shipped_vocabulary()
    return CharacterCounter() if file is None else VocabularyCounter(file)


def shipped_vocabulary() -> Path | None:
    """The vocabulary in wordllama's folder; None when that is not installed."""
    found = find_spec("wordllama")
    if found is None or found.origin is None:
        return None
    file = Path(found.origin).parent / _VOCABULARY
    return file if file.is_file() else None
