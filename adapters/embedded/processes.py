"""Processes of this machine: looking at them, waiting for them, starting detached ones."""

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")


def wait_until(condition: Callable[[], bool], seconds: float, interval: float = 0.01) -> bool:
    """Ask `condition` every `interval` seconds; False when it was not met within `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(interval)
    return True


@dataclass(frozen=True)
class Process:
    """A process as the system sees it: owner, command line, and whether it is dead unreaped."""

    pid: int
    uid: int
    command: str
    zombie: bool


def look_up(pid: int) -> Process | None:
    """The process with this id, None if there is none."""
    if pid <= 0:
        return None
    return from_proc(pid) if (_PROC / "self/stat").exists() else from_ps(pid)


def from_proc(pid: int) -> Process | None:
    """`look_up` where the system has /proc."""
    folder = _PROC / str(pid)
    try:
        uid = folder.stat().st_uid
        stat = (folder / "stat").read_bytes()
        arguments = (folder / "cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name in brackets may itself hold brackets and spaces; the state follows the last one.
    state = stat.rpartition(b")")[2].split()[0]
    command = os.fsdecode(arguments.rstrip(b"\0").replace(b"\0", b" "))
    return Process(pid, uid, command, state in (b"Z", b"X"))


def from_ps(pid: int) -> Process | None:
    """`look_up` where it has not (macOS)."""
    answer = subprocess.run(
        ["ps", "-ww", "-o", "uid=,state=,command=", "-p", str(pid)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    fields = os.fsdecode(answer.stdout).strip().split(maxsplit=2)
    if len(fields) < 2:
        return None
    uid, state, *command = fields
    return Process(pid, int(uid), command[0] if command else "", state.startswith("Z"))


def quit_all_in(folder: Path, name: str, user: int | None, group: int | None) -> None:
    """
    Send SIGQUIT to every process called `name` whose working directory is `folder`.

    Args:
        folder: The working directory.
        name: Name of the program.
        user: User id to look as, with `group`: root itself may not see where another user's
            process works, as in a container without the right to trace. None to stay.
        group: Group id, given together with `user`.

    Does nothing on a system without /proc.
    """
    script = """
        for place in /proc/[0-9]*; do
            read -r name < "$place/comm" && [ "$name" = "$1" ] &&
                [ "$place/cwd" -ef "$2" ] && kill -QUIT "${place#/proc/}"
        done
        true
    """
    subprocess.run(
        ["/bin/sh", "-c", script, "sh", name, str(folder)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd="/",
        user=user,
        group=group,
        extra_groups=None if user is None else [],
        check=True,
    )


def start_detached(
    command: Sequence[str],
    *,
    log: int,
    environment: Mapping[str, str],
    folder: Path,
    keep: Sequence[int] = (),
    user: int | None = None,
    group: int | None = None,
) -> int:
    """
    Start a program that outlives this process and never becomes its zombie.

    Args:
        command: Program and arguments.
        log: Open file that takes its output.
        environment: Its whole environment.
        folder: Its working directory.
        keep: Open files that it inherits.
        user: User id to run as, with `group` and no further groups; default: the caller.
        group: Group id, given together with `user`.

    Returns:
        The process id.

    Raises:
        OSError: It could not be started as that user.
    """
    # The shell leaves at once, so the program is nobody's child here and needs no reaping.
    shell = subprocess.run(
        ["/bin/sh", "-c", '"$@" >&2 & echo $!', "sh", *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=log,
        env=environment,
        cwd=folder,
        pass_fds=keep,
        start_new_session=True,
        user=user,
        group=group,
        extra_groups=None if user is None else [],
        check=True,
    )
    return int(shell.stdout)
