"""What some models want before a text, so that they can tell questions from passages."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple


class Prefixes(NamedTuple):
    """What stands before a text that is given to a model."""

    passage: str = ""
    query: str = ""


_NONE: Final = Prefixes()
_KNOWN: Final = (
    ("nomic-embed-text", Prefixes("search_document: ", "search_query: ")),
    ("e5-", Prefixes("passage: ", "query: ")),
)
"""
By the beginning of a model's name without its publisher's, as the models' own descriptions say.
Another prefix makes other vectors: a change here has to change the name that the embedder gives
to its vectors.
"""
_PASSAGE_PROMPTS: Final = ("passage", "document")
_QUERY_PROMPTS: Final = ("query",)


def prefixes_of(model: str, prompts: Mapping[str, Any] | None = None) -> Prefixes:
    """
    The prefixes of a model; none for one that is not known to want any.

    Args:
        model: Its name, with or without publisher and version: ``intfloat/e5-small-v2``.
        prompts: Those that came with the model, by name; they go before what its name tells.
            Most models of older releases come without.
    """
    named = _named(model)
    own = prompts or {}
    return Prefixes(
        _own(own, _PASSAGE_PROMPTS) or named.passage, _own(own, _QUERY_PROMPTS) or named.query
    )


def _named(model: str) -> Prefixes:
    name = model.rsplit("/", 1)[-1].lower().removeprefix("multilingual-")
    # The "instruct" models of that family take a task description in place of a prefix.
    if "instruct" in name:
        return _NONE
    return next((found for start, found in _KNOWN if name.startswith(start)), _NONE)


def _own(prompts: Mapping[str, Any], names: tuple[str, ...]) -> str:
    found = (prompts.get(name) for name in names)
    return next((prompt for prompt in found if isinstance(prompt, str) and prompt), "")
