"""What some models want before a text, so that they can tell questions from passages."""

from typing import Final, NamedTuple


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


def prefixes_of(model: str) -> Prefixes:
    """
    The prefixes of a model; none for one that is not known to want any.

    Args:
        model: Its name, with or without publisher and version: ``intfloat/e5-small-v2``.
    """
    name = model.rsplit("/", 1)[-1].lower().removeprefix("multilingual-")
    # The "instruct" models of that family take a task description in place of a prefix.
    if "instruct" in name:
        return _NONE
    return next((found for start, found in _KNOWN if name.startswith(start)), _NONE)
