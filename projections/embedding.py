"""The port of an embedder: a model that turns text into vectors."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable
from uuid import UUID

from memoriale.domain.errors import MemorialeError, UnavailableError, is_callers_end

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Vectors = NDArray[numpy.float32]


class Embedder(Protocol):
    """
    Turns text into vectors whose cosine says how near two texts are in meaning.

    ``model`` names the model with its version: vectors of two names are never compared.
    ``width`` is the number of components of a vector. A text that the model knows nothing of
    has a vector of zeros, which counts as none.
    """

    model: str
    width: int

    def embed_passages(self, texts: Sequence[str]) -> "Vectors":
        """Vectors of texts that are searched, shape [number of texts, width]."""

    def embed_query(self, text: str) -> "Vectors":
        """Vector of a question, shape [width]."""


@runtime_checkable
class OwnedEmbedder(Embedder, Protocol):
    """An embedder that is told whose texts are, so that it can keep vectors under their keys."""

    def embed_owned(self, owners: Sequence[UUID], texts: Sequence[str]) -> "Vectors":
        """
        Vectors of texts that are searched, shape [number of texts, width].

        Args:
            owners: For each text the pseudonym of the memory's owner.
            texts: The texts.
        """


def embed_owned(embedder: Embedder, owners: Sequence[UUID], texts: Sequence[str]) -> "Vectors":
    """
    The checked vectors of texts, shape [number of texts, width], float32; kept under the
    owners' keys if the embedder can.

    Raises:
        UnavailableError: ``embedder_failed`` or ``bad_vectors``.
    """
    if not isinstance(embedder, OwnedEmbedder):
        return embed_passages(embedder, texts)
    vectors = _called(embedder, lambda: embedder.embed_owned(owners, texts))
    return check_vectors(vectors, embedder, len(texts))


def embed_passages(embedder: Embedder, texts: Sequence[str]) -> "Vectors":
    """
    The checked vectors of texts, shape [number of texts, width], float32.

    Raises:
        UnavailableError: ``embedder_failed`` or ``bad_vectors``.
    """
    vectors = _called(embedder, lambda: embedder.embed_passages(texts))
    return check_vectors(vectors, embedder, len(texts))


def embed_query(embedder: Embedder, text: str) -> "Vectors":
    """
    The checked vector of a question, shape [width], float32.

    Raises:
        UnavailableError: ``embedder_failed`` or ``bad_vectors``.
    """
    vector = _called(embedder, lambda: embedder.embed_query(text))
    checked: Vectors = check_vectors([vector], embedder, 1)[0]
    return checked


def check_vectors(vectors: Any, embedder: Embedder, count: int) -> "Vectors":
    """
    The vectors as float32, if there are as many as texts, all of the model's width and finite.

    Args:
        vectors: What the embedder returned: an array, or nested sequences of numbers.
        embedder: Whose they are.
        count: Number of texts that were given.

    Raises:
        UnavailableError: ``bad_vectors``, with the shape found and the one expected.
    """
    import numpy

    expected = (count, embedder.width)
    try:
        array = numpy.asarray(vectors, dtype=numpy.float32)
    except (TypeError, ValueError) as error:
        raise _bad_vectors(embedder, "no array of numbers", expected) from error
    if array.shape != expected:
        raise _bad_vectors(embedder, f"the shape {list(array.shape)}", expected)
    if not numpy.isfinite(array).all():
        raise _bad_vectors(embedder, "NaN or infinity among its numbers", expected)
    return array


def _called(embedder: Embedder, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except MemorialeError:
        raise
    except BaseException as error:
        if is_callers_end(error):
            raise
        raise UnavailableError(
            f"the embedder {embedder.model!r} failed with {type(error).__name__}: {error}",
            code="embedder_failed",
            field="MEMORIALE_EMBEDDER",
            value=embedder.model,
        ) from error


def _bad_vectors(embedder: Embedder, found: str, expected: tuple[int, int]) -> UnavailableError:
    return UnavailableError(
        f"the embedder {embedder.model!r} returned vectors with {found}; expected are "
        f"{expected[0]} vectors of {expected[1]} finite numbers.",
        code="bad_vectors",
        field="MEMORIALE_EMBEDDER",
        value=embedder.model,
        allowed=f"{expected[0]} x {expected[1]} finite numbers",
    )
