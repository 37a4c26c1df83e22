"""The git command line on a bare repository: no shell, no questions, no hooks, a time limit."""

import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

_SECONDS: Final = 30
_ALWAYS: Final = (
    "-c",
    "user.name=memoriale",
    "-c",
    "user.email=memoriale@localhost",
    "-c",
    "commit.gpgSign=false",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "gc.auto=0",
    "-c",
    "protocol.ext.allow=never",
)
_REJECTED: Final = ("[rejected]", "[remote rejected]", "non-fast-forward", "fetch first")


class GitError(Exception):
    """
    Git failed.

    Args:
        said: What it said, in one line.
    """

    def __init__(self, said: str) -> None:
        super().__init__(said)
        self.said = said

    @property
    def was_rejected(self) -> bool:
        """Whether somebody else had pushed first."""
        return any(word in self.said for word in _REJECTED)


class Git:
    """
    A bare repository.

    Args:
        folder: Where it is.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def make(self) -> None:
        """Makes the repository if it is not there."""
        if not (self._folder / "HEAD").is_file():
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.run("init", "--quiet", "--bare", ".")

    def run(self, *arguments: str, given: bytes = b"", index: Path | None = None) -> bytes:
        """
        Runs one command and returns what it printed.

        Args:
            arguments: After ``git``.
            given: Its standard input.
            index: File of an index other than the repository's own.

        Raises:
            GitError: It failed, is not installed, or took too long.
        """
        environment = {k: v for k, v in os.environ.items() if k not in _OF_A_REPOSITORY}
        environment |= {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
        environment.setdefault("GIT_SSH_COMMAND", "ssh -o BatchMode=yes")
        if index is not None:
            environment["GIT_INDEX_FILE"] = str(index)
        try:
            process = subprocess.Popen(
                ["git", *_ALWAYS, *arguments],
                cwd=self._folder,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise GitError(f"git cannot be started: {error.strerror}") from error
        return _finished(process, given)

    def text(self, *arguments: str) -> str:
        """Runs one command and returns what it printed, as text."""
        return os.fsdecode(self.run(*arguments))

    def commit(self, name: str) -> str | None:
        """The commit that a name stands for."""
        try:
            return self.text("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}").strip()
        except GitError:
            return None

    def descends(self, later: str, earlier: str) -> bool:
        """Whether a commit has another among its ancestors."""
        base = ""
        try:
            base = self.text("merge-base", later, earlier).strip()
        except GitError as error:
            # Commits without a common ancestor: it fails and says nothing.
            if error.said:
                raise
        return base == earlier

    def changed(self, since: str | None, until: str, folder: str) -> str | None:
        """A file below a folder that some commit changed or removed, if there is one."""
        span = until if since is None else f"{since}..{until}"
        listed = self.text(
            "log", "-m", "--no-renames", "--diff-filter=a", "--name-only", "--format=", "-z",
            span, "--", folder,
        )  # fmt: skip
        return next((name for name in listed.split("\0") if name.strip()), None)

    def file(self, commit: str, path: str) -> bytes | None:
        """A file of a commit."""
        try:
            return self.run("cat-file", "blob", f"{commit}:{path}")
        except GitError as error:
            if "does not exist" in error.said or "Not a valid object" in error.said:
                return None
            raise

    def added(self, parent: str | None, files: Mapping[str, bytes], message: str) -> str:
        """A new commit on top of another: the same files and some more."""
        with TemporaryDirectory() as folder:
            index = Path(folder, "index")
            if parent is not None:
                self.run("read-tree", parent, index=index)
            for path, content in files.items():
                blob = self.run("hash-object", "-w", "--stdin", given=content).decode().strip()
                entry = f"100644,{blob},{path}"
                self.run("update-index", "--add", "--cacheinfo", entry, index=index)
            tree = self.run("write-tree", index=index).decode().strip()
        parents = [] if parent is None else ["-p", parent]
        return self.run("commit-tree", tree, *parents, "-m", message).decode().strip()


_OF_A_REPOSITORY: Final = frozenset(
    {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR"}
)


def _finished(process: "subprocess.Popen[bytes]", given: bytes) -> bytes:
    try:
        printed, complaint = process.communicate(given, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise GitError(f"git took more than {_SECONDS} seconds") from None
    if process.returncode:
        raise GitError(" ".join(complaint.decode(errors="replace").split())[-300:])
    return printed
