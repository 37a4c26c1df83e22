"""Opening what is imported, and reading it where it must be read as a whole."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from memoriale.adapters.importing.locomo import Conversation, parse_conversations
from memoriale.domain.errors import InputError, UnavailableError
from memoriale.domain.text import shown

STANDARD_INPUT: Final = "-"
MAX_LOCOMO_BYTES: Final = 256 * 1024 * 1024


@contextmanager
def opened(path: str | Path) -> Iterator[BinaryIO]:
    """
    A file that is imported, open for reading bytes.

    Args:
        path: Its name; ``-`` is standard input.

    Raises:
        InputError: ``no_such_file``.
        UnavailableError: This user may not read it.
    """
    if str(path) == STANDARD_INPUT:
        yield sys.stdin.buffer
        return
    with ExitStack() as stack:
        try:
            stream = stack.enter_context(Path(path).open("rb"))
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError, ValueError) as error:
            raise _no_such_file(str(path), error) from None
        except OSError as error:
            raise unreadable(error) from None
        yield stream


def read_conversations(path: str | Path) -> list[Conversation]:
    """
    The conversations of a file in the LoCoMo format, which is read as a whole.

    Args:
        path: Its name; ``-`` is standard input.

    Raises:
        InputError: No such file, over 256 MiB, or ``malformed``.
        UnavailableError: It cannot be read.
    """
    with opened(path) as stream:
        return parse_conversations(_whole(stream))


def unreadable(error: OSError) -> UnavailableError:
    """The error for an input that cannot be read."""
    return UnavailableError(
        f"the input cannot be read: {error.strerror or error}.", code="unreadable", field="file"
    )


def _no_such_file(path: str, error: OSError | ValueError) -> InputError:
    reason = getattr(error, "strerror", None) or str(error)
    return InputError(
        f"{shown(path)} cannot be imported: {reason}. Name a file, or - for standard input.",
        code="no_such_file",
        field="file",
        value=shown(path),
        allowed="a file, or -",
    )


def _whole(stream: BinaryIO) -> bytes:
    try:
        data = stream.read(MAX_LOCOMO_BYTES + 1)
    except OSError as error:
        raise unreadable(error) from None
    if len(data) > MAX_LOCOMO_BYTES:
        raise InputError(
            f"the file has more than {MAX_LOCOMO_BYTES} bytes; split it by conversation, or "
            "import it as JSON lines.",
            code="too_long",
            field="file",
            allowed=f"at most {MAX_LOCOMO_BYTES} bytes",
        )
    return data
