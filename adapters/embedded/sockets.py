"""The folder of the server's socket: private, and short enough for the system's limit."""

import os
import re
import secrets
import shutil
import stat
import tempfile
from pathlib import Path

from memoriale.adapters.embedded.account import Account
from memoriale.adapters.embedded.layout import Layout, read_text, write_text

PORT = 5432

_NAME = f".s.PGSQL.{PORT}"
# sockaddr_un holds 104 bytes on macOS and 108 on Linux, the closing zero included.
_LONGEST_PATH = 103
# Both the server's setting and libpq's host take lists, so commas and quotes must not occur.
_PLAIN = re.compile(r"/[A-Za-z0-9_./+-]*")
_PREFIX = "memoriale-"


def socket_directory(layout: Layout) -> Path:
    """Where the server's socket is, or would be if no other folder is needed."""
    elsewhere = read_text(layout.far_sockets)
    return layout.sockets if elsewhere is None else Path(elsewhere)


def prepare_socket_directory(layout: Layout, account: Account) -> Path:
    """
    Make the socket folder ready for a new server; only while none is running.

    A remembered folder that is no longer a private folder of the server's user is left alone
    and a new one is made under another random name.
    """
    if _fits(layout.sockets):
        layout.far_sockets.unlink(missing_ok=True)
        if not _is_private(layout.sockets, account):
            _make(layout.sockets, account)
        folder = layout.sockets
    else:
        folder = socket_directory(layout)
        if folder == layout.sockets or not _is_private(folder, account):
            folder = _temporary_folder() / f"{_PREFIX}{secrets.token_hex(8)}"
            _make(folder, account)
            write_text(layout.far_sockets, str(folder))
    for name in (_NAME, f"{_NAME}.lock"):
        (folder / name).unlink(missing_ok=True)
    return folder


def forget_socket_directory(layout: Layout) -> None:
    """Remove a socket folder outside the base once its server has stopped."""
    folder = socket_directory(layout)
    if folder != layout.sockets and folder.name.startswith(_PREFIX):
        shutil.rmtree(folder, ignore_errors=True)
        layout.far_sockets.unlink(missing_ok=True)


def _fits(folder: Path) -> bool:
    short = len(os.fsencode(folder / _NAME)) <= _LONGEST_PATH
    return short and _PLAIN.fullmatch(str(folder)) is not None


def _is_private(folder: Path, account: Account) -> bool:
    try:
        status = folder.lstat()
    except FileNotFoundError:
        return False
    private = stat.S_IMODE(status.st_mode) & 0o077 == 0
    return stat.S_ISDIR(status.st_mode) and status.st_uid == account.uid and private


def _make(folder: Path, account: Account) -> None:
    folder.mkdir(mode=0o700)
    account.give(folder)


def _temporary_folder() -> Path:
    """The shared one, whose name is short; TMPDIR may be deep or last only for a session."""
    shared = Path("/tmp")
    return shared if os.access(shared, os.W_OK | os.X_OK) else Path(tempfile.gettempdir())
