"""Where the embedded database keeps its files, and how a home finds them.

Everything lies in one *base* folder, ``<home>/postgres``. Run by root, the server is another
user's process. When that user cannot enter the home, the base is a folder below
``SYSTEM_FOLDER`` and ``<home>/postgres/location`` names it: the rights of folders that are not
ours are never changed. A copy of such a home points at the same database.
"""

import errno
import os
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path

from memoriale.adapters.embedded.account import Account
from memoriale.adapters.embedded.failures import unavailable, user_name
from memoriale.adapters.embedded.locks import exclusive

SYSTEM_FOLDER = Path("/var/lib/memoriale")

_PRIVATE = 0o700
# Root's folders, which the server's user has to pass but not to list.
_PASSABLE = 0o711
_LONGEST_TEXT = 65_536
_LOCATE_SECONDS = 30.0


@dataclass(frozen=True)
class Layout:
    """The files of one embedded database; `base` is the folder that holds them all."""

    base: Path

    @property
    def data(self) -> Path:
        return self.base / "data"

    @property
    def passwords(self) -> Path:
        return self.base / "passwords"

    @property
    def log(self) -> Path:
        return self.base / "server.log"

    @property
    def idle_seconds(self) -> Path:
        return self.base / "idle_seconds"

    @property
    def sockets(self) -> Path:
        return self.base / "sockets"

    @property
    def far_sockets(self) -> Path:
        """Text file that names the socket folder when `sockets` is not fit to be one."""
        return self.base / "socket_directory"

    @property
    def start_lock(self) -> Path:
        return self.base / "start.lock"

    @property
    def users_lock(self) -> Path:
        return self.base / "users.lock"

    @property
    def server_lock(self) -> Path:
        return self.base / "server.lock"

    @property
    def watchdog_lock(self) -> Path:
        return self.base / "watchdog.lock"


def locate(home: Path, account: Account) -> Layout:
    """
    The files of the home's database; the folders are made when missing.

    Args:
        home: Absolute path.
        account: Who is to run the server.

    Raises:
        UnavailableError: A folder belongs to somebody else, or the one that a root's home
            points at is gone.
        OSError: A folder cannot be made.
    """
    home.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
    folder = home / "postgres"
    make_folder(folder, _PASSABLE if account.switched else _PRIVATE)
    if not account.switched:
        return Layout(folder)
    with exclusive(folder / "start.lock", _LOCATE_SECONDS):
        found = _pointed_at(home, folder)
        if found is None and ((folder / "data").exists() or account.reaches(folder)):
            found = folder
        if found is None:
            found = system_folder() / secrets.token_hex(8)
            make_folder(found, _PASSABLE)
            write_text(folder / "location", str(found))
        return Layout(found)


def find(home: Path) -> Layout | None:
    """The files of the home's database, None when it has none. Makes nothing."""
    folder = home / "postgres"
    if not folder.exists():
        return None
    check_owner(folder)
    return Layout(_pointed_at(home, folder) or folder)


def _pointed_at(home: Path, folder: Path) -> Path | None:
    pointer = folder / "location"
    text = read_text(pointer)
    if text is None:
        return None
    base = Path(text)
    if not base.is_absolute() or not base.exists():
        raise unavailable(
            home,
            "cluster_missing",
            f"The database of {home} lay in {text!r}, and that folder is gone. Restore it from "
            f"a backup; or, to begin with an empty database, remove {pointer}.",
        )
    check_owner(base)
    return base


def make_folder(path: Path, mode: int) -> None:
    """Make a folder of ours with exactly this mode; one that exists is checked, not changed."""
    try:
        path.mkdir(mode=_PRIVATE)
    except FileExistsError:
        check_owner(path)
    else:
        path.chmod(mode)


def system_folder() -> Path:
    """The folder for what root's server needs outside the home; made when missing."""
    SYSTEM_FOLDER.parent.mkdir(parents=True, exist_ok=True)
    make_folder(SYSTEM_FOLDER, _PASSABLE)
    return SYSTEM_FOLDER


def check_owner(path: Path) -> None:
    """
    Refuse a folder that another user, or a link, has put in the place of ours.

    Raises:
        UnavailableError: It is not a folder of this process's user.
    """
    status = path.lstat()
    if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid():
        return
    owner, caller = user_name(status.st_uid), user_name(os.geteuid())
    raise unavailable(
        path,
        "other_owner",
        f"{path} was made by {owner} and cannot be used by {caller}. "
        f"Run as {owner}, or set MEMORIALE_HOME to a folder of your own.",
    )


def read_text(path: Path) -> str | None:
    """The text of a small file, None when it does not exist; never follows a link or waits."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        return os.fsdecode(os.read(descriptor, _LONGEST_TEXT))
    finally:
        os.close(descriptor)


def write_text(path: Path, text: str) -> None:
    """Put a file of mode 0600 in its place whole, also when the machine stops in between."""
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(os.fsencode(text))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Make the entries of a folder durable, where the caller may read it and the system can."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems know no fsync of folders.
        if error.errno not in (errno.EINVAL, errno.EBADF):
            raise
    finally:
        os.close(descriptor)
