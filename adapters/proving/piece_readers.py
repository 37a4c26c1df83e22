"""Reading the pieces of a long log in several processes."""

import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from types import TracebackType
from typing import Final, Self

from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.adapters.proving.piece_process import parse
from memoriale.projections.proofs.unbroken import Joining, Piece
from memoriale.projections.proofs.verify import Expected

MOST_PROCESSES: Final = 8
_ASKED_AHEAD: Final = 2
"""Pieces asked for and not joined yet, for each process."""


def processors() -> int:
    """How many processors this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed is not None else os.cpu_count() or 1


class PieceReaders:
    """
    Child processes that read pieces of one log, each with a connection of its own.

    Args:
        log: The log.
        count: How many processes.

    Raises:
        OSError: They cannot be started.
    """

    def __init__(self, log: TenantLog, count: int) -> None:
        self._processes: list[subprocess.Popen[str]] = []
        self._free: SimpleQueue[subprocess.Popen[str]] = SimpleQueue()
        first = {
            "url": log.reader.datastore.reading_url(),
            "tenant": log.tenant,
            "kind": log.log.kind,
            "log_id": str(log.log_id),
        }
        try:
            for _ in range(count):
                self._free.put(self._started(json.dumps(first)))
        except OSError:
            self.close()
            raise
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="memoriale-pieces")

    def pieces(
        self, joining: Joining, stop: int, size: int
    ) -> Iterator[tuple[Piece | None, Sequence[Expected]]]:
        """
        The pieces of a log in order, each with the signed roots that fall into it.

        Args:
            joining: Where they are joined.
            stop: Index after the last one; a multiple of ``size``.
            size: Events of a piece.

        Raises:
            OSError: A process died, or gave no answer that can be read.
        """
        asked: deque[tuple[Future[Piece | None], Sequence[Expected]]] = deque()
        for start in range(0, stop, size):
            here = joining.until(start + size)
            request = {"start": start, "stop": start + size, "sizes": [one.size for one in here]}
            asked.append((self._threads.submit(self._read, json.dumps(request)), here))
            if len(asked) >= _ASKED_AHEAD * len(self._processes):
                future, roots = asked.popleft()
                yield future.result(), roots
        for future, roots in asked:
            yield future.result(), roots

    def close(self) -> None:
        """Ends the processes."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Those that are killed answer nothing, which ends the threads that wait for them.
        for process in self._processes:
            process.kill()
        self._threads.shutdown(cancel_futures=True)
        self.close()

    def _started(self, first: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "memoriale.adapters.proving.piece_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            # Ctrl-C is for the parent, which ends its children.
            start_new_session=True,
        )
        self._processes.append(process)
        self._sent(process, first)
        return process

    def _read(self, request: str) -> Piece | None:
        process = self._free.get()
        try:
            self._sent(process, request)
            assert process.stdout is not None
            return parse(process.stdout.readline())
        except (ValueError, KeyError, TypeError) as error:
            raise OSError(
                f"a process that read a piece of the log gave no answer: {error}"
            ) from error
        finally:
            self._free.put(process)

    @staticmethod
    def _sent(process: "subprocess.Popen[str]", line: str) -> None:
        assert process.stdin is not None
        process.stdin.write(line + "\n")
        process.stdin.flush()
