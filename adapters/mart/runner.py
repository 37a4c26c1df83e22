"""Starts the child process for a query, waits for it as long as it may take, and ends it."""

import json
import os
import signal
import subprocess
import sys
from threading import Timer
from typing import Any, Final

from memoriale.domain.errors import InputError, UnavailableError
from memoriale.domain.text import shown
from memoriale.projections.stats.snapshots import Snapshot

MAX_BYTES: Final = 8 * 1024**2
"""Most bytes of an answer's rows, as JSON."""
_SLACK: Final = 2 * 1024**2
_START: Final = 20.0
"""Seconds that the process may take to begin and to end, besides the query's own."""
_TOO_LONG: Final = (-signal.SIGALRM, -signal.SIGXCPU)
_TOO_LARGE: Final = (-signal.SIGKILL, -signal.SIGABRT, -signal.SIGBUS)


class SnapshotError(Exception):
    """The child could not read the snapshot."""


def run_query(
    snapshot: Snapshot, descriptor: int, query: str, *, rows: int, seconds: float
) -> dict[str, Any]:
    """
    Runs a query on a snapshot in a process of its own.

    Args:
        snapshot: What is asked.
        descriptor: Keeps the snapshot from being removed; the child inherits it.
        query: Text from a user.
        rows: Most rows of the answer.
        seconds: Time that it may take.

    Returns:
        ``columns``, ``rows`` and ``truncated``.

    Raises:
        InputError: ``bad_query``, ``refused_query``, ``time_limit`` or ``memory_limit``.
        SnapshotError: The snapshot is damaged or gone.
        UnavailableError: No process can be started.
    """
    request = {
        "path": str(snapshot.path),
        "query": query,
        "rows": rows,
        "bytes": MAX_BYTES,
        "seconds": seconds,
    }
    output, code = _run(json.dumps(request).encode(), descriptor, seconds + _START)
    try:
        answer: dict[str, Any] = json.loads(output)
    except ValueError:
        raise _died(query, code, seconds) from None
    if "error" in answer:
        raise _failed(query, **answer["error"])
    return answer


def _run(request: bytes, descriptor: int, seconds: float) -> tuple[bytes, int]:
    try:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "memoriale.adapters.mart.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment(),
            cwd="/",
            pass_fds=(descriptor,),
            start_new_session=True,
        )
    except OSError as error:
        raise UnavailableError(f"no process can be started for the query: {error}.") from error
    timer = Timer(seconds, process.kill)
    timer.start()
    try:
        assert process.stdin is not None and process.stdout is not None
        with process.stdin, process.stdout:
            try:
                process.stdin.write(request)
                process.stdin.close()
            except BrokenPipeError:
                pass
            output = process.stdout.read(MAX_BYTES + _SLACK)
        return output, process.wait()
    finally:
        timer.cancel()
        process.kill()
        process.wait()


def _environment() -> dict[str, str]:
    # Nothing of ours: addresses and keys may stand there.
    return {
        "PYTHONPATH": os.pathsep.join(os.path.abspath(path) for path in sys.path if path),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": "/nonexistent",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
    }


def _failed(query: str, kind: str, message: str) -> Exception:
    if kind == "snapshot":
        return SnapshotError(message)
    if kind == "memory":
        return _too_large(query)
    code = "refused_query" if kind == "refused" else "bad_query"
    return InputError(
        f"the query cannot be run: {message}",
        code=code,
        field="query",
        value=shown(query),
        allowed="one SELECT over the tables that 'describe' lists",
    )


def _died(query: str, code: int, seconds: float) -> Exception:
    if code in _TOO_LONG:
        return InputError(
            f"the query took longer than {seconds:g} s; ask for less, or allow more time.",
            code="time_limit",
            field="query",
            value=shown(query),
            allowed=f"{seconds:g} s",
        )
    if code in _TOO_LARGE:
        return _too_large(query)
    return _failed(query, "query", f"it ended the process that ran it, with status {code}")


def _too_large(query: str) -> InputError:
    return InputError(
        "the query needs more memory than it may have; ask for less.",
        code="memory_limit",
        field="query",
        value=shown(query),
        allowed="2 GiB of address space",
    )
