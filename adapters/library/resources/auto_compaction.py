"""Compaction by itself, in the background of the calls that remember."""

import logging
import threading
from collections import Counter
from typing import Any

from memoriale.adapters.library.resources.compaction import compact_semantic_memory
from memoriale.domain.resources.compaction import AutoCompactOptions, CompactionResult
from memoriale.domain.resources.ref import ResourceRef
from memoriale.domain.values import check_patience

_log = logging.getLogger("memoriale.resources")


class AutoCompaction:
    """
    Compacts resources after facts were remembered, in a thread that ends when there is nothing
    left to do. What goes wrong there is kept and logged, and never reaches who remembered.

    Args:
        provider: Lists and forgets facts.
        options: When, and what is retired.
    """

    def __init__(self, provider: Any, options: AutoCompactOptions) -> None:
        self._provider, self._options = provider, options
        self._changed = threading.Condition()
        self._counts: Counter[ResourceRef] = Counter()
        self._waiting: dict[ResourceRef, None] = {}
        self._thread: threading.Thread | None = None
        self._closed = False
        self.last_error: BaseException | None = None
        """What the last compaction failed with; None when it did not."""
        self.last_result: CompactionResult | None = None
        """What the last compaction that did not fail came to."""

    def remembered(self, ref: ResourceRef, count: int) -> None:
        """Says that facts were remembered; returns at once and raises nothing."""
        with self._changed:
            if self._closed:
                return
            self._counts[ref] += count
            if self._counts[ref] < self._options.check_every:
                return
            del self._counts[ref]
            self._waiting[ref] = None
            self._start()

    def wait(self, timeout: float | None = None) -> bool:
        """
        Waits until nothing is left to do.

        Args:
            timeout: Seconds at most; None: as long as it takes.

        Returns:
            Whether it came to that.
        """
        patience = check_patience("timeout", timeout)
        with self._changed:
            return self._changed.wait_for(lambda: self._thread is None, patience)

    def close(self) -> None:
        """Ends when what was due is done; facts that are remembered later are not compacted."""
        with self._changed:
            self._closed = True
        self.wait()

    def _start(self) -> None:
        if self._thread is not None and self._thread.is_alive():
            return
        self._thread = threading.Thread(target=self._work, name="memoriale-compaction", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            # The system has no thread to give: the next fact that is remembered tries again.
            self._thread, self.last_error = None, error

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._waiting:
                    self._thread = None
                    self._changed.notify_all()
                    return
                ref = next(iter(self._waiting))
                del self._waiting[ref]
            self._compact(ref)

    def _compact(self, ref: ResourceRef) -> None:
        limits = self._options.compaction()
        try:
            self.last_result = compact_semantic_memory(
                self._provider,
                ref,
                max_facts=limits.max_facts,
                max_age=limits.max_age,
                summarize=limits.summarize,
            )
            self.last_error = None
        except BaseException as error:
            # Nobody waits here: it is told to who asks, and to the log.
            self.last_error = error
            _log.warning("compaction failed: %s: %s", type(error).__name__, error)
