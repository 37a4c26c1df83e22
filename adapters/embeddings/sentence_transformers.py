"""An embedder of the package ``sentence-transformers``: models that run in this process."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from memoriale.adapters.embeddings.digests import FilesDigest
from memoriale.adapters.embeddings.identity import identify
from memoriale.adapters.embeddings.model_folder import model_name
from memoriale.adapters.embeddings.prefixes import Prefixes, prefixes_of
from memoriale.adapters.embeddings.widths import KnownWidths
from memoriale.domain.errors import InputError, UnavailableError
from memoriale.domain.text import shown

if TYPE_CHECKING:
    from memoriale.projections.embedding import Vectors

PACKAGE: Final = "sentence_transformers"
_CHARACTERS: Final = 65_536
"""Of a text: more than the tokens that any model of the package reads."""
_SUFFIXES: Final = frozenset({".bin", ".json", ".model", ".safetensors", ".txt"})
"""Of files that the vectors of a model depend on."""
_OTHER_FORMS: Final = ("onnx", "openvino")
"""Folders in which the same weights lie for other programs."""


class SentenceTransformersEmbedder:
    """
    A model of ``sentence-transformers``, read at its first use. Its vectors have length 1.

    A model in a folder is named by the folder and a digest of its files. Another one is looked
    for by the package on this machine, then on its hub: to keep it from the network, name a
    folder, or set ``HF_HUB_OFFLINE=1``.

    Args:
        name: Name or folder of the model.
        widths: Widths learnt before; for an unknown one the model is read at once.

    Raises:
        InputError: The package is not installed, or there is no such folder.
        UnavailableError: The model cannot be read.
    """

    def __init__(self, name: str, *, widths: KnownWidths | None = None) -> None:
        _require_package(name)
        self._folder = _folder(name)
        self._source = str(self._folder) if self._folder else name
        self._name = model_name(self._folder) if self._folder else name
        self._files = FilesDigest("1")
        self._lock = Lock()
        self._loaded: Any = None
        self._digest: str | None = None
        known = widths or KnownWidths(None)
        place = f"sentence-transformers:{self._source}"
        self._digest, self.width = identify(place, self._read_digest(), known, self._measured)
        named = f"{self._name}/{self._digest}" if self._digest else self._name
        self.model = f"sentence-transformers/{named}/{self.width}"

    def embed_passages(self, texts: Sequence[str]) -> "Vectors":
        """Vectors of texts, shape [number of texts, width]; zeros for a blank one."""
        return self._encoded(texts, self._prefixes().passage)

    def embed_query(self, text: str) -> "Vectors":
        """Vector of a question, shape [width]."""
        vector: Vectors = self._encoded([text], self._prefixes().query)[0]
        return vector

    def _measured(self) -> int:
        vectors = _encode(self._model(), ["width"], "")
        return int(vectors.shape[1])

    def _encoded(self, texts: Sequence[str], prompt: str) -> "Vectors":
        import numpy

        vectors = numpy.zeros((len(texts), self.width), dtype=numpy.float32)
        places = [place for place, text in enumerate(texts) if text.strip()]
        if places:
            given = [texts[place][:_CHARACTERS] for place in places]
            vectors[places] = _encode(self._model(), given, prompt)
        return vectors

    def _prefixes(self) -> Prefixes:
        return prefixes_of(self._name, getattr(self._model(), "prompts", None))

    def _model(self) -> Any:
        with self._lock:
            if self._loaded is None:
                loaded = _load(self._source)
                # While the model is being identified it has no digest yet.
                if self._digest not in (None, self._read_digest()):
                    raise _failed(self._source, "its files were changed; start this process again")
                self._loaded = loaded
            return self._loaded

    def _read_digest(self) -> str:
        """The digest of a folder's files; nothing for a model that the package looks for."""
        if self._folder is None:
            return ""
        try:
            return self._files.of(_files(self._folder))
        except OSError as error:
            raise _failed(self._source, str(error.strerror)) from error


def _require_package(name: str) -> None:
    if find_spec(PACKAGE) is None:
        raise InputError(
            "MEMORIALE_EMBEDDER names a model of sentence-transformers, but that package is not "
            "installed; run 'pip install memoriale[sentence-transformers]', or name another "
            "embedder.",
            code="missing_package",
            field="MEMORIALE_EMBEDDER",
            value=shown(f"sentence-transformers:{name}"),
            allowed="sentence-transformers installed, or another embedder",
        )


def _folder(name: str) -> Path | None:
    """The folder that a name is; None for a name of the hub."""
    path = Path(name).expanduser()
    if path.is_dir():
        return path.resolve()
    if name.startswith(("/", ".", "~")):
        raise InputError(
            f"MEMORIALE_EMBEDDER names the folder {shown(name)!r}, which there is not.",
            code="bad_embedder",
            field="MEMORIALE_EMBEDDER",
            value=shown(f"sentence-transformers:{name}"),
            allowed="the folder of a model, or its name",
        )
    return None


def _files(folder: Path) -> list[Path]:
    return [
        path
        for path in folder.rglob("*")
        if path.suffix in _SUFFIXES
        and path.relative_to(folder).parts[0] not in _OTHER_FORMS
        and path.is_file()
    ]


def _encode(model: Any, texts: list[str], prompt: str) -> Any:
    # A prompt is always given: without one the model's default is put before every text.
    return model.encode(
        texts,
        prompt=prompt,
        convert_to_numpy=True,
        normalize_embeddings=True,
        show_progress_bar=False,
    )


def _load(source: str) -> Any:
    try:
        with _silenced():
            return import_module(PACKAGE).SentenceTransformer(source)
    # What files hold is checked by none of the libraries that read them.
    except Exception as error:
        raise _failed(source, f"{type(error).__name__}: {error}") from error


@contextmanager
def _silenced() -> Iterator[None]:
    """Without the progress bar and the remarks that the package writes while it reads a model."""
    bars = import_module("transformers.utils.logging")
    shown_before = bars.is_progress_bar_enabled()
    log = logging.getLogger(PACKAGE)
    level = log.level
    bars.disable_progress_bar()
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)
        if shown_before:
            bars.enable_progress_bar()


def _failed(source: str, why: str) -> UnavailableError:
    return UnavailableError(
        f"the model {shown(source)!r} of sentence-transformers cannot be read ({why}).",
        code="embedder_failed",
        field="MEMORIALE_EMBEDDER",
        value=shown(source),
    )
