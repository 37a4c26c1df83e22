"""An embedder without a model, for tests: words are hashed into a vector."""

import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from memoriale.projections.embedding import Vectors

_WORD: Final = re.compile(r"\w+")


class HashEmbedder:
    """
    Feature hashing: each word adds 1 or -1 to one component, both chosen by its hash; the sum
    has length 1. Texts that share words are near each other, always and everywhere alike. It
    knows no meaning: use it where a test wants vectors without a model.

    Args:
        width: Number of components.

    Source: K. Weinberger et al., "Feature Hashing for Large Scale Multitask Learning" (2009).
    """

    in_process = True

    def __init__(self, width: int = 64) -> None:
        self.width = width
        self.model = f"hashing-{width}/1"

    def embed_passages(self, texts: Sequence[str]) -> "Vectors":
        """Vectors of texts, shape [number of texts, width]."""
        import numpy

        vectors = numpy.zeros((len(texts), self.width), dtype=numpy.float32)
        for vector, text in zip(vectors, texts, strict=True):
            for word in _WORD.findall(text.casefold()):
                digest = blake2b(word.encode(), digest_size=8).digest()
                place = int.from_bytes(digest[:7], "big") % self.width
                vector[place] += 1 if digest[7] & 1 else -1
        lengths = numpy.linalg.norm(vectors, axis=1, keepdims=True)
        lengths[lengths == 0] = 1
        normalised: Vectors = vectors / lengths
        return normalised

    def embed_query(self, text: str) -> "Vectors":
        """Vector of a question, shape [width]."""
        vector: Vectors = self.embed_passages([text])[0]
        return vector


def make() -> HashEmbedder:
    """The factory that ``MEMORIALE_EMBEDDER=memoriale.adapters.embeddings.hashing:make`` names."""
    return HashEmbedder()
