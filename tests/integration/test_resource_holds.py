"""A legal hold keeps a resource's facts from compaction, also those that a child inherited."""

import pytest

from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.resources.ledger_compaction import compact
from memoriale.adapters.library.resources.ledger_semantic import LedgerSemanticMemory
from memoriale.domain.errors import RefusedError
from memoriale.domain.resources.facts import MemoryFact
from memoriale.domain.resources.ref import ResourceRef
from tests.fixtures.holds import hold

PARENT, CHILD = ResourceRef("parent"), ResourceRef("child")
TEXTS = ["one", "two", "three"]


@pytest.mark.parametrize("held", ["parent", "child"])
def test_nothing_that_is_held_is_compacted(shared_ledger: Ledger, tenant: str, held: str) -> None:
    """A hold on the resource, or on the one that it inherited from, refuses the retirement by
    compaction and is reported by ``compact``; corrections and forgetting go on."""
    facts = LedgerSemanticMemory(shared_ledger, tenant=tenant)
    facts.remember_many(PARENT, [MemoryFact(content=text) for text in TEXTS])
    facts.fork(PARENT, CHILD)
    hold(shared_ledger.memory(tenant=tenant, resource=held), "resource")
    (first, second, _) = facts.list_all(CHILD)
    with pytest.raises(RefusedError):
        facts.replace(CHILD, [first.id], [MemoryFact(content="shorter")])
    report = compact(facts, CHILD, max_facts=1)
    assert (report.checked, report.changed) == (3, 0)
    assert {(str(one.id), one.reason) for one in report.skipped} == {
        (fact.id, "legal hold") for fact in (first, second)
    }
    assert [fact.content for fact in facts.list_all(CHILD)] == TEXTS
    facts.correct(CHILD, first.id, "better", reason="said so")
    assert facts.forget(CHILD, [second.id]) == 1
    assert [fact.content for fact in facts.list_all(CHILD)] == ["three", "better"]
    assert [fact.content for fact in facts.list_all(PARENT)] == TEXTS
