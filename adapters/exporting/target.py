"""The file that an export becomes: whole, private and durable, or not there at all."""

import errno
import fcntl
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from memoriale.domain.errors import InputError, UnavailableError
from memoriale.domain.text import shown

_PREFIX: Final = ".memoriale-export-"
_SUFFIX: Final = ".part"
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")
_NOT_A_PLACE: Final = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EISDIR)


def target_path(out: str | os.PathLike[str], tenant: str, index: int, suffix: str) -> Path:
    """
    Where an export goes.

    Args:
        out: A folder, which exists or whose name ends with a slash, or the name of a file.
        tenant: Names the file in a folder, with the index.
        index: Last index that the export holds.
        suffix: Of the file in a folder, such as ``.jsonl``.

    Raises:
        InputError: There is something at the path that is neither a folder nor a file, or no
            folder to write in.
        UnavailableError: This user may not look there.
    """
    text = os.fspath(out)
    if not text or "\0" in text:
        raise _bad_place(text, "it is not a path")
    path = Path(text)
    with _disk_errors(path):
        if text.endswith(os.sep) or path.is_dir():
            path = path / f"{_UNSAFE.sub('-', tenant)}-{index}{suffix}"
        if path.exists() and not path.is_file():
            raise _bad_place(text, "something other than a file stands there")
        return path.absolute()


@contextmanager
def replaced(path: Path) -> Iterator[BinaryIO]:
    """
    A file to write, which takes the place of ``path`` when the context ends without an error.

    It has mode 0600, lies in the same folder meanwhile and is synced before it is renamed. A
    file that was at ``path`` is replaced in one step. What a killed export left is removed.

    Args:
        path: From ``target_path``; its folder is made with mode 0700 when it is missing but the
            folder above exists.

    Raises:
        InputError: There is no folder to write in.
        UnavailableError: The disk is full, or this user may not write there.
    """
    with _disk_errors(path):
        _make_folder(path.parent)
        _sweep(path.parent)
        descriptor, name = _locked_file(path.parent)
        try:
            with open(descriptor, "w+b") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
                os.replace(name, path)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(name)
            raise
        _sync(path.parent)


def _make_folder(folder: Path) -> None:
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)


def _locked_file(folder: Path) -> tuple[int, str]:
    while True:
        descriptor, name = tempfile.mkstemp(_SUFFIX, _PREFIX, folder)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        # Another export's sweep may have come between making and locking it.
        if os.path.exists(name):
            return descriptor, name
        os.close(descriptor)


def _sweep(folder: Path) -> None:
    for left in folder.glob(f"{_PREFIX}*{_SUFFIX}"):
        # Gone meanwhile, another user's, or still being written by a running export.
        with suppress(OSError), left.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            left.unlink()


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _disk_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _NOT_A_PLACE:
            raise _bad_place(str(path), error.strerror or str(error)) from error
        raise UnavailableError(
            f"the export cannot be written to {shown(str(path))}: {error.strerror}. Nothing was "
            "left there; make room or choose another place.",
            code="disk_full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "unwritable",
            field="out",
            value=shown(str(path)),
        ) from error


def _bad_place(text: str, reason: str) -> InputError:
    return InputError(
        f"the export cannot go to {shown(text)}: {reason}.",
        code="bad_path",
        field="out",
        value=shown(text),
        allowed="a folder, or the name of a file in one",
    )
