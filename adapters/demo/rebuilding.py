"""The second half of the demo: a view breaks off, goes on, is rebuilt, and the log is verified."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from memoriale.adapters.demo.page import Page
from memoriale.adapters.importing.locomo import Conversation
from memoriale.adapters.importing.runner import import_lines
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory

BATCHES: Final = 80
"""Into how many the catch-up is cut that is killed: many, so that it is surely under way."""
LEAST_BEHIND: Final = 320
_PATIENCE: Final = 60.0


class Rebuilding:
    """
    The steps in the order in which they are called.

    Args:
        page: Where they are told.
        ledger: Where they happen.
        tenant: Whose.
        home: The ledger's home, for a process of its own.
    """

    def __init__(self, page: Page, ledger: Ledger, tenant: str, home: Path) -> None:
        self._page, self._ledger, self._tenant, self._home = page, ledger, tenant, home

    def kills_the_projector(
        self, conversation: Conversation, question: str, memory: Memory
    ) -> None:
        """Kills a process that posts the recall view half-way, and asks what was asked before."""
        page = self._page
        page.heading("Kill the projector in the middle of a catch-up")
        expected = memory.recall(question)
        start = self._ledger.position("recall", tenant=self._tenant)
        head = self._import_copies(conversation)
        page.says(f"The same turns come again as JSON lines, for other resources: {head} events.")
        code = self._kill_half_way(start, head)
        left = self._ledger.position("recall", tenant=self._tenant)
        page.says(f"The recall view stood at {start}; its projector was killed by SIGKILL.")
        page.check(
            code == -9 and start < left < head, f"the view was left at {left} of {head} events"
        )
        position = self._ledger.wait(head - 1, tenant=self._tenant, timeout=_PATIENCE)
        page.check(position == head, f"another process went on from there to {position}")
        answer = memory.recall(question)
        same = [hit.memory_id for hit in answer] == [hit.memory_id for hit in expected]
        page.check(same, f"the answer to {question!r} is as before")

    def rebuilds(self) -> None:
        """Rebuilds all views beside the live ones and compares."""
        page = self._page
        page.heading("Rebuild every view from the log, and compare")
        page.says("Views can be thrown away: everything in them comes from the log.")
        reports = self._ledger.replay("all", tenant=self._tenant, verify=True)
        page.table(
            ("view", "events", "a second", "digest live", "digest rebuilt"),
            [
                (
                    report.view,
                    report.events,
                    f"{report.events_per_second:,.0f}",
                    (report.digest_live or "none")[:16],
                    (report.digest_rebuilt or "none")[:16],
                )
                for report in reports
            ],
        )
        for report in reports:
            what = f"{report.view}: what was live equals what the log gives"
            page.check(report.equal is True, what)
            for line in report.differences:
                page.says(line)

    def verifies(self) -> None:
        """Reads every event of both logs again and checks the hashes."""
        page = self._page
        page.heading("Verify the log")
        started = time.monotonic()
        reports = self._ledger.verify(tenant=self._tenant)
        seconds = time.monotonic() - started
        for name, report in zip(("memory", "access"), reports, strict=True):
            page.check(
                report.ok, f"{name} log: {report.leaves} events hold, root {report.root[:16]}…"
            )
        leaves = sum(report.leaves for report in reports)
        page.says(f"Every hash was computed again: {leaves / seconds:,.0f} events a second.")

    def _import_copies(self, conversation: Conversation) -> int:
        importer = self._ledger.memory(tenant=self._tenant, user="importer")
        copies = -(-LEAST_BEHIND // len(conversation.turns))
        lines = [
            json.dumps(
                {
                    "content": turn.content,
                    "kind": "message",
                    "owner": "resource",
                    "resource": f"{conversation.sample_id} copy {copy + 1}",
                    "speaker": turn.speaker,
                }
            )
            for copy in range(copies)
            for turn in conversation.turns
        ]
        import_lines(importer, lines)
        return self._ledger.tenant(self._tenant).log.head()

    def _kill_half_way(self, start: int, head: int) -> int:
        batch = max(1, (head - start) // BATCHES)
        command = [sys.executable, "-m", "memoriale.adapters.demo.projector"]
        process = subprocess.Popen(
            [*command, str(self._home), self._tenant, str(batch)],
            stdout=subprocess.PIPE,
            text=True,
        )
        with process:
            assert process.stdout is not None
            try:
                for line in process.stdout:
                    if int(line) >= (start + head) // 2:
                        break
            finally:
                process.kill()
        return process.returncode
