"""LanceDB's failures as the project's own errors."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from memoriale.domain.errors import CorruptViewError, MemorialeError, UnavailableError
from memoriale.projections.disk import told_in_words

Answer = TypeVar("Answer")

_PASSING: Final = ("Retryable commit conflict", "Commit conflict", "Too many concurrent writers")
_PANICS: Final = ("PanicException", "RustPanic")
"""In the calling thread, and in one of LanceDB's own; neither class can be imported."""
_REMOVED: Final = "No such file or directory"
"""What an index that is being made meets when the writer tidies its folder away."""
_OPEN_FILES: Final = "Too many open files"


@contextmanager
def lance_errors(place: object) -> Iterator[None]:
    """
    Translates what LanceDB and Arrow raise.

    They raise bare RuntimeError, ValueError (a missing table; text that is no UTF-8) and
    OSError, and a Rust panic arrives under two names. Nothing but calls of LanceDB may stand
    under this, or errors of our own would be taken for damage.

    Args:
        place: Folder of the view, for the message.

    Raises:
        UnavailableError: ``disk_full``, ``read_only``; ``open_files``: too many.
        CorruptViewError: Anything else: the files cannot be read as they are.
    """
    try:
        yield
    except MemorialeError:
        raise
    except (RuntimeError, ValueError, OSError) as error:
        raise _translated(place, error) from error
    except BaseException as error:
        if type(error).__name__ not in _PANICS:
            raise
        raise _translated(place, error) from error


def once_more(call: Callable[[], Answer]) -> Answer:
    """
    Calls, and once again when another process compacted or wrote the table meanwhile: then the
    files of the version that this one had open are gone, or its commit was too late.
    """
    try:
        return call()
    except CorruptViewError as error:
        if not _is_passing(str(error.__cause__)):
            raise
    return call()


def _is_passing(text: str) -> bool:
    lost = "not found" in text.lower() or _REMOVED in text
    return lost or any(words in text for words in _PASSING)


def _translated(place: object, error: BaseException) -> UnavailableError:
    text, facts = str(error), {"field": "MEMORIALE_VIEWS_URI", "value": str(place)}
    refused = told_in_words(f"the recall view in {place}", text, **facts)
    if refused is not None:
        return refused
    if _OPEN_FILES in text:
        return UnavailableError(
            f"the recall view in {place} cannot be used: {_OPEN_FILES.lower()}; raise the limit "
            "(ulimit -n) or close some.",
            code="open_files",
            **facts,
        )
    return CorruptViewError(
        f"the recall view in {place} cannot be read ({type(error).__name__}); rebuild it from "
        "the log.",
        value=str(place),
    )
