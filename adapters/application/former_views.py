"""A recall view of another model or version, as it serves until its successor is built."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from memoriale.adapters.embeddings.factory import make_embedder
from memoriale.domain.errors import MemorialeError, UnavailableError
from memoriale.projections.embedding import Embedder
from memoriale.projections.kind import Former

if TYPE_CHECKING:
    from memoriale.projections.embedding import Vectors
    from memoriale.projections.recall.view import RecallView

_SHIPPED: Final = ("wordllama", "memoriale.adapters.embeddings.hashing:make")
"""
Models that may still embed questions when another one is configured: those that come with the
package. A model elsewhere was configured away, so nothing more is sent to it.
"""


class NoModel:
    """
    Stands for a model that cannot be asked any more: no text has a vector of it, so questions
    are answered by keyword, and so are texts posted meanwhile.

    Args:
        model: The model's name.
        width: Components of its vectors.
    """

    def __init__(self, model: str, width: int) -> None:
        self.model, self.width = model, width

    def embed_passages(self, texts: Sequence[str]) -> "Vectors":
        """Zeros, shape [number of texts, width]."""
        import numpy

        return numpy.zeros((len(texts), self.width), dtype=numpy.float32)

    def embed_query(self, text: str) -> "Vectors":
        """Zeros, shape [width]."""
        import numpy

        return numpy.zeros(self.width, dtype=numpy.float32)


def recall_fingerprint(version: int, embedder: Embedder) -> str:
    """What a recall view is built with: version of its rows, model, width."""
    return f"recall/{version}/{embedder.model}/{embedder.width}"


def fingerprint_width(fingerprint: str) -> int | None:
    """Components of the vectors of a recall view with this fingerprint; None: it is another's."""
    _, _, width = fingerprint.rpartition("/")
    return int(width) if width.isdigit() else None


def open_former_recall(folder: Path, fingerprint: str) -> "Former[RecallView] | None":
    """
    Opens a recall view that was built with another fingerprint. One of another version can be
    read as long as its table has the same columns; nothing is posted into it.

    Args:
        folder: The generation's folder.
        fingerprint: As of ``recall_fingerprint``.

    Returns:
        None when this version cannot read it.
    """
    from memoriale.projections.recall.schema import SENTINEL_KEY, arrow_schema
    from memoriale.projections.recall.view import VERSION, RecallView

    try:
        _, version, named = fingerprint.split("/", 2)
        model, width = named.rsplit("/", 1)
        view = RecallView.open(folder, _embedder(model, int(width)))
        view.table.read(f"key = {SENTINEL_KEY}", arrow_schema(int(width)).names)
    except (UnavailableError, ValueError):
        return None
    return Former(view, postable=version == str(VERSION))


def _embedder(model: str, width: int) -> Embedder:
    for spec in _SHIPPED:
        try:
            embedder = make_embedder(spec)
        except MemorialeError:
            continue
        if (embedder.model, embedder.width) == (model, width):
            return embedder
    return NoModel(model, width)
