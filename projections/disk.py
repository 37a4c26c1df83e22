"""A disk that is full or cannot be written, told apart from damage whoever reports it."""

import errno
import os
from typing import Final

from memoriale.domain.errors import UnavailableError

DISK_FULL: Final = "disk_full"
READ_ONLY: Final = "read_only"
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_READ_ONLY: Final = (errno.EROFS, errno.EACCES, errno.EPERM)
_SPOKEN: Final = {
    "No space left": errno.ENOSPC,
    "Disk quota exceeded": errno.EDQUOT,
    "File too large": errno.EFBIG,
    "Read-only file system": errno.EROFS,
    "Permission denied": errno.EACCES,
}
"""How libraries that hand out text instead of numbers name these errors."""


def refused_write(
    where: object, number: int | None, reason: str, **facts: str
) -> UnavailableError | None:
    """
    The error of a disk that took no more.

    Args:
        where: File or folder, for the message.
        number: The ``errno``.
        reason: What the system says.
        facts: ``field`` and ``value`` of the error.

    Returns:
        ``disk_full`` or ``read_only`` with the way out; None when it is neither.
    """
    if number in _FULL:
        message = f"{where}: {reason}; free some space there and try again."
        return UnavailableError(message, code=DISK_FULL, **facts)
    if number in _READ_ONLY:
        message = f"{where}: {reason}; make it writable or choose another home."
        return UnavailableError(message, code=READ_ONLY, **facts)
    return None


def told_in_words(where: object, text: str, **facts: str) -> UnavailableError | None:
    """The same from an error of a library that has nothing but a text."""
    for words, number in _SPOKEN.items():
        if words in text:
            return refused_write(where, number, os.strerror(number), **facts)
    return None


def is_refused_write(error: UnavailableError) -> bool:
    """Whether an error says that the disk took no more; what is on it can still be read."""
    return error.code in (DISK_FULL, READ_ONLY)
