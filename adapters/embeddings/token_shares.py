"""
How often a language uses each token of the default embedder: a fixed table, part of the model.

Words that are everywhere say little; weighted by a / (a + share) they hardly count (smooth inverse
frequency: Arora, Liang and Ma, "A Simple but Tough-to-Beat Baseline for Sentence Embeddings",
2017). The shares were counted once in the conversation that the project ships, never in anybody's
memories: ``python -m memoriale.adapters.embeddings.token_shares`` writes them anew, and then the
model needs another name.
"""

import json
import re
from collections import Counter
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from memoriale.projections.embedding import Vectors

SMOOTHING: Final = 3e-3
"""The ``a`` of the formula; from 1e-3 to 1e-2 made little difference."""
_FILE: Final = "token_shares.json"
_SESSION: Final = re.compile(r"session_\d+")


@cache
def counts() -> dict[int, int]:
    """How often the table's text has each token, by token id."""
    text = (files("memoriale.adapters.embeddings") / _FILE).read_text("utf-8")
    return {int(token): count for token, count in json.loads(text).items()}


def weights(tokens: int) -> "Vectors":
    """
    The weight of each token, shape [tokens], 0..1.

    Args:
        tokens: Size of the vocabulary.
    """
    import numpy

    shares = numpy.zeros(tokens)
    for token, count in counts().items():
        shares[token] = count
    shares /= shares.sum()
    weighted: Vectors = (SMOOTHING / (SMOOTHING + shares)).astype(numpy.float32)
    return weighted


def common(table: Any, weighted: "Vectors") -> "Vectors":
    """
    What the weighted vectors of all texts have in common, shape [width]; taken off each.

    Args:
        table: Vectors of the tokens, shape [tokens, width].
        weighted: From ``weights``.
    """
    import numpy

    tokens = numpy.array(sorted(counts()))
    often = numpy.array([counts()[token] for token in tokens.tolist()], dtype=numpy.float64)
    share = often * weighted[tokens]
    mean: Vectors = (share @ table[tokens] / share.sum()).astype(numpy.float32)
    return mean


def count_tokens(tokenizer: Any) -> dict[int, int]:
    """Counts the tokens of the shipped conversation, as the table holds them."""
    text = (files("memoriale.adapters.demo") / "history.json").read_text("utf-8")
    sessions = json.loads(text)["conversation"]
    turns = [t for name, found in sessions.items() if _SESSION.fullmatch(name) for t in found]
    texts = [f"{turn['speaker']}: {turn['text']}" for turn in turns]
    encoded = tokenizer.encode_batch(texts, add_special_tokens=False)
    return dict(sorted(Counter(token for e in encoded for token in e.ids).items()))


def main() -> None:
    """Writes the table beside this module."""
    from memoriale.adapters.embeddings.wordllama import load

    tokenizer, _ = load()
    with open(str(files("memoriale.adapters.embeddings") / _FILE), "w", encoding="utf-8") as file:
        json.dump(count_tokens(tokenizer), file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
