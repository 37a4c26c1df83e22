"""What every embedder must do."""

from abc import ABC, abstractmethod

import numpy

from memoriale.projections.embedding import Embedder, embed_passages, embed_query

TEXTS = ["the cat sat on the mat", "a cat on a mat", "stock prices fell", "上海天气", "x " * 3_000]


class EmbedderContract(ABC):
    """Base of a test class; a subclass says how an embedder is made."""

    @abstractmethod
    def make(self) -> Embedder:
        """An embedder."""

    def test_it_says_what_it_is(self) -> None:
        """Model and width are known before a text is embedded, and do not change."""
        embedder = self.make()
        before = (embedder.model, embedder.width)
        embed_passages(embedder, TEXTS)
        assert embedder.model
        assert (embedder.model, embedder.width) == before == (self.make().model, self.make().width)

    def test_shapes(self) -> None:
        """Passages give [number, width], a question [width], nothing an empty array; float32."""
        embedder = self.make()
        vectors = embed_passages(embedder, TEXTS)
        assert vectors.shape == (len(TEXTS), embedder.width)
        assert embed_passages(embedder, []).shape == (0, embedder.width)
        query = embed_query(embedder, TEXTS[0])
        assert query.shape == (embedder.width,)
        assert {vectors.dtype, query.dtype} == {numpy.dtype(numpy.float32)}

    def test_length(self) -> None:
        """Vectors have length 1, or are zeros."""
        vectors = embed_passages(self.make(), [*TEXTS, "", "?"])
        lengths = numpy.linalg.norm(vectors, axis=1)
        assert numpy.allclose(lengths[lengths > 0], 1, atol=1e-5)
        assert (lengths[: len(TEXTS) - 2] > 0).all()

    def test_it_gives_the_same_again(self) -> None:
        """A text has one vector, whatever stands beside it."""
        embedder = self.make()
        together = embed_passages(embedder, TEXTS)
        again = embed_passages(self.make(), TEXTS[::-1])[::-1]
        alone = numpy.concatenate([embed_passages(embedder, [text]) for text in TEXTS])
        for other in (again, alone):
            assert numpy.allclose((together * other).sum(axis=1), 1, atol=1e-5)

    def test_near_texts_are_near(self) -> None:
        """A question is nearer to a text about the same than to another."""
        cat, mat, stock, *_ = embed_passages(self.make(), TEXTS)
        query = embed_query(self.make(), "where did the cat sit, on a mat?")
        assert min(query @ cat, query @ mat) > query @ stock
