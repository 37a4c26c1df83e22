"""An embedder of the package ``sentence-transformers``: models that run in this process."""

from collections.abc import Sequence
from importlib.util import find_spec
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from memoriale.adapters.embeddings.prefixes import prefixes_of
from memoriale.adapters.embeddings.widths import KnownWidths
from memoriale.domain.errors import InputError, UnavailableError

if TYPE_CHECKING:
    from memoriale.projections.embedding import Vectors

PACKAGE: Final = "sentence_transformers"
_PASSAGE_PROMPTS: Final = ("passage", "document")
_QUERY_PROMPTS: Final = ("query",)


class SentenceTransformersEmbedder:
    """
    A model of ``sentence-transformers``, read at its first use. Its vectors have length 1.

    The package looks for the model on this machine, then on its hub: to keep it from the network,
    name a folder, or set ``HF_HUB_OFFLINE=1``.

    Args:
        name: Name or folder of the model.
        widths: Widths learnt before; for an unknown one the model is read at once.

    Raises:
        InputError: The package is not installed.
        UnavailableError: The model cannot be read.
    """

    def __init__(self, name: str, *, widths: KnownWidths | None = None) -> None:
        _require_package(name)
        self._name = name
        self._lock = Lock()
        self._loaded: Any = None
        known = widths or KnownWidths(None)
        known_as = f"sentence-transformers/{name}"
        self.width = known.get(known_as) or int(self._encoded(["width"], "").shape[1])
        known.put(known_as, self.width)
        self.model = f"{known_as}/{self.width}"

    def embed_passages(self, texts: Sequence[str]) -> "Vectors":
        """Vectors of texts, shape [number of texts, width]."""
        prefix = self._prompt(_PASSAGE_PROMPTS, prefixes_of(self._name).passage)
        return self._encoded(texts, prefix)

    def embed_query(self, text: str) -> "Vectors":
        """Vector of a question, shape [width]."""
        prefix = self._prompt(_QUERY_PROMPTS, prefixes_of(self._name).query)
        vector: Vectors = self._encoded([text], prefix)[0]
        return vector

    def _encoded(self, texts: Sequence[str], prompt: str) -> "Vectors":
        import numpy

        if not texts:
            return numpy.zeros((0, self.width), dtype=numpy.float32)
        # A prompt is always given: without one the model's default is put before every text.
        vectors: Vectors = self._model().encode(
            list(texts),
            prompt=prompt,
            convert_to_numpy=True,
            normalize_embeddings=True,
            show_progress_bar=False,
        )
        return vectors

    def _prompt(self, names: Sequence[str], otherwise: str) -> str:
        """The model's own prompt; most models of older releases come without."""
        prompts = getattr(self._model(), "prompts", None) or {}
        return next((prompts[name] for name in names if prompts.get(name)), otherwise)

    def _model(self) -> Any:
        with self._lock:
            if self._loaded is None:
                self._loaded = _load(self._name)
            return self._loaded


def _require_package(name: str) -> None:
    if find_spec(PACKAGE) is None:
        raise InputError(
            "MEMORIALE_EMBEDDER names a model of sentence-transformers, but that package is not "
            "installed; run 'pip install sentence-transformers', or name another embedder.",
            code="missing_package",
            field="MEMORIALE_EMBEDDER",
            value=f"sentence-transformers:{name}",
            allowed="sentence-transformers installed, or another embedder",
        )


def _load(name: str) -> Any:
    from importlib import import_module

    try:
        return import_module(PACKAGE).SentenceTransformer(name)
    except (ImportError, OSError, ValueError, RuntimeError) as error:
        raise UnavailableError(
            f"the model {name!r} of sentence-transformers cannot be read "
            f"({type(error).__name__}: {error}).",
            code="embedder_failed",
            field="MEMORIALE_EMBEDDER",
            value=name,
        ) from error
