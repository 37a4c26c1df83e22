"""Chooses the embedder that the setting ``MEMORIALE_EMBEDDER`` names."""

import importlib
import re
from collections.abc import Callable
from typing import Any, Final

from memoriale.adapters.embeddings.endpoint import Endpoint
from memoriale.adapters.embeddings.widths import KnownWidths
from memoriale.domain.errors import InputError, MemorialeError
from memoriale.domain.text import shown
from memoriale.projections.embedding import Embedder

SETTING: Final = "MEMORIALE_EMBEDDER"
ALLOWED: Final = (
    "wordllama, onnx:FOLDER, openai:MODEL, sentence-transformers:MODEL, or package.module:factory"
)
MOST_CHARACTERS: Final = 200
"""Of a model's name."""
MOST_CHARACTERS_OF_FOLDERS: Final = 4_096
_FACTORY: Final = re.compile(r"(?P<module>[^\W\d]\w*(\.[^\W\d]\w*)*):(?P<name>[^\W\d]\w*)")


def make_embedder(
    spec: str, *, endpoint: Endpoint | None = None, widths: KnownWidths | None = None
) -> Embedder:
    """
    The embedder that a setting names.

    Args:
        spec: ``wordllama`` · ``onnx:FOLDER``: a model in files that runs here ·
            ``openai:MODEL``: a model behind an OpenAI-compatible endpoint ·
            ``sentence-transformers:MODEL``: name or folder of a model that runs here ·
            ``package.module:factory``: a callable without arguments that returns an
            ``Embedder``.
        endpoint: Where ``openai:`` asks; default: OpenAI, without a key.
        widths: Where the widths of models are remembered; without, they are asked for.

    Raises:
        InputError: Another value, a package that is not installed, a factory that cannot be
            imported or fails, or one that returns no embedder.
        UnavailableError: The width of a model is not known, and the model cannot be asked.
    """
    if spec == "wordllama":
        from memoriale.adapters.embeddings.wordllama import WordLlamaEmbedder

        return WordLlamaEmbedder()
    kind, _, name = spec.partition(":")
    if kind == "openai":
        from memoriale.adapters.embeddings.http import HttpEmbedder

        return HttpEmbedder(_model(spec, name), endpoint or Endpoint(), widths=widths)
    if kind == "onnx":
        from memoriale.adapters.embeddings.onnx import OnnxEmbedder

        folder = _model(spec, name, most=MOST_CHARACTERS_OF_FOLDERS)
        return OnnxEmbedder(folder, widths=widths)
    if kind == "sentence-transformers":
        from memoriale.adapters.embeddings.sentence_transformers import (
            SentenceTransformersEmbedder,
        )

        return SentenceTransformersEmbedder(_model(spec, name), widths=widths)
    match = _FACTORY.fullmatch(spec)
    if match is None:
        raise _refused(spec, "is not one that there is")
    return _checked(spec, _made(spec, _imported(spec, match["module"], match["name"])))


def _model(spec: str, name: str, *, most: int = MOST_CHARACTERS) -> str:
    if not name.strip() or name != name.strip() or not name.isprintable():
        raise _refused(spec, "names no model")
    if len(name) > most:
        raise _refused(spec, f"names a model by more than {most} characters")
    return name


def _imported(spec: str, module: str, name: str) -> Callable[[], Any]:
    try:
        factory = getattr(importlib.import_module(module), name)
    except ImportError as error:
        raise _refused(spec, f"cannot be imported ({error})") from error
    except AttributeError:
        raise _refused(spec, f"names nothing in the module {module}") from None
    if not callable(factory):
        raise _refused(spec, "names something that cannot be called")
    made: Callable[[], Any] = factory
    return made


def _made(spec: str, factory: Callable[[], Any]) -> Any:
    try:
        return factory()
    except MemorialeError:
        raise
    except Exception as error:
        raise _refused(spec, f"failed with {type(error).__name__}: {error}") from error


def _checked(spec: str, embedder: Any) -> Embedder:
    model, width = getattr(embedder, "model", None), getattr(embedder, "width", None)
    methods = ("embed_passages", "embed_query")
    if not isinstance(model, str) or not model:
        raise _refused(spec, "returns no embedder: its model must be text")
    if not isinstance(width, int) or isinstance(width, bool) or not 1 <= width <= 65_536:
        raise _refused(spec, "returns no embedder: its width must be an integer above 0")
    if not all(callable(getattr(embedder, method, None)) for method in methods):
        raise _refused(spec, "returns no embedder: it lacks embed_passages or embed_query")
    checked: Embedder = embedder
    return checked


def _refused(spec: str, why: str) -> InputError:
    return InputError(
        f"{SETTING} {shown(spec)!r} {why}; allowed are {ALLOWED}.",
        code="bad_embedder",
        field=SETTING,
        value=shown(spec),
        allowed=ALLOWED,
    )
