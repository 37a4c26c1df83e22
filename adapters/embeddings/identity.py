"""Which model a folder holds: that of its files, or the one of before while they are damaged."""

import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from memoriale.adapters.embeddings.widths import KnownWidths
from memoriale.domain.errors import UnavailableError

_log: Final = logging.getLogger("memoriale.embeddings")


class Identity(NamedTuple):
    """The digest of a model's files, and the width of its vectors."""

    digest: str
    width: int


def identify(place: str, digest: str, widths: KnownWidths, measured: Callable[[], int]) -> Identity:
    """
    The model in a folder. One that was used before and now cannot be read stays what it was: its
    vectors are still valid, and only new ones are lacking until the files are mended.

    Args:
        place: Kind of the model and its folder.
        digest: Of the files that are there.
        widths: Where the width of each model is kept; one of each folder.
        measured: Reads the model and says its width.

    Raises:
        UnavailableError: The model cannot be read, and none was before.
    """
    start = f"{place}#"
    if width := widths.get(start + digest):
        return Identity(digest, width)
    former = widths.beginning(start)
    try:
        found = Identity(digest, measured())
    except UnavailableError as error:
        if not former:
            raise
        _log.warning("%s Its former vectors stay in use.", error.message)
        name, width = former.popitem()
        return Identity(name.removeprefix(start), width)
    for name in former:
        widths.drop(name)
    widths.put(start + digest, found.width)
    return found
