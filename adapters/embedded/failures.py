"""Failures of files and programs as errors that say what to do."""

import errno
import pwd
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memoriale.domain.errors import UnavailableError

OUTSIDE_DATABASE = "set MEMORIALE_DATABASE_URL to a PostgreSQL server of your own"

_READ_ONLY = {errno.EACCES, errno.EPERM, errno.EROFS}
_FULL = {errno.ENOSPC, errno.EDQUOT}
# The last two are the server's words for a write that the system cut short.
_FULL_WORDS = re.compile(
    r"No space left on device|Disk quota exceeded|Check free disk space|wrote only \d+ of \d+ bytes"
)


def unavailable(path: Path, code: str, message: str) -> UnavailableError:
    """An error about the home or one of its folders; `code` is the stable word for programs."""
    return UnavailableError(message, code=code, field="home", value=str(path))


def user_name(uid: int) -> str:
    """The login name of a user id, or ``user id N`` when it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user id {uid}"


@contextmanager
def translated(home: Path) -> Iterator[None]:
    """Raise whatever the file system refuses inside the block as `UnavailableError`."""
    try:
        yield
    except OSError as error:
        raise _explained(home, error) from error


def tells_of_full_disk(output: str) -> bool:
    """Whether what a PostgreSQL program printed means that the disk is full."""
    return _FULL_WORDS.search(output) is not None


def disk_full(path: Path) -> UnavailableError:
    """The error for it."""
    return unavailable(
        path, "disk_full", f"The disk that holds {path} is full. Free some space and try again."
    )


def _explained(home: Path, error: OSError) -> UnavailableError:
    place = error.filename if isinstance(error.filename, str) else str(home)
    # A copy of many files fails with a list of errors and no number.
    if error.errno in _FULL or tells_of_full_disk(str(error)):
        return disk_full(home)
    if error.errno in _READ_ONLY:
        return unavailable(
            home,
            "home_not_writable",
            f"{place} cannot be used by this user ({error.strerror}); {_owner(home)}. "
            "Give this user the right to write there, or set MEMORIALE_HOME to another folder.",
        )
    return unavailable(
        home,
        "home_unusable",
        f"The embedded database in {home} cannot be used: {place}: {error.strerror or error}.",
    )


def _owner(home: Path) -> str:
    try:
        return f"the home {home} belongs to {user_name(home.stat().st_uid)}"
    except OSError:
        return f"the home is {home}"
