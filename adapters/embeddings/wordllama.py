"""The default embedder: WordLlama's static word vectors, which ship inside its wheel."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from memoriale.adapters.embeddings.token_shares import common, weights
from memoriale.domain.errors import InputError, UnavailableError

if TYPE_CHECKING:
    from memoriale.projections.embedding import Vectors

PACKAGE: Final = "wordllama"
CONFIG: Final = "l2_supercat"
WIDTH: Final = 256
POOLING: Final = "sif1"
"""Name of the weights that tokens have in a mean; another table is another name."""
_SLICE_TOKENS: Final = 8_192
"""Tokens looked up at once: 8 MB of vectors."""
_LONG_TEXT: Final = 4_096
"""Tokens from which a text is pooled by token counts, whose memory does not grow with it."""


class WordLlamaEmbedder:
    """
    The mean of the static vectors of a text's tokens, weighted by how much each says (see
    ``token_shares``), divided by its length (L2).

    256 components; nothing is ever downloaded. The model is read at the first use. A text's
    vector does not depend on the texts beside it.

    Raises:
        InputError: The package ``wordllama`` is not installed.
    """

    in_process = True

    def __init__(self) -> None:
        self.width = WIDTH
        self.model = f"{PACKAGE}-{CONFIG}-{WIDTH}/{_installed_version()}/{POOLING}"
        self._lock = Lock()
        self._loaded: _Model | None = None

    def embed_passages(self, texts: Sequence[str]) -> "Vectors":
        """Vectors of texts, shape [number of texts, 256]; zeros for a text without tokens."""
        import numpy

        model = self._model()
        pooled = numpy.zeros((len(texts), WIDTH), dtype=numpy.float32)
        for positions, ids in _slices(model.tokenizer, texts):
            pooled[positions] = _pooled(model, ids)
        lengths = numpy.linalg.norm(pooled, axis=1, keepdims=True)
        lengths[lengths == 0] = 1
        normalised: Vectors = pooled / lengths
        return normalised

    def embed_query(self, text: str) -> "Vectors":
        """Vector of a question, shape [256]."""
        vector: Vectors = self.embed_passages([text])[0]
        return vector

    def _model(self) -> "_Model":
        with self._lock:
            if self._loaded is None:
                self._loaded = _Model(*load())
            return self._loaded


class _Model:
    def __init__(self, tokenizer: Any, table: Any) -> None:
        self.tokenizer, self.table = tokenizer, table
        self.weights = weights(len(table))
        self.common = common(table, self.weights)


def _installed_version() -> str:
    try:
        return version(PACKAGE)
    except PackageNotFoundError:
        raise InputError(
            "MEMORIALE_EMBEDDER is 'wordllama', but the package wordllama is not installed; "
            "install memoriale[local], or name another embedder.",
            code="missing_package",
            field="MEMORIALE_EMBEDDER",
            value=PACKAGE,
            allowed="memoriale[local] installed, or package.module:factory",
        ) from None


def load() -> tuple[Any, Any]:
    """The tokenizer and the table of token vectors, as they ship in the wheel."""
    from pathlib import Path

    try:
        with _root_logger_kept():
            import wordllama
        # Its loader looks for the shipped files in another folder; as a "cache" they are found.
        folder = Path(wordllama.__file__).parent
        loaded = wordllama.WordLlama.load(
            CONFIG, cache_dir=folder, dim=WIDTH, disable_download=True
        )
    except (ImportError, OSError, ValueError) as error:
        raise UnavailableError(
            f"the embedder's files cannot be read ({error}); install wordllama again.",
            code="embedder_failed",
            field="MEMORIALE_EMBEDDER",
            value=PACKAGE,
        ) from error
    loaded.tokenizer.no_padding()
    return loaded.tokenizer, loaded.embedding


@contextmanager
def _root_logger_kept() -> Iterator[None]:
    # Importing wordllama calls logging.basicConfig(level=INFO).
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


def _slices(tokenizer: Any, texts: Sequence[str]) -> Iterator[tuple[list[int], list[list[int]]]]:
    """Positions and token ids of texts that have tokens, as many as fit into one look-up."""
    positions: list[int] = []
    ids: list[list[int]] = []
    room = _SLICE_TOKENS
    for position, encoding in enumerate(_encoded(tokenizer, texts)):
        tokens = encoding.ids
        if not tokens:
            continue
        if ids and len(tokens) > room:
            yield positions, ids
            positions, ids, room = [], [], _SLICE_TOKENS
        positions.append(position)
        ids.append(tokens)
        room -= len(tokens)
    if ids:
        yield positions, ids


def _encoded(tokenizer: Any, texts: Sequence[str]) -> Iterator[Any]:
    for start in range(0, len(texts), 256):
        part = list(texts[start : start + 256])
        yield from tokenizer.encode_batch(part, add_special_tokens=False)


def _pooled(model: _Model, ids: list[list[int]]) -> Any:
    """Weighted means of the tokens' vectors, without what all texts have in common."""
    import numpy

    short = [tokens for tokens in ids if len(tokens) < _LONG_TEXT]
    pooled = numpy.empty((len(ids), WIDTH), dtype=numpy.float32)
    if short:
        sizes = [len(tokens) for tokens in short]
        starts = numpy.concatenate(([0], numpy.cumsum(sizes)[:-1]))
        every = numpy.concatenate(short)
        weights = model.weights[every]
        sums = numpy.add.reduceat(model.table[every] * weights[:, None], starts, axis=0)
        totals = numpy.add.reduceat(weights, starts)
        pooled[[len(tokens) < _LONG_TEXT for tokens in ids]] = sums / totals[:, None]
    for place, tokens in enumerate(ids):
        if len(tokens) >= _LONG_TEXT:
            counts = numpy.bincount(tokens, minlength=len(model.table)) * model.weights
            pooled[place] = counts.astype(numpy.float32) @ model.table / counts.sum()
    return pooled - model.common
