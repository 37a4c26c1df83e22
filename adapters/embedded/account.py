"""The user that the server runs as: the caller, or for root, whom PostgreSQL refuses, another."""

import logging
import os
import pwd
import shutil
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path

from memoriale.adapters.embedded.failures import OUTSIDE_DATABASE, unavailable

_EXISTING = ("postgres", "memoriale", "_postgres")
_NEW = "memoriale"

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Account:
    """User and group of the server; `switched` when they are not those of this process."""

    uid: int
    gid: int
    name: str
    switched: bool

    @property
    def user(self) -> int | None:
        """The user id to change to when starting a program, None to stay."""
        return self.uid if self.switched else None

    @property
    def group(self) -> int | None:
        """The group id to change to, None to stay."""
        return self.gid if self.switched else None

    def give(self, path: Path) -> None:
        """Hand a file or folder made by this process over to the server's user."""
        if self.switched:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)

    def reaches(self, folder: Path) -> bool:
        """Whether the server's user may enter the folder and every folder above it."""
        return not self.switched or all(
            self._may_enter(place.stat()) for place in (folder, *folder.parents)
        )

    def _may_enter(self, status: os.stat_result) -> bool:
        if status.st_uid == self.uid:
            return bool(status.st_mode & stat.S_IXUSR)
        if status.st_gid == self.gid:
            return bool(status.st_mode & stat.S_IXGRP)
        return bool(status.st_mode & stat.S_IXOTH)


def server_account(home: Path, data: Path | None = None) -> Account:
    """
    Who runs, or is to run, the server.

    Args:
        home: Named in errors.
        data: Data directory. When it exists and the caller is root, its owner runs the server.

    Raises:
        UnavailableError: The caller has no entry in the password database, or is root on a
            system where no other user exists and none can be made.
    """
    if os.geteuid() != 0:
        return _caller(home)
    if data is not None and data.exists():
        return _owner(home, data)
    for name in _EXISTING:
        try:
            return _switched(pwd.getpwnam(name))
        except KeyError:
            continue
    return _switched(_add_user(home))


def _caller(home: Path) -> Account:
    uid = os.geteuid()
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        raise unavailable(
            home,
            "user_unknown",
            f"User id {uid} has no entry in the password database, and the embedded PostgreSQL "
            f"does not start without one. Run as a named user, or {OUTSIDE_DATABASE}.",
        ) from None
    return Account(uid, os.getegid(), entry.pw_name, switched=False)


def _owner(home: Path, data: Path) -> Account:
    uid = data.stat().st_uid
    try:
        if uid != 0:
            return _switched(pwd.getpwuid(uid))
    except KeyError:
        pass
    raise unavailable(
        home,
        "user_unknown",
        f"The database in {data} belongs to user id {uid}, which cannot run PostgreSQL here. "
        "Give the folder back to the user who made it.",
    )


def _switched(entry: pwd.struct_passwd) -> Account:
    return Account(entry.pw_uid, entry.pw_gid, entry.pw_name, switched=True)


def _add_user(home: Path) -> pwd.struct_passwd:
    program = shutil.which("useradd", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if program is not None:
        answer = subprocess.run(
            [
                *(program, "--system", "--user-group", "--no-create-home"),
                *("--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin", _NEW),
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        # A second root process may have made it in the meantime: only the entry counts.
        try:
            entry = pwd.getpwnam(_NEW)
        except KeyError:
            reason = os.fsdecode(answer.stderr).strip()
        else:
            _log.warning("PostgreSQL refuses root: made the system user %s to run it", _NEW)
            return entry
    else:
        reason = "there is no useradd"
    raise unavailable(
        home,
        "user_unknown",
        f"PostgreSQL refuses to run as root, and the system user {_NEW} cannot be made "
        f"({reason}). Run as an ordinary user, or {OUTSIDE_DATABASE}.",
    )
