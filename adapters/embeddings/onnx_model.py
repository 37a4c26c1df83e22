"""A model file and its tokenizer in memory: from a text to a vector."""

from typing import TYPE_CHECKING, Any, Final

from memoriale.adapters.embeddings.model_folder import ModelFolder, refused
from memoriale.domain.errors import UnavailableError

if TYPE_CHECKING:
    from memoriale.projections.embedding import Vectors

_CHARACTERS: Final = 32
"""Of a text for each token that is read: no language has words that are longer all along."""
_INPUTS: Final = ("input_ids", "attention_mask", "token_type_ids", "position_ids")
_OUTPUTS: Final = ("sentence_embedding", "last_hidden_state", "token_embeddings")
"""The first of these is taken, else a model's first output."""


class OnnxModel:
    """
    A model that has been read.

    Each text is run by itself: padding would be computed in vain, and a model whose activations
    are quantised gives a text another vector beside other texts. A run uses one thread; safe to
    share between threads, and in a process that was forked.

    Args:
        folder: Where the model is.
        setting: What names it, for errors.

    Raises:
        InputError: The model wants inputs that an embedder has not.
        UnavailableError: The model or its tokenizer cannot be read.
    """

    def __init__(self, folder: ModelFolder, setting: str) -> None:
        self._folder = folder
        self._tokenizer = _read_tokenizer(folder)
        self._session = _read_model(folder)
        inputs = {one.name: one.type for one in self._session.get_inputs()}
        if not inputs.keys() <= set(_INPUTS) or "input_ids" not in inputs:
            why = f"the model takes {', '.join(inputs) or 'nothing'}"
            raise refused(setting, why, f"a model that takes no more than {', '.join(_INPUTS)}")
        self._types = {name: _integers(kind) for name, kind in inputs.items()}
        outputs = [one.name for one in self._session.get_outputs()]
        self._output = next((name for name in _OUTPUTS if name in outputs), outputs[0])

    def vector(self, text: str, prefix: str) -> "Vectors | None":
        """
        The vector of a text, of length 1; None for a text without words or signs.

        Raises:
            UnavailableError: The model fails, or returns something else than a vector.
        """
        import numpy

        if not text.strip():
            return None
        ids = self._ids(prefix + text)
        if not ids:
            return None
        found = self._run(ids)
        length = numpy.linalg.norm(found)
        vector: Vectors = found / length if length else found
        return vector

    def _ids(self, text: str) -> list[int]:
        tokenizer = self._tokenizer
        ids: list[int] = tokenizer.encode(text[: self._folder.tokens * _CHARACTERS]).ids
        return ids

    def _run(self, ids: list[int]) -> "Vectors":
        import numpy

        count = len(ids)
        given = {
            "input_ids": ids,
            "attention_mask": [1] * count,
            "token_type_ids": [0] * count,
            "position_ids": range(count),
        }
        fed = {name: numpy.array([given[name]], dtype=kind) for name, kind in self._types.items()}
        try:
            [found] = self._session.run([self._output], fed)
        # The library's errors have no class of their own.
        except Exception as error:
            raise _failed(self._folder, f"fails ({_first_line(error)})") from error
        return self._pooled(numpy.asarray(found, dtype=numpy.float32), count)

    def _pooled(self, found: Any, count: int) -> "Vectors":
        if found.ndim == 2 and found.shape[0] == 1 and found.shape[1]:
            pooled: Vectors = found[0]
            return pooled
        if found.ndim != 3 or found.shape[:2] != (1, count) or not found.shape[2]:
            why = f"returns {self._output} of the shape {list(found.shape)} for {count} tokens"
            raise _failed(self._folder, why, code="bad_vectors")
        if self._folder.further:
            why = f"lacks the modules {', '.join(self._folder.further)} that modules.json names"
            raise _failed(self._folder, f"{why}; export it with them")
        pooled = _POOL[self._folder.pooling](found[0])
        return pooled


_POOL: Final = {
    "cls": lambda tokens: tokens[0],
    "last": lambda tokens: tokens[-1],
    "max": lambda tokens: tokens.max(axis=0),
    "mean": lambda tokens: tokens.mean(axis=0),
}


def _read_tokenizer(folder: ModelFolder) -> Any:
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(folder.tokenizer))
        tokenizer.no_padding()
        tokenizer.enable_truncation(folder.tokens)
    # The library's errors have no class of their own.
    except Exception as error:
        raise _failed(folder, f"has a tokenizer.json that cannot be read ({error})") from error
    return tokenizer


def _read_model(folder: ModelFolder) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(
            str(folder.model), options, providers=["CPUExecutionProvider"]
        )
    # The library's errors have no class of their own.
    except Exception as error:
        raise _failed(folder, f"cannot be read ({_first_line(error)})") from error


def _integers(kind: str) -> str:
    return "int32" if kind == "tensor(int32)" else "int64"


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _failed(folder: ModelFolder, why: str, code: str = "embedder_failed") -> UnavailableError:
    return UnavailableError(
        f"the ONNX model in {folder.path} {why}.",
        code=code,
        field="MEMORIALE_EMBEDDER",
        value=str(folder.path),
    )
