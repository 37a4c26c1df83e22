"""Live memory in the demo: operations with handles, a tree of forks, and what happened when."""

import json
from collections.abc import Sequence
from threading import Event
from typing import Any

from memoriale.adapters.demo.page import Page
from memoriale.adapters.importing.locomo import Conversation, Turn
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.operations.making import agent_memory
from memoriale.domain.chat import ChatMessage, ModelReply
from memoriale.domain.operations.scopes import OperationScope
from memoriale.domain.operations.states import OperationStatus

_PATIENCE = 60.0
_TURNS = 3
USER = "visitor"
CREW = "crew"
"""Resource of the fork tree; its children are named after it."""


class StandIn:
    """
    In place of a language model, which the demo cannot bring: keeps what it was made with. It
    answers when it is let go.
    """

    model_id = "demo/stand-in"

    def __init__(self, said: Sequence[str]) -> None:
        self._said = said
        self.go = Event()

    def generate(self, messages: list[ChatMessage], **settings: Any) -> ModelReply:
        """Every turn as a fact."""
        self.go.wait(_PATIENCE)
        facts = [{"content": text, "importance": 0.6} for text in self._said]
        return ModelReply(text=json.dumps({"facts": facts}), model=self.model_id)


class Living:
    """
    The steps in the order in which they are called.

    Args:
        page: Where they are told.
        ledger: Where they happen.
        tenant: Whose.
        conversation: What is said to the operations.
    """

    def __init__(self, page: Page, ledger: Ledger, tenant: str, conversation: Conversation) -> None:
        self._page, self._ledger, self._tenant = page, ledger, tenant
        self._turns = [turn for turn in conversation.turns if turn.content.strip()][:_TURNS]
        self._crew = ledger.memory(tenant=tenant, resource=CREW)

    def operates(self) -> None:
        """Adds messages in the background, cancels, and searches, each with a handle."""
        page, said = self._page, [turn.content for turn in self._turns]
        page.heading("Hand messages over, and watch or cancel: operations with handles")
        page.says("A stand-in for a language model keeps each turn as it is.")
        model, scope = StandIn(said), OperationScope(user_id=USER)
        with agent_memory(self._ledger, tenant=self._tenant, llm=model) as memory:
            before = memory.size.get()
            first = memory.add(self._messages(), scope, op_id="ingest")
            second = memory.add(self._messages(), scope, op_id="ingest")
            waits = second.status
            second.cancel()
            model.go.set()
            done = first.result(_PATIENCE)
            page.table(
                ("operation", "status", "stored"),
                [
                    (first.id, first.status, len(done.stored_ids)),
                    (second.id, f"{waits}, then {second.status}", 0),
                ],
            )
            page.check(
                [fact.content for fact in done.extracted] == said and second.status == "cancelled",
                "the first add is done, and the one behind it was cancelled before it began",
            )
            stored = len({node.id for node in memory.get_all(scope)})
            page.check(
                memory.size.get() - before <= len(said) and stored > 0,
                f"{stored} items are kept, and the cancelled add stored nothing",
            )
            page.question(said[0])
            search = memory.search(said[0][:300], scope, op_id="query")
            hits = search.result(_PATIENCE)
            page.table((), [(f"{hit.score:.2f}", hit.content) for hit in hits])
            page.check(
                search.status == OperationStatus.COMPLETED
                and any(hit.id in done.stored_ids for hit in hits),
                f"the search {search.id!r} has its own handle, and finds what was added",
            )

    def branches_out(self) -> None:
        """Forks a resource's memory, forks that for another resource, and draws the tree."""
        page, crew = self._page, self._crew
        page.heading("Fork a resource's memory, and the fork for another resource: a tree")
        crew.working.set("plan", {"steps": ["look", "tell"]})
        crew.remember("The crew knows the way", kind="semantic")
        north = crew.fork("north")
        crew.remember("The crew found a shorter way", kind="semantic")
        north.remember("The north is empty", kind="semantic")
        north.working.set("plan", {"steps": ["wait"]})
        further = north.fork("further", resource=f"{CREW}-further")
        further.remember("Further north there is a hut", kind="semantic")
        tree = crew.episodic_tree()
        for node in tree.nodes:
            left = "" if node.at is None else f", from event {node.at} on"
            whose = "" if node.resource is None else f" ({node.resource.id}{left})"
            page.says(f"{'   ' * (node.depth - 1)}{'└─ ' if node.depth else ''}{node.name}{whose}")
        page.check(
            [node.depth for node in tree.nodes] == [0, 1, 2] and not tree.cycles,
            "each fork copied nothing and knows the point where it left",
        )
        known = {hit.content for hit in further.recall("the way", top_k=10, wait=_PATIENCE)}
        page.check(
            "The crew knows the way" in known and "The crew found a shorter way" not in known,
            "a fork of a fork knows what its ancestors knew then, and nothing later",
        )
        page.check(
            crew.working.get("plan") == {"steps": ["look", "tell"]}
            and further.working.get("plan") == {"steps": ["wait"]},
            "working memory is each one's own from the fork on",
        )
        self._further = further

    def looks_back(self) -> None:
        """Shows what happened along the lineage."""
        page = self._page
        page.heading("Look back along the lineage: what happened, in order")
        entries = self._further.episodic(branch="lineage", limit=20).entries
        page.table(
            (),
            [
                (entry.index, f"{entry.at:%H:%M:%S}", entry.event, entry.content or "")
                for entry in entries
            ],
        )
        indices = [entry.index for entry in entries]
        told = [entry.content for entry in entries]
        page.check(
            indices == sorted(indices)
            and "The crew knows the way" in told
            and "The crew found a shorter way" not in told,
            "each ancestor is told up to the point where it was left",
        )

    def _messages(self) -> list[ChatMessage]:
        return [ChatMessage(role="user", content=_line(turn)) for turn in self._turns]


def _line(turn: Turn) -> str:
    return f"{turn.speaker}: {turn.content}"
