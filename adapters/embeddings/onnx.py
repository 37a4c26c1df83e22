"""An embedder of ONNX models: files in a folder that run in this process, without a network."""

import os
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import TYPE_CHECKING, Final

from memoriale.adapters.embeddings.identity import identify
from memoriale.adapters.embeddings.model_folder import ModelFolder, read_folder
from memoriale.adapters.embeddings.widths import KnownWidths
from memoriale.domain.errors import InputError, UnavailableError
from memoriale.domain.text import shown

if TYPE_CHECKING:
    from memoriale.adapters.embeddings.onnx_model import OnnxModel
    from memoriale.projections.embedding import Vectors

PACKAGES: Final = ("onnxruntime", "tokenizers")
MOST_THREADS: Final = 4


class OnnxEmbedder:
    """
    A model in a folder, read at its first use. Its vectors have length 1, and no text's vector
    depends on the texts beside it. Only the beginning of a text is read, as much as the model's
    limit on tokens allows.

    The model's name holds a digest of its files, so that other weights are another model; see
    ``identify`` for files that were damaged.

    Args:
        named: The folder.
        widths: Widths learnt before; a model with an unknown one is read at once.

    Raises:
        InputError: A package, the folder or a file is missing, or the model is of a kind that
            cannot be used.
        UnavailableError: The model cannot be read, and was never used before.
    """

    def __init__(self, named: str, *, widths: KnownWidths | None = None) -> None:
        self._setting = f"onnx:{named}"
        _require_packages(self._setting)
        self._folder = read_folder(named, self._setting)
        self._lock = Lock()
        self._loaded: OnnxModel | None = None
        self._digest, self.width = identify(
            f"onnx:{self._folder.path}",
            self._read_digest(),
            widths or KnownWidths(None),
            self._measured,
        )
        self.model = f"onnx/{self._folder.name}/{self._digest}/{self.width}"

    def embed_passages(self, texts: Sequence[str]) -> "Vectors":
        """Vectors of texts, shape [number of texts, width]; zeros for a blank one."""
        import numpy

        vectors = numpy.zeros((len(texts), self.width), dtype=numpy.float32)
        if not texts:
            return vectors
        model, prefix = self._model(), self._folder.prefixes.passage

        def embed(place: int) -> None:
            vector = model.vector(texts[place], prefix)
            if vector is not None:
                vectors[place] = vector

        # The longest first, so that no thread is left alone with it at the end.
        _in_threads(embed, sorted(range(len(texts)), key=lambda place: -len(texts[place])))
        return vectors

    def embed_query(self, text: str) -> "Vectors":
        """Vector of a question, shape [width]."""
        import numpy

        vector = self._model().vector(text, self._folder.prefixes.query)
        return numpy.zeros(self.width, dtype=numpy.float32) if vector is None else vector

    def _measured(self) -> int:
        self._loaded = _load(self._folder, self._setting)
        vector = self._loaded.vector("width", "")
        if vector is None:
            raise self._failed("its tokenizer finds nothing in a word")
        return len(vector)

    def _model(self) -> "OnnxModel":
        with self._lock:
            if self._loaded is None:
                loaded = _load(self._folder, self._setting)
                if self._read_digest() != self._digest:
                    raise self._failed("its files were changed; start this process again")
                self._loaded = loaded
            return self._loaded

    def _read_digest(self) -> str:
        try:
            return self._folder.digest()
        except OSError as error:
            raise self._failed(f"its files cannot be read ({error.strerror})") from error

    def _failed(self, why: str) -> UnavailableError:
        return UnavailableError(
            f"the ONNX model in {self._folder.path} cannot be used: {why}.",
            code="embedder_failed",
            field="MEMORIALE_EMBEDDER",
            value=shown(self._setting),
        )


def _load(folder: ModelFolder, setting: str) -> "OnnxModel":
    from memoriale.adapters.embeddings.onnx_model import OnnxModel

    return OnnxModel(folder, setting)


def _in_threads(call: Callable[[int], None], places: Sequence[int]) -> None:
    """Makes the calls, some at a time; raises the first failure, after which no more are made."""
    waiting = SimpleQueue[int]()
    for place in places:
        waiting.put(place)
    failures = list[BaseException]()

    def work() -> None:
        try:
            while not failures:
                call(waiting.get_nowait())
        except Empty:
            return
        except BaseException as error:
            # Raised again where it is waited for.
            failures.append(error)

    # Daemons: a process need not wait for an embedder in order to end.
    threads = [Thread(target=work, daemon=True) for _ in range(min(_threads(), len(places)) - 1)]
    for thread in threads:
        thread.start()
    work()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def _threads() -> int:
    allowed = getattr(os, "sched_getaffinity", None)
    return min(MOST_THREADS, len(allowed(0)) if allowed else os.cpu_count() or 1)


def _require_packages(setting: str) -> None:
    missing = [package for package in PACKAGES if find_spec(package) is None]
    if missing:
        raise InputError(
            f"MEMORIALE_EMBEDDER names an ONNX model, but {' and '.join(missing)} is not "
            "installed; run 'pip install memoriale[onnx]', or name another embedder.",
            code="missing_package",
            field="MEMORIALE_EMBEDDER",
            value=shown(setting),
            allowed="memoriale[onnx] installed, or another embedder",
        )
