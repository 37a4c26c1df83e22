"""Facts that take the place of others name them, however many there are, in one append."""

from uuid import UUID

import pytest

from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.resources.ledger_semantic import LedgerSemanticMemory
from memoriale.domain.payloads.resources import Semantic
from memoriale.domain.resources.facts import MemoryFact
from memoriale.domain.resources.ref import ResourceRef

REF = ResourceRef("bot")


@pytest.mark.parametrize(("count", "second_names_them"), [(3, True), (501, False)])
def test_replacements_name_what_they_replace(
    shared_ledger: Ledger, tenant: str, count: int, second_names_them: bool
) -> None:
    """The first replacement names every fact that ended, the further ones those of few; each
    that ended names the first; all of it is one append, and history leads from one to another."""
    facts = LedgerSemanticMemory(shared_ledger, tenant=tenant)
    made = facts.remember_many(REF, [MemoryFact(content=f"fact {n}") for n in range(count)])
    before = shared_ledger.tenant(tenant).log.head()
    ids = [fact.id for fact in made]
    ended, new = facts.replace(REF, ids, [MemoryFact(content=text) for text in ("one", "two")])
    assert (ended, [fact.content for fact in new]) == (count, ["one", "two"])
    memory = shared_ledger.memory(tenant=tenant, resource="bot")
    rows = memory.services.log.reader.rows(after=before - 1)
    assert len(rows) == count + 2
    assert {row.recorded.append_last for row in rows} == {rows[-1].recorded.index}
    states = memory.services.reading.folded([UUID(fact.id) for fact in new], memory.branch_view())
    named = [
        state.payload.replaces for state in states.values() if isinstance(state.payload, Semantic)
    ]
    assert [[str(id_) for id_ in one] for one in named] == [ids, ids if second_names_them else []]
    shown = memory.show(ids[-1])
    assert (shown.status, shown.reason_code) == ("invalidated", "compacted")
    assert str(shown.replaced_by) == new[0].id
    versions = facts.history(REF, ids[0])
    assert {(v.id, v.event) for v in versions} >= {
        (ids[0], "remembered"),
        (ids[0], "replaced"),
        (new[0].id, "remembered"),
        (ids[-1], "replaced"),
    }
    assert [version.index for version in versions] == sorted(v.index or 0 for v in versions)
