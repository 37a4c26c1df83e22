"""Chooses the embedder that the setting ``MEMORIALE_EMBEDDER`` names."""

import importlib
import re
from collections.abc import Callable
from typing import Any, Final

from memoriale.domain.errors import InputError, MemorialeError
from memoriale.domain.text import shown
from memoriale.projections.embedding import Embedder

SETTING: Final = "MEMORIALE_EMBEDDER"
ALLOWED: Final = "wordllama, or package.module:factory"
_FACTORY: Final = re.compile(r"(?P<module>[^\W\d]\w*(\.[^\W\d]\w*)*):(?P<name>[^\W\d]\w*)")
_NOT_YET: Final = ("openai:", "sentence-transformers:")


def make_embedder(spec: str) -> Embedder:
    """
    The embedder that a setting names.

    Args:
        spec: ``wordllama``, or ``package.module:factory``: a callable without arguments that
            returns an ``Embedder``.

    Raises:
        InputError: Another value, a factory that cannot be imported or fails, or one that
            returns no embedder.
    """
    if spec == "wordllama":
        from memoriale.adapters.embeddings.wordllama import WordLlamaEmbedder

        return WordLlamaEmbedder()
    match = _FACTORY.fullmatch(spec)
    if match is None or spec.startswith(_NOT_YET):
        raise _refused(spec, "is not one that this release has")
    return _checked(spec, _made(spec, _imported(spec, match["module"], match["name"])))


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
