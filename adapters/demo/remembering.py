"""The first half of the demo: a history is imported, asked, changed, forked and looked back on."""

import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING
from uuid import UUID

from memoriale.adapters.demo.page import Page
from memoriale.adapters.demo.script import Script
from memoriale.adapters.importing.locomo import Conversation
from memoriale.adapters.importing.runner import import_file
from memoriale.adapters.library.ledger import Ledger
from memoriale.domain.keys import Subject
from memoriale.domain.receipt import Receipt

if TYPE_CHECKING:
    from memoriale.projections.recall.query import Hit

BRANCH = "what-if"
_PAGE = 1_000
_PATIENCE = 60.0


class Remembering:
    """
    The steps in the order in which they are called.

    Args:
        page: Where they are told.
        ledger: Where they happen.
        tenant: Whose.
        conversation: What is imported and asked.
        script: What is asked and changed.
    """

    def __init__(
        self, page: Page, ledger: Ledger, tenant: str, conversation: Conversation, script: Script
    ) -> None:
        self._page, self._ledger, self._script = page, ledger, script
        self._conversation = conversation
        self._tenant = tenant
        self.memory = ledger.memory(tenant=tenant, resource=conversation.sample_id)
        self._ids: dict[str, UUID] = {}
        self._before: dict[str, Sequence[Hit]] = {}
        self._pin = -1

    def imports(self, path: Path) -> None:
        """Imports the file twice."""
        page = self._page
        page.heading("Import a conversation")
        importer = self._ledger.memory(tenant=self._tenant, user="importer")
        first = import_file(importer, path, "locomo")
        turns = self._conversation.turns
        sessions = len({turn.session for turn in turns})
        page.says(
            f"{first.remembered} turns of {self._conversation.sample_id} in {sessions} sessions "
            f"became memories in {first.seconds:.2f} s ({_rate(first.remembered, first.seconds)} "
            "a second)."
        )
        page.says("Each is sealed with a key of its owner and durable in PostgreSQL.")
        page.check(first.remembered > 0, f"events 0 to {first.last_index} are in the ledger")
        again = import_file(importer, path, "locomo")
        page.check(
            again.remembered == 0 and again.skipped == first.remembered + first.skipped,
            f"the same import again stored nothing twice: {again.skipped} were known",
        )
        self._ledger.wait(self._head(), timeout=_PATIENCE, tenant=self._tenant)
        self._ids = self._by_turn()

    def asks(self) -> None:
        """Asks the questions that the script begins with."""
        page, seconds = self._page, []
        page.heading("Ask")
        for question in self._script.questions:
            page.question(question)
            started = time.perf_counter()
            hits = self.memory.recall(question).hits
            seconds.append(time.perf_counter() - started)
            page.hits(hits)
            page.require(len(hits) > 0, f"something is recalled for {question!r}")
        page.space()
        page.says(
            "Each hit with its score, date, speaker and words, found by keyword and by meaning at "
            f"once: median {median(seconds) * 1000:.0f} ms, and nothing left this machine."
        )
        for change in (self._script.correction, self._script.retraction):
            self._before[change.question] = self.memory.recall(change.question).hits
        self._pin = self._head()

    def corrects(self) -> None:
        """Corrects a memory and asks again."""
        page, change = self._page, self._script.correction
        page.heading("Correct a memory")
        memory_id = self._ids[change.dia_id]
        old = self.memory.show(memory_id).content
        assert change.content is not None
        receipt = self.memory.correct(
            memory_id, change.content, reason=change.reason, actor=self._script.actor
        )
        page.says(f"was:    {old}")
        page.says(f"is now: {change.content}")
        page.says(f"reason: {change.reason} (event {receipt.index})")
        hits = self._ask(change.question, receipt)
        stale = any(hit.memory_id == memory_id and hit.content == old for hit in hits)
        page.check(not stale, "the old words are recalled no more")
        found = any(hit.content == change.content for hit in hits)
        page.check(found, "the corrected memory answers in their place")

    def invalidates(self) -> None:
        """Invalidates a memory and asks again."""
        page, change = self._page, self._script.retraction
        page.heading("Invalidate a memory")
        memory_id = self._ids[change.dia_id]
        page.says(f"no longer to be recalled: {self.memory.show(memory_id).content}")
        receipt = self.memory.invalidate(
            memory_id, because="retracted", reason=change.reason, actor=self._script.actor
        )
        page.says(f"reason: {change.reason} (event {receipt.index})")
        hits = self._ask(change.question, receipt)
        page.check(memory_id not in _ids(hits), "the retracted memory is not recalled any more")

    def asks_as_of_before(self) -> None:
        """Asks as of the point before both changes."""
        page = self._page
        page.heading(f"Ask as of before: what was known at event {self._pin}")
        page.says("Nothing was overwritten, so any earlier answer can be given again.")
        for change in (self._script.correction, self._script.retraction):
            page.question(f"{change.question}  (as of {self._pin})")
            hits = self.memory.recall(change.question, as_of=self._pin).hits
            page.hits(hits)
            same = _answer(hits) == _answer(self._before[change.question])
            page.check(same, "the answer is the one that was given then, score for score")

    def forks(self) -> None:
        """Forks from before the changes, and changes something on the branch alone."""
        page, change = self._page, self._script.what_if
        page.heading(f"Fork the memory at event {self._pin}: what if?")
        main = self.memory.recall(change.question).hits
        branch = self.memory.fork(BRANCH, at=self._pin, reason=change.reason)
        page.says(f"Branch {BRANCH} begins before the changes and copies nothing.")
        assert change.content is not None
        receipt = branch.correct(
            self._ids[change.dia_id],
            change.content,
            reason=change.reason,
            actor=self._script.actor,
        )
        page.question(f"{change.question}  (branch {BRANCH})")
        self._ledger.wait(receipt, timeout=_PATIENCE)
        there = branch.recall(change.question).hits
        page.hits(there)
        page.question(f"{change.question}  (branch main)")
        here = self.memory.recall(change.question).hits
        page.hits(here)
        page.check(any(hit.content == change.content for hit in there), "the branch has changed")
        page.check(_answer(here) == _answer(main), "the main line has not")

    def shows_history(self) -> None:
        """Shows who changed what, when and why."""
        page = self._page
        page.heading("Look at the history: who, when, why")
        for change in (self._script.correction, self._script.retraction):
            versions = self.memory.history(self._ids[change.dia_id])
            page.table(
                (),
                [(v.index, _told(v.event, v.actor, v.reason), v.content or "") for v in versions],
            )
            page.check(
                len(versions) > 1 and any(v.reason == change.reason for v in versions),
                f"{len(versions)} versions of {change.dia_id} are kept, with the reason",
            )

    def _ask(self, question: str, after: Receipt) -> Sequence["Hit"]:
        self._ledger.wait(after, timeout=_PATIENCE)
        self._page.question(question)
        hits = self.memory.recall(question).hits
        self._page.hits(hits)
        return hits

    def _head(self) -> int:
        return self._ledger.tenant(self._tenant).log.head() - 1

    def _by_turn(self) -> dict[str, UUID]:
        found: dict[str, UUID] = {}
        after: int | None = -1
        while after is not None:
            listed = self.memory.list(limit=_PAGE, after=after)
            found |= {str(m.metadata.get("dia_id")): m.memory_id for m in listed.memories}
            after = listed.next
        return found


def _ids(hits: Sequence["Hit"]) -> set[UUID]:
    return {hit.memory_id for hit in hits}


def _answer(hits: Sequence["Hit"]) -> list[tuple[UUID, str, float]]:
    return [(hit.memory_id, hit.content, round(hit.score, 9)) for hit in hits]


def _told(event: str, actor: Subject | None, reason: str | None) -> str:
    who = "" if actor is None else f" by {actor.id}"
    return event.removeprefix("memory.") + who + ("" if reason is None else f":\n{reason}")


def _rate(count: int, seconds: float) -> str:
    return f"{count / seconds:,.0f}" if seconds else "very many"
