"""Vectors of an ``EmbeddingProvider``, checked before they are used, and one over our models."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from memoriale.adapters.embeddings.factory import make_embedder
from memoriale.domain.errors import (
    InputError,
    MemorialeError,
    UnavailableError,
    is_callers_end,
)
from memoriale.domain.resources.providers import EmbeddingProvider
from memoriale.domain.text import check_text
from memoriale.projections.embedding import Embedder, embed_passages, embed_query

if TYPE_CHECKING:
    from memoriale.projections.embedding import Vectors

MOST: Final = 65_536
"""Components that a vector may have."""
Type = Literal["query", "passage"]


class ModelEmbeddings:
    """
    An ``EmbeddingProvider`` over one of the ledger's embedders.

    Args:
        embedder: Makes the vectors; ``id`` is its model's name.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    @property
    def id(self) -> str:
        """The model with its version."""
        return self._embedder.model

    def embed(self, texts: Sequence[str], *, type: Type = "passage") -> Sequence[Sequence[float]]:
        """A vector for each text."""
        if type == "query":
            return [embed_query(self._embedder, text).tolist() for text in texts]
        vectors: list[list[float]] = embed_passages(self._embedder, texts).tolist()
        return vectors


def load_embeddings(model: str = "wordllama") -> ModelEmbeddings:
    """
    Embeddings for providers, by the name of a model.

    Args:
        model: As for the setting ``embedder``: ``wordllama``, ``onnx:FOLDER``, ``openai:MODEL``,
            ``sentence-transformers:MODEL`` or ``package.module:factory``.

    Raises:
        InputError: Another name, or a package that is not installed.
    """
    return ModelEmbeddings(make_embedder(model))


def check_embeddings(embeddings: object) -> EmbeddingProvider:
    """
    An embedding provider with a usable id.

    Raises:
        InputError: Something else.
    """
    if not isinstance(embeddings, EmbeddingProvider):
        raise InputError(
            "embeddings is no EmbeddingProvider; give an object with id and embed.",
            code="bad_value",
            field="embeddings",
            value=type(embeddings).__name__,
            allowed="an object with id and embed(texts, type=...)",
        )
    check_text("embeddings.id", embeddings.id, max_bytes=1_024)
    return embeddings


def embedded(
    embeddings: EmbeddingProvider, texts: Sequence[str], type: Type, width: int | None
) -> "Vectors":
    """
    The vectors of texts, each of length 1 or all zeros, shape [number of texts, width].

    Args:
        embeddings: Asked once for all texts.
        texts: At least one.
        type: Whether they are stored or asked.
        width: What the vectors of this model have had so far; None: not known yet.

    Raises:
        UnavailableError: ``embedder_failed``, or ``bad_vectors``: too few or too many, of
            another or of several widths, no numbers, NaN or infinity.
    """
    import numpy

    try:
        found: Any = embeddings.embed(texts, type=type)
    except MemorialeError:
        raise
    except BaseException as error:
        if is_callers_end(error):
            raise
        raise UnavailableError(
            f"the embeddings {embeddings.id!r} failed with {_name(error)}: {error}",
            code="embedder_failed",
            field="embeddings",
            value=embeddings.id,
        ) from error
    try:
        array = numpy.asarray(found, dtype=numpy.float64)
    except (TypeError, ValueError) as error:
        raise _bad(embeddings, "no array of numbers", len(texts), width) from error
    if array.ndim != 2 or array.shape[0] != len(texts) or not 1 <= array.shape[1] <= MOST:
        raise _bad(embeddings, f"the shape {list(array.shape)}", len(texts), width)
    if width is not None:
        check_width(embeddings, array.shape[1], width)
    if not numpy.isfinite(array).all():
        raise _bad(embeddings, "NaN or infinity among their numbers", len(texts), width)
    return _of_length_one(array)


def check_width(embeddings: EmbeddingProvider, found: int, width: int) -> None:
    """
    Refuses vectors that are not as wide as those that are stored.

    Raises:
        UnavailableError: ``bad_vectors``.
    """
    if found != width:
        raise UnavailableError(
            f"the embeddings {embeddings.id!r} returned vectors of {found} components, and those "
            f"that are stored have {width}; give another model another id. Nothing was stored.",
            code="bad_vectors",
            field="embeddings",
            value=f"{found} components",
            allowed=f"{width} components",
        )


def _of_length_one(array: Any) -> "Vectors":
    import numpy

    # Divided by the largest first, so that no square is too large or too small for a float.
    largest = numpy.abs(array).max(axis=1, keepdims=True)
    scaled = array / numpy.where(largest == 0, 1, largest)
    lengths = numpy.linalg.norm(scaled, axis=1, keepdims=True)
    vectors: Vectors = (scaled / numpy.where(lengths == 0, 1, lengths)).astype(numpy.float32)
    return vectors


def _bad(
    embeddings: EmbeddingProvider, found: str, count: int, width: int | None
) -> UnavailableError:
    wide = "one width" if width is None else f"{width} components"
    return UnavailableError(
        f"the embeddings {embeddings.id!r} returned vectors with {found}; expected are {count} "
        f"of {wide}, finite numbers. Nothing was stored.",
        code="bad_vectors",
        field="embeddings",
        value=embeddings.id,
        allowed=f"{count} vectors of {wide}, finite numbers",
    )


def _name(error: BaseException) -> str:
    return error.__class__.__name__
