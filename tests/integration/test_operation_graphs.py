"""Relations that adds tell of: in the graph of the user, once each, by a job of their own."""

import json
from typing import Any, Final

import pytest

from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.stores.ledger_graph import LedgerGraph
from memoriale.domain.chat import ChatMessage, ModelReply
from memoriale.domain.errors import InputError
from tests.fixtures.embedded import eventually
from tests.fixtures.graphs import DictGraph
from tests.fixtures.operations import ALICE, BOB, Held, Make, said

LIVES: Final = {
    "nodes": [
        {"id": "user", "type": "person", "name": "Alice"},
        {"id": "turin", "type": "place", "name": "Turin"},
    ],
    "edges": [
        {"source_id": "user", "target_id": "turin", "type": "lives_in"},
        {"source_id": "user", "target_id": "turin", "type": "lives_in"},
        {"source_id": "user", "target_id": "nowhere", "type": "lives_in"},
    ],
}


class Relating:
    """A model that answers with a graph, and remembers what it was asked."""

    model_id = "relating"

    def __init__(self, *answers: Any) -> None:
        self.answers, self.asked = list(answers) or [LIVES], list[str]()

    def generate(self, messages: list[ChatMessage], **settings: Any) -> ModelReply:
        """The next answer; the last one for ever."""
        self.asked.append(messages[-1].text())
        found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return ModelReply(text=json.dumps(found), model=self.model_id)


def edges(memory: Memory) -> list[tuple[str, str, str]]:
    found = LedgerGraph(memory).traverse("user", 1).edges if memory.graph.get_node("user") else ()
    return [(edge.source_id, edge.type, edge.target_id) for edge in found]


def test_relations_go_into_the_graph_of_the_user(
    remembering: Make, shared_ledger: Ledger, tenant: str
) -> None:
    """However often they are told, each is there once; another user's graph has its own."""
    memory = remembering(knowledge_graph=True, graph_llm=Relating())
    for _ in range(3):
        memory.add(said("I live in Turin"), ALICE).result(30)
    alice, bob = (shared_ledger.memory(tenant=tenant, user=user) for user in ("alice", "bob"))
    jobs = shared_ledger.jobs

    def settled() -> bool:
        found = [job for job in jobs.list(tenant=tenant) if job.type == "extract.items_graph"]
        return len(found) == 3 and {job.status for job in found} == {"completed"}

    assert eventually(settled)
    assert edges(alice) == [("user", "lives_in", "turin")]
    assert edges(bob) == []
    memory.add(said("I live in Turin"), BOB).result(30)
    assert eventually(lambda: edges(bob) == [("user", "lives_in", "turin")])
    assert len(alice.graph.traverse("user", 1).edges) == 1


def test_a_cancelled_add_tells_of_no_relation(
    remembering: Make, shared_ledger: Ledger, tenant: str
) -> None:
    """The job of the graph is asked for in the append that stores the items, so not at all."""
    held, relating = Held(), Relating()
    memory = remembering(held, knowledge_graph=True, graph_llm=relating)
    add = memory.add(said("I live in Turin"), ALICE)
    assert held.asked.wait(30)
    add.cancel()
    held.go.set()
    memory.add(said("I live in Turin"), BOB).result(30)
    bob = shared_ledger.memory(tenant=tenant, user="bob")
    assert eventually(lambda: edges(bob) != [])
    assert len(relating.asked) == 1
    assert edges(shared_ledger.memory(tenant=tenant, user="alice")) == []


def test_a_graph_that_fails_leaves_the_items(
    remembering: Make, shared_ledger: Ledger, tenant: str
) -> None:
    """The add is completed; the graph's job says why it failed, and is tried again by itself."""
    relating = Relating({"nodes": "none"}, LIVES)
    memory = remembering(knowledge_graph=True, graph_llm=relating)
    assert memory.add(said("I live in Turin"), ALICE).result(30).stored_ids
    alice = shared_ledger.memory(tenant=tenant, user="alice")
    assert eventually(lambda: edges(alice) == [("user", "lives_in", "turin")])
    (job,) = (j for j in shared_ledger.jobs.list(tenant=tenant) if j.type == "extract.items_graph")
    assert job.attempts == 2


def test_instructions_of_the_program_are_asked_instead(
    remembering: Make, shared_ledger: Ledger, tenant: str
) -> None:
    """As they are, dollar signs too; what is known, the conversation and the form of the answer
    stay, and the provenance says that they were not those of this release."""
    relating = Relating()
    own = "Only who lives where. Costs $5, $name."
    memory = remembering(knowledge_graph=True, graph_llm=relating, graph_extraction_prompt=own)
    memory.add(said("I live in Turin"), ALICE).result(30)
    alice = shared_ledger.memory(tenant=tenant, user="alice")
    assert eventually(lambda: edges(alice) != [])
    (asked,) = relating.asked
    assert asked.startswith(own)
    assert "I live in Turin" in asked
    assert '"source_id"' in asked
    node = alice.graph.get_node("user")
    assert node is not None
    assert node.memory_id is not None
    explained = alice.explain(node.memory_id).versions[0]
    assert str(explained.prompt_version).startswith("graph/own-")


def test_relations_go_into_a_graph_of_the_programs_own(remembering: Make) -> None:
    """Where one is given; the ledger's stays empty."""
    own = DictGraph()
    memory = remembering(knowledge_graph=own, graph_llm=Relating())
    memory.add(said("I live in Turin"), ALICE).result(30)
    assert eventually(lambda: own.get_node("turin", user_id="alice") is not None)


def test_a_graph_needs_a_user(remembering: Make) -> None:
    """Graphs are users' own: an add of an agent alone is refused before it is accepted."""
    memory = remembering(knowledge_graph=True, graph_llm=Relating())
    with pytest.raises(InputError, match="user_id"):
        memory.add(said("x"), {"agent_id": "desk"})
    assert memory.inner.ledger.jobs.list(tenant=memory.inner.tenant) == []
